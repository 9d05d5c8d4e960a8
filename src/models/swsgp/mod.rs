//! Sparse-within-sparse GPs (Tran et al. 2021, *Sparse within sparse Gaussian processes using neighbor information*).
//! Each row uses only the H nearest of many inducing values, so that a step costs O(bH³) for any number of inducing
//! values.
//!
//! If the inducing inputs are fixed, training finds the neighbours of all rows before the first step and after 1, 2, 4,
//! 8, … epochs, with the lengthscales at that time. If q also has a diagonal covariance, Adam leaves alone the
//! parameters that a batch does not see. If the inducing inputs are trained, neighbours are found anew in every step.

mod model;
mod options;
mod posterior;

use std::sync::Arc;

use burn::tensor::Tensor;

pub use options::SwsgpOptions;
pub use posterior::SwsgpPosterior;

use super::neighbours::{self, nearest};
use super::posterior::{VARIANCE_FLOOR, rows};
use super::process::Process;
use super::variational::{Covariance, Variational};
use super::{Batch, Held, Model};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::likelihoods::Likelihood;
use crate::linalg::{Factor, Projected, cholesky, marginals, solve_lower, unpack_lower};
use crate::products::{self, Neighbours};
use crate::scope::{Scope, to_f64};

/// A variational GP with one latent function and unwhitened q(u − m(Z)) = N(m, S), where each row sees its H nearest
/// inducing inputs.
///
/// Training minimises `−[scale Σ_i E_q[ln p(y_i | f_i)] − (w/b) Σ_i KL(N(m_I, S_I) ‖ N(0, K_I))]` over the b rows of a
/// batch, where I are the neighbours of row i (Algorithm 1, with w = 1). Distances are those of the kernel's scaled
/// inputs.
///
/// With w = 1 the prior holds each of the M inducing values M/H times less strongly than in a model where every row
/// sees all of them. If M is not much smaller than the number of rows, the model is then overconfident.
/// [`divergence`](Self::divergence) is the weight w.
#[derive(Debug, Clone)]
pub struct Swsgp {
    /// The prior and Z.
    pub process: Process,
    /// q.
    pub variational: Variational,
    /// The likelihood of the targets given the latent function.
    pub likelihood: Box<dyn Likelihood>,
    /// H.
    pub neighbours: usize,
    /// w, the weight of the divergence. It is 1 in the paper; with M/H every inducing value counts about once.
    pub divergence: f64,
    /// Whether all rows of a batch see the neighbours of all its rows, jointly (SWSGP-U). This takes b M² instead of b
    /// H³ time if the neighbours are most of the M, and is closer to the model in which each row sees all of them.
    /// Predictions then use all inducing inputs, as a large batch does.
    pub union: bool,
    /// The variance of independent noise on the inducing values, as a share of their prior variance. Inducing values of
    /// a smooth function determine each other to many digits; without noise, q would have to agree with the prior to as
    /// many, which no optimiser that moves its numbers one by one achieves. They are then inducing values of another
    /// kind, and the bound of every row still holds.
    pub nugget: f64,
}

/// The part of q and Z that a batch uses.
struct Active {
    /// `[U, d]`.
    z: Tensor<2>,
    /// `[U]`.
    mean: Tensor<1>,
    spread: Spread,
}

/// S of the inducing values that a batch uses.
enum Spread {
    /// The diagonal of its root `[U]`.
    Diagonal(Tensor<1>),
    /// The rows of its root `[U, M]`.
    Rows(Tensor<2>),
}

impl Swsgp {
    /// Makes a model with zero mean, diagonal S = I, inducing inputs `z` (row-major `[m, d]`) and `neighbours` of them
    /// for each row.
    ///
    /// # Errors
    /// [`Error::Shape`] when `z` is empty or its last row is incomplete, [`Error::Usage`] for no neighbours, too many
    /// neighbours, or a likelihood with several latent functions.
    pub fn new(
        kernel: Kernel,
        z: &[f64],
        d: usize,
        neighbours: usize,
        likelihood: impl Likelihood + 'static,
    ) -> Result<Self> {
        Self::boxed(kernel, z, d, neighbours, Box::new(likelihood))
    }

