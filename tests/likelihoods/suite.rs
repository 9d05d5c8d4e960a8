//! `check_likelihood`: what must hold for each likelihood.

use std::sync::OnceLock;

use burn::tensor::Tensor;
use cagey::device::Compute;
use cagey::likelihoods::quadrature::hermite;
use cagey::likelihoods::{Auxiliary, Density, Likelihood, Marginal, Root, Row, Slopes, Support};
use cagey::params::{Parameter, Parameters};
use cagey::scope::{Scope, to_f64};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use crate::{Case, cases};

/// Latent values `[L]` to test: the first one varies, the others are fixed.
fn latents(count: usize, first: f64) -> Vec<f64> {
    (0..count).map(|l| if l == 0 { first } else { 0.6 * l as f64 - 0.5 }).collect()
}

fn name(case: &Case, row: Row) -> String {
    format!("{} at y = {}, auxiliary = {}", case.likelihood.text(), row.y, row.auxiliary)
}

fn close(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{what}: got {got}, want {want}");
}

fn slopes(density: &dyn Density, row: Row, f: &[f64]) -> (f64, Vec<f64>, Vec<f64>) {
    let l = f.len();
    let (mut gradient, mut hessian) = (vec![0.0; l], vec![0.0; l * l]);
    let value = density.derivatives(row, f, &mut gradient, &mut hessian);
    (value, gradient, hessian)
}

fn moved(f: &[f64], l: usize, step: f64) -> Vec<f64> {
    let mut f = f.to_vec();
    f[l] += step;
    f
}

/// The checks that a user's likelihood can be put to.
#[test]
fn checks_pass() {
    for case in cases() {
        cagey::check::likelihood(&*case.likelihood, &case.rows).unwrap();
    }
}

#[test]
fn derivatives_agree_with_differences() {
    for case in cases() {
        let density = case.likelihood.density();
        for &row in &case.rows {
            for first in [-3.0, -1.0, 0.0, 0.7, 2.5] {
                let f = latents(case.likelihood.latents(), first);
                let (value, gradient, hessian) = slopes(&*density, row, &f);
                let what = format!("{}, f = {f:?}", name(&case, row));
                close(&what, value, density.log_density(row, &f), 1e-14);
                let h = 1e-5;
                for l in 0..f.len() {
                    let (up, down) = (moved(&f, l, h), moved(&f, l, -h));
                    let slope = (density.log_density(row, &up) - density.log_density(row, &down)) / (2.0 * h);
                    close(&format!("{what}: gradient {l}"), gradient[l], slope, 1e-8);
                    let (up, down) = (slopes(&*density, row, &up).1, slopes(&*density, row, &down).1);
                    for k in 0..f.len() {
                        let bend = (up[k] - down[k]) / (2.0 * h);
                        close(&format!("{what}: Hessian {l}, {k}"), hessian[l * f.len() + k], bend, 1e-8);
                    }
                }
            }
        }
    }
}

/// The value of `g` after the likelihood's own internal value at `place` has moved by `step`.
fn with_own(likelihood: &dyn Likelihood, place: usize, step: f64, g: &dyn Fn(&dyn Density) -> f64) -> f64 {
    let mut likelihood = likelihood.boxed();
    let mut at = 0;
    for (_, parameter) in likelihood.parameters_mut() {
        let mut values = parameter.internal();
        if (at..at + values.len()).contains(&place) {
            values[place - at] += step;
            parameter.set_internal(&values).unwrap();
        }
        at += parameter.len();
    }
    g(&*likelihood.density())
}

fn own_count(likelihood: &dyn Likelihood) -> usize {
    likelihood.parameters().iter().map(|(_, p)| p.len()).sum()
}

#[test]
fn own_gradients_agree_with_differences() {
    for case in cases() {
        let own = own_count(&*case.likelihood);
        for &row in &case.rows {
            for first in [-2.0, 0.3, 1.5] {
                let f = latents(case.likelihood.latents(), first);
                let mut gradient = vec![0.0; own];
                case.likelihood.density().add_own_gradient(row, &f, 2.0, &mut gradient);
                for (k, slope) in gradient.iter().enumerate() {
                    let at = |step| with_own(&*case.likelihood, k, step, &|d| d.log_density(row, &f));
                    let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                    close(&format!("{}: own parameter {k}", name(&case, row)), 0.5 * slope, difference, 1e-7);
                }
            }
        }
    }
}

