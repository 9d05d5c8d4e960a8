//! The posterior that all models with inducing points share: f given a normal distribution of whitened inducing values.
//!
//! With K_ZZ = L Lᵀ, u = m(Z) + L v, q(v) = N(μ, R Rᵀ) and a = L⁻¹ k(Z, x*), the mean is m + aᵀμ and the variance k** −
//! aᵀa + aᵀR Rᵀa (Hensman et al. 2015, *Scalable variational Gaussian process classification*, eq. 10, whitened).
//!
//! If the values vary less than a priori, I − R Rᵀ = U Uᵀ with an upper triangular U. Then T = UᵀL⁻¹ needs only one
//! product with a triangle for many rows: mean m + k(x*, Z) L⁻ᵀμ, variance k** − ‖T k(Z, x*)‖².

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::device::{Compute, Precision};
use crate::error::Result;
use crate::linalg::dense::columns::{column_squares, combine, subtract_gram};
use crate::linalg::dense::transpose::transpose_into;
use crate::linalg::dense::{cholesky, clear_upper, product, solve, triangular, view, view_mut};
use crate::linalg::real::{Real, dot, rounded};
use crate::model_file::Array;
use crate::models::functions::{Explains, Located, Pathwise, Squares};
use crate::models::posterior::{self, Joint, Marginals, Posterior};
use crate::models::prior::Prior;
use crate::products::{self, Anchors};
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Latent, Served, Weigh};
use crate::solvers::blocks::transposed;
use crate::threads;

/// A triangular root Rᵀ of the covariance of whitened values, row-major `[m, m]`, with zeros in the other triangle.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Root {
    /// Rᵀ is lower triangular.
    Lower(Vec<f64>),
    /// Rᵀ is upper triangular.
    Upper(Vec<f64>),
}

/// The posterior of one latent function given its whitened inducing values.
///
/// Factorisations, solves and products with the root are in f64, covariances in the wide type of the model's device.
/// There is one exception: if a model of f32 predicts many rows, and rounding is small compared with the remaining
/// variance, the one product for them is in f32.
#[derive(Debug, Clone)]
pub struct WhitenedPosterior {
    prior: Prior,
    compute: Compute,
    /// Inducing inputs, row-major `[m, d]`.
    z: Vec<f64>,
    d: usize,
    /// L, row-major `[m, m]`.
    lower: Vec<f64>,
    /// μ `[m]`.
    whitened: Vec<f64>,
    root: Root,
    /// Computed when rows are first predicted that are worth it. None if U does not exist: the values vary more than a
    /// priori, or K_ZZ is nearly singular and rounding errors in R are above [`SHIFT`].
    contraction: OnceLock<Option<Contraction>>,
    anchors: Anchors,
}

/// The matrix that gives the explained variance in one product.
#[derive(Debug, Clone)]
struct Contraction {
    triangle: Vec<f64>,
    /// The same in f32 for a model of f32, and the error of variances that it causes, as a share of the prior's.
    rounded: Option<(Vec<f32>, f64)>,
    /// L⁻ᵀμ `[m]`.
    weights: Vec<f64>,
}

/// The largest share of a row's variance that rounding may cost.
pub const ROUNDING: f64 = 0.01;

/// Added to the diagonal of I − R Rᵀ, which may be singular. It reduces variances by the same share of ‖a‖².
const SHIFT: f64 = 1e-13;

/// The number of rows that a thread predicts at once.
const CHUNK: usize = 512;

/// Means, prior variances and the explained part of these, row by row.
struct Explained {
    mean: Vec<f64>,
    prior: Vec<f64>,
    explained: Vec<f64>,
}

impl WhitenedPosterior {
    /// A posterior with q(v) = N(whitened, root rootᵀ) of the values v = L⁻¹u at inducing inputs `z`, with their
    /// dimension; `lower` is L.
    pub fn new(
        prior: Prior,
        compute: Compute,
        (z, d): (Vec<f64>, usize),
        lower: Vec<f64>,
        whitened: Vec<f64>,
        root: Root,
    ) -> Self {
        let (contraction, anchors) = (OnceLock::new(), Anchors::default());
        Self { prior, compute, z, d, lower, whitened, root, contraction, anchors }
    }

    /// Inducing inputs, row-major `[m, d]`.
    pub fn inducing(&self) -> &[f64] {
        &self.z
    }

