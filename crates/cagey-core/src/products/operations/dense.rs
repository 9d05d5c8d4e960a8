//! The covariance matrix itself as one operation. Every entry is computed once forward and once more in the adjoint.
//! Nothing of the matrix's size is kept between the two.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use rayon::prelude::*;

use crate::error::Result;
use crate::kernels::form::Lowered;
use crate::linalg::host::{Anywhere, HostOp, Vjp, apply3};
use crate::linalg::real::{Real, into_real, into_vec, vector, with_real};
use crate::products::engine::lanes::{Lanes, Number, Work};
use crate::products::engine::program::{Program, Scratch};
use crate::products::engine::reverse::{Besides, Seed, Wanted, reverse};
use crate::products::engine::schedule::Schedule;
use crate::products::engine::sweep::{At, Sweep, Visitor, scale};
use crate::products::engine::tile::{GROUP, PANEL, panel, wide};
use crate::products::operations::matvec::{coefficients, features};
use crate::threads;

/// The covariance of two inputs lowered from the same kernel, `[n, m]`.
pub fn cross(a: &Lowered, b: &Lowered) -> Result<Tensor<2>> {
    let op = Dense { program: Program::new(a), same: false };
    apply3(Anywhere::new(op), features(a), coefficients(a), features(b))
}

/// The covariance of an input with itself, `[n, n]`.
pub fn gram(lowered: &Lowered) -> Result<Tensor<2>> {
    let (op, x) = (Dense { program: Program::new(lowered), same: true }, features(lowered));
    apply3(Anywhere::new(op), x.clone(), coefficients(lowered), x)
}

#[derive(Debug)]
pub struct Dense {
    pub(in crate::products) program: Program,
    /// Whether the columns are the rows, with white noise; all of their gradient is then that in the rows.
    pub(in crate::products) same: bool,
}

/// Features of rows and columns, and coefficients, as given.
pub struct Operands<T> {
    /// Features of the rows `[n, p]`.
    pub x1: Vec<T>,
    /// Features of the columns `[m, p]`; None means the rows once more.
    pub x2: Option<Vec<T>>,
    /// Variances and shapes.
    pub coefficients: Vec<T>,
    /// Number of features.
    pub p: usize,
}

/// Gradients in the operands of a covariance matrix.
pub struct Gradients<T> {
    /// In the features of the rows (and of the columns, if these are the rows once more).
    pub x1: Vec<T>,
    /// In the features of the columns.
    pub x2: Vec<T>,
    /// In the coefficients.
    pub coefficients: Vec<f64>,
}

impl HostOp<3> for Dense {
    fn forward(self: Arc<Self>, [x1, coefficients, x2]: [TensorData; 3]) -> Result<(TensorData, Vjp<3>)> {
        with_real!(x1.dtype(), T => {
            let p = x1.shape()[1];
            let x2 = (!self.same).then(|| into_vec(x2)).transpose()?;
            let kept = Operands::<T> { x1: into_vec(x1)?, x2, coefficients: into_vec(coefficients)?, p };
            let value = kept.matrix(&self.program);
            let (n, m) = (kept.rows(), kept.columns());
            let vjp = move |grad, _needs: [bool; 3]| {
                let Gradients { x1, x2, coefficients } = kept.pull(&self.program, &into_vec::<T>(grad)?);
                let x2 = (!self.same).then(|| TensorData::new(x2, [m, p]));
                Ok([Some(TensorData::new(x1, [n, p])), Some(vector(into_real::<_, T>(coefficients))), x2])
            };
            Ok((TensorData::new(value, [n, m]), Box::new(vjp)))
        })
    }
}

impl<T: Number> Operands<T> {
    fn rows(&self) -> usize {
        self.x1.len() / self.p
    }

    fn columns(&self) -> usize {
        self.x2.as_ref().unwrap_or(&self.x1).len() / self.p
    }

    /// The same rows with other columns.
    pub fn with(&self, x2: &[T]) -> Self {
        Self { x1: self.x1.clone(), x2: Some(x2.to_vec()), coefficients: self.coefficients.clone(), p: self.p }
    }

    /// The matrix, row-major `[n, m]`.
    pub fn matrix(&self, program: &Program) -> Vec<T> {
        T::vectorised(Evaluate { program, kept: self })
    }

    /// The adjoint of [`matrix`](Self::matrix).
    pub fn pull(&self, program: &Program, grad: &[T]) -> Gradients<T> {
        let (mut pulled, along) = T::vectorised(DenseAdjoint { program, kept: self, grad });
        let factor = program.factor(&self.coefficients);
        [&mut pulled.x1, &mut pulled.x2].into_iter().for_each(|g| scale(g, factor));
        pulled.coefficients = program.with_factor(&self.coefficients, pulled.coefficients, along);
        pulled
    }

    fn sweep<'a, L: Lanes<Element = T>>(&'a self, program: &'a Program) -> Sweep<'a, L> {
        let columns = self.x2.as_ref().unwrap_or(&self.x1);
        let own = self.x2.is_none().then_some(0);
        Sweep { own, ..Sweep::cross(program, &self.coefficients, &self.x1, columns, self.p) }
    }
}

