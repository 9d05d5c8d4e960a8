//! Log-determinants by stochastic Lanczos quadrature (Ubaru, Chen and Saad 2017).

use serde::{Deserialize, Serialize};

use super::{LinearOperator, Preconditioner, Probes, Tridiagonal, blocks, lanczos};
use crate::error::{Error, Result};

/// How a log-determinant is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogDetOptions {
    /// The kind of probe vectors.
    pub probes: Probes,
    /// Their number, at least 2 for a standard error. [`Probes::Unit`] has its own number.
    pub count: usize,
    /// Lanczos steps for each probe.
    pub steps: usize,
    /// The seed of the probes.
    pub seed: u64,
}

impl Default for LogDetOptions {
    fn default() -> Self {
        Self { probes: Probes::Rademacher, count: 16, steps: 100, seed: 0 }
    }
}

/// An estimate of `log|A|`.
#[derive(Debug, Clone, PartialEq)]
pub struct LogDet {
    /// The mean of the samples.
    pub value: f64,
    /// Its standard error, from the spread of the samples: infinite for a single one, zero for [`Probes::Unit`].
    pub standard_error: f64,
    /// One estimate for each probe.
    pub samples: Vec<f64>,
}

/// Bytes that the bases of one round of probes may take.
const BASIS_BYTES: usize = 256 << 20;

/// `log|A| ≈ log|P| + (1/p) Σ zᵀ log(C⁻¹ A C⁻ᵀ) z` over `p` probes `z`, where `P = C Cᵀ`.
///
/// The closer `P` is to `A`, the smaller the random part. With [`Probes::Unit`] and as many steps as rows, the result
/// is exactly the log-determinant.
///
/// # Errors
/// [`Error::Usage`] when there are no probes or steps, [`Error::NotFinite`] when a product is not finite or `A` has an
/// eigenvalue that is not positive, and what products report.
pub fn log_det(
    a: &dyn LinearOperator,
    preconditioner: Option<&Preconditioner>,
    options: &LogDetOptions,
) -> Result<LogDet> {
    let n = a.order();
    if options.count == 0 || options.steps == 0 {
        return Err(Error::Usage("a stochastic log-determinant needs at least one probe and one step".into()));
    }
    let whitened = Whitened { a, preconditioner };
    let probes = options.probes.block(n, options.count, options.seed);
    let t = blocks::columns("probes", &probes, n)?;
    let round = (BASIS_BYTES / (8 * n.max(1) * options.steps.min(n.max(1)))).clamp(1, t.max(1));
    let mut samples = Vec::with_capacity(t);
    for first in (0..t).step_by(round) {
        let columns: Vec<usize> = (first..t.min(first + round)).collect();
        for krylov in lanczos(&whitened, &blocks::gather(&probes, t, &columns), options.steps)? {
            samples.push(krylov.norm.powi(2) * log_moment(&krylov.tridiagonal)?);
        }
    }
    Ok(LogDet::new(preconditioner.map_or(0.0, Preconditioner::log_det), samples, options.probes))
}

/// `e₁ᵀ log(T) e₁`.
///
/// # Errors
/// [`Error::NotFinite`] when `T` has an eigenvalue that is not positive.
pub fn log_moment(t: &Tridiagonal) -> Result<f64> {
    t.gauss_quadrature()?.into_iter().try_fold(0.0, |sum, (node, weight)| {
        if node > 0.0 {
            return Ok(sum + weight * node.ln());
        }
        Err(Error::NotFinite(format!(
            "log|A|: A has the eigenvalue {node:.1e}, so it is not positive definite; log|A|"
        )))
    })
}

impl LogDet {
    /// From a known part and estimates of the rest.
    pub fn new(known: f64, samples: Vec<f64>, probes: Probes) -> Self {
        let p = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / p;
        let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (p - 1.0);
        let standard_error = match probes {
            Probes::Unit => 0.0,
            _ if samples.len() < 2 => f64::INFINITY,
            _ => (variance / p).sqrt(),
        };
        Self { value: known + mean, standard_error, samples: samples.into_iter().map(|s| known + s).collect() }
    }
}

/// `C⁻¹ A C⁻ᵀ`.
struct Whitened<'a> {
    a: &'a dyn LinearOperator,
    preconditioner: Option<&'a Preconditioner>,
}

impl LinearOperator for Whitened<'_> {
    fn order(&self) -> usize {
        self.a.order()
    }

    fn apply(&self, v: &[f64]) -> Result<Vec<f64>> {
        match self.preconditioner {
            Some(p) => p.whiten(&self.a.apply(&p.whiten_transposed(v)?)?),
            None => self.a.apply(v),
        }
    }

    fn epsilon(&self) -> f64 {
        self.a.epsilon()
    }
}
