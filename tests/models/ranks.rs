//! Experts over ranks that are threads: results have the same bits, and errors reach the leader.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cagey::distributed::{self, Data, Exchange, Guard, OfParts, Question, Ranks, threads};
use cagey::fitted::Registry;
use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::means::Mean;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Algorithm, Experts, Federation, Partition, Rounds, Shared};
use cagey::models::gp_model::GpModel;
use cagey::models::posterior::Posterior;
use cagey::models::sgpr::{Pooled, Sgpr};
use cagey::models::{Observations, fit};
use cagey::params::{Parameters, Prior};
use cagey::scope::Scope;
use cagey::train::{Objective, Step, TrainConfig};

use crate::common::{F64, assert_close, data};

fn shared(sparse: bool, data: &Observations) -> Shared {
    let kernel = Kernel::parse("1.3 * rbf(lengthscale=[0.8, 1.1]) + linear(ard)", 2).unwrap();
    let mean = Mean::named("linear", 2).unwrap();
    if sparse {
        let mut model = Sgpr::new(kernel, &data.x[..14], 2).unwrap();
        model.process.prior.mean = mean;
        return Shared::Sparse(model);
    }
    let mut prior: cagey::models::prior::Prior = kernel.into();
    prior.mean = mean;
    let objective = ExactObjective::MarginalLikelihood;
    Shared::Exact(ExactGp { prior, likelihood: Gaussian::new(0.1), objective })
}

fn experts(sparse: bool, data: &Observations) -> Experts {
    let parts = Partition::Random.split(data, &[], 5, 3).unwrap();
    Experts::new(shared(sparse, data), Rule::Grbcm, parts, vec![1, 4, 9, 16, 25]).unwrap()
}

/// The ranks, for a model that they share.
pub fn crew(ranks: &Arc<Ranks>) -> Option<Arc<Ranks>> {
    Some(ranks.clone())
}

