//! Computation-aware GP regression in its batch form (Wenger et al. 2024, Algorithm S2): the posterior after a number of
//! learned projections of the data, whose uncertainty includes what was not computed.
//!
//! With actions S `[n, i]`, M̂ = Sᵀ(K + σ²I)S and ṽ = M̂⁻¹Sᵀ(y − m): mean m + k*ᵀSṽ, variance k** − k*ᵀS M̂⁻¹ Sᵀk*. The
//! variance is never below the exact GP's and depends on the span of S only.

use burn::tensor::{Int, Tensor, TensorData};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use super::posterior::{Joint, Marginals, Posterior, column_squares, combine, subtract_gram};
use super::{Batch, Model, Observations};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Gaussian;
use crate::linalg::{Factor, cholesky, cholesky_solve, logdet_from_cholesky};
use crate::means::Mean;
use crate::params::{Parameter, Parameters, Unit};
use crate::products::{self, BlockSparse};
use crate::scope::{Scope, to_f64};

/// What a computation-aware GP minimises; both are invariant to the scale of the actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CagpObjective {
    /// The negative evidence lower bound (eq. 11): never below the exact negative log marginal likelihood.
    Elbo,
    /// The negative log likelihood of the projected data (eq. 9).
    Projected,
}

/// Where the non-zeros of the actions stand.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Layout {
    /// Column a has non-zeros on rows `offsets[a]..offsets[a + 1]` only: n numbers in all.
    Blocks(Vec<usize>),
    /// `i` full columns, row-major `[n, i]`.
    Dense(usize),
}

/// The actions S and the layout of their numbers.
#[derive(Debug, Clone)]
pub struct Actions {
    /// The numbers.
    pub values: Parameter,
    /// Where they stand.
    pub layout: Layout,
}

impl Actions {
    /// `i` block-sparse actions for `n` rows whose sizes differ by at most one, N(0, 1/size) from a seed.
    ///
    /// # Errors
    /// [`Error::Usage`] unless 1 ≤ i ≤ n.
    pub fn blocks(n: usize, i: usize, seed: u64) -> Result<Self> {
        if i == 0 || i > n {
            return Err(Error::Usage(format!("{i} actions for {n} rows: need between 1 and the number of rows")));
        }
        let offsets = BlockSparse::even(n, i);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let values: Vec<f64> = offsets
            .windows(2)
            .flat_map(|w| std::iter::repeat_n(w[1] - w[0], w[1] - w[0]))
            .map(|size| Distribution::<f64>::sample(&StandardNormal, &mut rng) / (size as f64).sqrt())
            .collect();
        Ok(Self::from_blocks(&values, offsets))
    }

    /// Block-sparse actions with given non-zeros and boundaries.
    pub fn from_blocks(values: &[f64], offsets: Vec<usize>) -> Self {
        Self { values: Parameter::real("actions", Unit::None, values), layout: Layout::Blocks(offsets) }
    }

    /// Full columns, row-major `[n, i]`.
    pub fn dense(values: &[f64], i: usize) -> Self {
        Self { values: Parameter::real("actions", Unit::None, values), layout: Layout::Dense(i) }
    }

