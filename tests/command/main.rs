//! The command as users run it: results, messages, exit codes and the files it leaves.

mod average;
mod faults;
mod forecast;
mod hostile;
mod models;
mod ranks;
mod settings;
mod tables;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// A kernel for tests of a single model: few rows are otherwise fitted by an average of several.
const ONE: &str = "matern32(ard)";

/// The folder in which the command runs.
struct Folder(TempDir);

/// How a run ended.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Folder {
    /// An empty folder.
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with `ok.csv`, a noisy sine, and `new.csv`, inputs only.
    fn with_tables() -> Self {
        let folder = Self::new();
        folder.write("ok.csv", table(&["x", "y"], 30, |i| vec![position(i), wave(i)]));
        folder.write("new.csv", "x\n0.5\n2.5\n30\n");
        folder
    }

    /// A folder with these tables and the model `m.cagey` of `ok.csv`.
    fn with_model() -> Self {
        let folder = Self::with_tables();
        folder.ok(&["fit", "ok.csv", "--kernel", ONE, "-o", "m.cagey"]);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn run_with(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cagey"));
        let Output { status, stdout, stderr } =
            command.current_dir(self.0.path()).args(arguments).write_stdin(input).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, "")
    }

    /// Runs a command that must succeed; returns its standard output.
    fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}\n{}", ran.err);
        ran.out
    }

    /// Runs a command that must fail with `code`, print all `words`, not panic, and leave the folder unchanged.
    fn fails(&self, code: i32, arguments: &[&str], words: &[&str]) {
        let before = self.names();
        let ran = self.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}\n{}", ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{arguments:?} does not say `{word}`:\n{}", ran.err);
        }
        assert_eq!(ran.err.matches("error: ").count(), 1, "{arguments:?}\n{}", ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        assert_eq!(self.names(), before, "{arguments:?}");
    }

    /// Checks that `fit ok.csv` fails with these options; an existing model stays.
    fn refuses(&self, code: i32, options: &[&str], words: &[&str]) {
        self.write("kept.cagey", "precious");
        let arguments = [&["fit", "ok.csv", "-o", "kept.cagey"], options].concat();
        self.fails(code, &arguments, words);
        assert_eq!(self.read("kept.cagey"), "precious");
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    /// A column of a CSV file.
    fn column(&self, name: &str, column: &str) -> Vec<f64> {
        numbers(&self.read(name), column)
    }
}

fn numbers(text: &str, column: &str) -> Vec<f64> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let at = lines.next().unwrap().iter().position(|name| *name == column).unwrap();
    lines.map(|cells| cells[at].parse().unwrap()).collect()
}

fn table(names: &[&str], n: usize, row: impl Fn(usize) -> Vec<f64>) -> String {
    let rows = (0..n).map(|i| row(i).iter().map(f64::to_string).collect::<Vec<_>>().join(","));
    std::iter::once(names.join(",")).chain(rows).collect::<Vec<_>>().join("\n") + "\n"
}

fn position(i: usize) -> f64 {
    0.3 * i as f64
}

/// A sine with deterministic noise.
fn wave(i: usize) -> f64 {
    position(i).sin() + 0.4 * ((12.9898 * (i + 1) as f64).sin() * 43758.5453).rem_euclid(1.0) - 0.2
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs()).max(1e-12)
}

