//! Newton's method as a tensor graph, compared with the search on the host and with finite differences.

use cagey::kernels::Kernel;
use cagey::models::cagp::{IterativeCagp, NewtonGraph, NewtonOptions};
use cagey::models::{Observations, fit};
use cagey::params::Parameters;
use cagey::scope::{Scope, to_f64};
use cagey::solvers::itergp::IterGpOptions;
use cagey::solvers::policies::{Gradient, Lanczos, LanczosSeed, Pivots, Policy, Residual, UnitVector};

use crate::common::{F32, F64, assert_close, likelihood};
use crate::newton::{drawn, whole};

fn policies() -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(Gradient::default()),
        Box::new(Residual),
        Box::new(UnitVector { pivots: Pivots::Data }),
        Box::new(Lanczos { seed: LanczosSeed::Targets }),
    ]
}

/// The same model with so many steps of some actions, on the host and as a graph.
fn stepped(gp: &IterativeCagp, policy: Box<dyn Policy>, steps: usize, per_step: usize) -> IterativeCagp {
    let mut gp = IterativeCagp { policy, unrolled: steps, ..gp.clone() };
    gp.options = IterGpOptions::budget(steps * per_step);
    gp.newton = NewtonOptions { steps, per_step, settled: 0.0, explain: false, ..gp.newton };
    gp
}

/// The latent mean after the steps of the search on the host, and that of the graph.
fn both(gp: &IterativeCagp, data: &Observations) -> [Vec<f64>; 2] {
    let scope = Scope::new(F64).unwrap();
    let batch = data.batch(&scope);
    let sites = gp.chosen(&scope, &batch).unwrap().sites.unwrap();
    let NewtonGraph { latent, derivatives, report, .. } = gp.newton_graph(&scope, &batch).unwrap();
    assert_eq!(report.steps, gp.newton.steps);
    // The gradient of the search makes its latent mean the posterior's, where a further step would lead astray.
    let curvature = to_f64(derivatives.narrow(0, 1, 1)).unwrap();
    [[to_f64(latent).unwrap(), curvature].concat(), [sites.f, sites.curvature].concat()]
}

#[test]
fn steps_are_those_of_the_search_on_the_host() {
    for text in
        ["bernoulli(logit)", "poisson(exp)", "student-t(3.5)", "negative-binomial(0.4)", "beta(6)", "softmax(3)"]
    {
        let (gp, data) = drawn(text, 14, whole(14), 3);
        for policy in policies() {
            for (steps, per_step) in [(1, 3), (2, 2), (4, 1), (5, 2)] {
                // Lanczos vectors follow from the last action, which the host keeps conjugate to the others.
                if policy.name() == "lanczos" && steps > 1 {
                    continue;
                }
                let what = format!("{text}, {}, {steps} steps of {per_step}", policy.name());
                let [got, want] = both(&stepped(&gp, policy.clone(), steps, per_step), &data);
                assert_close(&what, &got, &want, 1e-8);
            }
        }
    }
}

/// Functions of their own stay apart: every action belongs to one of them.
#[test]
fn actions_of_independent_functions_stay_apart() {
    let (gp, data) = drawn("heteroscedastic", 12, whole(12), 4);
    let scope = Scope::new(F64).unwrap();
    let gp = stepped(&gp, Box::new(Gradient::default()), 4, 2);
    let newton = gp.newton_graph(&scope, &data.batch(&scope)).unwrap();
    let i = newton.report.actions;
    assert_eq!(i, 8);
    let s = to_f64(newton.actions).unwrap();
    for k in 0..i {
        let part = |rows: std::ops::Range<usize>| rows.map(|row| s[row * i + k].abs()).sum::<f64>();
        assert!((part(0..12) == 0.0) != (part(12..24) == 0.0), "action {k}");
    }
}

#[test]
fn gradients_go_through_the_steps() {
    for text in [
        "bernoulli(probit)",
        "poisson(exp)",
        "negative-binomial(0.4)",
        "student-t(3.5)",
        "softmax(3)",
        "heteroscedastic",
    ] {
        let (gp, data) = drawn(text, 12, whole(12), 5);
        let batch = data.batch(&Scope::new(F64).unwrap());
        for policy in policies() {
            let mut gp = stepped(&gp, policy, 3, 2);
            let name = format!("{text}, {}", gp.policy.name());
            let at = gp.free_raw();
            let gradient = fit::evaluate(&gp, F64, &batch).unwrap().gradient;
            let mut value = |k: usize, by: f64| {
                let mut moved = at.clone();
                moved[k] += by;
                gp.set_free_raw(&moved).unwrap();
                fit::evaluate(&gp, F64, &batch).unwrap().loss
            };
            let numeric: Vec<f64> = (0..at.len()).map(|k| (value(k, 1e-5) - value(k, -1e-5)) / 2e-5).collect();
            assert_close(&name, &gradient, &numeric, 3e-6);
        }
    }
}

/// At a mode that has settled the bound is that of held actions and sites, for all actions.
#[test]
fn all_actions_have_the_bound_of_the_host() {
    for text in ["bernoulli(logit)", "poisson(exp)", "softmax(3)"] {
        let (gp, data) = drawn(text, 10, whole(30), 6);
        let loss = |unrolled: usize, compute| {
            let gp = IterativeCagp { unrolled, ..gp.clone() };
            fit::evaluate(&gp, compute, &data.batch(&Scope::new(compute).unwrap())).unwrap().loss
        };
        assert_close(text, &[loss(30, F64)], &[loss(0, F64)], 1e-8);
        assert_close(&format!("{text} in f32"), &[loss(30, F32)], &[loss(0, F64)], 1e-4);
    }
}

/// Rows that carry almost no information have enormous pseudo-targets.
#[test]
fn decided_rows_stay_finite() {
    let x: Vec<f64> = (0..20).map(|i| f64::from(i) * 0.1).collect();
    let y = x.iter().map(|x| f64::from(*x > 1.0)).collect();
    let data = Observations::new(x, 1, y, None).unwrap();
    let batch = data.batch(&Scope::new(F64).unwrap());
    let kernel = Kernel::parse("10000 * rbf", 1).unwrap();
    let (options, policy) = (IterGpOptions::budget(12), Box::new(Gradient::default()));
    let gp = IterativeCagp::boxed(kernel.into(), likelihood("bernoulli(logit)"), policy, options);
    let gp = IterativeCagp { unrolled: 12, ..gp };
    let evaluated = fit::evaluate(&gp, F64, &batch).unwrap();
    assert!(evaluated.loss.is_finite() && evaluated.gradient.iter().all(|g| g.is_finite()), "{evaluated:?}");
}
