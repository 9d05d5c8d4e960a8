//! Series: the structure found, and the rows after the last one.

use cagey::cli::request::{self, Request};
use cagey::data::{Cells, Frame};

use super::{Folder, numbers};

/// A month of a growing series with a season, from January 2001 on.
fn value(i: usize) -> f64 {
    let (t, wobble) = (i as f64, (i * i % 11) as f64 - 5.0);
    100.0 + 0.8 * t + (12.0 + 0.1 * t) * (std::f64::consts::TAU * t / 12.0).sin() + 0.8 * wobble
}

fn month(i: usize) -> String {
    format!("{}-{:02}-01", 2001 + i / 12, i % 12 + 1)
}

fn monthly(rows: std::ops::Range<usize>) -> String {
    rows.fold("month,sales\n".to_string(), |all, i| all + &format!("{},{}\n", month(i), value(i)))
}

#[test]
fn a_series_of_dates_has_its_season_found_and_is_forecast() {
    let folder = Folder::new();
    folder.write("sales.csv", monthly(0..84));
    let fitted = folder.json(&["fit", "sales.csv", "-o", "m.cagey", "--json"]);
    let members = fitted["average"].as_array().unwrap();
    assert!((4..=16).contains(&members.len()), "{members:?}");
    let season = "periodic(period=1.0, fix=period) * wiener";
    assert!(members.iter().all(|member| member["kernel"].as_str().unwrap().contains(season)), "{members:?}");
    assert!(members.iter().any(|member| member["target_transform"] == "log"), "{members:?}");

    let forecast = folder.ok(&["forecast", "m.cagey", "--horizon", "24", "--levels", "0.5"]);
    let mut lines = forecast.lines();
    assert_eq!(lines.next(), Some("month,mean,sd,lower,upper,q0.5"));
    let dates: Vec<&str> = lines.map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(dates, (84..108).map(month).collect::<Vec<_>>());
    let mean = numbers(&forecast, "mean");
    let rmse = (mean.iter().enumerate().map(|(i, m)| (m - value(84 + i)).powi(2)).sum::<f64>() / 24.0).sqrt();
    assert!(rmse < 6.0, "{rmse}");
    let ends = numbers(&forecast, "lower").into_iter().zip(numbers(&forecast, "upper"));
    let held = ends.enumerate().filter(|(i, (low, high))| (*low..*high).contains(&value(84 + i))).count();
    assert!(held >= 19, "{held} of 24 intervals hold");

    let twice = ["forecast", "m.cagey", "--horizon", "2", "--levels", ".1,.5,.1"];
    folder.fails(2, &twice, &["--levels: 0.1 is given twice"]);
    // Possible futures lie about the mean as intervals do.
    let futures = ["forecast", "m.cagey", "--horizon", "24", "--samples", "200", "--seed", "3"];
    let drawn = folder.ok(&futures);
    assert_eq!(drawn, folder.ok(&futures));
    let paths: Vec<Vec<f64>> = (0..200).map(|i| numbers(&drawn, &format!("sample{i}"))).collect();
    for (row, (mean, sd)) in numbers(&drawn, "mean").into_iter().zip(numbers(&drawn, "sd")).enumerate() {
        let centre = paths.iter().map(|path| path[row]).sum::<f64>() / 200.0;
        let spread = (paths.iter().map(|path| (path[row] - centre).powi(2)).sum::<f64>() / 199.0).sqrt();
        assert!((centre - mean).abs() < 0.4 * sd && (0.6..1.5).contains(&(spread / sd)), "{row}: {centre} {spread}");
    }
    // The same rows in a table have the same predictions.
    folder.write("next.csv", monthly(84..108));
    let predicted = folder.ok(&["predict", "m.cagey", "next.csv"]);
    let same = numbers(&predicted, "mean").into_iter().zip(&mean);
    same.for_each(|(a, b)| assert!((a - b).abs() < 1e-6 * b.abs(), "{a} {b}"));
    folder.write("two.csv", "a,b,y\n1,2,3\n2,5,4\n3,1,4\n4,4,6\n");
    folder.ok(&["fit", "two.csv", "-o", "two.cagey", "--kernel", "rbf", "--steps", "1"]);
    folder.fails(2, &["forecast", "two.cagey", "--horizon", "3"], &["one input", "`a`, `b`", "predict"]);
}

