//! Newton's method with a low-rank approximation of K, which preconditions actions and finds those that explain
//! variances.

use cagey::kernels::Kernel;
use cagey::models::Observations;
use cagey::models::laplace::LaplaceGp;
use cagey::models::posterior::Posterior;

use crate::common::{F64, assert_close};
use crate::newton::{Newton, drawn, gradient, preconditioned, whole};

const LIKELIHOODS: [&str; 5] = ["bernoulli(logit)", "poisson(exp)", "student-t(3.5)", "softmax(3)", "heteroscedastic"];

fn dense(gp: &cagey::models::cagp::IterativeCagp) -> LaplaceGp {
    LaplaceGp { priors: gp.priors.clone(), likelihood: gp.likelihood.clone(), corrected: false }
}

/// If nothing is left out of the approximation, one action solves a whole step.
#[test]
fn full_rank_takes_newtons_own_steps() {
    for text in ["bernoulli(logit)", "poisson(exp)", "ordinal(4)", "softmax(3)", "softmax(5)"] {
        let policy = preconditioned(40);
        let options = Newton { policy, relative: 1e-7, ..whole(40) };
        let (gp, data) = drawn(text, 40, options, 2);
        let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
        assert!(report.actions <= 12, "{text}: {report}");
        let want = dense(&gp).posterior(F64, data.clone()).unwrap().marginals(&data.x).unwrap();
        for (got, want) in posterior.marginals(&data.x).unwrap().iter().zip(&want) {
            assert_close(&format!("{text}, {report}: mean"), &got.mean, &want.mean, 1e-5);
        }
    }
}

/// A better approximation needs fewer actions.
#[test]
fn rank_saves_actions() {
    for text in ["bernoulli(logit)", "softmax(3)"] {
        let actions = |policy| {
            let options = Newton { policy, relative: 1e-5, ..whole(80) };
            let (gp, data) = drawn(text, 80, options, 1);
            gp.posterior(F64, data).unwrap().1.actions
        };
        let counts = [gradient(), preconditioned(10), preconditioned(40)];
        let counts = counts.map(actions);
        assert!(counts.is_sorted_by(|more, fewer| more > fewer), "{text}: {counts:?}");
    }
}

/// Actions that are left explain variances, and leave the mean where it is.
#[test]
fn actions_that_are_left_explain_variances() {
    for text in LIKELIHOODS {
        for policy in [gradient(), preconditioned(12)] {
            let (gp, data) = drawn(text, 40, Newton { policy: policy.clone(), relative: 1e-6, ..whole(90) }, 3);
            let mut more = gp.clone();
            more.newton.explain = true;
            let [(a, few), (b, all)] = [&gp, &more].map(|gp| gp.posterior(F64, data.clone()).unwrap());
            let name = format!("{text} {policy:?}, {few}; {all}");
            assert!(all.stop == few.stop && all.actions > few.actions && all.actions <= 90, "{name}");
            let dense = dense(&gp).posterior(F64, data.clone()).unwrap().marginals(&data.x).unwrap();
            let [a, b] = [&a, &b].map(|posterior| posterior.marginals(&data.x).unwrap());
            let mut shares = Vec::new();
            for ((a, b), dense) in a.iter().zip(&b).zip(&dense) {
                assert_close(&format!("{name}: mean"), &a.mean, &b.mean, 1e-4);
                for ((a, b), dense) in a.variance.iter().zip(&b.variance).zip(&dense.variance) {
                    assert!(*b <= a * (1.0 + 1e-4) && *b >= dense * (1.0 - 1e-3), "{name}: {a} {b} {dense}");
                    shares.push((b - dense) / (a - dense).max(1e-12));
                }
            }
            shares.sort_by(f64::total_cmp);
            assert!(shares[shares.len() / 2] < 0.5, "{name}: {shares:?}");
        }
    }
}

/// Classes with one covariance share the product of each direction.
#[test]
fn classes_share_products() {
    let options = Newton { policy: preconditioned(8), relative: 1e-3, explain: true, ..whole(60) };
    let (gp, data) = drawn("softmax(5)", 60, options, 3);
    let (_, report) = gp.posterior(F64, data).unwrap();
    assert!(report.actions > 40 && report.products <= report.actions / 2, "{report}");
}

/// White noise has no smooth part, and rows at one place have one column.
#[test]
fn approximations_may_be_empty() {
    for text in ["bernoulli(logit)", "softmax(3)"] {
        for kernel in ["white", "rbf(3.0)", "linear"] {
            let policy = preconditioned(5);
            let (mut gp, data) = drawn(text, 12, Newton { policy, explain: true, ..whole(20) }, 3);
            gp.priors.iter_mut().for_each(|prior| prior.kernel = Kernel::parse(kernel, 2).unwrap());
            let data = Observations::new(vec![0.5; 24], 2, data.y.clone(), None).unwrap();
            let (posterior, report) = gp.posterior(F64, data.clone()).unwrap();
            let found = posterior.marginals(&data.x).unwrap();
            let fine = found.iter().flat_map(|of| of.mean.iter().chain(&of.variance)).all(|value| value.is_finite());
            assert!(fine, "{text} {kernel}, {report}: {found:?}");
        }
    }
}
