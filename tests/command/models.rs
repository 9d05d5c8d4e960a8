//! Every model and likelihood, from the command.

use super::{Folder, close, position, table, wave};

/// Options that keep all hyperparameters fixed.
const FIXED: [&str; 12] = [
    "--kernel",
    "matern32",
    "--init",
    "lengthscale=1.5",
    "--init",
    "noise=0.05",
    "--fix",
    "lengthscale",
    "--fix",
    "variance",
    "--fix",
    "noise",
];

fn classes(folder: &Folder) {
    let label = |i: usize| if position(i).sin() > 0.0 { "up" } else { "down" };
    let rows: Vec<String> = (0..120).map(|i| format!("{},{}", position(i) / 4.0, label(i / 4 * 4))).collect();
    folder.write("classes.csv", format!("x,side\n{}\n", rows.join("\n")));
}

const POLICIES: [&str; 10] = [
    "learned",
    "cg",
    "cholesky",
    "rows",
    "lanczos",
    "eigenvector",
    "random",
    "pseudo-input",
    "mixed",
    "preconditioned",
];

#[test]
fn as_many_actions_as_rows_are_the_exact_model() {
    let folder = Folder::with_tables();
    let fit = |name: &str, options: &[&str]| {
        let file = format!("{name}.cagey");
        folder.ok(&[&["fit", "ok.csv", "--steps", "3", "-o", &file], options, &FIXED].concat());
        folder.ok(&["predict", &file, "new.csv", "-o", "p.csv"]);
        [folder.column("p.csv", "mean"), folder.column("p.csv", "sd")].concat()
    };
    let exact = fit("exact", &[]);
    for policy in POLICIES {
        let found = fit(policy, &["--model", "cagp", "--actions", "30", "--policy", policy]);
        // Policies that follow residuals end when the residuals are small: they leave out some directions that the
        // targets do not need.
        let by_residuals = ["cg", "lanczos", "mixed", "preconditioned"].contains(&policy);
        for (i, (a, b)) in exact.iter().zip(&found).enumerate() {
            let is_close = if i >= 3 && by_residuals { *b >= a * (1.0 - 1e-9) } else { close(*a, *b, 2e-3) };
            assert!(is_close, "{policy}: {exact:?} {found:?}");
        }
    }
    let fewer = fit("few", &["--model", "cagp", "--actions", "5"]);
    for (exact, sd) in exact[3..].iter().zip(&fewer[3..]) {
        assert!(*sd >= exact * (1.0 - 1e-9), "fewer actions never know more");
    }
    let sparse = fit("sparse", &["--model", "sgpr", "--inducing", "30"]);
    assert!(exact.iter().zip(&sparse).all(|(a, b)| close(*a, *b, 0.02)), "{exact:?} {sparse:?}");
}

#[test]
fn rows_decide_how_actions_for_classes_are_chosen() {
    let folder = Folder::with_tables();
    let fit = |rows: usize, options: &[&str]| {
        let line = |i: usize| format!("{},{}", (i % 37) as f64 / 9.0, i % 37 / 19);
        folder.write("rows.csv", format!("x,y\n{}\n", (0..rows).map(line).collect::<Vec<_>>().join("\n")));
        let fit = ["fit", "rows.csv", "--model", "cagp", "--actions", "6", "--steps", "1", "-o", "m.cagey"];
        folder.ok(&[&fit[..], options].concat())
    };
    assert!(fit(100, &[]).contains("6 learned actions"));
    assert!(fit(600, &[]).contains("at most 6 actions by policy preconditioned and Newton's method"));
    assert!(fit(600, &["--unroll", "1"]).contains("6 learned actions"));
    // All policies are for all likelihoods.
    for policy in POLICIES.into_iter().filter(|policy| *policy != "learned") {
        let found = fit(100, &["--policy", policy]);
        assert!(found.contains(&format!("at most 6 actions by policy {policy} and Newton's method")), "{found}");
    }
}

#[test]
fn rows_set_apart_take_no_actions() {
    let folder = Folder::new();
    folder.write("t.csv", table(&["x", "y"], 200, |i| vec![position(i), f64::from(u8::from(position(i).sin() > 0.0))]));
    let fit = ["fit", "t.csv", "--model", "cagp", "--likelihood", "bernoulli", "--steps", "2", "-o", "m.cagey"];
    assert!(folder.ok(&fit).contains("200 learned actions"));
    assert!(folder.ok(&[&fit[..], &["--calibrate"]].concat()).contains("170 learned actions"));
}

#[test]
fn the_matrix_free_model_is_the_exact_one() {
    let folder = Folder::with_tables();
    let fit = |options: &[&str]| {
        folder.ok(&[&["fit", "ok.csv", "--steps", "3", "-o", "m.cagey"], options, &FIXED].concat());
        folder.ok(&["predict", "m.cagey", "new.csv", "-o", "p.csv"]);
        [folder.column("p.csv", "mean"), folder.column("p.csv", "sd")].concat()
    };
    let (exact, free) = (fit(&[]), fit(&["--model", "cggp", "--rank", "30", "--tolerance", "1e-8"]));
    assert!(exact.iter().zip(&free).all(|(a, b)| close(*a, *b, 1e-5)), "{exact:?} {free:?}");
}

#[test]
fn more_computation_narrows_error_bars_without_a_training() {
    let folder = Folder::with_tables();
    let fit = ["fit", "ok.csv", "--model", "cagp", "--actions", "4", "--steps", "3", "-o", "few.cagey"];
    folder.ok(&[&fit[..], &FIXED].concat());
    folder.ok(&["refine", "few.cagey", "--actions", "26", "-o", "all.cagey"]);
    folder.ok(&["fit", "ok.csv", "--model", "cagp", "--actions", "auto", "--steps", "3", "-o", "auto.cagey"]);
    assert!(folder.ok(&["inspect", "auto.cagey"]).contains("actions, none added after training"));
    folder.ok(&["predict", "auto.cagey", "ok.csv"]);
    folder.fails(
        2,
        &["fit", "ok.csv", "--model", "cagp", "--actions", "none", "-o", "auto.cagey"],
        &["`auto`", "1 to"],
    );
    let split = |model: &str| {
        folder.ok(&["predict", model, "new.csv", "--latent", "--split", "-o", "p.csv"]);
        ["sd", "mathematical_sd", "computational_sd"].map(|name| folder.column("p.csv", name))
    };
    let ([few, exact, left], [all, same, nothing]) = (split("few.cagey"), split("all.cagey"));
    for i in 0..few.len() {
        assert!(close(few[i].powi(2), exact[i].powi(2) + left[i].powi(2), 1e-6), "{few:?} {exact:?} {left:?}");
        assert!(close(exact[i], same[i], 1e-9) && all[i] <= few[i], "{all:?} {few:?}");
        assert!(nothing[i] <= 0.3 * left[i].max(1e-6), "{left:?} {nothing:?}");
    }
    // The calibration of the wider error bars does not apply to the narrower ones.
    let fit = ["fit", "ok.csv", "--model", "cagp", "--actions", "4", "--calibrate", "--steps", "3", "-o", "few.cagey"];
    folder.ok(&[&fit[..], &FIXED].concat());
    assert!(folder.ok(&["refine", "few.cagey", "--actions", "26", "-o", "all.cagey"]).contains("calibrated anew"));
    let ends = |model: &str, read: &str| {
        folder.ok(&["predict", model, "new.csv", "-o", "p.csv"]);
        folder.column("p.csv", read)
    };
    folder.ok(&[&["fit", "ok.csv", "--calibrate", "--steps", "3", "-o", "exact.cagey"], &FIXED[..]].concat());
    for column in ["mean", "sd"] {
        let (refined, exact) = (ends("all.cagey", column), ends("exact.cagey", column));
        assert!(refined.iter().zip(&exact).all(|(a, b)| close(*a, *b, 1e-3)), "{column}: {refined:?} {exact:?}");
    }
    folder.ok(&["fit", "ok.csv", "--steps", "3", "-o", "exact.cagey"]);
    for command in [
        &["refine", "exact.cagey", "--actions", "5", "-o", "m.cagey"][..],
        &["predict", "exact.cagey", "new.csv", "--split"],
    ] {
        let ran = folder.run(command);
        assert!(ran.code == 2 && ran.err.contains("computation"), "{}", ran.err);
    }
}

#[test]
fn classes_are_inferred_scored_and_predicted() {
    let folder = Folder::new();
    classes(&folder);
    let fit = ["fit", "classes.csv", "--inducing", "20", "--steps", "300", "--holdout", "0.2", "-o", "m.cagey"];
    let ran = folder.run(&fit);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("two classes `down` and `up`: classification"), "{}", ran.err);
    assert!(ran.out.contains("accuracy") && ran.out.contains("true class by predicted class"), "{}", ran.out);
    let scores = folder.json(&["evaluate", "m.cagey", "classes.csv", "--json"]);
    for (key, least) in [("accuracy", 0.85), ("auc", 0.9)] {
        assert!(scores[key].as_f64().unwrap() > least, "{scores}");
    }
    for key in ["log_loss", "brier", "ece"] {
        assert!(scores[key].as_f64().unwrap() < 0.5, "{scores}");
    }
    folder.ok(&["predict", "m.cagey", "classes.csv", "-o", "p.csv"]);
    let (down, up) = (folder.column("p.csv", "probability_down"), folder.column("p.csv", "probability_up"));
    assert!(down.iter().zip(&up).all(|(a, b)| close(a + b, 1.0, 1e-12)));
    folder.write("other.csv", "x,side\n1,sideways\n");
    folder.fails(1, &["evaluate", "m.cagey", "other.csv"], &["sideways", "side"]);
}

