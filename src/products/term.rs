//! One term of a lowered kernel on a tile: comparing features, the profile and its slopes, and the way back.

use super::lanes::{Lanes, Vector};
use super::tile::{Few, GROUP, PANEL, Tile, Wide};
use crate::kernels::form::Metric;
use crate::kernels::profile::Profile;
use crate::linalg::real::Real;

/// The features of the rows and of the columns of a tile.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a, L: Lanes> {
    /// `[p]`, for broadcasting.
    pub rows: &'a [Few<L::Element>],
    /// `[p]`, as lanes.
    pub columns: &'a [Wide<L>],
    /// Where both are rows of the same input: the index of the first row less that of the first column.
    pub diagonal: Option<isize>,
}

/// Where a term's numbers stand: columns `start..start + width` of the features, entries of the coefficients.
#[derive(Debug, Clone)]
pub struct TermPlan {
    /// How features are compared.
    pub metric: Metric,
    /// The function of the comparison.
    pub profile: Profile,
    /// First column of its features.
    pub start: usize,
    /// Number of columns.
    pub width: usize,
    /// Entry of its shape parameter.
    pub shape: Option<usize>,
    /// Entry of its variance.
    pub variance: Option<usize>,
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
            Profile::Power(power) => {
                let $p = Profile::Power(power);
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

    #[inline(always)]
    fn coefficient<L: Lanes>(index: Option<usize>, coefficients: &[L::Element]) -> L {
        L::splat(index.map_or(L::Element::of(1.0), |i| coefficients[i]))
    }

    #[inline(always)]
    fn features<'a, L: Lanes>(&self, pairs: &Pairs<'a, L>) -> (&'a [Few<L::Element>], &'a [Wide<L>]) {
        let range = self.start..self.start + self.width;
        (&pairs.rows[range.clone()], &pairs.columns[range])
    }

    /// The term's covariances.
    #[inline(always)]
    pub fn values<L: Lanes>(&self, pairs: &Pairs<L>, coefficients: &[L::Element], out: &mut Tile<L>) {
        let (a, v) =
            (Self::coefficient::<L>(self.shape, coefficients), Self::coefficient::<L>(self.variance, coefficients));
        let scaled = self.variance.is_some();
        match self.metric {
            Metric::Delta => self.white(pairs, v, out),
            metric => with_profile!(self.profile, p => {
                self.visit(metric, pairs, #[inline(always)] |q, c, s| {
                    let k = p.value(Vector(s), Vector(a)).0;
                    out[q][c] = if scaled { k.mul(v) } else { k };
                })
            }),
        }
    }

    /// The term's covariances and their derivatives by the comparison, and by the shape where there is one.
    #[inline(always)]
    pub fn slopes<L: Lanes>(
        &self,
        pairs: &Pairs<L>,
        coefficients: &[L::Element],
        values: &mut Tile<L>,
        slopes: &mut Tile<L>,
        shapes: &mut Tile<L>,
    ) {
        let (a, v) =
            (Self::coefficient::<L>(self.shape, coefficients), Self::coefficient::<L>(self.variance, coefficients));
        let shaped = self.shape.is_some();
        match self.metric {
            Metric::Delta => self.white(pairs, v, values),
            metric => with_profile!(self.profile, p => {
                self.visit(metric, pairs, #[inline(always)] |q, c, s| {
                    let (k, slope, shape) = p.slopes(Vector(s), Vector(a));
                    values[q][c] = k.0.mul(v);
                    slopes[q][c] = slope.0.mul(v);
                    if shaped {
                        shapes[q][c] = shape.0.mul(v);
                    }
                })
            }),
        }
    }

    #[inline(always)]
    fn white<L: Lanes>(&self, pairs: &Pairs<L>, v: L, out: &mut Tile<L>) {
        for (q, row) in out.iter_mut().enumerate() {
            row.fill(L::zero());
            if let Some((c, lane)) = own_lane::<L>(pairs, q) {
                row[c] = only(v, lane);
            }
        }
    }

    /// Hands the comparison s of all pairs to `each(row, vector, s)`, some rows and columns at a time from registers.
    #[inline(always)]
    fn visit<L: Lanes>(&self, metric: Metric, pairs: &Pairs<L>, mut each: impl FnMut(usize, usize, L)) {
        let (rows, columns) = self.features(pairs);
        if L::MANY_REGISTERS {
            self.visit_by::<L, 2>(metric, rows, columns, &mut each);
        } else {
            self.visit_by::<L, 1>(metric, rows, columns, &mut each);
        }
    }

    #[inline(always)]
    fn visit_by<L: Lanes, const V: usize>(
        &self,
        metric: Metric,
        rows: &[Few<L::Element>],
        columns: &[Wide<L>],
        each: &mut impl FnMut(usize, usize, L),
    ) {
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
            for q in 0..GROUP {
                for v in 0..V {
                    each(q, c + v, s[q][v]);
                }
            }
        }
    }

    /// The way back to the features: given the cotangents of s, adds to the gradient of the columns `[p, panel]`, and to
    /// that of the rows `[p, group]`, lane by lane.
    #[inline(always)]
    pub fn pull<L: Lanes>(&self, pairs: &Pairs<L>, weights: &Tile<L>, columns: &mut [Wide<L>], rows: &mut [Few<L>]) {
        let (a, b) = self.features(pairs);
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

/// The vector and the lane of a row's own column, if it is among them.
#[inline(always)]
pub fn own_lane<L: Lanes>(pairs: &Pairs<L>, q: usize) -> Option<(usize, usize)> {
    let column = usize::try_from(pairs.diagonal? + q as isize).ok()?;
    (column < PANEL * L::N).then_some((column / L::N, column % L::N))
}

/// `v` in one lane, zero in the others.
#[inline(always)]
pub fn only<L: Lanes>(v: L, lane: usize) -> L {
    let (mut from, mut to) = ([L::Element::of(0.0); 16], [L::Element::of(0.0); 16]);
    v.store(&mut from);
    to[lane] = from[lane];
    L::load(&to)
}
