//! A GP prior with inducing inputs.

use burn::tensor::Tensor;

use crate::error::{Error, Result};
use crate::kernels::Kernel;
use crate::linalg::Factor;
use crate::models::prior::Prior;
use crate::params::{Parameter, Unit};
use crate::scope::{Scope, to_f64};

/// The prior of a latent function, and the inputs Z. The function values at Z represent all others.
#[derive(Debug, Clone)]
pub struct Process {
    /// The prior of the latent function.
    pub prior: Prior,
    /// Z, row-major `[m, d]`, on the scale of the model's inputs.
    pub inducing: Parameter,
    d: usize,
}

impl Process {
    /// Makes a prior with zero mean and inducing inputs `z`, row-major `[m, d]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when `z` is empty or its last row is incomplete, [`Error::Data`] when it is not finite.
    pub fn new(kernel: Kernel, z: &[f64], d: usize) -> Result<Self> {
        if d == 0 || z.is_empty() || !z.len().is_multiple_of(d) {
            return Err(Error::shape("inducing inputs", format!("rows of {d} columns"), format!("{} values", z.len())));
        }
        if let Some(i) = z.iter().position(|z| !z.is_finite()) {
            return Err(Error::Data(format!("inducing input of row {}, column {} is not finite", i / d, i % d)));
        }
        Ok(Self { prior: kernel.into(), inducing: Parameter::real("inducing", Unit::None, z), d })
    }

    /// Sets the means and standard deviations `[d]` of the user's inputs. With them, standardised inducing inputs are
    /// shown in the user's units.
    pub fn set_units(&mut self, mean: &[f64], sd: &[f64]) {
        let (raw, m) = (self.inducing.raw().to_vec(), self.len());
        self.inducing.put_scales(sd.repeat(m), mean.repeat(m));
        self.inducing.put_raw(&raw);
    }

    /// Adds the rows of `x`, row-major `[k, d]`, that are no inducing inputs yet, each once. Returns their number.
    ///
    /// # Errors
    /// [`Error::Shape`] for other columns.
    pub(in crate::models) fn extend(&mut self, x: &[f64], d: usize) -> Result<usize> {
        if d != self.d {
            return Err(Error::shape("new inputs", format!("{} columns", self.d), d.to_string()));
        }
        let before = self.len();
        for row in x.chunks_exact(d) {
            if !self.inducing.raw().chunks_exact(d).any(|own| own == row) {
                self.inducing.extend(row, d);
            }
        }
        Ok(self.len() - before)
    }

    /// Number of inducing inputs m.
    pub fn len(&self) -> usize {
        self.inducing.len() / self.d
    }

    /// Whether there are no inducing inputs. [`new`](Self::new) refuses that.
    pub fn is_empty(&self) -> bool {
        self.inducing.is_empty()
    }

    /// Input columns d.
    pub fn d(&self) -> usize {
        self.d
    }

    /// Z as a tensor `[m, d]`.
    pub fn z(&self, scope: &Scope) -> Tensor<2> {
        scope.value(&self.inducing).reshape([self.len(), self.d])
    }

    /// Checks that rows have as many columns as Z.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not.
    pub fn check(&self, x: &Tensor<2>) -> Result<()> {
        let d = x.dims()[1];
        if d == self.d {
            return Ok(());
        }
        Err(Error::shape("inputs", format!("{} columns, as inducing inputs have", self.d), d.to_string()))
    }

    /// L with K_ZZ = L Lᵀ, row-major `[m, m]`, in f64.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] according to the policy of [`jitter`](crate::linalg::jitter).
    pub fn factor(&self, scope: &Scope) -> Result<Vec<f64>> {
        let gram = to_f64(self.prior.covariance(scope, &self.z(scope)).matrix_wide()?)?;
        Ok(Factor::new(gram, "K_ZZ")?.lower())
    }
}

crate::parameters!(Process { ..prior, "inducing": inducing });
