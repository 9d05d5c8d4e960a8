//! Wrong error bars are reported, and right ones are not; nothing is claimed that the rows cannot tell; advice was
//! tried before it is given. A short form of the example `trust`.

#[path = "../examples/trust/told.rs"]
mod told;
#[path = "../examples/trust/verdicts.rs"]
mod verdicts;

use std::f64::consts::TAU;

use cagey::data::{Dataset, Schema, Split, TargetTransform};
use cagey::fitted::average::AVERAGE;
use cagey::fitted::{Alternative, Fitted, Registry, Settings};
use cagey::kernels::Kernel;
use cagey::metrics::diagnosis::{Along, Diagnosis, Finding, Remedy, Verdict};
use cagey::models::exact::ExactGp;
use cagey::models::{Observations, diagnose};
use cagey::train::TrainConfig;
use clap::ValueEnum;
use told::{Kind, look};
use verdicts::{Tables, verdict};

const DRAWS: u64 = 6;

#[test]
fn what_is_wrong_is_named_and_nothing_else_is() {
    for kind in Kind::value_variants() {
        let mut counts = [0; 4];
        for seed in 0..DRAWS {
            for (count, seen) in counts.iter_mut().zip(look(*kind, 400, 1000 + seed).unwrap()) {
                *count += u64::from(seen);
            }
        }
        let [right, nothing, right_left_out, nothing_left_out] = counts;
        match kind {
            Kind::Well | Kind::WellPrecise | Kind::WellForecast => {
                assert!(nothing >= DRAWS - 1 && nothing_left_out >= DRAWS - 1, "{kind:?} {counts:?}");
            }
            // The training rows do not contain what comes after them.
            Kind::Trend => assert!(right >= DRAWS - 1, "{kind:?} {counts:?}"),
            Kind::Copies => assert_eq!((right, nothing), (DRAWS, 0)),
            _ => assert!(right >= DRAWS - 1 && right_left_out >= DRAWS - 1, "{kind:?} {counts:?}"),
        }
    }
}

#[test]
fn intervals_are_said_to_hold_only_where_failing_ones_would_not_pass() {
    for kind in [Tables::Forecasts, Tables::Failing] {
        for seed in 0..10 {
            let seen = verdict(kind, 500 + seed).unwrap();
            assert!(kind != Tables::Failing || seen.half < 0.25, "{seed}: intervals hold {}", seen.half);
            assert!(seen.half >= 0.25 || seen.verdict != Verdict::Hold, "{kind:?} {seed}: {:?}", seen.verdict);
            assert_eq!(seen.r2 < 0.0, seen.below, "{kind:?} {seed}: R² {}", seen.r2);
            assert!(seen.left_out.is_some(), "{kind:?} {seed}");
        }
    }
    let well = (0..4).filter(|seed| verdict(Tables::Well, 500 + seed).unwrap().verdict == Verdict::Hold).count();
    assert!(well >= 3, "{well} of 4");
}

/// A table of numbers, row by row; the target is last.
fn table(names: &[&str], n: usize, row: impl Fn(usize) -> Vec<f64>) -> Dataset {
    let rows: Vec<Vec<f64>> = (0..n).map(row).collect();
    let x = rows.iter().flat_map(|row| row[..row.len() - 1].to_vec()).collect();
    Dataset::new(names.to_vec(), x)
        .unwrap()
        .with_target("y", rows.iter().map(|row| row[row.len() - 1]).collect())
        .unwrap()
}

fn fit(data: &Dataset, settings: Settings) -> Fitted {
    let config = TrainConfig::while_it_pays();
    Fitted::fit(Schema::numeric(data), data, settings, &config, &Registry::default(), &mut []).unwrap()
}

fn left_out(fitted: &Fitted) -> Diagnosis {
    fitted.diagnose_left_out(&fitted.left_out().unwrap().unwrap()).unwrap()
}

