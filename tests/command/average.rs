//! Averages over kernels by the command.

use super::Folder;

/// A folder with `a.cagey`, an average of models of `ok.csv`, whose targets are not all positive.
fn folder() -> Folder {
    let folder = Folder::with_tables();
    folder.ok(&["fit", "ok.csv", "--kernel", "average", "-o", "a.cagey", "--steps", "8"]);
    folder
}

#[test]
fn every_command_takes_an_average_or_says_why_not() {
    let folder = folder();
    let told = folder.ok(&["inspect", "a.cagey"]);
    assert!(told.contains("Average of 5 models") && told.contains("linear + matern32(ard)"), "{told}");
    assert!(told.contains("Heaviest member"), "{told}");
    let all = folder.json(&["inspect", "a.cagey", "--json"])["average"].clone();
    let members = all.as_array().unwrap();
    let weights: Vec<f64> = members.iter().map(|member| member["weight"].as_f64().unwrap()).collect();
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9 && weights.is_sorted_by(|a, b| a >= b), "{weights:?}");
    let second = folder.json(&["inspect", "a.cagey", "--member", "2", "--json"]);
    assert!(second["average"].is_null());
    assert_eq!(second["settings"]["kernel"], members[1]["kernel"]);

    let rows = |options: &[&str]| {
        let out = folder.ok(&[&["predict", "a.cagey", "new.csv"], options].concat());
        let of = |line: &str| line.split(',').map(|cell| cell.parse::<f64>().unwrap()).collect();
        out.lines().skip(1).map(of).collect::<Vec<Vec<f64>>>()
    };
    let (whole, mut mean) = (rows(&[]), vec![0.0; 3]);
    for (k, weight) in weights.iter().enumerate() {
        let alone = rows(&["--member", &(k + 1).to_string()]);
        mean.iter_mut().zip(alone).for_each(|(mean, row)| *mean += weight * row[0]);
    }
    for (row, mean) in whole.iter().zip(mean) {
        assert!((row[0] - mean).abs() < 1e-9 && row[2] < row[0] && row[0] < row[3], "{row:?} {mean}");
    }
    assert_eq!(rows(&["--latent"]).len(), 3);
    assert_eq!(folder.ok(&["sample", "a.cagey", "new.csv", "--count", "4"]).lines().count(), 4);
    let scores = folder.json(&["evaluate", "a.cagey", "ok.csv", "--json"]);
    assert!(scores["nlpd"].is_f64() && scores["nlpd_training_scale"].is_null());
    assert!(folder.ok(&["evaluate", "a.cagey", "--loo"]).contains("rows left out in turn"));
    for kind in ["posterior", "calibration", "components", "learning"] {
        let ran = folder.run(&["plot", "a.cagey", "--kind", kind, "-o", "a.svg"]);
        assert_eq!((ran.code, ran.err.contains("heaviest member")), (0, ["components", "learning"].contains(&kind)));
    }
    folder.fails(2, &["refine", "a.cagey", "--actions", "2", "-o", "b"], &["computation-aware"]);
    folder.fails(2, &["predict", "a.cagey", "new.csv", "--split"], &["--member"]);
    folder.fails(2, &["inspect", "a.cagey", "--member", "7"], &["5 members"]);
    folder.ok(&["fit", "ok.csv", "--steps", "1", "-o", "m.cagey"]);
    folder.fails(2, &["inspect", "m.cagey", "--member", "1"], &["single model"]);
}

#[test]
fn averages_are_compared_and_have_a_logarithm_for_positive_targets() {
    let folder = Folder::with_tables();
    let up: String = (0..30).map(|i| format!("{i},{}\n", 2.0 + (0.4 * f64::from(i)).sin())).collect();
    folder.write("up.csv", format!("x,y\n{up}"));
    let kernels = ["--kernels", "matern32(ard)", "average", "--steps", "3", "--json"];
    let compared = folder.json(&[&["compare", "up.csv"], &kernels[..]].concat());
    let kernels: Vec<_> = compared.as_array().unwrap().iter().filter_map(|one| one["kernel"].as_str()).collect();
    assert!(kernels.contains(&"average") && kernels.contains(&"matern32(ard)"), "{kernels:?}");
    // Without any, what `fit` does by itself.
    folder.write("two.csv", format!("x,z,y\n{}", up.replace(',', ",0.5,").replacen("0.5", "1", 5)));
    let own = folder.json(&["compare", "two.csv", "--json"]);
    let names: Vec<_> = own.as_array().unwrap().iter().filter_map(|one| one["kernel"].as_str()).collect();
    assert_eq!(names, ["average"]);
    let members = |options: &[&str]| {
        let fit = ["fit", "up.csv", "--kernel", "average", "--steps", "2", "-o", "a.cagey", "--json"];
        folder.json(&[&fit[..], options].concat())["average"].as_array().unwrap().clone()
    };
    assert_eq!(members(&[]).len(), 6);
    assert_eq!(members(&["--target-transform", "none"]).len(), 5);
    let logs = members(&["--target-transform", "log"]);
    assert!(logs.len() == 5 && logs.iter().all(|member| member["target_transform"] == "log"), "{logs:?}");
}