#[test]
fn counts_have_rates_and_dispersion() {
    let folder = Folder::new();
    let count = |i: usize| (3.0 + 2.5 * position(i).sin() + wave(i).abs()).round().max(0.0);
    folder.write(
        "counts.csv",
        table(&["x", "hours", "events"], 60, |i| vec![position(i), 1.0 + (i % 3) as f64, count(i)]),
    );
    let options = ["--likelihood", "poisson", "--exposure", "hours", "--inducing", "15", "--steps", "200"];
    folder.ok(&[&["fit", "counts.csv", "-o", "m.cagey"], &options[..]].concat());
    let scores = folder.json(&["evaluate", "m.cagey", "counts.csv", "--json"]);
    assert!(scores["deviance"].as_f64().unwrap() < 2.0 && scores["dispersion"].as_f64().unwrap() < 2.0, "{scores}");
    folder.ok(&["predict", "m.cagey", "counts.csv", "-o", "p.csv"]);
    let column = |name| folder.column("p.csv", name);
    for (((low, mean), high), (lower, upper)) in column("rate_lower")
        .iter()
        .zip(column("mean"))
        .zip(column("rate_upper"))
        .zip(column("lower").into_iter().zip(column("upper")))
    {
        assert!(*low < mean && mean < high, "{low} {mean} {high}");
        assert!(lower.fract() == 0.0 && upper.fract() == 0.0 && lower <= upper);
    }
}

#[test]
fn newtons_method_serves_every_command() {
    let folder = Folder::new();
    classes(&folder);
    let count = |i: usize| (3.0 + 2.5 * position(i).sin() + wave(i).abs()).round().max(0.0);
    let hours = |i: usize| 1.0 + (i % 3) as f64;
    folder.write("counts.csv", table(&["x", "hours", "events"], 60, |i| vec![position(i), hours(i), count(i)]));
    let kind = |i: usize| ["a", "b", "c"][(position(i) * 0.9) as usize % 3];
    let rows: String = (0..60).map(|i| format!("{},{},{}\n", position(i), wave(i), kind(i))).collect();
    folder.write("kinds.csv", format!("x,z,kind\n{rows}"));
    let counts = ["--likelihood", "poisson", "--exposure", "hours"];
    let (laplace, cagp) = (&["--model", "laplace"][..], &["--model", "cagp", "--actions", "20"][..]);
    for (data, model, options, score, most) in [
        ("classes.csv", laplace, &[][..], "log_loss", 0.4),
        ("counts.csv", laplace, &counts, "deviance", 2.0),
        ("kinds.csv", laplace, &[], "log_loss", 0.9),
        ("classes.csv", cagp, &[], "log_loss", 0.4),
        ("counts.csv", cagp, &counts, "deviance", 2.0),
        ("kinds.csv", cagp, &[], "log_loss", 0.9),
    ] {
        let out = folder.ok(&[&["fit", data, "--steps", "30", "-o", "m.cagey"], model, options].concat());
        let title = if model == laplace { "Laplace approximation of a Gaussian" } else { "Computation-aware Gaussian" };
        assert!(out.contains(title) && folder.ok(&["inspect", "m.cagey"]).contains(title), "{out}");
        let scores = folder.json(&["evaluate", "m.cagey", data, "--json"]);
        assert!(scores[score].as_f64().unwrap() < most, "{data}: {scores}");
        let predicted = folder.ok(&["predict", "m.cagey", data]);
        assert_eq!(predicted, folder.ok(&["predict", "m.cagey", data]));
        folder.ok(&["plot", "m.cagey", data, "--kind", "calibration", "-o", "c.svg"]);
        let compare = ["compare", data, "--steps", "2", "--folds", "2", "--models", model[1]];
        folder.ok(&[&compare[..], &model[2..], options].concat());
        let refine = ["refine", "m.cagey", "--actions", "5", "-o", "r.cagey"];
        if model == laplace {
            folder.fails(2, &refine, &["more actions"]);
        } else {
            assert!(folder.ok(&refine).contains("actions, then"));
            folder.ok(&["predict", "r.cagey", data]);
        }
        if data == "kinds.csv" {
            folder.fails(2, &["sample", "m.cagey", data], &["latent"]);
            continue;
        }
        folder.ok(&["plot", "m.cagey", "-o", "p.svg", "--points", "30"]);
        let samples = folder.ok(&["sample", "m.cagey", data, "--count", "3"]);
        assert_eq!(samples, folder.ok(&["sample", "m.cagey", data, "--count", "3"]));
    }
    let fit = ["fit", "counts.csv", "--model", "cagp", "--likelihood", "poisson", "-o", "n.cagey"];
    for policy in POLICIES {
        let how = ["--policy", policy, "--actions", "12", "--steps", "5", "--exposure", "hours"];
        folder.ok(&[&fit[..], &how].concat());
        folder.ok(&["predict", "n.cagey", "counts.csv"]);
    }
    for sites in [&["--sites", "expectation"][..], &["--unroll", "1"]] {
        let how = ["--policy", "learned", "--actions", "12", "--steps", "5"];
        folder.ok(&[&["fit", "kinds.csv", "--model", "cagp", "-o", "n.cagey"], &how[..], sites].concat());
        folder.ok(&["evaluate", "n.cagey", "kinds.csv"]);
    }
    folder.ok(&[&fit[..], &["--sites", "mode", "--steps", "5", "--exposure", "hours"]].concat());
    let auto = ["--policy", "gradient", "--actions", "auto", "--steps", "3"];
    folder.ok(&[&fit[..], &auto, &["--exposure", "hours"]].concat());
    let kinds = ["fit", "kinds.csv", "--model", "cagp", "-o", "n.cagey"];
    folder.fails(2, &[&kinds[..], &auto].concat(), &["choose a number of actions", "--actions"]);
    let unrolled = ["--policy", "gradient", "--unroll", "3", "--actions", "6", "--steps", "3", "--exposure", "hours"];
    folder.ok(&[&fit[..], &unrolled].concat());
    folder.ok(&["predict", "n.cagey", "counts.csv"]);
    let policy = ["--policy", "gradient", "--actions", "12", "--steps", "3", "--exposure", "hours"];
    for how in [
        &["--newton-steps", "4", "--actions-per-step", "3", "--keep", "5"][..],
        &["--keep", "5", "--compression", "largest", "--stopping", "change"],
    ] {
        folder.ok(&[&fit[..], &policy, how].concat());
        folder.ok(&["predict", "n.cagey", "counts.csv"]);
    }
    // Three actions in one step are all that there are.
    let one = [&fit[..], &policy, &["--newton-steps", "1", "--actions-per-step", "3"]].concat();
    assert!(folder.ok(&one).contains("3 actions"), "{}", folder.ok(&one));
    let learned = [&fit[..], &["--policy", "learned", "--keep", "5", "--exposure", "hours"]].concat();
    folder.fails(2, &learned, &["--keep is for another --policy than learned"]);
    folder.fails(2, &[&fit[..], &["--compression", "largest"]].concat(), &["--keep"]);
    let gaussian = [
        &["fit", "counts.csv", "--target", "events", "--likelihood", "gaussian", "--model", "cagp"][..],
        &["--actions", "8", "--steps", "3", "-o", "g.cagey"],
    ]
    .concat();
    folder.fails(2, &[&gaussian[..], &["--policy", "cg", "--newton-steps", "3"]].concat(), &["than the Gaussian"]);
    folder.fails(2, &[&gaussian[..], &["--policy", "cg", "--unroll", "2"]].concat(), &["choose 1"]);
    folder.fails(2, &[&gaussian[..], &["--unroll", "1"]].concat(), &["--unroll", "another --policy"]);
    folder.ok(&[&gaussian[..], &["--policy", "cg", "--unroll", "1"]].concat());
    let noise = ["--model", "cagp", "--actions", "20", "--likelihood", "heteroscedastic", "--steps", "20"];
    folder.ok(&[&["fit", "counts.csv", "--target", "events", "-o", "h.cagey"], &noise[..]].concat());
    folder.ok(&["predict", "h.cagey", "counts.csv", "--latent"]);
}

#[test]
fn figures_of_classes_and_counts() {
    let folder = Folder::new();
    classes(&folder);
    let plane = |last: &dyn Fn(usize) -> String| {
        let row = |i: usize| format!("{},{},{}\n", position(i), wave(i), last(i));
        format!("a,b,target\n{}", (0..60).map(row).collect::<String>())
    };
    folder.write("plane.csv", plane(&|i| if wave(i) > 0.0 { "up".into() } else { "down".into() }));
    folder.write("three.csv", plane(&|i| ["red", "green", "blue"][i % 3].into()));
    folder.write("counts.csv", plane(&|i| format!("{}", i % 4)));
    folder.write(
        "hours.csv",
        table(&["x", "hours", "events"], 40, |i| vec![position(i), 1.0 + (i % 2) as f64, (i % 5) as f64]),
    );
    let drawn = |data: &str, options: &[&str], kinds: &[(&str, bool, &str)]| {
        let small = ["--inducing", "8", "--steps", "10", "-o", "m.cagey"];
        folder.ok(&[&["fit", data], &small[..], options].concat());
        for (kind, scored, word) in kinds {
            let table: &[&str] = if *scored { &[data] } else { &[] };
            folder.ok(&[&["plot", "m.cagey"], table, &["--kind", kind, "-o", "f.svg", "--points", "20"]].concat());
            assert!(folder.read("f.svg").contains(word), "{data} {kind} lacks {word}");
        }
    };
    drawn("classes.csv", &[], &[("posterior", true, "probability of up"), ("calibration", true, "confidence")]);
    drawn("plane.csv", &[], &[("posterior", false, "up against down"), ("learning", false, "iteration")]);
    let poisson = ["--likelihood", "poisson"];
    drawn("counts.csv", &poisson, &[("posterior", true, "training data"), ("calibration", true, "calibration")]);
    // Training rows are not held-out rows.
    assert!(!folder.read("f.svg").contains("held-out data"));
    folder.write("others.csv", plane(&|i| format!("{}", (i + 1) % 4)));
    folder.ok(&["plot", "m.cagey", "others.csv", "-o", "f.svg", "--points", "20"]);
    assert!(folder.read("f.svg").contains("held-out data"));
    folder.fails(2, &["plot", "m.cagey", "counts.csv", "--kind", "learning", "-o", "f.svg"], &["leave out the table"]);
    drawn("hours.csv", &[&poisson[..], &["--exposure", "hours"]].concat(), &[("posterior", false, "events per hours")]);
    drawn("three.csv", &[], &[("calibration", true, "confidence")]);
    folder.fails(2, &["plot", "m.cagey", "-o", "f.svg"], &["two classes", "--kind calibration"]);
    folder.fails(2, &["plot", "m.cagey", "--kind", "calibration", "-o", "f.svg"], &["table"]);
    // With two functions, neither gives the probability alone.
    for data in ["classes.csv", "plane.csv"] {
        drawn(data, &["--likelihood", "softmax"], &[("calibration", true, "confidence")]);
        folder.fails(2, &["plot", "m.cagey", "-o", "f.svg"], &["two classes", "bernoulli"]);
    }
}

