//! Changes of the settings that may predict better. None repeats what the settings have, or adds what they refuse.

use super::series::{is_even, periods};
use super::trial::Way;
use crate::arithmetic::ends;
use crate::data::{Dataset, TargetTransform};
use crate::fitted::average::{AVERAGE, LINE, USUAL};
use crate::fitted::copies::is_arranged;
use crate::fitted::{Calibrate, Fitted, Registry, Settings};
use crate::metrics::diagnosis::{Along, Finding, Remedy};
use crate::models::laplace::LaplaceOptions;
use crate::models::options::{Kind, ModelChoice};
use crate::models::registry::usual;
use crate::models::state_space::StateSpaceOptions;
use crate::models::svgp::SvgpOptions;

/// A change of the settings that may pay.
pub(super) struct Candidate {
    pub settings: Settings,
    /// Whether the number of the row becomes an input.
    pub numbered: bool,
    pub remedy: Remedy,
    /// The settings that differ, and their new values as they are given.
    pub changes: Vec<(&'static str, String)>,
}

impl Candidate {
    /// The same settings but for one.
    fn new(settings: Settings, remedy: Remedy, field: &'static str, value: impl Into<String>) -> Self {
        Self { settings, numbered: false, remedy, changes: vec![(field, value.into())] }
    }

    /// How it is compared with the present settings.
    pub(super) fn way(&self) -> Way {
        match self.settings.likelihood.as_str() {
            _ if self.settings.is_gaussian() => Way::LeftOut,
            "poisson" | "negative-binomial" => Way::CountedHalves,
            _ => Way::Halves,
        }
    }

    /// The same change for an average over kernels, unless it names a kernel; `plain` has what was asked of the inputs.
    pub(super) fn for_average(self, plain: &Settings) -> Self {
        if self.changes.iter().any(|(field, _)| *field == "Settings::kernel") {
            return self;
        }
        let input_transform = plain.input_transform.clone();
        Self { settings: Settings { kernel: AVERAGE.into(), input_transform, ..self.settings }, ..self }
    }

