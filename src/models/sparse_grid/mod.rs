//! Inducing inputs on sparse grids: many small sparse models on full grids are combined (Chen and Tuo 2024,
//! *Aggregation models with optimal weights for distributed Gaussian processes*, section 3; Garcke 2006).
//!
//! A full grid of level l has 2^l − 1 points along each input, far too many if there are several inputs. The partial
//! grids of a sparse grid of level η are fine along one input and coarse along others. Each gives f_l, the mean of an
//! [SGPR](super::sgpr) with the grid's points as inducing inputs. The combination is Σ c_l f_l.
//!
//! - **ct**: c from the combination technique, which depends only on the grids.
//! - **opticom**: c minimises `J(c) = Σ_n (y_n − Σ c_l f_l(x_n))²/σ_n² + ‖Σ c_l f_l‖²_H`, so that A c = b with
//!   `A_lk = Σ_n f_l f_k/σ_n² + ⟨f_l, f_k⟩_H`, `b_l = Σ_n y_n f_l/σ_n²`. Each f_l is a projection in A's inner product,
//!   so that b is A's diagonal. A is computed from the values F = [f_l(X)] in O(n b Σm) for b grids, never from
//!   products of K_lX.
//! - **union**: one SGPR with the distinct points of all grids. It makes the best use of the points and takes the most
//!   work.
//!
//! The variances of a combination are the mean-squared error of its mean as a linear predictor of f, under the prior.
//! This is more than the SGPR's variances: a learned prior varies far more than the data do, and the variation that few
//! points cannot follow counts as error. The paper's eq. 35b, the combination technique for covariances, may be
//! negative.

mod basis;
mod domain;
mod errors;
#[doc(hidden)]
pub mod grids;
mod options;
mod posterior;

use burn::tensor::Tensor;
pub use domain::Domain;
pub use grids::{COLUMNS, Grid, Grids, POINTS};
pub use options::{Combination, SparseGridOptions};
pub use posterior::SparseGridPosterior;

use crate::advice::Advice;
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::likelihoods::{Gaussian, Likelihood};
use crate::models::functions::{Located, Pathwise};
use crate::models::gp_model::{GpModel, Size, UserUnits};
use crate::models::posterior::{InducingPart, Joint, Marginals, Posterior, SavedPosterior};
use crate::models::prior::Prior;
use crate::models::process::Process;
use crate::models::sgpr::{self, Sgpr, SgprPosterior};
use crate::models::start::start;
use crate::models::{Batch, Model, Observations};
use crate::params::Parameter;
use crate::scope::Scope;
use crate::serving::Served;

/// A Gaussian process with inducing inputs on a sparse grid.
#[derive(Debug, Clone)]
pub struct SparseGrid {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Observation noise.
    pub likelihood: Gaussian,
    /// The options that the model was made with.
    pub options: SparseGridOptions,
    /// The lower and upper end of each input, which correspond to 0 and 1 in the unit cube, one pair after another;
    /// never learned.
    domain: Parameter,
    grids: Grids,
}

impl SparseGrid {
    /// Makes a model with a noise variance of 0.1.
    ///
    /// # Errors
    /// [`Error::Usage`] as [`Grids::new`].
    pub fn new(prior: Prior, domain: &Domain, options: SparseGridOptions) -> Result<Self> {
        let domain = domain.parameter();
        let grids = Grids::new(options.level, domain.len() / 2)?;
        Ok(Self { prior, likelihood: Gaussian::new(0.1), options, domain, grids })
    }

    /// The box that corresponds to the unit cube.
    pub fn domain(&self) -> Domain {
        Domain::kept(&self.domain)
    }

    /// The partial grids.
    pub fn grids(&self) -> &Grids {
        &self.grids
    }

    /// The model with the union of the grids' points.
    ///
    /// # Errors
    /// Does not fail for grids that could be made.
    pub fn union(&self) -> Result<Sgpr> {
        let points = self.domain().scaled(&self.grids.points);
        let mut process = Process::new(self.prior.kernel.clone(), &points, self.grids.d)?;
        process.prior.mean = self.prior.mean.clone();
        Ok(Sgpr { process, likelihood: self.likelihood.clone() })
    }

    /// The collapsed bound for inducing inputs in the unit cube.
    fn bound(&self, scope: &Scope, batch: &Batch, points: &[f64]) -> Result<Tensor<1>> {
        let d = self.grids.d;
        let z = scope.matrix(&self.domain().scaled(points), points.len() / d, d);
        sgpr::bound(&self.prior, &self.likelihood, &z, scope, batch)
    }

    /// The posterior of a combination.
    ///
    /// # Errors
    /// Errors of factorisations; [`Error::Shape`] if the columns are not those of the grid.
    pub fn posterior(&self, compute: Compute, data: Observations) -> Result<SparseGridPosterior> {
        SparseGridPosterior::new(self, compute, data)
    }
}

