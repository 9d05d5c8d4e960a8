//! Trainings that are killed at any moment.

use std::path::Path;
use std::time::Duration;

use rand::RngExt;

use super::{Scratch, each_case};

const FIT: [&str; 10] =
    ["fit", "t.csv", "-o", "m.cagey", "--steps", "25", "--checkpoint", "state", "--checkpoint-every", "1"];

fn unfinished(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".cagey")).collect()
}

#[test]
fn kills_leave_whole_files_only() {
    let scratch = Scratch::new();
    let row = |i: i32| format!("{},{}\n", f64::from(i) * 0.3, (f64::from(i) * 0.3).sin());
    scratch.write("t.csv", format!("x,y\n{}", (0..25).map(row).collect::<String>()));
    each_case("kills", 15, |rng| {
        let mut fit = scratch.command(&[&["--threads", "1"], &FIT[..]].concat()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(rng.random_range(0..60_000)));
        #[cfg(unix)]
        if rng.random_bool(0.3) {
            // SAFETY: the process is this one's child and was not waited for.
            unsafe { libc::kill(fit.id() as libc::pid_t, libc::SIGTERM) };
        }
        if rng.random_bool(0.9) {
            let _ = fit.kill();
        }
        fit.wait().unwrap();
        if scratch.path("m.cagey").exists() {
            assert_eq!(scratch.run(&["inspect", "m.cagey"]).0, 0);
        }
        if scratch.path("state").exists() {
            assert_eq!(scratch.run(&[&FIT[..], &["--resume", "state"]].concat()).0, 0);
        } else {
            assert_eq!(scratch.run(&FIT).0, 0);
        }
        assert_eq!(unfinished(scratch.0.path()), [""; 0], "a run that ends removes what killed ones left");
        if rng.random() {
            std::fs::remove_file(scratch.path("state")).unwrap();
        }
    });
}
