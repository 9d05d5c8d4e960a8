//! Rules of aggregation compared with golden values, and with a dense oracle of exact experts.

use cagey::kernels::Kernel;
use cagey::models::experts::aggregation::{
    Aggregated, Augmented, Chunk, Covariances, Form, LocalPredictions, Record, Rule, WeightSystem, Weights, aggregate,
};
use cagey::scope::{Scope, to_f64};
use serde_json::Value;

use crate::common::{F64, assert_close, columns, flat, golden, kernel, noise};

/// A Gaussian process of some rows, with dense computations only.
struct Oracle {
    kernel: Kernel,
    d: usize,
    noise: f64,
}

#[test]
fn a_variance_that_is_no_number_stays_none() {
    for rule in [Rule::Poe, Rule::Gpoe, Rule::Bcm, Rule::Rbcm, Rule::Nearest] {
        let local = LocalPredictions { mean: &[0.3, 0.1, 0.2, 0.4], variance: &[0.5, f64::NAN, 0.4, f64::NAN] };
        let found = aggregate(rule, &Chunk::new(local, &[1.0, 1.0])).unwrap();
        assert!(found.variance[0].is_finite() && found.mean[0].is_finite(), "{rule}: {found:?}");
        assert!(found.variance[1].is_nan(), "{rule}: {found:?}");
    }
}

