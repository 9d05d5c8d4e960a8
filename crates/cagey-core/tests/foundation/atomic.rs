use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::Path;

use cagey_core::atomic::draft::{Draft, PREFIX, sweep};
use cagey_core::atomic::write_atomically;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Drafts of both kinds, if the system has both.
fn drafts(target: &Path) -> [Draft; 2] {
    [Draft::beside(target).unwrap(), Draft::named(target).unwrap()]
}

#[test]
fn drafts_take_the_name_of_their_target_and_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model.cagey");
    for round in 0..2 {
        for mut draft in drafts(&target) {
            draft.file.write_all(format!("round {round}").as_bytes()).unwrap();
            let mut file = draft.finish(&target).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), format!("round {round}"));
            file.rewind().unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, format!("round {round}"));
        }
    }
    assert_eq!(names(folder.path()), ["model.cagey"]);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_a_draft() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    for draft in drafts(&folder.path().join("model.cagey")) {
        assert_eq!(draft.file.metadata().unwrap().mode() & 0o777, 0o600);
    }
}

#[test]
fn abandoned_drafts_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("model.cagey");
    drop(drafts(&target));
    assert!(names(folder.path()).is_empty());
    fs::create_dir(&target).unwrap();
    for draft in drafts(&target) {
        assert!(draft.finish(&target).is_err());
    }
    assert_eq!(names(folder.path()), ["model.cagey"]);
}

#[test]
fn what_is_left_behind_goes_and_what_is_written_stays() {
    let folder = tempfile::tempdir().unwrap();
    let [left, mine] = ["left.png", "mine"].map(|name| folder.path().join(format!("{PREFIX}{name}")));
    fs::write(&left, "cut off").unwrap();
    fs::write(folder.path().join(".cagey-notes"), "kept").unwrap();
    let written = File::create(&mine).unwrap();
    written.lock().unwrap();
    sweep(folder.path());
    assert_eq!(names(folder.path()), [".cagey-notes".to_string(), format!("{PREFIX}mine")]);
    drop(written);
    write_atomically(&folder.path().join("out"), |file| {
        file.write_all(b"x").map_err(|e| cagey_core::Error::io("out", &e))
    })
    .unwrap();
    assert_eq!(names(folder.path()), [".cagey-notes", "out"]);
}

#[cfg(unix)]
#[test]
fn only_links_of_others_in_shared_folders_are_distrusted() {
    use cagey_core::atomic::links::distrusted;
    let (me, other, root) = (1000, 1001, 0);
    assert!(distrusted([other, root], 0o41777, me));
    // Also root follows no user's link there.
    assert!(distrusted([other, root], 0o41777, root));
    assert!(!distrusted([me, root], 0o41777, me));
    assert!(!distrusted([root, root], 0o41777, me));
    assert!(!distrusted([other, root], 0o40777, me), "without the sticky bit anybody may do anything");
    assert!(!distrusted([other, root], 0o41755, me));
}
