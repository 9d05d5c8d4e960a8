//! Experts compared with the exact model where both are the same, and with golden values.

use cagey::kernels::Kernel;
use cagey::likelihoods::Gaussian;
use cagey::models::exact::{ExactGp, ExactObjective};
use cagey::models::experts::aggregation::Rule;
use cagey::models::experts::{Experts, Partition, Shared};
use cagey::models::gp_model::GpModel;
use cagey::models::minibatch::Rows;
use cagey::models::posterior::{Marginals, Posterior};
use cagey::models::sgpr::Sgpr;
use cagey::models::{Model, Observations, RowValues, fit};
use cagey::params::Parameters;
use cagey::scope::Scope;
use cagey::train::{Adam, Optimizer, TrainConfig};
use serde_json::Value;

use crate::common::{F64, assert_close, data, golden};

const POINTS: [f64; 8] = [0.1, -0.2, 0.9, 0.4, -1.0, 1.3, 0.5, 0.0];

fn gp(kernel: &str, d: usize, noise: f64) -> ExactGp {
    let mut likelihood = Gaussian::new(0.1);
    likelihood.noise.set(&[noise]).unwrap();
    let prior = Kernel::parse(kernel, d).unwrap().into();
    ExactGp { prior, likelihood, objective: ExactObjective::MarginalLikelihood }
}

fn experts(model: &ExactGp, parts: Vec<Vec<usize>>, common: Vec<usize>) -> Experts {
    Experts::new(Shared::Exact(model.clone()), Rule::Grbcm, parts, common).unwrap()
}

fn by(experts: &Experts, data: &Observations, rule: Rule, x: &[f64]) -> Marginals {
    let posterior = experts.posterior(F64, data.clone()).unwrap();
    posterior.by_rule(rule).predict(x).unwrap()
}

/// Every `count`-th row.
fn dealt(n: usize, count: usize) -> Vec<Vec<usize>> {
    (0..count).map(|first| (first..n).step_by(count).collect()).collect()
}

fn check(name: &str, got: &Marginals, want: &Marginals, tolerance: f64) {
    assert_close(&format!("{name}: means"), &got.mean, &want.mean, tolerance);
    assert_close(&format!("{name}: variances"), &got.variance, &want.variance, tolerance);
}

/// Rules by which a single expert keeps its own posterior.
const FAITHFUL: [Rule; 10] = [
    Rule::Poe,
    Rule::Gpoe,
    Rule::GpoeEntropyNormalised,
    Rule::Bcm,
    Rule::Grbcm,
    Rule::Near,
    Rule::Npae,
    Rule::Weights,
    Rule::WeightsNoise,
    Rule::Nearest,
];

#[test]
fn one_expert_is_the_exact_model() {
    let data = data(36, 2);
    for mean in ["zero", "constant"] {
        let mut model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
        model.prior.mean = cagey::means::Mean::named(mean, 2).unwrap();
        if mean == "constant" {
            model.find_mut("constant").unwrap()[0].set(&[0.4]).unwrap();
        }
        let exact = model.posterior(F64, data.clone()).unwrap().predict(&POINTS).unwrap();
        let one = experts(&model, dealt(36, 1), vec![0, 5, 9]);
        for rule in FAITHFUL {
            check(&format!("{rule}, mean {mean}"), &by(&one, &data, rule, &POINTS), &exact, 1e-8);
        }
        // The other rules weight it by the entropy that its rows took, which is not 1; in a mean the weight cancels.
        let entropy = by(&one, &data, Rule::GpoeEntropy, &POINTS);
        assert_close(&format!("means, mean {mean}"), &entropy.mean, &exact.mean, 1e-8);
        let scope = Scope::training(F64).unwrap();
        let loss = |model: &dyn GpModel| {
            let loss = model.objective(&scope, &data.batch(&scope)).unwrap();
            scope.gradient(loss, model).unwrap()
        };
        let ((own, slopes), (want, wanted)) = (loss(&one), loss(&model));
        assert!((own - want).abs() < 1e-10 * want.abs(), "{own} {want}");
        assert_close("gradient", &slopes, &wanted, 1e-10);
    }
}

#[test]
fn weights_count_rows_by_their_known_noise() {
    let known = (0..36).map(|row| 0.02 + 0.5 * f64::from(row % 4)).collect();
    let data = data(36, 2).with_auxiliary(Some(known)).unwrap();
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let exact = model.posterior(F64, data.clone()).unwrap().predict(&POINTS).unwrap();
    let one = experts(&model, dealt(36, 1), vec![0]);
    check("weights", &by(&one, &data, Rule::Weights, &POINTS), &exact, 1e-8);
    let posterior = one.posterior(F64, data).unwrap().by_rule(Rule::Weights);
    assert_close("weight", &posterior.weights().unwrap().unwrap().beta, &[1.0], 1e-10);
}