/// Rows with targets.
#[derive(Clone)]
struct Part {
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Oracle {
    fn new(text: &str, d: usize, noise: f64) -> Self {
        Self { kernel: Kernel::parse(text, d).unwrap(), d, noise }
    }

    fn cross(&self, a: &[f64], b: &[f64]) -> Vec<f64> {
        let scope = Scope::new(F64).unwrap();
        let matrix = |x: &[f64]| scope.matrix(x, x.len() / self.d, self.d);
        to_f64(self.kernel.cross(&scope, &matrix(a), &matrix(b)).unwrap()).unwrap()
    }

    /// Returns K̂⁻¹ B by elimination; B is row-major with `columns`.
    fn solve(&self, x: &[f64], b: &[f64], columns: usize) -> Vec<f64> {
        let n = x.len() / self.d;
        let mut a = self.cross(x, x);
        (0..n).for_each(|i| a[i * n + i] += self.noise);
        solve(a, b, columns)
    }

    fn prior(&self, x: &[f64]) -> Vec<f64> {
        x.chunks(self.d).map(|row| self.cross(row, row)[0]).collect()
    }

    /// w = K̂⁻¹ k(X, x*) `[n, t]`.
    fn weights(&self, part: &Part, points: &[f64]) -> Vec<f64> {
        self.solve(&part.x, &self.cross(&part.x, points), points.len() / self.d)
    }

    fn predict(&self, part: &Part, points: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (t, w, k) = (points.len() / self.d, self.weights(part, points), self.cross(&part.x, points));
        let sum = |at: usize, f: &dyn Fn(usize) -> f64| (0..part.y.len()).map(|r| w[r * t + at] * f(r)).sum::<f64>();
        let mean = (0..t).map(|at| sum(at, &|r| part.y[r])).collect();
        let prior = self.prior(points);
        (mean, (0..t).map(|at| prior[at] - sum(at, &|r| k[r * t + at])).collect())
    }

    fn predict_all(&self, parts: &[Part], points: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let all = parts.iter().map(|part| self.predict(part, points));
        let (means, variances): (Vec<_>, Vec<_>) = all.unzip();
        (means.concat(), variances.concat())
    }

    fn covariances(&self, parts: &[Part], points: &[f64]) -> Covariances {
        let t = points.len() / self.d;
        let mut found = Covariances::new(parts.len(), t);
        let w: Vec<Vec<f64>> = parts.iter().map(|part| self.weights(part, points)).collect();
        for (i, a) in parts.iter().enumerate() {
            found.add_with_f(i, &w[i], &self.cross(&a.x, points)).unwrap();
            for (j, b) in parts.iter().enumerate().skip(i) {
                // A row that two experts share has the same noise in both.
                let mut k = self.cross(&a.x, &b.x);
                let same = |r: usize, s: usize| a.x[r * self.d..][..self.d] == b.x[s * self.d..][..self.d];
                let n = b.y.len();
                for (r, s) in (0..a.y.len()).flat_map(|r| (0..n).map(move |s| (r, s))) {
                    k[r * n + s] += if same(r, s) { self.noise } else { 0.0 };
                }
                let product = multiply(&k, &w[j], n, t);
                // In two blocks of rows, as for a caller with little memory.
                let middle = (a.y.len() / 2) * t;
                found.add_among(i, j, &w[i][..middle], &product[..middle]).unwrap();
                found.add_among(i, j, &w[i][middle..], &product[middle..]).unwrap();
            }
        }
        found
    }

    /// The system of the weights over `rows`, and ⟨f_i, f_j⟩.
    fn system(&self, parts: &[Part], rows: &Part) -> (WeightSystem, Vec<f64>) {
        let m = parts.len();
        let alpha: Vec<Vec<f64>> = parts.iter().map(|part| self.solve(&part.x, &part.y, 1)).collect();
        let f = |i: usize, x: &[f64]| multiply(&self.cross(x, &parts[i].x), &alpha[i], parts[i].y.len(), 1);
        let inner = (0..m * m).map(|e| {
            let values = f(e % m, &parts[e / m].x);
            alpha[e / m].iter().zip(values).map(|(a, f)| a * f).sum()
        });
        let inner = inner.collect();
        let mut system = WeightSystem::new(m);
        let all: Vec<f64> = (0..m).flat_map(|i| f(i, &rows.x)).collect();
        system.add(&all, &rows.y).unwrap();
        (system, inner)
    }

    fn find(&self, rule: Rule, parts: &[Part], points: &[f64]) -> Aggregated {
        let (mean, variance) = self.predict_all(parts, points);
        let prior = self.prior(points);
        let covariances = self.covariances(parts, points);
        let (communication, augmented) = self.augmented(parts, points);
        let weights = rule.needs().weights.map(|form| {
            let all = joined(parts);
            let rows = if form.all_rows() {
                all
            } else {
                joined(&parts.iter().map(|part| first(part, self.d)).collect::<Vec<_>>())
            };
            let (system, inner) = self.system(parts, &rows);
            system.solve(form, &inner, self.noise).unwrap().beta
        });
        let chunk = Chunk {
            augmented: Some(Augmented { communication: local(&communication), experts: local(&augmented) }),
            covariances: Some(&covariances),
            weights: weights.as_deref(),
            ..Chunk::new(LocalPredictions { mean: &mean, variance: &variance }, &prior)
        };
        aggregate(rule, &chunk).unwrap()
    }

    /// The first part as the communication expert, alone and together with each other part.
    fn augmented(&self, parts: &[Part], points: &[f64]) -> (Predicted, Predicted) {
        let with = |other: &Part| joined(&[parts[0].clone(), other.clone()]);
        let augmented: Vec<Part> = parts[1..].iter().map(with).collect();
        (self.predict_all(&parts[..1], points), self.predict_all(&augmented, points))
    }
}

type Predicted = (Vec<f64>, Vec<f64>);

fn local(predicted: &Predicted) -> LocalPredictions<'_> {
    LocalPredictions { mean: &predicted.0, variance: &predicted.1 }
}

/// Returns A⁻¹ B by elimination with pivots.
fn solve(mut a: Vec<f64>, b: &[f64], columns: usize) -> Vec<f64> {
    let (n, mut b) = (b.len() / columns, b.to_vec());
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i * n + k].abs().total_cmp(&a[j * n + k].abs())).unwrap();
        (0..n).for_each(|c| a.swap(k * n + c, pivot * n + c));
        (0..columns).for_each(|c| b.swap(k * columns + c, pivot * columns + c));
        for i in (0..n).filter(|i| *i != k) {
            let factor = a[i * n + k] / a[k * n + k];
            (k..n).for_each(|c| a[i * n + c] -= factor * a[k * n + c]);
            (0..columns).for_each(|c| b[i * columns + c] -= factor * b[k * columns + c]);
        }
    }
    (0..n * columns).map(|e| b[e] / a[(e / columns) * (n + 1)]).collect()
}

