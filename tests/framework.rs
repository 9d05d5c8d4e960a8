//! The snippets of `docs/framework.md`: they compile, run, and are those of the document.

use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Tensor};
use cagey::Result;
use cagey::data::Dataset;
use cagey::device::Compute;
use cagey::fitted::{Fit, Fitted, Registry};
use cagey::kernels::form::{Form, Lowered, Metric};
use cagey::kernels::profile::Profile;
use cagey::kernels::transform::ModuleTransform;
use cagey::kernels::{Kernel, registry};
use cagey::likelihoods::registry::Row as Entry;
use cagey::likelihoods::{Custom, Gaussian, Support};
use cagey::models::cagp::IterativeCagp;
use cagey::models::functions::PathOptions;
use cagey::models::svgp::{Svgp, SvgpOptions};
use cagey::models::{Batch, Model, Observations, minibatch};
use cagey::params::{Parameter, Unit};
use cagey::scope::{Scope, gradient_in};
use cagey::solvers::LinearSystem;
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::{Actor, Policy, SolveState};
use cagey::train::{Adam, Optimizer, TrainConfig};

/// Inputs, row-major of two columns, and targets.
fn rows(n: usize) -> (Vec<f64>, Vec<f64>) {
    let x: Vec<f64> = (0..2 * n).map(|i| 2.0 * (1.3 * i as f64 + 0.2).sin()).collect();
    let y = x.chunks(2).map(|x| x[0].sin() + 0.3 * x[1]).collect();
    (x, y)
}

fn table() -> Dataset {
    let (x, y) = rows(30);
    Dataset::new(["a", "b"], x).unwrap().with_target("y", y).unwrap()
}

fn fitted() -> Fitted {
    Fit::new(&table()).kernel("rbf(ard)").steps(10).run().unwrap()
}

#[test]
fn fit_and_predict() -> Result<()> {
    let (x, y) = rows(30);
    let data = Dataset::new(["a", "b"], x)?.with_target("y", y)?;
    let model = Fit::new(&data).kernel("matern52(ard) + linear").run()?;
    let prediction = model.predict_rows(&[0.3, -0.2])?.remove(0);
    assert!((prediction.mean() - (0.3f64.sin() - 0.06)).abs() < 0.1);
    Ok(())
}

/// Cauchy's kernel: variance / (1 + r²/lengthscale²).
#[derive(Debug)]
struct Cauchy;

impl Form for Cauchy {
    fn name(&self) -> &str {
        "cauchy"
    }

    fn parameters(&self, _d: usize) -> Vec<Parameter> {
        let [l, v] = [("lengthscale", Unit::Length), ("variance", Unit::Variance)];
        [l, v].map(|(name, unit)| Parameter::positive(name, unit, &[1.0])).to_vec()
    }

    fn cross(&self, p: &[Tensor<1>], x1: Tensor<2>, x2: Tensor<2>) -> Result<Tensor<2>> {
        let square = |z: &Tensor<2>| z.clone().powi_scalar(2).sum_dim(1);
        let [a, b] = [x1, x2].map(|x| x / p[0].clone().unsqueeze::<2>());
        let s = (square(&a) + square(&b).transpose() - a.matmul(b.transpose()) * 2.0).clamp_min(0.0);
        Ok((s + 1.0).recip() * p[1].clone().unsqueeze::<2>())
    }

    fn diag(&self, p: &[Tensor<1>], x: Tensor<2>) -> Result<Tensor<1>> {
        Ok(p[1].clone().expand([x.dims()[0]]))
    }
}

#[test]
fn custom_kernel() -> Result<()> {
    let data = table();
    let registry = Registry::from(registry::Registry::default().with_form(Arc::new(Cauchy)));
    let model = Fit::new(&data).kernel("cauchy + linear").registry(&registry).run()?;
    cagey::check::kernel(&Kernel::leaf(Arc::new(Cauchy), 2), 2)?;
    assert_eq!(model.kernel().shape(), "cauchy + linear");
    Ok(())
}

/// The same in one term, which joins the fused products.
#[derive(Debug)]
struct Fused;

impl Form for Fused {
    fn name(&self) -> &str {
        "fused"
    }

    fn parameters(&self, d: usize) -> Vec<Parameter> {
        Cauchy.parameters(d)
    }

    fn lower(&self, p: &[Tensor<1>], x: Tensor<2>) -> Option<Lowered> {
        let z = x / p[0].clone().unsqueeze::<2>();
        Some(Lowered::term(Metric::SquaredDistance, Profile::Rbf, z, Some(p[1].clone())))
    }
}

#[test]
fn fused_kernel() {
    cagey::check::kernel(&Kernel::leaf(Arc::new(Fused), 2), 2).unwrap();
}

cagey::log_density!(Laplace: Support::Real, |row, f, own| {
    -((f[0] - row.y) * (f[0] - row.y) + 1e-6).sqrt() / own[0] - (own[0] * 2.0).ln()
});

#[test]
fn custom_likelihood() -> Result<()> {
    let data = table();
    let laplace = || Box::new(Custom::new("laplace", Laplace, [Parameter::positive("scale", Unit::None, &[0.3])])) as _;
    let registry = Registry::default().with_likelihood(Entry::new("laplace", laplace));
    let options = SvgpOptions::default().inducing(10);
    let model = Fit::new(&data).likelihood("laplace").model(options).steps(20).registry(&registry).run()?;
    assert!(model.predict_targets(&data)?[0].mean().is_finite());
    Ok(())
}

/// The bound with a tempered data term.
#[derive(Debug)]
struct Tempered {
    gp: Svgp,
    power: f64,
}

cagey::parameters!(Tempered { ..gp });

