//! Predictions from all rows through the factor of their covariance.

use super::{ExactGp, influence};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;

use crate::device::Compute;
use crate::error::Result;
use crate::linalg::Factor;
use crate::linalg::dense::columns::{column_squares, combine, subtract_gram};
use crate::model_file::Array;
use crate::models::Observations;
use crate::models::functions::{Located, Pathwise};
use crate::models::leave_one_out::{Influence, LeaveOneOut};
use crate::models::posterior::{self, Exact, Joint, Marginals, Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::products::Anchors;
use crate::scope::{Scope, to_f64};
use crate::serving::{self, Latent, Served, Weigh};
use crate::solvers::blocks::{scale_rows, transposed};

/// The posterior of an [`ExactGp`]. Its factorisation uses f64 in any precision of the covariances.
#[derive(Debug, Clone)]
pub struct ExactPosterior {
    pub(super) model: ExactGp,
    pub(super) compute: Compute,
    pub(super) data: Observations,
    pub(super) factor: Factor<f64>,
    /// L⁻¹(y − m), for K̂ = L Lᵀ. More rows only append to it.
    pub(super) whitened: Vec<f64>,
    /// K̂⁻¹(y − m).
    pub(super) weights: Vec<f64>,
    pub(super) anchors: Anchors,
    /// The [left-out](Self::leave_one_out) rows, once they are known.
    pub(super) left_out: OnceLock<Marginals>,
    /// The [influence](LeaveOneOut::influence) of rows, once it is known.
    pub(super) influence: OnceLock<Influence>,
}

/// What predictions at some points begin with.
pub(in crate::models) struct Crossed {
    /// k(X, x) `[n, t]`.
    pub(in crate::models) cross: Vec<f64>,
    /// Means of f.
    pub(in crate::models) mean: Vec<f64>,
    /// Prior variances of f.
    pub(in crate::models) prior: Vec<f64>,
}

/// The entry of files that holds the rows of L up to the diagonal, one after another.
pub(super) const FACTOR: &str = "posterior.factor";

/// Bytes of cross-covariance that a chunk of predictions may hold.
const CHUNK_BYTES: usize = 64 << 20;

impl ExactPosterior {
    /// The observations conditioned on.
    pub fn data(&self) -> &Observations {
        &self.data
    }

    /// The factor of K̂, and K̂⁻¹(y − m).
    pub(in crate::models) fn solved(&self) -> (&Factor<f64>, &[f64]) {
        (&self.factor, &self.weights)
    }

    /// What predictions at rows `x` begin with.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(in crate::models) fn crossed(&self, x: &[f64]) -> Result<Crossed> {
        self.crossed_by(&self.model.prior, &self.anchors, x)
    }

    fn crossed_by(&self, prior: &Prior, anchors: &Anchors, x: &[f64]) -> Result<Crossed> {
        let scope = Scope::new(self.compute)?;
        let points = scope.rows(x, self.data.d);
        let (cross, mean) = self.means(&scope, prior, anchors, &points)?;
        Ok(Crossed { cross, mean, prior: to_f64(prior.kernel.diag(&scope, &points)?)? })
    }

    /// K + σ²I of other rows.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(in crate::models) fn covariance(&self, rows: &Observations) -> Result<Vec<f64>> {
        self.model.covariance(self.compute, rows)
    }

    /// k(R, x) `[r, t]` for other rows R, which `anchors` belong to.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(in crate::models) fn cross_with(&self, rows: &Observations, anchors: &Anchors, x: &[f64]) -> Result<Vec<f64>> {
        let scope = Scope::new(self.compute)?;
        let points = scope.rows(x, rows.d);
        cross(&scope, &self.model.prior, (anchors, rows), &points)
    }

    /// The posterior in numbers, whose arrays have names that begin with `name`.
    pub(in crate::models) fn latent(
        &self,
        name: &str,
        arrays: &mut BTreeMap<String, Array>,
    ) -> std::result::Result<Latent, String> {
        let mut keep = |part: &str, values: Vec<f64>| serving::keep(arrays, &format!("{name}{part}"), values);
        let points = keep("points", self.data.x.clone());
        let names = [points, keep("weights", self.weights.clone()), keep("lower", self.factor.packed())];
        self.model.prior.latent(names, Weigh::Covariances)
    }

    /// The posterior of a model whose K̂ of the data has this factor.
    pub(super) fn new(model: ExactGp, compute: Compute, data: Observations, factor: Factor<f64>) -> Result<Self> {
        let mut whitened = model.residuals(&Scope::new(compute)?, &data)?;
        factor.solve_lower(&mut whitened)?;
        Self::given(model, compute, data, factor, whitened)
    }

    fn given(
        model: ExactGp,
        compute: Compute,
        data: Observations,
        factor: Factor<f64>,
        whitened: Vec<f64>,
    ) -> Result<Self> {
        let mut weights = whitened.clone();
        factor.solve_lower_transposed(&mut weights)?;
        let (anchors, left_out, influence) = Default::default();
        Ok(Self { model, compute, data, factor, whitened, weights, anchors, left_out, influence })
    }

    /// Conditions on more observations without retraining. This is O(n²k) for k more rows; few rows need two passes
    /// over the factor.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) when the columns differ,
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when the larger matrix is not positive definite.
    pub fn condition(&self, more: &Observations) -> Result<Self> {
        let data = self.data.extended(more)?;
        let (scope, prior) = (Scope::new(self.compute)?, &self.model.prior);
        let new = scope.rows(&more.x, more.d);
        let cross = match self.anchors.cross(&prior.kernel, &scope, self.rows(), &new)? {
            Some(cross) => cross,
            None => to_f64(prior.cross(&scope, &new, &self.train(&scope)).matrix()?)?,
        };
        let mut factor = self.factor.clone();
        factor.append_rows(cross, self.covariance(more)?, "K + σ²I with the new rows")?;
        let mut whitened = self.whitened.clone();
        whitened.extend(self.model.residuals(&scope, more)?);
        factor.solve_lower_from(self.data.n(), &mut whitened);
        Self::given(self.model.clone(), self.compute, data, factor, whitened)
    }

    /// Closed-form leave-one-out predictions of the observations y (not f): means and variances (eq. 5.12).
    pub fn leave_one_out(&self) -> Marginals {
        let of = || {
            let precision = self.factor.inverse_diagonal();
            let mean = self.data.y.iter().zip(&self.weights).zip(&precision).map(|((y, w), p)| y - w / p).collect();
            Marginals { mean, variance: precision.iter().map(|p| 1.0 / p).collect(), floored: 0 }
        };
        self.left_out.get_or_init(of).clone()
    }

    /// The training inputs, row-major, and their number of columns.
    pub(super) fn rows(&self) -> (&[f64], usize) {
        (&self.data.x, self.data.d)
    }

    fn train(&self, scope: &Scope) -> Tensor<2> {
        scope.rows(&self.data.x, self.data.d)
    }

    /// Divides points into chunks that are predicted together.
    fn chunks<'a>(&self, x: &'a [f64]) -> Result<impl Iterator<Item = &'a [f64]>> {
        posterior::rows(x, self.data.d)?;
        let rows = (CHUNK_BYTES / (8 * self.data.n())).clamp(1, 4096);
        Ok(x.chunks(rows * self.data.d))
    }

    /// k(X, points) `[n, rows]`, and the means of f.
    fn means(
        &self,
        scope: &Scope,
        prior: &Prior,
        anchors: &Anchors,
        points: &Tensor<2>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let cross = cross(scope, prior, (anchors, &self.data), points)?;
        let levels = to_f64(prior.mean.at(scope, points)?)?;
        let mean = levels.iter().zip(combine(&cross, &self.weights)).map(|(m, k)| m + k).collect();
        Ok((cross, mean))
    }

    /// Predictions of the part of f that has this prior.
    fn of(&self, prior: &Prior, anchors: &Anchors, x: &[f64]) -> Result<Marginals> {
        let mut all = Marginals::default();
        for chunk in self.chunks(x)? {
            let Crossed { mut cross, mean, prior } = self.crossed_by(prior, anchors, chunk)?;
            self.factor.solve_lower(&mut cross)?;
            all.extend(mean.into_iter(), &prior, &column_squares(&cross, prior.len()));
        }
        Ok(all)
    }
}

