//! One latent function in numbers.
//!
//! All Gaussian posteriors through k covariances with fixed points have one form. With c the covariances, changed to s
//! = Sᵀc, and a = L⁻¹s, the mean is m + w·(c, s or a), and the variance k** − ‖a‖² + ‖Rᵀa‖².

use serde::{Deserialize, Serialize};

use super::{Find, Function, needed, prepared, sized};
use crate::kernels::{Kernel, Prepared};

/// A latent function, whose long lists are arrays of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latent<A = String, P = String> {
    /// The prior covariance.
    pub kernel: Kernel,
    /// The prior mean.
    pub mean: Mean,
    /// The array of the points, row-major.
    pub points: P,
    /// The array w.
    pub weights: A,
    /// What w weighs.
    pub weigh: Weigh,
    /// S.
    pub change: Change<A>,
    /// The array L: its rows up to the diagonal, one after another.
    pub lower: A,
    /// Rᵀ.
    pub root: Option<Root<A>>,
}

/// The prior mean: a constant, and a slope for each column or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Mean {
    /// The value at the origin.
    pub constant: f64,
    /// The slopes.
    pub slopes: Vec<f64>,
}

impl Mean {
    /// Refuses another number of slopes than `d`.
    pub(super) fn check(&self, d: usize) -> Result<(), String> {
        match self.slopes.is_empty() || self.slopes.len() == d {
            true => Ok(()),
            false => Err(format!("its mean does not fit {d} columns")),
        }
    }

    /// The mean at a row.
    pub fn at(&self, x: &[f64]) -> f64 {
        let trend: f64 = x.iter().zip(&self.slopes).map(|(x, slope)| x * slope).sum();
        trend + self.constant
    }
}

/// What weights weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Weigh {
    /// The covariances c.
    Covariances,
    /// The changed covariances s.
    Changed,
    /// The whitened covariances a.
    Whitened,
}

/// A change of covariances before they are whitened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change<A = String> {
    /// None.
    None,
    /// Times the numbers of an array.
    Times(A),
    /// Sᵀ times the covariances, for an array S, row-major `[points, columns]`; its columns, once it is read.
    Dense(A),
    /// The same for a block-sparse S: the array of one number for each point, and the boundaries of the blocks.
    Blocks(A, Vec<usize>),
    /// The columns of several, one after another.
    Several(Vec<Change<A>>),
}

/// A triangular Rᵀ: the array of its rows within the triangle, one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Root<A = String> {
    /// A lower triangle.
    Lower(A),
    /// An upper triangle.
    Upper(A),
}

/// The numbers of a [`Latent`], ready to predict.
#[derive(Debug, Clone)]
pub struct Ready {
    of: Latent<Vec<f64>, Prepared>,
    d: usize,
    /// The number of whitened covariances.
    size: usize,
}

impl Change {
    /// Reads the arrays for `count` points. Gives the number of changed covariances too.
    fn ready(&self, count: usize, array: Find) -> Result<(Change<Vec<f64>>, usize), String> {
        let unfit = |name: &str| format!("the array `{name}` does not fit its {count} points");
        Ok(match self {
            Self::None => (Change::None, count),
            Self::Times(name) => (Change::Times(sized(array, name, count)?), count),
            Self::Dense(name) => {
                let s = needed(array, name)?;
                if s.is_empty() || !s.len().is_multiple_of(count) {
                    return Err(unfit(name));
                }
                let columns = s.len() / count;
                let column = |k: usize| s.iter().skip(k).step_by(columns).copied();
                (Change::Dense((0..columns).flat_map(column).collect()), columns)
            }
            Self::Blocks(name, offsets) => {
                let values = sized(array, name, count)?;
                let whole = offsets.first() == Some(&0) && offsets.last() == Some(&count);
                if !whole || !offsets.is_sorted() {
                    return Err(unfit(name));
                }
                (Change::Blocks(values, offsets.clone()), offsets.len() - 1)
            }
            Self::Several(parts) => {
                let all = parts.iter().map(|part| part.ready(count, array)).collect::<Result<Vec<_>, _>>()?;
                let (parts, sizes): (_, Vec<usize>) = all.into_iter().unzip();
                (Change::Several(parts), sizes.iter().sum())
            }
        })
    }
}

impl Change<Vec<f64>> {
    /// Appends the changed covariances.
    fn add(&self, c: &[f64], s: &mut Vec<f64>) {
        match self {
            Self::None => s.extend(c),
            Self::Times(by) => s.extend(c.iter().zip(by).map(|(c, by)| c * by)),
            Self::Dense(columns) => s.extend(columns.chunks_exact(c.len()).map(|column| dot(column, c))),
            Self::Blocks(values, offsets) => {
                s.extend(offsets.windows(2).map(|w| dot(&values[w[0]..w[1]], &c[w[0]..w[1]])));
            }
            Self::Several(parts) => parts.iter().for_each(|part| part.add(c, s)),
        }
    }
}

/// Mean and variance of a function at a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// The mean.
    pub mean: f64,
    /// The variance, at least its smallest share of the prior's.
    pub variance: f64,
}

/// What moments at a row consist of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// The prior mean.
    pub level: f64,
    /// The mean less the prior's.
    pub shift: f64,
    /// The prior variance.
    pub prior: f64,
    /// The part of it that the data explain.
    pub explained: f64,
}

impl Part {
    pub fn moments(&self) -> Moments {
        Moments { mean: self.level + self.shift, variance: self.variance() }
    }

    /// The variance.
    pub fn variance(&self) -> f64 {
        super::left(self.prior, self.explained)
    }
}

/// Room for a row's numbers.
#[derive(Debug, Default)]
struct Room {
    changed: Vec<f64>,
    spread: Vec<f64>,
}

