//! Structural kernels of series: seasons found, starts at simpler models, many rows.

use std::f64::consts::TAU;
use std::ops::ControlFlow;

use cagey::data::{Dataset, Schema, TargetTransform};
use cagey::device::Compute;
use cagey::fitted::{Calibrate, Fit, Fitted, Member, Plan, Registry, Settings, structure};
use cagey::models::exact::ExactGp;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::Posterior;
use cagey::models::state_space::StateSpaceOptions;
use cagey::train::{Observer, Report, Termination, TrainConfig};

fn table(n: usize, step: f64, y: impl Fn(f64) -> f64) -> Dataset {
    let x: Vec<f64> = (0..n).map(|i| step * i as f64).collect();
    let values = x.iter().map(|t| y(*t)).collect();
    Dataset::new(["t"], x).unwrap().with_target("y", values).unwrap()
}

/// A number from -0.5 to 0.5 that hardly depends on those before.
fn noise(t: f64) -> f64 {
    ((t * 12.9898 + (t * 0.731).sin() * 43758.5453).sin() * 43758.5453).rem_euclid(1.0) - 0.5
}

/// The levels of a walk with such steps.
fn walk(n: usize) -> Vec<f64> {
    let mut level = 0.0;
    let step = |i: usize| {
        level += noise(i as f64);
        level
    };
    (0..n).map(step).collect()
}

fn auto() -> Settings {
    Settings { kernel: "auto".into(), calibrate: Calibrate::No, ..Settings::default() }
}

fn near(found: &[f64], expected: &[f64]) {
    let same = found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 0.01);
    assert!(same, "{found:?} for {expected:?}");
}

#[test]
fn several_seasons_are_found_and_no_more() {
    let found = |data: &Dataset| structure::periods(&Schema::numeric(data), data);
    let shape = |t: f64| t.sin() + 0.4 * (2.0 * t + 1.0).cos() + 0.2 * (3.0 * t).sin();
    let day = |t: f64| shape(TAU * t / 24.0);
    let workday = |t: f64| if (t / 24.0).rem_euclid(7.0) < 5.0 { 1.0 } else { 0.0 };
    // A day that is flatter at weekends, in hours.
    near(
        &found(&table(1200, 1.0, |t| 5.0 + 2.0 * workday(t) + (1.0 + workday(t)) * day(t) + noise(t))),
        &[24.0, 168.0],
    );
    // The same where one wave of the week is larger than all others: one of 21 hours, beside that of the day.
    near(&found(&table(2600, 1.0, |t| day(t) + 0.6 * (8.0 * TAU * t / 168.0).sin() + noise(t))), &[24.0, 168.0]);
    // Days of a week and of a year, with a trend.
    let daily = |t: f64| 0.001 * t + shape(TAU * t / 7.0) + 2.0 * shape(TAU * t / 365.25) + 2.0 * noise(t);
    near(&found(&table(1800, 1.0, daily)), &[7.0, 365.25]);
    // One season is not two, and noise and a trend are none beside it.
    near(&found(&table(600, 1.0, |t| 0.01 * t + day(t) + noise(t))), &[24.0]);
    near(&found(&table(600, 1.0, |t| day(t) * (1.0 + 0.002 * t))), &[24.0]);
    // A walk has long waves that stand out of nothing.
    let steps = walk(600);
    let walk = found(&table(600, 1.0, |t| steps[t as usize] + 8.0 * day(t)));
    near(&walk, &[24.0]);
}

