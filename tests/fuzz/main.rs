//! Random input, options, model files and kills. Short by default; `tests/README.md` says how to run them for long.

mod inputs;
mod kills;
mod models;
mod options;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Time limit of a case on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs as many cases as `CAGEY_FUZZ` says, or a few, each with its own seed. If a case fails, says which one and how
/// to repeat it.
fn each_case(what: &str, few: u64, case: impl Fn(&mut Xoshiro256PlusPlus)) {
    let (first, count) = match setting("CAGEY_FUZZ_CASE") {
        Some(only) => (only, 1),
        None => (0, setting("CAGEY_FUZZ").unwrap_or(few)),
    };
    let failed: Vec<u64> = (first..first + count)
        .filter(|seed| {
            let run = || case(&mut Xoshiro256PlusPlus::seed_from_u64(*seed));
            catch_unwind(AssertUnwindSafe(run)).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "{what}: repeat with CAGEY_FUZZ_CASE={} (failed: {failed:?})", failed[0]);
}

/// Runs `work` in its own thread; panics if it panics or hangs.
fn within_limit(work: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        work();
        // After the limit nobody waits.
        let _ = sender.send(());
    });
    if receiver.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("takes longer than {LIMIT:?}");
    }
    thread.join().unwrap();
}

/// A folder for the files of this process's cases.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cagey"));
        command.current_dir(self.0.path()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command to its end; it must exit by itself, and soon.
    fn run(&self, arguments: &[&str]) -> (i32, Output) {
        let start = Instant::now();
        let output = self.command(&[&["--threads", "1"], arguments].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap_or_else(|| panic!("{arguments:?}: {:?}\n{said}", output.status));
        assert!((0..=2).contains(&code), "{arguments:?}: exit code {code}\n{said}");
        assert!(!said.contains("panicked"), "{arguments:?}\n{said}");
        assert_eq!(code != 0, said.contains("error:"), "{arguments:?}: exit code {code}\n{said}");
        assert!(start.elapsed() < LIMIT, "{arguments:?}: {:?}", start.elapsed());
        (code, output)
    }
}

/// Picks one of several items.
fn pick<'a, T: ?Sized>(rng: &mut Xoshiro256PlusPlus, of: &[&'a T]) -> &'a T {
    of[rng.random_range(0..of.len())]
}

/// Returns the bytes with some changed, cut off, doubled or copied from elsewhere.
fn mutated(rng: &mut Xoshiro256PlusPlus, mut bytes: Vec<u8>, words: &[&str]) -> Vec<u8> {
    for _ in 0..rng.random_range(1..5) {
        let at = rng.random_range(0..=bytes.len());
        let end = rng.random_range(at..=bytes.len().min(at + 40));
        match rng.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = rng.random(),
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let part = bytes[at..end].repeat(rng.random_range(1..4));
                bytes.splice(at..at, part);
            }
            _ => drop(bytes.splice(at..end, pick(rng, words).bytes())),
        }
    }
    bytes
}
