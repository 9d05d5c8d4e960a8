//! Checks of a model.

use burn::tensor::{DType, Tensor, TensorData};

use super::{Faults, compute, differences, irregular};
use crate::ErrorKind;
use crate::device::Precision;
use crate::error::Result;
use crate::models::functions::Normal;
use crate::models::gp_model::GpModel;
use crate::models::minibatch::Rows;
use crate::models::posterior::{Joint, Posterior};
use crate::models::{Batch, Held, Observations};
use crate::scope::{Scope, scalar, to_f64};

/// Of more free parameters than this, only so many have their gradient compared.
const COMPARED: usize = 16;

/// Checks a model and its posterior for these rows (a few dozen with at least two columns suit): the objective is one
/// number in the shape `[1]`, its gradient in the free parameters equals central differences up to `tolerance` of its
/// length (1e-6 for an exact objective); the scale of a batch enters linearly; batches of other columns, lengths or
/// types are refused, and so are inputs that are not finite; means, variances, joint distributions and moments as
/// tensors agree with each other, a saved posterior comes back unchanged, one that is extended by rows equals that of
/// all rows, and f32 agrees with f64.
///
/// # Errors
/// [`Error::Usage`](crate::Error::Usage) with the faults.
pub fn model(model: &dyn GpModel, data: &Observations, tolerance: f64) -> Result<()> {
    let mut faults = Faults::new(format!("the model {}", model.title()));
    let scope = Scope::new(compute(Precision::F64))?;
    let batch = data.batch(&scope);
    // The objective for what the model chooses at its present parameters, such as actions.
    let chosen = model.refresh().map_or(Ok(None), |_| model.choose(&scope, &batch));
    let Some(chosen) = faults.value("what it chooses", chosen) else { return faults.result() };
    let loss = objective(model, &scope, &batch, chosen.as_ref());
    let Some(loss) = faults.value("the objective", loss) else { return faults.result() };
    faults.require(loss.dims() == [1], format!("the objective has shape {:?}, [1] expected: sum it", loss.dims()));
    if !faults.found.is_empty() {
        return faults.result();
    }
    gradient(&mut faults, model, &batch, chosen.as_ref(), tolerance);
    scale(&mut faults, model, &batch);
    let posterior = faults.value("the posterior", model.condition(compute(Precision::F64), data.clone()));
    if let Some(posterior) = posterior {
        let points = near(data);
        predictions(&mut faults, &*posterior, &points, data.d);
        tensors(&mut faults, &*posterior, &points[..3 * data.d], data.d);
        saving(&mut faults, model, &*posterior, data, &points);
        refusals(&mut faults, model, &*posterior, data);
        growing(&mut faults, model, &*posterior, data, &points);
    }
    precisions(&mut faults, model, data);
    faults.result()
}

/// Rows between and around those of the data.
fn near(data: &Observations) -> Vec<f64> {
    let mut points = irregular(60 * data.d, 1.0);
    for (at, point) in points.iter_mut().enumerate() {
        *point = data.x[at % data.x.len()] + 0.2 * *point;
    }
    points
}

fn objective(model: &dyn GpModel, scope: &Scope, batch: &Batch, chosen: Option<&Held>) -> Result<Tensor<1>> {
    match chosen {
        Some(chosen) => model.objective_for(scope, batch, chosen),
        None => model.objective(scope, batch),
    }
}

