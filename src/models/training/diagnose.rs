//! Advice when a fit looks degenerate: what a careful statistician would ask first.

use std::collections::{HashMap, HashSet};

use crate::advice::Advice;
use crate::data::Moments;
use crate::kernels::Kernel;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::models::prior::alike;
use crate::params::{Constraint, Parameter, Parameters, Unit};

/// The input columns, out of `d`, of the entries of kernels' parameters. The key is the parameter's identity.
/// Parameters without an entry for each column are left out.
pub fn entry_columns(kernels: &[&Kernel], d: usize) -> HashMap<u64, Vec<usize>> {
    let of_kernels = kernels.iter().flat_map(|kernel| kernel.parameters().into_iter().zip(kernel.entry_columns(d)));
    of_kernels.filter_map(|((_, p), columns)| Some((p.id(), columns?))).collect()
}

/// The least variance, in units of standardised targets, of a part of a kernel that takes the place of noise.
const ROUGH: f64 = 1e-5;

/// Whether a part of a sum of kernels has what would else be noise: `white` or `matern12`, as rough as errors are.
pub fn replaces_noise(kernel: &Kernel) -> bool {
    let is_rough = |part: &Kernel| {
        let Kernel::Leaf(leaf) = part else { return false };
        let variance = leaf.parameters.iter().find(|p| p.name == "variance").map(|p| p.internal()[0]);
        ["matern12", "white"].contains(&leaf.form.name()) && variance.is_none_or(|variance| variance > ROUGH)
    };
    match kernel {
        Kernel::Sum(parts) => parts.iter().any(|part| is_rough(part) || replaces_noise(part)),
        Kernel::Product(parts) => parts.iter().any(replaces_noise),
        _ => false,
    }
}

/// So many columns that a kernel may take noise for signal.
const MANY_COLUMNS: usize = 20;