#[test]
fn models_with_more_parts_take_part_if_these_are_worth_it() {
    let growing = |t: f64| 100.0 + 0.5 * t + (10.0 + 0.05 * t) * (TAU * t / 12.0).sin() + 6.0 * noise(t);
    let data = table(72, 1.0, growing);
    let (schema, config, registry) = (Schema::numeric(&data), TrainConfig::default(), Registry::default());
    let fitted = Fitted::fit(schema, &data, auto(), &config, &registry, &mut []).unwrap();
    let evidence = |kernel: &str, log: bool| {
        let same = |m: &&Member| {
            m.fitted.settings.kernel == kernel && (m.fitted.settings.target_transform == TargetTransform::Log) == log
        };
        fitted.members().iter().find(same).map(|member| 72.0 * member.evidence)
    };
    let (season, mut compared) = ("periodic(period=12.0, fix=period) * wiener", 0);
    for log in [false, true] {
        for (simple, more) in [
            (format!("wiener + {season}"), format!("wiener + linear + {season}")),
            (format!("wiener(order=2) + {season}"), format!("wiener + wiener(order=2) + {season}")),
            (format!("wiener(order=2) + {season}"), format!("wiener(order=2) + {season} + matern12")),
            (format!("wiener + linear + {season}"), format!("wiener + linear + {season} + matern12")),
        ] {
            let (Some(before), Some(after)) = (evidence(&simple, log), evidence(&more, log)) else { continue };
            compared += 1;
            assert!(after < before - 2.0, "{more}: {after} after {before} (log: {log})");
        }
    }
    // The trail has all models: of the numbers 4 curves, and 16 structural ones.
    let trail = &fitted.summary.trail;
    assert_eq!(trail.len(), 20);
    assert!(trail.iter().filter(|line| line.contains("nats")).count() >= fitted.members().len(), "{trail:?}");
    assert!(trail.iter().any(|line| line.contains("more than") && line.ends_with("left out")), "{trail:?}");
    let again = Fitted::from_bytes(&fitted.to_bytes().unwrap(), &Registry::default(), None).unwrap();
    assert_eq!(again.summary.trail, fitted.summary.trail);
    assert!(compared >= 2, "{compared} of {:?}", fitted.members().iter().map(Member::name).collect::<Vec<_>>());
}

#[test]
fn models_of_a_thousand_rows_are_weighed_by_forecasts() {
    let steps = walk(1040);
    let data = table(1040, 1.0, |t| steps[t as usize] + 0.5 * noise(0.3 + t));
    let fitted = Fit::new(&data).settings(auto()).steps(15).run().unwrap();
    let (members, y) = (fitted.members(), data.y.as_ref().unwrap());
    assert!(members.len() > 1);
    for member in members {
        assert!(member.is_of_forecasts());
        // The dense exact model of the rows before each forecast.
        let (own, scale) = (&member.fitted, member.fitted.target_scale);
        let mut model = ExactGp::new(own.kernel().clone());
        model.prior = own.model.prior().clone();
        let noise = own.noise().unwrap();
        model.likelihood.noise.set(&[noise]).unwrap();
        let (mut sum, mut count) = (0.0, 0.0);
        for begin in [624, 728, 832, 936] {
            let rows = |range: std::ops::Range<usize>| own.data().gather(&range.collect::<Vec<_>>()).unwrap();
            let (past, next) = (rows(0..begin), rows(begin..begin + 104));
            let told = model.posterior(Compute::default(), past).unwrap().predict(&next.x).unwrap();
            for (i, y) in y[begin..begin + 104].iter().enumerate() {
                sum -= scale.predictive(told.mean[i], (told.variance[i] + noise).sqrt()).log_density(*y);
                count += 1.0;
            }
        }
        assert!((member.left_out - sum / count).abs() < 1e-6, "{}: {}", member.name(), member.left_out - sum / count);
        let ratio = (-32.0 * (member.left_out - members[0].left_out)).exp();
        assert!((member.weight / members[0].weight - ratio).abs() < 1e-9);
    }
}

/// Counts are weighed by the evidence: there are no densities of their forecasts.
#[test]
fn only_real_targets_are_weighed_by_forecasts() {
    let data = table(1040, 1.0, |t| (3.0 + 2.0 * (0.02 * t).sin() + 2.0 * noise(t)).round().max(0.0));
    let fit = |kernel: &str| {
        let settings = Settings { likelihood: "poisson".into(), model: StateSpaceOptions::default().into(), ..auto() };
        Fit::new(&data).settings(settings).kernel(kernel).steps(5).run().unwrap()
    };
    let fitted = Fitted::average(vec![fit("matern12"), fit("matern32")]).unwrap();
    let members = fitted.members();
    assert!(!members.iter().any(Member::is_of_forecasts));
    let log = |member: &Member| -1040.0 * member.evidence / 8.0;
    let ratio = (log(&members[1]) - log(&members[0])).exp();
    assert!((members[1].weight / members[0].weight - ratio).abs() < 1e-9);
}

