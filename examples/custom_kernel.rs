//! Your own kernel: written as a tensor graph, combined with built-in ones, trained, saved and loaded.
//!
//! The arc-cosine kernel of order 0 (Cho and Saul, 2009): the covariance of an infinitely wide network of step
//! functions, k(x, z) = variance · (1 − θ/π) with θ the angle between (1, x/ℓ) and (1, z/ℓ).

use std::f64::consts::PI;
use std::sync::Arc;

use burn::tensor::Tensor;
use cagey::Result;
use cagey::data::{Dataset, Encoding, Schema};
use cagey::fitted::{Fitted, Registry, Settings};
use cagey::kernels::form::Form;
use cagey::kernels::registry::Registry as Kernels;
use cagey::metrics::{Predictive, score};
use cagey::params::{Parameter, Unit};
use cagey::train::TrainConfig;

#[derive(Debug)]
struct ArcCosine;

impl Form for ArcCosine {
    fn name(&self) -> &str {
        "arc_cosine"
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        vec![
            Parameter::positive("lengthscale", Unit::Length, &[1.0]),
            Parameter::positive("variance", Unit::Variance, &[1.0]),
        ]
    }

    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        let scaled = |x: Tensor<2>| x / p[0].clone().unsqueeze::<2>();
        let (a, b) = (scaled(x1), scaled(x2));
        let norm = |z: &Tensor<2>| (z.clone().powi_scalar(2).sum_dim(1) + 1.0).sqrt();
        let cosine = (a.clone().matmul(b.clone().transpose()) + 1.0) / norm(&a) / norm(&b).transpose();
        // arccos(c) = atan2(√(1 − c²), c); c is kept away from ±1, where the slope is infinite.
        let cosine = cosine.clamp(-1.0 + 1e-12, 1.0 - 1e-12);
        let angle = (-cosine.clone().powi_scalar(2) + 1.0).sqrt().atan2(cosine);
        Ok((-angle / PI + 1.0) * p[1].clone().unsqueeze::<2>())
    }

    fn diag(&self, p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        Ok(p[1].clone().expand([x.dims()[0]]))
    }
}

fn main() -> Result<()> {
    let registry = Registry::from(Kernels::default().with_form(Arc::new(ArcCosine)));
    let x: Vec<f64> = (0..120).map(|i| 0.05 * f64::from(i)).collect();
    let kinked = |x: &f64| (x - 2.0).abs() + 0.5 * (x - 4.0).max(0.0) + 0.1 * ((7919.0 * x).sin() * 1e4).fract();
    let (schema, data) = table(&x, x.iter().map(kinked).collect());

    let settings = Settings { kernel: "arc_cosine + 0.5 * linear".into(), ..Settings::default() };
    let fitted = Fitted::fit(schema, &data, settings, &TrainConfig::default(), &registry, &mut [])?;
    println!("{}", fitted.kernel());

    let path = std::env::temp_dir().join("custom_kernel.cagey");
    fitted.save(&path)?;
    let loaded = Fitted::load_with(&path, &registry)?;
    std::fs::remove_file(&path).map_err(|e| cagey::Error::io(&path, &e))?;
    let predictions = loaded.predict(&data)?;
    assert_eq!(predictions, fitted.predict(&data)?, "a loaded model predicts the same");
    let y = data.y.as_deref().unwrap_or_default();
    println!("training RMSE {:.3}, mean sd {:.3}", score(y, &predictions)?.rmse, mean_sd(&predictions));
    Ok(())
}

fn mean_sd(predictions: &[Predictive]) -> f64 {
    predictions.iter().map(Predictive::sd).sum::<f64>() / predictions.len() as f64
}

/// A table of one input column, as reading a file would give it.
fn table(x: &[f64], y: Vec<f64>) -> (Schema, Dataset) {
    let column = cagey::data::Column::numeric("x", 0);
    let schema = Schema {
        features: vec![column],
        target: "y".into(),
        target_index: 1,
        width: 2,
        classes: None,
        target_encoding: Encoding::Numeric,
    };
    let n = x.len();
    let data = Dataset {
        x: x.to_vec(),
        n,
        d: 1,
        feature_names: vec!["x".into()],
        target_name: "y".into(),
        y: Some(y),
        rows: (1..=n).collect(),
        records: (0..n).collect(),
        ..Dataset::default()
    };
    (schema, data)
}
