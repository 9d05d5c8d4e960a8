//! A saved model comes back bit for bit, or is refused with a reason.

use cagey::Error;
use cagey::model_file::{Array, ArrayData, ModelFile};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn f64s(shape: &[usize], entries: Vec<f64>) -> Array {
    Array { shape: shape.to_vec(), data: ArrayData::F64(entries) }
}

fn example() -> ModelFile {
    let odd =
        vec![-0.0, 5e-324, f64::MIN_POSITIVE / 3.0, f64::MAX, f64::INFINITY, f64::from_bits(0x7ff8_0000_0000_0123)];
    let arrays = BTreeMap::from([
        ("alpha".to_owned(), f64s(&[2, 3], odd)),
        ("empty".to_owned(), f64s(&[0, 4], vec![])),
        ("scalar".to_owned(), f64s(&[], vec![0.1])),
        ("single".to_owned(), Array { shape: vec![3], data: ArrayData::F32(vec![-0.0, 1e-45, 0.1]) }),
    ]);
    let document =
        json!({"kernel": "rbf(x) + \"q\\\" -7 π", "n": u64::MAX, "k": i64::MIN, "nested": [[0.1, null], {"b": -0.0}]});
    ModelFile { document, arrays }
}

/// Every array as its shape and bit patterns, so that NaN and -0.0 count.
fn bits(model: &ModelFile) -> Vec<(&str, &[usize], bool, Vec<u64>)> {
    let words = |data: &ArrayData| match data {
        ArrayData::F64(entries) => (true, entries.iter().map(|entry| entry.to_bits()).collect()),
        ArrayData::F32(entries) => (false, entries.iter().map(|entry| u64::from(entry.to_bits())).collect()),
        other => panic!("{other:?}"),
    };
    model
        .arrays
        .iter()
        .map(|(name, array)| {
            let (double, words) = words(&array.data);
            (name.as_str(), array.shape.as_slice(), double, words)
        })
        .collect()
}

fn round_trip(model: &ModelFile) -> ModelFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    model.save(&path).unwrap();
    ModelFile::load(&path).unwrap()
}

fn load_bytes(bytes: &[u8]) -> cagey::Result<ModelFile> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cagey");
    fs::write(&path, bytes).unwrap();
    ModelFile::load(&path)
}

fn saved_bytes() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cagey");
    example().save(&path).unwrap();
    fs::read(path).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    match load_bytes(bytes) {
        Err(Error::ModelFile { path, problem }) => {
            assert!(path.ends_with("model.cagey"), "{path}");
            problem
        }
        other => panic!("not refused as a model file: {other:?}"),
    }
}

/// The bytes of a safetensors file with `metadata` and no arrays.
fn container(metadata: &[(&str, &str)]) -> Vec<u8> {
    let metadata = metadata.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    safetensors::serialize(BTreeMap::<String, safetensors::tensor::TensorView<'_>>::new(), Some(metadata)).unwrap()
}

#[test]
fn equal_models_are_equal_files() {
    let once = example().to_bytes().unwrap();
    assert!((0..20).all(|_| example().to_bytes().unwrap() == once));
}

#[test]
fn arrays_and_document_survive() {
    let model = example();
    let read = round_trip(&model);
    assert_eq!(bits(&read), bits(&model));
    assert_eq!(read.document.to_string(), model.document.to_string());
    assert_eq!(round_trip(&ModelFile::default()), ModelFile::default());
}

#[test]
fn extreme_floats_of_the_document_survive() {
    let extremes =
        [f64::MAX, f64::MIN, 5e-324, f64::MIN_POSITIVE, -0.0, 0.1 + 0.2, 1e23, 9_007_199_254_740_993.0, 1e22, 8.41e21];
    let read =
        round_trip(&ModelFile { document: json!({"-1": "2e5", "x": extremes, "y\\": 1.5}), ..ModelFile::default() });
    let numbers: Vec<_> =
        read.document["x"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap().to_bits()).collect();
    assert_eq!(numbers, extremes.map(f64::to_bits));
}

#[test]
fn the_file_is_plain_safetensors_with_the_promised_keys() {
    let bytes = saved_bytes();
    let (_, header) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let keys = header.metadata().clone().unwrap();
    assert_eq!(keys["format"], "cagey-model");
    assert_eq!(keys["version"], "2");
    assert_eq!(keys["cagey"], env!("CARGO_PKG_VERSION"));
    assert_eq!(keys["sha256"].len(), 64);
    assert_eq!(serde_json::from_str::<Value>(&keys["document"]).unwrap()["n"], json!(u64::MAX));
    assert_eq!(header.info("alpha").unwrap().shape, [2, 3]);
}

#[test]
fn long_lists_of_the_document_survive_beyond_the_limit_of_metadata() {
    // As text this is about 110 MB; safetensors allows 100.
    let list: Vec<f64> = (1..5_500_000).map(|k| -1.0 / f64::from(k)).collect();
    let document = json!({
        "a/b": [{"~1": list, "one": 1}],
        "integers": (0..100).collect::<Vec<i64>>(),
        "mixed": (0..100).map(|k| if k == 50 { json!(k) } else { json!(0.5) }).collect::<Vec<_>>(),
        "short": [0.5, -0.0],
    });
    let read = round_trip(&ModelFile { document: document.clone(), ..ModelFile::default() });
    assert!(read.document == document && read.arrays.is_empty());
    let bare = json!(vec![0.5; 100]);
    assert_eq!(round_trip(&ModelFile { document: bare.clone(), ..ModelFile::default() }).document, bare);
}

#[test]
fn names_of_lists_are_not_for_arrays() {
    let arrays = BTreeMap::from([("/short".to_owned(), f64s(&[1], vec![0.5]))]);
    let folder = tempfile::tempdir().unwrap();
    let refused = ModelFile { document: json!({"short": []}), arrays }.save(folder.path().join("model.cagey"));
    assert!(matches!(&refused, Err(Error::Usage(text)) if text.contains("`/short`")), "{refused:?}");
}

#[test]
fn foreign_newer_and_damaged_files_say_what_to_do() {
    assert!(refusal(b"").contains("truncated"));
    assert!(refusal(b"PK\x03\x04 some archive or other").contains("not a model file"));
    let bytes = saved_bytes();
    assert!(refusal(&bytes[..bytes.len() - 1]).contains("truncated"));
    let mut altered = bytes.clone();
    *altered.last_mut().unwrap() ^= 1;
    assert!(refusal(&altered).contains("checksum"));
    let foreign = refusal(&container(&[("format", "pt")]));
    assert!(foreign.contains("not a model of cagey"), "{foreign}");
    let newer = refusal(&container(&[("format", "cagey-model"), ("version", "7"), ("cagey", "9.1.0")]));
    assert!(
        newer.contains("format 7") && newer.contains("9.1.0") && newer.contains("install a newer cagey"),
        "{newer}"
    );
    assert!(refusal(&container(&[("format", "cagey-model"), ("version", "2")])).contains("document is missing"));
    assert!(refusal(&container(&[("format", "cagey-model"), ("version", "1")])).contains("does not exist"));
}

#[test]
fn missing_file_and_folder_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join("model.cagey");
    for failed in [ModelFile::load(&path).map(drop), example().save(&path)] {
        assert!(matches!(failed, Err(Error::Io { path: named, .. }) if Path::new(&named) == path));
    }
}

