//! Adds actions or rows to a posterior without repeating earlier computations, and tells what actions cannot change.

use burn::tensor::Tensor;

use super::numbers::Small;
use super::{Actions, CagpPosterior, IterativeCagp};
use crate::advice::Advice;
use crate::error::{Error, Result};
use crate::likelihoods::Row;
use crate::linalg::dense::{product, view, view_mut};
use crate::models::Observations;
use crate::models::exact::{ExactGp, ExactObjective};
use crate::models::laplace::{self, LaplaceGp};
use crate::models::posterior::{ComputationAware, Joint, Marginals, Posterior, Uncertainty};
use crate::scope::{Scope, to_f64};
use crate::solvers::LinearSystem;
use crate::solvers::blocks::transposed;
use crate::solvers::itergp::{
    Basis, IterGpOptions, SolveObserver, SolveReport, Start, System, epsilon, independent, itergp_from,
};
use crate::solvers::policies::{Policy, Residual};

/// Actions that are added at once.
const COLUMNS: usize = 64;

impl CagpPosterior {
    /// Adds actions for the same rows: more computation, so less uncertainty. O(n² + n i) for each action; nothing
    /// computed before is repeated.
    ///
    /// # Errors
    /// [`Error::Shape`] when the actions are for another number of rows, [`Error::Usage`] when one depends linearly on
    /// those before it.
    pub fn condition(&self, more: &Actions) -> Result<Self> {
        let functions = self.of.functions;
        more.check(functions.0 * self.data.n())?;
        let scope = Scope::new(self.compute)?;
        let (basis, norms) = more.unit(&scope, functions)?;
        let system = self.system(&scope)?;
        self.grow(&scope, basis, &to_f64(norms)?, epsilon(&scope), |_, columns| system.product(columns))
    }

    /// Continues the computation: adds the actions that a policy chooses from the current residual.
    ///
    /// # Errors
    /// As [`itergp_from`].
    pub fn compute_more(
        &self,
        policy: &dyn Policy,
        options: &IterGpOptions,
        observer: Option<&mut dyn SolveObserver>,
    ) -> Result<(Self, SolveReport)> {
        let scope = Scope::new(self.compute)?;
        let system = self.system(&scope)?;
        let Small { factor, weights, .. } = &self.small;
        let start = Start { actions: &self.actions, factor, coefficients: weights };
        let solve = itergp_from(&system, start, policy, options, observer)?;
        if solve.actions.is_empty() {
            return Ok((self.clone(), solve.report));
        }
        let norms = vec![1.0; solve.actions.len()];
        let products = solve.products;
        // The solve has already tested for dependence in its own precision.
        let grown = self.grow(&scope, solve.actions, &norms, f64::EPSILON, |first, columns| {
            products.columns(first, columns.dims()[1])
        })?;
        Ok((grown, solve.report))
    }

    fn system<'a>(&'a self, scope: &'a Scope) -> Result<System<'a>> {
        let batch = self.data.batch(scope);
        let noise = self.noise(scope, &self.data)?.cast(scope.dtype());
        let residual = self.prior().residuals(scope, &batch)?;
        System::new(&self.prior().kernel, scope, batch.x, noise, residual)
    }

    /// Grows the factor of M̂ by unit columns, given the products of K̂ with some of them and the relative rounding
    /// error of these products.
    fn grow(
        &self,
        scope: &Scope,
        new: Basis,
        norms: &[f64],
        rounding: f64,
        products_of: impl Fn(usize, &Tensor<2>) -> Result<Tensor<2>>,
    ) -> Result<Self> {
        let (mut all, wide) = (self.clone(), scope.wide());
        let Small { mut factor, mut projected, .. } = self.small.clone();
        all.actions.extend(&new);
        for first in (0..new.len()).step_by(COLUMNS) {
            let columns = new.columns(first, COLUMNS.min(new.len() - first))?;
            let (t, earlier) = (columns.dims()[1], self.actions() + first);
            let crossed = all.actions.transposed_times(&products_of(first, &columns)?.cast(wide))?;
            let part = |from: usize, count: usize| to_f64(crossed.clone().narrow(0, from, count));
            let (above, corner) = (part(0, earlier)?, part(earlier, t)?);
            let corner: Vec<f64> = (0..t * t).map(|e| 0.5 * (corner[e] + corner[e % t * t + e / t])).collect();
            let (mut solved, mut schur) = (above.clone(), corner.clone());
            factor.solve_lower(&mut solved)?;
            product::add(view_mut(&mut schur, t), view(&solved, t).transpose(), view(&solved, t), -1.0);
            let kept = independent(&schur, &corner, rounding)?;
            if kept < t {
                let action = earlier + kept;
                return Err(Error::Usage(format!(
                    "action {action} lies in the span of those before it: it would add nothing; leave it out"
                )));
            }
            factor.append_rows(transposed(&above, t), corner, "SᵀK̂S with the new actions")?;
        }
        let residual = self.system(scope)?.right_hand_side().clone().cast(wide);
        projected.extend(to_f64(new.transposed_times(&residual)?)?);
        all.small = Small::new(factor, projected)?;
        all.prepared = all.prepared.without_actions();
        all.norms.extend(norms);
        Ok(all)
    }
}