#[test]
fn rows_of_the_communication_expert_count_once_in_any_order() {
    let data = data(24, 2);
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let sorted = by(&experts(&model, dealt(24, 3), vec![2, 9, 17]), &data, Rule::Grbcm, &POINTS);
    let shuffled = by(&experts(&model, dealt(24, 3), vec![17, 2, 9, 2, 17]), &data, Rule::Grbcm, &POINTS);
    assert_eq!(shuffled, sorted);
}

#[test]
fn errors_name_the_expert_that_they_are_of() {
    let data = data(24, 2);
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let all = experts(&model, dealt(24, 3), vec![2, 9, 17]);
    let said = |rows: &[usize]| {
        let RowValues { mut x, d, y, auxiliary } = data.clone().into_values();
        // Infinite in units of the lengthscale.
        rows.iter().for_each(|row| x[2 * row] = f64::MAX);
        all.posterior(F64, Observations::new(x, d, y, auxiliary).unwrap()).unwrap_err().to_string()
    };
    assert!(said(&[4]).contains("expert 2 of 3 (rows 2, 5, 8, …; 8 in all)"), "{}", said(&[4]));
}

#[test]
fn only_sparse_experts_bear_jitter() {
    let data = data(24, 2);
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    assert!(!experts(&model, dealt(24, 3), vec![0]).bears_jitter());
    let sparse = Sgpr::new(Kernel::parse("rbf(ard)", 2).unwrap(), &data.x[..12], 2).unwrap();
    let mut sparse = Experts::new(Shared::Sparse(sparse), Rule::Grbcm, dealt(24, 3), vec![0]).unwrap();
    assert!(sparse.bears_jitter());
    // Two inducing inputs that come together need jitter, and training continues through that.
    let z = sparse.find_mut("inducing").unwrap().remove(0);
    let mut together = z.internal();
    together.copy_within(0..2, 2);
    z.set_internal(&together).unwrap();
    let before = sparse.free_raw();
    let adam = TrainConfig::new(Optimizer::Adam(Adam { rate: 0.05, ..Adam::default() }), 12);
    let outcome = fit::fit(&mut sparse, F64, &data, &adam, &mut []).unwrap();
    assert_eq!(outcome.iterations, 12);
    assert_ne!(sparse.free_raw(), before);
}

#[test]
fn a_row_an_expert_nested_is_the_exact_model() {
    let data = data(20, 2);
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let exact = model.posterior(F64, data.clone()).unwrap().predict(&POINTS).unwrap();
    let each = experts(&model, dealt(20, 20), vec![0]);
    check("npae", &by(&each, &data, Rule::Npae, &POINTS), &exact, 1e-10);
}

#[test]
fn two_experts_with_the_rows_of_one_in_common_are_the_exact_model() {
    let data = data(30, 2);
    let model = gp("1.3 * matern52(lengthscale=[0.8, 1.1])", 2, 0.2);
    let exact = model.posterior(F64, data.clone()).unwrap().predict(&POINTS).unwrap();
    let parts = dealt(30, 2);
    let two = experts(&model, parts.clone(), parts[0].clone());
    for rule in [Rule::Grbcm, Rule::Near] {
        check(&rule.to_string(), &by(&two, &data, rule, &POINTS), &exact, 1e-9);
    }
}