fn advice(fitted: &Fitted, found: &[Finding]) -> Vec<Alternative> {
    let all = fitted.alternatives(found, None, &Registry::default()).unwrap();
    let texts: std::collections::HashSet<String> = all.iter().map(|one| format!("{:?}", one.advice.settings)).collect();
    assert_eq!(texts.len(), all.len(), "{texts:?}");
    all
}

fn advised(fitted: &Fitted) -> Vec<Remedy> {
    advice(fitted, &left_out(fitted).findings).iter().map(|one| one.remedy).collect()
}

/// Numbers between −1 and 1 without pattern, nearly normal.
fn noise(i: usize, stream: f64) -> f64 {
    let one = |k: f64| ((i as f64 + 1.0) * (12.9898 + k) + 78.233 * stream).sin() * 43758.5453;
    (0..4).map(|k| one(0.37 * f64::from(k)).rem_euclid(1.0) - 0.5).sum::<f64>()
}

fn place(i: usize, stream: f64) -> f64 {
    (((i as f64 + 1.0) * 91.17 + 13.7 * stream).sin() * 24634.6345).rem_euclid(1.0)
}

/// A series of months with a trend, a season and noise.
fn months(n: usize) -> Dataset {
    let value = |i: usize| 100.0 + i as f64 + 30.0 * (TAU * i as f64 / 12.0).sin() + 4.0 * noise(i, 1.0);
    table(&["month"], n, |i| vec![2000.0 + i as f64 / 12.0, value(i)])
}

#[test]
fn a_forecast_is_told_to_be_one_and_asks_for_trend_and_season() {
    let data = months(120);
    let split = Split::last(data.n, 0.2).unwrap();
    let (train, test) = (data.subset(&split.train), data.subset(&split.test));
    for target_transform in [TargetTransform::Identity, TargetTransform::Log] {
        let settings = Settings { target_transform, ..Settings::default() };
        let config = TrainConfig::while_it_pays();
        let registry = Registry::default();
        let fitted = Fitted::fit(Schema::numeric(&data), &train, settings, &config, &registry, &mut []).unwrap();
        let y = test.y.as_deref().unwrap();
        let found = fitted.diagnose(&test, y, &fitted.predict(&test).unwrap()).unwrap();
        assert_ne!(found.verdict, Verdict::Hold, "{target_transform:?}: {:?}", found.held);
        let beyond = Finding::Beyond { input: 0, share: 1.0 };
        assert!(found.findings.contains(&beyond), "{target_transform:?}: {:?}", found.findings);
        let below = |found: &&Finding| matches!(found, Finding::BelowMean { r2, .. } if *r2 < -1.0);
        assert_eq!(found.findings.iter().filter(below).count(), 1, "{:?}", found.findings);
        let mut all = advice(&fitted, &found.findings);
        let of_a_year = |one: &Alternative| one.settings.kernel.contains("period=1,");
        assert!(all.iter().any(of_a_year), "{target_transform:?}: {all:?}");
        let first = all.remove(0);
        assert_eq!(first.remedy, Remedy::Season, "{target_transform:?}: {}", first.advice);
        let mended = Fitted::fit(Schema::numeric(&data), &train, first.settings, &config, &registry, &mut []).unwrap();
        let after = cagey::metrics::score(y, &mended.predict(&test).unwrap()).unwrap();
        assert!(after.r2.unwrap() > 0.5, "{target_transform:?}: {}, {after:?}", first.advice);
        // What has been followed is not advised again.
        let again = advice(&mended, &[beyond]);
        assert!(!again.iter().any(|one| matches!(one.remedy, Remedy::Season | Remedy::Trend)), "{again:?}");
    }
}

#[test]
fn a_season_needs_a_time_and_several_waves() {
    let sine = fit(
        &table(&["x"], 300, |i| {
            let x = TAU * (i as f64 / 299.0 - 0.5);
            vec![x, x.sin()]
        }),
        Settings::default(),
    );
    assert!(!advised(&sine).contains(&Remedy::Season), "one wave is no season");
    // Areas of houses are not evenly spaced, and errors that drift along them are no season.
    let area = |i: usize| 500.0 + 2500.0 * place(i, 1.0).powi(2);
    let areas = table(&["area", "x"], 200, |i| {
        vec![area(i), place(i, 2.0), 0.001 * area(i) + (area(i) / 60.0).sin() + 0.2 * noise(i, 1.0)]
    });
    let fitted = fit(&areas, Settings::default());
    let drift = Finding::Drift { along: Along::Input(0) };
    let found: Vec<Remedy> = advice(&fitted, &[drift]).iter().map(|one| one.remedy).collect();
    assert!(!found.contains(&Remedy::Season), "{found:?}");
}

