//! A kernel of numbers, evaluated on slices.

use serde::{Deserialize, Serialize};

use super::form::{Form, Lowered, Metric, Rows, Term, Values};
use super::profile::Profile;
use super::wiener::Wiener;
use crate::vectors::vectorised;

/// A built-in kernel with its values, as the model sees them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kernel {
    /// A function of features.
    Form {
        /// The function.
        form: Form,
        /// The columns that it sees, from 0; none means all.
        dims: Option<Vec<usize>>,
        /// The values of its parameters.
        values: Vec<Vec<f64>>,
    },
    /// A random walk.
    Wiener {
        /// The walk.
        walk: Wiener,
        /// The columns that it sees.
        dims: Option<Vec<usize>>,
        /// Lengthscale, variance, origin.
        values: Vec<Vec<f64>>,
    },
    /// The sum of kernels.
    Sum(Vec<Kernel>),
    /// The product of kernels.
    Product(Vec<Kernel>),
    /// A kernel of x W.
    Projected {
        /// W, row-major `[d, dim]`.
        weights: Vec<f64>,
        /// Number of columns.
        dim: usize,
        /// The kernel of the result.
        kernel: Box<Kernel>,
    },
}

/// Rows as numbers, row-major.
#[derive(Debug, Clone)]
struct Matrix {
    values: Vec<f64>,
    columns: usize,
}

impl Values for Vec<f64> {
    fn sqrt(&self) -> Self {
        self.iter().map(|value| value.sqrt()).collect()
    }

    fn part(&self, start: usize, count: usize) -> Self {
        self[start..start + count].to_vec()
    }
}

impl Matrix {
    /// Each entry with the entry of its column, which repeat.
    fn with(mut self, by: &[f64], f: impl Fn(f64, f64) -> f64) -> Self {
        let columns = self.columns;
        for (at, value) in self.values.iter_mut().enumerate() {
            *value = f(*value, by[at % columns % by.len()]);
        }
        self
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns)
    }

    /// The chosen columns.
    fn select(&self, dims: Option<&[usize]>) -> Self {
        let Some(dims) = dims else { return self.clone() };
        let values = self.rows().flat_map(|row| dims.iter().map(|column| row[*column])).collect();
        Self { values, columns: dims.len() }
    }
}

impl Rows for Matrix {
    type Values = Vec<f64>;

    fn columns(&self) -> usize {
        self.columns
    }

    fn times(self, by: &Self::Values) -> Self {
        self.with(by, |x, by| x * by)
    }

    fn over(self, by: &Self::Values) -> Self {
        self.with(by, |x, by| x / by)
    }

    fn scale(self, factor: f64) -> Self {
        self.with(&[factor], |x, by| x * by)
    }

    fn total(self) -> Self {
        Self { values: self.rows().map(|row| row.iter().sum()).collect(), columns: 1 }
    }

    fn waves(self) -> Self {
        let of = |row: &[f64]| row.iter().map(|x| x.cos()).chain(row.iter().map(|x| x.sin())).collect::<Vec<_>>();
        Self { values: self.rows().flat_map(of).collect(), columns: 2 * self.columns }
    }

    fn zeros(&self) -> Self {
        Self { values: vec![0.0; self.values.len() / self.columns], columns: 1 }
    }
}

/// A kernel at some rows, ready to be compared with others.
#[derive(Debug, Clone)]
pub struct Prepared {
    rows: usize,
    tree: Tree,
}

#[derive(Debug, Clone)]
enum Tree {
    Term { metric: Metric, profile: Profile, shape: f64, variance: Option<f64>, features: Columns },
    Walk { walk: Wiener, variance: f64, steps: Columns },
    Sum(Vec<Tree>),
    Product(Vec<Tree>),
}

/// Features, one column `[n]` after another.
#[derive(Debug, Clone)]
struct Columns(Vec<Vec<f64>>);

impl From<&Matrix> for Columns {
    fn from(rows: &Matrix) -> Self {
        let column = |k: usize| rows.values.iter().skip(k).step_by(rows.columns).copied().collect();
        Self((0..rows.columns).map(column).collect())
    }
}