#[test]
fn a_forecast_goes_on_in_units_of_the_data() {
    let folder = Folder::new();
    folder.write("line.csv", super::table(&["x", "y"], 30, |i| vec![0.5 * i as f64, (0.5 * i as f64).sin()]));
    for transform in ["none", "asinh", "ranks"] {
        let fit =
            ["fit", "line.csv", "-o", "m.cagey", "--kernel", "rbf", "--steps", "2", "--input-transform", transform];
        folder.ok(&fit);
        let forecast = folder.ok(&["forecast", "m.cagey", "--horizon", "3"]);
        assert_eq!(numbers(&forecast, "x"), [15.0, 15.5, 16.0], "{transform}");
    }
}

#[test]
fn a_free_period_starts_at_the_wave_of_the_data() {
    let folder = Folder::new();
    let wave = |i: usize| (0.17 * i as f64).sin() + 0.1 * ((i * i % 13) as f64 - 6.0);
    folder.write("wave.csv", super::table(&["x", "y"], 150, |i| vec![0.17 * i as f64, wave(i)]));
    for model in ["exact", "state-space"] {
        let kernel = ["--kernel", "periodic + matern32", "--model", model];
        folder.ok(&[&["fit", "wave.csv", "-o", "m.cagey"], &kernel[..]].concat());
        let period = super::parameter(&folder.json(&["inspect", "m.cagey", "--json"]), "kernel.periodic.period")[0];
        assert!((period / std::f64::consts::TAU - 1.0).abs() < 0.05, "{model}: {period}");
    }
    let unknown = ["fit", "wave.csv", "-o", "n.cagey", "--model", "state-space", "--kernel", "rbf"];
    folder.fails(2, &unknown, &["state-space", "`rbf`", "matern52"]);
}

#[test]
fn seasons_are_named_and_a_forecast_is_drawn() {
    let folder = Folder::new();
    folder.write("sales.csv", monthly(0..60));
    let members = |options: &[&str]| -> Vec<String> {
        let fit = ["fit", "sales.csv", "-o", "m.cagey", "--json", "--target-transform", "none"];
        let fitted = folder.json(&[&fit[..], options].concat());
        let kernel = |member: &serde_json::Value| member["kernel"].as_str().unwrap().to_string();
        fitted["average"].as_array().unwrap().iter().map(kernel).collect()
    };
    let named = members(&["--season", "year,0.25"]);
    let both = "periodic(period=1.0, fix=period) * wiener + periodic(period=0.25, fix=period) * wiener";
    assert!(named.len() > 2 && named.iter().all(|kernel| kernel.contains(both)), "{named:?}");
    let refused = |table: &str, season: &str, words: &[&str]| {
        folder.fails(2, &["fit", table, "-o", "n.cagey", "--season", season], words);
    };
    refused("sales.csv", "fortnight", &["`fortnight`", "week", "years"]);
    refused("sales.csv", "-1", &["`-1`"]);
    folder.write("line.csv", super::table(&["x", "y"], 30, |i| vec![i as f64, (i % 7) as f64 + 0.1 * (i % 3) as f64]));
    refused("line.csv", "week", &["no date", "period"]);
    folder.write("two.csv", super::table(&["a", "b", "y"], 30, |i| vec![i as f64, (i * i % 7) as f64, i as f64]));
    refused("two.csv", "7", &["single input"]);
    let both = ["fit", "line.csv", "-o", "n.cagey", "--season", "7", "--kernel", "rbf"];
    folder.fails(2, &both, &["--season", "--kernel"]);
    folder.ok(&["fit", "line.csv", "-o", "n.cagey", "--season", "7"]);
    let next = numbers(&folder.ok(&["forecast", "n.cagey", "--horizon", "7"]), "mean");
    (0..7).for_each(|i| assert!((next[i] - ((30 + i) % 7) as f64).abs() < 0.6, "{next:?}"));

    folder.ok(&["plot", "m.cagey", "--horizon", "24", "-o", "f.svg"]);
    let drawn = folder.read("f.svg");
    // The rows end in 2005.
    assert!(["\n2001\n", "\n2007\n", "\nforecast\n"].iter().all(|text| drawn.contains(text)), "{drawn}");
    let short = ["plot", "m.cagey", "--kind", "learning", "--horizon", "3", "-o", "g.svg"];
    folder.fails(2, &short, &["--horizon", "posterior"]);
}