impl Latent {
    /// Reads the arrays, which `array` finds by name, for inputs with `d` columns.
    ///
    /// # Errors
    /// What is missing or does not fit.
    pub fn ready(&self, d: usize, array: Find) -> Result<Ready, String> {
        let [points, weights, lower] = [&self.points, &self.weights, &self.lower].map(|name| needed(array, name));
        let (points, weights, lower) = (points?, weights?, lower?);
        let fixed = prepared(&self.kernel, &points, &self.points, d)?;
        let count = fixed.rows();
        let unfit = |name: &str| format!("the array `{name}` does not fit its {count} points");
        let (change, size) = self.change.ready(count, array)?;
        let weighed = if self.weigh == Weigh::Covariances { count } else { size };
        if weights.len() != weighed {
            return Err(unfit(&self.weights));
        }
        let triangle = size * (size + 1) / 2;
        if lower.len() != triangle {
            return Err(unfit(&self.lower));
        }
        let root = match &self.root {
            None => None,
            Some(Root::Lower(name)) => Some(Root::Lower(sized(array, name, triangle)?)),
            Some(Root::Upper(name)) => Some(Root::Upper(sized(array, name, triangle)?)),
        };
        self.mean.check(d)?;
        let (kernel, mean) = (self.kernel.clone(), self.mean.clone());
        let of = Latent { kernel, mean, points: fixed, weights, weigh: self.weigh, change, lower, root };
        Ok(Ready { of, d, size })
    }
}

/// Rows that are compared with the points at once.
pub(super) const ROWS: usize = 64;

impl Function for Ready {
    fn moments(&self, x: &[f64]) -> Result<Vec<Moments>, String> {
        Ok(x.chunks(ROWS * self.d).flat_map(|x| self.parts(x, None)).map(|part| part.moments()).collect())
    }
}

impl Ready {
    /// The parts of the moments at some rows, and the whitened covariances of each if they are asked for.
    pub(super) fn parts(&self, x: &[f64], mut solved: Option<&mut Vec<Vec<f64>>>) -> Vec<Part> {
        let mut room = Room::default();
        let points = self.of.kernel.prepare(x, self.d);
        let cross = points.cross(&self.of.points);
        let rows = cross.chunks_exact(self.of.points.rows()).zip(points.diagonal()).zip(x.chunks_exact(self.d));
        rows.map(|((c, prior), x)| {
            let part = self.at(c, prior, x, &mut room);
            if let Some(solved) = &mut solved {
                solved.push(room.changed.clone());
            }
            part
        })
        .collect()
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.of.kernel
    }

    /// The points, ready to be compared with rows.
    pub(super) fn fixed(&self) -> &Prepared {
        &self.of.points
    }

    /// L⁻ᵀa for whitened covariances a, times what changed the covariances of points one by one.
    pub(super) fn solve_transposed(&self, a: &mut [f64]) {
        solve_packed_transposed(&self.of.lower, a);
        if let Change::Times(by) = &self.of.change {
            a.iter_mut().zip(by).for_each(|(a, by)| *a *= by);
        }
    }

    /// The number of whitened covariances.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    fn at(&self, c: &[f64], prior: f64, x: &[f64], room: &mut Room) -> Part {
        let (Latent { mean, weights, weigh, change, lower, root, .. }, s) = (&self.of, &mut room.changed);
        s.clear();
        change.add(c, s);
        let shift = match weigh {
            Weigh::Covariances => dot(weights, c),
            Weigh::Changed => dot(weights, s),
            Weigh::Whitened => 0.0,
        };
        solve_packed(lower, s);
        let shift = if *weigh == Weigh::Whitened { dot(weights, s) } else { shift };
        let left = root.as_ref().map_or(0.0, |root| root.square(s, self.size, &mut room.spread));
        Part { level: mean.at(x), shift, prior, explained: dot(s, s) - left }
    }
}

impl Root<Vec<f64>> {
    /// ‖Rᵀa‖².
    fn square(&self, a: &[f64], size: usize, out: &mut Vec<f64>) -> f64 {
        let (Self::Lower(values) | Self::Upper(values)) = self;
        out.clear();
        let mut start = 0;
        for i in 0..size {
            let own = if matches!(self, Self::Upper(_)) { &a[i..] } else { &a[..=i] };
            out.push(dot(&values[start..start + own.len()], own));
            start += own.len();
        }
        dot(out, out)
    }
}

/// Replaces b by L⁻¹b for the rows of L up to the diagonal.
pub(super) fn solve_packed(lower: &[f64], b: &mut [f64]) {
    let mut start = 0;
    for i in 0..b.len() {
        let (done, rest) = b.split_at_mut(i);
        rest[0] = (rest[0] - dot(&lower[start..start + i], done)) / lower[start + i];
        start += i + 1;
    }
}

/// Replaces b by L⁻ᵀb.
pub(super) fn solve_packed_transposed(lower: &[f64], b: &mut [f64]) {
    let mut end = lower.len();
    for i in (0..b.len()).rev() {
        let row = &lower[end - i - 1..end];
        end -= i + 1;
        b[i] /= row[i];
        let value = b[i];
        b.iter_mut().zip(&row[..i]).for_each(|(b, l)| *b -= l * value);
    }
}

/// The number of independent sums of a dot product.
const SUMS: usize = 16;

/// Σ a b, in a few independent sums.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let b = &b[..a.len()];
    let (left, right) = (a.chunks_exact(SUMS), b.chunks_exact(SUMS));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    if a.len() < SUMS {
        return rest;
    }
    let mut sums = [0.0; SUMS];
    for (a, b) in left.zip(right) {
        (0..SUMS).for_each(|l| sums[l] += a[l] * b[l]);
    }
    sums.iter().sum::<f64>() + rest
}