impl Kernel {
    /// What is wrong with it for `d` columns, if anything is. Files can contain anything.
    pub fn problem(&self, d: usize) -> Option<String> {
        let of_columns = |dims: &Option<Vec<usize>>| dims.iter().flatten().any(|column| *column >= d);
        let fits = |values: &[Vec<f64>], sizes: &[usize], active: usize| {
            let right = |(own, size): (&Vec<f64>, &usize)| {
                own.iter().all(|value| value.is_finite())
                    && (own.len() == *size || (*size == 0 && own.len() == active) || (*size == 0 && own.len() == 1))
            };
            values.len() == sizes.len() && values.iter().zip(sizes).all(right)
        };
        let sound = match self {
            // A size of 0 stands for one entry, or one for each column.
            Self::Form { form, dims, values } => {
                let active = dims.as_ref().map_or(d, Vec::len);
                let sizes: Vec<usize> = match form {
                    Form::Stationary(_) | Form::CosineNorm | Form::CosineSum => vec![0, 1],
                    Form::RationalQuadratic | Form::PeriodicNorm => vec![0, 1, 1],
                    Form::Periodic => vec![0, 0, 1],
                    Form::SpectralMixture(q) => vec![q * active, q * active, *q],
                    Form::Linear => vec![0],
                    Form::Polynomial(_) => vec![1, 1],
                    Form::Constant | Form::White => vec![1],
                };
                active > 0 && !of_columns(dims) && fits(values, &sizes, active)
            }
            Self::Wiener { dims, values, .. } => {
                let active = dims.as_ref().map_or(d, Vec::len);
                active > 0 && !of_columns(dims) && fits(values, &[0, 1, 0], active)
            }
            Self::Sum(parts) | Self::Product(parts) => {
                return match parts.is_empty() {
                    true => Some("a sum or product of no kernels".into()),
                    false => parts.iter().find_map(|part| part.problem(d)),
                };
            }
            Self::Projected { weights, dim, kernel } => {
                return match *dim > 0 && weights.len() == d * dim && weights.iter().all(|w| w.is_finite()) {
                    true => kernel.problem(*dim),
                    false => Some(format!("its projection does not fit {d} columns")),
                };
            }
        };
        (!sound).then(|| format!("its kernel does not fit {d} columns"))
    }

    /// The kernel at rows `x`, row-major with `d` columns.
    pub fn prepare(&self, x: &[f64], d: usize) -> Prepared {
        Prepared { rows: x.len() / d, tree: self.tree(&Matrix { values: x.to_vec(), columns: d }) }
    }

    fn tree(&self, x: &Matrix) -> Tree {
        let all = |parts: &[Self]| parts.iter().map(|part| part.tree(x)).collect();
        match self {
            Self::Form { form, dims, values } => lowered(form.lower(values, x.select(dims.as_deref()))),
            Self::Wiener { walk, dims, values } => {
                let steps = x.select(dims.as_deref()).with(&values[2], |x, origin| (x - origin).max(0.0));
                Tree::Walk { walk: *walk, variance: values[1][0], steps: Columns::from(&steps.over(&values[0])) }
            }
            Self::Sum(parts) => Tree::Sum(all(parts)),
            Self::Product(parts) => Tree::Product(all(parts)),
            Self::Projected { weights, dim, kernel } => {
                let project = |row: &[f64]| {
                    let of = |j: usize| row.iter().zip(weights.iter().skip(j).step_by(*dim)).map(|(x, w)| x * w).sum();
                    (0..*dim).map(of).collect::<Vec<f64>>()
                };
                kernel.tree(&Matrix { values: x.rows().flat_map(project).collect(), columns: *dim })
            }
        }
    }
}

fn lowered(lowered: Lowered<Matrix>) -> Tree {
    let all = |parts: Vec<Lowered<Matrix>>| parts.into_iter().map(self::lowered).collect();
    match lowered {
        Lowered::Term(Term { metric, profile, features, shape, variance }) => Tree::Term {
            metric,
            profile,
            shape: shape.map_or(0.0, |shape| shape[0]),
            variance: variance.map(|variance| variance[0]),
            features: Columns::from(&features),
        },
        Lowered::Sum(parts) => Tree::Sum(all(parts)),
        Lowered::Product(parts) => Tree::Product(all(parts)),
    }
}

