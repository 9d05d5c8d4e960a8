//! The posterior of sparse GP regression. It can take in more rows, because the data enter it as sums over rows.

use burn::tensor::Tensor;

use super::{Moments, Sgpr};
use crate::device::Compute;
use crate::error::{Error, Result};
use crate::linalg::dense::{solve, view, view_mut};
use crate::linalg::{Collapsed, Factor};
use crate::models::Observations;
use crate::models::functions::{Located, Pathwise};
use crate::models::leave_one_out::LeaveOneOut;
use crate::models::posterior::{Joint, Marginals, Posterior, SavedPosterior};
use crate::models::whitened::{Root, WhitenedPosterior};
use crate::params::all_finite;
use crate::scope::{Scope, to_f64};
use crate::serving::Served;

/// The array in files with L⁻¹K_ZX W K_XZ L⁻ᵀ `[m, m]`.
const SQUARE: &str = "posterior.square";
/// The array in files with L⁻¹K_ZX W r `[m]`.
const PROJECTED: &str = "posterior.projected";

/// The posterior of an [`Sgpr`].
#[derive(Debug, Clone)]
pub struct SgprPosterior {
    model: Sgpr,
    compute: Compute,
    /// L, row-major `[m, m]`.
    lower: Vec<f64>,
    /// L⁻¹K_ZX W K_XZ L⁻ᵀ `[m, m]`.
    square: Vec<f64>,
    /// L⁻¹K_ZX W r `[m]`.
    projected: Vec<f64>,
    whitened: WhitenedPosterior,
    /// The number of rows in the sums, if all of them were in this process.
    rows: Option<usize>,
}

impl SgprPosterior {
    fn new(model: Sgpr, compute: Compute, lower: Vec<f64>, square: Vec<f64>, projected: Vec<f64>) -> Result<Self> {
        let Collapsed { factor, mean, .. } = Collapsed::new(square.clone(), &projected)?;
        // q(v) = N(γ, B⁻¹), so Rᵀ = L_B⁻¹.
        let m = mean.len();
        let mut root = vec![0.0; m * m];
        root.iter_mut().step_by(m + 1).for_each(|d| *d = 1.0);
        solve::lower(view(&factor.lower(), m), view_mut(&mut root, m));
        let (z, prior) = ((model.process.inducing.internal(), model.process.d()), model.process.prior.clone());
        let whitened = WhitenedPosterior::new(prior, compute, z, lower.clone(), mean, Root::Lower(root));
        Ok(Self { model, compute, lower, square, projected, whitened, rows: None })
    }

    /// The same posterior, of so many rows.
    pub(in crate::models) fn of_rows(self, rows: usize) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// Conditions on k more observations without retraining, in O(m²k + m³) whatever the number of earlier rows.
    ///
    /// # Errors
    /// As [`Sgpr::posterior`].
    pub fn condition(&self, more: &Observations) -> Result<Self> {
        let scope = Scope::new(self.compute)?;
        let Moments { square, projected, .. } = self.model.moments(&scope, &more.batch(&scope))?;
        let add = |old: &[f64], new: Vec<f64>| old.iter().zip(new).map(|(old, new)| old + new).collect();
        let (square, projected) = (add(&self.square, to_f64(square)?), add(&self.projected, to_f64(projected)?));
        let grown = Self::new(self.model.clone(), self.compute, self.lower.clone(), square, projected)?;
        Ok(Self { rows: self.rows.map(|rows| rows + more.n()), ..grown })
    }

    /// L with K_ZZ = L Lᵀ, row-major `[m, m]`.
    pub(in crate::models) fn lower(&self) -> &[f64] {
        &self.lower
    }

    /// I + L⁻¹K_ZX W K_XZ L⁻ᵀ, factorised again.
    ///
    /// # Errors
    /// As [`Sgpr::posterior`].
    pub(in crate::models) fn inner(&self) -> Result<Factor<f64>> {
        Ok(Collapsed::new(self.square.clone(), &self.projected)?.factor)
    }