#[test]
fn arguments_of_likelihoods_reach_every_model() {
    let folder = Folder::with_tables();
    folder.write("milli.csv", table(&["x", "y"], 30, |i| vec![position(i), 1e-3 * wave(i)]));
    let noise = |data: &str, options: &[&str]| {
        let fit = ["fit", data, "--fix", "noise", "--steps", "1", "-o", "m.cagey"];
        folder.ok(&[&fit[..], options].concat());
        super::parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "likelihood.noise")[0]
    };
    for model in ["exact", "cagp", "sgpr", "nearest", "svgp", "swsgp", "laplace"] {
        assert!(close(noise("ok.csv", &["--likelihood", "gaussian(0.04)", "--model", model]), 0.04, 1e-12), "{model}");
        // Less than a millionth, but not in relation to this target's variance.
        let small = noise("milli.csv", &["--likelihood", "gaussian(1e-8)", "--model", model]);
        assert!(close(small, 1e-8, 1e-9), "{model}: {small}");
    }
    let given = noise("ok.csv", &["--likelihood", "gaussian(0.04)", "--init", "noise=0.09"]);
    assert!(close(given, 0.09, 1e-12), "{given}");
    assert!(close(noise("ok.csv", &["--likelihood", "heteroscedastic(0.04)"]), 0.04, 1e-12));
    folder.refuses(2, &["--likelihood", "gaussian(0)"], &["noise", "a number above 0"]);
    let told = folder.run(&["fit", "ok.csv", "--likelihood", " Gaussian ", "--steps", "1", "-o", "m.cagey"]);
    assert!(told.out.starts_with("Exact"), "{}", told.out);
}

#[test]
fn classes_without_rows_and_options_about_classes() {
    let folder = Folder::new();
    let grade = |i: usize| [1.0, 2.0, 4.0, 5.0][i % 4];
    folder.write("grades.csv", table(&["c", "x", "grade"], 60, |i| vec![(i % 3) as f64, position(i), grade(i)]));
    let fit = ["fit", "grades.csv", "--inducing", "5", "--steps", "2", "-o", "m.cagey"];
    for likelihood in ["softmax(5)", "ordinal(5)"] {
        let words = ["4 classes, not 5", "--classes"];
        folder.fails(2, &[&fit[..], &["--likelihood", likelihood]].concat(), &words);
        folder.ok(&[&fit[..], &["--likelihood", likelihood, "--classes", "1,2,3,4,5"]].concat());
        folder.ok(&["predict", "m.cagey", "grades.csv", "-o", "p.csv"]);
        let columns = ["1", "2", "3", "4", "5"].map(|label| folder.column("p.csv", &format!("probability_{label}")));
        let all = |row: usize| columns.iter().map(|column| column[row]).sum::<f64>();
        assert!((0..60).all(|row| close(all(row), 1.0, 1e-9)));
        std::fs::remove_file(folder.path("m.cagey")).unwrap();
        std::fs::remove_file(folder.path("p.csv")).unwrap();
    }
    let counts = [&fit[..], &["--likelihood", "poisson"]].concat();
    folder.fails(2, &[&counts[..], &["--classes", "1,2,4,5"]].concat(), &["--classes", "ordinal", "poisson"]);
    folder.fails(1, &[&counts[..], &["--categorical", "grade"]].concat(), &["`grade`", "target", "categorical"]);
    folder.fails(1, &[&counts[..], &["--features", "x", "--categorical", "c"]].concat(), &["`c`", "not as a feature"]);
    let told = folder.run(&[&fit[..], &["--categorical", "grade"]].concat());
    assert!(told.code == 0 && told.err.contains("4 classes"), "{}", told.err);
    folder.ok(&[&fit[..], &["--likelihood", "softmax", "--rows-file", "t.rows"]].concat());
    let words = ["`grade` was read as classes (1, 2, 4, 5)", "poisson"];
    folder.fails(2, &["fit", "t.rows", "--likelihood", "poisson", "-o", "n.cagey"], &words);

    let long = |i: usize| ["setosa", "versicolor", "virginica"][i % 3];
    let rows: Vec<String> = (0..30).map(|i| format!("{},{}", position(i), long(i))).collect();
    folder.write("long.csv", format!("x,species\n{}\n", rows.join("\n")));
    folder.ok(&["fit", "long.csv", "--inducing", "5", "--steps", "2", "-o", "l.cagey"]);
    let shown = folder.ok(&["evaluate", "l.cagey", "long.csv"]);
    assert!(shown.contains("  setosa  versicolor   virginica"), "{shown}");
}

#[test]
fn numbers_stand_under_the_columns_they_belong_to() {
    let folder = Folder::new();
    folder.write("two.csv", table(&["a", "b", "y"], 40, |i| vec![position(i), wave(2 * i), wave(i)]));
    let line = |kernel: &str, name: &str| {
        let fit = ["fit", "two.csv", "--kernel", kernel, "--steps", "1", "--fix", "lengthscale", "-o", "m.cagey"];
        let out = folder.ok(&fit);
        let line = out.lines().find(|line| line.starts_with("  kernel.") && line.contains(name)).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{kernel} has no {name}: {out}"))
    };
    assert!(line("rbf(lengthscale=[2, 3])", "rbf.lengthscale").contains("a 2, b 3"));
    assert!(line("rbf(lengthscale=[2, 3], dims=[1, 0])", "rbf.lengthscale").contains("b 2, a 3"));
    let mixture = line("spectral_mixture(components=2) + rbf", "spectral_mixture.variance");
    assert!(!mixture.contains('a') || !mixture.contains(" a "), "{mixture}");
    let projected = line("projection(rbf(lengthscale=[2, 3]), dim=2)", "lengthscale");
    assert!(projected.contains("  2, 3"), "{projected}");
}

#[test]
fn what_is_kept_without_a_value_is_chosen_from_the_data() {
    let folder = Folder::new();
    folder.write("large.csv", table(&["x", "y"], 40, |i| vec![position(i), 1000.0 * wave(i)]));
    let variance = |options: &[&str]| {
        folder.ok(&[&["fit", "large.csv", "--steps", "2", "-o", "m.cagey"], options].concat());
        super::parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "kernel.rbf.variance")[0]
    };
    let kept = variance(&["--kernel", "rbf(fix=variance)"]);
    assert!(kept > 1e5 && close(kept, variance(&["--kernel", "rbf", "--fix", "variance"]), 1e-9), "{kept}");
    // Only the first factor of a product has the target's variance.
    assert!(close(variance(&["--kernel", "periodic * rbf"]), 1.0, 1e-12));
}

#[test]
fn targets_that_do_not_fit_say_what_to_do() {
    let folder = Folder::new();
    let write = |name: &str, ys: &[&str]| {
        let rows: Vec<String> = ys.iter().enumerate().map(|(i, y)| format!("{i},{y}")).collect();
        folder.write(name, format!("x,y\n{}\n", rows.join("\n")));
    };
    write("half.csv", &["1", "2.5", "3"]);
    folder.fails(1, &["fit", "half.csv", "--likelihood", "poisson", "-o", "m.cagey"], &["row 3", "2.5", "exposure"]);
    write("minus.csv", &["1", "-1", "3"]);
    folder.fails(1, &["fit", "minus.csv", "--likelihood", "poisson", "-o", "m.cagey"], &["row 3", "-1", "negative"]);
    write("same.csv", &["a", "a", "a"]);
    folder.fails(1, &["fit", "same.csv", "-o", "m.cagey"], &["single class `a`"]);
    write("zeros.csv", &["0", "0", "0", "0"]);
    let ran = folder.run(&["fit", "zeros.csv", "--likelihood", "poisson", "--steps", "3", "-o", "m.cagey"]);
    assert!(ran.code == 0 && (ran.out + &ran.err).contains("all 4 counts are 0"), "{}", ran.err);
    folder.fails(2, &["fit", "half.csv", "--likelihood", "poison", "-o", "m.cagey"], &["poison", "poisson"]);
    let exact = ["fit", "minus.csv", "--likelihood", "student-t", "--model", "exact", "-o", "m.cagey"];
    folder.fails(2, &exact, &["exact", "gaussian", "svgp or"]);
    folder.write("half.csv", "z,x,y\n1,2,3\n2,3,4\n");
    let noisy = ["fit", "half.csv", "--likelihood", "gamma", "--exposure", "x", "-o", "m.cagey"];
    folder.fails(2, &noisy, &["gamma", "exposure"]);
}

