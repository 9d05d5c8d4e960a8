//! The messages and help of the command.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Folder, position, table, wave};

impl Folder {
    /// Returns what a successful command writes to standard error.
    pub(super) fn says(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}\n{}", ran.err);
        ran.err + &ran.out
    }

    /// A folder with classes `up` and `down` of the wave, `labels.csv`, and their model `l.cagey`.
    fn with_classes() -> Self {
        let folder = Self::with_tables();
        let row = |i: usize| format!("{},{}\n", position(i), if wave(i) > 0.0 { "up" } else { "down" });
        folder.write("labels.csv", format!("x,y\n{}", (0..30).map(row).collect::<String>()));
        folder.ok(&["fit", "labels.csv", "--steps", "30", "-o", "l.cagey"]);
        folder
    }
}

#[test]
fn a_noise_is_told_as_variance_and_standard_deviation() {
    let folder = Folder::with_tables();
    let fit = ["fit", "ok.csv", "--init", "noise=0.04", "--fix", "noise", "--steps", "2", "-o", "m.cagey"];
    assert!(
        folder.says(&fit).contains("likelihood.noise             0.04 (variance; sd 0.2) (fixed)"),
        "{}",
        folder.says(&fit)
    );
    let found = folder.json(&[&fit[..], &["--json"]].concat());
    assert!((found["noise"].as_f64().unwrap() - 0.04).abs() < 1e-12);
    assert!((found["noise_sd"].as_f64().unwrap() - 0.2).abs() < 1e-12);
    let heavy = [&fit[..], &["--likelihood", "student-t"]].concat();
    assert!(folder.says(&heavy).contains("(squared scale; scale 0.2)"));
}

#[test]
fn help_begins_with_the_model_and_ends_with_a_group_for_each_kind() {
    let folder = Folder::new();
    for command in ["fit", "compare"] {
        let help = folder.ok(&[command, "-h"]);
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{command} -h lacks `{text}`"));
        let first = ["--kernel <", "--likelihood <", "--model <", "--mean <", "--target-transform <"].map(at);
        assert!(first.is_sorted(), "{help}");
        let special =
            ["--inducing <", "--objective <", "--policy <", "--combination <", "--experts <", "--neighbors <"];
        assert!(special.map(at).into_iter().all(|place| place > at("--optimizer <")), "{help}");
        assert!(at("Model experts:") < at("--experts <") && at("Model exact:") < at("--objective <"));
        assert!(at("Models sgpr, svgp, swsgp") < at("--inducing <"));
        assert!(!help[at("\nModel:")..at("\nTable:")].contains("--experts"));
    }
}

#[test]
fn the_summary_names_the_kernel_and_what_predict_writes() {
    let folder = Folder::with_tables();
    let fit = |options: &[&str]| {
        folder
            .says(&[&["fit", "ok.csv", "-o", "m.cagey", "--steps", "5", "--kernel", "rbf + linear"], options].concat())
    };
    let told = fit(&["--holdout", "0.2"]);
    assert!(told.contains("kernel       rbf + linear"), "{told}");
    assert!(told.contains("calibrated, as `predict` writes them: "), "{told}");
    assert!(told.contains("calibrated (`predict` writes this)"), "{told}");
    let told = fit(&["--calibrate", "no"]);
    assert!(told.contains("predictions") && told.contains("as the model says"), "{told}");
    assert!(!told.contains("`predict` writes"), "{told}");
}

#[test]
fn lengthscales_without_effect_are_said_to_have_none() {
    let folder = Folder::new();
    folder.write("t.csv", table(&["x", "z", "y"], 30, |i| vec![position(i), (i % 7) as f64, wave(i)]));
    let fit = |text: &str| {
        let init = format!("lengthscale={text}");
        folder.says(&["fit", "t.csv", "--kernel", "rbf(ard)", "--init", &init, "--steps", "0", "-o", "m.cagey"])
    };
    let told = fit("1,5e23");
    assert!(told.contains("x 1, z no effect") && !told.contains("e23"), "{told}");
    // A long lengthscale beside a large variance is a slope.
    assert!(fit("1,900").contains("x 1, z 900"));
    let one = ["--kernel", "rbf(dims=[x])", "--init", "lengthscale=5e23", "--steps", "0", "-o", "m.cagey"];
    assert!(folder.says(&[&["fit", "t.csv"], &one[..]].concat()).contains("no effect"));
    let inspected = folder.json(&["inspect", "m.cagey", "--json"]);
    assert!(super::parameter(&inspected, "kernel.rbf.lengthscale")[0] > 1e23, "JSON keeps the number");
}