struct Evaluate<'a, T> {
    program: &'a Program,
    kept: &'a Operands<T>,
}

impl<T: Number> Work<T> for Evaluate<'_, T> {
    type Output = Vec<T>;

    fn run<L: Lanes<Element = T>>(self) -> Vec<T> {
        let sweep = self.kept.sweep::<L>(self.program);
        evaluate(&sweep, self.kept.rows(), self.kept.columns())
    }
}

/// The matrix of a sweep, row-major `[n, m]`.
pub fn evaluate<L: Lanes>(sweep: &Sweep<L>, n: usize, m: usize) -> Vec<L::Element> {
    let factor = L::splat(sweep.program.factor(sweep.coefficients));
    let mut out = vec![L::Element::of(0.0); n * m];
    let groups_per_task = sweep.rows.len().div_ceil(threads::parts()).max(1);
    threads::for_each(out.par_chunks_mut((groups_per_task * GROUP * m).max(1)).enumerate(), |(task, out)| {
        L::enter(
            #[inline(always)]
            || {
                let start = task * groups_per_task;
                let groups = start..(start + groups_per_task).min(sweep.rows.len());
                let scratch = sweep.program.scratch(false);
                let mut writer = Writer { sweep, scratch, factor, out, m };
                sweep.visit(groups, 0..sweep.columns.len(), &mut writer);
            },
        );
    });
    out
}

struct Writer<'a, L: Lanes> {
    sweep: &'a Sweep<'a, L>,
    scratch: Scratch<L>,
    factor: L,
    out: &'a mut [L::Element],
    m: usize,
}

impl<L: Lanes> Visitor<L> for Writer<'_, L> {
    #[inline(always)]
    fn tile(&mut self, at: &At<L>) {
        let k = self.sweep.program.evaluate(&at.pairs, self.sweep.coefficients, &mut self.scratch);
        let first = at.panel * panel::<L>();
        let width = panel::<L>().min(self.m - first);
        for (values, row) in k.iter().zip(self.out.chunks_exact_mut(self.m).skip(at.group * GROUP)) {
            let mut chunks = row[first..first + width].chunks_exact_mut(L::N);
            let full = (&mut chunks).zip(values).map(|(chunk, v)| v.mul(self.factor).store(chunk)).count();
            let rest = chunks.into_remainder();
            if !rest.is_empty() {
                let mut last = [L::Element::of(0.0); 16];
                values[full].mul(self.factor).store(&mut last);
                rest.copy_from_slice(&last[..rest.len()]);
            }
        }
    }

    fn end_of_group(&mut self, _group: usize) {}
}

struct DenseAdjoint<'a, T> {
    program: &'a Program,
    kept: &'a Operands<T>,
    grad: &'a [T],
}

impl<T: Number> Work<T> for DenseAdjoint<'_, T> {
    /// Gradients without the program's factor (if x2 is x1, those in x1 include those in x2), and the gradient in the
    /// factor.
    type Output = (Gradients<T>, f64);

    fn run<L: Lanes<Element = T>>(self) -> Self::Output {
        let (sweep, p) = (self.kept.sweep::<L>(self.program), self.kept.p);
        let (n, m) = (self.kept.rows(), self.kept.columns());
        let schedule = Schedule::latin(sweep.rows.len(), sweep.columns.len());
        let wanted = Wanted { factor: true, ..Wanted::default() };
        let found = reverse(
            &sweep,
            &schedule,
            wanted,
            #[inline(always)]
            |r, c| Reader {
                program: self.program,
                grad: &self.grad[(schedule.rows[r].start * GROUP * m).min(self.grad.len())..],
                first: schedule.columns[c].start * panel::<L>(),
                m,
                column: vec![T::of(0.0); panel::<L>()],
            },
        );
        let (mut x1, mut x2) = (vec![T::of(0.0); n * p], Vec::new());
        found.rows.add_into(&mut x1);
        if self.kept.x2.is_some() {
            x2 = vec![T::of(0.0); m * p];
            found.columns.add_into(&mut x2);
        } else {
            found.columns.add_into(&mut x1);
        }
        (Gradients { x1, x2, coefficients: found.coefficients }, found.factor)
    }
}

/// The cotangents as given.
struct Reader<'a, T> {
    program: &'a Program,
    /// Starts at the block's first row.
    grad: &'a [T],
    /// First column of the block.
    first: usize,
    m: usize,
    column: Vec<T>,
}

impl<L: Lanes> Seed<L> for Reader<'_, L::Element> {
    #[inline(always)]
    fn seed(&mut self, at: &At<L>, scratch: &mut Scratch<L>, _besides: Besides<L>) {
        let first = self.first + at.panel * panel::<L>();
        let width = panel::<L>().min(self.m - first);
        let mut rows = self.grad.chunks_exact(self.m).skip(at.group * GROUP);
        for values in self.program.cotangent(scratch).iter_mut() {
            *values = match rows.next() {
                Some(row) if width == panel::<L>() => wide(&row[first..]),
                Some(row) => {
                    self.column.fill(L::Element::of(0.0));
                    self.column[..width].copy_from_slice(&row[first..]);
                    wide(&self.column)
                }
                None => [L::zero(); PANEL],
            };
        }
    }
}
