//! Files that are almost models.

use std::path::Path;

use cagey::Error;
use cagey::data::{ReadOptions, read_with_schema};
use cagey::fitted::Fitted;
use cagey::model_file::{Array, ArrayData, ModelFile};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use super::{Scratch, each_case, mutated, pick, within_limit};

/// One model of each kind.
const KINDS: [&[&str]; 10] = [
    &["--kernel", "rbf(ard) + periodic * linear"],
    &["--model", "cagp", "--actions", "4"],
    &["--model", "cagp", "--actions", "4", "--policy", "cg"],
    &["--model", "sgpr", "--inducing", "4", "--mean", "linear"],
    &["--model", "svgp", "--inducing", "4", "--likelihood", "poisson"],
    &["--model", "swsgp", "--inducing", "4", "--neighbors", "2"],
    &["--model", "nearest", "--neighbors", "3"],
    &["--model", "laplace", "--likelihood", "student-t"],
    &["--model", "cagp", "--actions", "4", "--likelihood", "poisson"],
    &["--model", "label-regression", "--likelihood", "softmax"],
];

/// Every place of a document, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_string());
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, value)| places(value, &format!("{at}/{key}"), found)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, item)| places(item, &format!("{at}/{i}"), found)),
        _ => {}
    }
}

/// A different value to replace `value`.
fn other(rng: &mut Xoshiro256PlusPlus, value: &Value) -> Value {
    match (rng.random_range(0..8), value) {
        (0, _) => Value::Null,
        (1, _) => json!([]),
        (2, _) => json!({}),
        (3, _) => json!("rbf(variance=0)"),
        (4, Value::Array(items)) => items.iter().chain(items.first()).cloned().collect(),
        (5, Value::Array(items)) => items.iter().skip(1).cloned().collect(),
        (6, Value::Number(_)) => json!(rng.random_range(0..5_u64)),
        _ => json!([0.0, -1.0, 0.5, 1e-320, 1e300, 1e19, -7.0, 1e99][rng.random_range(0..8)]),
    }
}

fn edit(rng: &mut Xoshiro256PlusPlus, file: &mut ModelFile) {
    for _ in 0..rng.random_range(1..3) {
        if rng.random_bool(0.7) {
            let mut found = Vec::new();
            places(&file.document, "", &mut found);
            let at = found[rng.random_range(0..found.len())].clone();
            if let Some(value) = file.document.pointer_mut(&at) {
                *value = other(rng, value);
            }
            continue;
        }
        let names: Vec<String> = file.arrays.keys().cloned().collect();
        let Some(name) = names.get(rng.random_range(0..names.len().max(1))) else { continue };
        let mut values = file.arrays[name].data.clone().into_f64();
        match rng.random_range(0..4) {
            0 => {
                file.arrays.remove(name);
                continue;
            }
            1 => values.truncate(rng.random_range(0..=values.len())),
            2 => values.extend_from_within(..values.len().min(3)),
            _ if !values.is_empty() => {
                let at = rng.random_range(0..values.len());
                values[at] = [f64::NAN, f64::INFINITY, 1e300, -1.0, 0.0][rng.random_range(0..5)];
            }
            _ => {}
        }
        file.arrays.insert(name.clone(), Array { shape: vec![values.len()], data: ArrayData::F64(values) });
    }
}

/// Loads a model and predicts with it, or gets the error that it is not a model.
fn read(model: &Path, table: &Path) {
    match Fitted::load(model) {
        Ok(fitted) => {
            if let Ok(data) = read_with_schema(table, &fitted.schema, &ReadOptions::default(), false) {
                let _ = fitted.predict_targets(&data);
                let _ = fitted.predict_latent(&data);
            }
        }
        Err(Error::Usage(problem)) => panic!("a file is no fault of usage: {problem}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[test]
fn edited_models_are_refused_or_predict() {
    let scratch = Scratch::new();
    let row = |i: i32| format!("{},{},{}\n", i * 7 % 11, f64::from(i).sqrt(), i % 3);
    let table = scratch.write("t.csv", format!("a,b,y\n{}", (0..20).map(row).collect::<String>()));
    let models: Vec<Vec<u8>> = KINDS
        .iter()
        .map(|kind| {
            let fit = [&["fit", "t.csv", "-o", "m.cagey", "--steps", "2"], *kind].concat();
            assert_eq!(scratch.run(&fit).0, 0, "{kind:?}");
            std::fs::read(scratch.path("m.cagey")).unwrap()
        })
        .collect();
    let whole = scratch.path("whole.cagey");
    each_case("models", 300, |rng| {
        let bytes = &models[rng.random_range(0..models.len())];
        let path = if rng.random_bool(0.2) {
            scratch.write("edited.cagey", mutated(rng, bytes.clone(), &["}", "[", "0", "f32", "null", "\"x\":1,"]))
        } else {
            std::fs::write(&whole, bytes).unwrap();
            let mut file = ModelFile::load(&whole).unwrap();
            edit(rng, &mut file);
            let path = scratch.path(pick(rng, &["edited.cagey", "other.cagey"]));
            file.save(&path).unwrap();
            path
        };
        let table = table.clone();
        within_limit(move || read(&path, &table));
    });
}
