//! Federated trainings of experts.

use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Algorithm, Experts, Federation, Partition, Rounds, Shared};
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::{Observations, fit};
use cagey::params::{Parameters, Prior};
use cagey::scope::Scope;
use cagey::train::{self, Adam, CheckpointPlan, Descent, Lbfgs, Objective, Optimizer, Step, TrainConfig};

use crate::common::{F64, StopAt, data};

const STEP: Step = Step { iteration: 0, epoch: 0.0, seed: 0, factor: 1.0 };

fn experts(data: &Observations, count: usize, federation: Federation) -> Experts {
    let kernel = Kernel::parse("1.3 * rbf(lengthscale=[0.8, 1.1])", 2).unwrap();
    let objective = ExactObjective::MarginalLikelihood;
    let mut gp = ExactGp { prior: kernel.into(), likelihood: Gaussian::new(0.1), objective };
    gp.find_mut("lengthscale").unwrap()[0].set_prior(None, Prior::LogNormal(0.0, 1.0)).unwrap();
    let parts = Partition::Random.split(data, &[], count, 3).unwrap();
    let mut experts = Experts::new(Shared::Exact(gp), Rule::Grbcm, parts, vec![0]).unwrap();
    experts.federation = federation;
    experts
}

fn config(optimizer: Optimizer, steps: usize) -> TrainConfig {
    TrainConfig::new(optimizer, steps)
}

/// The parameters at the end of a training.
fn trained(mut model: Experts, data: &Observations, config: &TrainConfig) -> Vec<f64> {
    let training = Training { compute: F64, data, rows: data, batches: None, config, spread: None };
    model.train(training, &mut []).unwrap();
    model.free_raw()
}

#[test]
fn consensus_ends_at_the_optimum_of_the_sum() {
    let data = data(48, 2);
    let of = |algorithm| Federation { algorithm, ..Federation::default() };
    let lbfgs = || Optimizer::Lbfgs(Lbfgs::default());
    let best = trained(experts(&data, 4, of(Algorithm::Fact)), &data, &config(lbfgs(), 300));
    for (algorithm, steps) in [(Algorithm::Admm, 400), (Algorithm::Pxadmm, 4000)] {
        let found = trained(experts(&data, 4, of(algorithm)), &data, &config(lbfgs(), steps));
        for (found, best) in found.iter().zip(&best) {
            assert!((found - best).abs() < 1e-5, "{algorithm:?}: {found} {best}");
        }
    }
}

#[test]
fn one_local_step_is_a_step_on_the_sum() {
    // Parts of different sizes: 10, 10 and 11 rows.
    let data = data(31, 2);
    let federation = Federation { algorithm: Algorithm::Fedavg, local_steps: Some(1), ..Federation::default() };
    let descent = || Optimizer::Descent(Descent { rate: 0.1, ..Descent::default() });
    let averaged = trained(experts(&data, 3, federation), &data, &config(descent(), 5));
    let summed = trained(experts(&data, 3, Federation::default()), &data, &config(descent(), 5));
    for (averaged, summed) in averaged.iter().zip(&summed) {
        assert!((averaged - summed).abs() < 1e-12, "{averaged} {summed}");
    }
}

#[test]
fn proximal_admm_takes_one_gradient_a_round() {
    let data = data(30, 2);
    let federation = Federation { algorithm: Algorithm::Pxadmm, ..Federation::default() };
    let model = experts(&data, 5, federation);
    let start = model.free_raw();
    let mut rounds = Rounds::new(model, F64, &data, &config(Optimizer::default(), 7)).unwrap();
    let whole = Optimizer::Descent(Descent { rate: 1.0, ..Descent::default() });
    let outcome = train::minimise(&mut rounds, &start, &config(whole, 7).loss_scale(30.0), &mut []).unwrap();
    assert_eq!(rounds.gradients(), 5 * outcome.evaluations);
    assert_eq!(outcome.evaluations, 8);
}