#[test]
fn every_model_predicts_the_same_from_its_file_and_after_an_interruption() {
    let folder = Folder::with_tables();
    let models: [&[&str]; 12] = [
        &["--model", "exact"],
        &["--model", "cagp", "--actions", "6"],
        &["--model", "cagp", "--actions", "6", "--policy", "cg"],
        &["--model", "sgpr", "--inducing", "8"],
        &["--model", "nearest", "--neighbors", "3", "--batch", "10", "--schedule", "constant"],
        &["--model", "svgp", "--inducing", "8", "--batch", "10", "--natural-gradients", "0"],
        // A schedule that falls over the steps would differ between 7 and 20 steps.
        &["--model", "svgp", "--inducing", "8", "--batch", "10", "--schedule", "constant"],
        &["--model", "swsgp", "--inducing", "8", "--neighbors", "3", "--mean-field", "--batch", "10"],
        &["--model", "swsgp", "--inducing", "8", "--neighbors", "2", "--union", "--batch", "3"],
        &["--model", "laplace", "--likelihood", "student-t"],
        &["--model", "cagp", "--actions", "6", "--likelihood", "student-t", "--optimizer", "adam"],
        &["--model", "cagp", "--actions", "6", "--likelihood", "student-t", "--policy", "learned"],
    ];
    for options in models {
        let train = |steps: &str, state: &[&str]| {
            // A training of few steps has no race.
            let start = ["fit", "ok.csv", "--steps", steps, "--starts", "data", "-o", "m.cagey"];
            folder.ok(&[&start, options, state].concat());
            folder.ok(&["predict", "m.cagey", "new.csv"])
        };
        let run = || train("20", &[]);
        let first = run();
        assert_eq!(first, folder.ok(&["predict", "m.cagey", "new.csv"]));
        assert_eq!(first, run(), "the same seed gives the same model: {options:?}");
        assert_ne!(first, train("7", &["--checkpoint", "state"]), "{options:?}");
        assert_eq!(first, train("20", &["--resume", "state"]), "{options:?}");
        let loss = |state: &[&str]| {
            train("20", state);
            folder.json(&["inspect", "m.cagey", "--json"])["training"]["loss"].as_f64()
        };
        assert_eq!(loss(&["--checkpoint", "whole"]), loss(&["--resume", "whole"]), "{options:?}");
        assert!(folder.ok(&["inspect", "m.cagey"]).contains("Gaussian process"));
    }
    folder.fails(2, &["evaluate", "m.cagey", "--loo"], &["leaving one out", "gaussian targets"]);
}

#[test]
fn rows_in_a_file_train_the_model_that_rows_in_memory_do() {
    let folder = Folder::with_tables();
    classes(&folder);
    let tables: [(&str, &[&str]); 2] = [
        ("ok.csv", &["--model", "svgp", "--schedule", "constant"]),
        ("classes.csv", &["--holdout", "0.2", "--natural-gradients", "0"]),
    ];
    for (table, options) in tables {
        let train = |steps: &str, rows: &[&str]| {
            let fit = ["fit", table, "--inducing", "8", "--batch", "10", "--steps", steps, "-o", "m.cagey"];
            folder.ok(&[&fit[..], options, rows].concat());
            folder.ok(&["predict", "m.cagey", "new.csv"])
        };
        let held = train("20", &[]);
        assert_eq!(held, train("20", &["--rows-file", "t.rows"]), "{table}");
        assert_ne!(held, train("9", &["--rows-file", "t.rows", "--checkpoint", "state"]), "{table}");
        assert_eq!(held, train("20", &["--rows-file", "t.rows", "--resume", "state"]), "{table}");
        folder.ok(&[&["fit", "t.rows", "--inducing", "8", "--batch", "10", "--steps", "20", "-o", "m.cagey"], options]
            .concat());
        assert_eq!(held, folder.ok(&["predict", "m.cagey", "new.csv"]), "{table}");
    }
    folder.fails(2, &["fit", "t.rows", "--target", "x"], &["--target", "anew"]);
    folder.fails(2, &["fit", "t.rows", "--rows-file", "t.rows"], &["overwrite", "t.rows"]);
    for (options, words) in [
        (&["--rows-file", "u.rows", "--model", "exact"][..], &["rows in a file", "svgp"][..]),
        (&["--rows-file", "ok.csv"], &["overwrite", "ok.csv"]),
        (&["--rows-file", "kept.cagey"], &["overwrite", "kept.cagey"]),
        (&["--rows-file", "t.rows", "--split-mask", "ok.csv"], &["--split-mask"]),
    ] {
        folder.refuses(2, options, words);
    }
    folder.refuses(1, &["--rows-file", "no/t.rows"], &["no/t.rows"]);
}

#[test]
fn many_rows_are_approximated_aloud_and_too_many_refused() {
    let folder = Folder::new();
    folder.write("many.csv", table(&["x", "y"], 5001, |i| vec![position(i), wave(i)]));
    let ran = folder.run(&["fit", "many.csv", "--neighbors", "4", "--steps", "1", "-o", "m.cagey"]);
    assert!(ran.code == 0 && ran.err.contains("5001 rows") && ran.err.contains("--model chooses"), "{}", ran.err);
    assert!(folder.ok(&["inspect", "m.cagey"]).contains("4 nearest rows"));
    // Without options about one of them, there are two models, also where their time is short.
    folder.write("two.csv", table(&["a", "b", "y"], 5001, |i| vec![position(i), wave(3 * i), wave(i)]));
    let ran = folder.run(&["fit", "two.csv", "--max-time", "1s", "-o", "a.cagey"]);
    assert!(ran.code == 0 && ran.err.contains("an average of nearest and experts"), "{}", ran.err);
    let told = folder.ok(&["inspect", "a.cagey"]);
    assert!(
        told.contains("Average of 2 models") && told.contains("nearest with") && told.contains("experts with"),
        "{told}"
    );
    folder.write("more.csv", table(&["x", "y"], 600_000, |i| vec![position(i), wave(i)]));
    folder.fails(2, &["fit", "more.csv", "--model", "exact", "-o", "e.cagey"], &["GB", "--model"]);
}

#[test]
fn options_of_other_models_and_likelihoods_are_refused() {
    let folder = Folder::with_tables();
    folder.write(
        "counts.csv",
        table(&["x", "hours", "y"], 30, |i| vec![position(i), 2.0, f64::from(u8::from(i % 3 == 0))]),
    );
    for (options, words) in [
        (&["--policy", "cg"][..], &["--policy", "--model cagp", "exact"][..]),
        (&["--inducing", "5"], &["--inducing", "sgpr or svgp or swsgp"]),
        (&["--model", "sgpr", "--objective", "loo"], &["--objective", "--model exact"]),
        (&["--model", "svgp", "--divergence", "2"], &["--divergence", "swsgp"]),
        (&["--model", "svgp", "--union"], &["--union", "swsgp"]),
        (&["--model", "swsgp", "--natural-gradients", "0.1"], &["--natural-gradients", "svgp"]),
        (&["--lr", "0.1"], &["--lr", "--optimizer adam"]),
        (&["--schedule", "cosine"], &["--schedule", "--optimizer adam"]),
        (&["--model", "cagp", "--tolerance", "0.1"], &["--tolerance", "--policy"]),
    ] {
        folder.refuses(2, options, words);
    }
    folder.refuses(2, &["--model", "cagp", "--actions", "31"], &["31 actions for 30 rows", "--actions"]);
    folder.ok(&["fit", "ok.csv", "--model", "cagp", "--steps", "1", "-o", "m.cagey"]);
    for (options, words) in [
        (&["--likelihood", "gaussian", "--exposure", "hours"][..], &["--exposure", "poisson", "gaussian"][..]),
        (&["--likelihood", "poisson", "--trials", "hours"], &["--trials", "binomial"]),
        (&["--likelihood", "binomial", "--noise-column", "hours"], &["--noise-column", "gaussian", "binomial"]),
    ] {
        folder.fails(2, &[&["fit", "counts.csv"], options].concat(), words);
    }
    let found = folder.run(&["compare", "ok.csv", "--models", "exact,cagp", "--likelihood", "poisson", "--steps", "3"]);
    assert!(found.code != 0 && !found.err.contains("done"), "{}", found.err);
    // Each option belongs to one of the models that are compared.
    let compare = ["compare", "ok.csv", "--steps", "1", "--actions", "5", "--inducing", "5"];
    folder.ok(&[&compare[..], &["--models", "exact,cagp,sgpr"]].concat());
    folder.fails(2, &[&compare[..], &["--models", "exact,cagp"]].concat(), &["--inducing", "exact and cagp"]);
    folder.fails(2, &["compare", "ok.csv", "--models", "exact,sgpr", "--lr", "0.1"], &["--lr", "--optimizer adam"]);
    let small = ["compare", "ok.csv", "--models", "exact,svgp", "--optimizer", "lbfgs", "--batch", "10"];
    folder.fails(2, &small, &["--optimizer adam", "--batch"]);
    folder.fails(2, &["compare", "ok.csv", "--figure", "curves.pdf"], &["curves.pdf", ".svg"]);
}

#[test]
fn few_distinct_rows_are_fitted_by_every_model() {
    let folder = Folder::new();
    folder.write("same.csv", table(&["g", "y"], 60, |i| vec![1.0, (i % 4) as f64]));
    folder.write("ten.csv", table(&["x", "y"], 60, |i| vec![(i % 10) as f64, wave(i % 10)]));
    for arguments in [
        &["same.csv", "--likelihood", "poisson"][..],
        &["same.csv", "--model", "svgp"],
        &["same.csv", "--model", "laplace", "--likelihood", "poisson"],
        &["ten.csv", "--model", "swsgp"],
        &["ten.csv", "--model", "cagp", "--policy", "cg"],
    ] {
        folder.ok(&[&["fit"], arguments, &["--steps", "3", "-o", "m.cagey"]].concat());
        folder.ok(&["predict", "m.cagey", arguments[0]]);
    }
}