    /// Number of actions i.
    pub fn len(&self) -> usize {
        match &self.layout {
            Layout::Blocks(offsets) => offsets.len() - 1,
            Layout::Dense(i) => *i,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A GP whose posterior comes from learned projections of the data.
#[derive(Debug, Clone)]
pub struct Cagp {
    /// Prior covariance.
    pub kernel: Kernel,
    /// Prior mean.
    pub mean: Mean,
    /// Observation noise (one variance for all rows).
    pub likelihood: Gaussian,
    /// The projections.
    pub actions: Actions,
    /// The training objective.
    pub objective: CagpObjective,
}

/// Everything the losses need of n-sized quantities, in f64 where the device has it.
struct Projection {
    /// SᵀKS `[i, i]`.
    sks: Tensor<2>,
    /// (KS)ᵀ(KS) `[i, i]`.
    ksks: Tensor<2>,
    /// (KS)ᵀ(y − m) `[i, 1]`.
    ksy: Tensor<2>,
    /// SᵀS `[i, i]`.
    ss: Tensor<2>,
    /// Sᵀ(y − m) `[i, 1]`.
    sy: Tensor<2>,
    /// ‖y − m‖² `[1]`.
    yy: Tensor<1>,
    /// tr K `[1]`.
    trace: Tensor<1>,
    /// log|SᵀS| `[1]`.
    log_det_ss: Tensor<1>,
}

impl Cagp {
    /// A model with zero mean, a tenth of unit variance as noise and the ELBO as objective.
    pub fn new(kernel: Kernel, actions: Actions) -> Self {
        Self { kernel, mean: Mean::Zero, likelihood: Gaussian::new(0.1), actions, objective: CagpObjective::Elbo }
    }

    fn project(&self, scope: &Scope, batch: &Batch) -> Result<Projection> {
        let n = batch.y.dims()[0];
        let residual = batch.y.clone() - self.mean.at(scope, &batch.x);
        let s = scope.value(&self.actions.values);
        let small = scope.wide();
        let yy = residual.clone().cast(small).powi_scalar(2).sum();
        match &self.actions.layout {
            Layout::Blocks(offsets) => {
                let blocks = BlockSparse::new(s.clone(), offsets.clone())?;
                let sums = products::accumulate(&self.kernel, scope, &batch.x, &blocks, &residual)?;
                let i = blocks.len();
                let owners =
                    offsets.windows(2).enumerate().flat_map(|(a, w)| std::iter::repeat_n(a as i64, w[1] - w[0]));
                let owners = TensorData::new(owners.collect::<Vec<i64>>(), [n]);
                let owners = Tensor::<1, Int>::from_data(owners, scope.device());
                let per_block = |values: Tensor<1>| {
                    let zeros = Tensor::<1>::zeros([i], (scope.device(), small));
                    zeros.select_assign(0, owners.clone(), values, burn::tensor::IndexingUpdateOp::Add)
                };
                let s = s.cast(small);
                let norms = per_block(s.clone().powi_scalar(2));
                let eye = Tensor::<2>::eye(i, scope.device()).cast(small);
                Ok(Projection {
                    sks: sums.sks.cast(small),
                    ksks: sums.ksks.cast(small),
                    ksy: sums.ksy.cast(small).unsqueeze_dim(1),
                    ss: eye * norms.clone().unsqueeze::<2>(),
                    sy: per_block(s * residual.cast(small)).unsqueeze_dim(1),
                    yy,
                    trace: sums.trace.cast(small),
                    log_det_ss: norms.log().sum(),
                })
            }
            Layout::Dense(i) => {
                let s = s.reshape([n, *i]);
                let ks = products::kv_gram(&self.kernel, scope, &batch.x, &s)?.cast(small);
                let s = s.cast(small);
                let residual = residual.cast(small).unsqueeze_dim::<2>(1);
                let ss = s.clone().transpose().matmul(s.clone());
                Ok(Projection {
                    sks: s.clone().transpose().matmul(ks.clone()),
                    ksks: ks.clone().transpose().matmul(ks.clone()),
                    ksy: ks.transpose().matmul(residual.clone()),
                    log_det_ss: logdet_from_cholesky(cholesky(ss.clone(), "SᵀS")?)?,
                    ss,
                    sy: s.transpose().matmul(residual),
                    yy,
                    trace: self.kernel.diag(scope, &batch.x)?.cast(small).sum(),
                })
            }
        }
    }

    fn noise(&self, scope: &Scope) -> Tensor<1> {
        scope.value(&self.likelihood.noise).cast(scope.wide())
    }

    /// Conditions the prior on observations through the actions.
    ///
    /// # Errors
    /// [`Error::Shape`] when the actions are for another number of rows, [`Error::NotPositiveDefinite`] when they are
    /// linearly dependent.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<CagpPosterior> {
        let scope = Scope::new(compute)?;
        let batch = data.batch(&scope);
        self.check(&batch)?;
        let projection = self.project(&scope, &batch)?;
        let gram = to_f64(projection.sks + projection.ss * self.noise(&scope).unsqueeze::<2>())?;
        let factor = Factor::new(gram, "SᵀK̂S")?;
        let mut weights = to_f64(projection.sy)?;
        factor.solve(&mut weights)?;
        Ok(CagpPosterior { model: self.clone(), compute, data, factor, weights })
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        let n = batch.y.dims()[0];
        let rows = match &self.actions.layout {
            Layout::Blocks(_) => self.actions.values.len(),
            Layout::Dense(i) => self.actions.values.len() / i.max(&1),
        };
        if batch.noise.is_some() {
            return Err(Error::Usage("a computation-aware GP takes one noise variance, not one per row".into()));
        }
        if rows == n { Ok(()) } else { Err(Error::shape("actions", format!("{n} rows"), rows.to_string())) }
    }
}

fn sum_product(a: Tensor<2>, b: Tensor<2>) -> Tensor<1> {
    (a * b).sum()
}

impl Model for Cagp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        self.check(batch)?;
        let (n, i) = (batch.y.dims()[0] as f64, self.actions.len() as f64);
        let Projection { sks, ksks, ksy, ss, sy, yy, trace, log_det_ss } = self.project(scope, batch)?;
        let noise = self.noise(scope);
        let factor = cholesky(sks.clone() + ss * noise.clone().unsqueeze::<2>(), "SᵀK̂S")?;
        let log_det = logdet_from_cholesky(factor.clone())? - log_det_ss;
        let v = cholesky_solve(factor.clone(), sy.clone())?;
        let two_pi = (2.0 * std::f64::consts::PI).ln();
        let loss = match self.objective {
            CagpObjective::Projected => sum_product(sy, v) + log_det + i * two_pi,
            CagpObjective::Elbo => {
                let explained = cholesky_solve(factor.clone(), ksks.clone())?;
                let shrunk = cholesky_solve(factor, sks.clone())?;
                let error = yy - sum_product(ksy, v.clone()) * 2.0 + sum_product(v.clone(), ksks.matmul(v.clone()));
                let variance = trace - diagonal_sum(explained);
                let quadratic = sum_product(v.clone(), sks.matmul(v)) - diagonal_sum(shrunk);
                (error + variance) / noise.clone() + noise.log() * (n - i) + n * two_pi + quadratic + log_det
            }
        };
        Ok((loss * 0.5).cast(scope.dtype()))
    }
}