    /// As [`new`](Self::new), for a likelihood chosen at run time.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn boxed(
        kernel: Kernel,
        z: &[f64],
        d: usize,
        neighbours: usize,
        likelihood: Box<dyn Likelihood>,
    ) -> Result<Self> {
        let process = Process::new(kernel, z, d)?;
        let m = process.len();
        check(neighbours, m)?;
        if likelihood.latents() != 1 {
            let text = likelihood.text();
            return Err(Error::Usage(format!(
                "SWSGP has one latent function, the {text} likelihood {}; choose another variational model for it",
                likelihood.latents()
            )));
        }
        let variational = Variational::new(m, Covariance::Diagonal);
        Ok(Self { process, variational, likelihood, neighbours, divergence: 1.0, union: false, nugget: 0.0 })
    }

    /// The same model with another covariance of q. q starts again.
    pub fn covariance(mut self, covariance: Covariance) -> Self {
        self.variational = Variational::new(self.process.len(), covariance);
        self
    }

    /// The neighbours of rows `x`, row-major, with the present lengthscales.
    ///
    /// # Errors
    /// [`Error::Shape`] when the last row is incomplete, and errors of the kernel.
    pub fn neighbours(&self, compute: Compute, x: &[f64]) -> Result<Neighbours> {
        let scope = Scope::new(compute)?;
        let d = self.process.d();
        rows(x, d)?;
        check(self.neighbours, self.process.len())?;
        let points = scope.rows(x, d);
        let of = |x: &Tensor<2>| neighbours::scaled(&self.process.prior.kernel, &scope, x);
        let ((points, p), (z, _)) = (of(&points)?, of(&self.process.z(&scope))?);
        Ok(nearest(&points, &z, p, self.neighbours))
    }

    /// Whether training finds the neighbours of all rows from time to time, instead of those of a batch in every step.
    fn keeps_neighbours(&self) -> bool {
        self.process.inducing.fixed
    }

    /// All of q and Z, as tensors of a scope.
    fn all(&self, scope: &Scope) -> Result<Active> {
        let q = &self.variational;
        let root = scope.wide_value(&q.root);
        let spread = if q.is_diagonal() { Spread::Diagonal(root) } else { Spread::Rows(unpack_lower(root)?) };
        Ok(Active { z: self.process.z(scope), mean: scope.wide_value(&q.mean), spread })
    }

    /// What some inducing inputs have of q and Z, as tensors without gradients.
    fn of(&self, scope: &Scope, union: &[u32]) -> Active {
        let (q, wide, u) = (&self.variational, scope.wide(), union.len());
        let (m, d) = (self.process.len(), self.process.d());
        let vector = |values: &[f64]| scope.matrix_in(&picked(values, union, 1), 1, u, wide).reshape([u]);
        let spread = if q.is_diagonal() {
            Spread::Diagonal(vector(q.root.raw()))
        } else {
            let mut rows = vec![0.0; u * m];
            for (row, i) in rows.chunks_mut(m).zip(union.iter().map(|i| *i as usize)) {
                row[..=i].copy_from_slice(&q.root.raw()[i * (i + 1) / 2..][..=i]);
            }
            Spread::Rows(scope.matrix_in(&rows, u, m, wide))
        };
        let z = scope.matrix(&picked(self.process.inducing.raw(), union, d), u, d);
        Active { z, mean: vector(q.mean.raw()), spread }
    }

    /// The shift of the means and the change of the variances of a batch, `[b]` each, and the mean divergence `[1]`.
    fn marginals(
        &self,
        scope: &Scope,
        x: &Tensor<2>,
        Active { z, mean, spread }: Active,
        neighbours: Arc<Neighbours>,
    ) -> Result<Projected> {
        let (kernel, b) = (&self.process.prior.kernel, x.dims()[0]);
        if self.union {
            let gram = products::Covariance::new(kernel, scope, &z).matrix_wide()?;
            let lower = cholesky(self.noisy(scope, gram), "K_I")?;
            let root = match spread {
                Spread::Diagonal(root) => {
                    Tensor::<2>::eye(root.dims()[0], scope.device()).cast(scope.wide()) * root.unsqueeze::<2>()
                }
                Spread::Rows(rows) => cholesky(rows.clone().matmul(rows.transpose()), "S_I")?,
            };
            let a = solve_lower(lower.clone(), products::Cross::new(kernel, scope, &z, x).matrix_wide()?)?;
            let mean: Tensor<2> = solve_lower(lower.clone(), mean.unsqueeze_dim(1))?;
            return marginals(a, mean.squeeze_dim(1), solve_lower(lower, root)?, false);
        }
        let root = match spread {
            Spread::Diagonal(root) => root,
            Spread::Rows(rows) => {
                let [u, m] = rows.dims();
                rows.reshape([u * m])
            }
        };
        let q = Tensor::cat(vec![mean, root], 0);
        let packed = products::Cross::new(kernel, scope, &z, x).local(q, neighbours, self.nugget)?;
        Ok(Projected {
            shift: packed.clone().narrow(0, 0, b),
            change: packed.clone().narrow(0, b, b),
            divergence: packed.narrow(0, 2 * b, b).mean(),
        })
    }

    /// The covariance of inducing values, from that of the function there.
    fn noisy(&self, scope: &Scope, gram: Tensor<2>) -> Tensor<2> {
        let own = Tensor::<2>::eye(gram.dims()[0], scope.device()).cast(gram.dtype()) * self.nugget + 1.0;
        gram * own
    }

    /// Moves q close to the prior: to the prior itself, or for diagonal covariances to the normal distribution nearest
    /// to it among the neighbours of each inducing input.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] when covariances of inducing values cannot be factorised.
    pub fn start_at_prior(&mut self, compute: Compute) -> Result<()> {
        let (scope, m, d) = (Scope::new(compute)?, self.process.len(), self.process.d());
        let kernel = &self.process.prior.kernel;
        let factor = |z: &Tensor<2>| -> Result<Factor<f64>> {
            let gram = products::Covariance::new(kernel, &scope, z).matrix_wide()?;
            Factor::new(to_f64(self.noisy(&scope, gram))?, "K_I")
        };
        let mean = vec![0.0; m];
        if !self.variational.is_diagonal() {
            let lower = factor(&self.process.z(&scope))?.lower();
            self.variational.set(&mean, &lower);
            return Ok(());
        }
        let z = self.process.inducing.internal();
        let neighbours = self.neighbours(compute, &z)?;
        let sd = |i: usize| -> Result<f64> {
            let near = picked(&z, neighbours.of(i), d);
            let place = neighbours.of(i).iter().position(|&j| j as usize == i).unwrap_or(0);
            let inverse = factor(&scope.matrix(&near, neighbours.each, d))?.inverse_diagonal();
            Ok(inverse[place].recip().sqrt())
        };
        let root = (0..m).map(sd).collect::<Result<Vec<_>>>()?;
        self.variational.set_packed(&mean, &root);
        Ok(())
    }

    fn loss(&self, scope: &Scope, batch: &Batch, active: Active, neighbours: Arc<Neighbours>) -> Result<Tensor<1>> {
        let (process, b, dtype) = (&self.process, batch.y.dims()[0], scope.dtype());
        let Projected { shift, change, divergence } = self.marginals(scope, &batch.x, active, neighbours)?;
        let prior = process.prior.covariance(scope, &batch.x).diagonal_wide()?;
        let floor = prior.clone().detach() * VARIANCE_FLOOR;
        let variance = (prior + change).max_pair(floor).cast(dtype).reshape([1, b]);
        let mean = (process.prior.mean.at(scope, &batch.x)? + shift.cast(dtype)).reshape([1, b]);
        let auxiliary = batch.auxiliary.as_ref();
        let expected = self.likelihood.expected_log_density(scope, mean, variance, &batch.y, auxiliary)?;
        Ok(divergence.cast(dtype) * self.divergence - expected.sum() * batch.scale)
    }

    /// The loss of a batch, from only the part of q and Z that the batch uses.
    fn loss_of_seen(&self, scope: &Scope, batch: &Batch, neighbours: &Neighbours) -> Result<Tensor<1>> {
        let (union, positions) = neighbours::union(neighbours);
        let rows = neighbours::indices(scope, &union);
        let q = &self.variational;
        let root = scope.wide_value(&q.root);
        let spread = match q.is_diagonal() {
            true => Spread::Diagonal(root.select(0, rows.clone())),
            false => Spread::Rows(unpack_lower(root)?.select(0, rows.clone())),
        };
        let d = self.process.d();
        let z = match self.process.inducing.fixed {
            // Only the inducing inputs that the batch uses become a tensor, whatever their total number.
            true => scope.matrix(&picked(self.process.inducing.raw(), &union, d), union.len(), d),
            false => self.process.z(scope).select(0, rows.clone()),
        };
        let seen = Active { z, mean: scope.wide_value(&q.mean).select(0, rows), spread };
        self.loss(scope, batch, seen, positions.into())
    }

    /// The posterior under q.
    pub fn posterior(&self, compute: Compute) -> SwsgpPosterior {
        SwsgpPosterior { model: self.clone(), compute }
    }
}