#[test]
fn saving_replaces_the_whole_file_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.cagey");
    fs::write(&path, "before").unwrap();
    let wrong = ModelFile { arrays: BTreeMap::from([("a".to_owned(), f64s(&[2, 2], vec![1.0; 3]))]), ..example() };
    assert!(matches!(wrong.save(&path), Err(Error::Shape { .. })));
    let reserved =
        ModelFile { arrays: BTreeMap::from([("__metadata__".to_owned(), f64s(&[1], vec![1.0]))]), ..example() };
    assert!(matches!(reserved.save(&path), Err(Error::Usage(_))));
    let deep = (0..200).fold(Value::Null, |inner, _| json!([inner]));
    assert!(matches!(ModelFile { document: deep, ..example() }.save(&path), Err(Error::Usage(_))));
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions.clone()).unwrap();
    assert!(matches!(example().save(&path), Err(Error::Io { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"before");
    fs::remove_file(&path).unwrap();
    example().save(&path).unwrap();
    example().save(&path).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays behind");
    assert!(matches!(example().save(folder.path()), Err(Error::Io { .. })));
}

proptest! {
    #[test]
    fn any_double_survives_in_array_and_document(words in prop::collection::vec(any::<u64>(), 1..50)) {
        let doubles: Vec<_> = words.iter().map(|&word| f64::from_bits(word)).collect();
        let finite: Vec<_> = doubles.iter().copied().filter(|x| x.is_finite()).collect();
        let arrays = BTreeMap::from([("x".to_owned(), f64s(&[doubles.len()], doubles))]);
        let read = round_trip(&ModelFile { document: json!(finite), arrays });
        prop_assert_eq!(&bits(&read)[0].3, &words);
        let numbers: Vec<_> = read.document.as_array().unwrap().iter().map(|x| x.as_f64().unwrap().to_bits()).collect();
        prop_assert_eq!(numbers, finite.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
    }

    #[test]
    fn the_largest_doubles_survive_in_the_document(below in 0_u64..1_000_000) {
        let large = f64::from_bits(f64::MAX.to_bits() - below);
        let read = round_trip(&ModelFile { document: json!(large), ..ModelFile::default() });
        prop_assert_eq!(read.document.as_f64(), Some(large));
    }

    #[test]
    fn damaged_bytes_are_refused_or_harmless(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        keep in prop_oneof![Just(None), any::<prop::sample::Index>().prop_map(Some)],
    ) {
        let mut bytes = saved_bytes();
        for (place, byte) in edits {
            *place.get_mut(&mut bytes) = byte;
        }
        bytes.truncate(keep.map_or(bytes.len(), |place| place.index(bytes.len())));
        if let Ok(read) = load_bytes(&bytes) {
            let model = example();
            prop_assert_eq!(bits(&read), bits(&model));
            prop_assert_eq!(read.document.to_string(), model.document.to_string());
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        refusal(&bytes);
    }
}

#[test]
fn no_single_damaged_byte_goes_unnoticed() {
    let bytes = saved_bytes();
    let model = example();
    for place in 0..bytes.len() {
        for flip in [0x01, 0x20, 0x80] {
            let mut damaged = bytes.clone();
            damaged[place] ^= flip;
            if let Ok(read) = load_bytes(&damaged) {
                assert_eq!(bits(&read), bits(&model), "byte {place}");
                assert_eq!(read.document.to_string(), model.document.to_string(), "byte {place}");
            }
        }
    }
}