fn parameter(model: &Value, name: &str) -> Vec<f64> {
    let values = model["parameters"][name]["values"].as_array().unwrap();
    values.iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn the_whole_way() {
    let folder = Folder::with_tables();
    let fit = ["fit", "ok.csv", "--kernel", ONE, "--holdout", "0.2", "--split-seed", "3", "-o", "m.cagey"];
    let ran = folder.run(&fit);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines = "target `y` holds numbers: regression with the gaussian likelihood (`--likelihood`)\n\
                 24 rows, 1 input column, target `y`\n";
    assert_eq!(ran.err, lines, "nothing but this where there is no terminal");
    assert!(ran.out.contains("Model written to m.cagey"));

    folder.ok(&["predict", "m.cagey", "new.csv", "-o", "p.csv"]);
    assert_eq!(folder.read("p.csv").lines().next(), Some("mean,sd,lower,upper"));
    let (mean, sd, lower) =
        (folder.column("p.csv", "mean"), folder.column("p.csv", "sd"), folder.column("p.csv", "lower"));
    assert!((mean[0] - 0.5f64.sin()).abs() < 0.2 && sd[2] > 5.0 * sd[0], "{mean:?} {sd:?}");
    // From 24 rows: Student-t with 23 degrees of freedom, whose standard deviation is √(23/21) of its scale.
    assert!(close(lower[0], mean[0] - 2.068657610419041 * (21.0f64 / 23.0).sqrt() * sd[0], 1e-9));

    let shown = folder.ok(&["evaluate", "m.cagey", "ok.csv", "--holdout", "0.2", "--split-seed", "3"]);
    let scores: Vec<&str> = shown.lines().filter(|line| !line.contains("training scale")).collect();
    assert!(ran.out.contains(&scores.join("\n")), "fit printed\n{}\nbut evaluate\n{shown}", ran.out);

    let inspected = folder.ok(&["inspect", "m.cagey"]);
    assert!(ran.out.starts_with(&inspected), "{inspected}");
    for (name, kind) in
        [("a.png", "posterior"), ("b.svg", "components"), ("c.svg", "calibration"), ("d.png", "learning")]
    {
        folder.ok(&["plot", "m.cagey", "-o", name, "--kind", kind]);
        let bytes = fs::read(folder.path(name)).unwrap();
        assert!(bytes.starts_with(b"\x89PNG") || bytes.starts_with(b"<svg"), "{name}");
    }
    folder.ok(&["plot", "m.cagey", "ok.csv", "--holdout", "0.2", "-o", "e.svg", "--points", "2"]);
    folder.ok(&["fit", "ok.csv", "-o", "all.cagey", "--steps", "3"]);
    let drawn = |data: &str| {
        folder.ok(&["plot", "all.cagey", data, "-o", "f.svg"]);
        folder.read("f.svg").contains("held-out data")
    };
    folder.write("mixed.csv", folder.read("ok.csv") + "3.21,0.1\n");
    assert!(!drawn("ok.csv") && drawn("mixed.csv"), "rows that were trained on are not held out");
    let samples = folder.ok(&["sample", "m.cagey", "new.csv", "--count", "3", "--seed", "7"]);
    assert_eq!(samples.lines().next(), Some("sample0,sample1,sample2"));
    assert_eq!(samples, folder.ok(&["sample", "m.cagey", "new.csv", "--count", "3", "--seed", "7"]));
    assert_ne!(samples, folder.ok(&["sample", "m.cagey", "new.csv", "--count", "3", "--seed", "8"]));
}

#[test]
fn scores_as_json() {
    let folder = Folder::with_model();
    let scores = folder.json(&["evaluate", "m.cagey", "ok.csv", "--json"]);
    for key in ["rmse", "mae", "r2", "nlpd", "crps", "coverage_50", "coverage_90", "coverage_95", "calibration_error"] {
        assert!(scores[key].is_number(), "{key}: {scores}");
    }
    assert!(folder.json(&["evaluate", "m.cagey", "--loo", "--json"])["rmse"].as_f64() > scores["rmse"].as_f64());
    let fitted = folder.json(&["fit", "ok.csv", "-o", "n.cagey", "--json", "--holdout-last", "0.2"]);
    assert_eq!(fitted["scores"]["n"], 6);
    let kernel = folder.json(&["inspect", "n.cagey", "--json"])["kernel"].clone();
    assert_eq!(fitted["kernel"], kernel);
}

#[test]
fn predictions_repeat_and_keep_columns() {
    let folder = Folder::with_tables();
    folder.ok(&["fit", "ok.csv", "--kernel", ONE, "--calibrate", "no", "-o", "m.cagey"]);
    let first = folder.ok(&["predict", "m.cagey", "ok.csv"]);
    assert_eq!(first, folder.ok(&["predict", "m.cagey", "ok.csv", "-o", "-"]));
    let from_pipe = folder.run_with(&["predict", "m.cagey", "-"], &folder.read("ok.csv"));
    assert_eq!((from_pipe.code, &from_pipe.out), (0, &first));

    let kept = folder.ok(&["predict", "m.cagey", "ok.csv", "--keep"]);
    for ((kept, table), predicted) in kept.lines().zip(folder.read("ok.csv").lines()).zip(first.lines()) {
        assert_eq!(kept, format!("{table},{predicted}"));
    }
    let latent = folder.ok(&["predict", "m.cagey", "ok.csv", "--latent"]);
    assert_eq!(numbers(&latent, "mean"), numbers(&first, "mean"));
    let narrower = numbers(&latent, "sd").into_iter().zip(numbers(&first, "sd"));
    let noise = parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "likelihood.noise")[0];
    narrower.for_each(|(f, y)| assert!(close(y * y - f * f, noise, 1e-6), "{f} {y} {noise}"));
    let half = folder.ok(&["predict", "m.cagey", "ok.csv", "--level", "0.5"]);
    assert!(close(
        numbers(&half, "upper")[0],
        numbers(&first, "mean")[0] + 0.6744897501960817 * numbers(&first, "sd")[0],
        1e-9
    ));
}

#[test]
fn quantiles_are_columns_named_by_their_levels() {
    let folder = Folder::with_tables();
    folder.ok(&["fit", "ok.csv", "--calibrate", "no", "--steps", "20", "-o", "m.cagey"]);
    let predict =
        |options: &[&str]| folder.ok(&[&["predict", "m.cagey", "new.csv", "--levels", ".1,.5,.9"], options].concat());
    let told = predict(&[]);
    assert_eq!(told.lines().next(), Some("mean,sd,lower,upper,q0.1,q0.5,q0.9"));
    let (mean, sd) = (numbers(&told, "mean"), numbers(&told, "sd"));
    for (row, q) in numbers(&told, "q0.9").into_iter().enumerate() {
        assert!(close(q, mean[row] + 1.2815515655446004 * sd[row], 1e-9));
        assert!(close(numbers(&told, "q0.1")[row], mean[row] - 1.2815515655446004 * sd[row], 1e-9));
        assert!(close(numbers(&told, "q0.5")[row], mean[row], 1e-9));
    }
    let latent = predict(&["--latent", "--level", "0.8"]);
    assert_eq!(numbers(&latent, "q0.1"), numbers(&latent, "lower"));
    folder.fails(2, &["predict", "m.cagey", "new.csv", "--levels", "0.5,0.50"], &["--levels", "0.5", "twice"]);
    folder.fails(2, &["predict", "m.cagey", "new.csv", "--levels", "0.5,1"], &["--levels"]);
    // Counts have quantiles that are counts.
    folder.write("counts.csv", table(&["x", "y"], 30, |i| vec![position(i), (4.0 + 3.0 * wave(i)).round().max(0.0)]));
    folder.ok(&["fit", "counts.csv", "--likelihood", "poisson", "--steps", "5", "-o", "m.cagey"]);
    let told = predict(&[]);
    assert!(told.starts_with("mean,sd,lower,upper,q0.1,q0.5,q0.9,rate_lower,rate_upper"), "{told}");
    assert!(numbers(&told, "q0.9").iter().all(|q| q.fract() == 0.0));
    assert!(numbers(&told, "q0.1").iter().zip(numbers(&told, "q0.9")).all(|(low, high)| *low <= high));
    folder.write("labels.csv", "x,y\n1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n");
    folder.ok(&["fit", "labels.csv", "--steps", "2", "-o", "l.cagey"]);
    folder.fails(2, &["predict", "l.cagey", "new.csv", "--levels", "0.5"], &["--levels", "probabilities"]);
}

