//! Tables larger than memory: a file of records of one length, read as minibatches draw them.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::options::ReadOptions;
use super::read::stream_training;
use super::scale::InputScale;
use super::schema::Schema;
use crate::atomic::write_atomically;
use crate::{Error, Result};

/// First bytes of the file.
const MAGIC: &[u8; 8] = b"cageyrow";
const NUMBER: usize = size_of::<f64>();

/// Inputs and targets on disk: little-endian doubles after a header with their number, means and standard deviations.
#[derive(Debug)]
pub struct RowFile {
    path: PathBuf,
    file: Mutex<File>,
    n: usize,
    /// Of the inputs and, last, the target.
    moments: InputScale,
}

impl RowFile {
    /// Copies a table of numbers to the file `path`, holding one row at a time.
    ///
    /// # Errors
    /// As [`read_training`](super::read_training); [`Error::Data`] for columns of text, whose encoding takes the whole table.
    pub fn create(table: impl AsRef<Path>, options: &ReadOptions, path: impl AsRef<Path>) -> Result<(Schema, Self)> {
        let path = path.as_ref();
        let mut schema = None;
        write_atomically(path, |temporary| {
            let io = |e: std::io::Error| Error::io(path, &e);
            let mut file = BufWriter::new(File::create(temporary).map_err(io)?);
            let mut moments: Vec<Moments> = Vec::new();
            let found = stream_training(table.as_ref(), options, |row| {
                if moments.is_empty() {
                    moments.resize(row.len(), Moments::default());
                    file.write_all(&vec![0; header(row.len())]).map_err(io)?;
                }
                moments.iter_mut().zip(row).for_each(|(moments, value)| moments.add(*value));
                row.iter().try_for_each(|value| file.write_all(&value.to_le_bytes())).map_err(io)
            });
            schema = Some(found?);
            let mut file = file.into_inner().map_err(|e| io(e.into_error()))?;
            file.seek(SeekFrom::Start(0)).map_err(io)?;
            let count = moments.first().map_or(0, |m| m.count);
            let mut head = MAGIC.to_vec();
            head.extend([count, moments.len() as u64].into_iter().flat_map(u64::to_le_bytes));
            head.extend(moments.iter().flat_map(|m| [m.mean, m.sd()]).flat_map(f64::to_le_bytes));
            file.write_all(&head).map_err(io)
        })?;
        let schema = schema.ok_or_else(|| Error::Data(format!("{}: nothing was written", path.display())))?;
        Ok((schema, Self::open(path)?))
    }

    /// Opens a file that [`create`](Self::create) wrote.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read, [`Error::Data`] when it is another file or cut short.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |e: std::io::Error| Error::io(path, &e);
        let bad = |problem: &str| Error::Data(format!("{}: {problem}; make it anew from its table", path.display()));
        let mut file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut start = [0; 24];
        file.read_exact(&mut start).map_err(|_| bad("not a file of rows"))?;
        let [count, width] = [8, 16].map(|at| u64::from_le_bytes(std::array::from_fn(|k| start[at + k])));
        let (n, width) = (count as usize, width as usize);
        let size = n.checked_mul(width).and_then(|cells| cells.checked_mul(NUMBER));
        let whole = size.zip(width.checked_mul(2 * NUMBER)).map(|(cells, moments)| (24 + moments + cells) as u64);
        if &start[..8] != MAGIC || width < 2 {
            return Err(bad("not a file of rows"));
        }
        if whole != Some(length) {
            return Err(bad(&format!("{length} bytes where {count} rows of {width} numbers should be")));
        }
        let mut head = vec![0; header(width) - 24];
        file.read_exact(&mut head).map_err(io)?;
        let (mean, sd) = numbers(&head).chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
        Ok(Self { path: path.into(), file: Mutex::new(file), n, moments: InputScale { mean, sd } })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Number of inputs.
    pub fn d(&self) -> usize {
        self.moments.mean.len() - 1
    }

    /// The standardisation of the inputs.
    pub fn input_scale(&self) -> InputScale {
        let part = |all: &[f64]| all[..self.d()].to_vec();
        InputScale { mean: part(&self.moments.mean), sd: part(&self.moments.sd) }
    }

    /// Mean and standard deviation of the target.
    pub fn target_moments(&self) -> (f64, f64) {
        (self.moments.mean[self.d()], self.moments.sd[self.d()])
    }

    /// Inputs, row-major, and targets of the given rows, in the units of the table.
    ///
    /// # Errors
    /// [`Error::Io`] when reading fails, [`Error::Usage`] for a row that there is not.
    pub fn read(&self, rows: &[usize]) -> Result<(Vec<f64>, Vec<f64>)> {
        let width = self.d() + 1;
        let (mut x, mut y) = (Vec::with_capacity(rows.len() * self.d()), Vec::with_capacity(rows.len()));
        let mut record = vec![0; width * NUMBER];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        for &row in rows {
            if row >= self.n {
                return Err(Error::Usage(format!("row {row} of {} in {}", self.n, self.path.display())));
            }
            let at = header(width) as u64 + (row * width * NUMBER) as u64;
            file.seek(SeekFrom::Start(at))
                .and_then(|_| file.read_exact(&mut record))
                .map_err(|e| Error::io(&self.path, &e))?;
            let values = numbers(&record);
            x.extend(&values[..width - 1]);
            y.push(values[width - 1]);
        }
        Ok((x, y))
    }
}

/// Bytes before the rows of `width` numbers.
fn header(width: usize) -> usize {
    24 + 2 * NUMBER * width
}

fn numbers(bytes: &[u8]) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&word| f64::from_le_bytes(word)).collect()
}

/// Mean and spread of numbers that pass by (Welford 1962).
#[derive(Debug, Clone, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
    }

    /// 1 for a constant.
    fn sd(&self) -> f64 {
        let sd = (self.squares / self.count as f64).sqrt();
        if sd > 0.0 { sd } else { 1.0 }
    }
}