#[test]
fn the_number_of_the_row_is_for_tables_whose_order_says_more_than_their_columns() {
    let grid = table(&["a", "b"], 256, |i| {
        let (a, b) = ((i / 16) as f64, (i % 16) as f64);
        vec![a, b, (0.5 * a).sin() * (0.4 * b).cos() + 0.05 * a]
    });
    let rows = Finding::Drift { along: Along::Rows };
    let is_rows = |found: &Finding| matches!(found, Finding::Drift { along: Along::Rows });
    let fitted = fit(&grid, Settings::default());
    assert!(!left_out(&fitted).findings.iter().any(is_rows));
    assert!(!advice(&fitted, &[rows]).iter().any(|one| one.numbered));
    // A slow change that no column shows.
    let drifting = table(&["a", "b"], 200, |i| {
        let (a, b) = (place(i, 1.0), place(i, 2.0));
        vec![a, b, (4.0 * a).sin() + b + (0.06 * i as f64).sin() + 0.2 * noise(i, 1.0)]
    });
    let fitted = fit(&drifting, Settings::default());
    let found = left_out(&fitted).findings;
    assert!(found.iter().any(is_rows), "{found:?}");
    assert!(advice(&fitted, &found).iter().any(|one| one.numbered && one.gain > 0.2));
}

#[test]
fn the_logarithm_is_advised_where_it_gains_and_only_there() {
    let shape = |i: usize| (4.0 * place(i, 1.0)).sin() + 2.0 * place(i, 2.0);
    let table = |y: &dyn Fn(usize) -> f64| table(&["a", "b"], 150, |i| vec![place(i, 1.0), place(i, 2.0), y(i)]);
    let grows = table(&|i| (shape(i) + 0.4 * noise(i, 1.0)).exp());
    let fitted = fit(&grows, Settings::default());
    let found = advice(&fitted, &left_out(&fitted).findings);
    let log = found.iter().find(|one| one.remedy == Remedy::LogTarget).expect("the noise grows with the target");
    assert!(log.gain > 0.2, "{}", log.advice);
    assert!(!advised(&fit(&grows, log.settings.clone())).contains(&Remedy::PlainTarget), "the log gains");
    let even = table(&|i| 4.0 + shape(i) + 0.5 * noise(i, 1.0));
    assert!(!advised(&fit(&even, Settings::default())).contains(&Remedy::LogTarget), "the noise is even");
    let logged = Settings { target_transform: TargetTransform::Log, ..Settings::default() };
    let skewed = table(&|i| 2.5 + shape(i) + 0.8 * noise(i, 1.0));
    assert!(advised(&fit(&skewed, logged)).contains(&Remedy::PlainTarget), "the log loses");
}

#[test]
fn another_kernel_is_advised_where_it_gains() {
    let smooth = table(&["a", "b"], 100, |i| {
        let (a, b) = (place(i, 1.0), place(i, 2.0));
        vec![a, b, (3.0 * a + 2.0 * b).sin() + a * b + 0.001 * noise(i, 1.0)]
    });
    let fitted = fit(&smooth, Settings::default());
    let found = advice(&fitted, &[]);
    let kernel = found.iter().find(|one| one.remedy == Remedy::Kernel).expect("the function is smooth");
    assert!(kernel.gain > 0.1 && kernel.settings.kernel.contains("rbf"), "{}", kernel.advice);
}