    /// Marginals of f, and the part of each variance that is due to the uncertainty of the inducing values, ‖Rᵀa‖².
    ///
    /// # Errors
    /// As [`predict`](Posterior::predict).
    pub(in crate::models) fn predict_with_uncertain(&self, x: &[f64]) -> Result<(Marginals, Vec<f64>)> {
        self.rows(x)?;
        let parts = threads::map(x.par_chunks(CHUNK * self.d), |chunk| self.by_root(chunk));
        let (parts, uncertain): (Vec<_>, Vec<_>) = parts.into_iter().collect::<Result<Vec<_>>>()?.into_iter().unzip();
        Ok((marginals(parts), uncertain.concat()))
    }

    fn rows(&self, x: &[f64]) -> Result<usize> {
        posterior::rows(x, self.d)
    }

    fn inducing_in(&self, scope: &Scope) -> Tensor<2> {
        scope.matrix(&self.z, self.whitened.len(), self.d)
    }

    /// k(Z, x) `[m, rows]`.
    fn cross(&self, scope: &Scope, points: &Tensor<2>) -> Result<Vec<f64>> {
        let kernel = &self.prior.kernel;
        match self.anchors.cross(kernel, scope, (&self.z, self.d), points)? {
            Some(cross) => Ok(transposed(&cross, self.whitened.len())),
            None => to_f64(products::Cross::new(kernel, scope, &self.inducing_in(scope), points).matrix_wide()?),
        }
    }

    /// Means of f: the prior's plus the columns of a matrix combined by the weights.
    fn means(&self, scope: &Scope, points: &Tensor<2>, matrix: &[f64], weights: &[f64]) -> Result<Vec<f64>> {
        let prior = to_f64(self.prior.mean.at(scope, points)?)?;
        Ok(prior.iter().zip(combine(matrix, weights)).map(|(m, k)| m + k).collect())
    }

