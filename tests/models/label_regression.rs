//! The regression of labels compared with exact regressions of each class, with refits and with its other forms.

use cagey::fitted::Registry;
use cagey::kernels::Kernel;
use cagey::likelihoods::{Bernoulli, BernoulliLink, Likelihood, Softmax};
use cagey::means::Mean;
use cagey::models::exact::ExactGp;
use cagey::models::gp_model::{GpModel, Training};
use cagey::models::label_regression::{LabelRegression, LabelRegressionOptions};
use cagey::models::minibatch::Rows;
use cagey::models::options::{Context, ModelOptions, Parts};
use cagey::models::posterior::Posterior;
use cagey::models::prior::Prior;
use cagey::models::{Model, Observations, fit};
use cagey::params::Parameters;
use cagey::scope::{Scope, scalar};
use cagey::train::TrainConfig;

use crate::common::{F64, assert_close, data};

const KERNEL: &str = "0.8 * matern32(lengthscale=[0.7, 0.9])";

/// Rows of classes of unequal shares: the value of a function, cut.
fn classes(rows: usize, count: usize) -> Observations {
    let data = data(rows, 2);
    let class = |y: &f64| (1.3 * y + 0.4 * count as f64).floor().clamp(0.0, count as f64 - 1.0);
    let y = data.y.iter().map(class).collect();
    data.with_targets(y).unwrap()
}

fn model(likelihood: impl Likelihood + 'static) -> LabelRegression {
    let mut model = LabelRegression::new(Kernel::parse(KERNEL, 2).unwrap(), likelihood);
    model.labels.noise.set(&[0.15]).unwrap();
    model.scale.set(&[3.0]).unwrap();
    model
}

/// Labels of a class less its share, and how many of their standard deviations one is, over all classes.
fn labels(data: &Observations, count: usize) -> (Vec<Vec<f64>>, f64) {
    let share = |c: usize| data.y.iter().filter(|y| **y == c as f64).count() as f64 / data.n() as f64;
    let variance = (0..count).map(|c| share(c) * (1.0 - share(c))).sum::<f64>() / count as f64;
    let own = |c: usize| data.y.iter().map(|y| (f64::from(*y == c as f64) - share(c)) / variance.sqrt()).collect();
    ((0..count).map(own).collect(), variance.sqrt().recip())
}

/// The mean of labels by an exact regression of some rows.
fn mean(data: &Observations, labels: &[f64], rows: &[usize], at: &[f64]) -> Vec<f64> {
    let mut exact = ExactGp::new(Kernel::parse(KERNEL, 2).unwrap());
    exact.likelihood.noise.set(&[0.15]).unwrap();
    let own = rows.iter().map(|row| labels[*row]).collect();
    let data = data.gather(rows).unwrap().with_targets(own).unwrap();
    exact.posterior(F64, data).unwrap().predict(at).unwrap().mean
}

/// The levels of classes: the logarithms of their shares, with half a row more for each, less their mean.
fn levels(data: &Observations, count: usize) -> Vec<f64> {
    let log = |c: usize| (data.y.iter().filter(|y| **y == c as f64).count() as f64 + 0.5).ln();
    let mean = (0..count).map(log).sum::<f64>() / count as f64;
    (0..count).map(|c| log(c) - mean).collect()
}

#[test]
fn latent_functions_are_scaled_means_of_exact_regressions() {
    let data = classes(40, 3);
    let posterior = model(Softmax::new(3)).posterior(F64, data.clone()).unwrap();
    let at = [0.1, -0.2, 0.9, 0.4, -1.0, 1.3, 1e4, 0.0];
    let (labels, levels) = (labels(&data, 3).0, levels(&data, 3));
    let all: Vec<usize> = (0..data.n()).collect();
    for (c, marginals) in posterior.marginals(&at).unwrap().into_iter().enumerate() {
        let want: Vec<f64> = mean(&data, &labels[c], &all, &at).iter().map(|m| 3.0 * m + levels[c]).collect();
        assert_close(&format!("class {c}"), &marginals.mean, &want, 1e-10);
        // Far from all rows, classes have their shares.
        assert_close("far", &marginals.mean[3..], &[levels[c]], 1e-12);
        assert!(marginals.variance.iter().all(|v| *v > 0.0 && *v < 1e-12));
    }
    assert!(posterior.predict(&at).is_err() && posterior.predict_joint(&at).is_err() && !posterior.is_joint());
}

#[test]
fn the_objective_is_that_of_refits_without_each_row() {
    let data = classes(30, 3);
    let ((labels, gap), levels) = (labels(&data, 3), levels(&data, 3));
    let mut want = 3.0 * gap;
    for row in 0..data.n() {
        let rest: Vec<usize> = (0..data.n()).filter(|other| *other != row).collect();
        let at = &data.x[2 * row..][..2];
        let f: Vec<f64> = (0..3).map(|c| 3.0 * mean(&data, &labels[c], &rest, at)[0] + levels[c]).collect();
        want -= f[data.y[row] as usize] - f.iter().map(|f| f.exp()).sum::<f64>().ln();
    }
    let scope = Scope::new(F64).unwrap();
    let got = scalar(model(Softmax::new(3)).objective(&scope, &data.batch(&scope)).unwrap()).unwrap();
    // The likelihood's expectation at a variance of 0 is an integral.
    assert_close("objective", &[got], &[want], 1e-7);
}