/// Warnings about a trained model, each with advice; empty if nothing looks wrong.
///
/// `data` are the observations it was trained on, as it saw them; `names [d]` are the names of their input columns.
pub fn warnings(model: &dyn GpModel, data: &Observations, names: &[String]) -> Vec<Advice> {
    let kernels: Vec<&Kernel> = model.priors().into_iter().map(|prior| &prior.kernel).collect();
    let parameters = model.parameters();
    let mut found = Vec::new();
    let unlearned = model.unlearned();
    if !unlearned.is_empty() {
        let text = format!(
            "{} stayed as before: gradients hold the actions of a policy fixed. Fix what is not to be learned, or \
             differentiate the solve",
            unlearned.join(", ")
        );
        found.push(Advice::from(text).about("CagpOptions::unrolled"));
    }
    let mean = data.y.iter().sum::<f64>() / data.n() as f64;
    let variance = data.y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / data.n() as f64;
    // Labels of classes that are apart have no noise, and those of rare classes nothing else.
    let labels = alike(model.likelihood());
    let noise = parameters.iter().find(|(path, p)| path.ends_with("noise") && !p.fixed && !labels);
    if let Some((_, noise)) = noise
        && noise.internal()[0] > 0.9 * variance
        && variance > 0.0
    {
        let text = format!(
            "the noise explains {:.0} % of the target's variance: the model sees no signal. Check that the inputs \
             matter, try restarts, shorter initial lengthscales, or another kernel",
            (100.0 * noise.internal()[0] / variance).min(100.0)
        );
        found.push(Advice::from(text).set("TrainConfig::restarts", 5).about("Settings::init"));
    }
    let spreads: Vec<Spread> = (0..data.d).map(|column| spread(data, column)).collect();
    let varying = || spreads.iter().filter(|spread| spread.sd > 0.0);
    let largest = varying().map(|spread| spread.sd).reduce(f64::max).unwrap_or(1.0);
    // What is told of it then says more than where it ended.
    let is_flat = |p: &Parameter| p.is_length() && p.internal().iter().all(|l| *l > LONG * largest);
    for (path, parameter) in parameters.iter().filter(|(_, p)| !p.fixed && p.at_bound() && !is_flat(p)) {
        let end = |bound: &str| Advice::from(format!("{path} = {} ended at {bound}", shown(parameter)));
        found.push(match parameter.constraint() {
            Constraint::Interval { lower, upper } => {
                end(&format!("its bounds {lower}..{upper}: widen them, or check the data"))
            }
            _ if !path.ends_with("noise") => {
                end("its floor, the least that it may be: check the data and the likelihood, or bound it")
                    .about("Settings::bounds")
            }
            _ if labels || data.auxiliary.is_some() || kernels.iter().any(|kernel| replaces_noise(kernel)) => continue,
            // Far apart in many columns, rows look rough to any kernel.
            _ if data.d >= MANY_COLUMNS => end(
                "its floor: the data look noiseless, or with so many columns the kernel takes the noise for signal; \
                 leave out columns that do not matter",
            ),
            _ => end("its floor: the data look noiseless"),
        });
    }
    let alphas = parameters.iter().filter(|(path, p)| path.ends_with("rq.alpha") && !p.fixed);
    for (path, alpha) in alphas.filter(|(_, alpha)| alpha.internal()[0] < FLAT) {
        let text = format!(
            "{path} = {} makes this component almost constant in distance: give it a prior, or leave it out",
            shown(alpha)
        );
        found.push(Advice::from(text).set("Settings::priors", "\"rq.alpha=lognormal(0, 1)\""));
    }
    let lengths: Vec<&(String, &Parameter)> = parameters.iter().filter(|(_, p)| p.is_length() && !p.fixed).collect();
    // Where values repeat, as categories do, a short lengthscale only separates rows with different ones.
    let least = varying().filter(|spread| !spread.repeats).map(|spread| spread.sd).reduce(f64::min);
    let columns = entry_columns(&kernels, data.d);
    for (path, parameter) in &lengths {
        let internal = parameter.internal();
        if is_flat(parameter) {
            let text = format!(
                "{path} = {} is far longer than the data ({LONG} standard deviations): this component is flat; a \
                 linear or constant kernel does the same with fewer parameters",
                shown(parameter)
            );
            found.push(text.into());
        }
        let short = match columns.get(&parameter.id()) {
            Some(columns) => {
                let is_short = |l: f64, of: &Spread| !of.repeats && l < SHORT * of.sd;
                let mut of_columns = internal.iter().zip(columns);
                let short = of_columns.find(|(l, column)| is_short(**l, &spreads[**column]));
                short.map(|(_, column)| format!(" along the input `{}`", names[*column]))
            }
            None => least.filter(|least| internal.iter().any(|l| *l < SHORT * least)).map(|_| String::new()),
        };
        found.extend(short.map(|along| {
            let text = format!(
                "{path} = {} is far shorter than the data's spacing{along}: no point predicts another. Bound it below \
                 or add noise",
                shown(parameter)
            );
            Advice::from(text)
        }));
    }
    found
}

/// How an input varies.
struct Spread {
    /// Its standard deviation: 1 where inputs are standardised.
    sd: f64,
    /// Whether it has few values for its rows, as categories and codes do.
    repeats: bool,
}

fn spread(data: &Observations, column: usize) -> Spread {
    let values = || data.x[column..].iter().step_by(data.d).copied();
    let (mut distinct, most) = (HashSet::new(), CODES.min(data.n() / 2));
    let repeats = values().all(|x| {
        distinct.insert(x.to_bits());
        distinct.len() <= most
    });
    // A constant column has a spread of 0, whatever the rounding errors of its mean.
    Spread { sd: Moments::of(values()).sd(), repeats }
}

/// Most values of a column of codes.
const CODES: usize = 100;
/// Below this shape, the covariance of a rational quadratic kernel hardly decreases.
const FLAT: f64 = 1e-3;
/// Above this many standard deviations of the inputs, a lengthscale makes a function flat over the data.
const LONG: f64 = 1e3;
/// Below this many standard deviations, a lengthscale separates all points.
const SHORT: f64 = 1e-5;

/// A parameter's first values. For a noise that is a squared standard deviation or scale, adds the root.
fn shown(parameter: &Parameter) -> String {
    let values: Vec<String> = parameter.values().into_iter().take(4).map(crate::params::shown).collect();
    let more = if parameter.len() > 4 { ", …" } else { "" };
    let text = format!("{}{more}", values.join(", "));
    match (parameter.name.as_str(), parameter.unit, parameter.values().as_slice()) {
        ("noise", Unit::Variance, [variance]) => {
            format!("{text} (squared; sd or scale {})", crate::params::shown(variance.sqrt()))
        }
        _ => text,
    }
}