    /// a = L⁻¹ k(Z, x) `[m, rows]`, and the means of f.
    fn projected(&self, scope: &Scope, points: &Tensor<2>) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut a = self.cross(scope, points)?;
        solve::lower(view(&self.lower, self.whitened.len()), view_mut(&mut a, points.dims()[0]));
        let mean = self.means(scope, points, &a, &self.whitened)?;
        Ok((a, mean))
    }

    /// L⁻ᵀμ, the weights of k(Z, x).
    pub(in crate::models) fn weights(&self) -> Vec<f64> {
        let mut weights = self.whitened.clone();
        solve::upper(view(&self.lower, weights.len()).transpose(), view_mut(&mut weights, 1));
        weights
    }

    /// The posterior in numbers, whose arrays have names that begin with `name`.
    pub(in crate::models) fn latent(
        &self,
        name: &str,
        arrays: &mut BTreeMap<String, Array>,
    ) -> std::result::Result<Latent, String> {
        let m = self.whitened.len();
        let mut keep = |part: &str, values: Vec<f64>| serving::keep(arrays, &format!("{name}{part}"), values);
        let root = match &self.root {
            Root::Lower(root) => serving::Root::Lower(keep("root", serving::packed(root, m, false))),
            Root::Upper(root) => serving::Root::Upper(keep("root", serving::packed(root, m, true))),
        };
        let [points, weights] = [("points", &self.z), ("weights", &self.whitened)].map(|(p, v)| keep(p, v.clone()));
        let lower = keep("lower", serving::packed(&self.lower, m, false));
        Ok(Latent { root: Some(root), ..self.prior.latent([points, weights, lower], Weigh::Whitened)? })
    }

    /// This posterior alone in numbers.
    pub(in crate::models) fn alone(&self) -> Served {
        let mut arrays = BTreeMap::new();
        let latents = self.latent("", &mut arrays).map(|latent| vec![latent]);
        Served::latents(latents, arrays)
    }

    /// Rᵀ times columns `[m, t]`, or R times them if `transposed`.
    fn spread(&self, x: &[f64], transposed: bool) -> Vec<f64> {
        let (m, mut out) = (self.whitened.len(), vec![0.0; x.len()]);
        let (Root::Lower(root) | Root::Upper(root)) = &self.root;
        let root = if transposed { view(root, m).transpose() } else { view(root, m) };
        let (to, x) = (view_mut(&mut out, x.len() / m), view(x, x.len() / m));
        match matches!(self.root, Root::Lower(_)) != transposed {
            true => triangular::lower(to, root, x),
            false => triangular::upper(to, root, x),
        }
        out
    }

    /// The precision in which a triangle predicts so many rows at once; None if none does.
    pub fn contracts(&self, rows: usize) -> Option<Precision> {
        let single = self.contraction(rows)?.rounded.is_some();
        Some(if single { Precision::F32 } else { Precision::F64 })
    }

    /// T and L⁻ᵀμ, if there are enough `rows` to pay for them.
    fn contraction(&self, rows: usize) -> Option<&Contraction> {
        if rows < self.whitened.len() {
            return None;
        }
        if self.contraction.get().is_none() {
            // Threads that arrive together compute it each. If one waited for another, it could wait for itself: the
            // other may take up other work of its pool while it computes, such as a prediction from here.
            let _ = self.contraction.set(self.contracted());
        }
        self.contraction.get()?.as_ref()
    }

    fn contracted(&self) -> Option<Contraction> {
        let m = self.whitened.len();
        // With rows and columns in reverse order, the factor of I − R Rᵀ is lower triangular.
        let reversed = |entry: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..m * m).map(|e| entry(m - 1 - e / m, m - 1 - e % m)).collect()
        };
        let (Root::Lower(spread) | Root::Upper(spread)) = &self.root;
        let mut left = vec![0.0; m * m];
        product::add_lower(view_mut(&mut left, m), view(spread, m).transpose(), view(spread, m), -1.0);
        left.iter_mut().step_by(m + 1).for_each(|v| *v += 1.0 + SHIFT);
        let mut factor = reversed(&|i, j| left[i.max(j) * m + i.min(j)]);
        cholesky::factor(view_mut(&mut factor, m)).ok()?;
        clear_upper(&mut factor, m);
        // U, then Tᵀ = L⁻ᵀU, then T.
        let mut columns = reversed(&|i, j| factor[i * m + j]);
        let lower = view(&self.lower, m).transpose();
        solve::upper(lower, view_mut(&mut columns, m));
        let mut triangle = vec![0.0; m * m];
        transpose_into(view_mut(&mut triangle, m), view(&columns, m));
        let weights = self.weights();
        // Let the errors of k be independent and ε times the prior variance σ². Then the errors of ‖Tk‖², where Tk is
        // no longer than σ, are about 2ε σ³ times the length of T's rows.
        let longest = |rows: &[f64]| rows.chunks_exact(m).map(|row| dot(row, row)).fold(0.0, f64::max).sqrt();
        let cost = 2.0 * f64::from(f32::EPSILON) * longest(&self.lower) * longest(&triangle);
        let single = self.compute.precision == Precision::F32 && cost < ROUNDING;
        let rounded = single.then(|| (rounded(&triangle), cost));
        Some(Contraction { triangle, rounded, weights })
    }

    /// The rows of a chunk, and their prior variances.
    fn points(&self, x: &[f64]) -> Result<(Scope, Tensor<2>, Vec<f64>)> {
        let scope = Scope::new(self.compute)?;
        let points = scope.rows(x, self.d);
        let prior = to_f64(self.prior.covariance(&scope, &points).diagonal_wide()?)?;
        Ok((scope, points, prior))
    }

    /// The marginals of a chunk of rows by L and R, with ‖Rᵀa‖².
    fn by_root(&self, x: &[f64]) -> Result<(Explained, Vec<f64>)> {
        let (scope, points, prior) = self.points(x)?;
        let (a, mean) = self.projected(&scope, &points)?;
        let spread = column_squares(&self.spread(&a, false), prior.len());
        let explained = column_squares(&a, prior.len()).iter().zip(&spread).map(|(a, left)| a - left).collect();
        Ok((Explained { mean, prior, explained }, spread))
    }

    /// The marginals of a chunk of rows by T.
    fn by_triangle(
        &self,
        x: &[f64],
        Contraction { triangle, rounded: single, weights }: &Contraction,
    ) -> Result<Explained> {
        let (scope, points, prior) = self.points(x)?;
        let (k, rows) = (self.cross(&scope, &points)?, prior.len());
        let mean = self.means(&scope, &points, &k, weights)?;
        // If too little variance remains in one row, predict all rows of the chunk in f64.
        let single = single.as_ref().and_then(|(triangle, cost)| {
            let explained = contracted(triangle, &rounded::<f32, f64>(&k), rows);
            let enough = |(prior, explained): (&f64, &f64)| prior - explained > cost / ROUNDING * prior;
            prior.iter().zip(&explained).all(enough).then_some(explained)
        });
        let explained = single.unwrap_or_else(|| contracted(triangle, &k, rows));
        Ok(Explained { mean, prior, explained })
    }
}