#[test]
fn another_likelihood_is_advised_where_it_gains_and_only_there() {
    let rate = |i: usize| (1.2 * (4.0 * place(i, 1.0)).sin() + 1.5 * place(i, 2.0) - 0.5).exp();
    // The smallest count whose probability of at most it exceeds a uniform number.
    let count = |i: usize| {
        let (mut term, mut sum, mut k) = ((-rate(i)).exp(), (-rate(i)).exp(), 0.0);
        while sum < place(i, 3.0) && k < 100.0 {
            k += 1.0;
            term *= rate(i) / k;
            sum += term;
        }
        k
    };
    let counts = table(&["a", "b"], 160, |i| vec![place(i, 1.0), place(i, 2.0), count(i)]);
    let fitted = fit(&counts, Settings::default());
    let found = advice(&fitted, &[]);
    let poisson = found.iter().find(|one| one.settings.likelihood == "poisson").expect("they are counts");
    assert!(poisson.remedy == Remedy::Likelihood && poisson.gain > 0.1, "{}", poisson.advice);
    let again = fit(&counts, poisson.settings.clone());
    assert!(again.alternatives(&[], None, &Registry::default()).unwrap().is_empty(), "it has been followed");
    // The same work on any machine: the same advice again.
    let texts = |all: &[Alternative]| all.iter().map(|one| one.advice.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(&found), texts(&advice(&fitted, &[])));
    // Whole numbers that are no counts: their errors are even.
    let even = table(&["a"], 120, |i| vec![place(i, 1.0), (60.0 + 9.0 * place(i, 1.0) + 2.0 * noise(i, 1.0)).round()]);
    let found = advised(&fit(&even, Settings::default()));
    assert!(!found.contains(&Remedy::Likelihood), "{found:?}");
}

#[test]
fn rounding_errors_of_exact_rows_have_no_shape() {
    let plane = table(&["a", "b"], 50, |i| vec![place(i, 1.0), place(i, 2.0), place(i, 1.0) + place(i, 2.0)]);
    let found = left_out(&fit(&plane, Settings { kernel: "linear".into(), ..Settings::default() }));
    assert!(found.verdict == Verdict::Noiseless && found.findings.is_empty(), "{found:?}");
    // Whatever the verdict on them is.
    let sine = table(&["x"], 300, |i| vec![0.02 * i as f64 - 3.0, (0.02 * i as f64 - 3.0).sin()]);
    let found = left_out(&fit(&sine, Settings { kernel: "rbf".into(), ..Settings::default() }));
    assert!(found.findings.is_empty(), "{found:?}");
}

#[test]
fn noise_that_the_kernel_has_is_not_missing() {
    let x: Vec<f64> = (0..20).map(|i| 0.2 * f64::from(i)).collect();
    let y = x.iter().map(|x| x.sin()).collect();
    let data = Observations::new(x, 1, y, None).unwrap();
    let told = |text: &str| {
        let mut model = ExactGp::new(Kernel::parse(text, 1).unwrap());
        model.likelihood.noise.set(&[f64::MIN_POSITIVE]).unwrap();
        assert!(model.likelihood.noise.at_bound(), "{:?}", model.likelihood.noise.values());
        let warnings = diagnose::warnings(&model, &data, &["x".to_string()]);
        warnings.iter().any(|advice| advice.text.contains("look noiseless"))
    };
    for text in ["rbf + linear", "matern12", "matern32 + matern12(variance=1e-9)", "matern12 * periodic"] {
        assert!(told(text), "{text}");
    }
    for text in ["linear + matern12", "(wiener + matern12) * same", "rbf + white"] {
        assert!(!told(text), "{text}");
    }
}

