//! Whether a model has learned anything: its predictions of training rows against those that need no inputs.

use super::Fitted;
use crate::advice::Advice;
use crate::error::Result;
use crate::metrics::{loss_of_shares, score_classes};
use crate::models::Observations;
use crate::models::minibatch::Rows;
use crate::params::shown;

/// With fewer rows, the mean may well be the best prediction.
const FEW: usize = 20;

/// Most rows to compare.
const ROWS: usize = 1000;

/// A model that gains less than this on rows that it was trained on knows nothing of others: in R², or in nats per row.
const NOTHING: f64 = 1e-3;

impl Fitted {
    /// A warning if predictions of training rows are no better than the shares of the classes, or than the mean.
    /// `rows` are standardised, as the model saw them.
    ///
    /// # Errors
    /// As [`targets_at`](Self::targets_at).
    pub(super) fn useless(&self, rows: &Observations) -> Result<Option<Advice>> {
        let n = rows.n();
        if n < FEW || self.summary.iterations == 0 {
            return Ok(None);
        }
        let rows = rows.gather(&(0..n).step_by(n.div_ceil(ROWS)).collect::<Vec<_>>())?;
        if rows.y.iter().all(|y| *y == rows.y[0]) {
            return Ok(None);
        }
        if self.is_gaussian() {
            return Ok(no_better_than_the_mean(&rows.y, &self.posterior.mean(&rows.x)?));
        }
        let predictions = self.targets_at(&rows.x, rows.auxiliary.as_deref())?;
        match predictions.iter().map(|p| p.probabilities()).collect::<Option<Vec<_>>>() {
            Some(probabilities) => {
                let labels: Vec<usize> = rows.y.iter().map(|y| *y as usize).collect();
                no_better_than_the_shares(&labels, &probabilities)
            }
            None => {
                let means: Vec<f64> = predictions.iter().map(|p| p.standardised.mean()).collect();
                Ok(no_better_than_the_mean(&rows.y, &means))
            }
        }
    }
}

/// A warning if squared errors are no smaller than those of the mean, nor absolute ones than those of the median: a few
/// outliers, to which a robust likelihood pays no attention, would be all of the variance.
fn no_better_than_the_mean(y: &[f64], predicted: &[f64]) -> Option<Advice> {
    let mut sorted = y.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (mean, median) = (y.iter().sum::<f64>() / y.len() as f64, sorted[y.len() / 2]);
    let gained = |centre: f64, error: fn(f64) -> f64| {
        let left: f64 = y.iter().zip(predicted).map(|(y, p)| error(y - p)).sum();
        1.0 - left / y.iter().map(|y| error(y - centre)).sum::<f64>()
    };
    let (r2, of_sizes) = (gained(mean, |error| error * error), gained(median, f64::abs));
    let useless = r2 <= NOTHING && of_sizes <= NOTHING;
    useless.then(|| warning(&format!("the mean of the target (R² {})", shown(r2))))
}

/// A warning if the log loss is no smaller than that of the shares of the classes.
fn no_better_than_the_shares(labels: &[usize], probabilities: &[Vec<f64>]) -> Result<Option<Advice>> {
    let counts = labels.iter().fold(vec![0; probabilities[0].len()], |mut counts, label| {
        counts[*label] += 1;
        counts
    });
    let shares = loss_of_shares(counts);
    let scores = score_classes(labels, probabilities)?;
    Ok((scores.log_loss > shares - NOTHING).then(|| {
        let auc = scores.auc.map_or(String::new(), |auc| format!(", AUC {}", shown(auc)));
        warning(&format!(
            "the shares of the classes (log loss {}, theirs {}{auc})",
            shown(scores.log_loss),
            shown(shares)
        ))
    }))
}

fn warning(than: &str) -> Advice {
    let text = format!(
        "nothing was learned: predictions of the training rows are no better than {than}. Check that the inputs matter \
         and have no extreme values, or try another kernel, other initial lengthscales or restarts"
    );
    Advice::from(text).about("Settings::kernel").about("Settings::init").set("TrainConfig::restarts", 5)
}
