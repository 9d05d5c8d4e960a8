//! Where the training of a structural model begins: at the parameters of a simpler one.

use super::scales::SHORT;
use super::single::along;
use crate::fitted::alternatives::median_gap;
use crate::models::Observations;
use crate::models::gp_model::GpModel;
use crate::params::Parameters;

/// The least prior variance of a part that may come back.
const LEAST: f64 = 1e-4;

/// The model at whose parameters another begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fitted) struct Link {
    /// Its number.
    pub of: usize,
    /// Whether the other adds to it what does not change much. Then it is not worth a training if this one is hopeless.
    pub adds: bool,
}

/// Starts a model at the parameters of an earlier one: those of the noise, and of parts of the kernel that both have,
/// or of the only part. What is new and lasts for a short time begins with half of the noise, a few rows long; a second
/// such part is as many times longer as the rows are, each in equal steps of their logarithms.
pub(in crate::fitted) fn extend(
    (model, kernel): (&mut dyn GpModel, &str),
    (earlier, simpler): (&dyn GpModel, &str),
    data: &Observations,
) {
    let Some((_, data)) = along(model, data) else { return };
    let (own, other) = (Parts::of(model, kernel), Parts::of(earlier, simpler));
    let known: Vec<Vec<f64>> = earlier.parameters().iter().map(|(_, parameter)| parameter.internal()).collect();
    let (single, gap) = (own.0.len() == 1 && other.0.len() == 1, median_gap(&data.x).unwrap_or(1.0));
    let mut free = other.0;
    let mut starts: Vec<(usize, Vec<f64>)> = Vec::new();
    // Noise, and what else is not of the kernel.
    let tail = known.len() - other.1;
    starts.extend((0..tail).map(|k| (own.1 + k, known[other.1 + k].clone())));
    let noise = known.last().and_then(|noise| noise.first()).copied().unwrap_or_default();
    let mut lasting = 0;
    for (text, first, count) in own.0 {
        let same = free.iter().position(|(other, _, n)| *n == count && (single || *other == text));
        if let Some((_, from, _)) = same.map(|at| free.remove(at)) {
            starts.extend((0..count).map(|k| (first + k, known[from + k].clone())));
            lasting += usize::from(text.starts_with("matern"));
        } else if text.starts_with("matern") {
            let long = (data.n() as f64 / SHORT).powf(0.5 * lasting as f64);
            starts.push((first, vec![SHORT * gap * long]));
            starts.push((first + 1, vec![0.5 * noise]));
            lasting += 1;
        }
    }
    let mut parameters = model.parameters_mut();
    for (at, values) in starts {
        let Some((path, parameter)) = parameters.get_mut(at) else { continue };
        if !parameter.fixed && !parameter.given && parameter.len() == values.len() {
            let least = if path.ends_with(".variance") { LEAST } else { 0.0 };
            parameter.put_internal(&values.iter().map(|value| value.max(least)).collect::<Vec<_>>());
        }
    }
}

/// The summands of a kernel's text: each with the number of its first parameter and how many it has; and the number of
/// all.
struct Parts(Vec<(String, usize, usize)>, usize);

impl Parts {
    fn of(model: &dyn GpModel, kernel: &str) -> Self {
        let (mut all, mut first) = (Vec::new(), 0);
        for (text, part) in kernel.split(" + ").zip(model.prior().kernel.summands()) {
            let count = part.parameters().len();
            all.push((text.to_string(), first, count));
            first += count;
        }
        Self(all, model.prior().kernel.parameters().len())
    }
}