#[test]
fn a_week_of_different_days_stays_beside_a_day_that_walks() {
    let busy = |t: f64| if (t / 24.0).rem_euclid(7.0) < 5.0 { 3.0 } else { 0.5 };
    let shape =
        |t: f64| (busy(t) * (1.0 + (TAU * t / 24.0).sin() + 0.6 * (2.0 * TAU * t / 24.0).sin()) + noise(t)).max(0.0);
    let data = table(1344, 1.0, |t| (10.0 * shape(t)).round());
    let train = data.subset(&(0..1176).collect::<Vec<_>>());
    let fitted = Fit::new(&train).settings(auto()).steps(15).run().unwrap();
    // Two models whose seasons walk and one whose week stays, of the counts and of log(1 + count); of this also one
    // whose level comes back.
    let trail = &fitted.summary.trail;
    assert_eq!(trail.len(), 7, "{trail:?}");
    assert_eq!(trail.iter().filter(|line| line.contains("of log(1 + y)")).count(), 4, "{trail:?}");
    assert_eq!(trail.iter().filter(|line| line.contains("lengthscale=0.14")).count(), 3, "{trail:?}");
    assert!(fitted.members()[0].name().contains("lengthscale=0.14"), "{}", fitted.members()[0].name());
    // A week is forecast better than by the week before.
    let next: Vec<usize> = (1176..1344).collect();
    let y = data.y.as_ref().unwrap();
    let told = fitted.predict(&data.subset(&next)).unwrap();
    let (mut own, mut naive) = (0.0, 0.0);
    for (row, told) in next.iter().zip(&told) {
        own += (y[*row] - told.quantile(0.5)).abs();
        naive += (y[*row] - y[row - 168]).abs();
    }
    assert!(own < naive, "{own} for {naive}");
}

#[test]
fn of_many_rows_the_last_are_searched_and_all_are_fitted() {
    let steps = walk(5200);
    let data = table(5200, 1.0, |t| steps[t as usize] + 0.5 * noise(0.3 + t));
    let train = data.subset(&(0..5180).collect::<Vec<_>>());
    let plan = Plan::new(Schema::numeric(&train), &train, auto(), 0, &Registry::default()).unwrap();
    assert!(plan.models() <= 2);
    let mut seen = Seen::default();
    let fitted = plan.train(&TrainConfig::default(), &mut [&mut seen]).unwrap();
    let said = fitted.summary.chosen.clone().unwrap();
    assert!(said.contains("the last 2500 rows show") && seen.chosen == [said], "{:?}", seen.chosen);
    // The search and what follows it.
    assert_eq!(seen.starts, 2);
    assert!(fitted.summary.trail.len() >= 5, "{:?}", fitted.summary.trail);
    assert_eq!(fitted.summary.rows, 5180);
    assert!(fitted.settings.kernel.contains("wiener"), "{}", fitted.settings.kernel);
    // One step of the walk has this scale, and so has the forecast of the first row.
    let ahead = fitted.predict(&data.subset(&(5180..5200).collect::<Vec<_>>())).unwrap();
    let sd = ahead[0].sd();
    assert!((0.25..0.6).contains(&sd) && ahead[19].sd() > 2.0 * sd, "{sd} {}", ahead[19].sd());
}

/// Counts what it is shown, and ends a training at its first step, once.
#[derive(Default)]
struct Seen {
    starts: usize,
    steps: usize,
    chosen: Vec<String>,
    ends: bool,
}

impl Observer for Seen {
    fn start(&mut self, _plan: &cagey::train::Plan) {
        self.starts += 1;
    }

