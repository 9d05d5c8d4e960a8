//! What a service depends on, and where it runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cagey::data::Dataset;
use cagey::fitted::Fit;

fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo
}

#[test]
fn few_crates_and_no_tensors() {
    let tree = ["tree", "-p", "cagey-serve", "-e", "no-dev", "--prefix", "none", "--offline", "-f", "{p}"];
    let found = cargo().args(tree).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let text = String::from_utf8_lossy(&found.stdout);
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!((5..=40).contains(&names.len()), "{}: {names:?}", names.len());
    let heavy = ["burn", "faer", "rayon", "cagey-core", "cagey", "getrandom"];
    assert!(heavy.iter().all(|name| !names.contains(name)), "{names:?}");
}

const TARGET: &str = "wasm32-unknown-unknown";

/// Whether a program is here and says that it is.
fn present(program: &str, arguments: &[&str]) -> Option<String> {
    let found = Command::new(program).args(arguments).output().ok()?;
    found.status.success().then(|| String::from_utf8_lossy(&found.stdout).trim().to_string())
}

/// A page's module is built, and predicts in Node what the library predicts. It is a crate of its own, since one of
/// this workspace would be built with the library.
#[test]
fn predicts_in_a_browser() {
    let library = present("rustc", &["--print", "target-libdir", "--target", TARGET]);
    if !library.is_some_and(|library| Path::new(&library).is_dir()) {
        eprintln!("no {TARGET} here: nothing is built for it");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!(
        "[package]\nname = \"browser\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\npath = {:?}\n\
         [dependencies]\ncagey-serve = {{ path = {here:?} }}\n[workspace]\n",
        here.join("tests/browser/lib.rs"),
    );
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(here.join("../../Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut build = cargo();
    build.current_dir(&folder).args(["build", "--offline", "--target", TARGET, "--target-dir"]).arg(target);
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));

    if present("node", &["--version"]).is_none() {
        eprintln!("no node here: the module is not run");
        return;
    }
    let x: Vec<f64> = (0..40).map(|i| 0.1 * f64::from(i)).collect();
    let y = x.iter().map(|x| x.sin()).collect();
    let data = Dataset::new(["x"], x).unwrap().with_target("y", y).unwrap();
    let fitted = Fit::new(&data).steps(5).store_factor(true).run().unwrap();
    let model = folder.path().join("model.cagey");
    fitted.save(&model).unwrap();
    let mut page = Command::new("node");
    page.arg(here.join("tests/browser/predict.mjs"));
    page.arg(target.join(TARGET).join("debug/browser.wasm")).arg(&model).args(["0.9", "1.25"]);
    let said = page.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let found: f64 = String::from_utf8_lossy(&said.stdout).trim().parse().unwrap();
    let want = fitted.predict_rows(&[1.25]).unwrap()[0].quantile(0.9);
    assert!((found - want).abs() <= 1e-12, "{found} {want}");
}
