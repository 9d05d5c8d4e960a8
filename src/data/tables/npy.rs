//! NumPy arrays.

use std::io::{self, Read};

use npyz::{Deserialize, NpyFile, Order};

use super::table::{Layout, Numbers, Table, positional_names};
use crate::{Error, Result};

/// An array `[n]` or `[n, width]`, read as rows.
pub(super) fn read(reader: Box<dyn Read>, file: String) -> Result<Box<dyn Table>> {
    let array =
        checked(reader).and_then(NpyFile::new).map_err(|e| Error::Data(format!("{file}: damaged NPY header: {e}")))?;
    let (n, width) = match *array.shape() {
        [n] => (n as usize, 1),
        [n, width] => (n as usize, width as usize),
        ref other => {
            return Err(Error::Data(format!(
                "{file}: the array has shape {other:?}; save it with one or two dimensions, rows first"
            )));
        }
    };
    let mut layout = Layout { file, names: Vec::new(), named: false };
    match n.checked_mul(width) {
        None => return Err(layout.error(format_args!("damaged NPY header: shape [{n}, {width}]"))),
        Some(0) => return Err(layout.error("the array is empty")),
        Some(_) => {}
    }
    let order = array.order();
    let values = numbers(array, &layout)?;
    // Only now is the width known to be right.
    layout.names = positional_names(width);
    let at = move |row: usize, column: usize| match order {
        Order::C => values[row * width + column],
        Order::Fortran => values[column * n + row],
    };
    Ok(Box::new(Numbers::new(layout, n, at)))
}

/// The most bytes of a header. NumPy itself refuses longer ones.
const LONGEST: usize = 10_000;
/// The most brackets that a header opens: two for an array of numbers, more for records, which are refused when they
/// are recognised. The parser's time doubles with each nested bracket.
const MOST_BRACKETS: usize = 8;

/// The stream, if its header can be parsed fast.
fn checked(mut reader: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let mut start = vec![0; 8];
    reader.read_exact(&mut start)?;
    // The length has two bytes in version 1 and four in later versions.
    let mut length = [0; 4];
    let width = if start[6] == 1 { 2 } else { 4 };
    reader.read_exact(&mut length[..width])?;
    start.extend(&length[..width]);
    let bytes = u32::from_le_bytes(length) as usize;
    let invalid = |problem: String| Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    if bytes > LONGEST {
        return invalid(format!("it is {bytes} bytes long, more than {LONGEST}; save the array again"));
    }
    let header = start.len();
    start.resize(header + bytes, 0);
    reader.read_exact(&mut start[header..])?;
    if start[header..].iter().filter(|byte| matches!(byte, b'(' | b'[' | b'{')).count() > MOST_BRACKETS {
        return invalid(format!("more than {MOST_BRACKETS} brackets; save a plain array of float64"));
    }
    Ok(Box::new(io::Cursor::new(start).chain(reader)))
}

/// All entries in the order of the file, whatever their number type.
fn numbers<R: Read>(array: NpyFile<R>, layout: &Layout) -> Result<Vec<f64>> {
    let dtype = array.dtype().descr();
    let array = &mut Some(array);
    entries(array, |x: f64| x)
        .or_else(|| entries(array, |x: f32| x.into()))
        .or_else(|| entries(array, |x: i64| x as f64))
        .or_else(|| entries(array, |x: i32| x.into()))
        .or_else(|| entries(array, |x: i16| x.into()))
        .or_else(|| entries(array, |x: i8| x.into()))
        .or_else(|| entries(array, |x: u64| x as f64))
        .or_else(|| entries(array, |x: u32| x.into()))
        .or_else(|| entries(array, |x: u16| x.into()))
        .or_else(|| entries(array, |x: u8| x.into()))
        .or_else(|| entries(array, |x: bool| x.into()))
        .ok_or_else(|| layout.error(format_args!("entries of type {dtype} cannot be read; save the array as float64")))?
        .map_err(|e| layout.error(format_args!("the array is cut short or damaged: {e}")))
}

/// The entries if the array holds type `T`; else the array is left in place for the next attempt.
fn entries<T: Deserialize, R: Read>(
    array: &mut Option<NpyFile<R>>,
    convert: impl Fn(T) -> f64,
) -> Option<io::Result<Vec<f64>>> {
    match array.take()?.try_data::<T>() {
        // Read entry by entry: the length in the header cannot be trusted with an allocation.
        Ok(data) => Some(data.map(|x| x.map(&convert)).try_fold(Vec::new(), |mut all, x| {
            all.push(x?);
            Ok(all)
        })),
        Err(other) => {
            *array = Some(other);
            None
        }
    }
}