    fn step(&mut self, report: &Report) -> ControlFlow<()> {
        self.steps += usize::from(report.iteration > 0);
        match report.iteration > 0 && std::mem::take(&mut self.ends) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn chosen(&mut self, sentence: &str) {
        self.chosen.push(sentence.into());
    }
}

#[test]
fn a_search_ends_when_it_is_told_and_when_its_time_is_over() {
    let data = table(5000, 1.0, |t| 3.0 + (TAU * t / 24.0).sin() + noise(t));
    let fit = |config: TrainConfig, seen: &mut Seen| {
        let (schema, registry) = (Schema::numeric(&data), Registry::default());
        Fitted::fit(schema, &data, auto(), &config, &registry, &mut [seen]).unwrap()
    };
    // A step for each of the members that are trained at the time, and one of the training on all rows.
    let mut ended = Seen { ends: true, ..Seen::default() };
    let fitted = fit(TrainConfig::default(), &mut ended);
    assert!(ended.steps <= 2 + rayon::current_num_threads(), "{} steps", ended.steps);
    assert_eq!((fitted.summary.rows, ended.chosen.len()), (5000, 1));
    assert_eq!(fitted.summary.termination, Termination::Interrupted.to_string());
    // Without any time there is one step of the search, and one on all rows.
    let mut late = Seen::default();
    let fitted = fit(TrainConfig::default().max_time(std::time::Duration::ZERO), &mut late);
    assert!(late.steps <= 2 && fitted.summary.is_cut_short(), "{} steps", late.steps);
    let warned = fitted.summary.warnings.iter().any(|warning| warning.is_about("TrainConfig::max_time"));
    assert!(warned, "{:?}", fitted.summary.warnings);
}

#[test]
fn parts_of_a_sum_start_at_different_scales() {
    // Nights with five rows each: a slow wave, and another level every tenth of a day.
    let x: Vec<f64> = (0..150).map(|i| (i / 5) as f64 + 0.06 * (i % 5) as f64 + 0.01 * noise(f64::from(i))).collect();
    let y = x.iter().map(|t| 2.0 * (0.3 * t).sin() + 0.8 * noise((t * 12.0).round()) + 0.02 * noise(*t)).collect();
    let data = Dataset::new(["t"], x).unwrap().with_target("y", y).unwrap();
    let fit = |kernel: &str| {
        let settings = Settings { kernel: kernel.into(), calibrate: Calibrate::No, ..Settings::default() };
        let (config, registry) = (TrainConfig::default(), Registry::default());
        Fitted::fit(Schema::numeric(&data), &data, settings, &config, &registry, &mut []).unwrap()
    };
    let (own, told) = (fit("matern32 + matern12"), fit("matern32(5) + matern12(0.1)"));
    assert!(own.summary.loss < told.summary.loss + 0.005, "{} {}", own.summary.loss, told.summary.loss);
    let lengths = |fitted: &Fitted| -> Vec<f64> {
        let lengths = fitted.model.parameters().into_iter().filter(|(path, _)| path.ends_with("lengthscale"));
        lengths.map(|(_, length)| length.values()[0]).collect()
    };
    let found = lengths(&own);
    assert!(found[0] > 1.0 && found[1] < 0.5, "{found:?}");
}

#[test]
fn numbers_that_repeat_are_no_series() {
    let suits = |x: &dyn Fn(usize) -> f64| {
        let x: Vec<f64> = (0..60).map(x).collect();
        let data = Dataset::new(["t"], x.clone()).unwrap().with_target("y", x).unwrap();
        structure::suits(&Schema::numeric(&data), &data)
    };
    assert!(suits(&|i| 0.5 * i as f64) && suits(&|i| (i * 7 % 60) as f64));
    // Sizes of houses.
    assert!(!suits(&|i| 50.0 * (i / 2) as f64));
}

#[test]
fn a_smooth_curve_with_little_noise_is_not_taken_for_a_rough_one() {
    let data = table(51, 0.04, |t| (6.0 * t).sin() + 0.03 * noise(31.0 * t));
    let schema = Schema::numeric(&data);
    let fitted = Fitted::fit(schema, &data, auto(), &TrainConfig::default(), &Registry::default(), &mut []).unwrap();
    let heaviest = &fitted.members()[0];
    assert!(heaviest.fitted.settings.kernel == "rbf" && heaviest.weight > 0.5, "{:?}", fitted.summary.trail);
    let sd = heaviest.fitted.noise().unwrap().sqrt() * fitted.target_scale.sd;
    assert!((0.005..0.02).contains(&sd), "0.03 of a uniform distribution has 0.0087: {sd}");
}
