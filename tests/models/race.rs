//! Races of starts on some of the rows.

use std::time::Duration;

use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::models::exact::ExactGp;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::race::{Raced, Track, race};
use cagey::train::TrainConfig;

/// `count` different inputs, each twice, with a hundred waves.
fn waves(count: usize) -> Observations {
    let x: Vec<f64> = (0..2 * count).map(|i| (i / 2) as f64 / count as f64).collect();
    let y = x.iter().enumerate().map(|(i, x)| (628.0 * x).sin() + 0.1 * (i as f64 * 12.9).sin()).collect();
    Observations::new(x, 1, y, None).unwrap()
}

#[test]
fn rows_with_the_same_inputs_race_together_and_the_best_result_is_kept() {
    let (data, config) = (waves(1010), TrainConfig::while_it_pays());
    let mut model: Box<dyn GpModel> = Box::new(ExactGp::new(Kernel::parse("matern32", 1).unwrap()));
    let start = model.boxed();
    let compute = Compute::default();
    let training = Training { compute, data: &data, rows: &data, batches: None, config: &config, spread: None };
    let Raced { race: report, fallback, .. } =
        race(&mut model, &Track { training, sampled: true }, &mut []).unwrap().expect("there are two starts");
    assert_eq!(report.rows, 2000, "a thousand different inputs");
    assert_eq!(report.starts[0].name, "short lengthscale");

    let (fallback, best) = (fallback.expect("not all rows raced"), report.starts[0].loss.unwrap());
    assert!(fallback.is_below(best + 0.01) && !fallback.is_below(best));
    // The better start led clearly, so the model is there already.
    let numbers = |model: &dyn GpModel| -> Vec<Vec<f64>> {
        model.parameters().iter().map(|(_, p)| p.internal().to_vec()).collect()
    };
    let applied = fallback.applied(&*start);
    assert_eq!(numbers(&*applied), numbers(&*model));
    assert_ne!(numbers(&*applied), numbers(&*start));
}

#[test]
fn a_race_that_has_time_for_no_step_is_none() {
    let data = waves(50);
    for (kernel, d) in [("matern32", 1), ("matern32(ard)", 2)] {
        let data = Observations::new(data.x[..100].to_vec(), d, data.y[..100 / d].to_vec(), None).unwrap();
        let raced = |max_time: Option<Duration>| {
            let config = TrainConfig { max_time, ..TrainConfig::while_it_pays() };
            let mut model: Box<dyn GpModel> = Box::new(ExactGp::new(Kernel::parse(kernel, d).unwrap()));
            let start = model.parameters().iter().map(|(_, p)| p.internal().to_vec()).collect::<Vec<_>>();
            let compute = Compute::default();
            let training = Training { compute, data: &data, rows: &data, batches: None, config: &config, spread: None };
            let raced = race(&mut model, &Track { training, sampled: true }, &mut []).unwrap().is_some();
            let moved = model.parameters().iter().zip(&start).any(|((_, p), start)| &p.internal() != start);
            (raced, moved)
        };
        assert!(raced(None).0, "{kernel}");
        assert_eq!(raced(Some(Duration::ZERO)), (false, false), "{kernel}");
    }
}