fn expectation(density: &dyn Density, row: Row, mean: &[f64], variance: &[f64], own: usize) -> (f64, Vec<f64>) {
    let l = mean.len();
    let (mut a, mut b, mut c) = (vec![0.0; l], vec![0.0; l], vec![0.0; own]);
    let slopes = Slopes { mean: &mut a, variance: &mut b, own: &mut c };
    let value = density.expectation(row, Marginal { mean, variance }, slopes);
    (value, [a, b, c].concat())
}

/// `E[g(f)]` by a product of Gauss–Hermite rules.
fn product_rule(mean: &[f64], variance: &[f64], g: &dyn Fn(&[f64]) -> f64) -> f64 {
    static RULES: OnceLock<[Vec<(f64, f64)>; 2]> = OnceLock::new();
    let rules = RULES.get_or_init(|| [hermite(100), hermite(40)]);
    let rule = &rules[usize::from(mean.len() > 2)];
    average(rule, mean, variance, g)
}

/// `E[g(f)]` by the trapezoidal rule, which also resolves sharp turns; for three dimensions by Gauss–Hermite rules.
fn fine_rule(mean: &[f64], variance: &[f64], g: &dyn Fn(&[f64]) -> f64) -> f64 {
    if mean.len() > 2 {
        return product_rule(mean, variance, g);
    }
    let steps = if mean.len() == 1 { 4000 } else { 400 };
    let step = 18.0 / f64::from(steps);
    let at = |k: i32| step * f64::from(k) - 9.0;
    let density = |z: f64| step * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let rule: Vec<(f64, f64)> = (0..=steps).map(|k| (at(k), density(at(k)))).collect();
    average(&rule, mean, variance, g)
}

fn average(rule: &[(f64, f64)], mean: &[f64], variance: &[f64], g: &dyn Fn(&[f64]) -> f64) -> f64 {
    let mut total = 0.0;
    for mut code in 0..rule.len().pow(mean.len() as u32) {
        let (mut f, mut weight) = (mean.to_vec(), 1.0);
        for (f, v) in f.iter_mut().zip(variance) {
            let (z, w) = rule[code % rule.len()];
            code /= rule.len();
            *f += v.sqrt() * z;
            weight *= w;
        }
        total += weight * g(&f);
    }
    total
}

#[test]
fn expected_log_densities_agree_with_many_nodes() {
    for case in cases() {
        let density = case.likelihood.density();
        let count = case.likelihood.latents();
        for &row in &case.rows {
            for first in [-1.5, 0.3, 2.0] {
                for v in [0.0, 1e-12, 0.01, 0.3, 1.0] {
                    let (mean, variance) = (latents(count, first), vec![v; count]);
                    let got = expectation(&*density, row, &mean, &variance, own_count(&*case.likelihood)).0;
                    let want = product_rule(&mean, &variance, &|f| density.log_density(row, f));
                    let what = format!("{}: expectation at {first}, {v}", name(&case, row));
                    close(&what, got, want, case.quadrature.max(1e-11));
                }
            }
        }
    }
}

#[test]
fn slopes_of_expectations_agree_with_differences() {
    for case in cases() {
        let density = case.likelihood.density();
        let (count, own) = (case.likelihood.latents(), own_count(&*case.likelihood));
        for &row in &case.rows {
            for (first, v) in [(-1.5, 0.01), (0.3, 0.5), (1.0, 1.5)] {
                let (mean, variance) = (latents(count, first), vec![v; count]);
                let got = expectation(&*density, row, &mean, &variance, own).1;
                let h = 1e-5;
                for l in 0..count {
                    let in_mean = |step| expectation(&*density, row, &moved(&mean, l, step), &variance, own).0;
                    let in_variance = |step| expectation(&*density, row, &mean, &moved(&variance, l, step), own).0;
                    let what = format!("{}, latent {l} at {first}, {v}", name(&case, row));
                    close(&format!("{what}: mean"), got[l], (in_mean(h) - in_mean(-h)) / (2.0 * h), 2e-8);
                    let difference = (in_variance(h) - in_variance(-h)) / (2.0 * h);
                    close(&format!("{what}: variance"), got[count + l], difference, 1e-7);
                }
                for k in 0..own {
                    let at =
                        |step| with_own(&*case.likelihood, k, step, &|d| expectation(d, row, &mean, &variance, own).0);
                    let difference = (at(h) - at(-h)) / (2.0 * h);
                    close(&format!("{}: own {k}", name(&case, row)), got[2 * count + k], difference, 1e-7);
                }
            }
        }
    }
}