/// k(R, points) `[r, t]`.
fn cross(
    scope: &Scope,
    prior: &Prior,
    (anchors, rows): (&Anchors, &Observations),
    points: &Tensor<2>,
) -> Result<Vec<f64>> {
    Ok(match anchors.cross(&prior.kernel, scope, (&rows.x, rows.d), points)? {
        Some(cross) => transposed(&cross, rows.n()),
        None => to_f64(prior.cross(scope, &scope.rows(&rows.x, rows.d), points).matrix()?)?,
    })
}

impl LeaveOneOut for ExactPosterior {
    fn left_out(&self, _data: &Observations) -> Result<Marginals> {
        Ok(self.leave_one_out())
    }

    fn influence(&self) -> Result<Option<&Influence>> {
        let of = || influence::influence(&self.model, &self.data, &self.leave_one_out(), self.solved());
        posterior::once(&self.influence, of).map(Some)
    }

    /// Residuals are D⁻¹K̂⁻¹(y − m) with D the diagonal of K̂⁻¹. Standardised residuals are therefore D^-½L⁻ᵀ times
    /// normal numbers.
    fn residuals(&self, mut noise: Vec<f64>, _count: usize, variance: &[f64]) -> Result<Vec<f64>> {
        self.factor.solve_lower_transposed(&mut noise)?;
        scale_rows(&mut noise, &variance.iter().map(|variance| variance.sqrt()).collect::<Vec<_>>());
        Ok(noise)
    }
}