#[test]
fn forecasts_are_compared_with_the_season_before_and_smoothing() {
    let folder = Folder::new();
    folder.write("sales.csv", monthly(0..96));
    let compare = ["compare", "sales.csv", "--rolling", "2"];
    let all = folder.json(&[&compare[..], &["--json"]].concat());
    let all = all.as_array().unwrap();
    let named = |name: &str| all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {all:?}"));
    let rmse = |name: &str| {
        let folds = named(name)["folds"].as_array().unwrap();
        folds.iter().map(|fold| fold["scores"]["rmse"].as_f64().unwrap()).sum::<f64>() / 2.0
    };
    // The naive forecast repeats the last year before each fold, of 48 rows first and then of 72.
    let naive = |from: usize| {
        let error = |i: usize| (value(i) - value(from - 12 + (i - from) % 12)).powi(2);
        ((from..from + 24).map(error).sum::<f64>() / 24.0).sqrt()
    };
    assert!((rmse("(seasonal naive)") - 0.5 * (naive(48) + naive(72))).abs() < 1e-6);
    let own = "state-space average";
    assert!(rmse(own) < rmse("(seasonal naive)") && rmse("(smoothing)") < rmse("(mean)"));
    let skill = &named(own)["skill"];
    assert!((skill["(mean)"].as_f64().unwrap() - (1.0 - rmse(own) / rmse("(mean)"))).abs() < 1e-9);
    assert!(named("(ridge)")["skill"]["(ridge)"].is_null() && !skill["(smoothing)"].is_null());
    let text = folder.ok(&[&compare[..], &["--kernels", "wiener", "--model", "state-space"]].concat());
    assert!(text.contains("state-space: RMSE ") && text.contains("(seasonal naive)"), "{text}");
}

#[test]
fn other_inputs_of_a_forecast_are_in_a_table() {
    let folder = Folder::new();
    let row = |i: usize| format!("{},{},{}\n", month(i), i % 5, value(i) + 3.0 * (i % 5) as f64);
    folder.write("load.csv", (0..60).fold("month,heat,load\n".to_string(), |all, i| all + &row(i)));
    let fit = ["fit", "load.csv", "-o", "m.cagey", "--kernel", "matern32(dims=[0]) + linear(dims=[1])"];
    folder.ok(&fit);
    folder.fails(2, &["forecast", "m.cagey", "--horizon", "2"], &["`month`, `heat`", "future values"]);
    folder.write(
        "next.csv",
        (60..63).fold("month,heat\n".to_string(), |all, i| all + &format!("{},{}\n", month(i), i % 5)),
    );
    let ahead = folder.ok(&["forecast", "m.cagey", "--future", "next.csv"]);
    let mut lines = ahead.lines();
    assert_eq!(lines.next(), Some("month,heat,mean,sd,lower,upper"));
    assert!(lines.next().unwrap().starts_with("2006-01-01,0,"));
    let predicted = folder.ok(&["predict", "m.cagey", "next.csv"]);
    assert_eq!(numbers(&ahead, "mean"), numbers(&predicted, "mean"));
    folder.fails(2, &["forecast", "m.cagey"], &["--horizon"]);
    folder.fails(1, &["forecast", "m.cagey", "--future", "load2.csv"], &["load2.csv"]);
}