#[test]
fn slopes_stay_exact_as_the_variance_vanishes() {
    for case in cases() {
        let density = case.likelihood.density();
        let (count, own) = (case.likelihood.latents(), own_count(&*case.likelihood));
        for &row in &case.rows {
            let mean = latents(count, 0.4);
            let (_, gradient, hessian) = slopes(&*density, row, &mean);
            for v in [0.0, 1e-14, 1e-9] {
                let got = expectation(&*density, row, &mean, &vec![v; count], own).1;
                for l in 0..count {
                    close(&format!("{}: mean at variance {v}", name(&case, row)), got[l], gradient[l], 1e-6);
                    let bend = 0.5 * hessian[l * count + l];
                    close(&format!("{}: variance at {v}", name(&case, row)), got[count + l], bend, 1e-6);
                }
            }
        }
    }
}

struct Held(Box<dyn Likelihood>);

impl Parameters for Held {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        self.0.parameters()
    }
    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        self.0.parameters_mut()
    }
}

#[test]
fn tensors_carry_the_same_values_and_slopes() {
    for case in cases() {
        let scope = Scope::training(Compute::default()).unwrap();
        let (count, b) = (case.likelihood.latents(), case.rows.len());
        let own = own_count(&*case.likelihood);
        let place = |l: usize, i: usize| 0.3 * l as f64 - 0.7 + 0.5 * i as f64;
        let means: Vec<f64> = (0..count * b).map(|k| place(k / b, k % b)).collect();
        let variances: Vec<f64> = (0..count * b).map(|k| 0.2 + 0.1 * (k % 3) as f64).collect();
        let [mean, variance] = [&means, &variances].map(|values| scope.matrix(values, count, b).require_grad());
        let y = scope.vector(&case.rows.iter().map(|row| row.y).collect::<Vec<_>>());
        let auxiliary = scope.vector(&case.rows.iter().map(|row| row.auxiliary).collect::<Vec<_>>());
        let auxiliary = (case.likelihood.auxiliary() != Auxiliary::None).then_some(&auxiliary);
        let held = Held(case.likelihood.boxed());
        let value = held.0.expected_log_density(&scope, mean.clone(), variance.clone(), &y, auxiliary).unwrap();
        let weights: Vec<f64> = (0..b).map(|i| 1.0 + i as f64).collect();
        let loss: Tensor<1> = (value.clone() * scope.vector(&weights)).sum();
        let gradients = loss.clone().backward();
        let in_mean = to_f64(mean.grad(&gradients).unwrap()).unwrap();
        let in_variance = to_f64(variance.grad(&gradients).unwrap()).unwrap();
        let values = to_f64(value).unwrap();
        let mut in_own = vec![0.0; own];
        for (i, &row) in case.rows.iter().enumerate() {
            let column = |all: &[f64]| (0..count).map(|l| all[l * b + i]).collect::<Vec<_>>();
            let (value, slopes) = expectation(&*held.0.density(), row, &column(&means), &column(&variances), own);
            let what = name(&case, row);
            close(&what, values[i], value, 1e-14);
            for l in 0..count {
                close(&what, in_mean[l * b + i], weights[i] * slopes[l], 1e-13);
                close(&what, in_variance[l * b + i], weights[i] * slopes[count + l], 1e-13);
            }
            in_own.iter_mut().zip(&slopes[2 * count..]).for_each(|(sum, slope)| *sum += weights[i] * slope);
        }
        let again = held.0.expected_log_density(&scope, mean.detach(), variance.detach(), &y, auxiliary).unwrap();
        let raw = scope.gradient((again * scope.vector(&weights)).sum(), &held).unwrap().1;
        let chain: Vec<f64> = held.parameters().iter().flat_map(|(_, p)| p.internal_slope()).collect();
        for ((got, slope), chain) in raw.iter().zip(&in_own).zip(chain) {
            close(&case.likelihood.text(), *got, slope * chain, 1e-12);
        }
    }
}

