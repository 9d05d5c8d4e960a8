//! Rows that copy others, and tables whose rows are in the order of their values.

use std::collections::{HashMap, HashSet};

use super::Fitted;
use crate::data::{Dataset, bits, groups};
use crate::error::Result;
use crate::models::Observations;

/// Rows of a table that are also in the training data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copies {
    /// Positions of rows with the inputs of a training row.
    pub inputs: Vec<usize>,
    /// Positions of rows that also have its target: training rows.
    pub whole: Vec<usize>,
}

/// Fewer than one copy among so many rows are not worth a word.
const MANY: usize = 100;

/// Most values of a category.
const CATEGORIES: usize = 12;

/// For each row, whether another one has the same inputs and the same target. In a table of categories inputs repeat
/// anyway, and no row is a copy: there every column has two values, or few, and rows with the same inputs mostly have
/// different targets. Nor where targets on a coarse grid, as counts, repeat by chance: each is found at several inputs,
/// and most inputs that repeat have several targets.
pub(super) fn copied(x: &[f64], d: usize, y: &[f64]) -> Vec<bool> {
    let whole: Vec<Vec<f64>> = x.chunks(d).zip(y).map(|(row, y)| row.iter().chain([y]).copied().collect()).collect();
    let (pairs, inputs) = (groups(whole.iter().map(Vec::as_slice)), groups(x.chunks(d)));
    let (copied, repeated) = (twins(&pairs), twins(&inputs));
    let most = (0..d).map(|at| distinct(x[at..].iter().step_by(d))).max().unwrap_or(0);
    let differ = || 2 * number(&copied) < number(&repeated);
    let by_chance = || {
        let found: HashSet<(usize, usize)> = inputs.iter().copied().zip(pairs.iter().copied()).collect();
        let mut targets = vec![0; inputs.len()];
        found.iter().for_each(|(inputs, _)| targets[*inputs] += 1);
        let rows: HashSet<usize> = inputs.iter().zip(&repeated).filter(|(_, is)| **is).map(|(at, _)| *at).collect();
        let anew = rows.iter().filter(|at| targets[**at] > 1).count();
        2 * distinct(y.iter()) < found.len() && 2 * anew > rows.len()
    };
    if most <= 2 || most <= CATEGORIES && differ() || number(&copied) > 0 && by_chance() {
        vec![false; y.len()]
    } else {
        copied
    }
}

/// For each row, whether another one is in its group.
fn twins(groups: &[usize]) -> Vec<bool> {
    let mut counts = vec![0; groups.len()];
    groups.iter().for_each(|group| counts[*group] += 1);
    groups.iter().map(|group| counts[*group] > 1).collect()
}

fn number(of: &[bool]) -> usize {
    of.iter().filter(|is| **is).count()
}

/// Whether so many copies are worth a word.
pub(super) fn are_many(copies: usize, rows: usize) -> bool {
    copies > 1 && MANY * copies >= rows
}

/// Number of rows that copy an earlier one, target included; 0 in a table of categories.
pub(super) fn copies(data: &Observations) -> usize {
    data.n() - firsts((&data.x, data.d, &data.y), &copied(&data.x, data.d, &data.y)).len()
}

/// The positions of the rows that copy no earlier one, given which have copies.
fn firsts((x, d, y): (&[f64], usize, &[f64]), copied: &[bool]) -> Vec<usize> {
    let mut seen = HashSet::new();
    let row = |i: usize| bits(&x[i * d..][..d].iter().chain([&y[i]]).copied().collect::<Vec<_>>());
    (0..y.len()).filter(|i| !copied[*i] || seen.insert(row(*i))).collect()
}

/// How many rows of a table a model is trained on; whether its noise is known, by a column or because it is fixed.
pub fn rows_that_count(data: &Dataset, likelihood: &str, known: bool) -> usize {
    once(data, likelihood, known).map_or(data.n, |once| once.n)
}

/// Whether settings say what the noise is: by a column, or because it is fixed.
pub fn knows_noise(auxiliary_column: Option<&String>, fix: &[String]) -> bool {
    auxiliary_column.is_some() || fix.iter().any(|name| name.ends_with("noise"))
}

