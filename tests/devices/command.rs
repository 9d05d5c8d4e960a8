//! What the command says about a GPU, and what it refuses before a training.

use assert_cmd::Command;
use tempfile::TempDir;

use crate::gpus;

/// A folder with `table.csv`: 400 rows of a number `x` and a class `y`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let row = |i: usize| format!("{},{}\n", (i * 37 % 400) as f64 / 40.0, (i * 37 % 400) / 150);
    let table = String::from("x,y\n") + &(0..400).map(row).collect::<String>();
    std::fs::write(folder.path().join("table.csv"), table).unwrap();
    folder
}

/// What a training on every GPU of one step ended with: its exit code and standard error.
fn fits(arguments: &[&str]) -> Vec<(i32, String)> {
    let folder = folder();
    let fit = |kind: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cagey"));
        command.current_dir(folder.path()).args([
            "fit",
            "table.csv",
            "--steps",
            "1",
            "--device",
            kind,
            "-o",
            "m.cagey",
        ]);
        let output = command.args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let mut kinds: Vec<_> = gpus().iter().map(|compute| compute.kind.name()).collect();
    kinds.dedup();
    kinds.into_iter().map(fit).collect()
}

#[test]
fn a_training_says_what_the_gpu_computes() {
    let cases: [(&[&str], &[&str]); 2] = [
        (&["--model", "svgp", "--likelihood", "softmax"], &["matrices"]),
        (&["--likelihood", "gaussian", "--algebra", "device"], &["matrices factorised there"]),
    ];
    for (arguments, words) in cases {
        for (code, said) in fits(arguments) {
            assert!(code == 0 && words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn a_training_beyond_the_memory_is_refused_before_it_starts() {
    let cases: [(&str, &[&str]); 2] = [("exact", &["gaussian"]), ("svgp", &["gaussian", "softmax"])];
    for (model, likelihoods) in cases {
        for likelihood in likelihoods {
            let arguments = ["--model", model, "--likelihood", likelihood, "--device-memory", "10KB"];
            for (code, said) in fits(&arguments) {
                assert_eq!(code, 2, "{model}, {likelihood}: {said}");
                assert!(said.contains("the device has 0.0 GB"), "{model}, {likelihood}: {said}");
            }
        }
    }
}