#[test]
fn tails_are_finite_with_the_right_slopes() {
    for case in cases() {
        let density = case.likelihood.density();
        let count = case.likelihood.latents();
        for &row in &case.rows {
            for far in [-50.0, -20.0, 20.0, 50.0] {
                for l in 0..count {
                    let mut f = latents(count, 0.3);
                    f[l] = far;
                    let (value, gradient, hessian) = slopes(&*density, row, &f);
                    let what = format!("{}: f[{l}] = {far}", name(&case, row));
                    let all = [&[value][..], &gradient, &hessian].concat();
                    assert!(all.iter().all(|v| v.is_finite()), "{what}: {all:?}");
                    let h = 1e-4;
                    let (up, down) = (moved(&f, l, h), moved(&f, l, -h));
                    let difference = (density.log_density(row, &up) - density.log_density(row, &down)) / (2.0 * h);
                    // Rounding of the value and the third derivative limit the accuracy of the difference.
                    let slack = 1e-15 * value.abs() / h + 1e-7 * difference.abs();
                    assert!(
                        (gradient[l] - difference).abs() <= slack.max(1e-11),
                        "{what}: {} {difference}",
                        gradient[l]
                    );
                    let bend = (slopes(&*density, row, &up).1[l] - slopes(&*density, row, &down).1[l]) / (2.0 * h);
                    let slack = 1e-15 * gradient[l].abs() / h + 1e-7 * bend.abs();
                    let got = hessian[l * count + l];
                    assert!((got - bend).abs() <= slack.max(1e-11), "{what}: {got} {bend}");
                    let mean = density.mean(&f, row.auxiliary);
                    assert!(mean.is_finite() && density.variance(&f, row.auxiliary) >= 0.0, "{what}: mean {mean}");
                    assert!((0.0..=1.0).contains(&density.cdf(row, &f)), "{what}: cdf");
                }
            }
        }
    }
}

/// Sums or integrates `g` over the support, around `centre` at the given scale.
fn over_support(support: Support, centre: f64, scale: f64, g: &dyn Fn(f64) -> f64) -> f64 {
    let step = 0.01;
    let trapezoid = |half: f64, y: &dyn Fn(f64) -> (f64, f64)| -> f64 {
        let n = (half / step) as i64;
        let at = |k: i64| {
            let (y, slope) = y(step * k as f64);
            step * slope * g(y)
        };
        (-n..=n).map(at).filter(|v| v.is_finite()).sum()
    };
    match support {
        Support::Classes(classes) => (0..classes).map(|c| g(c as f64)).sum(),
        Support::Counts(Some(last)) => (0..=last as usize).map(|c| g(c as f64)).sum(),
        Support::Counts(None) => (0..(centre + 60.0 * scale) as usize + 50).map(|c| g(c as f64)).sum(),
        Support::Real => trapezoid(16.0, &|t| (centre + scale * t.sinh(), scale * t.cosh())),
        Support::Positive => trapezoid(40.0, &|t| (t.exp(), t.exp())),
        Support::Unit => trapezoid(34.0, &|t| {
            let y = 1.0 / (1.0 + (-t).exp());
            (y, y / (1.0 + t.exp()))
        }),
        other => panic!("{other:?}"),
    }
}