#[test]
fn a_committee_of_near_experts_is_that_of_the_eight_with_the_nearest_rows() {
    let data = data(84, 2);
    let model = gp("1.3 * matern32(lengthscale=[0.8, 1.1])", 2, 0.1);
    let (parts, common) = (Partition::Tree.split(&data, &[], 12, 0).unwrap(), vec![3, 11, 12, 30, 31]);
    let found = by(&experts(&model, parts.clone(), common.clone()), &data, Rule::Near, &POINTS);
    let of_rows = |rows: &[usize], x: &[f64]| {
        let said = model.posterior(F64, data.gather(rows).unwrap()).unwrap().predict(x).unwrap();
        (said.mean[0], said.variance[0])
    };
    let mut want = Marginals::default();
    for x in POINTS.chunks(2) {
        // The covariance falls with the distance in units of the lengthscales.
        let distance = |row: &usize| {
            let z = &data.x[2 * row..2 * row + 2];
            ((z[0] - x[0]) / 0.8).powi(2) + ((z[1] - x[1]) / 1.1).powi(2)
        };
        let nearest = |rows: &Vec<usize>| rows.iter().map(distance).fold(f64::INFINITY, f64::min);
        let mut order: Vec<&Vec<usize>> = parts.iter().collect();
        order.sort_by(|a, b| nearest(a).total_cmp(&nearest(b)));
        let (base, known) = of_rows(&common, x);
        let both = |rows: &&Vec<usize>| {
            let others = rows.iter().copied().filter(|row| !common.contains(row));
            of_rows(&common.iter().copied().chain(others).collect::<Vec<_>>(), x)
        };
        let mut chosen: Vec<(f64, f64)> = order[..8].iter().map(both).collect();
        chosen.sort_by(|a, b| a.1.total_cmp(&b.1));
        let share =
            |(at, (_, variance)): (usize, &(f64, f64))| if at == 0 { 1.0 } else { 0.5 * (known / variance).ln() };
        let shares: Vec<f64> = chosen.iter().enumerate().map(share).collect();
        let rest = 1.0 - shares.iter().sum::<f64>();
        let over = |f: fn(&(f64, f64)) -> f64| -> f64 {
            chosen.iter().zip(&shares).map(|(said, share)| share * f(said)).sum()
        };
        let precision = over(|(_, variance)| 1.0 / variance) + rest / known;
        want.mean.push((over(|(mean, variance)| mean / variance) + rest * base / known) / precision);
        want.variance.push(1.0 / precision);
    }
    check("near", &found, &want, 1e-8);
}

#[test]
fn a_constant_function_is_what_a_committee_assumes() {
    let data = data(24, 2);
    let model = gp("constant(0.7)", 2, 0.2);
    let exact = model.posterior(F64, data.clone()).unwrap().predict(&POINTS).unwrap();
    check("bcm", &by(&experts(&model, dealt(24, 4), vec![0]), &data, Rule::Bcm, &POINTS), &exact, 1e-8);
}

#[test]
fn far_from_all_rows_is_the_prior() {
    let data = data(24, 2);
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let some = experts(&model, dealt(24, 4), vec![0, 7, 13]);
    for rule in [Rule::Bcm, Rule::Rbcm, Rule::Grbcm, Rule::Near, Rule::Npae, Rule::Weights] {
        let far = by(&some, &data, rule, &[1e3, -1e3]);
        assert!(far.mean[0].abs() < 1e-12 && (far.variance[0] - 1.3).abs() < 1e-9, "{rule}: {far:?}");
    }
}

#[test]
fn twice_the_same_expert_says_what_it_says() {
    let half = data(15, 2);
    let twice = half.extended(&half).unwrap();
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let exact = model.posterior(F64, half).unwrap().predict(&POINTS).unwrap();
    let same = experts(&model, vec![(0..15).collect(), (15..30).collect()], vec![0]);
    // The kernel does not distinguish repeated rows, so the experts' errors are those of one expert, except for the
    // noise.
    let nested = by(&same, &twice, Rule::Npae, &POINTS);
    assert!(nested.variance.iter().zip(&exact.variance).all(|(two, one)| two <= one));
    for rule in [Rule::Gpoe, Rule::Nearest] {
        check(&rule.to_string(), &by(&same, &twice, rule, &POINTS), &exact, 1e-10);
    }
}

