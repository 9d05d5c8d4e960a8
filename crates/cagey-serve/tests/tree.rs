//! What a service depends on.

use std::collections::BTreeSet;
use std::process::Command;

#[test]
fn few_crates_and_no_tensors() {
    let tree = ["tree", "-p", "cagey-serve", "-e", "no-dev", "--prefix", "none", "--offline", "-f", "{p}"];
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let found = Command::new(cargo).args(tree).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let text = String::from_utf8_lossy(&found.stdout);
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!((5..=40).contains(&names.len()), "{}: {names:?}", names.len());
    let heavy = ["burn", "faer", "rayon", "cagey-core", "cagey", "getrandom"];
    assert!(heavy.iter().all(|name| !names.contains(name)), "{names:?}");
}
