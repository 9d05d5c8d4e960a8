//! One term of a lowered kernel on a tile: the comparison of features, the profile and its slopes, and the adjoint.

use std::ops::Range;

use crate::kernels::form::Metric;
use crate::kernels::profile::Profile;
use crate::linalg::real::Real;
use crate::products::engine::lanes::{Chains, Lanes};
use crate::products::engine::tile::{Few, GROUP, PANEL, Tile, Wide, dot};

/// The pairs that a tile compares.
#[derive(Debug, Clone, Copy)]
pub enum Pairs<'a, L: Lanes> {
    /// Every row with every column.
    Outer {
        /// The rows' features `[p]`, for broadcasting.
        rows: &'a [Few<L::Element>],
        /// The columns' features `[p]`, as lanes.
        columns: &'a [Wide<L>],
        /// If both are rows of the same input: the index of the first row minus that of the first column.
        diagonal: Option<isize>,
    },
    /// Arbitrary pairs, compared already.
    Each {
        /// The comparisons of every term.
        compared: &'a [Tile<L>],
        /// 1 for a row of an input with itself, else 0.
        same: &'a Tile<L>,
    },
}

/// The positions of a term's numbers: columns `start..start + width` of the features, and entries of the coefficients.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TermPlan {
    /// How features are compared.
    pub metric: Metric,
    /// The function of the comparison.
    pub profile: Profile,
    /// Its position among the terms.
    pub index: usize,
    /// First column of its features.
    pub start: usize,
    /// Number of columns.
    pub width: usize,
    /// Entry of its shape parameter.
    pub shape: Option<usize>,
    /// Entry of its variance.
    pub variance: Option<usize>,
}

/// The number of rows whose profiles are computed in step.
const ROWS: usize = 4;
/// The number of column vectors held in registers at once, with 32 registers.
const WIDE: usize = 2;
/// The same with 16 registers.
const NARROW: usize = 1;

/// Writes the vectors of some rows, times a factor, into a tile.
#[inline(always)]
fn put<L: Lanes, const V: usize>(some: Chains<L, ROWS, V>, factor: Option<L>, q: usize, c: usize, out: &mut Tile<L>) {
    for (row, values) in out[q..q + ROWS].iter_mut().zip(some.0) {
        for v in 0..V {
            row[c + v] = match factor {
                Some(factor) => values[v].mul(factor),
                None => values[v],
            };
        }
    }
}

/// Runs `$body` with `$p` a constant profile, so that the compiler specialises the loop for it.
macro_rules! with_profile {
    ($profile:expr, $p:ident => $body:expr) => {
        match $profile {
            Profile::Rbf => with_profile!(@ Profile::Rbf, $p, $body),
            Profile::Matern12 => with_profile!(@ Profile::Matern12, $p, $body),
            Profile::Matern32 => with_profile!(@ Profile::Matern32, $p, $body),
            Profile::Matern52 => with_profile!(@ Profile::Matern52, $p, $body),
            Profile::RationalQuadratic => with_profile!(@ Profile::RationalQuadratic, $p, $body),
            Profile::PeriodicNorm => with_profile!(@ Profile::PeriodicNorm, $p, $body),
            Profile::CosineNorm => with_profile!(@ Profile::CosineNorm, $p, $body),
            Profile::Identity => with_profile!(@ Profile::Identity, $p, $body),
            Profile::One => with_profile!(@ Profile::One, $p, $body),
            // Powers, and whatever has no loop of its own.
            other => {
                let $p = other;
                $body
            }
        }
    };
    (@ $constant:expr, $p:ident, $body:expr) => {{
        const P: Profile = $constant;
        let $p = P;
        $body
    }};
}

impl TermPlan {
    /// Whether the covariances depend on the features.
    pub fn pulls(&self) -> bool {
        self.profile != Profile::One
    }

    /// Shape and variance; 1 for a missing one.
    #[inline(always)]
    fn numbers<L: Lanes>(&self, coefficients: &[L::Element]) -> [L; 2] {
        [self.shape, self.variance].map(|index| L::splat(index.map_or(L::Element::of(1.0), |i| coefficients[i])))
    }

    /// The columns of its features.
    pub fn features(&self) -> Range<usize> {
        self.start..self.start + self.width
    }

