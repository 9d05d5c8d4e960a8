//! Other settings, tried on the training rows before they are advised.
//!
//! Each alternative changes one setting, is trained briefly by the exact model, and must predict rows better that it
//! was not trained on: each row from all others, or the later rows of a series from the earlier ones. Densities are
//! those of the target in the data's units, whatever its transform.

mod candidates;
mod series;
mod trial;

use std::time::{Duration, Instant};

use super::copies::copied;
use super::{Fitted, Registry, Settings};
use crate::advice::Advice;
use crate::data::{Dataset, Split, TargetScale, TargetTransform};
use crate::error::Result;
use crate::metrics::diagnosis::{Finding, Remedy};
use candidates::{Candidate, candidates};
pub use series::is_series;
pub(super) use series::periods;
use trial::{Gain, Scores, Trial};

/// Settings that predict rows better that they were not trained on.
#[derive(Debug, Clone)]
pub struct Alternative {
    /// The settings, with one changed.
    pub settings: Settings,
    /// Whether the number of the row is an input too.
    pub numbered: bool,
    /// What kind of change it is.
    pub remedy: Remedy,
    /// How much the log density of such a row rises, in nats.
    pub gain: f64,
    /// The gain in words, and the changed setting.
    pub advice: Advice,
}

/// Most rows that alternatives are tried on.
const MOST: usize = 500;
/// With fewer rows, nothing is tried.
const FEW: usize = 20;

impl Fitted {
    /// Alternatives that predict better, the best first, as far as `time` allows to try them; `found` is what is known
    /// about errors. Rows beyond the training rows ask for forecasts of the later training rows along that input. None
    /// if the model does not hold its rows, has known noise, or is for targets that are not Gaussian.
    ///
    /// # Errors
    /// Errors of leaving rows out. An alternative that cannot be trained is left out.
    pub fn alternatives(&self, found: &[Finding], time: Duration, registry: &Registry) -> Result<Vec<Alternative>> {
        let known = self.settings.auxiliary_column.is_some();
        // An average has tried several kernels, and a change of one member is none of the average.
        if !self.members.is_empty()
            || !self.is_gaussian()
            || known
            || self.data.n() < FEW
            || self.summary.iterations == 0
        {
            return Ok(Vec::new());
        }
        let beyond = found.iter().find_map(|found| match found {
            Finding::Beyond { input, .. } => Some(*input),
            _ => None,
        });
        let along = beyond.or_else(|| self.series());
        let mut rows: Vec<usize> = (0..self.data.n()).collect();
        let mut data = self.rows_of_user()?;
        if data.n > MOST {
            rows = some(&data, along)?;
            data = data.subset(&rows);
        }
        let forecasts = along.map_or(Vec::new(), |input| forecasts(&data, input));
        let copied = copied(&self.data);
        let judged = (0..data.n).filter(|row| beyond.is_none() && !copied[rows[*row]]).collect();
        let trial = Trial { fitted: self, registry, data, judged, forecasts, until: Instant::now() + time };
        let Some(before) = trial.present() else { return Ok(Vec::new()) };
        let all = candidates(self, &trial.data, along, found).into_iter();
        let mut paid: Vec<Alternative> = all.filter_map(|candidate| tried(&trial, &before, candidate)).collect();
        paid.sort_by(|a, b| b.gain.total_cmp(&a.gain));
        Ok(paid)
    }

    /// The input along which the rows are a series: the only one, if it has dates or evenly spaced values in order.
    pub fn series(&self) -> Option<usize> {
        is_series(&self.schema, &self.data.x, self.data.d).then_some(0)
    }

    /// The training rows in the data's units.
    fn rows_of_user(&self) -> Result<Dataset> {
        // 0 comes back from its standardised value with a rounding error.
        let TargetScale { transform, sd, .. } = self.target_scale;
        let least = if transform == TargetTransform::Identity { 1e-9 * sd } else { 0.0 };
        let of_user = |z: &f64| Some(self.target_scale.inverse(*z)).filter(|y| y.abs() > least).unwrap_or(0.0);
        let y = self.data.y.iter().map(of_user).collect();
        let names = self.schema.feature_names();
        Dataset::new(names, self.input_scale.invert(&self.data.x)?)?.with_target(self.schema.target.clone(), y)
    }
}

/// A candidate, if it pays.
fn tried(trial: &Trial, before: &Scores, candidate: Candidate) -> Option<Alternative> {
    let Gain { nats, what, nlpd: [now, then] } =
        before.gain(&trial.scores(&candidate.settings, candidate.numbered)?)?;
    if !trial.is_taken(&candidate) {
        return None;
    }
    let Candidate { settings, numbered, remedy, change: (field, value) } = candidate;
    let of = match trial.data.n < trial.fitted.summary.rows {
        true => format!(", tried on {} rows", trial.data.n),
        false => String::new(),
    };
    let text = format!("gains {nats:.2} nats a row on {what} (NLPD {now:.2} → {then:.2}{of})");
    let advice = if numbered { Advice::from(text) } else { Advice::from(text).set(field, value) };
    Some(Alternative { settings, numbered, remedy, gain: nats, advice })
}

/// The last rows along an input, or rows at random, in the order of the table.
fn some(data: &Dataset, along: Option<usize>) -> Result<Vec<usize>> {
    let Some(input) = along else { return Ok(Split::random(data.n, MOST as f64 / data.n as f64, 0)?.test) };
    let mut last = ordered(data, input)[data.n - MOST..].to_vec();
    last.sort_unstable();
    Ok(last)
}

fn ordered(data: &Dataset, input: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..data.n).collect();
    order.sort_by(|a, b| data.row(*a)[input].total_cmp(&data.row(*b)[input]));
    order
}

/// The last two fifths of the rows along an input, each forecast from all rows before it.
fn forecasts(data: &Dataset, input: usize) -> Vec<Split> {
    let order = ordered(data, input);
    let part = |from: usize, to: usize| {
        let (train, test) = (order[..data.n * from / 5].to_vec(), order[data.n * from / 5..data.n * to / 5].to_vec());
        Split { train, test }
    };
    vec![part(3, 4), part(4, 5)]
}