impl Prepared {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// k(x, z) for these rows x and others z, row-major `[rows, others]`. The kernel has to be the same.
    pub fn cross(&self, others: &Self) -> Vec<f64> {
        let mut all = vec![0.0; self.rows * others.rows];
        if others.rows > 0 {
            vectorised(|| {
                for (row, out) in all.chunks_exact_mut(others.rows).enumerate() {
                    self.tree.fill(row, &others.tree, out);
                }
            });
        }
        all
    }

    /// The rows in the space in which distances are measured, row-major, and its dimension: the features of the
    /// kernel's distances side by side. None if it has no distances, or has a random walk.
    pub fn places(&self) -> Option<(Vec<f64>, usize)> {
        let mut columns = Vec::new();
        let known = self.tree.distances(&mut columns) && !columns.is_empty();
        let row = |row: usize| columns.iter().map(move |column: &&Vec<f64>| column[row]).collect::<Vec<_>>();
        known.then(|| ((0..self.rows).flat_map(row).collect(), columns.len()))
    }

    /// k(x, x) of each row.
    pub fn diagonal(&self) -> Vec<f64> {
        (0..self.rows).map(|row| self.tree.own(row)).collect()
    }
}

impl Tree {
    /// The covariances of a row with all others.
    fn fill(&self, row: usize, others: &Self, out: &mut [f64]) {
        match (self, others) {
            (Self::Term { metric: Metric::Delta, .. }, _) => out.fill(0.0),
            (Self::Term { metric, profile, shape, variance, features }, Self::Term { features: columns, .. }) => {
                out.fill(0.0);
                for (own, column) in features.0.iter().zip(&columns.0) {
                    let a = own[row];
                    match metric {
                        Metric::SquaredDistance => {
                            out.iter_mut().zip(column).for_each(|(s, b)| *s += (a - b) * (a - b))
                        }
                        _ => out.iter_mut().zip(column).for_each(|(s, b)| *s += a * b),
                    }
                }
                let variance = variance.unwrap_or(1.0);
                out.iter_mut().for_each(|s| *s = variance * profile.value(*s, *shape));
            }
            (Self::Walk { walk, variance, steps }, Self::Walk { steps: columns, .. }) => {
                out.fill(*variance);
                for (own, column) in steps.0.iter().zip(&columns.0) {
                    out.iter_mut().zip(column).for_each(|(k, v)| *k *= walk.of_steps(own[row], *v));
                }
            }
            (Self::Sum(parts), Self::Sum(others)) => fold(parts, others, row, out, |a, b| *a += b),
            (Self::Product(parts), Self::Product(others)) => fold(parts, others, row, out, |a, b| *a *= b),
            // Two kernels of one description have one structure.
            _ => out.fill(f64::NAN),
        }
    }

    /// The features of distances; false for random walks.
    fn distances<'a>(&'a self, columns: &mut Vec<&'a Vec<f64>>) -> bool {
        match self {
            Self::Term { metric: Metric::SquaredDistance, features, .. } => {
                columns.extend(&features.0);
                true
            }
            Self::Term { .. } => true,
            Self::Walk { .. } => false,
            Self::Sum(parts) | Self::Product(parts) => parts.iter().all(|part| part.distances(columns)),
        }
    }

    /// The covariance of a row with itself.
    fn own(&self, row: usize) -> f64 {
        match self {
            Self::Term { metric, profile, shape, variance, features } => {
                let s = match metric {
                    Metric::InnerProduct => features.0.iter().map(|column| column[row] * column[row]).sum(),
                    _ => 0.0,
                };
                let value = if *metric == Metric::Delta { 1.0 } else { profile.value(s, *shape) };
                variance.unwrap_or(1.0) * value
            }
            Self::Walk { walk, variance, steps } => {
                steps.0.iter().map(|column| walk.of_steps(column[row], column[row])).product::<f64>() * variance
            }
            Self::Sum(parts) => parts.iter().map(|part| part.own(row)).sum(),
            Self::Product(parts) => parts.iter().map(|part| part.own(row)).product(),
        }
    }
}

fn fold(parts: &[Tree], others: &[Tree], row: usize, out: &mut [f64], join: impl Fn(&mut f64, f64)) {
    let mut own = vec![0.0; out.len()];
    for (k, (part, other)) in parts.iter().zip(others).enumerate() {
        match k {
            0 => part.fill(row, other, out),
            _ => {
                part.fill(row, other, &mut own);
                out.iter_mut().zip(&own).for_each(|(out, own)| join(out, *own));
            }
        }
    }
}
