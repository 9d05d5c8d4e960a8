//! Files, names and folders that somebody else chose.

use std::fs;
use std::time::Duration;

use super::{Folder, position, table, wave};

/// A folder with two tables of experts, `a.csv` and `b.csv`, and `m.cagey`, which names them.
fn with_shards() -> Folder {
    let folder = Folder::with_tables();
    for (name, first) in [("a.csv", 0), ("b.csv", 15)] {
        folder.write(name, table(&["x", "y"], 15, |i| vec![position(i + first), wave(i + first)]));
    }
    folder.ok(&["fit", "--shards", "a.csv", "b.csv", "--steps", "3", "-o", "m.cagey"]);
    folder
}

impl Folder {
    /// `m.cagey` with other names in place of `a.csv`.
    fn naming(&self, path: &str) {
        self.edit("m.cagey", "crafted.cagey", |document| document["whereabouts"]["shards"][0]["path"] = path.into());
    }
}

#[test]
fn a_model_opens_no_file_that_only_it_names() {
    let folder = with_shards();
    folder.write("secret.txt", "password,hunter2\nmore,5\n");
    let outside = folder.path("secret.txt");
    let commands: [&[&str]; 4] = [
        &["predict", "crafted.cagey", "new.csv"],
        &["evaluate", "crafted.cagey", "ok.csv"],
        &["sample", "crafted.cagey", "new.csv"],
        &["plot", "crafted.cagey", "-o", "p.svg"],
    ];
    let silent = |command: &[&str], code: i32| {
        let ran = folder.run_with(command, "stolen,1\n");
        assert_eq!(ran.code, code, "{command:?}\n{}", ran.err);
        for secret in ["password", "hunter2", "stolen"] {
            assert!(!(ran.err.clone() + &ran.out).contains(secret), "{command:?}\n{}", ran.err);
        }
        ran.err
    };
    for (path, code, word) in [
        (outside.to_str().unwrap(), 2, "not below the working directory"),
        ("/etc/passwd", 2, "not below the working directory"),
        ("../secret.txt", 2, "not below the working directory"),
        ("secret.txt", 1, "not shown"),
        ("-", 1, "not a regular file"),
    ] {
        folder.naming(path);
        for command in commands {
            let said = silent(command, code);
            assert!(said.contains(word), "{path}: {said}");
        }
        silent(&["inspect", "crafted.cagey"], 0);
        silent(&["inspect", "crafted.cagey", "--json"], 0);
    }
    assert!(!folder.names().contains(&"p.svg".into()));
}

