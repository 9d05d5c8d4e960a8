//! Log likelihoods of many models as one graph, against those of each.

use cagey::device::Compute;
use cagey::kernels::Kernel;
use cagey::means::Mean;
use cagey::models::exact::ExactGp;
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::products::stacked::{Member, likelihoods};
use cagey::scope::Scope;

#[test]
fn losses_and_gradients_are_those_of_single_models() {
    let (d, compute) = (2, Compute::default());
    for text in [
        "matern52",
        "rbf(ard) + linear(ard)",
        "periodic(ard) * rq + white",
        "spectral_mixture(components=2)",
        "matern32(dims=[1]) + cosine_sum + constant",
        "polynomial(power=2) + periodic_norm(dims=[0])",
    ] {
        let mut models = Vec::new();
        for k in 0..5 {
            let mut model = ExactGp::new(Kernel::parse(text, d).unwrap());
            model.prior.mean = Mean::named(["zero", "linear", "constant"][k % 3], d).unwrap();
            let raw: Vec<f64> =
                model.free_raw().iter().enumerate().map(|(i, raw)| raw + 0.1 * ((i + k) as f64).sin()).collect();
            model.set_free_raw(&raw).unwrap();
            let n = 20 + 7 * k;
            let x: Vec<f64> = (0..n * d).map(|i| (0.9 * i as f64 + k as f64).sin() * 2.0).collect();
            let y: Vec<f64> = x.chunks(d).map(|x| x[0].sin() + 0.3 * x[1]).collect();
            models.push((model, Observations::new(x, d, y, None).unwrap()));
        }
        // Models of one mean at a time.
        for name in ["zero", "linear", "constant"] {
            let some: Vec<_> = models.iter().filter(|(model, _)| model.prior.mean.name() == name).collect();
            let member = |(model, data): &&'_ (ExactGp, Observations)| -> (ExactGp, Observations) {
                (model.clone(), data.clone())
            };
            let own: Vec<_> = some.iter().map(member).collect();
            let members: Vec<Member> = own
                .iter()
                .map(|(model, data)| Member {
                    kernel: &model.prior.kernel,
                    mean: &model.prior.mean,
                    noise: &model.likelihood.noise,
                    x: &data.x,
                    y: &data.y,
                })
                .collect();
            let found = likelihoods(compute, &members, d).unwrap();
            for ((model, data), found) in own.iter().zip(found) {
                let batch = data.batch(&Scope::new(compute).unwrap());
                let want = fit::evaluate(model, compute, &batch).unwrap();
                assert!((found.loss - want.loss).abs() < 1e-9 * want.loss.abs().max(1.0), "{text}");
                let parameters = model.parameters();
                let free = parameters.iter().zip(found.slopes).filter(|((_, p), _)| !p.fixed);
                let gradient: Vec<f64> = free.flat_map(|((_, p), slope)| p.raw_slope(slope)).collect();
                assert_eq!(gradient.len(), want.gradient.len());
                for (a, b) in gradient.iter().zip(&want.gradient) {
                    assert!((a - b).abs() < 1e-8 * b.abs().max(1.0), "{text}: {gradient:?} {:?}", want.gradient);
                }
            }
        }
    }
}
