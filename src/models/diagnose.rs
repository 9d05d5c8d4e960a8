//! Advice when a fit looks degenerate: what a careful statistician would ask about first.

use super::Observations;
use crate::params::{Constraint, Parameter, Parameters, Unit};

/// Sentences about what looks wrong with a trained model, each with advice; empty when nothing does.
///
/// `data` are the observations it was trained on, as it saw them.
pub fn warnings(model: &(impl Parameters + ?Sized), data: &Observations) -> Vec<String> {
    let parameters = model.parameters();
    let mut found = Vec::new();
    let mean = data.y.iter().sum::<f64>() / data.n() as f64;
    let variance = data.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / data.n() as f64;
    let noise = parameters.iter().find(|(path, p)| path.ends_with("noise") && !p.fixed);
    if let Some((_, noise)) = noise
        && noise.internal()[0] > 0.9 * variance
        && variance > 0.0
    {
        found.push(format!(
            "the noise explains {:.0} % of the target's variance: the model sees no signal. Check that the inputs matter, \
             try `--restarts 5`, shorter lengthscales by `--init`, or another kernel",
            (100.0 * noise.internal()[0] / variance).min(100.0)
        ));
    }
    for (path, parameter) in parameters.iter().filter(|(_, p)| !p.fixed && p.at_bound()) {
        let bound = match parameter.constraint() {
            Constraint::Interval { lower, upper } => {
                format!("its bounds {lower}..{upper}: widen them, or check the data")
            }
            _ if path.ends_with("noise") => "its floor: the data look noiseless; check them for repeated rows".into(),
            _ => "its floor, the least that it may be: check the data and the likelihood, or bound it by `--bounds`"
                .into(),
        };
        found.push(format!("{path} = {} ended at {bound}", shown(parameter)));
    }
    for (path, alpha) in parameters.iter().filter(|(path, p)| path.ends_with("rq.alpha") && !p.fixed) {
        if alpha.internal()[0] < FLAT {
            found.push(format!(
                "{path} = {} makes this component as good as constant in distance: give it a prior, such as \
                 `--prior \"rq.alpha=lognormal(0, 1)\"`, or leave it out",
                shown(alpha)
            ));
        }
    }
    let lengths: Vec<&(String, &Parameter)> = parameters
        .iter()
        .filter(|(path, p)| p.unit == Unit::Length && path.ends_with("lengthscale") && !p.fixed)
        .collect();
    let [least, largest] = spreads(data);
    for (path, parameter) in &lengths {
        let internal = parameter.internal();
        if internal.iter().all(|l| *l > LONG * largest) {
            found.push(format!(
                "{path} = {} is far longer than the data ({LONG} standard deviations): this component is flat; a linear or \
                 constant kernel says the same with fewer parameters",
                shown(parameter)
            ));
        }
        if internal.iter().any(|l| *l < SHORT * least) {
            found.push(format!(
                "{path} = {} is far shorter than the data's spacing: every point is on its own. Bound it below or add noise",
                shown(parameter)
            ));
        }
    }
    found
}

/// The least and the largest standard deviation of an input that varies: 1 where inputs are standardised.
fn spreads(data: &Observations) -> [f64; 2] {
    let n = data.n() as f64;
    let spread = |column: usize| {
        let values = || data.x[column..].iter().step_by(data.d);
        let mean = values().sum::<f64>() / n;
        (values().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
    };
    let varying = (0..data.d).map(spread).filter(|sd| *sd > 0.0);
    let ends = varying.fold(None, |ends, sd| {
        let [least, largest] = ends.unwrap_or([sd, sd]);
        Some([sd.min(least), sd.max(largest)])
    });
    ends.unwrap_or([1.0, 1.0])
}

/// Shapes of rational quadratic kernels below this hardly let the covariance fall.
const FLAT: f64 = 1e-3;
/// Lengthscales beyond this many standard deviations of the inputs are flat over the data.
const LONG: f64 = 1e3;
/// Lengthscales below this many standard deviations separate all points.
const SHORT: f64 = 1e-5;

fn shown(parameter: &Parameter) -> String {
    let values: Vec<String> = parameter.values().into_iter().take(4).map(crate::params::shown).collect();
    let more = if parameter.len() > 4 { ", …" } else { "" };
    format!("{}{more}", values.join(", "))
}
