//! Which expert gets which rows.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::arithmetic::ends;
use crate::distributed::FileRows;
use crate::distributed::parts::share;
use crate::error::{Error, Result};
use crate::models::Observations;
use crate::models::inducing;
use crate::models::minibatch::Rows;
use crate::suggest::hint;

/// How rows are shared out among experts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Partition {
    /// At random: every expert sees the whole of the inputs' domain.
    Random,
    /// Regions of equal numbers of rows: boxes, halved again and again along the widest side (a k-d tree).
    #[default]
    Tree,
    /// Regions around the centres of k-means clusters, with different numbers of rows.
    Kmeans,
    /// One expert for each value of an input column, such as a site or a customer.
    Column(String),
}

impl FromStr for Partition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('=') {
            Some(("column", name)) if !name.trim().is_empty() => Ok(Self::Column(name.trim().into())),
            None if text == "random" => Ok(Self::Random),
            None if text == "tree" => Ok(Self::Tree),
            None if text == "kmeans" => Ok(Self::Kmeans),
            _ => Err(Error::Usage(format!("no partition `{text}`; use random, tree, kmeans or column=NAME"))),
        }
    }
}

impl Display for Partition {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        match self {
            Self::Random => f.write_str("random"),
            Self::Tree => f.write_str("tree"),
            Self::Kmeans => f.write_str("kmeans"),
            Self::Column(name) => write!(f, "column={name}"),
        }
    }
}

impl Partition {
    /// The rows of each of at most `count` experts, ascending. Every row belongs to one expert. The same seed gives the
    /// same parts. `names [d]` are the input columns. There are fewer experts if the data have fewer clusters. With a
    /// column there is one expert for each of its values.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are fewer rows than experts, or if a column is missing or has a value for nearly every
    /// row.
    pub fn split(&self, data: &Observations, names: &[String], count: usize, seed: u64) -> Result<Vec<Vec<usize>>> {
        let n = data.n();
        if !matches!(self, Self::Column(_)) && (count == 0 || count > n) {
            let problem = format!("{count} experts for {n} rows: choose from 1 to {n}");
            return Err(Error::Usage(problem).about("ExpertsOptions::experts"));
        }
        match self {
            Self::Random => Ok(random(n, count, seed)),
            Self::Tree => Ok(tree(data, count)),
            Self::Kmeans => kmeans(data, count, seed),
            Self::Column(name) => by_value(data, column(names, name)?, name),
        }
    }

    /// [`split`](Self::split) for rows of a file. Reads once the inputs that the partition depends on, and drops
    /// them.
    ///
    /// # Errors
    /// As [`split`](Self::split), and errors of reading.
    pub(super) fn split_source(
        &self,
        source: &FileRows,
        names: &[String],
        count: usize,
        seed: u64,
    ) -> Result<Vec<Vec<usize>>> {
        let rows = match self {
            Self::Random => Observations::unchecked(Vec::new(), 1, vec![0.0; source.count()], None),
            Self::Tree | Self::Kmeans => source.inputs(None)?,
            Self::Column(name) => {
                let column = column(names, name)?;
                return by_value(&source.inputs(Some(column))?, 0, name);
            }
        };
        self.split(&rows, names, count, seed)
    }
}

/// About `count` of `n` rows at random, ascending.
pub(super) fn some(n: usize, count: usize, seed: u64) -> Vec<usize> {
    random(n, n.div_ceil(count.max(1)).max(1), seed).swap_remove(0)
}

/// Parts at random whose sizes differ by one at most.
fn random(n: usize, count: usize, seed: u64) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..n).collect();
    order.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    let part = |i: usize| {
        let mut rows = order[share(n, i, count)].to_vec();
        rows.sort_unstable();
        rows
    };
    (0..count).map(part).collect()
}

fn tree(data: &Observations, count: usize) -> Vec<Vec<usize>> {
    let mut done = Vec::new();
    let mut open = vec![((0..data.n()).collect::<Vec<usize>>(), count)];
    while let Some((mut rows, count)) = open.pop() {
        if count == 1 {
            rows.sort_unstable();
            done.push(rows);
            continue;
        }
        let value = |row: usize, column: usize| data.x[row * data.d + column];
        let width = |column: usize| {
            let (low, high) = ends(rows.iter().map(|&row| value(row, column)));
            high - low
        };
        let widths: Vec<f64> = (0..data.d).map(width).collect();
        let widest = (0..data.d).fold(0, |best, column| if widths[column] > widths[best] { column } else { best });
        let first = count / 2;
        let cut = rows.len() * first / count;
        // Rows with equal values are ordered by their numbers.
        rows.select_nth_unstable_by(cut, |&a, &b| value(a, widest).total_cmp(&value(b, widest)).then(a.cmp(&b)));
        let second = rows.split_off(cut);
        open.push((second, count - first));
        open.push((rows, first));
    }
    done
}

fn kmeans(data: &Observations, count: usize, seed: u64) -> Result<Vec<Vec<usize>>> {
    let centres = inducing::centres(&data.x, data.d, count, seed)?;
    let mut parts = vec![Vec::new(); centres.len() / data.d];
    for (row, x) in data.x.chunks(data.d).enumerate() {
        parts[inducing::nearest(x, &centres).0].push(row);
    }
    parts.retain(|rows| !rows.is_empty());
    Ok(parts)
}

/// The index of the input column of this name.
fn column(names: &[String], name: &str) -> Result<usize> {
    names.iter().position(|other| other == name).ok_or_else(|| {
        let hint = hint(name, names, "the input columns are");
        let problem = format!("there is no input column `{name}` to make experts by; {hint}");
        Error::Usage(problem).set("ExpertsOptions::partition", format_args!("column={name}"))
    })
}

/// The rows of each value of a column. `name` is for messages.
fn by_value(data: &Observations, column: usize, name: &str) -> Result<Vec<Vec<usize>>> {
    let value = |row: usize| data.x[row * data.d + column];
    let mut order: Vec<usize> = (0..data.n()).collect();
    order.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
    let parts: Vec<Vec<usize>> = order.chunk_by(|&a, &b| value(a) == value(b)).map(<[usize]>::to_vec).collect();
    if parts.len() > 1 && 2 * parts.len() > data.n() {
        let problem = format!(
            "the column `{name}` has {} values in {} rows: make experts by one whose values have many rows each",
            parts.len(),
            data.n()
        );
        return Err(Error::Usage(problem).set("ExpertsOptions::partition", format_args!("column={name}")));
    }
    Ok(parts)
}
