//! Describes the parameters of a model in the units of the data.

use std::collections::HashMap;

use cagey::arithmetic::ends;
use cagey::fitted::Fitted;
use cagey::kernels::Kernel;
use cagey::models::diagnose::entry_columns as entry_columns_of_kernels;
use cagey::params::{Constraint, Parameter, Parameters, Unit, shown as number};

/// Most numbers of a parameter that are listed.
const MOST_SHOWN: usize = 32;
/// If a parameter has a number for each of more columns than this, only the first of those that matter most are listed.
const MOST_COLUMNS: usize = 12;
/// How many are listed then.
const LISTED: usize = 8;
/// An input has no effect if its range is a smaller share of its lengthscale than this, for a kernel of variance 1. The
/// latent function then changes by less than 1.5 % of its standard deviation along it, even with the roughest kernel.
const IDLE: f64 = 1e-4;

/// The parameters by path, each with its numbers, bounds and priors.
pub fn rows(fitted: &Fitted) -> Vec<(String, String)> {
    let (names, ranges) = (fitted.input_names(), fitted.ranges());
    let kernels: Vec<&Kernel> = fitted.model.priors().into_iter().map(|prior| &prior.kernel).collect();
    let all = kernels.iter().flat_map(|kernel| kernel.parameters());
    let variances = all.filter(|(_, p)| p.unit == Unit::Variance).flat_map(|(_, p)| p.internal());
    let task = Task { fitted, variance: variances.map(|variance| variance.max(1.0)).product() };
    let mut columns = entry_columns_of_kernels(&kernels, names.len());
    let slopes = fitted.model.parameters().into_iter().filter(|(_, p)| p.unit == Unit::Slope);
    columns.extend(slopes.map(|(_, p)| (p.id(), (0..names.len()).collect())));
    let inputs: Vec<Input> =
        names.iter().zip(&ranges).map(|(name, [low, high])| Input { name, range: high - low }).collect();
    let parameters = fitted.model.parameters().into_iter();
    parameters.map(|(path, parameter)| (path, task.described(parameter, &columns, &inputs))).collect()
}

/// An input column.
struct Input<'a> {
    name: &'a str,
    /// The difference of its largest and smallest values in the training rows, as the model sees them.
    range: f64,
}

/// One number of a parameter that has one for each input.
struct Entry<'a> {
    name: &'a str,
    text: String,
    /// The input's range in units of its lengthscale, or how much the function changes over it.
    effect: f64,
    idle: bool,
}

struct Task<'a> {
    fitted: &'a Fitted,
    /// A bound of the prior variance, in units of the target's variance; at least 1.
    variance: f64,
}

impl Task<'_> {
    /// Describes a parameter: its numbers (with the names of their columns, if each has one), bounds and priors.
    fn described(&self, parameter: &Parameter, columns: &HashMap<u64, Vec<usize>>, inputs: &[Input]) -> String {
        let values = parameter.values();
        let widest = inputs.iter().map(|input| input.range).fold(0.0, f64::max);
        let mut text = match (values.as_slice(), columns.get(&parameter.id())) {
            ([value], Some(columns)) if columns.len() == 1 => {
                self.entry(parameter, 0, *value, &inputs[columns[0]]).text
            }
            ([value], _) => self.entry(parameter, 0, *value, &Input { name: "", range: widest }).text,
            (many, Some(columns)) => {
                let entries = many.iter().zip(columns).enumerate();
                listed(entries.map(|(i, (value, column))| self.entry(parameter, i, *value, &inputs[*column])).collect())
            }
            (many, None) if many.len() > MOST_SHOWN => {
                let (low, high) = ends(many);
                format!("{} numbers from {} to {}", many.len(), number(low), number(high))
            }
            (many, None) => many.iter().map(|value| number(*value)).collect::<Vec<_>>().join(", "),
        };
        text += &self.root(parameter);
        if parameter.fixed {
            text += " (fixed)";
        }
        if let Constraint::Interval { lower, upper } = parameter.constraint() {
            text += &format!(" in {}..{}", number(lower), number(upper));
        }
        match parameter.priors() {
            [] => {}
            [prior] => prior.iter().for_each(|prior| text += &format!(" ~ {prior}")),
            _ => text += " ~ priors by column",
        }
        text
    }

    fn entry<'a>(&self, parameter: &Parameter, at: usize, value: f64, input: &Input<'a>) -> Entry<'a> {
        let size = value.abs() / parameter.unit_of(at);
        let effect = match parameter.unit {
            Unit::Length => input.range / size,
            Unit::VariancePerLengthSquared => input.range * size.sqrt(),
            _ => input.range * size,
        };
        let idle = parameter.is_length() && !parameter.fixed && effect * self.variance < IDLE;
        let text = if idle { "no effect".into() } else { number(value) };
        Entry { name: input.name, text, effect, idle }
    }

    /// The square root of a noise parameter, in words: a standard deviation, or the scale of a Student-t likelihood.
    fn root(&self, parameter: &Parameter) -> String {
        let (what, of) = match self.fitted.settings.likelihood.starts_with("student") {
            true => ("squared scale", "scale"),
            false => ("variance", "sd"),
        };
        match (parameter.name.as_str(), parameter.unit, parameter.values().as_slice()) {
            ("noise", Unit::Variance, [square]) => format!(" ({what}; {of} {})", number(square.sqrt())),
            _ => String::new(),
        }
    }
}

/// Entries with the names of their columns: all in their order, or, of many, those that matter most and counts.
fn listed(mut entries: Vec<Entry>) -> String {
    let words = |entries: &[Entry]| -> String {
        entries.iter().map(|entry| format!("{} {}", entry.name, entry.text)).collect::<Vec<_>>().join(", ")
    };
    if entries.len() <= MOST_COLUMNS {
        return words(&entries);
    }
    let idle = entries.iter().filter(|entry| entry.idle).count();
    entries.retain(|entry| !entry.idle);
    entries.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    let shown = entries.len().min(LISTED);
    let rest = [(entries.len() - shown, "that matter less"), (idle, "without effect")];
    let rest = rest.into_iter().filter(|(count, _)| *count > 0).map(|(count, which)| format!("{count} {which}"));
    [words(&entries[..shown])].into_iter().filter(|words| !words.is_empty()).chain(rest).collect::<Vec<_>>().join(", ")
}
