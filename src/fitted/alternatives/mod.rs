//! Other settings, tried on the training rows before they are advised.
//!
//! Each alternative changes one setting, is trained briefly on some hundred rows by the exact model (another likelihood
//! by Laplace's approximation), and must predict rows better that it was not trained on: each row from all others, one
//! half of the rows from the other, or the later rows of a series from the earlier ones. Densities are those of the
//! target in the data's units, whatever its transform.

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
use candidates::{Candidate, candidates, of_average};
use series::is_series;
pub(super) use series::{distinct, further, in_order, is_even, is_single, median_gap, periods, repeats, span};
use trial::{Gain, Trial, most_rows};

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

/// With fewer rows, nothing is tried.
const FEW: usize = 20;
/// Gains that are alike, in nats a row.
const ALIKE: f64 = 0.05;

impl Fitted {
    /// Alternatives that predict better, the best first; `found` is what is known about errors. Rows beyond the
    /// training rows ask for forecasts of the later training rows along that input. The work is limited by the number
    /// of rows, so a table has the same alternatives on any machine, unless `time` is limited. None if the model does
    /// not hold its rows, has known noise, or is for targets that are not Gaussian. An average has weighed kernels
    /// itself, so for it only the logarithm of the target, the number of the row, other likelihoods, and of a series a
    /// trend and a season are tried.
    ///
    /// # Errors
    /// Errors of leaving rows out. An alternative that cannot be trained is left out.
    pub fn alternatives(
        &self,
        found: &[Finding],
        time: Option<Duration>,
        registry: &Registry,
    ) -> Result<Vec<Alternative>> {
        let known = self.settings.auxiliary_column.is_some();
        if !self.is_gaussian() || known || self.data.n() < FEW || self.summary.iterations == 0 {
            return Ok(Vec::new());
        }
        let beyond = found.iter().find_map(|found| match found {
            Finding::Beyond { input, .. } => Some(*input),
            _ => None,
        });
        let along = beyond.or_else(|| self.series());
        let mut rows: Vec<usize> = (0..self.data.n()).collect();
        let (mut data, most) = (self.rows_of_user()?, most_rows(self.data.d));
        if data.n > most {
            rows = some(&data, along, most)?;
            data = data.subset(&rows);
        }
        let copied = copied(&self.data.x, self.data.d, &self.data.y);
        let trial = Trial {
            fitted: self.members.first().map_or(self, |member| &member.fitted),
            registry,
            judged: (0..data.n).filter(|row| beyond.is_none() && !copied[rows[*row]]).collect(),
            forecasts: along.map_or(Vec::new(), |input| forecasts(&data, input)),
            data,
            beside: self.members.iter().skip(1).map(|member| &member.fitted.settings).collect(),
            until: time.map(|time| Instant::now() + time),
            before: Default::default(),
        };
        let all = match self.members.is_empty() {
            true => candidates(self, &trial.data, along, found, registry),
            false => of_average(self, &trial.data, along, found, registry),
        };
        let tried = |candidate: Candidate| {
            let gain = trial.gain(&candidate)?;
            let average = !self.members.is_empty();
            let candidate = if average { candidate.for_average(self.plain_settings()) } else { candidate };
            Some(told(candidate, gain, trial.data.n, self.summary.rows))
        };
        let mut paid: Vec<Alternative> = all.into_iter().filter_map(tried).collect();
        // Those that gain alike stay in the order of the candidates: a season comes before its multiple.
        let step = |paid: &Alternative| (paid.gain / ALIKE).round();
        paid.sort_by(|a, b| step(b).total_cmp(&step(a)));
        Ok(paid)
    }

    /// The input along which the rows are a series: the only one, if it has dates or evenly spaced values in order.
    pub fn series(&self) -> Option<usize> {
        is_series(&self.schema, &self.data.x, self.data.d).then_some(0)
    }

    /// The training rows in the data's units.
    fn rows_of_user(&self) -> Result<Dataset> {
        // Whole numbers, such as 0, come back from their standardised values with a rounding error.
        let TargetScale { transform, sd, .. } = self.target_scale;
        let size = |y: f64| match transform {
            TargetTransform::Identity => sd,
            TargetTransform::Log => y,
            TargetTransform::Log1p => 1.0 + y,
        };
        let whole = |y: f64| if (y - y.round()).abs() < 1e-9 * size(y) { y.round() } else { y };
        let of_user = |z: &f64| whole(self.target_scale.inverse(*z));
        let y = self.data.y.iter().map(of_user).collect();
        let names = self.schema.feature_names();
        Dataset::new(names, self.input_scale.invert(&self.data.x)?)?.with_target(self.schema.target.clone(), y)
    }
}

/// A candidate that pays, tried on `n` of `rows` rows.
fn told(candidate: Candidate, gain: Gain, n: usize, rows: usize) -> Alternative {
    let Candidate { settings, numbered, remedy, changes } = candidate;
    let Gain { nats, what, nlpd: [now, then] } = gain;
    let of = if n < rows { format!(", tried on {n} rows") } else { String::new() };
    let text = format!("gains {nats:.2} nats a row on {what} (NLPD {now:.2} → {then:.2}{of})");
    let set = |advice: Advice, (field, value)| advice.set(field, value);
    let advice = changes.into_iter().fold(Advice::from(text), set);
    Alternative { settings, numbered, remedy, gain: nats, advice }
}

/// The last rows along an input, or rows at random, in the order of the table.
fn some(data: &Dataset, along: Option<usize>, most: usize) -> Result<Vec<usize>> {
    let Some(input) = along else { return Ok(Split::random(data.n, most as f64 / data.n as f64, 0)?.test) };
    let mut last = in_order(data.n, |row| data.row(row)[input])[data.n - most..].to_vec();
    last.sort_unstable();
    Ok(last)
}

/// The last two fifths of the rows along an input, each forecast from all rows before it.
fn forecasts(data: &Dataset, input: usize) -> Vec<Split> {
    let order = in_order(data.n, |row| data.row(row)[input]);
    let part = |from: usize, to: usize| {
        let (train, test) = (order[..data.n * from / 5].to_vec(), order[data.n * from / 5..data.n * to / 5].to_vec());
        Split { train, test }
    };
    vec![part(3, 4), part(4, 5)]
}