/// The result of `lead` with `size` ranks; the other ranks serve meanwhile.
pub fn with_ranks<R>(size: usize, lead: impl FnOnce(&Arc<Ranks>) -> R) -> R {
    let registry = Registry::default();
    let mut ends = threads::ends(size);
    let others = ends.split_off(1);
    let ranks = Arc::new(Ranks::new(Box::new(ends.remove(0))));
    std::thread::scope(|scope| {
        for other in others {
            let registry = &registry;
            scope.spawn(move || distributed::serve(&other, registry, &["fit".into()]).unwrap());
        }
        let made = catch_unwind(AssertUnwindSafe(|| lead(&ranks)));
        ranks.end().unwrap();
        made.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[test]
fn any_number_of_ranks_gives_the_same_bits() {
    let known = (0..40).map(|row| 0.01 * f64::from(row % 3)).collect();
    let data = data(40, 2).with_auxiliary(Some(known)).unwrap();
    let points: Vec<f64> = (0..20).map(|i| (0.37 * f64::from(i)).sin()).collect();
    for sparse in [false, true] {
        let run = |mut model: Experts| {
            let outcome =
                fit::fit(&mut model, F64, &data, &TrainConfig { steps: 6, ..TrainConfig::default() }, &mut []);
            let posterior = model.posterior(F64, data.clone()).unwrap();
            let predicted = [Rule::Rbcm, Rule::Grbcm, Rule::Near, Rule::Npae, Rule::Weights]
                .map(|rule| posterior.by_rule(rule).predict(&points).unwrap());
            (outcome.unwrap().loss, model.free_raw(), predicted)
        };
        let alone = run(experts(sparse, &data));
        for size in [1, 2, 4, 7] {
            let spread = with_ranks(size, |ranks| run(experts(sparse, &data).over(crew(ranks))));
            assert!(spread == alone, "{size} ranks, sparse {sparse}");
        }
    }
}

#[test]
fn a_sparse_model_over_ranks_is_that_of_all_rows() {
    let known = (0..53).map(|row| 0.01 * f64::from(row % 3)).collect();
    let data = data(53, 2).with_auxiliary(Some(known)).unwrap();
    let Shared::Sparse(model) = shared(true, &data) else { return };
    let points: Vec<f64> = (0..20).map(|i| (0.37 * f64::from(i)).sin()).collect();
    let whole = fit::evaluate(&model, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
    let posterior = model.posterior(F64, data.clone()).unwrap().predict(&points).unwrap();
    let mut first = None;
    for size in [1, 2, 3, 4, 8] {
        let found = with_ranks(size, |ranks| {
            let mut pooled = Pooled::new(model.clone(), 53).over(crew(ranks));
            let found = fit::evaluate(&pooled, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
            let predicted = pooled.condition(F64, data.clone()).unwrap().predict(&points).unwrap();
            let config = TrainConfig { steps: 5, ..TrainConfig::default() };
            fit::fit(&mut pooled, F64, &data, &config, &mut []).unwrap();
            (found, predicted, pooled.free_raw())
        });
        assert!((found.0.loss - whole.loss).abs() < 1e-10 * whole.loss.abs(), "{size}");
        assert_close("gradient", &found.0.gradient, &whole.gradient, 1e-10);
        assert_close("means", &found.1.mean, &posterior.mean, 1e-10);
        assert_close("variances", &found.1.variance, &posterior.variance, 1e-10);
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{size} ranks");
    }
}

#[test]
fn an_error_of_a_rank_names_it_and_the_others_go_on() {
    let data = data(40, 2);
    let batch = data.batch(&Scope::new(F64).unwrap());
    with_ranks(3, |ranks| {
        let mut model = experts(false, &data).over(crew(ranks));
        let sound = fit::evaluate(&model, F64, &batch).unwrap();
        let start: Vec<Vec<f64>> = model.parameters().iter().map(|(_, p)| p.raw().to_vec()).collect();
        model.find_mut("lengthscale").unwrap()[0].set_raw(&[f64::NAN, 0.0]).unwrap();
        let own = fit::evaluate(&model, F64, &batch).unwrap_err().to_string();
        assert!(own.contains("expert 1 of 5 (rows "), "{own}");
        model.parameters_mut().into_iter().zip(&start).for_each(|((_, p), raw)| p.set_raw(raw).unwrap());
        assert_eq!(fit::evaluate(&model, F64, &batch).unwrap(), sound);
        // Only other ranks fail.
        let mut y = data.y.clone();
        // Its square is infinite.
        y[model.parts()[4][0]] = f64::MAX;
        let bad = data.clone().with_targets(y).unwrap();
        let other = fit::evaluate(&model, F64, &bad.batch(&Scope::new(F64).unwrap())).unwrap_err();
        assert!(other.to_string().starts_with("rank 2: "), "{other}");
        assert_eq!(fit::evaluate(&model, F64, &batch).unwrap(), sound);
    });
}

#[test]
fn ranks_are_told_of_what_is_fixed_and_believed() {
    let data = data(40, 2);
    let batch = data.batch(&Scope::new(F64).unwrap());
    let mut alone = experts(false, &data);
    with_ranks(3, |ranks| {
        let mut spread = alone.clone().over(crew(ranks));
        let changes: [&dyn Fn(&mut Experts); 4] = [
            &|_| {},
            &|experts| experts.find_mut("lengthscale").unwrap()[0].fixed = true,
            &|experts| experts.find_mut("noise").unwrap()[0].set_bounds(0.05, 2.0).unwrap(),
            &|experts| {
                let believed = Prior::LogNormal(0.0, 0.3);
                experts.find_mut("noise").unwrap()[0].set_prior(None, believed).unwrap();
            },
        ];
        for change in changes {
            change(&mut alone);
            change(&mut spread);
            let want = fit::evaluate(&alone, F64, &batch).unwrap();
            assert_eq!(fit::evaluate(&spread, F64, &batch).unwrap(), want);
            let rounds = |experts: &Experts| {
                let mut experts = experts.clone();
                experts.federation = Federation { algorithm: Algorithm::Pxadmm, ..Federation::default() };
                let mut rounds = Rounds::new(experts.clone(), F64, &data, &TrainConfig::default()).unwrap();
                let at = Step { iteration: 0, epoch: 0.0, seed: 0, factor: 1.0 };
                rounds.evaluate(&experts.free_raw(), at).unwrap()
            };
            assert_eq!(rounds(&spread), rounds(&alone));
        }
    });
}

#[test]
fn a_question_within_an_answer_is_an_error_and_other_threads_wait() {
    let data = data(40, 2);
    let batch = data.batch(&Scope::new(F64).unwrap());
    with_ranks(3, |ranks| {
        let model = experts(false, &data).over(crew(ranks));
        let sound = fit::evaluate(&model, F64, &batch).unwrap();
        let (work, question) =
            (model.work(Data::Memory(&data), F64), Question::Objective { gradient: false, budget: 1 << 20 });
        let nested = || {
            let said = ranks.ask(&work, &question, &[], || Ok(Vec::new())).unwrap_err().to_string();
            assert!(said.contains("asked while this one answers"), "{said}");
            Ok(Vec::new())
        };
        // The answers of the two other ranks, which have two experts each.
        assert_eq!(ranks.ask(&work, &question, &[], nested).unwrap().len(), 4);
        std::thread::scope(|scope| {
            let evaluations: Vec<_> =
                (0..4).map(|_| scope.spawn(|| fit::evaluate(&model, F64, &batch).unwrap())).collect();
            evaluations.into_iter().for_each(|found| assert_eq!(found.join().unwrap(), sound));
        });
    });
}

#[test]
fn one_expert_of_each_kind_of_objective_is_the_same_elsewhere() {
    let data = data(40, 2);
    let batch = data.batch(&Scope::new(F64).unwrap());
    for objective in [ExactObjective::MarginalLikelihood, ExactObjective::LeaveOneOut] {
        let Shared::Exact(mut gp) = shared(false, &data) else { return };
        gp.objective = objective;
        let parts = Partition::Random.split(&data, &[], 5, 3).unwrap();
        let alone = Experts::new(Shared::Exact(gp), Rule::Grbcm, parts, vec![1]).unwrap();
        let want = fit::evaluate(&alone, F64, &batch).unwrap();
        let found = with_ranks(3, |ranks| fit::evaluate(&alone.clone().over(crew(ranks)), F64, &batch).unwrap());
        assert_eq!(found, want, "{objective:?}");
    }
}

/// An end of the job that counts how often it is called.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

impl Exchange for Counted {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn broadcast(&self, message: Vec<u8>) -> cagey::Result<Vec<u8>> {
        Ok(message)
    }

    fn scatter(&self, mut messages: Vec<Vec<u8>>) -> cagey::Result<Vec<u8>> {
        Ok(messages.remove(0))
    }

    fn gather(&self, message: Vec<u8>) -> cagey::Result<Vec<Vec<u8>>> {
        Ok(vec![message])
    }

    fn abort(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_panic_that_escapes_ends_the_job_and_one_that_is_caught_does_not() {
    let end = Counted::default();
    {
        let _guard = Guard::new(&end);
        let _ = catch_unwind(|| panic!("caught"));
    }
    assert_eq!(end.0.load(Ordering::Relaxed), 0);
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _guard = Guard::new(&end);
        panic!("escapes");
    }));
    assert_eq!(end.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_rank_that_is_gone_keeps_no_message_from_the_others() {
    let mut ends = threads::ends(4);
    let leader = ends.remove(0);
    drop(ends.remove(1));
    assert!(leader.broadcast(vec![7]).unwrap_err().to_string().contains("rank 2 is gone"));
    let arrived: Vec<Vec<u8>> = ends.iter().map(|end| end.broadcast(Vec::new()).unwrap()).collect();
    assert_eq!(arrived, [[7], [7]]);
}

#[test]
fn messages_arrive_at_every_rank() {
    let mut ends = threads::ends(3);
    let others = ends.split_off(1);
    let leader = ends.remove(0);
    std::thread::scope(|scope| {
        for other in &others {
            scope.spawn(move || {
                assert_eq!(other.broadcast(Vec::new()).unwrap(), [7, 8]);
                let own = other.scatter(Vec::new()).unwrap();
                assert_eq!(own, [other.rank() as u8]);
                assert!(other.gather(own).unwrap().is_empty());
            });
        }
        leader.broadcast(vec![7, 8]).unwrap();
        assert_eq!(leader.scatter(vec![vec![0], vec![1], vec![2]]).unwrap(), [0]);
        assert_eq!(leader.gather(vec![0]).unwrap(), [[0], [1], [2]]);
        assert_eq!((leader.rank(), leader.size()), (0, 3));
    });
    drop(others);
    assert!(leader.broadcast(vec![1]).unwrap_err().to_string().contains("rank 1 is gone"));
}

#[test]
fn a_rank_passes_a_signal_on_to_its_leader() {
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    distributed::on_signal(|| {
        HEARD.fetch_add(1, Ordering::SeqCst);
    });
    distributed::pass_on_signal();
    // A rank of another test in this process may pass it on first.
    for _ in 0..1000 {
        if HEARD.load(Ordering::SeqCst) > 0 {
            break;
        }
        let refused = with_ranks(2, |ranks| ranks.agree(vec!["plot".into()]).unwrap_err().to_string());
        assert!(refused.starts_with("rank 1: ") && refused.contains("`fit`"), "{refused}");
    }
    assert_eq!(HEARD.load(Ordering::SeqCst), 1);
    assert!(!distributed::signal_waits());
}