#[test]
fn many_rows_along_one_input_are_exact_in_linear_time() {
    let folder = Folder::new();
    let x = |i: usize| i as f64 + 0.4 * ((i * i % 17) as f64 - 8.0);
    folder.write(
        "many.csv",
        super::table(&["x", "y"], 5200, |i| vec![x(i), (0.01 * x(i)).sin() + 0.1 * ((i * 7 % 13) as f64)]),
    );
    let fit = ["fit", "many.csv", "-o", "m.cagey", "--steps", "3", "--kernel", "matern32 + periodic(period=700)"];
    let ran = folder.run(&fit);
    assert!(ran.code == 0 && ran.err.contains("exact by --model state-space"), "{}", ran.err);
    let told = folder.ok(&["inspect", "m.cagey"]);
    assert!(told.contains("by its state space"), "{told}");
    let ran = folder.run(&["fit", "many.csv", "-o", "n.cagey", "--steps", "1", "--kernel", "rbf", "--max-time", "2s"]);
    assert!(ran.code == 0 && !ran.err.contains("state-space"), "{}", ran.err);
}

#[test]
fn counts_over_time_are_fitted_by_their_state_space() {
    let folder = Folder::new();
    let count = |i: usize| ((2.0 + (0.05 * i as f64).sin()).exp() + 2.0 * ((i * i % 7) as f64 - 3.0)).max(0.0).round();
    folder.write("counts.csv", super::table(&["t", "n"], 300, |i| vec![0.5 * i as f64, count(i)]));
    let fit = ["fit", "counts.csv", "--likelihood", "poisson", "--kernel", "matern32", "--steps", "20"];
    let scores = |model: &str| {
        folder.ok(&[&fit[..], &["--model", model, "-o", "m.cagey"]].concat());
        let nlpd = |rows: &str| folder.json(&["evaluate", "m.cagey", rows, "--json"])["nlpd"].as_f64().unwrap();
        [nlpd("counts.csv"), nlpd("--loo")]
    };
    let (fast, dense) = (scores("state-space"), scores("laplace"));
    // The dense evidence has a correction, so parameters differ a little.
    assert!(fast.iter().zip(dense).all(|(a, b)| (a - b).abs() < 0.02), "{fast:?} {dense:?}");
    assert!(fast[1] > fast[0], "a row left out is not seen: {fast:?}");
    let other = ["fit", "counts.csv", "--likelihood", "student-t", "--model", "state-space", "-o", "n.cagey"];
    folder.fails(2, &[&other[..], &["--kernel", "matern32"]].concat(), &["log-concave", "student-t"]);
}

/// A table of three shops over the same months, one shop after another; the last opens late.
fn shops(rows: std::ops::Range<usize>) -> String {
    let mut table = "shop,month,sales\n".to_string();
    for (shop, (name, first)) in [("east", 0), ("north", 0), ("west", 24)].into_iter().enumerate() {
        for i in rows.clone().filter(|i| *i >= first) {
            let own = (1.0 + 0.5 * shop as f64) * value(i) + 5.0 * ((i * (shop + 3)) as f64 * 0.21).sin();
            table += &format!("{name},{},{own}\n", month(i));
        }
    }
    table
}