impl Exact for ExactPosterior {
    fn predict_component(&self, index: usize, x: &[f64]) -> Result<Marginals> {
        let summand = self.model.prior.kernel.summand(index)?;
        self.of(&summand.clone().into(), &Anchors::default(), x)
    }
}

impl Posterior for ExactPosterior {
    fn exact(&self) -> Option<&dyn Exact> {
        Some(self)
    }

    fn leave_one_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.of(&self.model.prior, &self.anchors, x)
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        let scope = Scope::new(self.compute)?;
        let mut all = Vec::with_capacity(x.len() / self.data.d);
        for chunk in self.chunks(x)? {
            let points = scope.rows(chunk, self.data.d);
            all.extend(self.means(&scope, &self.model.prior, &self.anchors, &points)?.1);
        }
        Ok(all)
    }

    fn located(&self, x: Tensor<2>) -> Result<Option<Located>> {
        let (scope, prior) = (Scope::beside(self.compute, &x)?, self.model.prior.clone());
        let k = prior.cross(&scope, &self.train(&scope), &x).matrix()?;
        let (weights, explains) = (self.weights.clone(), Arc::new(self.factor.clone()));
        Ok(Some(Located { scope, prior, x, k, weights, explains }))
    }

    fn pathwise(&self) -> Result<Option<&dyn Pathwise>> {
        Ok(Some(self))
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        Ok(Some(Box::new(self.condition(more)?)))
    }

    fn saved(&self, factor: bool) -> Result<SavedPosterior> {
        let mut saved = SavedPosterior::default();
        if factor {
            let packed = self.factor.packed();
            saved.put(FACTOR, &[packed.len()], packed);
        }
        Ok(saved)
    }

    fn served(&self, factor: bool) -> Result<Served> {
        if !factor {
            return Ok(Served::refused(posterior::NO_FACTOR));
        }
        let mut arrays = BTreeMap::new();
        let weights = serving::keep(&mut arrays, "weights", self.weights.clone());
        let names = ["x".into(), weights, FACTOR.into()];
        let latents = self.model.prior.latent(names, Weigh::Covariances).map(|latent| vec![latent]);
        Ok(Served::latents(latents, arrays))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = posterior::rows(x, self.data.d)?;
        if rows == 0 {
            return Ok(Joint::default());
        }
        let (scope, prior) = (Scope::new(self.compute)?.widened(), &self.model.prior);
        let points = scope.matrix(x, rows, self.data.d);
        let (mut cross, mean) = self.means(&scope, prior, &self.anchors, &points)?;
        let mut covariance = to_f64(prior.covariance(&scope, &points).matrix()?)?;
        self.factor.solve_lower(&mut cross)?;
        subtract_gram(&mut covariance, &cross, rows);
        Ok(Joint { mean, covariance })
    }
}

/// The weights are K̂⁻¹(y − m − f − ε) for samples f of the prior and noise ε at the data.
impl Pathwise for ExactPosterior {
    fn prior(&self) -> &Prior {
        &self.model.prior
    }

    fn compute(&self) -> Compute {
        self.compute
    }

    fn centres(&self) -> (&[f64], usize) {
        self.rows()
    }

    fn corrections(&self, mut samples: Vec<f64>, normal: &mut dyn FnMut() -> f64) -> Result<Vec<f64>> {
        let (scope, n) = (Scope::new(self.compute)?.widened(), self.data.n());
        let noise = self.data.noise(&scope, &self.model.likelihood)?;
        let count = samples.len() / n;
        for (row, noise) in samples.chunks_exact_mut(count).zip(&noise) {
            row.iter_mut().for_each(|value| *value += noise.sqrt() * normal());
        }
        self.factor.solve(&mut samples)?;
        for (row, weight) in samples.chunks_exact_mut(count).zip(&self.weights) {
            row.iter_mut().for_each(|value| *value = weight - *value);
        }
        Ok(samples)
    }
}