#[test]
fn densities_have_the_moments_they_say() {
    for case in cases() {
        let density = case.likelihood.density();
        let auxiliary = case.rows[1].auxiliary;
        for first in [-0.8, 0.0, 1.2] {
            let f = latents(case.likelihood.latents(), first);
            let (mean, variance) = (density.mean(&f, auxiliary), density.variance(&f, auxiliary));
            let p = |y: f64| density.log_density(Row { y, auxiliary }, &f).exp();
            let integral = |g: &dyn Fn(f64) -> f64| over_support(density.support(auxiliary), mean, variance.sqrt(), g);
            let what = format!("{} at f = {f:?}", case.likelihood.text());
            close(&format!("{what}: total"), integral(&p), 1.0, 1e-7);
            close(&format!("{what}: mean"), integral(&|y| y * p(y)), mean, 1e-6);
            let second = integral(&|y| (y - mean).powi(2) * p(y));
            // The tail of Student's distribution is cut off.
            let slack = if case.likelihood.text().starts_with("student") { 2e-3 } else { 1e-6 };
            close(&format!("{what}: variance"), second, variance, slack);
            for &row in &case.rows {
                let row = Row { auxiliary, ..row };
                if !matches!(density.support(auxiliary), Support::Counts(_) | Support::Classes(_)) {
                    let h = 1e-5 * row.y.abs().min(1.0);
                    let at = |y| density.cdf(Row { y, auxiliary }, &f);
                    let slope = (at(row.y + h) - at(row.y - h)) / (2.0 * h);
                    close(&format!("{what}: slope of the cdf at {}", row.y), slope, p(row.y), 1e-5);
                } else if row.y <= 30.0 && density.support(auxiliary) != Support::Counts(Some(1.0)) {
                    let last = if let Support::Counts(Some(last)) = density.support(auxiliary) { last } else { 30.0 };
                    let below: f64 = (0..=row.y.min(last) as usize).map(|y| p(y as f64)).sum();
                    close(&format!("{what}: cdf at {}", row.y), density.cdf(row, &f), below, 1e-10);
                }
            }
        }
    }
}

#[test]
fn predictions_are_the_averages_of_densities() {
    for case in cases() {
        let density = case.likelihood.density();
        let (count, auxiliary) = (case.likelihood.latents(), case.rows[1].auxiliary);
        for (first, v) in [(0.2, 0.0), (0.4, 0.3), (-0.3, 1.5)] {
            let (mean, variance) = (latents(count, first), vec![v; count]);
            let prediction = case.likelihood.predict(&mean, &variance, Some(auxiliary)).unwrap();
            let average = |g: &dyn Fn(&[f64]) -> f64| fine_rule(&mean, &variance, g);
            let what = format!("{} at {mean:?}, {v}", case.likelihood.text());
            let centre = average(&|f| density.mean(f, auxiliary));
            let spread = average(&|f| density.variance(f, auxiliary) + (density.mean(f, auxiliary) - centre).powi(2));
            let slack = if case.likelihood.text().contains("softmax") { 1e-6 } else { 1e-8 };
            close(&format!("{what}: mean"), prediction.mean(), centre, slack);
            close(&format!("{what}: variance"), prediction.variance(), spread, 10.0 * slack);
            for &row in &case.rows {
                let row = Row { auxiliary, ..row };
                if matches!(density.support(auxiliary), Support::Counts(Some(last)) if row.y > last) {
                    continue;
                }
                let p = average(&|f| density.log_density(row, f).exp());
                close(&format!("{what}: density of {}", row.y), prediction.log_density(row.y), p.ln(), 1e-5);
                let below = average(&|f| density.cdf(row, f));
                close(&format!("{what}: cdf of {}", row.y), prediction.cdf(row.y), below, 1e-5);
            }
            if let Some(p) = prediction.probabilities() {
                assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{what}: {p:?}");
                for (c, p) in p.iter().enumerate() {
                    close(&format!("{what}: class {c}"), *p, prediction.log_density(c as f64).exp(), 1e-8);
                }
            }
            for p in [0.05, 0.5, 0.9] {
                let q = prediction.quantile(p);
                match prediction.support() {
                    Support::Counts(_) | Support::Classes(_) => {
                        assert!(prediction.cdf(q) >= p && (q == 0.0 || prediction.cdf(q - 1.0) < p), "{what}: {q}");
                    }
                    _ => close(&format!("{what}: quantile {p}"), prediction.cdf(q), p, 1e-7),
                }
            }
        }
    }
}

