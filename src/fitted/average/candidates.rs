//! The models that an average consists of.

use super::transforms::warped;
use crate::data::{Dataset, Schema, TargetTransform, WarpKind};
use crate::error::{Error, Result};
use crate::fitted::{Cost, Settings};
use crate::models::experts::ExpertsOptions;
use crate::models::label_regression::LabelRegressionOptions;
use crate::models::nearest::NearestOptions;
use crate::models::options::{Kind, ModelChoice};
use crate::models::svgp::SvgpOptions;

/// The text that stands for a kernel and asks for an average over kernels.
pub const AVERAGE: &str = "average";

/// The same without models of the target's logarithm.
const PLAIN: &str = "average(log=false)";

/// The text that stands for a kernel and asks for an average of models for many rows, each with the default kernel.
pub const OF_MODELS: &str = "average(models)";

/// The same without the target's logarithm.
const PLAIN_MODELS: &str = "average(models,log=false)";

/// The same without any trial of transforms, where time is short.
pub const UNTRIED_MODELS: &str = "average(models,trials=false)";

/// The most rows that experts are trained on beside nearest rows: a step of theirs takes a million operations for each.
pub const MANY: usize = 50_000;

/// The fewest rows of classes of which a regression of labels predicts well.
pub const OF_LABELS: usize = 1_000;

/// What an average consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fitted) enum Asked {
    /// Several kernels, and models of the target's logarithm if `log`.
    Kernels {
        /// Whether these models may be among them.
        log: bool,
    },
    /// Models for many rows, after trials of transforms.
    Models {
        /// Whether the target's logarithm is tried too.
        log: bool,
    },
    /// Models for many rows as they are.
    Untried,
}

/// A model of the nearest rows, perhaps also on transformed `inputs`, and experts, which know more than the nearest
/// rows; or of classes a regression of labels and a variational model; each as `settings` say if they are for one of
/// them. The kernel is the default one. The first is trained sooner, and others gain from the parameters that it ends
/// at.
pub(in crate::fitted) fn models(settings: &Settings, inputs: Option<WarpKind>) -> Vec<Settings> {
    let of = |kind: &str, usual: ModelChoice| {
        let model = if settings.model.kind() == kind { settings.model.clone() } else { usual };
        Settings { kernel: Settings::default().kernel, model, ..settings.clone() }
    };
    if !settings.likelihood.starts_with("gaussian") {
        let labels = of(LabelRegressionOptions::NAME, LabelRegressionOptions::default().into());
        return vec![labels, of(SvgpOptions::NAME, SvgpOptions::default().into())];
    }
    let nearest = of(NearestOptions::NAME, NearestOptions::default().into());
    let more = inputs.map(|kind| warped(&nearest, kind));
    let experts = of(ExpertsOptions::NAME, ExpertsOptions::default().into());
    [nearest].into_iter().chain(more).chain([experts]).collect()
}

/// Kernels that differ in how rough functions are, in whether columns have lengthscales of their own, and in whether
/// there is a linear trend, or nothing else. `docs/average.md` compares families.
const KERNELS: [&str; 6] = ["matern32(ard)", "matern12(ard)", "rbf(ard)", SHARED, "linear + matern32(ard)", "linear"];

/// The kernel with one lengthscale for all columns.
const SHARED: &str = "rbf";

/// A kernel that is worth its time for real targets only.
const ROUGH: &str = "matern12(ard)";

/// So many rows are on a line, or nearly, whatever the function: a linear trend would be certain of itself everywhere.
const LINEAR: &str = "linear";
const ON_A_LINE: usize = 3;

/// A linear function of real targets with an offset, whose variance stays as it is. Rows and targets are centred by
/// their own means. So with more columns than rows and without an offset, each row would follow from all others, and
/// the evidence would grow without a bound as the noise falls.
pub(in crate::fitted) const LINE: &str = "linear + constant(fix=variance)";

/// The kernel of models of the target's logarithm, where a linear trend would be an exponential one of the target, and
/// of models of transformed inputs.
pub(in crate::fitted) const USUAL: &str = "matern32(ard)";

/// Fewer rows do not tell how an input is spread, or whether errors grow with the target; a model of its logarithm
/// would only make predictions depend on where the target has its zero.
pub(in crate::fitted) const TELL: usize = 20;