#[test]
fn few_rows_are_averaged_unless_something_else_is_asked() {
    let folder = Folder::with_tables();
    folder.write(
        "few.csv",
        super::table(&["a", "b", "y"], 24, |i| {
            let (a, b) = (i as f64, (i * i % 7) as f64);
            vec![a, b, (0.3 * a).sin() + 0.1 * b]
        }),
    );
    let average = |table: &str, options: &[&str]| {
        let fit = ["fit", table, "-o", "a.cagey", "--json"];
        !folder.json(&[&fit[..], options].concat())["average"].is_null()
    };
    let averaged = |options: &[&str]| average("few.csv", options);
    assert!(averaged(&[]) && averaged(&["--model", "exact", "--max-time", "1m", "--seed", "2"]));
    folder.write(
        "dated.csv",
        (0..30).fold("day,y\n".into(), |text, i| format!("{text}2020-01-{:02},{}\n", i + 1, i % 7)),
    );
    // A series has kernels that go on beyond it.
    let members = |table: &str, options: &[&str]| -> Vec<String> {
        let fit = ["fit", table, "-o", "a.cagey", "--json"];
        let found = folder.json(&[&fit[..], options].concat());
        let name = |of: &serde_json::Value| of.as_str().unwrap().to_string();
        let heard = found["average"].as_array().into_iter().flatten().map(|member| name(&member["kernel"]));
        heard.chain(found["unheard"].as_array().into_iter().flatten().map(name)).collect()
    };
    let dated = members("dated.csv", &[]);
    assert!(!dated.is_empty() && dated.iter().all(|kernel| kernel.contains("wiener")), "{dated:?}");
    folder.write("even.csv", super::table(&["x", "y"], 30, |i| vec![0.5 * i as f64, (i as f64).sin()]));
    let even = members("even.csv", &[]);
    let walks = even.iter().filter(|kernel| kernel.contains("wiener")).count();
    assert!(
        walks > 1 && even.len() == walks + 4 && even.contains(&"matern52".into()) && even.contains(&"rbf".into()),
        "{even:?}"
    );
    let gaps = |i: usize| i + usize::from(i > 11) + 5 * usize::from(i > 20);
    folder.write("gaps.csv", super::table(&["x", "y"], 30, |i| vec![gaps(i) as f64, (i as f64).sin()]));
    assert!(members("gaps.csv", &[]).contains(&"rbf".into()));
    assert!(
        members("even.csv", &["--kernel", "rbf"]).is_empty() && members("even.csv", &["--fix", "noise"]).is_empty()
    );
    folder.write("uneven.csv", super::table(&["x", "y"], 30, |i| vec![(i * i) as f64, (i as f64).sin()]));
    let uneven = members("uneven.csv", &[]);
    assert!(uneven.contains(&"matern12(ard)".into()), "{uneven:?}");
    for single in [
        &["--kernel", "rbf"][..],
        &["--fix", "noise"],
        &["--steps", "5"],
        &["--checkpoint", "state"],
        &["--likelihood", "student-t", "--steps", "2"],
        &["--model", "cagp"],
    ] {
        assert!(!averaged(single), "{single:?}");
    }
    folder.write(
        "many.csv",
        super::table(&["a", "b", "y"], 1600, |i| {
            let a = i as f64;
            vec![a, (7.0 * a).cos(), (0.1 * a).sin()]
        }),
    );
    let many = ["fit", "many.csv", "-o", "m.cagey", "--max-time", "1s"];
    let ran = folder.run(&many);
    assert!(ran.code == 0 && ran.err.contains("--kernel average would average over kernels, in about"), "{}", ran.err);
}

#[test]
fn what_no_average_is_for_is_said() {
    let folder = Folder::with_tables();
    let fit = ["fit", "ok.csv", "--kernel", "average", "-o", "a.cagey"];
    let refused = |options: &[&str], words: &[&str]| folder.fails(2, &[&fit[..], options].concat(), words);
    refused(&["--likelihood", "student-t"], &["leaving rows out in closed form", "--kernel"]);
    refused(&["--model", "svgp"], &["svgp", "--kernel"]);
    folder.fails(2, &["fit", "--shards", "ok.csv", "--kernel", "average", "-o", "a"], &["table in memory"]);
}
