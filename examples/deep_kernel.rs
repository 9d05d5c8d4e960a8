//! A deep kernel: the covariance of features that a neural network computes from the inputs. Network and kernel are
//! trained together, saved and loaded.
//!
//! The function has a jump. A stationary kernel has one lengthscale for the jump and for the calm parts beside it; the
//! network learns features that move far only at the jump (Wilson et al., 2016).
//!
//! ```sh
//! cargo run --release --example deep_kernel
//! ```

use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use cagey::Result;
use cagey::data::Dataset;
use cagey::device::Precision;
use cagey::fitted::{Fit, Fitted, Registry};
use cagey::kernels::registry::Registry as Kernels;
use cagey::kernels::transform::ModuleTransform;
use cagey::metrics::score;

#[derive(Module, Debug)]
struct Network {
    hidden: Linear,
    features: Linear,
}

impl Network {
    fn new(device: &Device) -> Self {
        Self { hidden: LinearConfig::new(1, 8).init(device), features: LinearConfig::new(8, 2).init(device) }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.features.forward(self.hidden.forward(x).tanh())
    }
}

/// A table of the function with noise of standard deviation 0.05, at `n` places that begin at `first`.
fn table(first: f64, n: usize) -> Result<Dataset> {
    let x: Vec<f64> = (0..n).map(|i| first + 6.0 * i as f64 / n as f64).collect();
    let noise = |i: usize| 0.17 * ((7919.0 * i as f64).sin() * 1e4).fract().abs() - 0.085;
    let y = x.iter().enumerate().map(|(i, x)| f64::from(u8::from(*x > 0.0)) + 0.1 * x + noise(i)).collect();
    Dataset::new(["x"], x)?.with_target("y", y)
}

fn main() -> Result<()> {
    let compute = cagey_examples::asked(Precision::F64);
    let device = Device::flex();
    device.seed(1);
    let network = ModuleTransform::new("network", Network::new(&device), 2, Network::forward)?;
    let registry = Registry::from(Kernels::default().with_transform(Arc::new(network)));
    let (data, test) = (table(-3.0, 80)?, table(-2.96, 80)?);
    let y = test.y.as_deref().unwrap_or_default();

    let plain = Fit::new(&data).kernel("matern52").compute(compute).run()?;
    // In code: Kernel::parse("matern52", 2)?.transformed(network, 1).
    let deep = Fit::new(&data).kernel("network(matern52)").registry(&registry).compute(compute).run()?;
    for (name, model) in [("matern52", &plain), ("network(matern52)", &deep)] {
        let scores = score(y, &model.predict(&test)?)?;
        println!("{name:<18} RMSE {:.4}, NLPD {:.3}", scores.rmse, scores.nlpd);
    }

    let path = std::env::temp_dir().join("deep_kernel.cagey");
    deep.save(&path)?;
    let loaded = Fitted::load_with(&path, &registry)?;
    std::fs::remove_file(&path).map_err(|e| cagey::Error::io(&path, &e))?;
    assert_eq!(loaded.predict(&test)?, deep.predict(&test)?, "a loaded model predicts the same");
    Ok(())
}