/// The product A B of row-major matrices; `inner` is the number of A's columns.
fn multiply(a: &[f64], b: &[f64], inner: usize, columns: usize) -> Vec<f64> {
    let entry = |row: &[f64], c: usize| row.iter().enumerate().map(|(r, a)| a * b[r * columns + c]).sum();
    a.chunks(inner).flat_map(|row| (0..columns).map(move |c| entry(row, c))).collect()
}

fn joined(parts: &[Part]) -> Part {
    Part {
        x: parts.iter().flat_map(|part| part.x.clone()).collect(),
        y: parts.iter().flat_map(|p| p.y.clone()).collect(),
    }
}

fn first(part: &Part, d: usize) -> Part {
    Part { x: part.x[..d].to_vec(), y: part.y[..1].to_vec() }
}

/// Parts with `sizes` rows of a noisy wave.
fn parts(sizes: &[usize], d: usize) -> Vec<Part> {
    let mut state = 3;
    let mut part = |n: &usize| {
        let x: Vec<f64> = (0..n * d).map(|_| 4.0 * noise(&mut state)).collect();
        let y = x.chunks(d).map(|row| row[0].sin() + row[1..].iter().sum::<f64>() + 0.3 * noise(&mut state)).collect();
        Part { x, y }
    };
    sizes.iter().map(&mut part).collect()
}

const POINTS: [f64; 8] = [0.1, -0.4, 1.2, 0.7, -1.5, 0.3, 0.0, 1.9];

fn golden_rule(name: &str) -> Option<Rule> {
    let name = name.replace('_', "-");
    match name.as_str() {
        "gpoe-uniform" => Some(Rule::Gpoe),
        name => Rule::ALL.into_iter().find(|rule| rule.name() == name),
    }
}

/// The golden experts, built from the kernels alone.
fn golden_parts(case: &Value) -> (Oracle, Vec<Part>) {
    let d = columns(&case["X"]);
    let oracle = Oracle { kernel: kernel(&case["kernel"], d), d, noise: flat(&case["noise"])[0] };
    let (x, y, mean) = (flat(&case["X"]), flat(&case["y"]), flat(&case["mean"])[0]);
    let part = |rows: &Value| {
        let rows: Vec<usize> = flat(rows).iter().map(|row| *row as usize).collect();
        let x = rows.iter().flat_map(|row| &x[row * d..][..d]).copied().collect();
        Part { x, y: rows.iter().map(|row| y[*row] - mean).collect() }
    };
    (oracle, case["partition"].as_array().unwrap().iter().map(part).collect())
}

#[test]
fn golden_experts() {
    for case in golden("experts") {
        let name = case["case"].as_str().unwrap();
        let (oracle, parts) = golden_parts(&case);
        let (points, mean) = (flat(&case["Xs"]), flat(&case["mean"])[0]);
        let expected = &case["expected"];
        let own = oracle.predict_all(&parts, &points);
        let (communication, augmented) = oracle.augmented(&parts, &points);
        let shifted = |means: &[f64]| means.iter().map(|m| m + mean).collect::<Vec<_>>();
        assert_close(name, &shifted(&own.0), &flat(&expected["expert_mean"]), 1e-8);
        assert_close(name, &own.1, &flat(&expected["expert_var"]), 1e-8);
        assert_close(name, &shifted(&augmented.0), &flat(&expected["augmented_mean"]), 1e-8);
        assert_close(name, &augmented.1, &flat(&expected["augmented_var"]), 1e-8);
        let covariances = oracle.covariances(&parts, &points);
        let mut seen = 0;
        for (kind, noise) in [("latent", 0.0), ("noisy", oracle.noise)] {
            let plus = |predicted: &Predicted| (predicted.0.clone(), predicted.1.iter().map(|v| v + noise).collect());
            let (own, communication, augmented) = (plus(&own), plus(&communication), plus(&augmented));
            let (f, y) = (oracle.prior(&points), oracle.prior(&points).iter().map(|v| v + noise).collect::<Vec<_>>());
            for (rule, want) in expected[kind].as_object().unwrap() {
                let rule = golden_rule(rule).unwrap_or_else(|| panic!("no rule {rule}"));
                // The nested predictor predicts f; its noise is added afterwards.
                let npae = rule == Rule::Npae;
                let chunk = Chunk {
                    augmented: Some(Augmented { communication: local(&communication), experts: local(&augmented) }),
                    covariances: Some(&covariances),
                    ..Chunk::new(local(&own), if npae { &f } else { &y })
                };
                let mut found = aggregate(rule, &chunk).unwrap();
                found.variance.iter_mut().for_each(|v| *v += if npae { noise } else { 0.0 });
                assert_close(&format!("{name} {kind} {rule} mean"), &shifted(&found.mean), &flat(&want["mean"]), 1e-8);
                assert_close(&format!("{name} {kind} {rule} variance"), &found.variance, &flat(&want["var"]), 1e-8);
                seen += 1;
            }
        }
        assert_eq!(seen, 16, "{name}");
    }
}

