//! Bytes that are almost tables, for every reader.

use std::fs;
use std::io::Write;
use std::path::Path;

use cagey::data::{Header, LeaveOut, Missing, ReadOptions, RowFile, TargetKind, read_training, read_with_schema};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::{Scratch, each_case, mutated, pick, within_limit};

/// Words that break tables.
const WORDS: [&str; 34] = [
    ",",
    "\n",
    "\r",
    "\r\n",
    "\t",
    ";",
    "\"",
    "\"\"",
    "\u{feff}",
    "nan",
    "1e300",
    "-1e400",
    "1e150",
    "0x1p3",
    "NA",
    "é",
    "1,5",
    "2020-02-30",
    "2020-02-29T12:00:00Z",
    "+9999-01-01",
    "'",
    "\0",
    "((((",
    "{{{{",
    "[[[[",
    "}",
    "(0,)",
    "(18446744073709551615, 9)",
    "<f8",
    ">i8",
    "|S7",
    "<U9",
    "True",
    "-0",
];

fn table(rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut text = pick(rng, &["a,b,day,y\n", "", "a;b;day;y\n", "0,1,2,3\n", "y,y,a,b\n"]).to_string();
    for i in 0..rng.random_range(0..12) {
        let label = pick(rng, &["red", "blue", "1", "2.5", ""]);
        let day = pick(rng, &["2020-01-05", "2021-12-31", "7", "x"]);
        text += &format!("{},{label},{day},{}{}", 0.5 * f64::from(i), i % 3, pick(rng, &["\n", "\r\n", "\n\n"]));
    }
    text.into_bytes()
}

fn npy(rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let descr = pick(rng, &["'<f8'", "'>f8'", "'<f4'", "'<i2'", "'|b1'", "[('a', '<f8'), ('b', '<f8')]", "'|O'"]);
    let shape = pick(rng, &["(4, 2)", "(8,)", "()", "(2, 2, 2)", "(99999999, 99999999)", "(0, 3)"]);
    let order = pick(rng, &["False", "True"]);
    let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let values = (0..8).flat_map(|i| (0.5 * f64::from(i)).to_le_bytes());
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat().into_iter().chain(values).collect()
}

fn idx(rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let kind = [8, 9, 11, 12, 13, 14, 7][rng.random_range(0..7)];
    let shape: Vec<u32> = (0..rng.random_range(1..4)).map(|_| [1, 2, 3, 0, u32::MAX][rng.random_range(0..5)]).collect();
    let sizes = shape.iter().flat_map(|extent| extent.to_be_bytes());
    [0, 0, kind, shape.len() as u8].into_iter().chain(sizes).chain(0..rng.random_range(0..40)).collect()
}

fn rows(scratch: &Scratch) -> Vec<u8> {
    let table = scratch.write("source.csv", "a,b,y\n1,red,2\n2,blue,3\n4,red,5\n");
    RowFile::create(table, &ReadOptions { one_hot: true, ..ReadOptions::default() }, scratch.path("t.rows")).unwrap();
    fs::read(scratch.path("t.rows")).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn options(rng: &mut Xoshiro256PlusPlus) -> ReadOptions {
    let mut named = |name: &str| rng.random_bool(0.3).then(|| name.to_string());
    let (target, features, categorical) = (named("y"), named("a"), named("b"));
    ReadOptions {
        target,
        features: features.map(|name| vec![name]),
        categorical: categorical.into_iter().collect(),
        one_hot: rng.random(),
        dates: rng.random(),
        keep: rng.random(),
        missing: [Missing::Drop, Missing::Reject, Missing::Indicate][rng.random_range(0..3)],
        leave_out: [LeaveOut::Nothing, LeaveOut::Index, LeaveOut::Names][rng.random_range(0..3)],
        mix_unknown: rng.random(),
        header: [Header::Auto, Header::Yes, Header::No][rng.random_range(0..3)],
        target_kind: [TargetKind::Numbers, TargetKind::Classes, TargetKind::Auto][rng.random_range(0..3)],
        ..ReadOptions::default()
    }
}

/// Reads a file in every way; all numbers in the results must be finite.
fn read(path: &Path, options: &ReadOptions) {
    if let Ok(rows) = RowFile::open(path)
        && let Ok(data) = rows.read(&(0..rows.len()).collect::<Vec<_>>())
    {
        assert!(data.x.iter().chain(data.y.iter().flatten()).all(|value| value.is_finite()));
    }
    if let Ok((schema, data)) = read_training(path, options) {
        assert_eq!((data.x.len(), data.y.as_ref().map(Vec::len)), (data.n * data.d, Some(data.n)));
        assert!(data.x.iter().chain(data.y.iter().flatten()).all(|value| value.is_finite()));
        let again = read_with_schema(path, &schema, options, true).unwrap();
        assert_eq!((again.x, again.y), (data.x, data.y));
        let stored = RowFile::create(path, options, path.with_extension("rows")).unwrap();
        assert_eq!(stored.len(), data.n);
    }
}

#[test]
fn no_reader_panics_or_hangs() {
    let scratch = Scratch::new();
    let whole = rows(&scratch);
    each_case("inputs", 400, |rng| {
        let sound = match rng.random_range(0..5) {
            0 => npy(rng),
            1 => idx(rng),
            2 => whole.clone(),
            _ => table(rng),
        };
        let mut bytes = mutated(rng, sound, &WORDS);
        if rng.random_bool(0.1) {
            bytes = gzip(&bytes);
            if rng.random() {
                bytes = mutated(rng, bytes, &WORDS);
            }
        }
        let name = pick(rng, &["t.csv", "t.tsv", "t-images-idx3-ubyte", "t"]);
        let (path, options) = (scratch.write(name, bytes), options(rng));
        within_limit(move || read(&path, &options));
    });
}
