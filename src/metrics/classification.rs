//! Scores of class probabilities.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How well class probabilities fit labels. The predicted class is the most probable one, the first if several are
/// equal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// Number of targets.
    pub n: usize,
    /// Share of targets whose class was predicted.
    pub accuracy: f64,
    /// Mean of `−ln p` of the true class, in nats.
    pub log_loss: f64,
    /// Mean of `(p₁ − y)²` for two classes and of `Σ (p_c − [c = y])²` for more (Brier 1950).
    pub brier: f64,
    /// Expected calibration error: `Σ n_b/n |accuracy − confidence|` over 15 bins of equal width (Guo et al. 2017).
    pub ece: f64,
    /// Area under the receiver operating characteristic; for more than two classes, the mean over each class against
    /// the rest. `None` unless every class has targets.
    pub auc: Option<f64>,
}

/// Bins of [`reliability`] and of the expected calibration error.
const BINS: usize = 15;

/// Scores probabilities `[n]` of `C` classes each against labels `[n]`, which are codes 0 to C − 1.
///
/// # Errors
/// [`Error::Shape`] for no targets or different lengths, [`Error::Data`] for a label that is not a class,
/// [`Error::NotFinite`] if probabilities are not numbers from 0 to 1.
pub fn score_classes(labels: &[usize], probabilities: &[Vec<f64>]) -> Result<ClassScores> {
    let classes = check(labels, probabilities)?;
    let n = labels.len() as f64;
    let pairs = || labels.iter().copied().zip(probabilities);
    let hits = pairs().filter(|(label, p)| most_probable(p) == *label).count();
    // A probability of 0 for the true class costs the logarithm of the smallest number, not infinity.
    let log_loss = pairs().map(|(label, p)| -p[label].max(f64::MIN_POSITIVE).ln()).sum::<f64>() / n;
    let squares = |label: usize, p: &[f64]| -> f64 {
        p.iter().enumerate().map(|(c, p)| (p - f64::from(u8::from(c == label))).powi(2)).sum()
    };
    let brier = pairs()
        .map(|(label, p)| if classes == 2 { (p[1] - label as f64).powi(2) } else { squares(label, p) })
        .sum::<f64>()
        / n;
    let ece = reliability(labels, probabilities)?
        .iter()
        .map(|bin| bin.count as f64 / n * (bin.accuracy - bin.confidence).abs())
        .sum();
    let against_rest = |class: usize| {
        let scores: Vec<f64> = probabilities.iter().map(|p| p[class]).collect();
        let positive: Vec<bool> = labels.iter().map(|label| *label == class).collect();
        auc(&positive, &scores)
    };
    let auc = if classes == 2 {
        against_rest(1)
    } else {
        let areas: Option<Vec<f64>> = (0..classes).map(against_rest).collect();
        areas.map(|areas| areas.iter().sum::<f64>() / classes as f64)
    };
    Ok(ClassScores { n: labels.len(), accuracy: hits as f64 / n, log_loss, brier, ece, auc })
}

/// The counts `[true class][predicted class]`.
///
/// # Errors
/// As [`score_classes`].
pub fn confusion(labels: &[usize], probabilities: &[Vec<f64>]) -> Result<Vec<Vec<usize>>> {
    let classes = check(labels, probabilities)?;
    let mut counts = vec![vec![0; classes]; classes];
    for (&label, p) in labels.iter().zip(probabilities) {
        counts[label][most_probable(p)] += 1;
    }
    Ok(counts)
}

/// The log loss of predictions that are the shares of the classes, in nats: what can be reached without inputs.
/// `counts` are the numbers of targets of each class.
pub fn loss_of_shares(counts: impl IntoIterator<Item = usize> + Clone) -> f64 {
    let n = counts.clone().into_iter().sum::<usize>() as f64;
    let present = counts.into_iter().filter(|count| *count > 0).map(|count| count as f64 / n);
    present.map(|share| -share * share.ln()).sum()
}

/// The targets whose predicted class has a probability in one bin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Mean probability of the predicted classes.
    pub confidence: f64,
    /// Share of them that were right; equal to the confidence for calibrated predictions.
    pub accuracy: f64,
    /// Number of targets.
    pub count: usize,
}

impl ReliabilityBin {
    /// Confidence, accuracy and number, as figures take them.
    pub fn parts(&self) -> (f64, f64, usize) {
        (self.confidence, self.accuracy, self.count)
    }
}

/// Confidence against accuracy in 15 bins of equal width from 0 to 1; empty bins are left out.
///
/// # Errors
/// As [`score_classes`].
pub fn reliability(labels: &[usize], probabilities: &[Vec<f64>]) -> Result<Vec<ReliabilityBin>> {
    check(labels, probabilities)?;
    let mut bins = vec![(0.0, 0, 0); BINS];
    for (&label, p) in labels.iter().zip(probabilities) {
        let class = most_probable(p);
        // Bins hold their upper ends: (0, 1/15], (1/15, 2/15], ….
        let place = ((p[class] * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        let (confidence, hits, count) = &mut bins[place];
        *confidence += p[class];
        *hits += usize::from(class == label);
        *count += 1;
    }
    let bin = |(confidence, hits, count): (f64, usize, usize)| ReliabilityBin {
        confidence: confidence / count as f64,
        accuracy: hits as f64 / count as f64,
        count,
    };
    Ok(bins.into_iter().filter(|(_, _, count)| *count > 0).map(bin).collect())
}

/// The area under the receiver operating characteristic: the probability that a positive target has a higher score than
/// a negative one; equal scores count half. `None` unless there are both.
pub fn auc(positive: &[bool], scores: &[f64]) -> Option<f64> {
    let mut order: Vec<usize> = (0..positive.len().min(scores.len())).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let (mut below, mut wins, mut positives) = (0.0, 0.0, 0.0);
    for tie in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let ups = tie.iter().filter(|&&i| positive[i]).count() as f64;
        let downs = tie.len() as f64 - ups;
        wins += ups * (below + 0.5 * downs);
        below += downs;
        positives += ups;
    }
    (positives > 0.0 && below > 0.0).then(|| wins / (positives * below))
}

/// The class with the largest probability; the first if several are equal.
pub fn most_probable(p: &[f64]) -> usize {
    (0..p.len()).fold(0, |best, c| if p[c] > p[best] { c } else { best })
}

/// Returns the number of classes.
fn check(labels: &[usize], probabilities: &[Vec<f64>]) -> Result<usize> {
    if labels.is_empty() || labels.len() != probabilities.len() {
        return Err(Error::shape(
            "class probabilities to score",
            format!("those of {} targets", labels.len().max(1)),
            format!("{} for {} targets", probabilities.len(), labels.len()),
        ));
    }
    let classes = probabilities[0].len();
    for (i, (&label, p)) in labels.iter().zip(probabilities).enumerate() {
        if p.len() != classes {
            return Err(Error::shape(
                format!("probabilities of target {}", i + 1),
                classes.to_string(),
                p.len().to_string(),
            ));
        }
        if label >= classes {
            return Err(Error::Data(format!(
                "target {} is of class {label}, but there are probabilities of the classes 0 to {} only; score targets \
                 of the \
                 classes that the model was trained with",
                i + 1,
                classes.saturating_sub(1)
            )));
        }
        if !p.iter().all(|p| (0.0..=1.0).contains(p)) {
            return Err(Error::NotFinite(format!("a class probability of target {}", i + 1)));
        }
    }
    Ok(classes)
}