#[test]
fn losses_of_rounds_are_those_of_the_sum_with_priors_once() {
    let data = data(31, 2);
    for algorithm in [Algorithm::Fedavg, Algorithm::Fedprox, Algorithm::Admm, Algorithm::Pxadmm] {
        let model = experts(&data, 3, Federation { algorithm, ..Federation::default() });
        let whole = fit::evaluate(&model, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
        let z = model.free_raw();
        for optimizer in [Optimizer::Adam(Adam::default()), Optimizer::default()] {
            let mut rounds = Rounds::new(model.clone(), F64, &data, &config(optimizer, 1)).unwrap();
            let found = rounds.evaluate(&z, STEP).unwrap();
            assert!((found.loss - whole.loss).abs() < 1e-9 * whole.loss.abs(), "{algorithm:?} {found:?} {whole:?}");
        }
    }
}

#[test]
fn federated_trainings_lower_the_loss_with_some_clients_too() {
    let data = data(60, 2);
    for algorithm in [Algorithm::Fedavg, Algorithm::Fedprox] {
        let federation = Federation { algorithm, share: 0.5, ..Federation::default() };
        let mut model = experts(&data, 4, federation);
        let batch = data.batch(&Scope::new(F64).unwrap());
        let before = fit::evaluate(&model, F64, &batch).unwrap().loss / 60.0;
        let adam = config(Optimizer::Adam(Adam { rate: 0.05, ..Adam::default() }), 60);
        let training = Training { compute: F64, data: &data, rows: &data, batches: None, config: &adam, spread: None };
        let outcome = model.train(training, &mut []).unwrap();
        let after = fit::evaluate(&model, F64, &batch).unwrap().loss / 60.0;
        assert!(after < before - 0.05 && (outcome.loss - after).abs() < 1e-12, "{algorithm:?}: {before} {after}");
    }
}

#[test]
fn rounds_resume_to_the_same_numbers() {
    let data = data(40, 2);
    let folder = tempfile::tempdir().unwrap();
    for algorithm in [Algorithm::Fedavg, Algorithm::Admm, Algorithm::Pxadmm] {
        let federation = Federation { algorithm, share: 0.5, ..Federation::default() };
        let optimizer = || match algorithm {
            Algorithm::Fedavg => Optimizer::Adam(Adam::default()),
            _ => Optimizer::default(),
        };
        let whole = trained(experts(&data, 4, federation.clone()), &data, &config(optimizer(), 9));
        let path = folder.path().join(format!("{algorithm:?}"));
        let mut model = experts(&data, 4, federation.clone());
        let first = config(optimizer(), 9).checkpoint(CheckpointPlan::every_steps(&path, 1));
        let training = Training { compute: F64, data: &data, rows: &data, batches: None, config: &first, spread: None };
        model.train(training, &mut [&mut StopAt(4)]).unwrap();
        let resumed = trained(experts(&data, 4, federation), &data, &config(optimizer(), 9).resume(&path));
        assert_eq!(resumed, whole, "{algorithm:?}");
    }
}

#[test]
fn numbers_without_sense_are_refused() {
    let data = data(12, 2);
    let usual = || Federation { algorithm: Algorithm::Admm, ..Federation::default() };
    for (federation, said) in [
        (Federation { local_steps: Some(0), ..usual() }, "Federation::local_steps"),
        (Federation { share: 0.0, ..usual() }, "Federation::share"),
        (Federation { proximal: f64::NAN, ..usual() }, "Federation::proximal"),
        (Federation { penalty: Some(0.0), ..usual() }, "Federation::penalty"),
        (Federation { curvature: Some(-1.0), ..usual() }, "Federation::curvature"),
    ] {
        let refused = Rounds::new(experts(&data, 2, federation), F64, &data, &TrainConfig::default()).unwrap_err();
        assert!(refused.to_string().contains(said), "{refused}");
    }
}