#[test]
fn it_keeps_the_promises_of_a_model() {
    cagey::check::model(&model(Bernoulli { link: BernoulliLink::Probit }), &classes(32, 2), 1e-6).unwrap();
    let (data, model) = (classes(32, 4), model(Softmax::new(4)));
    let evaluated =
        |model: &LabelRegression| fit::evaluate(model, F64, &data.batch(&Scope::new(F64).unwrap())).unwrap();
    let (start, gradient) = (model.free_raw(), evaluated(&model).gradient);
    for at in 0..start.len() {
        let loss = |by: f64| {
            let (mut moved, mut raw) = (model.clone(), start.clone());
            raw[at] += by;
            moved.set_free_raw(&raw).unwrap();
            evaluated(&moved).loss
        };
        assert_close("gradient", &[gradient[at]], &[(loss(1e-5) - loss(-1e-5)) / 2e-5], 1e-6);
    }
    let at = [0.1, -0.2, 0.9, 0.4];
    let posterior = model.condition(F64, data.clone()).unwrap();
    let restored = model.restore(F64, data.clone(), posterior.saved(false).unwrap()).unwrap();
    assert_eq!(restored.marginals(&at).unwrap(), posterior.marginals(&at).unwrap());
}

#[test]
fn two_classes_are_those_of_one_function_with_twice_the_scale() {
    let data = classes(40, 2);
    let mut single = model(Bernoulli { link: BernoulliLink::Logit });
    single.scale.set(&[6.0]).unwrap();
    let at = [0.1, -0.2, 0.9, 0.4];
    let one = single.posterior(F64, data.clone()).unwrap().predict(&at).unwrap().mean;
    let two = model(Softmax::new(2)).posterior(F64, data.clone()).unwrap().marginals(&at).unwrap();
    // Levels differ by half a row in each class.
    let [zero, first] = [0, 1].map(|c: usize| levels(&data, 2)[c]);
    let share = data.y.iter().sum::<f64>() / data.n() as f64;
    let by = (share / (1.0 - share)).ln() - (first - zero);
    let want: Vec<f64> = two[1].mean.iter().zip(&two[0].mean).map(|(b, a)| b - a + by).collect();
    assert_close("the difference", &one, &want, 1e-9);
}

#[test]
fn training_learns_from_some_rows_and_stays_finite_where_classes_are_apart() {
    let data = classes(90, 3);
    let apart = data.x.chunks(2).map(|x| f64::from(u8::from(x[0] > 0.0)) + f64::from(u8::from(x[0] > 1.0))).collect();
    let data = data.with_targets(apart).unwrap();
    let config = TrainConfig::while_it_pays();
    let trained = |subset: usize, seed: u64| {
        let mut model = LabelRegression { subset, seed, ..model(Softmax::new(3)) };
        let training =
            Training { compute: F64, data: &data, rows: &data, batches: None, config: &config, spread: None };
        let outcome = model.train(training, &mut []).unwrap();
        (model, outcome.loss)
    };
    let (all, loss) = trained(90, 0);
    let mut same = model(Softmax::new(3));
    assert_eq!(fit::fit(&mut same, F64, &data, &config, &mut []).unwrap().loss, loss);
    assert!(loss < 0.3 && all.scale.values()[0] < 100.0, "{loss}, {:?}", all.scale.values());
    let (some, other) = (trained(50, 0).0, trained(50, 1).0);
    assert_eq!(some.free_raw(), trained(50, 0).0.free_raw());
    assert!(some.free_raw() != other.free_raw() && some.free_raw() != all.free_raw());
    let weights = |model: &LabelRegression| model.posterior(F64, data.clone()).unwrap().weights().len();
    assert_eq!([weights(&some), weights(&LabelRegression { rows: 60, ..some.clone() })], [3 * data.n(), 3 * 60]);
    let part = LabelRegression { rows: 60, ..some };
    let posterior = part.condition(F64, data.clone()).unwrap();
    let restored = part.restore(F64, data.clone(), posterior.saved(false).unwrap()).unwrap();
    assert_eq!(restored.marginals(&data.x).unwrap(), posterior.marginals(&data.x).unwrap());
}

#[test]
fn other_targets_and_means_are_refused() {
    let data = classes(20, 3);
    let row = Registry::default().models.row("label-regression").unwrap().clone();
    let registry = Registry::default();
    for (text, count, takes) in [
        ("softmax", Some(3), true),
        ("bernoulli(probit)", Some(2), true),
        ("ordinal", Some(3), false),
        ("poisson", None, false),
        ("gaussian", None, false),
    ] {
        assert_eq!(row.takes(&*registry.likelihoods.parse(text, count).unwrap()), takes, "{text}");
    }
    let prior = Prior { kernel: Kernel::parse(KERNEL, 2).unwrap(), mean: Mean::named("linear", 2).unwrap() };
    let parts = Parts { likelihood: Box::new(Softmax::new(3)), prior };
    let names = ["a".to_string(), "b".to_string()];
    let refused = LabelRegressionOptions::default().build(parts, &Context::new(&data, &names, 0)).unwrap_err();
    assert!(refused.to_string().contains("slopes"), "{refused}");
}
