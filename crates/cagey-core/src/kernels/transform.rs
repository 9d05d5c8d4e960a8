//! Input transforms: maps of the inputs, learned together with the kernel that acts on the result.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;

use crate::error::Result;
use crate::params::{Parameter, Unit};
use crate::scope::to_f64;

/// A map of inputs `[n, d]` to `[n, k]`, differentiable in its parameters and its input.
pub trait InputTransform: Debug + Send + Sync {
    /// Name in kernel text: `name(kernel)`.
    fn name(&self) -> &str;

    /// Number of output columns for `d` input columns.
    fn output_dim(&self, d: usize) -> usize;

    /// Parameters with their initial values, for `d` input columns.
    fn parameters(&self, d: usize) -> Vec<Parameter>;

    /// The transformed inputs.
    fn apply(&self, p: &[Tensor<1>], x: Tensor<2>) -> Tensor<2>;

    /// Whether it is the library's [`Projection`], which programs that only predict know.
    fn is_projection(&self) -> bool {
        false
    }

    /// The same transform with another number of output columns, if it has that option (`dim=` in kernel text).
    fn with_dim(&self, _dim: usize) -> Option<Arc<dyn InputTransform>> {
        None
    }
}

/// A projection to more columns than this reduces nothing.
const MOST_COLUMNS: usize = 1000;

/// x ↦ x W with a learned matrix W `[d, k]`: a covariance along learned directions.
#[derive(Debug)]
pub struct Projection {
    dim: usize,
}

/// A learned linear projection to `dim` columns.
pub fn projection(dim: usize) -> Arc<dyn InputTransform> {
    Arc::new(Projection { dim })
}

impl InputTransform for Projection {
    fn name(&self) -> &str {
        "projection"
    }

    fn output_dim(&self, _d: usize) -> usize {
        self.dim
    }

    fn parameters(&self, d: usize) -> Vec<Parameter> {
        // Columns of an orthonormal cosine basis: all directions differ, and every input takes part.
        let weight = |i: usize, j: usize| {
            let angle = std::f64::consts::PI * (i as f64 + 0.5) * j as f64 / d as f64;
            angle.cos() * (if j == 0 { 1.0f64 } else { 2.0 } / d as f64).sqrt()
        };
        let weights: Vec<f64> = (0..d * self.dim).map(|e| weight(e / self.dim, e % self.dim)).collect();
        vec![Parameter::real("weights", Unit::None, &weights)]
    }

    fn apply(&self, p: &[Tensor<1>], x: Tensor<2>) -> Tensor<2> {
        let d = x.dims()[1];
        x.matmul(p[0].clone().reshape([d, self.dim]))
    }

    fn is_projection(&self) -> bool {
        true
    }

    fn with_dim(&self, dim: usize) -> Option<Arc<dyn InputTransform>> {
        (1..=MOST_COLUMNS).contains(&dim).then(|| projection(dim))
    }
}

/// Any burn [`Module`] as an input transform (a deep kernel): its float parameters become one parameter `weights`.
pub struct ModuleTransform<M> {
    name: String,
    module: Mutex<M>,
    forward: fn(&M, Tensor<2>) -> Tensor<2>,
    weights: Vec<f64>,
    output_dim: usize,
}

impl<M: Module> ModuleTransform<M> {
    /// Wraps a module, with its forward function and its number of output columns.
    ///
    /// # Errors
    /// [`Device`](crate::Error::Device) when the module's initial parameters cannot be read.
    pub fn new(
        name: impl Into<String>,
        module: M,
        output_dim: usize,
        forward: fn(&M, Tensor<2>) -> Tensor<2>,
    ) -> Result<Self> {
        let mut reader = Reader { weights: Ok(Vec::new()) };
        module.visit(&mut reader);
        Ok(Self { name: name.into(), module: Mutex::new(module), forward, weights: reader.weights?, output_dim })
    }
}

impl<M> Debug for ModuleTransform<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModuleTransform").field("name", &self.name).field("weights", &self.weights.len()).finish()
    }
}

impl<M: Module> InputTransform for ModuleTransform<M> {
    fn name(&self) -> &str {
        &self.name
    }

    fn output_dim(&self, _d: usize) -> usize {
        self.output_dim
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![Parameter::real("weights", Unit::None, &self.weights)]
    }

    fn apply(&self, p: &[Tensor<1>], x: Tensor<2>) -> Tensor<2> {
        let module = self.module.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let module = module.map(&mut Writer { weights: p[0].clone(), at: 0 });
        (self.forward)(&module, x)
    }
}

struct Reader {
    weights: Result<Vec<f64>>,
}

impl ModuleVisitor for Reader {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Ok(weights) = &mut self.weights {
            match to_f64(param.val()) {
                Ok(values) => weights.extend(values),
                Err(error) => self.weights = Err(error),
            }
        }
    }
}

/// Replaces a module's parameters by slices of one weight vector, as nodes of the graph.
struct Writer {
    weights: Tensor<1>,
    at: usize,
}

impl ModuleMapper for Writer {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shape = param.shape();
        let length = shape.num_elements();
        let slice = self.weights.clone().narrow(0, self.at, length).reshape(shape);
        self.at += length;
        Param::initialized(param.id, slice)
    }
}
