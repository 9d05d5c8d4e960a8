//! Random functions whose second moment is a kernel, for sample paths of a prior.
//!
//! A random function ψ with mean zero and E ψ(x) ψ(z) = k(x, z) needs one draw: √2 cos(ωᵀx + b) with a frequency ω from
//! the spectral density and a uniform phase b (Rahimi and Recht 2007, *Random features for large-scale kernel
//! machines*), gᵀx with a normal g for an inner product, a normal number for a constant. Sums and products of
//! independent random functions have the sums and products of their kernels. The sum of M such functions over √M is a
//! path: its mean and covariance are exact for any M, and its distribution is nearly normal for large M.

use std::f64::consts::{PI, SQRT_2, TAU};

use burn::tensor::Tensor;
use cagey_base::kernels::Rows;
use rand::{Rng, RngExt};
use rand_distr::{ChiSquared, Distribution, Gamma, StandardNormal};

use super::form::{Lowered, Metric, Term};
use super::graph::Graph;
use super::profile::Profile;
use super::{Kernel, Leaf};
use crate::error::{Error, Result};
use crate::scope::{Scope, to_f64};

/// Random functions of a kernel, in the order of its terms.
#[derive(Debug, Clone)]
pub struct RandomFunctions {
    terms: Vec<Draw>,
    count: usize,
}

/// The random numbers of a term, one column for each function.
#[derive(Debug, Clone)]
enum Draw {
    /// √2 cos(zᵀω + b); `on_circle`, for a periodic kernel of one feature a, with z on the circle of radius 1/a.
    Waves { frequencies: Columns, phases: Columns, on_circle: bool },
    /// Π (zᵀg + √a h), or one factor zᵀg.
    Planes(Vec<(Columns, Option<Columns>)>),
    /// g.
    Level(Columns),
}

/// A row-major matrix with one column for each function.
#[derive(Debug, Clone)]
struct Columns(Vec<f64>);

impl Columns {
    fn tensor(&self, scope: &Scope, count: usize) -> Tensor<2> {
        scope.matrix(&self.0, self.0.len() / count, count)
    }

    /// The columns of a range of functions.
    fn part(&self, count: usize, range: &std::ops::Range<usize>) -> Self {
        Self(self.0.chunks_exact(count).flat_map(|row| &row[range.clone()]).copied().collect())
    }
}

fn normal(rows: usize, count: usize, rng: &mut impl Rng) -> Columns {
    Columns((0..rows * count).map(|_| StandardNormal.sample(rng)).collect())
}

impl RandomFunctions {
    /// Draws `count` independent functions for a kernel of `d` columns at its present parameters.
    ///
    /// # Errors
    /// [`Error::Usage`] naming a form that has no such functions: a tensor graph without terms, white noise, and terms
    /// without a known spectral density.
    pub fn draw(kernel: &Kernel, scope: &Scope, d: usize, count: usize, rng: &mut impl Rng) -> Result<Self> {
        let mut terms = Vec::new();
        let row = scope.matrix(&vec![0.0; d], 1, d);
        kernel.each_leaf(scope, &row, &mut |leaf, lowered| {
            let name = leaf.form.name();
            for term in lowered.as_ref().map(Lowered::terms).ok_or_else(|| without(name))? {
                terms.push(Draw::of(term, count, rng)?.ok_or_else(|| without(name))?);
            }
            Ok(())
        })?;
        Ok(Self { terms, count })
    }

    /// Number of functions.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Some of the functions.
    pub fn part(&self, range: std::ops::Range<usize>) -> Self {
        let of = |columns: &Columns| columns.part(self.count, &range);
        let terms = self.terms.iter().map(|draw| match draw {
            Draw::Waves { frequencies, phases, on_circle } => {
                Draw::Waves { frequencies: of(frequencies), phases: of(phases), on_circle: *on_circle }
            }
            Draw::Planes(factors) => Draw::Planes(factors.iter().map(|(g, h)| (of(g), h.as_ref().map(of))).collect()),
            Draw::Level(level) => Draw::Level(of(level)),
        });
        Self { terms: terms.collect(), count: range.len() }
    }

    /// Their values `[n, count]` at rows `x [n, d]`, differentiable in the rows and in the kernel's parameters, except
    /// for shape parameters. The kernel is the one that they were drawn for.
    ///
    /// # Errors
    /// As [`Kernel::lower`]; [`Error::Usage`] for a kernel with other terms.
    pub fn at(&self, kernel: &Kernel, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
        let changed = || Error::Usage("the random functions were drawn for a kernel of other terms".into());
        let lowered = kernel.lower(scope, x)?.ok_or_else(changed)?;
        let mut draws = self.terms.iter();
        let values = lowered.folded(&mut |term| Ok(draws.next().ok_or_else(changed)?.at(scope, term, self.count)))?;
        if draws.next().is_none() { Ok(values) } else { Err(changed()) }
    }
}

fn without(name: &str) -> Error {
    Error::Usage(format!(
        "the kernel form `{name}` has no random functions for paths: draw joint samples at given points instead, or \
         leave it out of the kernel"
    ))
}

