//! Checks of a likelihood.

use super::{Faults, differences};
use crate::error::Result;
use crate::likelihoods::quadrature::hermite;
use crate::likelihoods::{Density, Likelihood, Marginal, Row, Slopes};

/// Nodes of the rule that expectations of one latent function are compared with.
const NODES: usize = 60;

/// The most that the usual rule may be off, in variances up to 1.
const RULE: f64 = 3e-2;

/// Checks a likelihood with targets that it takes, at its present parameters: gradients, Hessians and curvatures are
/// those of the log density; so are the slopes of expected log densities in means, variances and the likelihood's own
/// parameters, without which these are never learned; expected values agree with a finer rule; targets are accepted,
/// and draws lie in the support.
///
/// # Errors
/// [`Error::Usage`](crate::Error::Usage) with the faults.
pub fn likelihood(likelihood: &dyn Likelihood, rows: &[Row]) -> Result<()> {
    let mut faults = Faults::new(format!("the likelihood `{}`", likelihood.text()));
    let (density, latents) = (likelihood.density(), likelihood.latents());
    faults.require(density.latents() == latents, format!("its density has {} latent functions", density.latents()));
    let own: usize = likelihood.parameters().iter().map(|(_, p)| p.len()).sum();
    let known = density.own().len();
    let missing = format!("`Density::own` has {known} of the {own} values of its parameters: they are never learned");
    faults.require(known >= own, missing);
    if !faults.found.is_empty() {
        return faults.result();
    }
    for &row in rows {
        if let Err(problem) = likelihood.check_row(row) {
            faults.found.push(format!("the target {} {problem}", row.y));
            continue;
        }
        for first in [-1.2, 0.3, 1.4] {
            let f: Vec<f64> = (0..latents).map(|l| if l == 0 { first } else { 0.6 * l as f64 - 0.5 }).collect();
            slopes(&mut faults, &*density, row, &f);
            own_slopes(&mut faults, likelihood, row, &f, own);
            for variance in [0.01, 0.8] {
                expectations(&mut faults, likelihood, (row, &f), variance, own);
            }
        }
        draws(&mut faults, &*density, row);
    }
    faults.result()
}

/// Requires numbers to agree up to an error relative to the largest of them or to 1.
fn close(faults: &mut Faults, what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    faults.close(what, &[got, &[1.0]].concat(), &[want, &[1.0]].concat(), tolerance);
}

fn at(row: Row, f: &[f64]) -> String {
    format!("y = {}, f = {f:?}", row.y)
}

fn slopes(faults: &mut Faults, density: &dyn Density, row: Row, f: &[f64]) {
    let (l, all) = (f.len(), (0..f.len()).collect::<Vec<_>>());
    let derivatives = |f: &[f64]| {
        let (mut gradient, mut hessian) = (vec![0.0; l], vec![0.0; l * l]);
        let value = density.derivatives(row, f, &mut gradient, &mut hessian);
        (value, gradient, hessian)
    };
    let ((value, gradient, hessian), place) = (derivatives(f), at(row, f));
    close(faults, &format!("the log density at {place}"), &[value], &[density.log_density(row, f)], 1e-10);
    if let Ok(numeric) = differences(f, &all, |f| Ok(density.log_density(row, f))) {
        close(faults, &format!("the gradient at {place}"), &gradient, &numeric, 1e-6);
    }
    for k in 0..l {
        if let Ok(numeric) = differences(f, &all, |f| Ok(derivatives(f).1[k])) {
            close(faults, &format!("the Hessian at {place}"), &hessian[k * l..][..l], &numeric, 1e-5);
        }
    }
    let mut curvature = vec![0.0; l];
    density.curvature(row, f, &mut curvature);
    faults.require(curvature.iter().all(|d| *d >= 0.0), format!("a curvature is negative or no number at {place}"));
    if l == 1 && density.is_log_concave() {
        let fault = format!("the curvature is not minus the second derivative at {place}, or not log-concave");
        close(faults, &fault, &curvature, &[-hessian[0]], 1e-6);
    }
}