    /// The term's covariances. Compiled once per kind of vector, not per product.
    #[inline(never)]
    pub fn values<L: Lanes>(&self, pairs: &Pairs<L>, coefficients: &[L::Element], out: &mut Tile<L>) {
        L::enter(
            #[inline(always)]
            || match L::MANY_REGISTERS {
                true => self.values_by::<L, WIDE>(pairs, coefficients, out),
                false => self.values_by::<L, NARROW>(pairs, coefficients, out),
            },
        );
    }

    #[inline(always)]
    fn values_by<L: Lanes, const V: usize>(&self, pairs: &Pairs<L>, coefficients: &[L::Element], out: &mut Tile<L>) {
        let [a, v] = self.numbers::<L>(coefficients);
        let (a, white) = (Chains::all(a), v);
        let v = self.variance.map(|_| v);
        match self.metric {
            Metric::Delta => self.white(pairs, white, out),
            metric => with_profile!(self.profile, p => {
                self.visit::<L, V>(metric, pairs, #[inline(always)] |q, c, s| {
                    put(p.value(s, a), v, q, c, out);
                })
            }),
        }
    }

    /// The term's covariances and their derivatives in the comparison, and in the shape if there is one.
    #[inline(never)]
    pub fn slopes<L: Lanes>(
        &self,
        pairs: &Pairs<L>,
        coefficients: &[L::Element],
        values: &mut Tile<L>,
        slopes: &mut Tile<L>,
        shapes: &mut Tile<L>,
    ) {
        L::enter(
            #[inline(always)]
            || match L::MANY_REGISTERS {
                true => self.slopes_by::<L, WIDE>(pairs, coefficients, values, slopes, shapes),
                false => self.slopes_by::<L, NARROW>(pairs, coefficients, values, slopes, shapes),
            },
        );
    }

    #[inline(always)]
    fn slopes_by<L: Lanes, const V: usize>(
        &self,
        pairs: &Pairs<L>,
        coefficients: &[L::Element],
        values: &mut Tile<L>,
        slopes: &mut Tile<L>,
        shapes: &mut Tile<L>,
    ) {
        let [a, v] = self.numbers::<L>(coefficients);
        let (shaped, a, white) = (self.shape.is_some(), Chains::all(a), v);
        let v = self.variance.map(|_| v);
        match self.metric {
            Metric::Delta => self.white(pairs, white, values),
            metric => with_profile!(self.profile, p => {
                self.visit::<L, V>(metric, pairs, #[inline(always)] |q, c, s| {
                    let (k, slope, shape) = p.slopes(s, a);
                    // Beyond the largest distance, the covariance is constant, but exponentials here are not quite 0.
                    let slope = match metric {
                        Metric::SquaredDistance => slope.below(s, p.end(size_of::<L::Element>())),
                        _ => slope,
                    };
                    put(k, v, q, c, values);
                    put(slope, v, q, c, slopes);
                    if shaped {
                        put(shape, v, q, c, shapes);
                    }
                })
            }),
        }
    }

    #[inline(always)]
    fn white<L: Lanes>(&self, pairs: &Pairs<L>, v: L, out: &mut Tile<L>) {
        let diagonal = match pairs {
            Pairs::Each { same, .. } => {
                for (row, same) in out.iter_mut().zip(*same) {
                    row.iter_mut().zip(same).for_each(|(out, same)| *out = same.mul(v));
                }
                return;
            }
            Pairs::Outer { diagonal, .. } => *diagonal,
        };
        for (q, row) in out.iter_mut().enumerate() {
            row.fill(L::zero());
            if let Some((c, lane)) = own_lane::<L>(diagonal, q) {
                row[c] = only(v, lane);
            }
        }
    }

    /// The gradient, in the variance, of the sum of white noise times a cotangent.
    #[inline(always)]
    pub fn pull_white<L: Lanes>(&self, pairs: &Pairs<L>, cotangent: &Tile<L>) -> f64 {
        match pairs {
            Pairs::Each { same, .. } => dot(cotangent, same),
            Pairs::Outer { diagonal, .. } => {
                let own = |(q, row): (usize, &Wide<L>)| {
                    own_lane::<L>(*diagonal, q).map_or(0.0, |(c, lane)| only(row[c], lane).sum().f64())
                };
                cotangent.iter().enumerate().map(own).sum()
            }
        }
    }

    /// Passes the comparison s of all pairs to `each(row, vector, s)`, some rows and columns at a time, from registers.
    #[inline(always)]
    fn visit<L: Lanes, const V: usize>(
        &self,
        metric: Metric,
        pairs: &Pairs<L>,
        mut each: impl FnMut(usize, usize, Chains<L, ROWS, V>),
    ) {
        let (rows, columns) = match pairs {
            Pairs::Outer { rows, columns, .. } => (&rows[self.features()], &columns[self.features()]),
            Pairs::Each { compared, .. } => {
                for c in (0..PANEL).step_by(V) {
                    for q in (0..GROUP).step_by(ROWS) {
                        let rows = &compared[self.index][q..q + ROWS];
                        each(q, c, Chains(std::array::from_fn(|r| std::array::from_fn(|v| rows[r][c + v]))));
                    }
                }
                return;
            }
        };
        let squares = metric == Metric::SquaredDistance;
        for c in (0..PANEL).step_by(V) {
            let mut s = [[L::zero(); V]; GROUP];
            for (row, column) in rows.iter().zip(columns) {
                for q in 0..GROUP {
                    let a = L::splat(row[q]);
                    for v in 0..V {
                        let b = column[c + v];
                        s[q][v] = if squares {
                            let difference = a.sub(b);
                            difference.mul_add(difference, s[q][v])
                        } else {
                            a.mul_add(b, s[q][v])
                        };
                    }
                }
            }
            for q in (0..GROUP).step_by(ROWS) {
                let mut some = [[L::zero(); V]; ROWS];
                some.copy_from_slice(&s[q..q + ROWS]);
                each(q, c, Chains(some));
            }
        }
    }

    /// The adjoint with respect to the features of rows and columns. Given the cotangents of s, adds to the gradients
    /// of the columns `[p, panel]` and, lane by lane, of the rows `[p, group]`. Does nothing for pairs that were
    /// compared already; their caller does it.
    #[inline(never)]
    pub fn pull<L: Lanes>(&self, pairs: &Pairs<L>, weights: &Tile<L>, columns: &mut [Wide<L>], rows: &mut [Few<L>]) {
        if let Pairs::Outer { rows: a, columns: b, .. } = pairs {
            L::enter(
                #[inline(always)]
                || self.pull_here(&a[self.features()], &b[self.features()], weights, columns, rows),
            );
        }
    }

    #[inline(always)]
    fn pull_here<L: Lanes>(
        &self,
        a: &[Few<L::Element>],
        b: &[Wide<L>],
        weights: &Tile<L>,
        columns: &mut [Wide<L>],
        rows: &mut [Few<L>],
    ) {
        let (columns, rows) = (&mut columns[self.start..][..self.width], &mut rows[self.start..][..self.width]);
        let squares = self.metric == Metric::SquaredDistance;
        for (((a, b), column), row) in a.iter().zip(b).zip(columns).zip(rows) {
            let mut sums = *row;
            for c in 0..PANEL {
                let mut below = L::zero();
                for q in 0..GROUP {
                    let (a, b, w) = (L::splat(a[q]), b[c], weights[q][c]);
                    if squares {
                        // ∂s/∂a = 2(a − b); the 2 is part of the weights.
                        let difference = a.sub(b);
                        sums[q] = w.mul_add(difference, sums[q]);
                        below = w.neg_mul_add(difference, below);
                    } else {
                        sums[q] = w.mul_add(b, sums[q]);
                        below = w.mul_add(a, below);
                    }
                }
                column[c] = column[c].add(below);
            }
            *row = sums;
        }
    }
}

/// The vector and the lane of a row's own column, if the tile has it.
#[inline(always)]
fn own_lane<L: Lanes>(diagonal: Option<isize>, q: usize) -> Option<(usize, usize)> {
    let column = usize::try_from(diagonal? + q as isize).ok()?;
    (column < PANEL * L::N).then_some((column / L::N, column % L::N))
}

/// `v` in one lane, zero in the others.
#[inline(always)]
fn only<L: Lanes>(v: L, lane: usize) -> L {
    let (mut from, mut to) = ([L::Element::of(0.0); 16], [L::Element::of(0.0); 16]);
    v.store(&mut from);
    to[lane] = from[lane];
    L::load(&to)
}
