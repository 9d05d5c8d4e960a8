//! Sample paths of a posterior by Matheron's rule (Wilson et al. 2020, *Efficiently sampling functions from Gaussian
//! process posteriors*): a path of the prior, plus k(x, C) times weights that correct it where the data are.

use burn::tensor::Tensor;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use crate::device::Compute;
use crate::error::{Error, Result};
use crate::kernels::features::RandomFunctions;
use crate::models::posterior;
use crate::models::prior::Prior;
use crate::scope::{Scope, to_f64};

/// A posterior that corrects samples of its prior: its update by Matheron's rule.
pub trait Pathwise {
    /// The prior of f.
    fn prior(&self) -> &Prior;

    /// Where it computes.
    fn compute(&self) -> Compute;

    /// The points C, row-major `[c, d]`, and d.
    fn centres(&self) -> (&[f64], usize);

    /// The weights `[c, p]` of k(x, C) that turn samples of the prior into samples of the posterior, both without the
    /// prior mean. `samples [c, p]` are those of the prior at C, row-major; `normal` draws standard normal numbers.
    ///
    /// # Errors
    /// What the solves report.
    fn corrections(&self, samples: Vec<f64>, normal: &mut dyn FnMut() -> f64) -> Result<Vec<f64>>;
}

/// How many paths to draw, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathOptions {
    /// Number of paths.
    pub count: usize,
    /// Random functions in each path of the prior. Means and covariances are exact for any number; with more functions
    /// a path is closer to normal.
    pub functions: usize,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl PathOptions {
    /// So many paths of 512 random functions each.
    pub fn new(count: usize, seed: u64) -> Self {
        Self { count, functions: 512, seed }
    }

    /// The same with another number of random functions in each path.
    pub fn functions(self, functions: usize) -> Self {
        Self { functions, ..self }
    }
}

/// Samples of f as functions. Each has random functions of its own, so that over many paths the mean and the covariance
/// are the posterior's.
#[derive(Debug, Clone)]
pub struct Paths {
    prior: Prior,
    compute: Compute,
    /// Those of the first path, then those of the second, and so on.
    functions: RandomFunctions,
    centres: Vec<f64>,
    d: usize,
    /// `[c, p]`.
    weights: Vec<f64>,
    count: usize,
}

/// The most values of random functions that are computed at once.
const VALUES: usize = 1 << 22;

impl Paths {
    /// Draws paths.
    ///
    /// # Errors
    /// [`Error::Usage`] for no paths, and naming a kernel form that has no random functions; what the posterior's
    /// solves report.
    pub fn draw(of: &dyn Pathwise, options: PathOptions) -> Result<Self> {
        let PathOptions { count, functions, seed } = options;
        if count == 0 || functions == 0 {
            return Err(Error::Usage("paths need at least one path and one random function".into()));
        }
        let (prior, compute, (centres, d)) = (of.prior().clone(), of.compute(), of.centres());
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let scope = Scope::new(compute)?.widened();
        let functions = RandomFunctions::draw(&prior.kernel, &scope, d, count * functions, &mut rng)?;
        let mut all = Self { prior, compute, functions, centres: centres.to_vec(), d, weights: Vec::new(), count };
        let samples = all.chunked(centres, |scope, x| all.of_prior(scope, x))?;
        all.weights = of.corrections(samples, &mut || StandardNormal.sample(&mut rng))?;
        Ok(all)
    }

    /// Number of paths p.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One of the paths, at the cost of one.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such path.
    pub fn only(&self, path: usize) -> Result<Self> {
        if path >= self.count {
            return Err(Error::Usage(format!("there are {} paths, counted from 0, and no path {path}", self.count)));
        }
        let each = self.functions.count() / self.count;
        let (functions, count) = (self.functions.part(path * each..(path + 1) * each), 1);
        let weights = self.weights.iter().skip(path).step_by(self.count).copied().collect();
        Ok(Self { functions, weights, count, ..self.clone() })
    }

    /// Values `[r, p]` at points `x [r, d]`, differentiable in the points, in the scope's wide type.
    ///
    /// # Errors
    /// [`Error::Shape`] for points of other columns, or of another device or type than the posterior's.
    pub fn at(&self, x: &Tensor<2>) -> Result<Tensor<2>> {
        if x.dims()[1] != self.d {
            return Err(Error::shape("points", format!("{} columns", self.d), x.dims()[1].to_string()));
        }
        let scope = Scope::beside(self.compute, x)?.widened();
        self.values_of(&scope, &x.clone().cast(scope.dtype()))
    }

    /// Values `[r, p]`, row-major, at points `x [r, d]` on the host, in chunks of bounded memory.
    ///
    /// # Errors
    /// As [`predict`](posterior::Posterior::predict).
    pub fn values(&self, x: &[f64]) -> Result<Vec<f64>> {
        posterior::rows(x, self.d)?;
        self.chunked(x, |scope, x| self.values_of(scope, x))
    }

    fn values_of(&self, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
        let centres = scope.rows(&self.centres, self.d);
        let weights = scope.rows(&self.weights, self.count);
        let shift = self.prior.cross(scope, x, &centres).times(&weights)?;
        Ok(self.of_prior(scope, x)? + shift + self.prior.mean.at(scope, x)?.unsqueeze_dim(1))
    }

    /// Samples of the prior without its mean: sums of random functions.
    fn of_prior(&self, scope: &Scope, x: &Tensor<2>) -> Result<Tensor<2>> {
        let (r, each) = (x.dims()[0], self.functions.count() / self.count);
        let functions = self.functions.at(&self.prior.kernel, scope, x)?.reshape([r, self.count, each]);
        Ok(functions.sum_dim(2).reshape([r, self.count]) / (each as f64).sqrt())
    }

    fn chunked(&self, x: &[f64], of: impl Fn(&Scope, &Tensor<2>) -> Result<Tensor<2>>) -> Result<Vec<f64>> {
        let scope = Scope::new(self.compute)?.widened();
        let rows = (VALUES / self.functions.count()).max(1);
        let mut all = Vec::with_capacity(x.len() / self.d * self.count);
        for chunk in x.chunks(rows * self.d) {
            all.extend(to_f64(of(&scope, &scope.rows(chunk, self.d))?)?);
        }
        Ok(all)
    }
}