/// The settings of the models of an average: one for each kernel of a small family. Of real targets whose noise is not
/// known for each row, and of 20 rows or more, also one on ranks of the inputs, if there are several and nothing is
/// asked of them; with `log`, if no target is negative and no transform is asked for, also one of the target's
/// logarithm, or that of 1 + target. The kernel of `settings` does not matter.
pub fn candidates(settings: &Settings, data: &Dataset, log: bool) -> Vec<Settings> {
    let gaussian = settings.likelihood.starts_with("gaussian");
    let open = gaussian && settings.auxiliary_column.is_none() && data.n >= TELL;
    let with = |kernel: &str| Settings { kernel: kernel.into(), ..settings.clone() };
    let member = |kernel: &str| with(if kernel == LINEAR && gaussian { LINE } else { kernel });
    // With one column, the kernel with one lengthscale is another member's.
    let inputs = data.d - usize::from(settings.auxiliary_column.is_some()).min(data.d);
    let mut all: Vec<Settings> = KERNELS
        .into_iter()
        .filter(|kernel| (inputs > 1 || *kernel != SHARED) && (gaussian || *kernel != ROUGH))
        .filter(|kernel| data.n > ON_A_LINE || !kernel.starts_with(LINEAR))
        .map(member)
        .collect();
    let uneven = open && inputs > 1 && settings.standardize && settings.input_transform.is_auto();
    all.extend(uneven.then(|| warped(&with(USUAL), WarpKind::Ranks)));
    let untransformed = log && open && settings.target_transform == TargetTransform::Identity;
    let logarithm = TargetTransform::logarithm(data.y.as_deref().unwrap_or_default());
    all.extend(
        logarithm.filter(|_| untransformed).map(|target_transform| Settings { target_transform, ..with(USUAL) }),
    );
    all
}

/// The same for a table: of several series along one input, the kernel with one lengthscale is another member's too,
/// and the input is even.
pub(in crate::fitted) fn of_table(settings: &Settings, schema: &Schema, data: &Dataset, log: bool) -> Vec<Settings> {
    let mut all = candidates(settings, data, log);
    let several = schema.series().is_some() && schema.d() <= 2;
    let is_auto = settings.input_transform.is_auto();
    all.retain(|one| !several || one.kernel != SHARED && one.input_transform.is_auto() == is_auto);
    all
}

/// Seconds that one core takes for an average with so many rows and columns, roughly: those of four or five single fits
/// in `docs/defaults.md`, since members with one lengthscale or none take little. For Laplace's approximation, each
/// evaluation of the objective searches for the mode.
pub fn seconds(rows: usize, columns: usize, exact: bool) -> f64 {
    let thousands = rows as f64 / 1e3;
    let solves = if exact { 1.0 } else { MODE };
    5.0 * (solves * 0.6 * thousands.powi(3) + 0.12 * columns as f64 * thousands.powi(2))
}

/// What a regression of the labels of so many rows takes on two cores for its factor.
pub fn cost_of_labels(rows: usize) -> Cost {
    let rows = rows.min(LabelRegressionOptions::default().rows) as f64;
    Cost { seconds: 4.0 * (rows / 1e4).powi(3), bytes: 16.0 * rows * rows }
}

/// Solves of one evaluation under Laplace's approximation, those of the exact model being one.
const MODE: f64 = 15.0;

/// Whether settings ask for an average, and of what.
///
/// # Errors
/// [`Error::Usage`] for other arguments of an average.
pub(in crate::fitted) fn asked(settings: &Settings) -> Result<Option<Asked>> {
    let text: String = settings.kernel.split_whitespace().collect();
    match text.as_str() {
        AVERAGE => Ok(Some(Asked::Kernels { log: true })),
        PLAIN => Ok(Some(Asked::Kernels { log: false })),
        OF_MODELS => Ok(Some(Asked::Models { log: true })),
        PLAIN_MODELS => Ok(Some(Asked::Models { log: false })),
        UNTRIED_MODELS => Ok(Some(Asked::Untried)),
        other if other.starts_with("average(") => Err(Error::Usage(format!(
            "kernel `{}`: an average is written `{AVERAGE}`, or `{OF_MODELS}` for many rows; `{PLAIN}` and \
             `{PLAIN_MODELS}` take no logarithm of the target, and `{UNTRIED_MODELS}` tries no transforms",
            settings.kernel
        ))
        .about("Settings::kernel")),
        _ => Ok(None),
    }
}
