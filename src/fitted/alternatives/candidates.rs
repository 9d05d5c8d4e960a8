//! Changes of the settings that may predict better. None repeats what the settings have, or adds what they refuse.

use super::series::{is_even, periods};
use crate::data::{Dataset, Encoding, TargetTransform};
use crate::fitted::copies::is_arranged;
use crate::fitted::{Calibrate, Fitted, Settings};
use crate::metrics::diagnosis::{Along, Finding, Remedy};

/// A change of the settings that may pay.
pub(super) struct Candidate {
    pub settings: Settings,
    /// Whether the number of the row becomes an input.
    pub numbered: bool,
    pub remedy: Remedy,
    /// The setting, and its new value as it is given.
    pub change: (&'static str, String),
}

impl Candidate {
    /// The same settings but for one.
    fn new(settings: Settings, remedy: Remedy, field: &'static str, value: impl Into<String>) -> Self {
        Self { settings, numbered: false, remedy, change: (field, value.into()) }
    }

    /// Another kernel.
    fn kernel(now: &Settings, remedy: Remedy, text: String) -> Self {
        let value = format!("\"{text}\"");
        Self::new(Settings { kernel: text, ..now.clone() }, remedy, "Settings::kernel", value)
    }
}

/// Changes that may pay, the most useful ones first. `along` is the input of a series or a forecast.
pub(super) fn candidates(fitted: &Fitted, data: &Dataset, along: Option<usize>, found: &[Finding]) -> Vec<Candidate> {
    let now = &fitted.settings;
    let drift = found.iter().find_map(|found| match found {
        Finding::Drift { along } => Some(*along),
        _ => None,
    });
    let drifting = match drift {
        Some(Along::Input(input)) => Some(input),
        _ => None,
    };
    let mut all = Vec::new();
    if let Some(input) = along.or(drifting) {
        all.extend(trends(fitted, data, input));
    }
    all.extend(transform(now, data));
    all.extend(kernels(now, data.d).map(|text| Candidate::kernel(now, Remedy::Kernel, text)));
    let y = data.y.as_deref().unwrap_or_default();
    if drift == Some(Along::Rows) && !is_arranged(&data.x, data.d, y) {
        let candidate = Candidate::new(now.clone(), Remedy::OrderAsInput, "", "");
        all.push(Candidate { numbered: true, ..candidate });
    }
    if now.calibrate == Calibrate::No {
        let settings = Settings { calibrate: Calibrate::Yes, ..now.clone() };
        let heavy = found.iter().any(|found| matches!(found, Finding::HeavyTails { .. }));
        let remedy = if heavy { Remedy::HeavyTails } else { Remedy::Calibrate };
        all.push(Candidate::new(settings, remedy, "Settings::calibrate", "yes"));
    }
    all
}

/// A trend along an input, and a season where the input is a time or evenly spaced.
fn trends(fitted: &Fitted, data: &Dataset, input: usize) -> Vec<Candidate> {
    let (now, name) = (&fitted.settings, &data.feature_names[input]);
    let text = &now.kernel;
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let column = if plain { name.clone() } else { input.to_string() };
    let form = |name: &str, more: &str| {
        let dims = if data.d == 1 { String::new() } else { format!("dims=[{column}]") };
        let inside = [more, &dims].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        if inside.is_empty() { name.to_string() } else { format!("{name}({inside})") }
    };
    let has_trend = text.contains("linear") || now.mean == "linear";
    let trend = if has_trend { text.clone() } else { format!("{text} + {}", form("linear", "")) };
    let mut all = Vec::new();
    if !has_trend {
        all.push(Candidate::kernel(now, Remedy::Trend, trend.clone()));
    }
    let x: Vec<f64> = (0..data.n).map(|row| data.row(row)[input]).collect();
    let dates = fitted.schema.features.iter().any(|c| c.name == *name && c.encoding == Encoding::Date);
    if !text.contains("periodic") && (dates || is_even(&x)) {
        for period in periods(&x, data.y.as_deref().unwrap_or_default()) {
            let season = form("periodic", &format!("period={}, fix=period", crate::params::shown(period)));
            all.push(Candidate::kernel(now, Remedy::Season, format!("{trend} + {season}")));
            all.push(Candidate::kernel(now, Remedy::Season, format!("{trend} + {season} * {}", form("rbf", ""))));
        }
    }
    all
}

/// The logarithm of a target that allows it, or the target itself in its place.
fn transform(now: &Settings, data: &Dataset) -> Option<Candidate> {
    let least = data.y.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let (target_transform, name, remedy) = match now.target_transform {
        TargetTransform::Identity if least > 0.0 => (TargetTransform::Log, "log", Remedy::LogTarget),
        TargetTransform::Identity if least == 0.0 => (TargetTransform::Log1p, "log1p", Remedy::LogTarget),
        TargetTransform::Identity => return None,
        _ => (TargetTransform::Identity, "none", Remedy::PlainTarget),
    };
    let settings = Settings { target_transform, ..now.clone() };
    Some(Candidate::new(settings, remedy, "Settings::target_transform", name))
}

/// A smoother or rougher kernel, one lengthscale for all `d` columns, and a linear part.
fn kernels(now: &Settings, d: usize) -> impl Iterator<Item = String> {
    let text = &now.kernel;
    let swapped = |from: &str, to: &str| text.contains(from).then(|| text.replace(from, to));
    let other = swapped("matern12", "matern32").or(swapped("matern32", "rbf")).or(swapped("rbf", "matern32"));
    let isotropic = swapped("(ard)", "").filter(|_| d > 1);
    let linear = (!text.contains("linear") && now.mean != "linear").then(|| format!("{text} + linear"));
    [other, isotropic, linear].into_iter().flatten()
}