#[test]
fn a_multiple_of_the_period_is_called_one() {
    let told = |period: f64, more: f64, fix: &str| {
        let wave = |x: f64| (TAU * x).sin() + more * (TAU * x / 3.0).sin();
        let rows = table(&["x"], 160, |i| vec![0.05 * i as f64, wave(0.05 * i as f64) + 0.2 * noise(i, 1.0)]);
        let fitted = fit(&rows, Settings { kernel: format!("periodic(period={period}{fix})"), ..Settings::default() });
        let words = fitted.summary.warnings.iter().map(ToString::to_string);
        words.filter(|words| words.contains("times the period of the target")).collect::<Vec<_>>()
    };
    let [only] = &told(3.0, 0.0, "")[..] else { panic!("one warning") };
    assert!(only.contains("kernel.periodic.period = ") && only.contains(" is 3 times"), "{only}");
    // The period itself, a longer one with waves of its own, and one that was asked for.
    assert!(
        told(1.0, 0.0, "").is_empty() && told(3.0, 0.4, "").is_empty() && told(3.0, 0.0, ", fix=period").is_empty()
    );
}

#[test]
fn a_period_that_the_rows_do_not_span_is_called_one() {
    let rows = table(&["x"], 40, |i| vec![0.1 * i as f64, (1.5 * i as f64).sin()]);
    let said = |period: f64| {
        let schema = Schema::numeric(&rows);
        let settings = Settings { kernel: format!("periodic(period={period})"), ..Settings::default() };
        let none = TrainConfig { steps: 0, ..TrainConfig::default() };
        let fitted = Fitted::fit(schema, &rows, settings, &none, &Registry::default(), &mut []).unwrap();
        fitted.summary.warnings.iter().any(|warning| warning.text.contains("is longer than the rows, which span 3.9"))
    };
    assert!(said(4.0) && !said(3.5));
}

#[test]
fn an_average_over_kernels_is_advised_no_kernel() {
    let shape = |i: usize| (4.0 * place(i, 1.0)).sin() + 2.0 * place(i, 2.0) + 0.4 * noise(i, 1.0);
    let rows = table(&["a", "b"], 60, |i| vec![place(i, 1.0), place(i, 2.0), shape(i).exp()]);
    let average = |kernel: &str| fit(&rows, Settings { kernel: kernel.into(), ..Settings::default() });
    let plain = advice(&average("average(log=false)"), &[]);
    let log = plain.iter().find(|one| one.remedy == Remedy::LogTarget).expect("the noise grows with the target");
    assert_eq!(log.settings.kernel, "average");
    let found = advice(&average("average"), &[]);
    assert!(!found.iter().any(|one| matches!(one.remedy, Remedy::LogTarget | Remedy::Kernel)), "{found:?}");
}

#[test]
fn an_average_of_a_series_is_advised_a_season_with_all_that_it_needs() {
    let months = months(84);
    let rows = months.clone().with_target("y", months.y.unwrap().iter().map(|y| (0.02 * y).exp()).collect()).unwrap();
    let found = advice(&fit(&rows, Settings { kernel: "average".into(), ..Settings::default() }), &[]);
    let season = found.iter().find(|one| one.remedy == Remedy::Season).expect("a year");
    assert!(season.settings.kernel.contains("period=1,") && season.gain > 0.1, "{}", season.advice);
    let log = season.settings.target_transform == TargetTransform::Log;
    assert_eq!(log, season.advice.settings.iter().any(|set| set.field == "Settings::target_transform"));
}

