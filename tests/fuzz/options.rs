//! Options as people mistype them.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::{Scratch, each_case, mutated};

/// Options with right and wrong values.
const OPTIONS: [(&str, &[&str]); 38] = [
    ("--target", &["y", "x", "z", ""]),
    ("--features", &["x", "x,y", "x,x", ",", "w"]),
    ("--categorical", &["x", "y", "w"]),
    ("--one-hot", &[]),
    ("--dates", &[]),
    ("--text", &["auto", "refuse", "keep"]),
    ("--date-order", &["day", "month", "year"]),
    ("--missing", &["drop", "indicate", "reject", "keep"]),
    ("--header", &["yes", "no", "auto"]),
    ("--classes", &["0,1", "1,1", "a,b", ""]),
    ("--holdout", &["0.1", "0.99", "1", "nan", "-1"]),
    ("--holdout-last", &["0.2", "1e-9"]),
    ("--split-mask", &["t.csv", "none.csv"]),
    ("--model", &["exact", "cagp", "sgpr", "svgp", "swsgp", "laplace", "label-regression", "nearest", "auto"]),
    (
        "--kernel",
        &[
            "rbf",
            "matern12(ard)",
            "rbf*linear+white",
            "periodic(period=0)",
            "rbf(dims=[9])",
            "((rbf",
            "polynomial(3)",
            "1e300*rbf",
        ],
    ),
    ("--mean", &["zero", "constant", "linear", "cubic"]),
    (
        "--likelihood",
        &[
            "gaussian",
            "student-t",
            "bernoulli",
            "poisson",
            "softmax(3)",
            "softmax(0)",
            "gamma",
            "beta",
            "heteroscedastic",
            "x(",
        ],
    ),
    ("--init", &["noise=0.1", "noise=-1", "lengthscale=1e300", "noise", "=1", "noise=nan", "variance=1e-200"]),
    ("--fix", &["noise", "lengthscale", "everything"]),
    ("--bounds", &["noise=0.1..1", "lengthscale=1..1", "noise=..", "lengthscale=1e-90..1e90", "noise=2..1"]),
    ("--prior", &["noise=halfcauchy(1)", "lengthscale=gamma(2,1)", "noise=normal(0,0)", "x=lognormal(0,1)"]),
    ("--actions", &["1", "5", "1000000", "0"]),
    ("--policy", &["cg", "cholesky", "rows", "random", "learned", "eigenvector"]),
    ("--inducing", &["1", "4", "0", "99999999"]),
    ("--neighbors", &["1", "3", "99999999999"]),
    ("--batch", &["1", "7", "100000000"]),
    ("--optimizer", &["adam", "lbfgs", "sgd"]),
    ("--lr", &["0.1", "1e300", "1e-300", "0", "inf"]),
    ("--schedule", &["cosine", "linear", "square"]),
    ("--restarts", &["2", "0"]),
    ("--patience", &["1", "0"]),
    ("--max-time", &["0s", "10ms", "1h", "-1s", "1y", "1e99h"]),
    ("--seed", &["0", "18446744073709551615", "-1"]),
    ("--dtype", &["f32", "f64", "f16"]),
    ("--device", &["flex", "wgpu", "cuda", "rocm", "tpu"]),
    ("--target-transform", &["log", "log1p", "none"]),
    ("--no-standardize", &[]),
    ("--json", &[]),
];

const WORDS: [&str; 12] = ["0", "-", "=", "(", ")", ",", "..", "e", "nan", "é", "--", "9999999999999999999999"];

fn table(rng: &mut Xoshiro256PlusPlus) -> String {
    let scale = [1.0, 1e-140, 1e140, 0.0][[0, 0, 0, 0, 1, 2, 3][rng.random_range(0..7)]];
    let count = [1, 2, 25][rng.random_range(0..3)];
    let row = |i: i32| format!("{:e},{},{}\n", scale * f64::from(i * 7 % 11), i % 4, i % 2);
    format!("x,z,y\n{}", (0..count).map(row).collect::<String>())
}

#[test]
fn options_end_in_a_model_that_reads_or_in_an_error() {
    let scratch = Scratch::new();
    each_case("options", 60, |rng| {
        scratch.write("t.csv", table(rng));
        let mut arguments: Vec<String> = ["fit", "t.csv", "-o", "m.cagey", "--steps", "3"].map(String::from).into();
        for _ in 0..rng.random_range(1..5) {
            let (option, values) = OPTIONS[rng.random_range(0..OPTIONS.len())];
            // The first value is right most of the time.
            let which = if rng.random_bool(0.6) { 0 } else { rng.random_range(0..values.len().max(1)) };
            let mut value = values.get(which).map(|value| value.to_string());
            if rng.random_bool(0.15) {
                let text = mutated(rng, value.unwrap_or_default().into_bytes(), &WORDS);
                // No argument of a process can contain a zero byte.
                value = Some(String::from_utf8_lossy(&text).replace('\0', ""));
            }
            arguments.push(option.to_string());
            arguments.extend(value);
        }
        let _ = std::fs::remove_file(scratch.path("m.cagey"));
        let (code, _) = scratch.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code == 0, scratch.path("m.cagey").exists(), "{arguments:?}");
        if code == 0 {
            assert_eq!(scratch.run(&["inspect", "m.cagey"]).0, 0, "{arguments:?}");
            let (code, output) = scratch.run(&["predict", "m.cagey", "t.csv"]);
            let predicted = String::from_utf8(output.stdout).unwrap();
            assert!(code != 0 || !predicted.contains("NaN"), "{arguments:?}\n{predicted}");
        }
    });
}