    /// The distribution of whitened inducing values that predictions use.
    pub fn whitened(&self) -> &WhitenedPosterior {
        &self.whitened
    }
}

/// Row i has the whitened features a and the noise σ². Without it the covariance of the whitened inducing values is (B
/// − aaᵀ/σ²)⁻¹. With s = aᵀB⁻¹a, the residual grows by the factor 1/(1 − s/σ²), and so does s.
impl LeaveOneOut for SgprPosterior {
    fn left_out(&self, data: &Observations) -> Result<Marginals> {
        let scope = Scope::new(self.compute)?;
        let noise = data.noise(&scope, &self.model.likelihood)?;
        let (Marginals { mean, variance, floored }, uncertain) = self.whitened.predict_with_uncertain(&data.x)?;
        let mut all = Marginals { mean: Vec::new(), variance: Vec::new(), floored };
        for (i, (mean, total)) in mean.iter().zip(&variance).enumerate() {
            let left = 1.0 - uncertain[i] / noise[i];
            // If a row alone decides its inducing value, the other rows say nothing about it.
            let left = left.max(f64::EPSILON.sqrt());
            all.mean.push(data.y[i] - (data.y[i] - mean) / left);
            all.variance.push(total - uncertain[i] + uncertain[i] / left + noise[i]);
        }
        Ok(all)
    }
}

impl Posterior for SgprPosterior {
    fn leave_one_out(&self) -> Option<&dyn LeaveOneOut> {
        Some(self)
    }

    fn predict(&self, x: &[f64]) -> Result<Marginals> {
        self.whitened.predict(x)
    }

    fn mean(&self, x: &[f64]) -> Result<Vec<f64>> {
        self.whitened.mean(x)
    }

    fn located(&self, x: Tensor<2>) -> Result<Option<Located>> {
        self.whitened.located(x)
    }

    fn pathwise(&self) -> Result<Option<&dyn Pathwise>> {
        self.whitened.pathwise()
    }

    fn predict_joint(&self, x: &[f64]) -> Result<Joint> {
        self.whitened.predict_joint(x)
    }

    fn updated(&self, more: &Observations) -> Result<Option<Box<dyn Posterior>>> {
        Ok(Some(Box::new(self.condition(more)?)))
    }

    fn served(&self, _factor: bool) -> Result<Served> {
        Ok(self.whitened.alone())
    }

    fn saved(&self, factor: bool) -> Result<SavedPosterior> {
        let mut saved = SavedPosterior::default();
        let (m, d) = (self.projected.len(), self.model.process.d());
        // Sums that take no more room than the rows replace a pass over these.
        if factor || self.rows.is_some_and(|rows| m * m <= rows * d) {
            saved.put(SQUARE, &[m, m], &*self.square);
            saved.put(PROJECTED, &[m], &*self.projected);
        }
        Ok(saved)
    }
}

impl Sgpr {
    /// The posterior with these sums over the data.
    pub(in crate::models) fn conditioned(
        &self,
        compute: Compute,
        square: Vec<f64>,
        projected: Vec<f64>,
    ) -> Result<SgprPosterior> {
        let lower = self.process.factor(&Scope::new(compute)?)?;
        SgprPosterior::new(self.clone(), compute, lower, square, projected)
    }

    /// The posterior that was saved with its sums over the data; none if the sums were not saved.
    pub(in crate::models) fn restored(
        &self,
        compute: Compute,
        mut saved: SavedPosterior,
    ) -> Result<Option<SgprPosterior>> {
        let (Some(square), Some(projected)) = (saved.take(SQUARE), saved.take(PROJECTED)) else { return Ok(None) };
        let m = self.process.len();
        if square.len() != m * m || projected.len() != m {
            let got = format!("{} and {}", square.len(), projected.len());
            return Err(Error::Data(format!("has {got} numbers for the sums over the data with {m} inducing inputs")));
        }
        if !all_finite(&square) || !all_finite(&projected) {
            return Err(Error::Data("has sums over the data that are not finite".into()));
        }
        self.conditioned(compute, square, projected).map(Some)
    }
}