fn gradient(faults: &mut Faults, model: &dyn GpModel, batch: &Batch, chosen: Option<&Held>, tolerance: f64) {
    let found = || {
        let scope = Scope::training(compute(Precision::F64))?;
        Ok(scope.gradient(objective(model, &scope, batch, chosen)?, model)?.1)
    };
    let start = model.free_raw();
    let Some(gradient) = faults.value("the gradient", found()) else { return };
    // Those of variational parameters and of actions are alike.
    let every = start.len().div_ceil(COMPARED).max(1);
    let places: Vec<usize> = (0..start.len()).filter(|at| *at < 8 || at % every == 0).collect();
    let numeric = differences(&start, &places, |raw| {
        let mut moved = model.boxed();
        moved.set_free_raw(raw)?;
        scalar(objective(&*moved, &Scope::new(compute(Precision::F64))?, batch, chosen)?)
    });
    let Some(numeric) = faults.value("the objective at other parameters", numeric) else { return };
    let size = gradient.iter().map(|g| g * g).sum::<f64>().sqrt().max(1.0);
    for (at, difference) in places.into_iter().zip(numeric) {
        let fault = || format!("the gradient in free parameter {at} is {}, {difference} expected", gradient[at]);
        faults.require((difference - gradient[at]).abs() <= tolerance * size, fault());
    }
}

/// The rows of a batch count as often as its scale says, or the scale has no effect if a model uses all rows.
fn scale(faults: &mut Faults, model: &dyn GpModel, batch: &Batch) {
    let loss = |scale| {
        let batch = Batch { scale, ..batch.clone() };
        scalar(model.objective(&Scope::new(compute(Precision::F64))?, &batch)?)
    };
    let losses = [1.0, 2.0, 3.0].map(|scale| faults.value("the objective of a scaled batch", loss(scale)));
    if let [Some(one), Some(two), Some(three)] = losses {
        let linear = (three - two - (two - one)).abs() <= 1e-9 * three.abs().max(1.0);
        faults.require(linear, format!("the scale of a batch does not enter linearly: {one}, {two}, {three}"));
    }
}

/// Means alone, predictions of single rows and the variances' sign.
fn predictions(faults: &mut Faults, posterior: &dyn Posterior, points: &[f64], d: usize) {
    let all = faults.both(("predictions", posterior.predict(points)), ("means", posterior.mean(points)));
    let Some((all, means)) = all else { return };
    faults.require(all.variance.iter().all(|v| *v > 0.0), "a variance is not positive");
    faults.close("means alone", &means, &all.mean, 1e-10);
    for (row, x) in points.chunks(d).enumerate() {
        let one = faults.both(("one row", posterior.predict(x)), ("one row", posterior.mean(x)));
        let Some((one, mean)) = one else { return };
        let scale = all.mean.iter().fold(1e-300_f64, |most, m| most.max(m.abs()));
        let same = |a: f64, b: f64| (a - b).abs() <= 1e-10 * scale;
        faults
            .require(same(mean[0], all.mean[row]) && same(one.mean[0], all.mean[row]), "a mean depends on other rows");
        faults.close("the variance of one row", &one.variance, &all.variance[row..=row], 1e-9);
    }
}

/// Moments as tensors equal the predictions, and their gradients in the points central differences.
fn tensors(faults: &mut Faults, posterior: &dyn Posterior, x: &[f64], d: usize) {
    let rows = x.len() / d;
    let Ok(device) = compute(Precision::F64).device() else { return };
    let tensor =
        |x: &[f64], device| Tensor::<2>::from_data(TensorData::new(x.to_vec(), [x.len() / d, d]), (device, DType::F64));
    let tracking = device.clone().autodiff();
    let points = tensor(x, &tracking).require_grad();
    let Some(Some([mean, variance])) = faults.value("moments", posterior.moments(points.clone())) else { return };
    let predicted = faults.value("predictions", posterior.predict(x));
    let moments = faults.both(("moments", to_f64(mean)), ("moments", to_f64(variance)));
    if let (Some(predicted), Some((mean, variance))) = (predicted, moments) {
        faults.close("the mean as a tensor", &mean, &predicted.mean, 1e-10);
        faults.close("the variance as a tensor", &variance, &predicted.variance, 1e-8);
    }
    let weights = irregular(rows, 2.0);
    for (which, name) in ["mean", "variance"].into_iter().enumerate() {
        let gradient = || {
            let Some(moments) = posterior.moments(points.clone())? else { return Ok(Vec::new()) };
            let weights =
                Tensor::<1>::from_data(TensorData::new(weights.clone(), [rows]), (&points.device(), DType::F64));
            let slopes = (moments[which].clone() * weights).sum().backward();
            points.grad(&slopes).map_or_else(|| Ok(vec![0.0; x.len()]), to_f64)
        };
        let numeric = differences(x, &(0..x.len()).collect::<Vec<_>>(), |x| {
            let found = posterior.predict(x)?;
            let values = if which == 0 { found.mean } else { found.variance };
            Ok(values.iter().zip(&weights).map(|(value, weight)| value * weight).sum())
        });
        if let Some((got, want)) = faults.both(("moments", gradient()), ("predictions", numeric)) {
            faults.close(&format!("the gradient of the {name} in the points"), &got, &want, 1e-6);
        }
    }
    joint(faults, posterior, &points, x);
    let plain = tensor(x, &device);
    let refused = |x| posterior.moments(x).is_err();
    faults.require(refused(plain.clone().cast(DType::F32)), "moments accept points of another type");
    faults.require(d == 1 || refused(plain.narrow(1, 0, d - 1)), "moments accept points of other columns");
}