impl Draw {
    /// None if the term has no such functions.
    fn of(term: &Term, count: usize, rng: &mut impl Rng) -> Result<Option<Self>> {
        let p = term.features.dims()[1];
        let shape = match &term.shape {
            Some(shape) => to_f64(shape.clone())?[0],
            None => 0.0,
        };
        // The square of a frequency's length is that of a normal vector times a random factor.
        let mut waves = |factor: &mut dyn FnMut(&mut dyn Rng) -> f64, p: usize| {
            let mut frequencies = normal(p, count, rng);
            for column in 0..count {
                let length = factor(rng).sqrt();
                (0..p).for_each(|row| frequencies.0[row * count + column] *= length);
            }
            let phases = Columns((0..count).map(|_| TAU * rng.random::<f64>()).collect());
            (frequencies, phases)
        };
        let wave = |(frequencies, phases)| Self::Waves { frequencies, phases, on_circle: false };
        // A Matérn kernel's density is that of Student's t with 2ν degrees of freedom.
        let mut student = |freedom: f64| {
            let squares = ChiSquared::new(freedom).map_err(|e| Error::Usage(format!("frequencies: {e}")))?;
            Ok(Some(wave(waves(&mut |rng| freedom / squares.sample(rng), p))))
        };
        Ok(match (term.metric, term.profile) {
            (Metric::Delta, _) => None,
            (_, Profile::One) => Some(Self::Level(normal(1, count, rng))),
            (Metric::SquaredDistance, Profile::Matern12) => student(1.0)?,
            (Metric::SquaredDistance, Profile::Matern32) => student(3.0)?,
            (Metric::SquaredDistance, Profile::Matern52) => student(5.0)?,
            (Metric::SquaredDistance, Profile::Rbf) => Some(wave(waves(&mut |_| 1.0, p))),
            (Metric::SquaredDistance, Profile::RationalQuadratic) => {
                // The kernel is an average of RBF kernels over a gamma distribution of their inverse squared lengths.
                let lengths = Gamma::new(shape, 1.0 / shape).map_err(|e| Error::Usage(format!("frequencies: {e}")))?;
                Some(wave(waves(&mut |rng| lengths.sample(rng), p)))
            }
            (Metric::SquaredDistance, Profile::CosineNorm) if p == 1 => {
                let (mut frequencies, phases) = waves(&mut |_| 1.0, 1);
                frequencies.0.fill(PI);
                Some(wave((frequencies, phases)))
            }
            (Metric::SquaredDistance, Profile::PeriodicNorm) if p == 1 => {
                let (frequencies, phases) = waves(&mut |_| 1.0, 2);
                Some(Self::Waves { frequencies, phases, on_circle: true })
            }
            (Metric::InnerProduct, Profile::Identity) => Some(Self::Planes(vec![(normal(p, count, rng), None)])),
            (Metric::InnerProduct, Profile::Power(power)) => {
                let factor = |_| (normal(p, count, rng), Some(normal(1, count, rng)));
                Some(Self::Planes((0..power).map(factor).collect()))
            }
            _ => None,
        })
    }

    /// Values `[n, count]` at the features of a term.
    fn at(&self, scope: &Scope, term: &Term, count: usize) -> Tensor<2> {
        let (z, n) = (term.features.clone(), term.features.dims()[0]);
        let shape = || term.shape.clone().map(|a| a.unsqueeze::<2>());
        let values = match self {
            Self::Waves { frequencies, phases, on_circle } => {
                let z = match (on_circle, shape()) {
                    (true, Some(a)) => Graph(z * TAU).waves().0 / a,
                    (true, None) => Graph(z * TAU).waves().0,
                    (false, _) => z,
                };
                (z.matmul(frequencies.tensor(scope, count)) + phases.tensor(scope, count)).cos() * SQRT_2
            }
            Self::Planes(factors) => {
                let factor = |(g, h): &(Columns, Option<Columns>)| {
                    let plane = z.clone().matmul(g.tensor(scope, count));
                    match (h, shape()) {
                        (Some(h), Some(a)) => plane + h.tensor(scope, count) * a.sqrt(),
                        _ => plane,
                    }
                };
                let all = factors.iter().map(factor).reduce(|a, b| a * b);
                all.unwrap_or_else(|| Tensor::ones([n, count], (scope.device(), scope.dtype())))
            }
            Self::Level(level) => level.tensor(scope, count).expand([n, count]),
        };
        match &term.variance {
            Some(v) => values * v.clone().sqrt().unsqueeze::<2>(),
            None => values,
        }
    }
}

impl Kernel {
    /// Visits the leaves in the order of their terms, lowered at rows `x`.
    fn each_leaf(
        &self,
        scope: &Scope,
        x: &Tensor<2>,
        visit: &mut impl FnMut(&Leaf, Option<Lowered>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Leaf(leaf) => visit(leaf, self.lower(scope, x)?),
            Self::Sum(parts) | Self::Product(parts) => parts.iter().try_for_each(|k| k.each_leaf(scope, x, visit)),
            Self::Transformed(t) => t.kernel.each_leaf(scope, &t.map(scope, x)?, visit),
        }
    }
}