#[test]
fn several_series_share_a_kernel_and_have_functions_of_their_own() {
    let folder = Folder::new();
    folder.write("shops.csv", shops(0..60));
    let fit = ["fit", "shops.csv", "-o", "m.cagey", "--series", "shop"];
    let fitted = folder.json(&[&fit[..], &["--season", "year", "--json"]].concat());
    let season = "periodic(period=1.0, fix=period) * wiener";
    let members = fitted["average"].as_array().unwrap();
    assert!(members.iter().all(|member| member["kernel"].as_str().unwrap().contains(season)), "{members:?}");
    let told = folder.json(&["inspect", "m.cagey", "--json"]);
    assert_eq!(told["series"]["names"], serde_json::json!(["east", "north", "west"]));
    assert!(folder.ok(&["inspect", "m.cagey"]).contains("3 of `shop`: east, north, west"));

    let forecast = folder.ok(&["forecast", "m.cagey", "--horizon", "12"]);
    let labels: Vec<String> = forecast.lines().skip(1).map(|line| line.split(',').take(2).collect()).collect();
    let expected = |name: &str| (60..72).map(|i| month(i) + name).collect::<Vec<_>>();
    assert_eq!(labels, [expected("east"), expected("north"), expected("west")].concat());
    assert!(forecast.starts_with("month,shop,mean,sd,"), "{forecast}");
    let mean = numbers(&forecast, "mean");
    folder.write("next.csv", shops(60..72));
    let scores = folder.json(&["evaluate", "m.cagey", "next.csv", "--json"]);
    assert!(scores["rmse"].as_f64().unwrap() < 12.0, "{scores}");
    // The same rows in a table, in its own order, have the same predictions.
    let predicted = numbers(&folder.ok(&["predict", "m.cagey", "next.csv"]), "mean");
    mean.iter().zip(&predicted).for_each(|(a, b)| assert!((a - b).abs() < 1e-6 * b.abs(), "{a} {b}"));
    // Of a new series, it predicts what it expects of any, and says so.
    folder.write("new.csv", "shop,month\nsouth,2006-01-01\neast,2005-01-01\n");
    let new = folder.run(&["predict", "m.cagey", "new.csv"]);
    let told = ["the series `south`", "any series", "1 in `month`"];
    assert!(told.iter().all(|words| new.err.contains(words)) && !new.err.contains("in `shop`"), "{}", new.err);
    let sds = numbers(&new.out, "sd");
    assert!(sds[0] > 3.0 * sds[1], "{sds:?}");

    folder.ok(&["plot", "m.cagey", "--horizon", "12", "-o", "f.svg"]);
    assert!(["east", "north", "west"].iter().all(|name| folder.read("f.svg").contains(name)));
    folder.ok(&["plot", "m.cagey", "--series", "west", "--kind", "components", "-o", "g.svg"]);
    folder.fails(2, &["plot", "m.cagey", "--series", "south", "-o", "h.svg"], &["--series south", "east, north, west"]);
    folder.fails(1, &["fit", "shops.csv", "--series", "place"], &["place", "shop"]);
    let weather = super::table(&["shop", "t", "x", "y"], 40, |i| {
        vec![(i % 2) as f64, i as f64, (i * i % 7) as f64, (i as f64).sin()]
    });
    folder.write("weather.csv", weather);
    let two = ["fit", "weather.csv", "-o", "w.cagey", "--series", "shop", "--kernel", "rbf(ard)"];
    folder.ok(&two);
    folder.fails(2, &["plot", "w.cagey", "-o", "h.svg"], &["1 input column", "has 2"]);
    folder.fails(2, &["forecast", "w.cagey", "--horizon", "2"], &["one input", "`t`, `x`"]);
    let state_space = [&two[..], &["--model", "state-space"]].concat();
    folder.fails(2, &state_space, &["one input column, and there are 2"]);
    // A series with one row goes on in the steps of the others, and classes of series are taken by default.
    let lone: String = (0..30).fold("shop,t,y\nb,2.5,1\n".into(), |all, i| all + &format!("a,{i},{}\n", i % 5));
    folder.write("lone.csv", lone);
    folder.ok(&["fit", "lone.csv", "-o", "l.cagey", "--series", "shop", "--kernel", "matern32", "--steps", "2"]);
    assert_eq!(numbers(&folder.ok(&["forecast", "l.cagey", "--horizon", "2"]), "t"), [30.0, 31.0, 3.5, 4.5]);
    let classes = (0..40).fold("shop,t,y\n".to_string(), |all, i| {
        all + &format!("{},{i},{}\n", ["a", "b"][i % 2], ["no", "yes"][(i / 10 + i) % 2])
    });
    folder.write("classes.csv", classes);
    folder.ok(&["fit", "classes.csv", "-o", "c.cagey", "--series", "shop", "--steps", "3"]);
    assert_eq!(folder.json(&["inspect", "c.cagey", "--json"])["settings"]["model"]["kind"], "state-space");
    folder.fails(2, &["plot", "c.cagey", "-o", "h.svg"], &["one at a time", "--series"]);
    folder.ok(&["plot", "c.cagey", "--series", "a", "-o", "h.svg"]);
    let sparse = [&fit[..], &["--model", "sgpr"]].concat();
    folder.fails(2, &sparse, &["several series", "exact, state-space, laplace", "--model state-space"]);
}