/// Of Gaussian targets whose noise is learned, the rows without those that copy an earlier one, target included, if
/// there are many copies and nearly all rows with the same inputs are copies: what was measured anew would differ by
/// its noise. They are no evidence of small noise.
pub(super) fn once(data: &Dataset, likelihood: &str, known: bool) -> Option<Dataset> {
    if !likelihood.starts_with("gaussian") || known || data.d == 0 {
        return None;
    }
    let y = data.y.as_deref()?;
    let copied = copied(&data.x, data.d, y);
    let kept = firsts((&data.x, data.d, y), &copied);
    // A single row that repeats is told of as one.
    if !are_many(data.n - kept.len(), data.n) || kept.len() == 1 {
        return None;
    }
    let copies = 10 * number(&copied) >= 9 * number(&twins(&groups(data.x.chunks(data.d))));
    copies.then(|| Dataset { notes: data.notes.clone(), ..data.subset(&kept) })
}

fn distinct<'a>(values: impl Iterator<Item = &'a f64>) -> usize {
    values.map(|value| (value + 0.0).to_bits()).collect::<HashSet<_>>().len()
}

/// Whether rows `x [n, d]` with targets `y` come in the order of a column, as in a sorted table or a grid, or in blocks
/// of its values. What changes along such rows then changes with that column.
pub(super) fn is_arranged(x: &[f64], d: usize, y: &[f64]) -> bool {
    let sorted = |values: &[f64]| {
        let pairs = || values.windows(2);
        pairs().any(|w| w[0] != w[1]) && (pairs().all(|w| w[0] <= w[1]) || pairs().all(|w| w[0] >= w[1]))
    };
    let blocks = |values: &[f64]| {
        let count = distinct(values.iter());
        count > 1 && 2 * count <= values.len() && values.windows(2).filter(|w| w[0] != w[1]).count() + 1 == count
    };
    let column = |at: usize| x[at..].iter().step_by(d).copied().collect::<Vec<f64>>();
    sorted(y) || (0..d).map(column).any(|values| sorted(&values) || blocks(&values))
}

impl Fitted {
    /// Whether the model was trained on rows of categories, where repeated inputs are no fault.
    pub fn is_of_categories(&self) -> bool {
        let (x, d) = (&self.data.x, &self.data.d);
        (0..*d).all(|at| distinct(x[at..].iter().step_by(*d)) <= CATEGORIES)
    }

    /// The rows of a table with the inputs of training rows; none if the model does not hold all training rows.
    ///
    /// # Errors
    /// As [`standardise`](Self::standardise).
    pub fn copies(&self, data: &Dataset) -> Result<Option<Copies>> {
        if self.data.n() != self.summary.rows {
            return Ok(None);
        }
        let (x, _) = self.standardise(data)?;
        let mut known: HashMap<Vec<u64>, Vec<f64>> = HashMap::new();
        for (row, y) in self.data.x.chunks(self.data.d).zip(&self.data.y) {
            known.entry(bits(row)).or_default().push(*y);
        }
        // A target without the transform is not that of a training row.
        let y = if data.y.is_some() { self.target_scale.forward(data).unwrap_or_default() } else { Vec::new() };
        let mut copies = Copies::default();
        for (i, row) in x.chunks(self.data.d).enumerate() {
            if let Some(targets) = known.get(&bits(row)) {
                copies.inputs.push(i);
                copies.whole.extend(y.get(i).is_some_and(|y| targets.contains(y)).then_some(i));
            }
        }
        Ok(Some(copies))
    }

    /// The training rows that stand for new rows when they are left out, given the standardised residuals of all rows:
    /// those whose inputs occur once, because rows with a twin look too good. If most rows have a twin, or if rows with
    /// a twin have larger errors than the others, all of them.
    pub(super) fn tested(&self, z: &[f64]) -> Vec<usize> {
        let has_twin = twins(&groups(self.data.x.chunks(self.data.d)));
        let (twins, single): (Vec<usize>, Vec<usize>) = (0..has_twin.len()).partition(|row| has_twin[*row]);
        let error = |rows: &[usize]| rows.iter().map(|row| z[*row].abs()).sum::<f64>() / rows.len().max(1) as f64;
        let too_good = single.len() >= twins.len() && error(&twins) < error(&single);
        if too_good { single } else { (0..z.len()).collect() }
    }
}