/// The given rows of a matrix with so many columns.
fn picked(values: &[f64], rows: &[u32], columns: usize) -> Vec<f64> {
    rows.iter().flat_map(|&i| &values[i as usize * columns..][..columns]).copied().collect()
}

/// Refuses 0 neighbours and more than m.
fn check(neighbours: usize, m: usize) -> Result<()> {
    if neighbours == 0 || neighbours > m {
        return Err(Error::Usage(format!("{neighbours} neighbours of {m} inducing inputs: choose between 1 and {m}")));
    }
    Ok(())
}

impl Model for Swsgp {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        self.process.check(&batch.x)?;
        let neighbours = self.neighbours(scope.compute(), &to_f64(batch.x.clone())?)?;
        if self.union {
            self.loss_of_seen(scope, batch, &neighbours)
        } else {
            self.loss(scope, batch, self.all(scope)?, neighbours.into())
        }
    }

    /// The objective, given the [`Neighbours`] of the rows.
    fn objective_for(&self, scope: &Scope, batch: &Batch, neighbours: &Held) -> Result<Tensor<1>> {
        batch.check(scope)?;
        self.process.check(&batch.x)?;
        self.loss_of_seen(scope, batch, neighbours.get()?)
    }
}

crate::parameters!(Swsgp { ..process, "likelihood": ..likelihood, "variational": ..variational });
