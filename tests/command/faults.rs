//! Faults of the process and the machine: limits, closed outputs, links, named pipes, damaged files.

use std::fs;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use cagey::model_file::ModelFile;
use serde_json::{Value, json};

use super::{Folder, Ran, position, table, wave};

/// Seconds that a refusal may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

impl Folder {
    /// Runs the command after `change` has changed it.
    fn run_changed(&self, arguments: &[&str], change: impl FnOnce(&mut std::process::Command)) -> Ran {
        let mut inner = std::process::Command::new(env!("CARGO_BIN_EXE_cagey"));
        inner.current_dir(self.0.path()).args(arguments);
        change(&mut inner);
        let output = Command::from_std(inner).timeout(LIMIT).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Changes the document of a model, and its checksum.
    pub fn edit(&self, from: &str, to: &str, edit: impl FnOnce(&mut Value)) {
        let mut file = ModelFile::load(self.path(from)).unwrap();
        edit(&mut file.document);
        file.save(self.path(to)).unwrap();
    }
}

/// Limits a resource of a process before it runs.
#[cfg(target_os = "linux")]
fn limit(command: &mut std::process::Command, resource: libc::__rlimit_resource_t, bytes: u64) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only calls that are safe for signals are made.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
            // A file that grows too large must fail, not end the process.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(resource, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_last_bytes_of_a_figure_count() {
    let folder = Folder::with_model();
    let plot = ["plot", "m.cagey", "-o", "p.png", "--points", "20"];
    folder.ok(&plot);
    let whole = fs::read(folder.path("p.png")).unwrap();
    assert_eq!(&whole[whole.len() - 8..whole.len() - 4], b"IEND");
    for missing in [1, 8, 2000] {
        let ran = folder.run_changed(&plot, |command| limit(command, libc::RLIMIT_FSIZE, whole.len() as u64 - missing));
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("p.png"), "{}", ran.err);
        assert_eq!(fs::read(folder.path("p.png")).unwrap(), whole, "the figure that was there stays");
    }
    assert_eq!(folder.names(), ["m.cagey", "new.csv", "ok.csv", "p.png"]);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_runs_out_is_an_error_like_others() {
    let folder = Folder::new();
    folder.write("large.csv", table(&["x", "y"], 20_000, |i| vec![position(i), wave(i)]));
    let fit = ["fit", "large.csv", "--model", "exact", "--steps", "1", "--threads", "2", "-o", "m"];
    let ran = folder.run_changed(&fit, |command| limit(command, libc::RLIMIT_AS, 2 << 30));
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("error: memory is exhausted") && !ran.err.contains("panicked"), "{}", ran.err);
    assert_eq!(folder.names(), ["large.csv"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_written_model_is_a_success_whatever_runs_out_afterwards() {
    let folder = Folder::new();
    let rows = |n: usize| table(&["x", "y"], n, |i| vec![position(i), wave(i)]);
    folder.write("t.csv", rows(40_000));
    // Training sees few rows; predictions of the others take the memory.
    let fit = ["fit", "t.csv", "--holdout-last", "0.9995", "--steps", "1", "--threads", "1", "-o", "m.cagey"];
    folder.ok(&fit);
    let before = fs::read(folder.path("m.cagey")).unwrap();
    let (mut low, mut high, mut seen) = (64 << 20, 256 << 20, [0, 0]);
    // Halves the distance between a limit that is too low to write the model and one that suffices for all.
    for _ in 0..12 {
        let middle = (low + high) / 2;
        fs::remove_file(folder.path("m.cagey")).unwrap();
        let ran = folder.run_changed(&fit, |command| limit(command, libc::RLIMIT_AS, middle));
        let written = folder.path("m.cagey").exists();
        if !written {
            folder.write("m.cagey", &before);
        }
        assert_eq!(written, ran.code == 0, "with {middle} bytes: exit code {}\n{}", ran.code, ran.err);
        seen[usize::from(written)] += 1;
        if written { high = middle } else { low = middle }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn many_columns_take_memory_for_their_numbers_only() {
    let folder = Folder::new();
    let names: Vec<String> = (0..20_000).map(|c| format!("x{c}")).chain(["y".into()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    folder.write("t.csv", table(&names, 3, |i| (0..20_001).map(|c| (((7 * i + c) % 13) as f64).sin()).collect()));
    let fit = ["fit", "t.csv", "--steps", "5", "--threads", "1", "-o", "m.cagey", "--quiet"];
    // An array of all pairs of columns would take 3.2 GB. A thread's first product of matrices reserves addresses for
    // twice the last cache, of which small ones use next to nothing.
    let cache = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size").unwrap_or_default();
    let cache = cache.trim().trim_end_matches('K').parse::<u64>().map_or(0, |size| size << 10);
    assert!(cache < 1 << 30, "{cache}");
    let ran = folder.run_changed(&fit, |command| limit(command, libc::RLIMIT_AS, (1 << 30) + 2 * cache));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!ran.err.contains("memory"), "{}", ran.err);
}

#[cfg(not(feature = "mpi"))]
#[test]
fn one_of_several_processes_that_cannot_talk_is_refused() {
    let folder = Folder::with_tables();
    let fit = ["fit", "ok.csv", "--steps", "1", "-o", "m.cagey"];
    let ran = folder.run_changed(&fit, |command| {
        command.env("PMI_SIZE", "3");
    });
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("PMI_SIZE=3") && ran.err.contains("--features mpi"), "{}", ran.err);
    assert_eq!(folder.names(), ["new.csv", "ok.csv"]);
}

#[test]
fn counts_of_any_size_are_scored_in_seconds() {
    let folder = Folder::new();
    for size in [1e9, 1e12] {
        folder.write("t.csv", table(&["x", "n"], 50, |i| vec![position(i), size]));
        let fit =
            ["fit", "t.csv", "--model", "laplace", "--likelihood", "negative-binomial", "--steps", "20", "-o", "m"];
        folder.ok(&fit);
        // It took 45 s, and for the larger counts had no end.
        let ran = folder.run_changed(&["evaluate", "m", "t.csv", "--threads", "1"], |_| {});
        assert_eq!(ran.code, 0, "{size}: {}", ran.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_standard_output_loses_nothing_silently() {
    use std::os::unix::process::CommandExt;
    let folder = Folder::with_model();
    let run = |arguments: &[&str]| {
        folder.run_changed(arguments, |command| {
            // SAFETY: closing a number is safe between fork and exec.
            unsafe {
                command.pre_exec(|| {
                    libc::close(libc::STDOUT_FILENO);
                    Ok(())
                });
            }
        })
    };
    for arguments in
        [&["predict", "m.cagey", "new.csv"][..], &["inspect", "m.cagey"], &["evaluate", "m.cagey", "ok.csv"]]
    {
        let ran = run(arguments);
        assert_eq!(ran.code, 1, "{arguments:?} {}", ran.err);
        assert!(ran.err.contains("standard output: it is closed"), "{arguments:?} {}", ran.err);
    }
    assert_eq!(run(&["predict", "m.cagey", "new.csv", "-o", "p.csv"]).code, 0);
    assert_eq!(folder.column("p.csv", "mean").len(), 3);
}

#[cfg(unix)]
#[test]
fn settings_of_burn_in_the_working_directory_are_not_looked_for() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::with_tables();
    for name in ["burn.toml", "Burn.toml", "cubecl.toml", "CubeCL.toml"] {
        let path = std::ffi::CString::new(folder.path(name).as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a string that ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    }
    let start = Instant::now();
    let ran = folder.run_changed(&["fit", "ok.csv", "-o", "m.cagey", "--steps", "2"], |_| {});
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(start.elapsed() < LIMIT);
}

#[cfg(unix)]
#[test]
fn outputs_that_are_links_to_nothing_are_followed() {
    let folder = Folder::with_tables();
    std::os::unix::fs::symlink("elsewhere.cagey", folder.path("link")).unwrap();
    folder.ok(&["fit", "ok.csv", "-o", "link", "--steps", "1"]);
    folder.ok(&["inspect", "elsewhere.cagey"]);
    assert_eq!(fs::read_link(folder.path("link")).unwrap().to_str(), Some("elsewhere.cagey"));
    std::os::unix::fs::symlink("state", folder.path("other")).unwrap();
    let same = ["fit", "ok.csv", "--checkpoint", "state", "-o", "other"];
    folder.fails(2, &same, &["overwrite", "state"]);
}

#[test]
fn parameters_too_small_for_the_units_of_the_data_are_saved_and_read() {
    let folder = Folder::new();
    let tiny = |i: usize| format!("{},{:e}\n", position(i), 1e-140 * wave(i));
    folder.write("t.csv", format!("x,y\n{}", (0..30).map(tiny).collect::<String>()));
    folder.ok(&["fit", "t.csv", "--kernel", "rbf + constant + white + linear", "-o", "m.cagey", "--steps", "20"]);
    let inspected = folder.json(&["inspect", "m.cagey", "--json"]);
    assert!(inspected["kernel"].as_str().unwrap().contains("white"), "{inspected}");
    let predicted = folder.ok(&["predict", "m.cagey", "t.csv"]);
    assert!(super::numbers(&predicted, "mean").iter().any(|mean| *mean != 0.0 && mean.abs() < 1e-138), "{predicted}");
}

#[test]
fn units_that_no_number_holds_are_refused_before_the_training() {
    let folder = Folder::new();
    let row = |i: usize| format!("{:e},{:e}\n", 1e-140 * position(i), 1e140 * wave(i));
    folder.write("t.csv", format!("x,y\n{}", (0..30).map(row).collect::<String>()));
    let words = ["`kernel.linear.variance`", "rescale the columns"];
    folder.fails(1, &["fit", "t.csv", "--kernel", "linear", "-o", "m.cagey"], &words);
}

#[test]
fn crafted_models_are_refused_by_name() {
    let folder = Folder::with_model();
    type Edit = fn(&mut Value);
    let edits: [(Edit, &str); 16] = [
        (|d| d["parameters"][0]["scale"] = json!([]), "as many scales"),
        (|d| d["parameters"][0]["offset"] = json!([]), "as many scales"),
        (|d| d["parameters"][1]["scale"] = json!([-1.0]), "unit"),
        (|d| d["parameters"][1]["raw"] = json!([1e300, 1.0]), "as many scales"),
        (|d| d["parameters"][1]["raw"] = json!([null]), "parameters"),
        (|d| d["parameters"][1]["constraint"] = json!({"Interval": {"lower": 2.0, "upper": 1.0}}), "bounds"),
        (|d| d["parameters"] = json!([]), "parameters"),
        (|d| d["input_scale"] = json!({"mean": [], "sd": []}), "inputs"),
        (|d| d["input_scale"] = json!({"mean": [0.0], "sd": [0.0]}), "standard deviations"),
        (|d| d["input_scale"] = json!({"mean": [0.0, 0.0], "sd": [1.0]}), "standard deviations"),
        (|d| d["target_scale"]["sd"] = json!(-1.0), "target's mean"),
        (|d| d["schema"]["target_index"] = json!(7), "columns"),
        (|d| d["schema"]["features"] = json!([]), "inputs"),
        (|d| d["schema"]["features"][0]["encoding"] = json!({"OneHot": ["a", "a"]}), "columns"),
        (|d| d["kernel"] = json!("rbf(variance=0)"), "kernel"),
        (|d| d["settings"]["likelihood"] = json!("nonsense"), "nonsense"),
    ];
    for (edit, word) in edits {
        folder.edit("m.cagey", "crafted.cagey", edit);
        for command in [&["inspect", "crafted.cagey"][..], &["predict", "crafted.cagey", "new.csv"]] {
            folder.fails(1, command, &["crafted.cagey", word]);
        }
    }
}
