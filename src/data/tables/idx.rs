//! The IDX format of MNIST: arrays of any number of dimensions, rows first, big-endian.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::table::{Layout, Numbers, Table, positional_names};
use crate::{Error, Result};

/// Whether a file begins like an IDX file: two zeros, a number type, a number of dimensions.
pub(super) fn recognised(head: &[u8]) -> bool {
    matches!(head, [0, 0, kind, 1..=8, ..] if size(*kind).is_some())
}

/// Where the file of labels for a file of images would be, by MNIST's naming: `images` → `labels`, `idx3` → `idx1`.
pub(super) fn labels_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let other = name.replace("images", "labels").replace("idx3", "idx1");
    let path = path.with_file_name(&other);
    (other != name && name.contains("images") && path.is_file()).then_some(path)
}

/// A table of images: each image is a row, its pixels are columns. If there is a file of labels beside it, they are the
/// last column, `label`. Both come with the names of their files.
pub(super) fn read(
    (images, file): (Box<dyn Read>, String),
    labels: Option<(Box<dyn Read>, String)>,
) -> Result<Box<dyn Table>> {
    let images = Array::read(images, &file)?;
    let labels = labels.map(|(reader, file)| Array::read(reader, &file).map(|array| (array, file))).transpose()?;
    let mut names = positional_names(images.width);
    if let Some((labels, other)) = &labels {
        if labels.width != 1 || labels.n != images.n {
            return Err(Error::Data(format!(
                "{file}: its {} rows do not match the {} labels in {other}; rename that file if it does not belong to \
                 this one",
                images.n, labels.n
            )));
        }
        names.push("label".into());
    }
    // Users may name the column `label`; pixel columns have no names of their own.
    let layout = Layout { file, names, named: labels.is_some() };
    let (n, width) = (images.n, images.width);
    let at = move |row: usize, column: usize| match &labels {
        Some((labels, _)) if column == width => labels.number(row),
        _ => images.number(row * width + column),
    };
    Ok(Box::new(Numbers::new(layout, n, at)))
}

/// An array as bytes, `[n, width]`.
struct Array {
    bytes: Vec<u8>,
    kind: u8,
    n: usize,
    width: usize,
}

impl Array {
    fn read(mut reader: Box<dyn Read>, file: &str) -> Result<Self> {
        let damaged = |problem: String| Error::Data(format!("{file}: {problem}"));
        let short = |_| damaged("the IDX header is cut short".into());
        let mut head = [0; 4];
        reader.read_exact(&mut head).map_err(short)?;
        let [0, 0, kind, dimensions] = head else { return Err(damaged("this is not an IDX file".into())) };
        let Some(size) = size(kind) else { return Err(damaged(format!("IDX number type {kind:#04x} is unknown"))) };
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let mut extent = [0; 4];
            reader.read_exact(&mut extent).map_err(short)?;
            shape.push(u32::from_be_bytes(extent) as usize);
        }
        let product = |extents: &[usize]| extents.iter().try_fold(size, |total, e| total.checked_mul(*e));
        let expected = product(&shape).ok_or_else(|| damaged(format!("damaged IDX header: shape {shape:?}")))?;
        if expected == 0 || shape.is_empty() {
            return Err(damaged("the array is empty".into()));
        }
        // Read the bytes as they come: the length in the header cannot be trusted with an allocation.
        let mut bytes = Vec::new();
        let read = reader.take(expected as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|e| damaged(format!("the array is cut short or damaged: {e}")))?;
        if bytes.len() != expected {
            let what = if bytes.len() < expected { "ends early" } else { "goes on after its end" };
            return Err(damaged(format!("the array of shape {shape:?} {what}; copy the file again from its source")));
        }
        Ok(Self { bytes, kind, n: shape[0], width: expected / size / shape[0] })
    }

    fn number(&self, place: usize) -> f64 {
        fn word<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
            std::array::from_fn(|i| bytes[place * N + i])
        }
        let bytes = &self.bytes;
        match self.kind {
            0x08 => f64::from(bytes[place]),
            0x09 => f64::from(i8::from_be_bytes(word(bytes, place))),
            0x0b => f64::from(i16::from_be_bytes(word(bytes, place))),
            0x0c => f64::from(i32::from_be_bytes(word(bytes, place))),
            0x0d => f64::from(f32::from_be_bytes(word(bytes, place))),
            _ => f64::from_be_bytes(word(bytes, place)),
        }
    }
}

/// The bytes of a number of a type.
fn size(kind: u8) -> Option<usize> {
    match kind {
        0x08 | 0x09 => Some(1),
        0x0b => Some(2),
        0x0c | 0x0d => Some(4),
        0x0e => Some(8),
        _ => None,
    }
}