/// The joint distribution as tensors equals the joint prediction, and its gradient in the points central differences.
fn joint(faults: &mut Faults, posterior: &dyn Posterior, points: &Tensor<2>, x: &[f64]) {
    let rows = points.dims()[0];
    let weights = irregular(rows * (rows + 1), 3.0);
    let weigh = |mean: &[f64], covariance: &[f64]| {
        mean.iter().chain(covariance).zip(&weights).map(|(value, weight)| value * weight).sum::<f64>()
    };
    let found = || {
        let Some(Normal { mean, covariance }) = posterior.joint(points.clone())? else { return Ok(None) };
        let weights = TensorData::new(weights.clone(), [rows * (rows + 1)]);
        let weights = Tensor::<1>::from_data(weights, (&points.device(), DType::F64));
        let all = Tensor::cat(vec![mean.clone(), covariance.clone().flatten(0, 1)], 0);
        let slopes = points.grad(&(all * weights).sum().backward());
        Ok(Some((to_f64(mean)?, to_f64(covariance)?, slopes.map_or_else(|| Ok(vec![0.0; x.len()]), to_f64)?)))
    };
    let Some(Some((mean, covariance, slopes))) = faults.value("the joint distribution", found()) else { return };
    let numeric = differences(x, &(0..x.len()).collect::<Vec<_>>(), |x| {
        let Joint { mean, covariance } = posterior.predict_joint(x)?;
        Ok(weigh(&mean, &covariance))
    });
    let name = "the joint prediction";
    if let Some((want, numeric)) = faults.both((name, posterior.predict_joint(x)), (name, numeric)) {
        faults.close("the joint mean as a tensor", &mean, &want.mean, 1e-10);
        faults.close("the joint covariance as a tensor", &covariance, &want.covariance, 1e-8);
        faults.close("the gradient of the joint distribution in the points", &slopes, &numeric, 1e-6);
    }
}

/// A saved posterior comes back unchanged.
fn saving(faults: &mut Faults, model: &dyn GpModel, posterior: &dyn Posterior, data: &Observations, points: &[f64]) {
    let restored = posterior.saved(true).and_then(|saved| model.restore(compute(Precision::F64), data.clone(), saved));
    let Some(restored) = faults.value("a saved posterior", restored) else { return };
    let both = (restored.predict(points), posterior.predict(points));
    let same = both.0.is_ok() && both.0.ok() == both.1.ok() && restored.solve() == posterior.solve();
    faults.require(same && restored.needs_data() == posterior.needs_data(), "a saved posterior comes back changed");
}