/// P = L⁻ᵀ(I − R Rᵀ)L⁻¹.
impl Explains for WhitenedPosterior {
    fn explain(&self, k: &mut [f64], t: usize, squares: Squares) -> Result<Vec<f64>> {
        let lower = view(&self.lower, self.whitened.len());
        solve::lower(lower, view_mut(k, t));
        let spread = self.spread(k, false);
        let values = squares(k, t).iter().zip(squares(&spread, t)).map(|(a, s)| a - s).collect();
        k.iter_mut().zip(self.spread(&spread, true)).for_each(|(a, b)| *a -= b);
        solve::upper(lower.transpose(), view_mut(k, t));
        Ok(values)
    }
}

/// The weights are L⁻ᵀ(v − L⁻¹f(Z)) for draws v = μ + R z of the whitened values and samples f of the prior.
impl Pathwise for WhitenedPosterior {
    fn prior(&self) -> &Prior {
        &self.prior
    }

    fn compute(&self) -> Compute {
        self.compute
    }

    fn centres(&self) -> (&[f64], usize) {
        (&self.z, self.d)
    }

    fn corrections(&self, mut samples: Vec<f64>, normal: &mut dyn FnMut() -> f64) -> Result<Vec<f64>> {
        let m = self.whitened.len();
        let (count, lower) = (samples.len() / m, view(&self.lower, m));
        solve::lower(lower, view_mut(&mut samples, count));
        let z: Vec<f64> = (0..samples.len()).map(|_| normal()).collect();
        let drawn = self.spread(&z, true);
        for (at, (value, drawn)) in samples.iter_mut().zip(drawn).enumerate() {
            *value = self.whitened[at / count] + drawn - *value;
        }
        solve::upper(lower.transpose(), view_mut(&mut samples, count));
        Ok(samples)
    }
}

/// The marginals of rows in chunks.
fn marginals(parts: Vec<Explained>) -> Marginals {
    let mut all = Marginals::default();
    for Explained { mean, prior, explained } in parts {
        all.extend(mean.into_iter(), &prior, &explained);
    }
    all
}

/// ‖T k‖² for the columns k.
fn contracted<T: Real>(triangle: &[T], k: &[T], rows: usize) -> Vec<f64> {
    let mut contracted = vec![T::of(0.0); k.len()];
    triangular::lower(view_mut(&mut contracted, rows), view(triangle, k.len() / rows), view(k, rows));
    column_squares(&contracted, rows)
}

impl Posterior for WhitenedPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        let contraction = self.contraction(self.rows(x)?);
        let part = |chunk: &[f64]| match contraction {
            Some(contraction) => self.by_triangle(chunk, contraction),
            None => Ok(self.by_root(chunk)?.0),
        };
        Ok(marginals(threads::map(x.par_chunks(CHUNK * self.d), part).into_iter().collect::<Result<_>>()?))
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.rows(x)?;
        let weights = self.weights();
        let part = |chunk: &[f64]| {
            let scope = Scope::new(self.compute)?;
            let points = scope.rows(chunk, self.d);
            self.means(&scope, &points, &self.cross(&scope, &points)?, &weights)
        };
        Ok(threads::map(x.par_chunks(CHUNK * self.d), part).into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    fn located(&self, x: Tensor<2>) -> Result<Option<Located>> {
        let (scope, prior) = (Scope::beside(self.compute, &x)?, self.prior.clone());
        let k = prior.cross(&scope, &self.inducing_in(&scope), &x).matrix_wide()?;
        Ok(Some(Located { scope, prior, x, k, weights: self.weights(), explains: Arc::new(self.clone()) }))
    }

    fn pathwise(&self) -> Result<Option<&dyn Pathwise>> {
        Ok(Some(self))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = self.rows(x)?;
        if rows == 0 {
            return Ok(Joint::default());
        }
        let scope = Scope::new(self.compute)?;
        let points = scope.matrix(x, rows, self.d);
        let (a, mean) = self.projected(&scope, &points)?;
        let mut covariance = to_f64(self.prior.covariance(&scope, &points).matrix_wide()?)?;
        subtract_gram(&mut covariance, &a, rows);
        let spread = self.spread(&a, false);
        product::add(view_mut(&mut covariance, rows), view(&spread, rows).transpose(), view(&spread, rows), 1.0);
        crate::linalg::dense::transpose::mirror(view_mut(&mut covariance, rows));
        Ok(Joint { mean, covariance })
    }
}