#[test]
fn inducing_inputs_are_in_units_of_the_data() {
    let folder = Folder::new();
    folder.write(
        "far.csv",
        table(&["x", "y"], 60, |i| vec![1000.0 + 10.0 * position(i % 30), wave(i % 30) + 1e-3 * (i / 30) as f64]),
    );
    for model in ["sgpr", "svgp", "swsgp"] {
        let fit = ["fit", "far.csv", "--model", model, "--inducing", "5", "--steps", "2", "-o", "m.cagey"];
        folder.ok(&fit);
        let inducing = super::parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "inducing");
        assert!(inducing.len() == 5 && inducing.iter().all(|z| (990.0..1400.0).contains(z)), "{model}: {inducing:?}");
        folder.ok(&[&fit[..], &["--bounds", "inducing=995..1300"]].concat());
        let bound = super::parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "inducing");
        assert!(bound.iter().zip(&inducing).all(|(a, b)| (a - b).abs() < 5.0), "{model}: {bound:?} {inducing:?}");
        let before = folder.ok(&["predict", "m.cagey", "far.csv"]);
        folder.ok(&[&fit[..], &["--init", "inducing=1010,1030,1100,1200,1250", "--fix", "inducing"]].concat());
        let given = super::parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "inducing");
        assert!(given.iter().zip([1010.0, 1030.0, 1100.0, 1200.0, 1250.0]).all(|(z, want)| (z - want).abs() < 1e-9));
        assert!(before != folder.ok(&["predict", "m.cagey", "far.csv"]), "{model}");
    }
}

#[test]
fn options_that_a_prediction_has_no_use_for_are_refused() {
    let folder = Folder::new();
    classes(&folder);
    folder.ok(&["fit", "classes.csv", "--steps", "2", "-o", "m.cagey"]);
    folder.fails(2, &["predict", "m.cagey", "classes.csv", "--level", "0.9"], &["--level"]);
    folder.ok(&["predict", "m.cagey", "classes.csv", "--latent", "--level", "0.9"]);
    folder.fails(2, &["predict", "m.cagey", "classes.csv", "-o", "p.csv.gz"], &["p.csv.gz", "CSV"]);
    folder.write("coded.csv", table(&["x", "y"], 60, |i| vec![position(i), f64::from(u8::from(wave(i) > 0.0))]));
    folder.ok(&["fit", "coded.csv", "--steps", "2", "-o", "c.cagey"]);
    folder.fails(2, &["predict", "c.cagey", "coded.csv", "--level", "0.9"], &["--level"]);
}

#[test]
fn levels_start_at_the_targets_and_have_their_units() {
    let folder = Folder::new();
    folder.write("far.csv", table(&["x", "y"], 60, |i| vec![position(i), 4000.0 + 10.0 * wave(i)]));
    let fit = |options: &[&str]| {
        folder.ok(&[&["fit", "far.csv", "--steps", "1", "-o", "m.cagey"], options].concat());
        folder.json(&["inspect", "m.cagey", "--json"])["parameters"].clone()
    };
    let level = |parameters: &serde_json::Value, path: &str| parameters[path]["values"][0].as_f64().unwrap();
    for model in ["exact", "cagp", "sgpr", "nearest", "svgp", "swsgp", "laplace"] {
        for mean in ["constant", "linear"] {
            let start = level(&fit(&["--model", model, "--mean", mean]), "mean.constant");
            assert!((start - 4000.0).abs() < 30.0, "{model} {mean}: {start}");
        }
    }
    // A first step of L-BFGS is long, and natural gradients end with some.
    let found = fit(&[
        "--likelihood",
        "heteroscedastic",
        "--mean",
        "linear",
        "--optimizer",
        "adam",
        "--natural-gradients",
        "0",
    ]);
    assert!((level(&found, "latent1.mean.constant") - 4000.0).abs() < 30.0, "{found}");
    assert!(level(&found, "latent2.mean.constant").abs() < 1.0, "the logarithm of a noise has no units");
    let [first, second] = ["latent1", "latent2"].map(|l| level(&found, &format!("{l}.kernel.matern32.variance")));
    assert!(first > 20.0 && (0.3..3.0).contains(&second), "{first} {second}");
}

#[test]
fn classes_keep_the_order_they_are_given() {
    let folder = Folder::new();
    let grade = |i: usize| ["poor", "fair", "good"][(position(i) * 0.9) as usize % 3];
    let rows: Vec<String> = (0..60).map(|i| format!("{},{}", position(i % 30) % 3.0, grade(i % 30))).collect();
    folder.write("grades.csv", format!("x,grade\n{}\n", rows.join("\n")));
    let fit = ["fit", "grades.csv", "--likelihood", "ordinal", "--steps", "5", "-o", "m.cagey"];
    let told = folder.run(&fit);
    assert!(told.err.contains("fair < good < poor") && told.err.contains("--classes"), "{}", told.err);
    let told = folder.run(&[&fit[..], &["--classes", "poor,fair,good"]].concat());
    assert!(told.err.contains("poor < fair < good"), "{}", told.err);
    assert_eq!(folder.json(&["inspect", "m.cagey", "--json"])["classes"], serde_json::json!(["poor", "fair", "good"]));
    folder.ok(&["evaluate", "m.cagey", "grades.csv"]);
    folder.fails(1, &[&fit[..], &["--classes", "poor,good"]].concat(), &["row", "`grade`", "fair", "poor"]);
    folder.fails(2, &[&fit[..], &["--classes", "poor,good,poor"]].concat(), &["`poor` is given twice"]);
    // A listed class is a class, even if its name means something else.
    folder.write("pain.csv", folder.read("grades.csv").replace("poor", "none"));
    for missing in ["reject", "drop"] {
        folder.ok(&[
            "fit",
            "pain.csv",
            "--classes",
            "none,fair,good",
            "--missing",
            missing,
            "--steps",
            "2",
            "-o",
            "p.cagey",
        ]);
        let scores = folder.json(&["evaluate", "p.cagey", "pain.csv", "--json"]);
        assert_eq!(scores["n"], 60, "{scores}");
    }
}

#[test]
fn targets_are_checked_before_they_are_scored() {
    let folder = Folder::new();
    folder.write("counts.csv", table(&["x", "y"], 30, |i| vec![position(i), (i % 4) as f64]));
    folder.ok(&["fit", "counts.csv", "--likelihood", "poisson", "--inducing", "5", "--steps", "5", "-o", "m.cagey"]);
    folder.write("half.csv", table(&["x", "y"], 9, |i| vec![position(i), if i == 4 { 2.5 } else { 1.0 }]));
    folder.fails(1, &["evaluate", "m.cagey", "half.csv"], &["half.csv: row 6", "2.5"]);
    folder.fails(1, &["fit", "half.csv", "--likelihood", "poisson", "-o", "n.cagey"], &["half.csv: row 6", "2.5"]);
    folder.fails(1, &["fit", "m.cagey", "-o", "n.cagey"], &["m.cagey", "saved model"]);
    // Rows that are scored after a training are also checked before it.
    folder.write("last.csv", table(&["x", "y"], 9, |i| vec![position(i), if i == 8 { 2.5 } else { (i % 3) as f64 }]));
    let held_out = ["last.csv", "--likelihood", "poisson", "--inducing", "5", "--steps", "5", "--holdout-last", "0.3"];
    folder.fails(1, &[&["fit", "-o", "n.cagey"], &held_out[..]].concat(), &["last.csv: row 10", "2.5"]);
    folder.fails(1, &[&["compare", "--models", "svgp"], &held_out[..]].concat(), &["last.csv: row 10", "2.5"]);
    let plot = ["plot", "m.cagey", "half.csv", "--kind", "calibration", "-o", "f.svg"];
    folder.fails(1, &plot, &["half.csv: row 6", "2.5"]);
    let tried = |at: f64| table(&["x", "tries", "y"], 20, |i| vec![position(i), if i == 4 { at } else { 3.0 }, 1.0]);
    folder.write("tried.csv", tried(4.0));
    folder.write("odd.csv", tried(2.5));
    let binomial = ["--likelihood", "binomial", "--trials", "tries", "--inducing", "5", "--steps", "2"];
    folder.ok(&[&["fit", "tried.csv", "-o", "b.cagey"], &binomial[..]].concat());
    folder.fails(1, &["predict", "b.cagey", "odd.csv"], &["odd.csv: row 6", "trials", "2.5"]);
}

#[test]
fn more_rows_than_are_looked_at_first_are_all_checked_and_trained_on() {
    let folder = Folder::new();
    let rows = 140_000;
    let count = |i: usize| (2.0 + 2.0 * position(i % 30).sin()).round();
    folder.write("counts.csv", table(&["x", "y"], rows, |i| vec![position(i % 30), count(i)]));
    let fit = ["--likelihood", "poisson", "--inducing", "8", "--steps", "3", "--rows-file", "t.rows", "-o", "m.cagey"];
    let told = folder.run(&[&["fit", "counts.csv", "--holdout", "0.01"], &fit[..]].concat());
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.err.contains("138600 rows") && !told.err.contains("constant"), "{}", told.err);
    assert_eq!(folder.json(&["inspect", "m.cagey", "--json"])["training"]["rows"], 138_600);
    // Some of these six rows are not among the first 65,536 that are looked at.
    for row in rows - 6..rows {
        let bad = |i: usize| if i == row { -1.0 } else { count(i) };
        folder.write("bad.csv", table(&["x", "y"], rows, |i| vec![position(i % 30), bad(i)]));
        let words = [format!("row {}", row + 2), "-1".into()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        folder.fails(1, &[&["fit", "bad.csv"], &fit[..]].concat(), &words);
    }
}