    /// Another kernel.
    fn kernel(now: &Settings, remedy: Remedy, text: String) -> Self {
        let value = format!("\"{text}\"");
        Self::new(Settings { kernel: text, ..now.clone() }, remedy, "Settings::kernel", value)
    }
}

/// Changes that may pay, the most useful ones first. `along` is the input of a series or a forecast.
pub(super) fn candidates(
    fitted: &Fitted,
    data: &Dataset,
    along: Option<usize>,
    found: &[Finding],
    registry: &Registry,
) -> Vec<Candidate> {
    let now = &fitted.settings;
    let drifting = found.iter().find_map(|found| match found {
        Finding::Drift { along: Along::Input(input) } => Some(*input),
        _ => None,
    });
    let mut all = Vec::new();
    if let Some(input) = along.or(drifting) {
        all.extend(trends(fitted, data, input));
    }
    all.extend(transform(now, data));
    let others = kernels(now, data.d).map(|text| Candidate::kernel(now, Remedy::Kernel, text));
    let others: Vec<_> =
        others.filter(|one| all.iter().all(|had| had.settings.kernel != one.settings.kernel)).collect();
    all.extend(others);
    all.extend(numbered(now, data, found));
    if now.calibrate == Calibrate::No {
        let settings = Settings { calibrate: Calibrate::Yes, ..now.clone() };
        let heavy = found.iter().any(|found| matches!(found, Finding::HeavyTails { .. }));
        let remedy = if heavy { Remedy::HeavyTails } else { Remedy::Calibrate };
        all.push(Candidate::new(settings, remedy, "Settings::calibrate", "yes"));
    }
    // Their trials take longest: if the time is limited, others come first.
    all.extend(likelihoods(fitted, now, data.y.as_deref().unwrap_or_default(), found, registry));
    all
}

/// Of an average over kernels, the logarithm of the target for all members, if the average does not have it anyway, the
/// number of the row as an input, and other likelihoods with the kernel of the heaviest member that has the target as
/// it is and is not a line, or the usual one; `along` the input of a series, also a trend and a season with the kernel
/// of the heaviest member. What they gain is compared with that one.
pub(super) fn of_average(
    fitted: &Fitted,
    data: &Dataset,
    along: Option<usize>,
    found: &[Finding],
    registry: &Registry,
) -> Vec<Candidate> {
    let Some(lead) = fitted.members().first().map(|member| &member.fitted) else { return Vec::new() };
    let transform_of = |fitted: &Fitted| fitted.settings.target_transform;
    let same = fitted.members().iter().all(|member| transform_of(&member.fitted) == transform_of(lead));
    let logarithmic = transform_of(lead) != TargetTransform::Identity;
    let with_kernel = |mut candidate: Candidate| {
        candidate.changes.push(("Settings::kernel", format!("\"{}\"", candidate.settings.kernel)));
        let plain = logarithmic.then(|| TargetTransform::Identity.name().into());
        candidate.changes.extend(plain.map(|name| ("Settings::target_transform", name)));
        candidate
    };
    let is_plain = |own: &&Fitted| transform_of(own) == TargetTransform::Identity && own.settings.kernel != LINE;
    let plain = fitted.members().iter().map(|member| &member.fitted).find(is_plain);
    let now = match plain {
        Some(own) => own.settings.clone(),
        None => {
            let settings = fitted.plain_settings().clone();
            Settings { kernel: USUAL.into(), target_transform: TargetTransform::Identity, ..settings }
        }
    };
    let others = likelihoods(plain.unwrap_or(lead), &now, data.y.as_deref().unwrap_or_default(), found, registry);
    let transform = transform(&lead.settings, data).filter(|_| same);
    // Structural kernels have weighed them already.
    let along = along.filter(|_| lead.settings.model.kind() != StateSpaceOptions::NAME);
    let mut trends = along.map_or(Vec::new(), |input| trends(lead, data, input));
    // Among members with and without the logarithm, the one with it was not asked for.
    if !same && logarithmic {
        let name = transform_of(lead).name();
        trends.iter_mut().for_each(|trend| trend.changes.push(("Settings::target_transform", name.into())));
    }
    let mut named: Vec<Candidate> = trends.into_iter().chain(others.into_iter().map(with_kernel)).collect();
    // Nor were ranks of the inputs, where other members do without.
    let asked = &fitted.plain_settings().input_transform;
    for Candidate { settings: Settings { input_transform: own, .. }, changes, .. } in &mut named {
        changes.extend(own.all.filter(|_| own != asked).map(|kind| ("Settings::input_transform", kind.to_string())));
    }
    transform.into_iter().chain(numbered(&lead.settings, data, found)).chain(named).collect()
}

/// The number of the row as an input, where errors drift along rows that are in no other order.
fn numbered(now: &Settings, data: &Dataset, found: &[Finding]) -> Option<Candidate> {
    let drifts = found.iter().any(|found| matches!(found, Finding::Drift { along: Along::Rows }));
    let open = drifts && !is_arranged(&data.x, data.d, data.y.as_deref().unwrap_or_default());
    let (settings, remedy) = (now.clone(), Remedy::OrderAsInput);
    open.then(|| Candidate { settings, numbered: true, remedy, changes: Vec::new() })
}

/// Larger counts are nearly continuous.
const LARGEST_COUNT: f64 = 2000.0;
/// Up to so many rows, Laplace's approximation is the model for other likelihoods.
const FOR_LAPLACE: usize = 2000;
/// With a smaller share of noise in the target's variance, what its distribution is hardly matters, and its mode is
/// hard to find.
const NOISY: f64 = 1e-3;
/// Student-t residuals with fewer degrees of freedom have heavy tails.
const HEAVY: f64 = 10.0;

/// Likelihoods for the kind of target: counts, positive numbers, heavy tails, noise that varies.
fn likelihoods(fitted: &Fitted, now: &Settings, y: &[f64], found: &[Finding], registry: &Registry) -> Vec<Candidate> {
    let kind = now.model.kind();
    // A state-space model takes only some, and other kernels than it has are for others.
    let takes_any = kind != StateSpaceOptions::NAME && registry.models.row(kind).is_some_and(|row| row.any_likelihood);
    // Options of the exact model are not for others.
    let model: ModelChoice = match (takes_any, now.model == usual()) {
        (true, _) => now.model.clone(),
        (_, true) if fitted.summary.rows <= FOR_LAPLACE => LaplaceOptions::default().into(),
        (_, true) => SvgpOptions::default().into(),
        _ => return Vec::new(),
    };
    let exact_rows = fitted.noise().is_none_or(|noise| noise < NOISY);
    if now.target_transform != TargetTransform::Identity || now.likelihood != "gaussian" || exact_rows {
        return Vec::new();
    }
    let (least, most) = ends(y);
    let counts = least >= 0.0 && most <= LARGEST_COUNT && most > 1.0 && y.iter().all(|y| y.fract() == 0.0);
    let heavy =
        fitted.calibration.is_some_and(|c| c.shape.share > 0.0 || c.shape.parts[0].df.is_some_and(|df| df < HEAVY))
            || found.iter().any(|found| matches!(found, Finding::HeavyTails { .. }));
    let varies = found.iter().any(|found| matches!(found, Finding::NoiseVaries { .. }));
    let asked = [
        (counts, "poisson", Remedy::Likelihood),
        (counts, "negative-binomial", Remedy::Likelihood),
        (least > 0.0 && !counts, "gamma", Remedy::Likelihood),
        (least > 0.0 && most < 1.0, "beta", Remedy::Likelihood),
        (heavy, "student-t", Remedy::HeavyTails),
        (varies, "heteroscedastic", Remedy::Heteroscedastic),
    ];
    let candidate = |(_, name, remedy): (bool, &str, Remedy)| {
        let settings = Settings { likelihood: name.into(), model: model.clone(), ..now.clone() };
        let mut all = Candidate::new(settings, remedy, "Settings::likelihood", name);
        if model != now.model {
            all.changes.push(("Settings::model", model.kind().into()));
        }
        all
    };
    asked.into_iter().filter(|(applies, ..)| *applies).map(candidate).collect()
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
    let dates = fitted.schema.features.iter().any(|c| c.name == *name && c.encoding.is_date());
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
    let (target_transform, remedy) = match now.target_transform {
        TargetTransform::Identity => {
            (TargetTransform::logarithm(data.y.as_deref().unwrap_or_default())?, Remedy::LogTarget)
        }
        _ => (TargetTransform::Identity, Remedy::PlainTarget),
    };
    let settings = Settings { target_transform, ..now.clone() };
    Some(Candidate::new(settings, remedy, "Settings::target_transform", target_transform.name()))
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