#[test]
fn an_interrupted_training_ends_where_an_uninterrupted_one_does() {
    for optimizer in ["lbfgs", "adam"] {
        let folder = Folder::with_tables();
        // A training of few steps has no race.
        let fit = |options: &[&str], output: &str| {
            let start = ["fit", "ok.csv", "--starts", "data", "--optimizer", optimizer, "-o", output];
            folder.ok(&[&start, options].concat());
            folder.ok(&["predict", output, "new.csv"])
        };
        let whole = fit(&["--steps", "20"], "whole.cagey");
        let part = fit(&["--steps", "5", "--checkpoint", "state"], "part.cagey");
        assert_ne!(part, whole);
        assert_eq!(fit(&["--steps", "20", "--resume", "state"], "resumed.cagey"), whole);
        let resume = ["fit", "ok.csv", "--optimizer", optimizer, "-o", "no.cagey", "--resume", "state"];
        folder.fails(
            1,
            &[&resume[..], &["--kernel", "rbf"]].concat(),
            &["state", "another model", "settings.kernel is \"matern32(ard)\" there and \"rbf\" here"],
        );
        folder.write("ok.csv", table(&["x", "y"], 30, |i| vec![position(i), 1.0 + wave(i) * wave(i)]));
        folder.fails(1, &resume, &["state", "data set"]);
        folder.write("state", &fs::read(folder.path("state")).unwrap()[..500]);
        folder.fails(1, &resume, &["state", "damaged"]);
    }
}

#[test]
fn log_lines() {
    let folder = Folder::with_tables();
    let ran = folder.run(&["fit", "ok.csv", "-o", "m.cagey", "--steps", "6", "--log-every", "2"]);
    let steps: Vec<&str> = ran.err.lines().filter(|line| line.contains("step ") && line.contains("loss")).collect();
    assert!((3..=5).contains(&steps.len()), "{}", ran.err);
}

#[test]
fn units_of_the_data_do_not_matter() {
    let folder = Folder::new();
    let rows = |fx: f64, fy: f64| {
        table(&["a", "b", "y"], 40, |i| {
            let (a, b) = (position(i), (1.7 * i as f64).sin());
            vec![fx * a, b, fy * (wave(i) + (3.0 * b).cos())]
        })
    };
    folder.write("plain.csv", rows(1.0, 1.0));
    folder.write("scaled.csv", rows(1000.0, 10.0));
    for name in ["plain", "scaled"] {
        folder.ok(&["fit", &format!("{name}.csv"), "--kernel", "rbf(ard)", "-o", name]);
        folder.ok(&["predict", name, &format!("{name}.csv"), "-o", &format!("{name}.out")]);
    }
    let model = |name: &str| folder.json(&["inspect", name, "--json"]);
    let (plain, scaled) = (model("plain"), model("scaled"));
    let both = |name: &str| (parameter(&plain, name), parameter(&scaled, name));
    let (l, scaled_l) = both("kernel.rbf.lengthscale");
    assert!(close(1000.0 * l[0], scaled_l[0], 1e-3) && close(l[1], scaled_l[1], 1e-3), "{l:?} {scaled_l:?}");
    for name in ["kernel.rbf.variance", "likelihood.noise"] {
        let (v, scaled_v) = both(name);
        assert!(close(100.0 * v[0], scaled_v[0], 1e-3), "{name} {v:?} {scaled_v:?}");
    }
    let loss = |model: &Value| model["training"]["loss"].as_f64().unwrap();
    assert!(close(loss(&plain), loss(&scaled), 1e-6));
    for column in ["mean", "sd", "lower", "upper"] {
        let pairs = folder.column("plain.out", column).into_iter().zip(folder.column("scaled.out", column));
        pairs.for_each(|(p, s)| assert!((10.0 * p - s).abs() < 1e-4, "{column} {p} {s}"));
    }
}

#[test]
fn starts_and_weak_priors_are_told_and_can_be_left_out() {
    let folder = Folder::new();
    let names: Vec<String> = (0..8).map(|c| format!("x{c}")).chain(["y".into()]).collect();
    let row = |i: usize| {
        let x: Vec<f64> = (0..8).map(|c| ((3.1 + 1.7 * f64::from(c)) * i as f64).sin()).collect();
        let y = (2.0 * x[0]).sin() + x[1] + 0.3 * (12.9 * i as f64).sin();
        [x, vec![y]].concat()
    };
    folder.write("wide.csv", table(&names.iter().map(String::as_str).collect::<Vec<_>>(), 40, row));
    let fit = |options: &[&str]| folder.ok(&[&["fit", "wide.csv", "--kernel", ONE, "-o", "m.cagey"], options].concat());
    let told = fit(&[]);
    assert!(told.contains("  start  ") && told.contains("(objective "), "{told}");
    assert!(told.contains("isotropic optimum") && told.contains("data's own"));
    assert!(told.contains("logstudent(0.25, 1.04, 1) sd") && told.contains("priors by column"), "{told}");
    let race = folder.json(&["inspect", "m.cagey", "--json"])["training"]["race"].clone();
    assert_eq!(race["starts"].as_array().unwrap().len(), 2);
    assert!(!fit(&["--starts", "data"]).contains("  start  "));
    assert!(!fit(&["--restarts", "2"]).contains("  start  "));
    assert!(fit(&["--restarts", "2", "--starts", "race"]).contains("  start  "));
    assert!(!fit(&["--prior", "none"]).contains("weak prior"));
    let one = fit(&["--prior", "none", "--prior", "lengthscale[x3]=lognormal(0, 1) sd"]);
    assert!(!one.contains("weak prior") && one.contains("priors by column"), "{one}");
}

#[test]
fn a_model_that_learned_nothing_says_so_first() {
    let folder = Folder::new();
    let row = |i: usize| vec![(3.1 * i as f64).sin(), (3.1 * i as f64).sin().powi(2)];
    folder.write("t.csv", table(&["a", "y"], 60, row));
    folder.write("c.csv", table(&["a", "y"], 60, |i| vec![row(i)[0], f64::from(u8::from(row(i)[0] > 0.3))]));
    for (file, than) in [("t.csv", "the mean of the target (R² "), ("c.csv", "the shares of the classes (log loss ")] {
        // A constant is the same for all rows.
        let nothing = ["fit", file, "-o", "m.cagey", "--kernel", "constant"];
        let told = folder.ok(&nothing);
        let second = told.lines().nth(1).unwrap_or_default();
        assert!(second.contains("nothing was learned") && second.contains(than), "{told}");
        assert_eq!(told.matches("nothing was learned").count(), 1, "{told}");
        let json = folder.json(&[&nothing[..], &["--json"]].concat());
        assert!(json["warnings"][0].as_str().unwrap().starts_with("nothing was learned"), "{json}");
        let no_better =
            || folder.ok(&["evaluate", "m.cagey", file]).contains("no better than the shares of these classes");
        assert_eq!(no_better(), file == "c.csv");
        let learned = folder.ok(&["fit", file, "-o", "m.cagey"]);
        assert!(!learned.contains("nothing was learned"), "{learned}");
        assert!(!no_better());
    }
}