#[test]
fn the_last_rows_of_several_series_are_the_last_in_time() {
    let folder = Folder::new();
    folder.write("shops.csv", shops(0..48));
    let kernel = ["--series", "shop", "--kernel", "wiener + matern12"];
    let fit = [&["fit", "shops.csv", "-o", "m.cagey", "--json", "--model", "state-space"], &kernel[..]].concat();
    let fitted = folder.json(&[&fit[..], &["--holdout-last", "0.25"]].concat());
    let scored = folder.json(&["evaluate", "m.cagey", "shops.csv", "--holdout-last", "0.25", "--json"]);
    assert!((fitted["scores"]["rmse"].as_f64().unwrap() - scored["rmse"].as_f64().unwrap()).abs() < 1e-9);
    let next = folder.ok(&["forecast", "m.cagey", "--horizon", "1"]);
    // 120 rows of three shops: all end in the same month, or one before.
    assert!(next.lines().skip(1).all(|line| line.starts_with("2004-0") || line.starts_with("2004-1")), "{next}");
    // The exact model has the same numbers.
    let dense = [&["fit", "shops.csv", "-o", "d.cagey", "--json", "--model", "exact"], &kernel[..]].concat();
    let (dense, fast) = (folder.json(&dense), folder.json(&fit));
    assert!((dense["loss"].as_f64().unwrap() - fast["loss"].as_f64().unwrap()).abs() < 1e-4, "{dense} {fast}");
    let compared = folder.json(&[&["compare", "shops.csv", "--rolling", "1", "--json"], &kernel[..]].concat());
    let names: Vec<&str> = compared.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let all = ["(mean)", "(seasonal naive)", "(smoothing)"];
    assert!(all.iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn several_series_of_a_table_in_memory_are_those_of_its_file() {
    let folder = Folder::new();
    folder.write("shops.csv", shops(0..30));
    let kernel = ["--series=shop", "--kernel=wiener + matern12", "--model=state-space", "--steps=5"];
    let fitted = folder.json(&[&["fit", "shops.csv", "-o", "m.cagey", "--json"], &kernel[..]].concat());
    let rows: Vec<Vec<String>> =
        shops(0..30).lines().skip(1).map(|line| line.split(',').map(str::to_string).collect()).collect();
    let column = |at: usize| rows.iter().map(|row| row[at].clone()).collect();
    let sales = rows.iter().map(|row| row[2].parse().unwrap()).collect();
    let columns =
        [("shop", Cells::Texts(column(0))), ("month", Cells::Texts(column(1))), ("sales", Cells::Numbers(sales))];
    let frame = Frame::new("shops", columns.map(|(name, cells)| (name.to_string(), cells)).to_vec()).unwrap();
    let request = Request::parse(&kernel.map(str::to_string)).unwrap();
    let (schema, data) = request.read(&frame).unwrap();
    let trained = request.prepare(schema, data).unwrap().train(&mut []).unwrap();
    assert!((trained.fitted.summary.loss - fitted["loss"].as_f64().unwrap()).abs() < 1e-9);
    let predicted = trained.fitted.predict(&request::read(&trained.fitted, &frame, false).unwrap()).unwrap();
    let written = numbers(&folder.ok(&["predict", "m.cagey", "shops.csv"]), "mean");
    predicted.iter().zip(written).for_each(|(a, b)| assert!((a.mean() - b).abs() < 1e-6 * b.abs(), "{a:?} {b}"));
}