/// The curvature W `[L, L]`.
fn curvature(density: &dyn Density, row: Row, f: &[f64]) -> Vec<f64> {
    let l = f.len();
    let mut d = vec![0.0; l];
    density.curvature(row, f, &mut d);
    let shared = |a: usize, b: usize| if density.is_centred() { d[a] * d[b] } else { 0.0 };
    (0..l * l).map(|e| if e / l == e % l { d[e % l] } else { 0.0 } - shared(e / l, e % l)).collect()
}

#[test]
fn curvatures_are_those_of_the_density_or_their_expectation() {
    for case in cases() {
        let density = case.likelihood.density();
        for &row in &case.rows {
            for first in [-3.0, -1.0, 0.0, 0.7, 2.5] {
                let f = latents(case.likelihood.latents(), first);
                let what = format!("{}, f = {f:?}: curvature", name(&case, row));
                let (mean, sd) = (density.mean(&f, row.auxiliary), density.variance(&f, row.auxiliary).sqrt());
                for (e, got) in curvature(&*density, row, &f).into_iter().enumerate() {
                    let of = |row: Row| -slopes(&*density, row, &f).2[e];
                    if density.is_log_concave() {
                        close(&what, got, of(row), 1e-12);
                        continue;
                    }
                    // Further out, too much of the beta distribution lies outside the rule's nodes.
                    if first.abs() > 1.0 {
                        continue;
                    }
                    let weighed = |y: f64| {
                        let row = Row { y, ..row };
                        density.log_density(row, &f).exp() * of(row)
                    };
                    close(&what, got, over_support(density.support(row.auxiliary), mean, sd, &weighed), 1e-6);
                }
            }
        }
    }
}

#[test]
fn roots_of_curvatures_square_to_them() {
    for case in cases() {
        let density = case.likelihood.density();
        let l = case.likelihood.latents();
        for &row in &case.rows {
            for first in [-50.0, -3.0, 0.0, 0.7, 2.5, 50.0] {
                let f = latents(l, first);
                let root = Root::of(&*density, row, &f);
                let what = format!("{}, f = {f:?}", name(&case, row));
                let unit = |k: usize| (0..l).map(|c| f64::from(u8::from(c == k))).collect::<Vec<f64>>();
                for (k, want) in curvature(&*density, row, &f).chunks(l).enumerate() {
                    let mut column = unit(k);
                    root.apply_transposed(&mut column);
                    root.apply(&mut column);
                    for (got, want) in column.iter().zip(want) {
                        close(&format!("{what}: R Rᵀ"), *got, *want, 1e-13);
                    }
                }
                let mut pull = root.pull().to_vec();
                root.apply(&mut pull);
                let gradient = slopes(&*density, row, &f).1;
                for (got, want) in pull.iter().zip(&gradient) {
                    close(&format!("{what}: R c"), *got, *want, 1e-12);
                }
            }
        }
    }
}

#[test]
fn slopes_of_curvatures_agree_with_differences() {
    const STEP: f64 = 1e-5;
    for case in cases() {
        let (l, own) = (case.likelihood.latents(), own_count(&*case.likelihood));
        let weights: Vec<f64> =
            (0..l * l).map(|e| if e / l == e % l { 1.0 } else { 0.3 } - 0.1 * (e / l + e % l) as f64).collect();
        let weighed = |d: &dyn Density, row: Row, f: &[f64]| -> f64 {
            curvature(d, row, f).iter().zip(&weights).map(|(w, b)| w * b).sum()
        };
        let density = case.likelihood.density();
        for &row in &case.rows {
            for first in [-9.0, -2.0, 0.3, 1.5, 9.0] {
                let f = latents(l, first);
                let (mut slopes, mut in_own) = (vec![0.0; l], vec![0.0; own]);
                density.add_curvature_slopes(row, &f, &weights, &mut slopes, &mut in_own);
                let what = format!("{}, f = {f:?}", name(&case, row));
                for (k, slope) in slopes.iter().enumerate() {
                    let at = |step| weighed(&*density, row, &moved(&f, k, step));
                    close(&format!("{what}: latent {k}"), *slope, (at(STEP) - at(-STEP)) / (2.0 * STEP), 1e-8);
                }
                let mut alone = vec![0.0; l];
                density.add_curvature_slopes(row, &f, &weights, &mut alone, &mut []);
                assert_eq!(alone, slopes, "{what}: without own parameters");
                for (k, slope) in in_own.iter().enumerate() {
                    let at = |step| with_own(&*case.likelihood, k, step, &|d| weighed(d, row, &f));
                    close(&format!("{what}: own {k}"), *slope, (at(STEP) - at(-STEP)) / (2.0 * STEP), 1e-7);
                }
            }
        }
    }
}