#[cfg(unix)]
#[test]
fn a_model_that_names_a_pipe_waits_for_nobody() {
    use std::os::unix::ffi::OsStrExt;
    let folder = with_shards();
    let pipe = std::ffi::CString::new(folder.path("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a string that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    folder.naming("pipe");
    let within = |arguments: &[&str]| {
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_cagey"));
        let ran =
            command.current_dir(folder.0.path()).args(arguments).timeout(Duration::from_secs(60)).output().unwrap();
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    assert_eq!(within(&["inspect", "crafted.cagey"]).0, Some(0));
    for shards in [&[][..], &["--shards", "pipe", "b.csv"]] {
        let (code, said) = within(&[&["predict", "crafted.cagey", "new.csv"], shards].concat());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("pipe: it is not a regular file"), "{said}");
    }
}

#[test]
fn tables_that_the_user_names_are_read_from_anywhere() {
    let folder = with_shards();
    let usual = folder.ok(&["predict", "m.cagey", "new.csv"]);
    fs::create_dir(folder.path("moved")).unwrap();
    for name in ["a.csv", "b.csv"] {
        fs::rename(folder.path(name), folder.path("moved").join(name)).unwrap();
    }
    let moved = folder.path("moved");
    let paths = ["a.csv", "b.csv"].map(|name| moved.join(name).to_str().unwrap().to_string());
    assert_eq!(folder.ok(&["predict", "m.cagey", "new.csv", "--shards", &paths[0], &paths[1]]), usual);
    folder.fails(2, &["predict", "m.cagey", "new.csv", "--shards", &paths[0]], &["1 tables", "trained on 2"]);
    folder.fails(1, &["predict", "m.cagey", "new.csv", "--shards", &paths[1], &paths[0]], &["not what the model"]);
    folder.ok(&["fit", "ok.csv", "--steps", "2", "-o", "whole.cagey"]);
    folder.fails(2, &["predict", "whole.cagey", "new.csv", "--shards", &paths[0]], &["holds its rows itself"]);
    // Errors of what the user names are complete.
    fs::write(&paths[1], "x,y\nmuch,1\n").unwrap();
    folder.fails(1, &["predict", "m.cagey", "new.csv", "--shards", &paths[0], &paths[1]], &["row 2", "`much`"]);
}

#[test]
fn no_control_sequence_is_printed() {
    let folder = Folder::new();
    let (column, label) = ("x\u{1b}[2J", "a\u{9b}31m\u{1b}]0;t\u{7}");
    let row = |i: usize| format!("{},{}\n", position(i), if i.is_multiple_of(3) { label } else { "b" });
    folder.write("t.csv", format!("{column},y\n{}", (0..30).map(row).collect::<String>()));
    folder.write("bad.csv", format!("{column},y\n\u{1b}[1mx,{label}\n"));
    let acts = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    let commands: [(&[&str], &str); 8] = [
        (&["fit", "t.csv", "-o", "m.cagey", "--steps", "3"], "\\u001b[2J"),
        (&["inspect", "m.cagey"], "a\\u009b31m"),
        (&["inspect", "m.cagey", "--json"], "a\\u009b31m"),
        (&["evaluate", "m.cagey", "t.csv"], "a\\u009b31m"),
        (&["predict", "m.cagey", "bad.csv"], "[1mx"),
        (&["fit", "t.csv", "--kernel", "rbf\u{1b}[2J"], "character `\\u001b`"),
        (&["fit", "\u{1b}[2J.csv"], "\\u001b[2J"),
        (&["fit", "t.csv", "--steps", "\u{1b}[2J"], "invalid value"),
    ];
    for (command, shown) in commands {
        let ran = folder.run(command);
        let printed = ran.out + &ran.err;
        assert!(!acts(&printed), "{command:?}: {printed:?}");
        assert!(printed.contains(shown), "{command:?}: {printed}");
    }
    let json = folder.json(&["inspect", "m.cagey", "--json"]);
    assert_eq!((json["inputs"][0].as_str(), json["classes"][0].as_str()), (Some(column), Some(label)));
}

#[test]
fn a_few_kilobytes_of_delimiters_fill_no_memory() {
    use std::io::Write;
    let folder = Folder::new();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![b','; 60_000_000]).unwrap();
    packed.write_all(b"\n1,2\n").unwrap();
    folder.write("wide.csv.gz", packed.finish().unwrap());
    assert!(fs::metadata(folder.path("wide.csv.gz")).unwrap().len() < 70_000);
    folder.fails(1, &["fit", "wide.csv.gz", "-o", "m.cagey"], &["wide.csv.gz", "row 1", "more than 1048576 cells"]);
}

#[cfg(target_os = "linux")]
mod unix {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::Folder;

    #[test]
    fn a_link_of_another_user_in_a_shared_folder_is_not_followed() {
        // SAFETY: the call only returns a number.
        if unsafe { libc::geteuid() } != 0 {
            return; // Only root can lay links for others.
        }
        let folder = Folder::with_model();
        let shared = folder.path("shared");
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
        folder.write("precious", "precious");
        fs::create_dir(folder.path("private")).unwrap();
        for (target, link) in [("../precious", "out"), ("../private", "within")] {
            symlink(target, shared.join(link)).unwrap();
            std::os::unix::fs::lchown(shared.join(link), Some(65534), Some(65534)).unwrap();
        }
        for output in ["shared/out", "shared/within/out"] {
            folder.fails(1, &["predict", "m.cagey", "new.csv", "-o", output], &[output, "link of another user"]);
            folder.fails(1, &["fit", "ok.csv", "--steps", "1", "-o", output], &[output, "link of another user"]);
        }
        assert_eq!(folder.read("precious"), "precious");
        // One's own link is followed.
        symlink("../mine", shared.join("own")).unwrap();
        folder.ok(&["predict", "m.cagey", "new.csv", "-o", "shared/own"]);
        assert!(folder.read("mine").contains("mean"));
    }

    #[test]
    fn a_finished_file_has_the_usual_mode_and_a_replaced_one_keeps_its_own() {
        let folder = Folder::with_model();
        let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().mode() & 0o777;
        folder.write("plain", "");
        assert_eq!(mode("m.cagey"), mode("plain"));
        fs::set_permissions(folder.path("m.cagey"), fs::Permissions::from_mode(0o640)).unwrap();
        folder.ok(&["fit", "ok.csv", "--steps", "1", "-o", "m.cagey"]);
        assert_eq!(mode("m.cagey"), 0o640);
    }
}