/// An impossible request gives an error, not a panic.
fn refusals(faults: &mut Faults, model: &dyn GpModel, posterior: &dyn Posterior, data: &Observations) {
    let requested = |result: Result<()>| result.is_err_and(|error| error.kind() == ErrorKind::Request);
    for bad in [f64::NAN, f64::INFINITY] {
        let mut row = vec![0.1; data.d];
        row[data.d - 1] = bad;
        faults.require(requested(posterior.predict(&row).map(drop)), format!("an input of {bad} is not refused"));
    }
    let Some(empty) = faults.value("no rows", posterior.sample(&[], 3, 0)) else { return };
    faults.require(empty == vec![Vec::<f64>::new(); 3], "samples at no rows are not empty");
    let scopes = [Precision::F64, Precision::F32].map(|precision| Scope::new(compute(precision)));
    let [Ok(scope), Ok(other)] = scopes else { return };
    let (own, single) = (data.batch(&scope), data.batch(&other));
    let mixed = [
        ("of another type", single.clone()),
        ("with targets of another type", Batch { y: single.y.clone(), ..own.clone() }),
        ("with inputs of another type", Batch { x: single.x, ..own.clone() }),
        ("with fewer targets than rows", Batch { y: own.y.clone().narrow(0, 0, 3), ..own.clone() }),
        ("of other columns", Batch { x: Tensor::cat(vec![own.x.clone(), own.x.clone()], 1), ..own }),
    ];
    for (what, batch) in mixed {
        let refused = requested(model.objective(&scope, &batch).map(drop));
        faults.require(refused, format!("a batch {what} is not refused as a wrong request"));
    }
}

/// A posterior extended by rows equals that of all rows.
fn growing(faults: &mut Faults, model: &dyn GpModel, posterior: &dyn Posterior, data: &Observations, points: &[f64]) {
    let (n, part) = (data.n(), data.n() / 2 + 1);
    let rows = |rows: std::ops::Range<usize>| data.gather(&rows.collect::<Vec<_>>());
    // Actions fit one number of rows: other rows cannot condition such a model.
    let before = rows(0..part).and_then(|part| model.condition(compute(Precision::F64), part));
    let Ok(before) = before else { return };
    // Conditioning on all rows takes other actions.
    if before.computation_aware().is_some() {
        return;
    }
    let one = rows(part..part + 1).and_then(|row| before.updated(&row));
    let Some(Some(one)) = faults.value("an update", one) else { return };
    let grown = rows(part + 1..n).and_then(|rest| one.updated(&rest));
    let Some(Some(grown)) = faults.value("an update", grown) else { return };
    for x in [points, &points[..data.d]] {
        let both = faults.both(("an update", grown.predict(x)), ("predictions", posterior.predict(x)));
        if let Some((got, want)) = both {
            faults.close("means after an update", &got.mean, &want.mean, 1e-10);
            faults.close("variances after an update", &got.variance, &want.variance, 1e-9);
        }
    }
    let wide = Observations::new(vec![1.0; data.d + 1], data.d + 1, vec![1.0], None);
    let refused = wide.is_ok_and(|other| before.updated(&other).is_err_and(|e| e.kind() == ErrorKind::Request));
    faults.require(refused, "an update by rows of other columns is not refused as a wrong request");
}

/// Single precision agrees with double precision.
fn precisions(faults: &mut Faults, model: &dyn GpModel, data: &Observations) {
    let points = near(data);
    let both = [Precision::F32, Precision::F64].map(|precision| {
        let scope = Scope::new(compute(precision))?;
        let loss = scalar(model.objective(&scope, &data.batch(&scope))?)?;
        let predicted = model.condition(compute(precision), data.clone())?.predict(&points[..2 * data.d])?;
        Ok((loss, predicted))
    });
    if let [Some(single), Some(double)] = both.map(|found| faults.value("another precision", found)) {
        let close = (single.0 - double.0).abs() <= 1e-4 * double.0.abs().max(1.0);
        faults.require(close, format!("the objective is {} in f32, {} in f64", single.0, double.0));
        faults.close("means in f32", &single.1.mean, &double.1.mean, 1e-3);
        faults.close("variances in f32", &single.1.variance, &double.1.variance, 1e-3);
    }
}