impl CagpPosterior {
    /// The posterior given more rows, each with an action of its own: what was computed before is conditioned on them
    /// exactly. Targets without Gaussian noise have sites at the mode of their posterior, for which the posterior so
    /// far is the prior; the sites of earlier rows stay. For one latent function; O((n + i)(i + k)) for each of k rows.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) for several latent functions, [`Shape`](crate::Error::Shape) for other columns,
    /// [`Data`](crate::Error::Data) for targets that the likelihood does not take,
    /// [`NotPositiveDefinite`](crate::Error::NotPositiveDefinite) when the larger matrix is not positive definite,
    /// [`NotFinite`](crate::Error::NotFinite) if the new rows have no finite mode.
    pub fn with_rows(&self, more: &Observations) -> Result<Self> {
        let data = self.data.extended(more)?;
        let (scope, k) = (Scope::new(self.compute)?.widened(), more.n());
        let new = more.batch(&scope);
        let [targets, noise] = self.sites(&scope, more)?;
        let [mut cross, means] = self.project(&scope, &new.x)?;
        let mut corner = to_f64(self.prior().covariance(&scope, &new.x).matrix()?)?;
        corner.iter_mut().step_by(k + 1).zip(&noise).for_each(|(value, noise)| *value += noise);
        let Small { mut factor, mut projected, .. } = self.small.clone();
        factor.append_rows(transposed(&cross.swap_remove(0), k), corner, "SᵀK̂S with the new rows")?;
        projected.extend(targets.iter().zip(&means[0]).map(|(y, mean)| y - mean));
        let norms = [&self.norms[..], &vec![1.0; k]].concat();
        let basis = self.actions.with_rows(k)?;
        let small = Small::new(factor, projected)?;
        let grown = Self::new(self.of.clone(), self.compute, data, (basis, norms), small);
        Ok(Self { report: self.report, grown: true, ..grown })
    }

    /// The targets of new rows and the variances of their noise: of a Gaussian likelihood, or of sites.
    fn sites(&self, scope: &Scope, more: &Observations) -> Result<[Vec<f64>; 2]> {
        let likelihood = &self.of.likelihood;
        if likelihood.noise().is_some() {
            return Ok([more.y.clone(), to_f64(self.noise(scope, more)?)?]);
        }
        likelihood.check(more.targets(), None)?;
        let rows: Vec<Row> = more.targets().rows(likelihood.auxiliary()).collect();
        let Joint { mean, covariance } = self.predict_joint(&more.x)?;
        laplace::sites(&*likelihood.density(), &rows, &mean, &covariance)
    }
}

/// Most observations for which the exact variances are computed, which takes half a gigabyte and a few seconds.
pub const EXACT_ROWS: usize = 8000;

impl ComputationAware for CagpPosterior {
    fn added(&self) -> Option<(String, Option<Advice>)> {
        self.added.map(|added| (added.to_string(), added.warning()))
    }

    fn refined(&self, actions: usize) -> Result<Box<dyn Posterior>> {
        if self.of.likelihood.noise().is_none() {
            return Ok(Box::new(IterativeCagp::refined(self, actions)?));
        }
        let (posterior, report) = self.compute_more(&Residual, &IterGpOptions::budget(actions), None)?;
        Ok(Box::new(Self { report: Some(report), ..posterior }))
    }

    fn uncertainty(&self, x: &[f64]) -> Result<Uncertainty> {
        let Marginals { mean, variance: total, .. } = self.predict(x)?;
        if self.data.n() > EXACT_ROWS {
            return Ok(Uncertainty { mean, total, mathematical: None, computational: None });
        }
        let (data, priors, likelihood) = (self.data.clone(), self.of.priors.clone(), self.of.likelihood.clone());
        let dense: Box<dyn Posterior> = match likelihood.noise() {
            Some(_) => {
                let (prior, objective) = (self.prior().clone(), ExactObjective::MarginalLikelihood);
                let likelihood = self.of.gaussian();
                Box::new(ExactGp { prior, likelihood, objective }.posterior(self.compute, data)?)
            }
            None => Box::new(LaplaceGp { priors, likelihood, corrected: false }.posterior(self.compute, data)?),
        };
        let exact = dense.predict(x)?.variance;
        let mathematical: Vec<f64> = exact.iter().zip(&total).map(|(exact, total)| exact.min(*total)).collect();
        let computational = total.iter().zip(&mathematical).map(|(total, exact)| total - exact).collect();
        Ok(Uncertainty { mean, total, mathematical: Some(mathematical), computational: Some(computational) })
    }
}