#[test]
fn many_columns_are_told_in_few_lines() {
    let folder = Folder::new();
    let names: Vec<String> = (0..300).map(|c| format!("column_{c}")).chain(["y".into()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The first hundred columns are constant, and one row of each of the next hundred holds most of its variance.
    let cell = |i: usize, c: usize| match c {
        0..100 => 1.0,
        100..200 if i == c - 100 => 1e6,
        _ => (0.1 * (i * (c + 3)) as f64).sin(),
    };
    let row = |i: usize| (0..300).map(|c| cell(i, c)).chain([wave(i)]).collect();
    folder.write("wide.csv", table(&names, 120, row));
    let told = folder.says(&["fit", "wide.csv", "--starts", "data", "--steps", "1", "-o", "m.cagey"]);
    assert!(told.contains("the inputs `column_0`, `column_1`, `column_2` and 97 more are constant"), "{told}");
    assert!(told.contains("more such inputs: `column_103`, `column_104`, `column_105` and 94 more"), "{told}");
    assert!(told.contains("that matter less, 100 without effect"), "{told}");
    assert!(told.matches("warning:").count() <= 12 && told.len() < 6000, "{} bytes\n{told}", told.len());
}

#[test]
fn targets_and_objectives_are_told_with_their_scale() {
    let folder = Folder::with_classes();
    let told = folder.says(&["fit", "ok.csv", "--steps", "1", "-o", "m.cagey"]);
    assert!(
        told.contains("y (standardised by mean ") && told.contains("objective per row, of the standardised target")
    );
    let told = folder.says(&["fit", "ok.csv", "--steps", "1", "-o", "m.cagey", "--no-standardize"]);
    assert!(told.contains("y (not standardised)") && told.contains("objective per row  "), "{told}");
    folder.write("up.csv", table(&["x", "y"], 30, |i| vec![position(i), 2.0 + wave(i)]));
    let told = folder.says(&["fit", "up.csv", "--steps", "1", "-o", "m.cagey", "--target-transform", "log"]);
    assert!(told.contains("of log(y))") && !told.contains("Identity"), "{told}");
    let help = folder.ok(&["fit", "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("the mean of the training targets where these are standardised"));
}

#[test]
fn classes_of_a_likelihood_for_fewer_are_told_by_their_labels() {
    let folder = Folder::with_tables();
    let words = ["`y`", "30 classes", "bernoulli"];
    folder.fails(2, &["fit", "ok.csv", "--likelihood", "bernoulli", "-o", "m.cagey"], &words);
}

#[test]
fn columns_that_tell_nothing_are_named_once() {
    let folder = Folder::new();
    let row = |i: usize| format!("{i},car {i},{},{},{}\n", ["a", "b", "c"][i / 19], position(i), wave(i));
    folder.write("cars.csv", format!(",name,kind,x,y\n{}", (0..40).map(row).collect::<String>()));
    let fit = ["fit", "cars.csv", "--one-hot", "--steps", "1", "-o", "m.cagey", "--holdout-last", "0.1"];
    let told = folder.says(&fit);
    assert_eq!(told.matches("warning:").count(), 2, "{told}");
    assert!(told.contains("`name` has 36 categories in 36 rows"), "{told}");
    assert!(told.contains("1 of the 3 categories of the column `kind`"), "{told}");
    assert!(told.contains("left out: `c0` numbers the rows") && told.contains("--features"), "{told}");
    let told = folder.says(&[&fit[..], &["--drop", "c0,name,kind"]].concat());
    assert!(!told.contains("warning:") && told.contains("1 input column"), "{told}");
    folder.fails(1, &[&fit[..], &["--drop", "nmae"]].concat(), &["`nmae`", "did you mean `name`?"]);
    folder.fails(1, &[&fit[..], &["--drop", "y"]].concat(), &["`y`", "target"]);
    folder.fails(2, &[&fit[..], &["--drop", "x", "--features", "x"]].concat(), &["--drop"]);
}

#[test]
fn short_lengthscales_are_told_of_columns_with_many_values_only() {
    let folder = Folder::new();
    folder.write("t.csv", table(&["x", "flag", "y"], 30, |i| vec![position(i), f64::from(i % 2 == 0), wave(i)]));
    let fit = |lengthscales: &str| {
        let initial = format!("lengthscale={lengthscales}");
        folder.says(&["fit", "t.csv", "--kernel", "rbf(ard)", "--init", &initial, "--steps", "0", "-o", "m.cagey"])
    };
    assert!(!fit("1,1e-9").contains("far shorter"));
    assert!(fit("1e-9,1").contains("far shorter than the data's spacing along the input `x`"));
}

#[test]
fn dims_are_called_by_the_names_of_columns() {
    let folder = Folder::new();
    let row = |i: usize| format!("{},{},{},{}\n", position(i), i % 5, ["red", "blue"][i % 2], wave(i));
    folder.write("t.csv", format!("age,body mass,colour,y\n{}", (0..30).map(row).collect::<String>()));
    let fit = |kernel: &str| {
        let fit = ["fit", "t.csv", "--one-hot", "--steps", "2", "-o", "m.cagey", "--json", "--kernel", kernel];
        folder.json(&fit)["kernel"].as_str().unwrap().to_string()
    };
    let by_number = fit("rbf(dims=[0]) + linear(dims=[1]) + matern32(dims=[2, 3])");
    assert_eq!(fit("rbf(dims=age) + linear(dims=[\"body mass\"]) + matern32(dims=\"colour\")"), by_number);
    assert_eq!(
        fit("rbf(dims=[age]) + linear(dims=\"body mass\") + matern32(dims=[\"colour=blue\", \"colour=red\"])"),
        by_number
    );
    let refuse = |kernel: &str, words: &[&str]| {
        folder.fails(2, &["fit", "t.csv", "--one-hot", "-o", "n.cagey", "--kernel", kernel], words);
    };
    refuse("rbf(dims=[\"agee\"])", &["no input column `agee`", "did you mean `age`?"]);
    refuse("rbf(dims=[\"age\", \"age\"])", &["twice"]);
    refuse("rbf(dims=[\"age)", &["not closed"]);
    refuse("projection(rbf(dims=[age]), dim=2)", &["no names"]);
}

#[test]
fn threads_beyond_the_cores_are_capped_with_a_note() {
    let folder = Folder::with_tables();
    let fit = ["--threads", "1000", "fit", "ok.csv", "--steps", "1", "-o", "m.cagey"];
    let told = folder.says(&fit);
    assert!(told.contains("--threads 1000: there are") || std::thread::available_parallelism().unwrap().get() >= 1000);
    assert!(!folder.says(&[&fit[..], &["--quiet"]].concat()).contains("--threads"));
}

#[test]
fn quiet_leaves_results_warnings_and_errors() {
    let folder = Folder::with_tables();
    let fit = ["fit", "ok.csv", "--steps", "2", "-o", "m.cagey"];
    assert!(folder.run(&fit).err.contains("30 rows"));
    let quiet = folder.run(&[&["-q"], &fit[..]].concat());
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
    assert!(quiet.out.contains("Model written to m.cagey"));
    folder.write("flat.csv", table(&["x", "y"], 20, |i| vec![position(i), 5.0]));
    let flat = folder.run(&["-q", "fit", "flat.csv", "--steps", "2", "-o", "m.cagey", "--json"]);
    assert!(flat.err.starts_with("warning: the target `y` is constant"), "{}", flat.err);
    assert!(folder.run(&["-q", "fit", "none.csv"]).err.starts_with("error:"));
}

#[test]
fn predictions_of_poor_trainings_carry_a_warning() {
    let folder = Folder::with_tables();
    folder.write("flat.csv", table(&["x", "y"], 20, |i| vec![position(i), 5.0]));
    folder.write("one.csv", "x,y\n1,2\n");
    for (name, words) in [("flat.csv", "`y` is constant"), ("one.csv", "one row of data")] {
        folder.ok(&["fit", name, "--steps", "2", "-o", "m.cagey"]);
        let told = folder.run(&["predict", "m.cagey", "new.csv"]).err;
        assert!(told.contains("warning:") && told.contains(words), "{told}");
    }
}

#[test]
fn classes_are_predicted_by_label_and_probability() {
    let folder = Folder::with_classes();
    let text = folder.ok(&["predict", "l.cagey", "new.csv", "--keep"]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("x,predicted,probability_down,probability_up"));
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let likely = if cells[2].parse::<f64>().unwrap() >= 0.5 { "down" } else { "up" };
        assert_eq!(cells[1], likely, "{line}");
    }
}

#[test]
fn decimal_commas_and_separators_are_read_by_option() {
    let folder = Folder::with_tables();
    let comma = |text: &str| text.replace(',', ";").replace('.', ",");
    folder.write("comma.csv", comma(&folder.read("ok.csv")));
    folder.write("new2.csv", comma(&folder.read("new.csv")));
    folder.write("bar.csv", folder.read("ok.csv").replace(',', "|"));
    let fit = |arguments: &[&str]| {
        folder.ok(&[&["fit", "--steps", "5", "-o", "m.cagey"], arguments].concat());
        folder.ok(&["predict", "m.cagey", "new.csv"])
    };
    let want = fit(&["ok.csv"]);
    assert_eq!(fit(&["bar.csv", "--separator", "|"]), want);
    assert_eq!(fit(&["comma.csv", "--decimal", "comma"]), want);
    assert_eq!(fit(&["comma.csv", "--decimal", ",", "--separator", ";"]), want);
    assert_eq!(folder.ok(&["predict", "m.cagey", "new2.csv", "--decimal", "comma"]), want);
    folder.fails(1, &["fit", "comma.csv", "-o", "n"], &["--decimal comma"]);
    folder.write("mixed.csv", "x;y\n1,5;2\n2.5;3\n");
    folder.fails(1, &["fit", "mixed.csv", "--decimal", "comma", "-o", "n"], &["row 3, column `x`", "`2.5`", "point"]);
    for wrong in ["", "ab", "7", "\"", "-", "é"] {
        folder.fails(2, &["fit", "ok.csv", "-o", "n", &format!("--separator={wrong}")], &["--separator"]);
    }
}

#[test]
fn there_is_a_manual() {
    let folder = Folder::new();
    let page = folder.ok(&["man"]);
    assert!(page.contains(".TH") && page.contains("fit") && page.contains("completions"), "{page}");
    assert!(folder.ok(&["man", "fit"]).contains("rows\\-file"));
    folder.fails(2, &["man", "fti"], &["no subcommand `fti`", "predict"]);
}

/// The keys that a section of `docs/json.md` promises, by name, with their types; one map for each table.
fn promised(section: &str) -> Vec<BTreeMap<String, String>> {
    let text = include_str!("../../docs/json.md");
    let body = text.split("\n## ").find(|part| part.lines().next() == Some(section)).unwrap();
    let tables = body.split("| key | type | meaning |").skip(1);
    tables
        .map(|table| {
            let rows = table.lines().filter(|line| line.starts_with("| `"));
            rows.flat_map(|row| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                let names: Vec<&str> = cells[1].split(", ").map(|name| name.trim_matches('`')).collect();
                names.into_iter().map(|name| (name.to_string(), cells[2].to_string())).collect::<Vec<_>>()
            })
            .collect()
        })
        .collect()
}

/// Checks that a JSON object has the promised keys with their types, and no other keys.
fn keeps(value: &Value, promised: &BTreeMap<String, String>) {
    let object = value.as_object().unwrap();
    for (name, kind) in promised {
        let found = match object.get(name) {
            None | Some(Value::Null) => "nothing",
            Some(Value::Number(_)) => "number",
            Some(Value::String(_)) => "string",
            Some(Value::Array(_)) => "array",
            Some(Value::Object(_)) => "object",
            Some(Value::Bool(_)) => "truth",
        };
        let may_lack = kind.ends_with('?') && found == "nothing";
        assert!(may_lack || found == kind.trim_end_matches('?'), "`{name}` is {found}, not {kind}");
    }
    let other: Vec<&String> = object.keys().filter(|name| !promised.contains_key(*name)).collect();
    assert!(other.is_empty(), "docs/json.md lacks {other:?}");
}

#[test]
fn json_has_the_keys_that_are_documented() {
    let folder = Folder::with_classes();
    let [evaluate, classes, counts] = ["", ", of classes", ", of counts and other targets"]
        .map(|of| promised(&format!("cagey evaluate --json{of}")).remove(0));
    let fitted = folder.json(&["fit", "ok.csv", "--steps", "2", "--holdout", "0.2", "-o", "m.cagey", "--json"]);
    keeps(&fitted, &promised("cagey fit --json")[0]);
    keeps(&fitted["scores"], &evaluate);
    keeps(&folder.json(&["evaluate", "m.cagey", "ok.csv", "--json"]), &evaluate);
    keeps(&folder.json(&["evaluate", "l.cagey", "labels.csv", "--json"]), &classes);
    folder.write("counts.csv", table(&["x", "y"], 30, |i| vec![position(i), (2.0 + wave(i)).round().max(0.0)]));
    folder.ok(&["fit", "counts.csv", "--likelihood", "poisson", "--steps", "2", "-o", "c.cagey"]);
    keeps(&folder.json(&["evaluate", "c.cagey", "counts.csv", "--json"]), &counts);
    for model in ["m.cagey", "l.cagey", "c.cagey"] {
        keeps(&folder.json(&["inspect", model, "--json"]), &promised("cagey inspect --json")[0]);
    }
    let compared = folder.json(&["compare", "ok.csv", "--steps", "2", "--models", "exact,sgpr", "--json"]);
    for candidate in compared.as_array().unwrap() {
        let [of_candidates, of_folds] = &promised("cagey compare --json")[..] else { panic!() };
        keeps(candidate, of_candidates);
        keeps(&candidate["folds"][0], of_folds);
        keeps(&candidate["folds"][0]["scores"], &evaluate);
    }
}