#[test]
fn copies_are_named_and_prove_nothing() {
    let once = |i: usize| vec![place(i, 1.0), (5.0 * place(i, 1.0)).sin() + 0.3 * noise(i, 1.0)];
    let fitted = fit(&table(&["x"], 39, |i| once(i / 3)), Settings::default());
    let told: Vec<&str> = fitted.summary.warnings.iter().map(|warning| warning.text.as_str()).collect();
    assert!(told.iter().any(|text| text.contains("26 of 39 rows copy another row, target included")), "{told:?}");
    let found = left_out(&fitted);
    assert_eq!((found.verdict, found.n, found.findings.len()), (Verdict::TooFew, 13, 0), "{found:?}");
    assert!(advice(&fitted, &found.findings).is_empty());
    let single = fit(&table(&["x"], 13, once), Settings::default());
    assert_eq!((fitted.summary.loss, fitted.noise()), (single.summary.loss, single.noise()), "they count once");
    let known = Settings { fix: vec!["noise".into()], ..Settings::default() };
    assert_eq!(fit(&table(&["x"], 39, |i| once(i / 3)), known).summary.rows, 39, "nothing says what the noise is");
    // What was measured anew differs.
    let anew = |i: usize| vec![once(i / 3)[0], once(i / 3)[1] + 0.01 * (i % 3 % 2) as f64];
    let fitted = fit(&table(&["x"], 39, anew), Settings::default());
    assert_eq!(fitted.summary.rows, 39, "{:?}", fitted.summary.warnings);
    // Categories repeat, and some of their targets too.
    let counts = |i: usize| vec![(i % 4) as f64, (i / 4 % 3) as f64, (8.0 * place(i, 1.0)).floor()];
    let fitted = fit(&table(&["a", "b"], 72, counts), Settings::default());
    assert!(!fitted.summary.warnings.iter().any(|warning| warning.text.contains("copy")), "{:?}", fitted.summary);
    assert_eq!(left_out(&fitted).n, 72);
    // So do counts at few inputs, by chance; but not where each input has one of them.
    let counted =
        |i: usize, at: usize| vec![(at % 20) as f64, (4.0 + 0.1 * (at % 20) as f64 + 2.0 * noise(i, 1.0)).round()];
    let fitted = fit(&table(&["x"], 400, |i| counted(i, i)), Settings::default());
    assert_eq!(fitted.summary.rows, 400, "{:?}", fitted.summary.warnings);
    let fitted = fit(&table(&["x"], 60, |i| counted(i / 3, i / 3)), Settings::default());
    assert_eq!(fitted.summary.rows, 20, "{:?}", fitted.summary.warnings);
}

#[test]
fn outliers_ask_an_average_for_a_robust_likelihood_which_has_learned_something() {
    let far = |i: usize| if i % 12 == 5 { 150.0 * noise(i, 3.0) } else { 0.3 * noise(i, 2.0) };
    let row = |i: usize| vec![place(i, 1.0), place(i, 2.0), (5.0 * place(i, 1.0)).sin() + place(i, 2.0) + far(i)];
    let data = table(&["a", "b"], 120, row);
    let fitted = fit(&data, Settings { kernel: AVERAGE.into(), ..Settings::default() });
    let advised = advice(&fitted, &left_out(&fitted).findings);
    let robust = advised.iter().find(|one| one.settings.likelihood == "student-t").expect("a robust likelihood");
    assert!(robust.gain > 0.5, "{robust:?}");
    let useless = |fitted: &Fitted| fitted.summary.warnings.iter().any(|w| w.text.contains("nothing was learned"));
    assert!(!useless(&fit(&data, Settings { kernel: "rbf(ard)".into(), ..robust.settings.clone() })));
}

#[test]
fn counts_whose_average_is_of_their_logarithm_are_advised_a_likelihood_of_counts() {
    let rate = |i: usize| if place(i, 3.0) > 0.4 { (3.0 * place(i, 1.0) + 1.2 * noise(i, 1.0)).exp() } else { 0.0 };
    let data = table(&["a", "b"], 160, |i| vec![place(i, 1.0), place(i, 2.0), rate(i).floor()]);
    let fitted = fit(&data, Settings { kernel: AVERAGE.into(), ..Settings::default() });
    assert_ne!(fitted.members()[0].fitted.settings.target_transform, TargetTransform::Identity);
    let advised = advice(&fitted, &left_out(&fitted).findings);
    let counts = advised.iter().find(|one| one.settings.likelihood == "negative-binomial").expect("for counts");
    assert_eq!(counts.settings.target_transform, TargetTransform::Identity);
    assert!(counts.advice.settings.iter().any(|set| set.field == "Settings::target_transform"), "{counts:?}");
}

#[test]
fn of_few_rows_nothing_is_claimed() {
    let few =
        fit(&table(&["x"], 4, |i| vec![[0.0, 1.0, 124.0, 125.0][i], [1.0, 1.1, 9.0, 9.2][i]]), Settings::default());
    assert_eq!(left_out(&few).verdict, Verdict::TooFew);
    assert!(advice(&few, &[]).is_empty());
}
