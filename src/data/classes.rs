//! Class labels and their codes.

use serde::{Deserialize, Serialize};

use super::listed;
use crate::suggest::nearest;
use crate::{Error, Result};

/// The classes of a target: labels in a fixed order. Likelihoods see their codes 0, 1, ….
///
/// The default order is numbers ascending, then texts alphabetically. A whole number has one spelling: `1.0` and `1`
/// are the same label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Classes {
    labels: Vec<String>,
}

impl Classes {
    /// The classes of labels. Labels may repeat.
    pub fn new(labels: impl IntoIterator<Item = String>) -> Self {
        let mut labels: Vec<String> = labels.into_iter().map(|label| canonical(&label)).collect();
        labels.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(x), Ok(y)) => x.total_cmp(&y).then_with(|| a.cmp(b)),
            (Ok(_), Err(_)) => std::cmp::Ordering::Less,
            (Err(_), Ok(_)) => std::cmp::Ordering::Greater,
            (Err(_), Err(_)) => a.cmp(b),
        });
        labels.dedup();
        Self { labels }
    }

    /// Classes in the given order.
    ///
    /// # Errors
    /// [`Error::Usage`] if a label occurs twice.
    pub fn in_order(labels: impl IntoIterator<Item = String>) -> Result<Self> {
        let labels: Vec<String> = labels.into_iter().map(|label| canonical(&label)).collect();
        match labels.iter().enumerate().find(|(i, label)| labels[..*i].contains(label)) {
            Some((_, label)) => Err(Error::Usage(format!("the class `{label}` is given twice"))),
            None => Ok(Self { labels }),
        }
    }

    /// The number of classes.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no classes.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// All labels in the order of their codes.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The label of a code.
    pub fn label(&self, code: usize) -> Option<&str> {
        self.labels.get(code).map(String::as_str)
    }

    /// The code of a label.
    ///
    /// # Errors
    /// [`Error::Data`] for a label that is not one of the classes. The message suggests the nearest one.
    pub fn code(&self, label: &str) -> Result<usize> {
        let wanted = canonical(label);
        self.labels.iter().position(|label| *label == wanted).ok_or_else(|| {
            let near = nearest(&wanted, self.labels.iter().map(String::as_str));
            let hint = near.map_or(String::new(), |near| format!("did you mean `{near}`? "));
            Error::Data(format!("no class is called `{label}`; {hint}There are {}", self.listing()))
        })
    }

    /// The labels for a message; only the first ones if there are many.
    pub fn listing(&self) -> String {
        listed(&self.labels, 8)
    }
}

/// Gives a whole number a single spelling and leaves other labels as they are. Leading zeros are kept: `007` is not a
/// number.
pub(super) fn canonical(label: &str) -> String {
    let label = label.trim();
    let digits = label.trim_start_matches(['-', '+']);
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    match label.parse::<f64>() {
        Ok(number) if number.is_finite() && number.fract() == 0.0 && number.abs() < 1e15 && !padded => {
            format!("{}", number as i64)
        }
        _ => label.to_owned(),
    }
}