#[test]
fn what_ends_before_its_minimum_is_told() {
    let folder = Folder::new();
    let row = |i: usize| {
        let x = [(3.1 * i as f64).sin(), (7.7 * i as f64).cos()];
        vec![x[0], x[1], x[0] * x[1] + 0.01 * (12.9 * i as f64).sin()]
    };
    folder.write("t.csv", table(&["a", "b", "y"], 40, row));
    let told = folder.ok(&["fit", "t.csv", "-o", "m.cagey", "--steps", "12"]);
    assert!(told.contains("all 12 steps are made, and the last"), "{told}");
    assert!(!folder.ok(&["fit", "t.csv", "--kernel", ONE, "-o", "m.cagey"]).contains("steps are made, and"));
    // Far from zero, the values of a cubic polynomial are so large that those of the data are rounding errors.
    folder.write("far.csv", table(&["x", "y"], 41, |i| vec![1000.0 + i as f64, (0.3 * i as f64).sin()]));
    let given = ["--init", "variance=1", "--init", "offset=1", "--fix", "variance", "--fix", "offset"];
    let far = [&["fit", "far.csv", "-o", "m.cagey", "--kernel", "polynomial(power=3)", "--no-standardize"], &given[..]]
        .concat();
    let told = folder.ok(&far);
    assert!(told.contains("took a jitter of"), "{told}");
}

#[test]
fn values_priors_and_bounds_are_in_units_of_the_data() {
    let folder = Folder::with_tables();
    let fit = |options: &[&str]| {
        folder.ok(&[&["fit", "ok.csv", "-o", "m.cagey", "--kernel", "rbf"], options].concat());
        folder.json(&["inspect", "m.cagey", "--json"])
    };
    let lengthscale = |model: &Value| parameter(model, "kernel.rbf.lengthscale")[0];
    let free = fit(&[]);
    let start = fit(&["--init", "lengthscale=2.5", "--init", "likelihood.noise=0.04", "--steps", "0"]);
    assert!(close(lengthscale(&start), 2.5, 1e-12) && close(parameter(&start, "likelihood.noise")[0], 0.04, 1e-12));
    let still = fit(&["--init", "lengthscale=2.5", "--fix", "lengthscale"]);
    assert!(close(lengthscale(&still), 2.5, 1e-12) && still["parameters"]["kernel.rbf.lengthscale"]["fixed"] == true);
    let nothing_free =
        fit(&["--fix", "lengthscale", "--fix", "variance", "--fix", "noise", "--init", "lengthscale=2.5"]);
    assert!(close(lengthscale(&nothing_free), 2.5, 1e-12));

    let optimum = lengthscale(&free);
    let prior = format!("lengthscale=normal({}, {})", 3.0 * optimum, 0.01 * optimum);
    assert!(close(lengthscale(&fit(&["--prior", &prior])), 3.0 * optimum, 0.05));
    let weak = format!("lengthscale=normal({}, {})", 3.0 * optimum, 100.0 * optimum);
    assert!(close(lengthscale(&fit(&["--prior", &weak])), optimum, 0.02));
    // The starting point lies outside the first two bounds: it moves to where there is a gradient.
    let within = |low: f64, high: f64| {
        let model = fit(&["--bounds", &format!("lengthscale={}..{}", low * optimum, high * optimum)]);
        let ended = model["training"]["warnings"].to_string();
        (lengthscale(&model) / optimum, ended.contains("its bounds"))
    };
    assert!(matches!(within(1.5, 2.5), (ratio, true) if (1.5..1.51).contains(&ratio)));
    assert!(matches!(within(0.01, 0.5), (ratio, true) if (0.49..0.5).contains(&ratio)));
    let (ratio, at_bound) = within(0.5, 20.0);
    assert!((ratio - 1.0).abs() < 0.01 && !at_bound, "{ratio}");
    let (ratio, at_bound) = within(0.9, 1.02);
    assert!((ratio - 1.0).abs() < 0.01 && !at_bound, "{ratio}");
}

#[test]
fn transformed_targets_are_scored_as_they_are() {
    let folder = Folder::new();
    let positive = |i: usize| wave(i).exp();
    folder.write("raw.csv", table(&["x", "y"], 30, |i| vec![position(i), positive(i)]));
    folder.write("logged.csv", table(&["x", "y"], 30, |i| vec![position(i), wave(i)]));
    let fit = |options: &[&str]| folder.ok(&[&["fit", "--kernel", ONE, "--calibrate", "no"], options].concat());
    fit(&["raw.csv", "--target-transform", "log", "-o", "raw"]);
    fit(&["logged.csv", "-o", "logged"]);
    let nlpd = |model: &str| {
        let scores = folder.json(&["evaluate", model, &format!("{model}.csv"), "--json"]);
        (scores["nlpd"].as_f64().unwrap(), scores["nlpd_training_scale"].as_f64().unwrap())
    };
    let ((raw, raw_inner), (logged, logged_inner)) = (nlpd("raw"), nlpd("logged"));
    let jacobian = (0..30).map(wave).sum::<f64>() / 30.0;
    assert!(close(raw, logged + jacobian, 1e-6), "{raw} {logged} {jacobian}");
    assert!(close(raw_inner, logged_inner, 1e-6));
    let mean = numbers(&folder.ok(&["predict", "raw", "raw.csv"]), "lower");
    assert!(mean.iter().all(|v| *v > 0.0));

    folder.fails(1, &["evaluate", "raw", "logged.csv"], &["row 13", "target `y`", "log"]);
    folder.fails(1, &["fit", "logged.csv", "--target-transform", "log", "-o", "no"], &["row 13", "log"]);
    // Held-out rows are checked before the training.
    folder.write("late.csv", folder.read("raw.csv") + "9.3,-1\n");
    let late = ["fit", "late.csv", "--target-transform", "log", "--holdout-last", "0.1", "-o", "no"];
    folder.fails(1, &late, &["row 32", "log"]);
}

