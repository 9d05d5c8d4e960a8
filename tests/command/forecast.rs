//! Series: the structure found, and the rows after the last one.

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
    assert_eq!(members.len(), 16);
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