fn same(what: &str, found: &Aggregated, want: &Predicted, tolerance: f64) {
    assert_close(&format!("{what}: means"), &found.mean, &want.0, tolerance);
    assert_close(&format!("{what}: variances"), &found.variance, &want.1, tolerance);
}

#[test]
fn one_expert_is_the_exact_gp() {
    let oracle = Oracle::new("1.3 * matern32(lengthscale=[0.8, 1.1])", 2, 0.1);
    let parts = parts(&[14], 2);
    let exact = oracle.predict(&parts[0], &POINTS);
    for rule in Rule::ALL {
        same(rule.name(), &oracle.find(rule, &parts, &POINTS), &exact, 1e-10);
    }
}

#[test]
fn one_row_an_expert_nested_is_the_exact_gp() {
    let oracle = Oracle::new("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.05);
    let parts = parts(&[1; 20], 2);
    let exact = oracle.predict(&joined(&parts), &POINTS);
    same("npae", &oracle.find(Rule::Npae, &parts, &POINTS), &exact, 1e-10);
}

#[test]
fn two_experts_with_a_communication_expert_are_the_exact_gp() {
    let oracle = Oracle::new("1.3 * matern52(lengthscale=[0.8, 1.1])", 2, 0.1);
    let parts = parts(&[9, 12], 2);
    let exact = oracle.predict(&joined(&parts), &POINTS);
    same("grbcm", &oracle.find(Rule::Grbcm, &parts, &POINTS), &exact, 1e-10);
}

#[test]
fn a_committee_is_exact_where_all_experts_know_one_number() {
    let oracle = Oracle::new("1.7 * constant", 2, 0.3);
    let parts = parts(&[5, 8, 3], 2);
    let exact = oracle.predict(&joined(&parts), &POINTS);
    same("bcm", &oracle.find(Rule::Bcm, &parts, &POINTS), &exact, 1e-10);
}

#[test]
fn the_same_expert_twice_is_that_expert() {
    let oracle = Oracle::new("1.3 * matern32(lengthscale=[0.8, 1.1])", 2, 0.1);
    let one = parts(&[12], 2);
    let twice = [one[0].clone(), one[0].clone()];
    let exact = oracle.predict(&one[0], &POINTS);
    let nested = oracle.find(Rule::Npae, &twice, &POINTS);
    same("npae", &nested, &exact, 1e-9);
    assert_eq!(nested.record.dependent, POINTS.len() / 2);
    same("weights-noise", &oracle.find(Rule::WeightsNoise, &twice, &POINTS), &exact, 1e-9);
    // Two experts over the same rows share the weight of a single one: the weight that fits best, not 1.
    let beta = |parts: &[Part]| {
        let (system, inner) = oracle.system(parts, &one[0]);
        system.solve(Form::Normal, &inner, oracle.noise).unwrap().beta
    };
    let (own, shared) = (beta(&one), beta(&twice));
    assert_close("shares", &shared, &[0.5 * own[0]; 2], 1e-9);
    assert!((own[0] - 1.0).abs() < 0.1, "{own:?}");
}

#[test]
fn far_from_the_data_committees_are_the_prior() {
    let oracle = Oracle::new("1.3 * rbf(lengthscale=[0.8, 1.1])", 2, 0.1);
    let parts = parts(&[7, 9, 5], 2);
    for far in [[8.0, -7.0], [1e3, 1e3]] {
        for rule in [Rule::Bcm, Rule::Rbcm, Rule::Grbcm, Rule::Npae, Rule::Nearest] {
            let found = oracle.find(rule, &parts, &far);
            assert!(found.mean[0].abs() < 1e-9 && (found.variance[0] - 1.3).abs() < 1e-9, "{rule}: {found:?}");
        }
    }
    let far = oracle.find(Rule::GpoeEntropy, &parts, &[1e3, 1e3]);
    assert_eq!((far.mean[0], far.variance[0], far.record.prior), (0.0, 1.3, 1));
    let said = far.record.lines();
    assert!(said.len() == 1 && said[0].contains("prior was taken"), "{said:?}");
}

#[test]
fn the_normal_equation_minimises_what_it_says() {
    let oracle = Oracle::new("1.3 * matern32(lengthscale=[0.8, 1.1])", 2, 0.1);
    let parts = parts(&[7, 9, 5], 2);
    let all = joined(&parts);
    let (system, inner) = oracle.system(&parts, &all);
    let weights = system.solve(Form::Normal, &inner, oracle.noise).unwrap();
    assert!(weights.warning().is_none() && weights.rank == 3, "{weights:?}");
    let a = system.matrix(&inner, oracle.noise);
    let loss = |beta: &[f64]| {
        let quadratic: f64 = multiply(&a, beta, 3, 1).iter().zip(beta).map(|(a, b)| a * b).sum();
        quadratic - 2.0 * beta.iter().zip(&system.moments).map(|(b, m)| b * m).sum::<f64>()
    };
    for i in 0..3 {
        for step in [-1e-3, 1e-3] {
            let mut moved = weights.beta.clone();
            moved[i] += step;
            assert!(loss(&moved) > loss(&weights.beta));
        }
    }
    // Systems of parts of the rows add up.
    let mut sums = WeightSystem::new(3);
    for part in &parts {
        sums.join(&oracle.system(&parts, part).0).unwrap();
    }
    assert_close("sums over parts", &sums.products, &system.products, 1e-12);
    assert_close("sums over parts", &sums.moments, &system.moments, 1e-12);
}

/// For any β, the weighted mean is a linear predictor vᵀy with error k** − 2vᵀk + vᵀK̂v under the prior.
#[test]
fn the_error_of_weights_is_that_of_a_linear_predictor() {
    let oracle = Oracle::new("1.3 * matern32(lengthscale=[0.8, 1.1])", 2, 0.1);
    let parts = parts(&[7, 9, 5], 2);
    let (all, beta, t) = (joined(&parts), [0.7, -0.2, 0.4], POINTS.len() / 2);
    let own = oracle.predict_all(&parts, &POINTS);
    let (covariances, prior) = (oracle.covariances(&parts, &POINTS), oracle.prior(&POINTS));
    let chunk = Chunk { covariances: Some(&covariances), weights: Some(&beta), ..Chunk::new(local(&own), &prior) };
    let found = aggregate(Rule::Weights, &chunk).unwrap();
    let v: Vec<f64> = parts
        .iter()
        .zip(beta)
        .flat_map(|(part, beta)| oracle.weights(part, &POINTS).into_iter().map(move |w| beta * w))
        .collect();
    let (k, mut gram) = (oracle.cross(&all.x, &POINTS), oracle.cross(&all.x, &all.x));
    let n = all.y.len();
    (0..n).for_each(|i| gram[i * n + i] += oracle.noise);
    let product = multiply(&gram, &v, n, t);
    let sum = |at: usize, f: &[f64], g: &[f64]| (0..n).map(|r| f[r * t + at] * g[r * t + at]).sum::<f64>();
    let want = (0..t).map(|at| prior[at] - 2.0 * sum(at, &v, &k) + sum(at, &v, &product)).collect();
    let mean = (0..t).map(|at| (0..n).map(|r| v[r * t + at] * all.y[r]).sum()).collect();
    same("weights", &found, &(mean, want), 1e-10);
    // The error is never below the variance of the exact model of all data.
    let exact = oracle.predict(&all, &POINTS);
    assert!(found.variance.iter().zip(&exact.1).all(|(found, exact)| found > exact));
}

#[test]
fn what_explodes_is_said() {
    // Experts with one row each, nearly the same, over few rows: nothing separates them.
    let oracle = Oracle::new("rbf(lengthscale=2.0)", 2, 1e-4);
    let parts = parts(&[3; 12], 2);
    let rows = joined(&parts.iter().map(|part| first(part, 2)).collect::<Vec<_>>());
    let (system, inner) = oracle.system(&parts, &rows);
    let weights = system.solve(Form::Noise, &inner, oracle.noise).unwrap();
    let said = weights.warning().expect("a warning");
    assert!(weights.largest() > 2.0 && said.contains("condition number"), "{said}");
    let silent = Weights { beta: vec![1.9, -1.9], condition: 1e7, rank: 2 };
    assert!(silent.warning().is_none());
    assert!(Weights { condition: 1e8, ..silent }.warning().is_some());
    // If no expert knows anything, there is no weight, and no panic.
    let nothing = WeightSystem::new(2).solve(Form::Normal, &[0.0; 4], 0.1).unwrap();
    assert_eq!(nothing.beta, [0.0, 0.0]);
    assert!(WeightSystem::new(2).solve(Form::Normal, &[f64::NAN; 4], 0.1).is_err());
}

#[test]
fn variances_that_cannot_be_are_clipped_and_counted() {
    let mean = [1.0, -1.0];
    for (variance, clipped) in [([0.5, 1.2], 1), ([0.5, 1.0 + 1e-12], 0), ([-0.1, 0.4], 1)] {
        for rule in [Rule::Poe, Rule::Gpoe, Rule::Bcm, Rule::Rbcm, Rule::GpoeEntropyNormalised] {
            let chunk = Chunk::new(LocalPredictions { mean: &mean, variance: &variance }, &[1.0]);
            let found = aggregate(rule, &chunk).unwrap();
            assert_eq!(found.record.clipped, clipped, "{rule} {variance:?}");
            assert!(found.variance[0] > 0.0 && found.mean[0].is_finite(), "{rule} {variance:?}");
        }
    }
    let mut sum = Record { rows: 3, floored: 1, ..Record::default() };
    sum.add(Record { rows: 2, floored: 1, ..Record::default() });
    assert_eq!((sum.rows, sum.floored, sum.lines().len()), (5, 2, 1));
    // NaN stays NaN.
    let chunk = Chunk::new(LocalPredictions { mean: &[f64::NAN], variance: &[f64::NAN] }, &[1.0]);
    assert!(aggregate(Rule::Rbcm, &chunk).unwrap().mean[0].is_nan());
}

#[test]
fn what_is_missing_or_of_other_lengths_is_an_error() {
    let (mean, variance, prior) = ([0.0; 4], [0.5; 4], [1.0; 2]);
    let chunk = Chunk::new(LocalPredictions { mean: &mean, variance: &variance }, &prior);
    for rule in Rule::ALL {
        let needs = rule.needs();
        let more = needs.augmented || needs.covariances || needs.weights.is_some();
        assert_eq!(aggregate(rule, &chunk).is_err(), more, "{rule}");
        let short = Chunk::new(LocalPredictions { mean: &mean[..3], variance: &variance[..3] }, &prior);
        assert!(aggregate(rule, &short).is_err(), "{rule}");
        let none = Chunk::new(LocalPredictions { mean: &[], variance: &[] }, &[]);
        assert!(aggregate(rule, &none).is_err() || aggregate(rule, &none).unwrap().mean.is_empty(), "{rule}");
        let name = serde_json::to_value(rule).unwrap();
        assert_eq!(name, rule.name());
    }
    let other = Covariances::new(3, 2);
    assert!(aggregate(Rule::Npae, &Chunk { covariances: Some(&other), ..chunk }).is_err());
    let mut covariances = Covariances::new(2, 2);
    assert!(covariances.add_with_f(2, &[0.0; 2], &[0.0; 2]).is_err());
    assert!(covariances.add_among(0, 1, &[0.0; 2], &[0.0; 4]).is_err());
    assert_eq!(Covariances::bytes(2, 2), 8 * 12);
}