#[test]
fn known_noise() {
    let folder = Folder::new();
    let rows = |sd: f64| table(&["x", "s", "y"], 30, |i| vec![position(i), sd, wave(i)]);
    folder.write("noise.csv", rows(0.1));
    folder.write("zero.csv", rows(0.0));
    folder.write("negative.csv", rows(0.1) + "9,-1,2\n");
    folder.ok(&["fit", "noise.csv", "--noise-column", "s", "-o", "m"]);
    assert_eq!(folder.json(&["inspect", "m", "--json"])["inputs"], serde_json::json!(["x"]));
    folder.ok(&["fit", "noise.csv", "--noise-column", "s", "--features", "x", "-o", "n"]);
    assert_eq!(folder.ok(&["predict", "m", "noise.csv"]), folder.ok(&["predict", "n", "noise.csv"]));
    folder.ok(&["fit", "zero.csv", "--noise-column", "s", "-o", "m"]);
    folder.fails(1, &["fit", "negative.csv", "--noise-column", "s", "-o", "no"], &["row 32", "`s`", "-1"]);
    folder.fails(1, &["fit", "noise.csv", "--noise-column", "S1", "-o", "no"], &["`S1`", "did you mean `s`"]);
}

#[test]
fn categories_dates_and_formats() {
    let folder = Folder::with_tables();
    let rows: Vec<String> =
        (0..24).map(|i| format!("2020-01-{:02},{},{}", i + 1, ["a", "b", "c"][i % 3], wave(i))).collect();
    folder.write("mixed.csv", format!("day,kind,y\n{}\n", rows.join("\n")));
    let refuse = ["fit", "mixed.csv", "-o", "no", "--text", "refuse"];
    folder.fails(1, &refuse, &["row 2", "`day`", "--dates", "--drop day"]);
    folder.fails(1, &[&refuse[..], &["--dates"]].concat(), &["row 2", "`kind`", "--one-hot"]);
    folder.ok(&["fit", "mixed.csv", "--dates", "--one-hot", "-o", "same"]);
    folder.ok(&["fit", "mixed.csv", "-o", "mixed"]);
    folder.write("next.csv", "kind,day\na,2020-02-01\n");
    assert_eq!(folder.ok(&["predict", "mixed", "next.csv"]), folder.ok(&["predict", "same", "next.csv"]));
    folder.write("next.csv", "kind,day\nz,2020-02-01\n");
    folder.fails(1, &["sample", "mixed", "next.csv"], &["row 2", "`kind`", "`z`", "a, b, c"]);

    folder.ok(&["fit", "ok.csv", "-o", "ok"]);
    let expected = folder.ok(&["predict", "ok", "ok.csv"]);
    let csv = folder.read("ok.csv");
    folder.write("ok.tsv", csv.replace(',', "\t"));
    folder.write("semicolons.csv", csv.replace(',', ";"));
    folder.write("bare.csv", csv.split_once('\n').unwrap().1);
    folder.write("marked.csv", format!("\u{feff}{}", csv.replace('\n', "\r\n")));
    for name in ["ok.tsv", "semicolons.csv", "bare.csv", "marked.csv"] {
        assert_eq!(folder.ok(&["predict", "ok", name]), expected, "{name}");
        folder.ok(&["fit", name, "-o", "again"]);
    }
    // The same numbers as a NumPy array.
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (30, 2), }";
    let mut npy = [b"\x93NUMPY\x01\x00", &118u16.to_le_bytes()[..], format!("{header:<117}\n").as_bytes()].concat();
    (0..30).flat_map(|i| [position(i), wave(i)]).for_each(|v| npy.extend(v.to_le_bytes()));
    folder.write("ok.npy", npy);
    assert_eq!(folder.ok(&["predict", "ok", "ok.npy"]), expected);
    folder.ok(&["fit", "ok.npy", "--target", "c1", "-o", "again"]);
}

