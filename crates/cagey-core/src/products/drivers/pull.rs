//! The adjoint of K V without K: computes every tile of K and of its slopes once more.

use std::ops::Range;

use crate::linalg::real::Real;
use crate::products::drivers::multiply::Product;
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::program::{Program, Scratch};
use crate::products::engine::reverse::{Besides, Reversed, Seed, Wanted, reverse};
use crate::products::engine::schedule::Schedule;
use crate::products::engine::sweep::{At, Sweep};
use crate::products::engine::tile::{Few, Groups, Panels, Wide, add_to_columns, add_to_rows, outer, scale};

/// The adjoint of K(x1, x2) V, without the program's factor.
pub struct Pull<'a, T> {
    /// The product.
    pub of: Product<'a, T>,
    /// Its gradient `[n, t]`.
    pub grad: &'a [T],
    /// Whether the gradient in V is wanted.
    pub in_v: bool,
}

/// Gradients.
pub struct Gradients<T> {
    /// In x1 `[n, p]`.
    pub x1: Vec<T>,
    /// In x2 `[m, p]`; empty if x2 is x1.
    pub x2: Vec<T>,
    /// In V `[m, t]`; empty if not wanted.
    pub v: Vec<T>,
    /// In the coefficients except the factor.
    pub coefficients: Vec<f64>,
    /// In the factor.
    pub factor: f64,
}

/// Two matrices side by side `[n, Σ width]`.
fn beside<T: Number>(a: &[T], b: &[T], width: usize) -> Vec<T> {
    a.chunks_exact(width).zip(b.chunks_exact(width)).flat_map(|(a, b)| a.iter().chain(b)).copied().collect()
}

/// The inverse of [`beside`], for widths p and the rest.
fn apart<T: Number>(matrix: &[T], width: usize, p: usize) -> (Vec<T>, Vec<T>) {
    let rows = || matrix.chunks_exact(width);
    (rows().flat_map(|r| &r[..p]).copied().collect(), rows().flat_map(|r| &r[p..]).copied().collect())
}

impl<T: Number> Work<T> for Pull<'_, T> {
    type Output = Gradients<T>;

    fn run<L: Lanes<Element = T>>(self) -> Gradients<T> {
        let Self { of: Product { program, coefficients, x1, x2, p, v, t }, grad, in_v } = self;
        let n = x1.len() / p;
        let wanted = if in_v { t } else { 0 };
        let Some(x2) = x2 else {
            let sweep = Sweep::<L>::gram(program, coefficients, x1, p);
            let schedule = sweep.triangle();
            let all = Sides {
                left: Groups::pack(&beside(grad, v, t), 2 * t),
                right: Panels::<L>::pack(&beside(v, grad, t), 2 * t),
                to_columns: 0..wanted,
                to_rows: t..t + wanted,
            };
            let Reversed { rows, columns, coefficients, factor } = all.sweep(&sweep, &schedule);
            let mut both = vec![T::of(0.0); n * (p + wanted)];
            rows.add_into(&mut both);
            columns.add_into(&mut both);
            let (x1, v) = apart(&both, p + wanted, p);
            return Gradients { x1, x2: Vec::new(), v, coefficients, factor };
        };
        let m = x2.len() / p;
        // The longer side becomes lanes; V's gradient belongs to the side of x2.
        let (sweep, sides) = if n >= m {
            let (left, right) = (Groups::pack(v, t), Panels::<L>::pack(grad, t));
            let sides = Sides { left, right, to_columns: 0..0, to_rows: 0..wanted };
            (Sweep::<L>::cross(program, coefficients, x2, x1, p), sides)
        } else {
            let (left, right) = (Groups::pack(grad, t), Panels::<L>::pack(v, t));
            let sides = Sides { left, right, to_columns: 0..wanted, to_rows: 0..0 };
            (Sweep::<L>::cross(program, coefficients, x1, x2, p), sides)
        };
        let schedule = Schedule::latin(sweep.rows.len(), sweep.columns.len());
        let Reversed { rows, columns, coefficients, factor } = sides.sweep(&sweep, &schedule);
        let mut below = vec![T::of(0.0); n.min(m) * (p + sides.to_rows.len())];
        let mut above = vec![T::of(0.0); n.max(m) * (p + sides.to_columns.len())];
        rows.add_into(&mut below);
        columns.add_into(&mut above);
        if n >= m {
            let (x2, v) = apart(&below, p + wanted, p);
            Gradients { x1: above, x2, v, coefficients, factor }
        } else {
            let (x2, v) = apart(&above, p + wanted, p);
            Gradients { x1: below, x2, v, coefficients, factor }
        }
    }
}

/// The cotangent of pair (i, j) is leftᵢ · rightⱼ; their parts `to_…` also multiply K.
struct Sides<L: Lanes> {
    left: Groups<L::Element>,
    right: Panels<L>,
    to_columns: Range<usize>,
    to_rows: Range<usize>,
}

impl<L: Lanes> Sides<L> {
    /// Gradients in features and V side by side, for each side of the pairs.
    fn sweep(&self, sweep: &Sweep<L>, schedule: &Schedule) -> Reversed<L> {
        let wanted = Wanted { rows: self.to_rows.len(), columns: self.to_columns.len(), factor: true };
        reverse(
            sweep,
            schedule,
            wanted,
            #[inline(always)]
            |r, c| Outer {
                sides: self,
                program: sweep.program,
                symmetric: sweep.symmetric,
                left: &self.left.data[schedule.rows[r].start * self.left.width..],
                right: &self.right.data[schedule.columns[c].start * self.right.width..],
            },
        )
    }
}

/// The sides of a block.
struct Outer<'a, L: Lanes> {
    sides: &'a Sides<L>,
    program: &'a Program,
    symmetric: bool,
    left: &'a [Few<L::Element>],
    right: &'a [Wide<L>],
}

impl<L: Lanes> Seed<L> for Outer<'_, L> {
    #[inline(always)]
    fn seed(&mut self, at: &At<L>, scratch: &mut Scratch<L>, besides: Besides<L>) {
        let width = self.sides.left.width;
        let left = &self.left[at.group * width..][..width];
        let right = &self.right[at.panel * width..][..width];
        let (k, cotangent) = self.program.root(scratch);
        add_to_columns(k, &left[self.sides.to_columns.clone()], besides.columns);
        if at.mirrored || !self.symmetric {
            add_to_rows(k, &right[self.sides.to_rows.clone()], besides.rows);
        }
        outer(left, right, cotangent);
        if self.symmetric && !at.mirrored {
            // Each pair within the diagonal's tiles occurs twice.
            scale(cotangent, L::Element::of(0.5));
        }
    }
}