/// Values of `g` with the internal values of the likelihood's own parameters in place of those that it has.
fn with_own(likelihood: &dyn Likelihood, own: &[f64], g: impl Fn(&dyn Density) -> f64) -> Result<f64> {
    let (mut moved, mut rest) = (likelihood.boxed(), own);
    for (_, parameter) in moved.parameters_mut() {
        let (values, others) = rest.split_at(parameter.len());
        parameter.set_internal(values)?;
        rest = others;
    }
    Ok(g(&*moved.density()))
}

fn internal(likelihood: &dyn Likelihood) -> Vec<f64> {
    likelihood.parameters().iter().flat_map(|(_, p)| p.internal()).collect()
}

fn own_slopes(faults: &mut Faults, likelihood: &dyn Likelihood, row: Row, f: &[f64], own: usize) {
    let mut gradient = vec![0.0; own];
    likelihood.density().add_own_gradient(row, f, 1.0, &mut gradient);
    let numeric = differences(&internal(likelihood), &(0..own).collect::<Vec<_>>(), |own| {
        with_own(likelihood, own, |density| density.log_density(row, f))
    });
    if let Some(numeric) = faults.value("other parameters", numeric) {
        close(faults, &format!("the gradient in its own parameters at {}", at(row, f)), &gradient, &numeric, 1e-5);
    }
}

fn expectation(density: &dyn Density, row: Row, mean: &[f64], variance: &[f64], own: usize) -> (f64, [Vec<f64>; 3]) {
    let mut all = [vec![0.0; mean.len()], vec![0.0; mean.len()], vec![0.0; own]];
    let [in_mean, in_variance, in_own] = &mut all;
    let slopes = Slopes { mean: in_mean, variance: in_variance, own: in_own };
    (density.expectation(row, Marginal { mean, variance }, slopes), all)
}

fn expectations(
    faults: &mut Faults,
    likelihood: &dyn Likelihood,
    (row, mean): (Row, &[f64]),
    variance: f64,
    own: usize,
) {
    let (density, l) = (likelihood.density(), mean.len());
    let (variances, all) = (vec![variance; l], (0..l).collect::<Vec<_>>());
    let value =
        |density: &dyn Density, mean: &[f64], variance: &[f64]| expectation(density, row, mean, variance, own).0;
    let (found, slopes) = expectation(&*density, row, mean, &variances, own);
    let numeric = [
        differences(mean, &all, |mean| Ok(value(&*density, mean, &variances))),
        differences(&variances, &all, |variances| Ok(value(&*density, mean, variances))),
        differences(&internal(likelihood), &(0..own).collect::<Vec<_>>(), |own| {
            with_own(likelihood, own, |density| value(density, mean, &variances))
        }),
    ];
    let names = ["means", "variances", "its own parameters"];
    for ((slopes, numeric), name) in slopes.iter().zip(numeric).zip(names) {
        if let Some(numeric) = faults.value("an expected log density", numeric) {
            let what = format!("the slope of the expected log density in {name} at {}", at(row, mean));
            close(faults, &what, slopes, &numeric, 1e-5);
        }
    }
    if l == 1 {
        let fine: f64 = hermite(NODES)
            .iter()
            .map(|(z, weight)| weight * density.log_density(row, &[mean[0] + variance.sqrt() * z]))
            .sum();
        let close = (found - fine).abs() <= RULE * fine.abs().max(1.0);
        faults.require(close, format!("the expected log density at {} is {found}, {fine} expected", at(row, mean)));
    }
}

fn draws(faults: &mut Faults, density: &dyn Density, row: Row) {
    use rand::SeedableRng;
    let mut rng = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(1);
    let (f, support) = (vec![0.2; density.latents()], density.support(row.auxiliary));
    for _ in 0..8 {
        let draw = density.sample(&f, row.auxiliary, &mut rng);
        faults.require(support.contains(draw), format!("a draw of {draw} lies outside {support:?}"));
    }
}