impl Model for SparseGrid {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        batch.check(scope)?;
        let d = batch.x.dims()[1];
        if d != self.grids.d {
            return Err(Error::shape("inputs", format!("{} columns, as the grid has", self.grids.d), d.to_string()));
        }
        self.bound(scope, batch, &self.grids.points)
    }
}

impl GpModel for SparseGrid {
    fn title(&self) -> String {
        let (count, distinct) = (self.grids.all.len(), self.grids.distinct());
        let how = match self.options.combination {
            _ if count == 1 => "one grid".into(),
            Combination::Opticom => format!("{count} grids combined by optimal coefficients"),
            Combination::Ct => format!("{count} grids combined by the combination technique"),
            Combination::Union => format!("the union of {count} grids"),
        };
        format!("Gaussian process on a sparse grid of level {}, {distinct} points: {how}", self.options.level)
    }

    fn prior(&self) -> &Prior {
        &self.prior
    }

    fn likelihood(&self) -> &dyn Likelihood {
        &self.likelihood
    }

    fn start(&mut self, data: &Observations, units: &UserUnits) {
        let each = |values: &[f64]| values.iter().flat_map(|value| [*value; 2]).collect::<Vec<_>>();
        let (mean, sd) = (each(&units.input_mean), each(&units.input_sd));
        let raw = self.domain.raw().to_vec();
        self.domain.put_scales(sd, mean);
        self.domain.put_raw(&raw);
        start(&mut self.likelihood, std::iter::empty(), data, units);
    }

    fn bytes(&self, compute: Compute, size: Size) -> f64 {
        let m = self.grids.distinct() as f64;
        let step = (8.0 * size.rows as f64 * m).min(self.budget(size.rows, compute.precision) as f64);
        let combined = match self.options.combination {
            Combination::Union => 0.0,
            _ => 8.0 * (self.grids.total() as f64).powi(2),
        };
        size.data(compute) + (step + 8.0 * 8.0 * m * m).max(combined)
    }

    fn is_comparable(&self) -> bool {
        true
    }

    fn condition(&self, compute: Compute, data: Observations) -> Result<Box<dyn Posterior>> {
        match self.options.combination {
            Combination::Union => Ok(Box::new(UnionPosterior::new(self, self.union()?.posterior(compute, data)?))),
            _ => Ok(Box::new(self.posterior(compute, data)?)),
        }
    }

    fn restore(&self, compute: Compute, data: Observations, saved: SavedPosterior) -> Result<Box<dyn Posterior>> {
        if saved.arrays.is_empty() {
            return self.condition(compute, data);
        }
        match self.options.combination {
            Combination::Union => match self.union()?.restored(compute, saved)? {
                Some(posterior) => Ok(Box::new(UnionPosterior::new(self, posterior))),
                None => self.condition(compute, data),
            },
            _ => Ok(Box::new(SparseGridPosterior::restored(self, compute, data, saved)?)),
        }
    }
}

crate::parameters!(SparseGrid { ..prior, "likelihood": ..likelihood, "domain": domain });

/// The posterior of an [`Sgpr`](crate::models::sgpr::Sgpr) that also says which rows lie outside of its grid.
#[derive(Debug, Clone)]
pub(super) struct UnionPosterior {
    sparse: SgprPosterior,
    domain: Domain,
}

impl UnionPosterior {
    pub fn new(model: &SparseGrid, sparse: SgprPosterior) -> Self {
        Self { sparse, domain: model.domain() }
    }
}

impl Posterior for UnionPosterior {
    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.sparse.predict(x)
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.sparse.mean(x)
    }

    fn located(&self, x: Tensor<2>) -> Result<Option<Located>> {
        self.sparse.located(x)
    }

    fn pathwise(&self) -> Result<Option<&dyn Pathwise>> {
        self.sparse.pathwise()
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        Ok(Some(Box::new(Self { sparse: self.sparse.condition(more)?, domain: self.domain.clone() })))
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.sparse.predict_joint(x)
    }

    fn saved(&self, factor: bool) -> Result<SavedPosterior> {
        self.sparse.saved(factor)
    }

    fn served(&self, factor: bool) -> Result<Served> {
        self.sparse.served(factor)
    }

    fn remarks(&self, x: &[f64]) -> Result<Vec<Advice>> {
        Ok(self.domain.remark(x).map(Advice::from).into_iter().collect())
    }

    fn inducing_parts(&self) -> Vec<InducingPart> {
        let inputs = self.sparse.whitened().inducing().to_vec();
        vec![InducingPart { name: "union of the grids".into(), inputs, coefficient: 1.0, technique: 1.0 }]
    }
}