#[test]
fn candidates_are_compared_on_the_same_rows() {
    let folder = Folder::with_tables();
    let common = ["compare", "ok.csv", "--steps", "20"];
    let models = ["--models", "exact,cagp,sgpr", "--actions", "8", "--inducing", "8", "--figure", "curves.svg"];
    let text = folder.ok(&[&common[..], &models].concat());
    assert!(["exact", "cagp", "sgpr", "NLPD", "seconds"].iter().all(|word| text.contains(word)), "{text}");
    assert!(folder.read("curves.svg").contains("</svg>"));
    let folds = ["--kernels", "rbf", "matern32", "--folds", "3", "--json"];
    let found = folder.json(&[&common[..], &folds].concat());
    let all = found.as_array().unwrap();
    let names: Vec<&str> = all.iter().map(|candidate| candidate["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"(mean)") && names.contains(&"(ridge)"), "{names:?}");
    let scores: Vec<f64> = all.iter().map(|candidate| candidate["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted() && all[0]["best"] == true && all[1]["best"] == false, "{scores:?}");
    let [own, difference] = ["score", "difference"].map(|key| &all[1][key]);
    assert!((difference["mean"].as_f64().unwrap() - own.as_f64().unwrap() + scores[0]).abs() < 1e-9);
    assert!(difference["error_by_rows"].as_f64().unwrap() > 0.0 && difference["error_by_folds"].is_number());
    let found: Vec<_> = all.iter().filter(|candidate| candidate["kernel"].is_string()).collect();
    assert_eq!(found.len(), 2);
    for candidate in found {
        let folds = candidate["folds"].as_array().unwrap();
        let rows: u64 = folds.iter().map(|fold| fold["scores"]["n"].as_u64().unwrap()).sum();
        assert_eq!((folds.len(), rows), (3, 30), "the folds cover all rows");
        assert!(folds[0]["parameters"]["likelihood.noise"][0].as_f64().unwrap() > 0.0);
    }
    folder.fails(2, &["compare", "ok.csv", "--folds", "1"], &["--folds"]);
}

#[test]
fn folds_keep_groups_together_and_forecasts_look_ahead() {
    let folder = Folder::new();
    let row = |i: usize| format!("{},{},s{}\n", position(i), wave(i), i % 6);
    folder.write("t.csv", format!("x,y,subject\n{}", (0..36).map(row).collect::<String>()));
    let common = ["compare", "t.csv", "--target", "y", "--steps", "2", "--json"];
    let rows = |found: &serde_json::Value| -> Vec<u64> {
        let folds = found[0]["folds"].as_array().unwrap().iter();
        folds.map(|fold| fold["scores"]["n"].as_u64().unwrap()).collect()
    };
    let groups = folder.json(&[&common[..], &["--group", "subject", "--folds", "3"]].concat());
    assert_eq!(rows(&groups), [12, 12, 12]);
    let one = folder.json(&[&common[..], &["--group", "subject"]].concat());
    assert_eq!(rows(&one), [6], "one of six subjects is the tenth");
    let rolling = folder.json(&[&common[..], &["--drop", "subject", "--rolling", "3"]].concat());
    assert_eq!(rows(&rolling), [6, 6, 6]);
    folder.fails(1, &[&common[..], &["--group", "nobody"]].concat(), &["nobody"]);
    folder.fails(2, &[&common[..], &["--rolling", "3", "--folds", "3"]].concat(), &["--folds"]);
}

#[test]
fn groups_of_series_do_not_depend_on_the_order_of_the_table() {
    let folder = Folder::new();
    let row = |i: usize| format!("{},{},{},q{}\n", ["a", "b"][i % 2], i / 2, wave(i), i / 2 % 4);
    let rows: Vec<String> = (0..64).map(row).collect();
    let backwards = rows.chunks(2).rev().flatten().cloned().collect::<String>();
    let tables = [("forwards.csv", rows.concat()), ("backwards.csv", backwards)];
    let options = ["--target", "y", "--series", "shop", "--group", "quarter", "--model", "state-space"];
    let [forwards, backwards] = tables.map(|(table, rows)| {
        folder.write(table, format!("shop,t,y,quarter\n{rows}"));
        let kernel = ["--kernel", "matern32", "--steps", "2", "--json"];
        folder.json(&[&["compare", table], &options[..], &kernel[..]].concat())
    });
    let scores = |found: &serde_json::Value| -> Vec<(String, f64)> {
        let all = found.as_array().unwrap().iter();
        all.map(|one| (one["name"].to_string(), one["score"].as_f64().unwrap())).collect()
    };
    assert_eq!(scores(&forwards), scores(&backwards));
}

/// Probabilities of classes get the temperature of left-out rows, or of rows set apart. It is in the file and reported;
/// both scores are printed.
#[test]
fn probabilities_of_classes_are_calibrated() {
    let folder = Folder::new();
    // The class follows the sign of x without error; a latent function with little variance is too uncertain about it.
    let row = |i: usize| vec![(1.7 * i as f64).sin(), f64::from(u8::from((1.7 * i as f64).sin() > 0.0))];
    folder.write("t.csv", table(&["x", "y"], 300, row));
    let kernel = "rbf(lengthscale=0.3, variance=0.2, fix=[lengthscale, variance])";
    let fit = ["fit", "t.csv", "-o", "m.cagey", "--likelihood", "bernoulli", "--steps", "30", "--kernel", kernel];
    let with = |options: &[&str]| folder.json(&[&fit[..], &["--holdout", "0.2", "--json"], options].concat());
    for plain in [with(&["--calibrate", "no"]), with(&["--model", "svgp"])] {
        assert!(plain["temperature"].is_null() && plain["scores"]["uncalibrated"].is_null(), "{plain}");
    }
    for (options, source, rows, words) in [
        (&[][..], "leave_one_out", 240, "each left out in turn"),
        (&["--model", "svgp", "--calibrate"], "share", 36, "set apart"),
    ] {
        let fitted = with(options);
        let temperature = &fitted["temperature"];
        assert!(temperature["rows"] == rows && temperature["source"] == source, "{temperature}");
        assert!(temperature["exponent"].as_f64().unwrap() > 1.0 && temperature["gain"].as_f64().unwrap() > 0.0);
        let [own, before] = [&fitted["scores"], &fitted["scores"]["uncalibrated"]];
        assert!(own["log_loss"].as_f64() < before["log_loss"].as_f64(), "{fitted}");
        assert_eq!(own["accuracy"], before["accuracy"]);
        let told = folder.ok(&["inspect", "m.cagey"]);
        assert!(told.contains("sharper, to the power") && told.contains(words), "{told}");
    }
    assert!(folder.ok(&["evaluate", "m.cagey", "t.csv"]).contains("as the model says"));
    // Predictions are the ones that were scored.
    let predicted = folder.ok(&["predict", "m.cagey", "t.csv"]);
    assert!(predicted.lines().count() > 300, "{predicted}");
    folder.fails(2, &["fit", "t.csv", "--likelihood", "poisson", "--calibrate"], &["gaussian", "classes", "poisson"]);
}

#[test]
fn error_bars_are_told_and_calibrated() {
    let folder = Folder::new();
    // One error in ten is twenty times as large.
    let error = |i: usize| 0.05 * (12.9 * i as f64).sin() * if i % 10 == 3 { 20.0 } else { 1.0 };
    let row = |i: usize| vec![0.05 * i as f64, (0.05 * i as f64).sin() + error(i)];
    folder.write("t.csv", table(&["x", "y"], 200, row));
    let fit = ["fit", "t.csv", "-o", "m.cagey", "--steps", "30", "--json"];
    let plain = folder.json(&[&fit[..], &["--calibrate", "no"]].concat());
    assert!(plain["calibration"].is_null());
    let findings = plain["left_out"]["findings"].as_array().unwrap();
    assert!(findings.iter().any(|found| !found["heavy_tails"].is_null()), "{plain}");
    let calibrated = folder.json(&[&fit[..], &["--calibrate", "--holdout", "0.2"]].concat());
    assert!(calibrated["calibration"]["gain"].as_f64().unwrap() > 10.0, "{calibrated}");
    let [own, before] = [&calibrated["scores"], &calibrated["scores"]["uncalibrated"]];
    assert!(own["nlpd"].as_f64() < before["nlpd"].as_f64() && own["rmse"] == before["rmse"], "{calibrated}");
    let text = folder.ok(&["evaluate", "m.cagey", "t.csv", "--holdout", "0.2"]);
    assert!(text.contains("as the model says"), "{text}");
    let told = folder.ok(&["inspect", "m.cagey"]);
    assert!(told.contains("of rows left out in turn"), "the calibration is in the file: {told}");

    // Training rows are not held-out rows; other rows are counted.
    let again = folder.ok(&["evaluate", "m.cagey", "t.csv"]);
    assert!(again.contains("160 of 200 held-out rows have the inputs of a training row"), "{again}");
    folder.write("far.csv", "x\n1\n2\n30\n");
    let far = folder.run(&["predict", "m.cagey", "far.csv"]);
    assert!(far.err.contains("1 of 3 rows lies outside the range of the training data: 1 in `x`"), "{}", far.err);

    // If leaving one out has no closed form, rows are set apart.
    let apart = ["fit", "t.csv", "-o", "v.cagey", "--model", "svgp", "--steps", "50", "--calibrate", "--json"];
    let apart = folder.json(&apart);
    assert_eq!(apart["calibration"]["source"], "share");
    assert_eq!(apart["calibration"]["rows"], 30);
    assert!(folder.ok(&["inspect", "v.cagey"]).contains("with 95 % confidence"), "the bound is told");
    folder.fails(2, &["fit", "t.csv", "--likelihood", "student-t", "--calibrate"], &["gaussian"]);

    // It has one if rows have their own noise.
    folder.write("known.csv", table(&["x", "s", "y"], 200, |i| vec![row(i)[0], 0.1, row(i)[1]]));
    let known = ["fit", "known.csv", "-o", "k.cagey", "--noise-column", "s", "--steps", "3", "--calibrate", "--json"];
    let cagp = folder.json(&[&known[..], &["--model", "cagp", "--actions", "8"]].concat());
    assert_eq!(cagp["calibration"]["source"], "leave_one_out");
    assert_eq!(folder.json(&known)["calibration"]["source"], "leave_one_out");

    // Too few rows are refused before the training.
    folder.write("few.csv", table(&["x", "y"], 100, row));
    let few = ["fit", "few.csv", "-o", "f.cagey", "--model", "svgp", "--calibrate"];
    folder.fails(1, &few, &["would have 15", "130 rows or more", "exact"]);
    folder.write("few.csv", table(&["x", "y"], 19, row));
    folder.fails(1, &["fit", "few.csv", "-o", "f.cagey", "--calibrate"], &["would have 19", "20 rows or more"]);
    assert!(!folder.path("f.cagey").exists());
    // Twins say nothing about new rows; then too few rows are left, and the model is kept.
    // Some of them were measured anew.
    let twin = |i: usize| vec![row(i.max(14))[0], row(i.max(14))[1] + if i < 4 { 1e-3 * i as f64 } else { 0.0 }];
    folder.write("twins.csv", table(&["x", "y"], 30, twin));
    let twins = folder.run(&["fit", "twins.csv", "-o", "f.cagey", "--steps", "3", "--calibrate"]);
    assert!(twins.code == 0 && (twins.out + &twins.err).contains("predictions are not calibrated"));
    assert!(folder.path("f.cagey").exists());
}

#[test]
fn a_forecast_is_no_proof_and_its_advice_can_be_followed() {
    let folder = Folder::new();
    let month = |i: usize| 2000.0 + i as f64 / 12.0;
    let value =
        |i: usize| (5.0 + 0.01 * i as f64 + 0.2 * (std::f64::consts::TAU * i as f64 / 12.0).sin()).exp().round();
    folder.write("t.csv", table(&["month", "y"], 108, |i| vec![month(i), value(i)]));
    folder.write("new.csv", table(&["month", "y"], 24, |i| vec![month(108 + i), value(108 + i)]));
    let likelihood = ["--likelihood", "gaussian"];
    for transform in ["none", "log"] {
        let fit = [&["fit", "t.csv", "-o", "m.cagey", "--target-transform", transform], &likelihood[..]].concat();
        let rough = [&fit[..], &["--kernel", "matern32"]].concat();
        assert!(!folder.ok(&rough).contains("they hold"), "rows left out of a series are no forecast");
        let text = folder.ok(&["evaluate", "m.cagey", "new.csv"]);
        for words in
            ["100 % of these rows lie beyond the training rows in `month`", "worse than the mean of these rows"]
        {
            assert!(text.contains(words), "{text}");
        }
        assert!(!text.contains("they hold"), "{text}");
        let told = folder.json(&["evaluate", "m.cagey", "new.csv", "--json"]);
        let bars = &told["error_bars"];
        assert!(bars["intervals_hold"] != true && bars["remedies"][0] == "season", "{told}");
        let option = bars["advice"][0]["options"][0].as_str().unwrap();
        let kernel = option.strip_prefix("--kernel \"").and_then(|rest| rest.strip_suffix('"')).unwrap();
        assert!(kernel.contains("linear") && kernel.contains("periodic(period=1, fix=period)"), "{option}");
        folder.ok(&[&fit[..], &["--kernel", kernel]].concat());
        let mended = folder.json(&["evaluate", "m.cagey", "new.csv", "--json"]);
        assert!(mended["r2"].as_f64().unwrap() > 0.5 && told["r2"].as_f64().unwrap() < -0.5, "{mended}");
        assert!(mended["nlpd"].as_f64().unwrap() + 0.5 < told["nlpd"].as_f64().unwrap(), "{mended}");
    }
}

#[test]
fn copies_stay_on_one_side_where_that_is_asked_for() {
    let folder = Folder::new();
    folder.write("t.csv", table(&["x", "y"], 60, |i| vec![position(i / 2), wave(i / 2)]));
    let fit = ["fit", "t.csv", "-o", "m.cagey", "--steps", "2", "--json", "--holdout", "0.3"];
    let mixed = folder.json(&fit);
    assert!(mixed["scores"]["copies"].as_u64().unwrap() > 3, "{mixed}");
    let apart = folder.json(&[&fit[..], &["--distinct"]].concat());
    assert!(apart["scores"]["copies"].is_null() && apart["scores"]["n"].as_u64().unwrap() >= 18, "{apart}");
    let compared = folder.ok(&["compare", "t.csv", "--steps", "2", "--holdout", "0.3"]);
    assert!(compared.contains("have the inputs of a training row"), "{compared}");
}

#[test]
fn rows_far_beyond_the_data_are_predicted_by_the_prior() {
    let folder = Folder::new();
    folder.write("t.csv", table(&["x", "y"], 30, |i| vec![position(i), wave(i)]));
    folder.write("far.csv", "x\n1e30\n-1e35\n");
    for kernel in ["matern12", "matern32", "matern52", "rbf", "rq"] {
        folder.ok(&["fit", "t.csv", "--dtype", "f32", "--kernel", kernel, "--steps", "5", "-o", "m.cagey"]);
        let told = folder.ok(&["predict", "m.cagey", "far.csv"]);
        for column in ["mean", "sd"] {
            let values = super::numbers(&told, column);
            assert!(values.iter().all(|v| v.is_finite()) && values.len() == 2, "{kernel}: {told}");
        }
    }
}

#[test]
fn targets_with_a_class_for_each_row_are_refused_before_the_training() {
    let folder = Folder::new();
    let rows: Vec<String> = (0..1000).map(|i| format!("{},name {i}", position(i))).collect();
    folder.write("names.csv", format!("x,name\n{}\n", rows.join("\n")));
    let words = ["`name`", "1000 classes in 1000 rows", "a class of its own"];
    folder.fails(1, &["fit", "names.csv", "-o", "m.cagey"], &words);
    classes(&folder);
    let many = ["fit", "classes.csv", "--likelihood", "softmax(1000000000)", "-o", "m.cagey"];
    folder.fails(2, &many, &["2 classes, not 1000000000"]);
}

#[test]
fn wide_classes_are_predicted_in_bounded_time() {
    let folder = Folder::new();
    let label = |i: usize| ["a", "b", "c"][i % 3];
    let rows: Vec<String> = (0..60).map(|i| format!("{},{}", position(i), label(i / 4))).collect();
    folder.write("c.csv", format!("x,y\n{}\n", rows.join("\n")));
    folder.write("far.csv", "x\n1e4\n1e9\n1e100\n");
    folder.ok(&["fit", "c.csv", "--kernel", "linear + constant", "--steps", "5", "-o", "m.cagey"]);
    folder.ok(&["predict", "m.cagey", "far.csv", "-o", "p.csv"]);
    let columns = ["a", "b", "c"].map(|label| folder.column("p.csv", &format!("probability_{label}")));
    assert!((0..3).all(|row| close(columns.iter().map(|column| column[row]).sum(), 1.0, 1e-9)));
    folder.ok(&["predict", "m.cagey", "c.csv", "--latent", "-o", "l.csv"]);
    for name in ["mean_a", "sd_b", "lower_c", "upper_c"] {
        assert_eq!(folder.column("l.csv", name).len(), 60);
    }
}

#[test]
fn varying_noise_scores_outliers_and_tells_its_functions() {
    let folder = Folder::new();
    let noisy = |i: usize| wave(i) * 0.2 + 0.05 * (1.0 + position(i).abs()) * (i as f64 * 7.7).sin();
    folder.write("h.csv", table(&["x", "y"], 60, |i| vec![position(i), noisy(i)]));
    folder.ok(&[
        "fit",
        "h.csv",
        "--likelihood",
        "heteroscedastic",
        "--inducing",
        "10",
        "--steps",
        "20",
        "-o",
        "m.cagey",
    ]);
    folder.write("outlier.csv", "x,y\n0.1,1e6\n0.2,0.1\n");
    let scores = folder.json(&["evaluate", "m.cagey", "outlier.csv", "--json"]);
    for key in ["nlpd", "crps", "width_95"] {
        assert!(scores[key].as_f64().is_some_and(|score| score > 0.0 && score.is_finite()), "{key}: {scores}");
    }
    folder.ok(&["predict", "m.cagey", "h.csv", "--latent", "-o", "l.csv"]);
    folder.ok(&["predict", "m.cagey", "h.csv", "-o", "p.csv"]);
    let [latent, noise, all] =
        [("l.csv", "sd"), ("l.csv", "mean_log_noise"), ("p.csv", "sd")].map(|(file, name)| folder.column(file, name));
    let spread = folder.column("l.csv", "sd_log_noise");
    for i in 0..60 {
        // The noise variance is log-normal: its mean plus the latent variance is the predictive variance.
        let sum = latent[i].powi(2) + (noise[i] + 0.5 * spread[i].powi(2)).exp();
        assert!(close(all[i].powi(2), sum, 1e-4), "row {i}: {} {sum}", all[i].powi(2));
    }
}

#[test]
fn factors_in_files_change_no_prediction() {
    let folder = Folder::with_tables();
    let cagp = &["--model", "cagp", "--actions", "5"][..];
    for model in [&["--model", "exact"][..], &["--model", "sgpr", "--inducing", "8"], cagp] {
        let predicted = |options: &[&str]| {
            folder.ok(&[&["fit", "ok.csv", "--steps", "3", "-o", "m.cagey"], model, options].concat());
            folder.ok(&["predict", "m.cagey", "new.csv"])
        };
        assert_eq!(predicted(&["--store-factor"]), predicted(&[]));
    }
}

#[test]
fn experts_predict_by_any_rule() {
    let folder = Folder::with_tables();
    let exact = |name: &str, options: &[&str]| {
        folder.ok(&[&["fit", "ok.csv", "--steps", "3", "-o", "m.cagey"], options, &FIXED].concat());
        folder.ok(&["predict", "m.cagey", "new.csv", "-o", name]);
        [folder.column(name, "mean"), folder.column(name, "sd")].concat()
    };
    let whole = exact("e.csv", &["--model", "exact"]);
    let one = exact("o.csv", &["--model", "experts", "--experts", "1"]);
    assert!(whole.iter().zip(&one).all(|(a, b)| close(*a, *b, 1e-6)), "{whole:?} {one:?}");
    let nested = exact("n.csv", &["--model", "experts", "--experts", "30", "--aggregation", "npae"]);
    assert!(whole.iter().zip(&nested).all(|(a, b)| close(*a, *b, 1e-6)), "{whole:?} {nested:?}");

    for partition in ["random", "tree", "kmeans"] {
        folder.ok(&[
            "fit",
            "ok.csv",
            "--model",
            "experts",
            "--experts",
            "3",
            "--partition",
            partition,
            "--steps",
            "5",
            "-o",
            "m.cagey",
        ]);
        let rules = folder.json(&["evaluate", "m.cagey", "ok.csv", "--aggregation", "all", "--json"]);
        let rules = rules.as_array().unwrap();
        assert_eq!(rules.len(), 12);
        assert!(rules.iter().all(|rule| rule["scores"]["rmse"].as_f64().unwrap().is_finite()), "{rules:?}");
        folder.ok(&["predict", "m.cagey", "new.csv", "--aggregation", "all", "-o", "all.csv"]);
        folder.ok(&["predict", "m.cagey", "new.csv", "--aggregation", "rbcm", "-o", "rbcm.csv"]);
        folder.ok(&["predict", "m.cagey", "new.csv", "-o", "usual.csv"]);
        assert_eq!(folder.column("all.csv", "mean_rbcm"), folder.column("rbcm.csv", "mean"));
        let usual = if partition == "random" { "sd_grbcm" } else { "sd_near" };
        assert_eq!(folder.column("all.csv", usual), folder.column("usual.csv", "sd"));
        folder.fails(2, &["predict", "m.cagey", "new.csv", "--split", "--aggregation", "all"], &["--split", "one"]);
        folder.ok(&["inspect", "m.cagey"]);
        folder.ok(&["plot", "m.cagey", "-o", "m.svg"]);
    }
    folder.ok(&["compare", "ok.csv", "--models", "experts,sgpr", "--inducing", "8", "--local", "sgpr", "--steps", "3"]);
    // Of exact experts and a sparse model, inducing inputs are the sparse one's.
    folder.ok(&["compare", "ok.csv", "--models", "experts,sgpr", "--inducing", "8", "--steps", "3"]);
}

#[test]
fn experts_keep_their_rows() {
    let folder = Folder::with_tables();
    let table = folder.read("ok.csv");
    let (header, rows) = table.split_once('\n').unwrap();
    let rows: Vec<&str> = rows.lines().collect();
    for (at, part) in rows.chunks(10).enumerate() {
        folder.write(&format!("site-{}.csv", at + 1), format!("{header}\n{}\n", part.join("\n")));
    }
    let fit = |shards: &[&str], name: &str| {
        folder.ok(&[&["fit", "--steps", "3", "-o", name, "--shards"], shards].concat());
        folder.ok(&["predict", name, "new.csv", "-o", "p.csv"]);
        folder.column("p.csv", "mean")
    };
    let by_pattern = fit(&["site-*.csv"], "m.cagey");
    let by_name = fit(&["site-1.csv", "site-2.csv", "site-3.csv"], "n.cagey");
    assert_eq!(by_pattern, by_name);
    let rules = folder.json(&["evaluate", "m.cagey", "ok.csv", "--aggregation", "all", "--json"]);
    assert_eq!(rules.as_array().unwrap().len(), 7);
    folder.ok(&["evaluate", "m.cagey", "ok.csv"]);
    assert!(folder.ok(&["inspect", "m.cagey"]).contains("site-2.csv"));
    folder.ok(&["inspect", "m.cagey", "--json"]);
    folder.ok(&["plot", "m.cagey", "-o", "m.svg"]);
    folder.ok(&["plot", "m.cagey", "ok.csv", "--kind", "calibration", "-o", "m.svg"]);

    let fails = |options: &[&str], words: &[&str]| {
        folder.fails(2, &[&["fit", "-o", "bad.cagey"], options].concat(), words);
    };
    fails(&[], &["<DATA>"]);
    fails(&["--shards", "place-*.csv"], &["place-*.csv", "no such file"]);
    fails(&["--shards", "site-*.csv", "site-2.csv"], &["site-2.csv", "twice"]);
    fails(&["--shards", "site-*.csv", "--model", "svgp"], &["--shards", "--model experts"]);
    fails(&["--shards", "site-*.csv", "--holdout", "0.2"], &["--holdout", "one place"]);
    fails(&["--shards", "site-*.csv", "--aggregation", "npae"], &["npae", "stay where they are"]);
    fails(&["--shards", "site-*.csv", "--calibrate", "yes"], &["--calibrate"]);
    fails(&["--shards", "site-*.csv", "--partition", "random"], &["--partition", "each file is an expert"]);
    folder.fails(2, &["fit", "--shards", "site-1.csv", "-o", "site-1.csv"], &["overwrite"]);
    folder.fails(1, &["fit", "--shards", "site-1.csv", "site-9.csv", "-o", "bad.cagey"], &["site-9.csv"]);
    folder.fails(2, &["predict", "m.cagey", "new.csv", "--aggregation", "grbcm"], &["grbcm", "rbcm"]);
    folder.write("site-2.csv", folder.read("site-3.csv"));
    folder.fails(1, &["predict", "m.cagey", "new.csv"], &["site-2.csv", "not what the model was trained on"]);
}

#[test]
fn experts_are_refused_what_they_cannot_have() {
    let folder = Folder::with_model();
    folder.refuses(2, &["--model", "experts", "--experts", "31"], &["31 experts", "1 to 30", "--experts"]);
    folder.refuses(2, &["--model", "experts", "--partition", "slabs"], &["no partition `slabs`"]);
    folder.refuses(2, &["--model", "experts", "--partition", "column=z"], &["column=z", "input columns are x"]);
    folder.refuses(2, &["--model", "experts", "--partition", "column=x", "--experts", "3"], &["leave it out"]);
    folder.refuses(2, &["--model", "experts", "--inducing", "8"], &["--local sgpr"]);
    folder.refuses(2, &["--model", "experts", "--clients", "0.5"], &["--clients", "fact"]);
    folder.refuses(2, &["--model", "experts", "--training", "admm", "--proximal", "1"], &["--proximal", "admm"]);
    folder.refuses(2, &["--model", "experts", "--likelihood", "student-t"], &["experts", "gaussian"]);
    folder.fails(
        2,
        &["predict", "m.cagey", "new.csv", "--aggregation", "poe"],
        &["models that several parts predict for"],
    );
    folder.ok(&["fit", "ok.csv", "--model", "experts", "--experts", "2", "--steps", "2", "-o", "e.cagey"]);
    folder.fails(2, &["evaluate", "e.cagey", "ok.csv", "--aggregation", "rbmc"], &["did you mean `rbcm`?"]);
    folder.fails(2, &["sample", "e.cagey", "new.csv"], &["no joint distribution"]);
}

#[test]
fn trainings_of_experts_are_saved_and_resumed() {
    let folder = Folder::with_tables();
    for training in ["fact", "fedavg", "fedprox", "admm", "pxadmm"] {
        let fit = |options: &[&str], steps: &str| {
            let all =
                ["fit", "ok.csv", "--model", "experts", "--experts", "3", "--training", training, "--steps", steps];
            folder.ok(&[&all[..], options].concat());
        };
        fit(&["-o", "whole.cagey"], "6");
        fit(&["--checkpoint", "state", "--checkpoint-every", "1", "-o", "part.cagey"], "3");
        fit(&["--resume", "state", "-o", "resumed.cagey"], "6");
        let predicted = |model: &str| folder.ok(&["predict", model, "new.csv"]);
        assert_eq!(predicted("whole.cagey"), predicted("resumed.cagey"), "{training}");
    }
}

#[test]
fn a_sparse_grid_says_what_it_is_made_of_and_what_lies_outside() {
    let folder = Folder::new();
    let row = |i: usize| {
        let (a, b) = (position(i), 10.0 * (0.37 * i as f64).fract());
        vec![a, b, wave(i) + (0.3 * b).cos()]
    };
    folder.write("t.csv", table(&["a", "b", "y"], 80, row));
    folder.write("far.csv", "a,b\n1,1\n1e3,2\n");
    let fit = ["fit", "t.csv", "--model", "sparse-grid", "--level", "3", "--steps", "5", "-o", "m.cagey"];
    for options in [&[][..], &["--combination", "ct"], &["--combination", "union"]] {
        folder.ok(&[&fit[..], options].concat());
        let told = folder.run(&["predict", "m.cagey", "far.csv", "-o", "p.csv"]);
        assert!(told.err.contains("1 of 2 rows lie outside"), "{}", told.err);
        let parts = folder.json(&["inspect", "m.cagey", "--json"])["parts"].as_array().unwrap().len();
        assert_eq!(parts, if options.contains(&"union") { 1 } else { 5 }, "{options:?}");
        assert!(folder.ok(&["inspect", "m.cagey"]).contains("inducing inputs, weight"));
    }
    folder.ok(&["plot", "m.cagey", "--kind", "parts", "-o", "grids.svg"]);
    assert!(folder.read("grids.svg").contains("Coefficients"));
    folder.fails(
        2,
        &["fit", "t.csv", "--model", "sparse-grid", "--level", "20", "-o", "x.cagey"],
        &["--level", "1 to 8"],
    );
    folder.ok(&["fit", "t.csv", "--steps", "1", "-o", "e.cagey"]);
    folder.fails(2, &["plot", "e.cagey", "--kind", "parts", "-o", "x.svg"], &["sparse grid"]);
}