#[test]
fn golden_experts() {
    for case in golden("experts") {
        let numbers = |value: &Value| -> Vec<f64> {
            value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let matrix = |value: &Value| value.as_array().unwrap().iter().flat_map(&numbers).collect::<Vec<f64>>();
        let lengths: Vec<String> = numbers(&case["kernel"]["lengthscale"]).iter().map(f64::to_string).collect();
        let form = case["kernel"]["type"].as_str().unwrap();
        let kernel = format!("{} * {form}(lengthscale=[{}])", case["kernel"]["variance"], lengths.join(", "));
        let d = lengths.len();
        let model = gp(&kernel, d, case["noise"].as_f64().unwrap());
        let data = Observations::new(matrix(&case["X"]), d, numbers(&case["y"]), None).unwrap();
        let whole = |part: &Value| -> Vec<usize> {
            part.as_array().unwrap().iter().map(|row| row.as_u64().unwrap() as usize).collect()
        };
        let parts: Vec<Vec<usize>> = case["partition"].as_array().unwrap().iter().map(whole).collect();
        let model = experts(&model, parts.clone(), parts[0].clone());
        let names = [
            (Rule::Poe, "poe"),
            (Rule::Gpoe, "gpoe_uniform"),
            (Rule::GpoeEntropy, "gpoe_entropy"),
            (Rule::GpoeEntropyNormalised, "gpoe_entropy_normalised"),
            (Rule::Bcm, "bcm"),
            (Rule::Rbcm, "rbcm"),
            (Rule::Grbcm, "grbcm"),
            (Rule::Npae, "npae"),
        ];
        for (rule, name) in names {
            let want = &case["expected"]["latent"][name];
            let want = Marginals { mean: numbers(&want["mean"]), variance: numbers(&want["var"]), floored: 0 };
            check(name, &by(&model, &data, rule, &matrix(&case["Xs"])), &want, 1e-8);
        }
    }
}

#[test]
fn sparse_experts_with_all_rows_as_inducing_inputs_are_exact_ones() {
    let data = data(24, 2);
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let mut sparse = Sgpr::new(model.prior.kernel.clone(), &data.x, 2).unwrap();
    sparse.likelihood = model.likelihood.clone();
    let parts = dealt(24, 3);
    let exact = experts(&model, parts.clone(), parts[0].clone());
    let sparse = Experts::new(Shared::Sparse(sparse), Rule::Grbcm, parts.clone(), parts[0].clone()).unwrap();
    for rule in Rule::ALL {
        let (got, want) = (by(&sparse, &data, rule, &POINTS), by(&exact, &data, rule, &POINTS));
        check(&format!("{rule} of sparse experts"), &got, &want, 1e-4);
    }
}

#[test]
fn the_gradient_is_the_sum_of_the_experts() {
    let data = data(31, 2);
    let model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    let parts = Partition::Random.split(&data, &[], 4, 3).unwrap();
    let sum = fit::evaluate(&experts(&model, parts.clone(), vec![0]), F64, &batch(&data)).unwrap();
    let (mut loss, mut gradient) = (0.0, vec![0.0; sum.gradient.len()]);
    for rows in &parts {
        let own = fit::evaluate(&model, F64, &batch(&data.gather(rows).unwrap())).unwrap();
        loss += own.loss;
        gradient.iter_mut().zip(own.gradient).for_each(|(sum, own)| *sum += own);
    }
    assert!((sum.loss - loss).abs() < 1e-10 * loss.abs(), "{} {loss}", sum.loss);
    assert_close("gradient", &sum.gradient, &gradient, 1e-10);
}

fn batch(data: &Observations) -> cagey::models::Batch {
    data.batch(&Scope::new(F64).unwrap())
}

#[test]
fn every_row_is_one_experts() {
    let RowValues { mut x, d, y, auxiliary } = data(41, 2).into_values();
    // A site for every third row.
    (0..41).for_each(|row| x[2 * row + 1] = (row % 3) as f64);
    let data = Observations::new(x, d, y, auxiliary).unwrap();
    let names = ["x0".to_string(), "site".into()];
    for partition in [Partition::Random, Partition::Tree, Partition::Kmeans, Partition::Column("site".into())] {
        let parts = partition.split(&data, &names, 6, 1).unwrap();
        let mut all: Vec<usize> = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..41).collect::<Vec<_>>(), "{partition}");
        assert_eq!(parts, partition.split(&data, &names, 6, 1).unwrap(), "{partition}");
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        match partition {
            Partition::Random | Partition::Tree => assert!(sizes.iter().all(|size| [6, 7].contains(size)), "{sizes:?}"),
            Partition::Column(_) => assert_eq!(sizes, [14, 14, 13]),
            _ => assert!(parts.len() <= 6 && !sizes.contains(&0), "{sizes:?}"),
        }
        assert_eq!(partition.to_string().parse::<Partition>().unwrap(), partition);
    }
    for (partition, count, said) in [
        (Partition::Random, 42, "42 experts for 41 rows"),
        (Partition::Tree, 0, "0 experts for 41 rows"),
        (Partition::Column("sit".into()), 3, "did you mean `site`?"),
        (Partition::Column("x0".into()), 3, "make experts by one whose values have many rows"),
    ] {
        let error = partition.split(&data, &names, count, 0).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert!("slabs".parse::<Partition>().is_err() && "column=".parse::<Partition>().is_err());
}

#[test]
fn an_expert_that_fails_is_named() {
    let data = data(12, 2);
    let mut model = gp("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.2);
    model.find_mut("lengthscale").unwrap()[0].set_raw(&[f64::NAN, 0.0]).unwrap();
    let some = experts(&model, dealt(12, 3), vec![0]);
    let error = fit::evaluate(&some, F64, &batch(&data)).unwrap_err().to_string();
    assert!(error.contains("expert 1 of 3 (rows 1, 4, 7, …; 4 in all)"), "{error}");
    let error = some.condition(F64, data.gather(&[0, 1]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("the 12 that were shared out"), "{error}");
}