/// A training without end that a shell started after `first`; returns when it is under way.
#[cfg(unix)]
fn endless(folder: &Folder, first: &str) -> std::process::Child {
    let fit = ["fit", "ok.csv", "--model", "svgp", "--inducing", "8", "--steps", "100000000", "-o", "m.cagey"];
    let state = ["--checkpoint", "state", "--checkpoint-every", "1"];
    let mut running = std::process::Command::new("sh");
    let script = format!("{first}; exec \"$0\" \"$@\"");
    let running = running.current_dir(folder.0.path()).args(["-c", &script, env!("CARGO_BIN_EXE_cagey")]);
    let running = running.args(fit).args(state).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The first state is saved before the training, the second one during the training.
    let size = || fs::metadata(folder.path("state")).map_or(0, |file| file.len());
    let began = std::time::Instant::now();
    let mut first = 0;
    while (first == 0 || size() == first) && began.elapsed().as_secs() < 60 {
        if first == 0 {
            first = size();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running
}

/// Sends a signal. Not `-INT`: it is ignored if a script runs the tests in the background.
#[cfg(unix)]
fn send(signal: &str, to: &std::process::Child) {
    let sent = std::process::Command::new("kill").args([signal, &to.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[cfg(unix)]
#[test]
fn signals_that_are_ignored_stay_ignored() {
    let folder = Folder::with_tables();
    let mut running = endless(&folder, "trap '' HUP");
    send("-HUP", &running);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(running.try_wait().unwrap().is_none());
    send("-TERM", &running);
    assert!(running.wait().unwrap().success());
}

#[cfg(unix)]
#[test]
fn an_interrupted_training_saves_what_it_found() {
    let folder = Folder::with_tables();
    let mut running = endless(&folder, "true");
    send("-TERM", &running);
    let ended = running.wait().unwrap();
    let mut told = String::new();
    std::io::Read::read_to_string(&mut running.stderr.take().unwrap(), &mut told).unwrap();
    assert!(ended.success(), "{told}");
    assert!(told.contains("stopping after this step") && told.contains("--resume state goes on"), "{told}");
    folder.ok(&["predict", "m.cagey", "new.csv"]);
    assert!(folder.names().iter().all(|name| !name.starts_with('.')), "{:?}", folder.names());
}

#[test]
fn tables_that_can_hardly_be_fitted() {
    let folder = Folder::with_tables();
    let fit = |name: &str, content: String| {
        folder.write(name, content);
        folder.ok(&["fit", name, "--kernel", ONE, "-o", "m", "--json"]);
        let predicted = folder.ok(&["predict", "m", name]);
        assert!(numbers(&predicted, "sd").iter().all(|sd| *sd > 0.0), "{name}: {predicted}");
        folder.json(&["inspect", "m", "--json"])["training"]["warnings"].to_string()
    };
    assert!(fit("one", "x,y\n1,2\n".into()).contains("one row"));
    fit("two", "x,y\n1,2\n3,4\n".into());
    fit("duplicates", "x,y\n".to_owned() + &"1,2\n".repeat(10) + &"2,3\n".repeat(10));
    fit("contradictions", "x,y\n".to_owned() + &"1,2\n1,3\n".repeat(10));
    assert!(fit("flat", table(&["x", "y"], 20, |i| vec![position(i), 5.0])).contains("`y` is constant"));
    assert!(fit("idle", table(&["c", "x", "y"], 20, |i| vec![7.0, position(i), wave(i)])).contains("`c` is constant"));
    let spiked =
        |rows: usize, spike: f64| table(&["x", "y"], rows, |i| vec![if i == 7 { spike } else { position(i) }, wave(i)]);
    let warned = fit("spiked", spiked(120, 654_321.0));
    assert!(
        ["`x` has a value of 654321,", "11 standard deviations", "99 %"].iter().all(|w| warned.contains(w)),
        "{warned}"
    );
    assert!(!fit("spread", spiked(120, 15.0)).contains("`x` has a value"));
    let rare = table(&["r", "x", "y"], 120, |i| vec![f64::from(u8::from(i == 7)), position(i), wave(i)]);
    assert!(!fit("rare", rare).contains("has a value"), "a rare category is no outlier");
    fit("idle all", table(&["c", "y"], 20, |i| vec![7.0, wave(i)]));
    fit("still", table(&["c", "y"], 20, |_| vec![7.0, 1.0]));
    fit("huge", table(&["x", "y"], 20, |i| vec![1e140 * position(i), 1e140 * wave(i)]));
    fit("far", table(&["x", "y"], 20, |i| vec![1e9 + position(i), 1e12 + wave(i)]));
}

#[test]
fn error_bars_of_nearly_noiseless_lines_are_not_rounding_errors() {
    let folder = Folder::new();
    folder.write("line.csv", table(&["x", "y"], 30, |i| vec![i as f64, 2.0 * i as f64 + 1.0]));
    for model in ["exact", "cagp"] {
        folder.ok(&["fit", "line.csv", "--model", model, "-o", "m.cagey"]);
        let noise = parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "likelihood.noise")[0];
        let latent = folder.ok(&["predict", "m.cagey", "line.csv", "--latent"]);
        // Where there is an observation, f is known to within its noise, with any kernel.
        assert!(numbers(&latent, "sd").iter().all(|sd| *sd <= 1.01 * noise.sqrt()), "{model}, {noise}: {latent}");
    }
}

#[test]
fn lengths_are_set_beside_the_inputs_they_are_of() {
    let folder = Folder::new();
    for factor in [1e6, 1e-9] {
        folder.write("far.csv", table(&["x", "y"], 40, |i| vec![factor * position(i), wave(i)]));
        let start = format!("lengthscale={}", 1.5 * factor);
        let fit = ["fit", "far.csv", "--no-standardize", "--kernel", "rbf", "--init", &start, "-o", "m.cagey"];
        let told = folder.ok(&fit);
        assert!(!told.contains("far longer") && !told.contains("far shorter"), "{told}");
        let start = format!("lengthscale={}", 1e5 * factor);
        let flat = [
            "fit",
            "far.csv",
            "--no-standardize",
            "--kernel",
            "rbf",
            "--init",
            &start,
            "--steps",
            "0",
            "-o",
            "m.cagey",
        ];
        let told = folder.ok(&flat);
        assert!(told.contains("far longer"), "{told}");
    }
}

#[test]
fn tables_that_cannot_be_read() {
    let folder = Folder::with_model();
    let good = folder.read("ok.csv");
    let bad: [(&str, Vec<u8>, &[&str]); 12] = [
        ("empty", vec![], &["empty"]),
        ("header", b"x,y\n".to_vec(), &["no row"]),
        ("narrow", b"y\n1\n2\n".to_vec(), &["no feature", "`y`"]),
        ("nan", (good.clone() + "nan,1\n").into(), &["row 32", "`x`", "`nan`", "--missing drop"]),
        ("inf", (good.clone() + "1,-inf\n").into(), &["row 32", "`y`", "`-inf`", "--missing drop"]),
        ("large", (good.clone() + "1e300,1\n").into(), &["row 32", "`x`", "`1e300`", "rescale"]),
        ("tiny", b"x,y\n1e-200,1\n2e-200,2\n".to_vec(), &["rescale"]),
        ("ragged", (good.clone() + "1,2,3\n").into(), &["row 32", "3 cells", "delimiter"]),
        ("latin", b"x,y\n1,2\n\xe9,3\n".to_vec(), &["row 3", "`x`", "UTF-8"]),
        ("commas", b"x;y\n1,5;2\n2,5;3\n".to_vec(), &["row 2", "`x`", "`1,5`", "--decimal comma"]),
        ("utf16", b"\xff\xfex\0,\0y\0".to_vec(), &["UTF-16"]),
        ("cut", b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), &["gzip", "cut short"]),
    ];
    for (name, content, words) in bad {
        folder.write(name, content);
        let file: &[&str] = if name == "tiny" { &["`x`"] } else { &[name] };
        folder.fails(1, &["fit", name, "-o", "no"], &[words, file].concat());
    }
    folder.write("open", good.clone() + "1,\"2,3\n");
    folder.fails(1, &["fit", "open", "-o", "no"], &["row 32"]);
    folder.fails(1, &["fit", "absent", "-o", "no"], &["absent", "no such file"]);
    folder.fails(1, &["fit", ".", "-o", "no"], &["directory"]);
    folder.fails(1, &["fit", "ok.csv/x", "-o", "no"], &["ok.csv/x", "is a file"]);
    folder.refuses(1, &["--target", "Y1"], &["ok.csv", "`Y1`", "did you mean `y`"]);
    folder.refuses(1, &["--features", "q"], &["ok.csv", "`q`"]);
    folder.refuses(1, &["--features", "x,x"], &["`x`", "twice"]);
    folder.refuses(1, &["--categorical", "q"], &["`q`"]);

    folder.write("other.csv", "z\n1\n");
    folder.fails(1, &["predict", "m.cagey", "other.csv"], &["other.csv", "`x`"]);
    folder.fails(1, &["predict", "m.cagey", "nan"], &["nan", "row 32"]);
    folder.fails(1, &["evaluate", "m.cagey", "new.csv"], &["new.csv", "`y`"]);
    folder.fails(1, &["plot", "m.cagey", "new.csv", "-o", "p.svg"], &["new.csv", "`y`"]);
    folder.write("wide", "1,2,3\n");
    folder.fails(1, &["predict", "m.cagey", "wide"], &["wide", "3 columns"]);
    let dropped = folder.run(&["predict", "m.cagey", "nan", "--missing", "drop"]);
    assert_eq!(
        (dropped.code, dropped.err.as_str()),
        (0, "warning: 1 of 31 rows with missing cells left out: `x` in 1\n")
    );
}

#[test]
fn options_without_a_valid_value() {
    let folder = Folder::with_tables();
    for (options, words) in [
        (&["--holdout", "1.5"][..], &["--holdout", "1.5", "below 1"][..]),
        (&["--holdout", "-0.5"], &["--holdout", "-0.5"]),
        (&["--holdout", "0.001"], &["0.001", "30 rows"]),
        (&["--holdout", "0.1", "--holdout-last", "0.1"], &["--holdout-last"]),
        (&["--split-column", "a"], &["--split-mask"]),
        (&["--steps", "-1"], &["--steps", "-1"]),
        (&["--threads", "0"], &["--threads"]),
        (&["--threads", "100000"], &["--threads"]),
        (&["--max-time", "1x"], &["--max-time", "`x`"]),
        (&["--max-time", "-1s"], &["--max-time", "-1s"]),
        (&["--restarts", "0"], &["--restarts"]),
        (&["--patience", "0"], &["--patience"]),
        (&["--log-every", "0"], &["--log-every"]),
        (&["--lr", "0"], &["--lr"]),
        (&["--checkpoint", "c", "--checkpoint-every", "0"], &["--checkpoint-every"]),
        (&["--device", "gpu"], &["--device", "gpu", "flex"]),
        (&["--device-memory", "8XB"], &["--device-memory", "`XB`"]),
        (&["--device-memory", "0GB"], &["--device-memory", "above 0"]),
        (&["--algebra", "nowhere"], &["--algebra", "host", "device"]),
        (&["--dtype", "f16"], &["--dtype", "f16", "f32"]),
        (&["--init", "lengthscale"], &["--init", "NAME"]),
        (&["--init", "lengthscale=abc"], &["--init", "`abc`"]),
        (&["--init", "lenghtscale=1"], &["`lenghtscale`", "did you mean `lengthscale`"]),
        (&["--init", "lengthscale=-1"], &["lengthscale", "-1"]),
        (&["--init", "lengthscale=0"], &["lengthscale", "0"]),
        (&["--init", "lengthscale=1,2"], &["lengthscale", "1 value, got 2"]),
        (&["--init", "noise=0"], &["noise", "give a small number such as"]),
        (&["--init", "noise=5", "--bounds", "noise=0.1..1"], &["noise", "5", "0.1..1"]),
        (&["--fix", "nose"], &["`nose`", "did you mean `noise`"]),
        (&["--prior", "matern.lengthscale=normal(0,1)"], &["did you mean `matern32.lengthscale`"]),
        (&["--prior", "noise=cauchy(1)"], &["cauchy(1)", "halfcauchy"]),
        (&["--prior", "noise=normal(0,-1)"], &["normal(0,-1)", "positive"]),
        (&["--prior", "noise=lognormal(0,1) sd"], &["prior of noise", "leave `sd` out"]),
        (&["--prior", "lengthscale[z]=normal(0,1)"], &["no input column `z`", "there are x"]),
        (&["--starts", "sideways"], &["--starts", "race", "data"]),
        (&["--bounds", "noise=1-2"], &["--bounds", "LOW..HIGH"]),
        (&["--bounds", "noise=2..1"], &["noise", "2..1"]),
        (&["--bounds", "noise=-1..1"], &["noise", "negative"]),
        (&["--kernel", "rbff"], &["rbff", "did you mean `rbf`", "^^^^"]),
        (&["--kernel", ""], &["expected a kernel"]),
        (&["--kernel", "-1*rbf"], &["positive"]),
        (&["--kernel", &"(".repeat(10_000)], &["nested deeper"]),
        (&["-o", "-"], &["standard output"]),
        (&["-o", "ok.csv"], &["overwrite", "ok.csv"]),
        (&["--checkpoint", "ok.csv"], &["overwrite", "ok.csv"]),
        (&["--checkpoint", "kept.cagey"], &["overwrite"]),
        (&["-o", "./c", "--checkpoint", "c"], &["overwrite"]),
        (&["--steps", "99999999999999999999"], &["--steps"]),
    ] {
        if options[0] == "-o" {
            folder.fails(2, &[&["fit", "ok.csv"], options].concat(), words);
        } else {
            folder.refuses(2, options, words);
        }
    }
    for (options, words) in [
        (&["--noise-column", "y"][..], &["`y`"][..]),
        (&["--target-transform", "log"], &["row 13", "`y`", "log"]),
        (&["--resume", "absent"], &["absent", "no such file"]),
        (&["--resume", "ok.csv"], &["ok.csv", "not a checkpoint"]),
        (&["--checkpoint", "absent/c"], &["absent/c", "create it"]),
        (&["--checkpoint", "."], &["directory"]),
        (&["--split-mask", "new.csv"], &["new.csv", "row 2"]),
    ] {
        folder.refuses(1, options, words);
    }
    #[cfg(not(feature = "wgpu"))]
    folder.refuses(1, &["--device", "wgpu"], &["wgpu", "--features wgpu"]);
    // Without a GPU the command takes the CPU and says so.
    #[cfg(not(feature = "gpu"))]
    {
        let ran =
            folder.run(&["fit", "ok.csv", "--steps", "0", "-o", "m", "--device", "auto", "--device-memory", "1GB"]);
        assert!(ran.code == 0 && ran.err.contains("--device auto: flex, f64"), "{}", ran.err);
    }
    // No steps and no time are allowed: the starting point is a model.
    folder.ok(&["fit", "ok.csv", "--steps", "0", "-o", "m"]);
    folder.ok(&["fit", "ok.csv", "--max-time", "0s", "-o", "m"]);
    folder.ok(&["fit", "ok.csv", "--max-time", "1e-1m", "--threads", "1", "-o", "m"]);

    for (arguments, words) in [
        (&["predict", "m", "new.csv", "--level", "95"][..], &["--level"][..]),
        (&["predict", "m", "new.csv", "-o", "m"], &["overwrite"]),
        (&["predict", "m", "new.csv", "-o", "new.csv"], &["overwrite"]),
        (&["sample", "m", "new.csv", "--count", "0"], &["--count"]),
        (&["sample", "m", "new.csv", "--count", "1000000000"], &["--count"]),
        (&["plot", "m", "-o", "p.pdf"], &["p.pdf", ".svg or .png"]),
        (&["plot", "m", "-o", "p.svg", "--points", "0"], &["--points"]),
        (&["plot", "m", "-o", "p.svg", "--points", "1000000000"], &["--points"]),
        (&["plot", "m", "-o", "p.svg", "--holdout", "0.2"], &["--holdout", "table"]),
        (&["evaluate", "m"], &["DATA"]),
        (&["evaluate", "m", "ok.csv", "--loo"], &["--loo"]),
        (&["evaluate", "m", "--loo", "--holdout", "0.2"], &["--holdout", "table"]),
        (&["bogus"], &["bogus"]),
    ] {
        folder.fails(2, arguments, words);
    }
}

#[test]
fn models_that_cannot_be_read() {
    let folder = Folder::with_model();
    let model = fs::read(folder.path("m.cagey")).unwrap();
    let mut flipped = model.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let text = String::from_utf8_lossy(&model[8..]).into_owned();
    let at = 8 + text.find(r#""version":"2""#).unwrap() + 11;
    let mut newer = model.clone();
    newer[at] = b'9';
    let cases = [
        ("empty", vec![], "not a model"),
        ("cut", model[..300].to_vec(), "truncated"),
        ("flipped", flipped, "checksum"),
        ("newer", newer, "newer cagey"),
        ("table", folder.read("ok.csv").into(), "not a model"),
    ];
    for (name, content, word) in cases {
        folder.write(name, content);
        folder.fails(1, &["inspect", name], &[name, word]);
        folder.fails(1, &["predict", name, "new.csv"], &[name, word]);
    }
    folder.fails(1, &["inspect", "absent"], &["absent", "no such file"]);
    folder.fails(1, &["inspect", "."], &["directory"]);
}

#[test]
fn places_that_cannot_be_written() {
    let folder = Folder::with_model();
    for (place, word) in [("absent/p.svg", "create it"), ("ok.csv/p.svg", "is a file"), ("d.svg", "directory")] {
        fs::create_dir_all(folder.path("d.svg")).unwrap();
        folder.fails(1, &["fit", "ok.csv", "-o", place], &[place, word]);
        folder.fails(1, &["predict", "m.cagey", "new.csv", "-o", place], &[place, word]);
        folder.fails(1, &["plot", "m.cagey", "-o", place], &[place, word]);
        folder.fails(1, &["sample", "m.cagey", "new.csv", "-o", place], &[place, word]);
    }
    if cfg!(target_os = "linux") && Path::new("/dev/full").exists() {
        folder.fails(1, &["predict", "m.cagey", "new.csv", "-o", "/dev/full"], &["/dev/full", "disk is full"]);
        folder.fails(1, &["fit", "ok.csv", "-o", "/dev/full"], &["/dev/full", "regular file"]);
        let ran = folder.run(&["fit", "ok.csv", "-o", "/dev/null"]);
        assert!(ran.code == 1 && !ran.err.contains("rows"), "told before it is trained: {}", ran.err);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn messages_that_nobody_can_read_lose_no_result() {
    use std::process::Command;
    let folder = Folder::with_model();
    let run = |arguments: &[&str]| {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cagey"));
        command.current_dir(folder.0.path()).args(arguments).stdout(Stdio::null()).stderr(full);
        command.status().unwrap().code()
    };
    assert_eq!(run(&["fit", "ok.csv", "--steps", "2", "-o", "unheard.cagey"]), Some(0));
    assert!(folder.path("unheard.cagey").exists());
    assert_eq!(run(&["compare", "ok.csv", "--steps", "2", "--kernels", "rbf", "matern32"]), Some(0));
    assert_eq!(run(&["predict", "m.cagey", "missing.csv"]), Some(1));
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};
    let folder = Folder::with_model();
    folder.write("long.csv", table(&["x"], 20_000, |i| vec![position(i % 30)]));
    let mut child = Command::new(env!("CARGO_BIN_EXE_cagey"))
        .current_dir(folder.0.path())
        .args(["predict", "m.cagey", "long.csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "mean,sd,lower,upper\n");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn help_and_completions() {
    let folder = Folder::new();
    let help = folder.ok(&["--help"]);
    for command in ["fit", "predict", "evaluate", "inspect", "plot", "sample", "devices", "completions"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let own = folder.ok(&[command, "--help"]);
        assert!(own.contains("Examples:"), "{own}");
        // An option without a description has the next option directly after it.
        let lines: Vec<&str> = own.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        for pair in lines.windows(2).filter(|pair| pair[0].starts_with("--") || pair[0].starts_with("-o")) {
            let described = pair[0].contains("  ") || !pair[1].starts_with('-');
            assert!(described, "{command}: `{}` is not described", pair[0]);
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(folder.ok(&["completions", shell]).contains("--holdout-last") || shell == "fish", "{shell}");
    }
    let devices = folder.ok(&["devices"]);
    assert!(devices.contains("(default)") && devices.contains("pairs/s") && devices.contains("GF/s"), "{devices}");
    assert!(!folder.ok(&["devices", "--no-rates"]).contains("pairs/s"));
}