#[test]
fn slopes_of_gradients_in_own_parameters_agree_with_differences() {
    const STEP: f64 = 1e-5;
    for case in cases() {
        let (l, own) = (case.likelihood.latents(), own_count(&*case.likelihood));
        let weights: Vec<f64> = (0..l).map(|k| 1.0 - 0.3 * k as f64).collect();
        let weighed = |d: &dyn Density, row: Row, f: &[f64]| -> f64 {
            slopes(d, row, f).1.iter().zip(&weights).map(|(g, w)| g * w).sum()
        };
        for &row in &case.rows {
            for first in [-2.0, 0.3, 1.5] {
                let (f, mut got) = (latents(l, first), vec![0.0; own]);
                case.likelihood.density().add_pull_slopes(row, &f, &weights, &mut got);
                for (k, slope) in got.iter().enumerate() {
                    let at = |step| with_own(&*case.likelihood, k, step, &|d| weighed(d, row, &f));
                    let what = format!("{}, f = {f:?}: own {k}", name(&case, row));
                    close(&what, *slope, (at(STEP) - at(-STEP)) / (2.0 * STEP), 1e-7);
                }
            }
        }
    }
}

#[test]
fn samples_follow_the_prediction() {
    let n = 20_000;
    for case in cases() {
        let auxiliary = case.rows[1].auxiliary;
        let count = case.likelihood.latents();
        let prediction = case.likelihood.predict(&latents(count, 0.4), &vec![0.5; count], Some(auxiliary)).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        let samples: Vec<f64> = (0..n).map(|_| prediction.sample(&mut rng)).collect();
        let what = case.likelihood.text();
        let mean = samples.iter().sum::<f64>() / n as f64;
        let error = (prediction.variance() / n as f64).sqrt();
        assert!((mean - prediction.mean()).abs() < 5.0 * error, "{what}: {mean}, {}", prediction.mean());
        for p in [0.1, 0.5, 0.8] {
            let q = prediction.quantile(p);
            let share = samples.iter().filter(|y| **y <= q).count() as f64 / n as f64;
            let want = prediction.cdf(q);
            let error = (want * (1.0 - want) / n as f64).sqrt();
            assert!((share - want).abs() < 5.0 * error + 1e-9, "{what}: {share} of samples below {q}, want {want}");
        }
        let held: Result<(), _> =
            samples.iter().take(200).try_for_each(|&y| case.likelihood.check_row(Row { y, auxiliary }));
        assert!(held.is_ok(), "{what}: a sample is no valid target: {held:?}");
    }
}

#[test]
fn peaks_are_where_the_density_is_largest() {
    for case in cases().into_iter().filter(|case| case.likelihood.latents() == 1) {
        let density = case.likelihood.density();
        for &row in &case.rows {
            let peak = density.peak(row);
            assert!(peak.is_finite(), "{}: {peak}", name(&case, row));
            let value = |f: f64| density.log_density(row, &[f]);
            let top = (-600..=600).map(|k| value(0.1 * f64::from(k))).fold(f64::NEG_INFINITY, f64::max);
            assert!(value(peak) > top - 1.5, "{}: {} at {peak}, top {top}", name(&case, row), value(peak));
        }
    }
}

#[test]
fn copies_are_alike_and_learn_separately() {
    for case in cases() {
        let copy = case.likelihood.clone();
        assert_eq!(copy.text(), case.likelihood.text());
        assert_eq!(copy.free_raw(), case.likelihood.free_raw());
        let ids = |l: &dyn Likelihood| l.parameters().iter().map(|(_, p)| p.id()).collect::<Vec<_>>();
        assert!(ids(&*copy).iter().all(|id| !ids(&*case.likelihood).contains(id)));
    }
}