impl Model for Tempered {
    fn objective(&self, scope: &Scope, batch: &Batch) -> Result<Tensor<1>> {
        self.gp.objective(scope, &Batch { scale: self.power * batch.scale, ..batch.clone() })
    }
}

#[test]
fn own_bound_on_minibatches() -> Result<()> {
    let (x, y) = rows(200);
    let data = Observations::new(x.clone(), 2, y, None)?;
    let gp = Svgp::new(Kernel::parse("rbf", 2)?, &x[..20], 2, Gaussian::new(0.1))?;
    let mut model = Tempered { gp, power: 0.5 };
    let config = TrainConfig::new(Optimizer::Adam(Adam { rate: 0.05, ..Adam::default() }), 60);
    let outcome = minibatch::fit_any(&mut model, Compute::default(), &data, 50, &config, &mut [])?;
    let first = outcome.history.records.first().map(|record| record.loss);
    assert!(first.is_some_and(|first| outcome.loss < first - 0.1), "{first:?} {}", outcome.loss);
    Ok(())
}

#[derive(Module, Debug)]
struct Network {
    hidden: Linear,
    features: Linear,
}

impl Network {
    fn new(device: &Device) -> Self {
        Self { hidden: LinearConfig::new(2, 8).init(device), features: LinearConfig::new(8, 2).init(device) }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.features.forward(self.hidden.forward(x).tanh())
    }
}

#[test]
fn deep_kernel() -> Result<()> {
    let data = table();
    let network = ModuleTransform::new("network", Network::new(&Device::flex()), 2, Network::forward)?;
    let registry = Registry::from(registry::Registry::default().with_transform(Arc::new(network)));
    let model = Fit::new(&data).kernel("network(matern52)").registry(&registry).steps(10).run()?;
    assert_eq!(model.kernel().shape(), "network(matern52)");
    Ok(())
}

/// The residual, without its small entries.
#[derive(Debug, Clone)]
struct Large;

impl Policy for Large {
    fn name(&self) -> &'static str {
        "large"
    }

    fn start(&self, _system: &dyn LinearSystem, _budget: usize) -> Result<Box<dyn Actor>> {
        Ok(Box::new(|state: &dyn SolveState, _| {
            let residual = state.residual()?;
            let small = residual.clone().abs().lower(residual.clone().abs().mean().unsqueeze::<2>());
            Ok(Some(residual.mask_fill(small, 0.0)))
        }))
    }
}

#[test]
fn own_policy() -> Result<()> {
    let (x, y) = rows(40);
    let data = Observations::new(x, 2, y, None)?;
    let model = IterativeCagp::new(Kernel::parse("rbf", 2)?, Box::new(Large), IterGpOptions::budget(6));
    let posterior = model.posterior(Compute::default(), data)?;
    cagey::check::policy(&Large)?;
    assert_eq!(posterior.0.actions(), 6);
    Ok(())
}

#[test]
fn gradients_in_the_inputs() -> Result<()> {
    let model = fitted();
    let x = model.points(&[0.3, -0.2])?.require_grad();
    let [mean, variance] = model.moments(x.clone())?;
    let slopes = gradient_in((mean - variance.sqrt() * 2.0).sum(), &x)?;
    assert_eq!(slopes.len(), 2);
    Ok(())
}

#[test]
fn paths() -> Result<()> {
    let model = fitted();
    let x = model.points(&[0.3, -0.2, 1.0, 0.5])?.require_grad();
    let path = model.paths(PathOptions::new(8, 1))?.only(0)?;
    let slopes = gradient_in(path.at(x.clone())?.sum(), &x)?;
    assert_eq!(slopes.len(), 4);
    Ok(())
}

#[test]
fn samples_and_fantasies() -> Result<()> {
    let model = fitted();
    let base = [0.3, -1.1, 0.8, 0.2, 1.4, -0.6];
    let x = model.points(&[0.3, -0.2, 1.0, 0.5, -0.7, 0.9])?.require_grad();
    let joint = model.joint(x.clone())?;
    let values = joint.part(0..2).samples(&base[..4])?;
    let fantasies = joint.given(&values, 1e-4)?;
    let slopes = gradient_in(fantasies.mean.min_dim(0).mean(), &x)?;
    assert_eq!(slopes.len(), 6);
    Ok(())
}

#[test]
fn many_models() -> Result<()> {
    let tables = [table(), table()];
    let fits = tables.iter().map(|data| Fit::new(data).kernel("rbf").steps(5)).collect();
    let models: Vec<Fitted> = Fitted::fit_many(fits).into_iter().collect::<Result<_>>()?;
    assert_eq!(models.len(), 2);
    Ok(())
}

#[test]
fn more_rows() -> Result<()> {
    let model = fitted();
    let later = Dataset::new(["a", "b"], vec![0.4, 0.1])?.with_target("y", vec![0.42])?;
    let updated = model.update(&later)?;
    assert_eq!(updated.summary.rows, 31);
    Ok(())
}

/// Each snippet of the document stands here line by line, and the table counts its lines.
#[test]
fn the_document_has_these_snippets() {
    let document = include_str!("../docs/framework.md");
    let code = |text: &'static str| text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let here = code(include_str!("framework.rs"));
    let mut counted = Vec::new();
    for part in document.split("```rust\n").skip(1) {
        let snippet = part.split("```").next().unwrap();
        for lines in snippet.split("\n\n").map(code) {
            assert!(here.windows(lines.len()).any(|own| own == lines), "not in this file:\n{}", lines.join("\n"));
        }
        counted.push(code(snippet).len());
    }
    let rows =
        document.lines().filter(|line| line.starts_with("| [")).map(|line| line.split('|').nth(2).unwrap().trim());
    let told: Vec<usize> = rows.map(|count| count.parse().unwrap()).collect();
    assert_eq!(told, counted);
    assert!(counted.len() >= 11);
}