fn diagonal_sum(matrix: Tensor<2>) -> Tensor<1> {
    let eye = Tensor::<2>::eye(matrix.dims()[0], &matrix.device()).cast(matrix.dtype());
    sum_product(matrix, eye)
}

impl Parameters for Cagp {
    fn parameters(&self) -> Vec<(String, &Parameter)> {
        let mut all = super::prior_parameters(&self.kernel, &self.mean, &self.likelihood);
        all.push(("actions".into(), &self.actions.values));
        all
    }

    fn parameters_mut(&mut self) -> Vec<(String, &mut Parameter)> {
        let mut all = super::prior_parameters_mut(&mut self.kernel, &mut self.mean, &mut self.likelihood);
        all.push(("actions".into(), &mut self.actions.values));
        all
    }
}

/// The posterior of a [`Cagp`]: mathematical and computational uncertainty together.
#[derive(Debug, Clone)]
pub struct CagpPosterior {
    model: Cagp,
    compute: Compute,
    data: Observations,
    /// Of M̂ = SᵀK̂S.
    factor: Factor<f64>,
    /// ṽ = M̂⁻¹Sᵀ(y − m).
    weights: Vec<f64>,
}

/// Rows predicted at once.
const CHUNK: usize = 1024;

impl CagpPosterior {
    /// ṽ, the weights of the projected data.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Sᵀ k(X, points) `[i, rows]` row-major, prior means and prior variances.
    fn projected(&self, scope: &Scope, points: &Tensor<2>) -> Result<(Vec<f64>, Vec<f64>)> {
        let (n, d) = (self.data.n(), self.data.d);
        let train = scope.matrix(&self.data.x, n, d);
        let s = scope.value(&self.model.actions.values);
        let ks = match &self.model.actions.layout {
            Layout::Blocks(offsets) => {
                let blocks = BlockSparse::new(s, offsets.clone())?;
                products::k_s(&self.model.kernel, scope, points, &train, &blocks)?
            }
            Layout::Dense(i) => products::kv(&self.model.kernel, scope, points, &train, &s.reshape([n, *i]))?,
        };
        Ok((to_f64(ks.transpose())?, to_f64(self.model.mean.at(scope, points))?))
    }

    fn rows(&self, x: &[f64]) -> Result<usize> {
        let d = self.data.d;
        if x.len().is_multiple_of(d) {
            return Ok(x.len() / d);
        }
        Err(Error::shape("inputs", format!("rows of {d} columns"), format!("{} values", x.len())))
    }
}

impl Posterior for CagpPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.rows(x)?;
        let scope = Scope::new(self.compute)?;
        let d = self.data.d;
        let mut all = Marginals::default();
        for chunk in x.chunks(CHUNK * d) {
            let points = scope.matrix(chunk, chunk.len() / d, d);
            let (mut projected, prior_mean) = self.projected(&scope, &points)?;
            let prior_variance = to_f64(self.model.kernel.diag(&scope, &points)?)?;
            let shift = combine(&projected, &self.weights);
            self.factor.solve_lower(&mut projected)?;
            let explained = column_squares(&projected, prior_variance.len());
            all.extend(prior_mean.iter().zip(shift).map(|(m, k)| m + k), &prior_variance, &explained);
        }
        Ok(all)
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        let rows = self.rows(x)?;
        let scope = Scope::new(self.compute)?;
        let points = scope.matrix(x, rows, self.data.d);
        let (mut projected, prior_mean) = self.projected(&scope, &points)?;
        let mean = prior_mean.iter().zip(combine(&projected, &self.weights)).map(|(m, k)| m + k).collect();
        let mut covariance = to_f64(products::gram(&self.model.kernel, &scope, &points)?)?;
        self.factor.solve_lower(&mut projected)?;
        subtract_gram(&mut covariance, &projected, rows);
        Ok(Joint { mean, covariance })
    }
}
