"""Estimators: predictions, files, what they tell about themselves."""

import io
import json
import logging
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as theirs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cagey
from cagey import GPClassifier, GPRegressor


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(80, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)


@pytest.fixture(scope="module")
def fitted(rows):
    return GPRegressor(threads=1).fit(*rows)


def test_predictions_have_the_known_shapes_and_agree(rows, fitted):
    X, y = rows
    mean = fitted.predict(X[:7])
    again, sd = fitted.predict(X[:7], return_std=True)
    np.testing.assert_allclose(mean, again, rtol=1e-12)
    assert mean.shape == sd.shape == (7,) and (sd > 0).all()
    joint, covariance = fitted.predict(X[:7], return_cov=True)
    np.testing.assert_allclose(joint, mean, rtol=1e-9)
    np.testing.assert_allclose(covariance, covariance.T)
    plain = GPRegressor(threads=1, calibrate="no").fit(X, y)
    _, sd = plain.predict(X[:7], return_std=True)
    np.testing.assert_allclose(np.sqrt(np.diag(plain.predict(X[:7], return_cov=True)[1])), sd, rtol=1e-6)
    with pytest.raises(RuntimeError):
        fitted.predict(X, return_std=True, return_cov=True)
    interval = fitted.predict_interval(X, level=0.9)
    assert interval.shape == (80, 2) and 0.8 < np.mean((interval[:, 0] < y) & (y < interval[:, 1])) <= 1
    quantiles = fitted.predict_quantiles(X, [0.1, 0.5, 0.9])
    assert quantiles.shape == (80, 3) and (np.diff(quantiles, axis=1) > 0).all()
    assert fitted.score(X, y) > 0.95


def test_samples_have_the_moments_of_the_function(rows, fitted):
    X, _ = rows
    samples = fitted.sample_y(X[:5], n_samples=4000, random_state=1)
    assert samples.shape == (5, 4000)
    mean, sd = fitted.predict_latent(X[:5])
    np.testing.assert_allclose(samples.mean(axis=1), mean, atol=5 * sd.max() / np.sqrt(4000))
    np.testing.assert_allclose(samples.std(axis=1), sd, rtol=0.1)
    np.testing.assert_array_equal(samples, fitted.sample_y(X[:5], n_samples=4000, random_state=1))


def test_the_same_kernel_has_the_same_evidence_as_in_scikit_learn(rows):
    X, y = rows
    options = {"init": {"lengthscale": [1.5, 2.5], "variance": 1.2}, "fix": ["lengthscale", "variance"], "no_standardize": True, "prior": "none"}
    own = GPRegressor("rbf(ard)", mean="zero", noise=0.04, calibrate=False, threads=1, options=options).fit(X, y)
    kernel = theirs.ConstantKernel(1.2, "fixed") * theirs.RBF([1.5, 2.5], "fixed")
    other = GaussianProcessRegressor(kernel, alpha=0.04, optimizer=None).fit(X, y)
    assert own.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-9)
    mean, sd = own.predict_latent(X + 0.1)
    expected, expected_sd = other.predict(X + 0.1, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    np.testing.assert_allclose(sd, expected_sd, atol=1e-7)


def test_the_optimum_is_that_of_scikit_learn(rows):
    X, y = rows
    own = GPRegressor("rbf(ard)", mean="zero", threads=1, options={"no_standardize": True, "prior": "none"}).fit(X, y)
    bounds = (1e-5, 1e5)
    kernel = theirs.ConstantKernel(1, bounds) * theirs.RBF([1, 1], bounds) + theirs.WhiteKernel(0.1, bounds)
    other = GaussianProcessRegressor(kernel, alpha=0, n_restarts_optimizer=3, random_state=0).fit(X, y)
    assert own.log_marginal_likelihood_value_ >= other.log_marginal_likelihood_value_ - 1e-4


def test_a_classifier_knows_its_labels():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 2))
    y = np.array(["left", "middle", "right"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = GPClassifier(threads=1).fit(X, y)
    assert model.classes_.tolist() == ["left", "middle", "right"]
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert model.score(X, y) > 0.85
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), probabilities)
    with pytest.raises(ValueError, match="1 class"):
        GPClassifier().fit(X, ["one"] * 90)


def test_files_pickles_and_copies_hold_the_same_model(rows, fitted, tmp_path):
    X, _ = rows
    mean, sd = fitted.predict(X, return_std=True)
    for again in (pickle.loads(pickle.dumps(fitted)), joblib.load(_dumped(fitted))):
        np.testing.assert_array_equal(again.predict(X, return_std=True)[1], sd)
    fitted.save(tmp_path / "model.cagey")
    assert pickle.loads(pickle.dumps(fitted.model_)).to_bytes() == (tmp_path / "model.cagey").read_bytes()
    for again in (GPRegressor.load(tmp_path / "model.cagey"), cagey.load(tmp_path / "model.cagey")):
        np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
        assert again.kernel_ == fitted.kernel_
    assert not hasattr(clone(fitted), "model_")
    with pytest.raises(OSError, match="no such file"):
        GPRegressor.load(tmp_path / "none.cagey")
    with pytest.raises(ValueError, match="GPRegressor"):
        GPClassifier.load(tmp_path / "model.cagey")


def _dumped(model):
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    return buffer


def test_what_a_model_tells(rows, fitted):
    X, y = rows
    bars = fitted.error_bars_
    assert "rows left out in turn" in str(bars) and isinstance(bars["intervals_hold"], bool)
    assert isinstance(fitted.advice_, list)
    left = fitted.leave_one_out_
    np.testing.assert_allclose(left.y, y, rtol=1e-12)
    assert np.corrcoef(left.mean, y)[0, 1] > 0.9 and (left.sd > 0).all()
    told = fitted.inspect()
    assert "matern32" in str(told) and told["inputs"] == ["x0", "x1"] and "<pre>" in told._repr_html_()
    assert "--" not in str(told).replace("---", "")
    assert fitted.plot("calibration")._repr_svg_().startswith("<svg")
    assert set(fitted.evaluate(X, y)) >= {"rmse", "nlpd"}
    json.dumps(fitted.summary_)


def test_more_rows_without_a_training(rows):
    X, y = rows
    model = GPRegressor("matern32(ard)", threads=1, calibrate=False).fit(X[:60], y[:60])
    before = model.predict_latent(X[60:])[1]
    model.update(X[60:], y[60:])
    assert (model.predict_latent(X[60:])[1] < before).all() and model.summary_["rows"] == 80


def test_summands_add_up():
    x = np.linspace(0, 4, 60)
    y = 0.5 * x + np.sin(3 * x)
    model = GPRegressor("linear + rbf", mean="zero", threads=1).fit(x[:, None], y)
    parts = model.components(x[:, None])
    assert list(parts) == ["linear", "rbf"]
    total = sum(mean for mean, _ in parts.values()) + y.mean()
    np.testing.assert_allclose(total, model.predict_latent(x[:, None])[0], atol=1e-6)


def test_gradients_are_those_of_the_predictions(rows, fitted):
    X, _ = rows
    x, step = X[:4] + 0.05, 1e-5
    mean, variance, of_mean, of_variance = fitted.gradients(x)
    np.testing.assert_allclose(mean, fitted.predict_latent(x)[0], rtol=1e-8)
    for column in range(2):
        move = np.eye(2)[column] * step
        ahead, behind = fitted.predict_latent(x + move), fitted.predict_latent(x - move)
        np.testing.assert_allclose(of_mean[:, column], (ahead[0] - behind[0]) / (2 * step), rtol=1e-4, atol=1e-6)
        slope = (ahead[1] ** 2 - behind[1] ** 2) / (2 * step)
        np.testing.assert_allclose(of_variance[:, column], slope, rtol=1e-3, atol=1e-6)


def test_counts_with_exposures():
    rng = np.random.default_rng(2)
    x, exposure = rng.uniform(0, 3, 120), rng.uniform(0.5, 20, 120)
    y = rng.poisson(exposure * np.exp(np.sin(2 * x)))
    model = GPRegressor(likelihood="poisson", threads=1).fit(x[:, None], y, exposure=exposure)
    grid = np.linspace(0.2, 2.8, 20)
    rate = model.predict(grid[:, None])
    assert np.corrcoef(np.log(rate), np.sin(2 * grid))[0, 1] > 0.97
    halved = GPRegressor(likelihood="poisson", threads=1).fit(x[:, None], y, exposure=2 * exposure)
    np.testing.assert_allclose(2 * halved.predict(grid[:, None]), rate, rtol=1e-2)


def test_known_noise_of_rows():
    rng = np.random.default_rng(3)
    x = np.linspace(0, 6, 60)
    sd = np.where(x < 3, 0.01, 1.0)
    y = np.sin(x) + sd * rng.normal(size=60)
    model = GPRegressor(threads=1).fit(x[:, None], y, noise_sd=sd)
    _, spread = model.predict_latent([[1.5], [5.0]])
    assert spread[0] < 0.3 * spread[1]
    with pytest.raises(ValueError, match="one number for each of the 60 rows"):
        model.fit(x[:, None], y, noise_sd=sd[:5])


@pytest.mark.parametrize("frame", ["array", "numbers", "mixed"])
def test_predictions_take_the_noise_of_their_rows(frame, recwarn):
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 10, 700)
    sd = np.where(x < 5, 0.05, 0.6)
    y = np.sin(x) + sd * rng.normal(size=700)
    X = x[:, None] if frame == "array" else pd.DataFrame({"x": x, "s": sd})
    if frame == "mixed":
        X["where"] = rng.choice(["in", "out"], 700)
    rows = lambda at: X[at] if frame == "array" else X.iloc[at]
    train, new = np.arange(150), np.arange(150, 700)
    given = (lambda at: {"noise_sd": sd[at]}) if frame == "array" else (lambda at: {})
    model = GPRegressor("rbf", threads=1).fit(rows(train), y[train], noise_sd=sd[train] if frame == "array" else "s")
    low, high = model.predict_interval(rows(new), **given(new)).T
    assert 0.92 < np.mean((low < y[new]) & (y[new] < high)) < 0.98
    assert model.evaluate(rows(new), y[new], **given(new))["nlpd"] < 0
    before = model.predict_latent(rows(new))[1]
    _, spread = model.predict(rows(new), return_std=True, **given(new))
    assert (spread > 0.99 * sd[new]).all() and model.n_features_in_ == (2 if frame == "mixed" else 1)
    model.update(rows(new[:50]), y[new[:50]], **given(new[:50]))
    assert (model.predict_latent(rows(new))[1] <= before * (1 + 1e-9)).all()
    assert not [one for one in recwarn if "noise" in str(one.message)]
    bare = rows(new) if frame == "array" else rows(new).drop(columns="s")
    np.testing.assert_array_equal(model.predict(bare), model.predict(rows(new), **given(new)))
    assert not [one for one in recwarn if "noise" in str(one.message)]
    sds, scores = lambda X: model.predict(X, return_std=True), lambda X: model.evaluate(X, y[new])
    for ask in (model.predict_interval, scores, sds):
        with pytest.warns(cagey.CageyWarning, match="no noise_sd, so error bars hold the learned noise alone"):
            ask(bare)
    with pytest.raises(ValueError, match="give noise_sd="):
        model.update(bare, y[new])
    with pytest.raises(ValueError, match="exposure: the model has noise_sd"):
        model.predict(bare, exposure=sd[new])


def test_predictions_take_the_exposure_and_trials_of_their_rows(tmp_path):
    rng = np.random.default_rng(5)
    x, exposure = rng.uniform(0, 6, 120), rng.uniform(10, 40, 120)
    y = rng.poisson(exposure * np.exp(np.sin(x)))
    model = GPRegressor("rbf", likelihood="poisson", threads=1).fit(x[:, None], y, exposure=exposure)
    model.save(tmp_path / "model.cagey")
    for own in (model, cagey.load(tmp_path / "model.cagey")):
        assert own.score(x[:, None], y, exposure=exposure) > 0.8
        assert own.evaluate(x[:, None], y, exposure=exposure)["n"] == 120
        low, high = own.predict_interval(x[:, None], exposure=exposure).T
        assert np.mean((low <= y) & (y <= high)) > 0.9
    with pytest.warns(cagey.CageyWarning, match="no exposure, so predictions are for an exposure of 1"):
        rate = model.predict(x[:, None])
    np.testing.assert_allclose(model.predict(x[:, None], exposure=exposure), rate * exposure)
    hits = rng.binomial(10, 1 / (1 + np.exp(-np.sin(x))))
    shares = GPRegressor("rbf", likelihood="binomial", threads=1).fit(x[:, None], hits, trials=np.full(120, 10))
    assert shares.score(x[:, None], hits, trials=np.full(120, 10)) > 0.2
    with pytest.raises(ValueError, match="one number for each of the 120 rows"):
        model.predict(x[:, None], exposure=exposure[:3])


@pytest.mark.parametrize(
    "labels", [["01", "1"], ["0", "1"], [True, False], ["y=1 ", "a,b"], [0, 1], ["yes", "no"], [0.0, 1.0]]
)
def test_labels_are_those_of_the_fit_after_loading(labels, tmp_path):
    X = np.linspace(-3, 3, 40)[:, None]
    y = np.array(labels)[(X[:, 0] > 0).astype(int)]
    model = GPClassifier("rbf", threads=1).fit(X, y)
    model.save(tmp_path / "model.cagey")
    for own in (cagey.load(tmp_path / "model.cagey"), GPClassifier.load(tmp_path / "model.cagey")):
        assert own.classes_.tolist() == model.classes_.tolist() and own.classes_.dtype.kind == model.classes_.dtype.kind
        assert np.mean(own.predict(X) == y) == own.score(X, y) == 1
    with pytest.raises(ValueError, match="GPClassifier.load"):
        GPRegressor.load(tmp_path / "model.cagey")
    with pytest.raises(ValueError, match="the class `1` is given twice, because blanks"):
        GPClassifier("rbf", threads=1).fit(X, np.where(X[:, 0] > 0, "1 ", "1"))
    table = cagey.fit(pd.DataFrame({"x": X[:, 0], "y": y}), target="y", likelihood="bernoulli", kernel="rbf", threads=1)
    assert sorted(table.classes_.tolist()) == sorted(set(labels))


def test_clones_of_what_was_loaded_fit_alike(rows, fitted, tmp_path):
    X, y = rows
    fitted.save(tmp_path / "model.cagey")
    again = clone(cagey.load(tmp_path / "model.cagey")).set_params(threads=1).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    options = {"init": {"lengthscale": 2.0}, "bounds": {"variance": (0.5, 4.0)}, "fix": ["lengthscale"]}
    model = GPRegressor("rbf", noise=0.01, random_state=3, n_restarts=2, threads=1, options=options).fit(X, y)
    model.save(tmp_path / "model.cagey")
    table = pd.DataFrame(X, columns=["x0", "x1"]).assign(y=y)
    options = {"init": {**options["init"], "noise": 0.01}, "bounds": options["bounds"], "fix": ["lengthscale", "noise"]}
    more = {"likelihood": "gaussian", "seed": 3, "restarts": 2, "holdout": 0.2}
    called = cagey.fit(table, target="y", kernel="rbf", threads=1, **more, **options)
    for own in (cagey.load(tmp_path / "model.cagey"), called):
        own = clone(own).set_params(threads=1).fit(X, y)
        np.testing.assert_array_equal(own.predict(X), model.predict(X))
    # A file of the command has no parameters of an estimator, but the model's own settings.
    bare = cagey.load(tmp_path / "model.cagey")
    bare.model_.note = None
    bare.save(tmp_path / "model.cagey")
    own = clone(cagey.load(tmp_path / "model.cagey")).set_params(threads=1).fit(X, y)
    np.testing.assert_allclose(own.predict(X), model.predict(X), rtol=1e-6)
    fitted.save(tmp_path / "average.cagey")
    average = cagey.load(tmp_path / "average.cagey")
    average._set_words(None)
    assert average.kernel == "average" and "average" not in average.kernel_


def test_held_out_rows_are_scored(rows):
    X, y = rows
    model = GPRegressor("rbf", options={"holdout": 0.2}, threads=1).fit(X, y)
    assert model.report_["scores"]["n"] == 16 and model.summary_["rows"] == 64


def test_threads_are_a_number(rows):
    X, y = rows
    assert GPRegressor("rbf", threads=-1).fit(X[:9], y[:9]).summary_["rows"] == 9
    for wrong in ("2", 0, 1.0, -2):
        with pytest.raises(ValueError, match="threads is a whole number"):
            GPRegressor("rbf", threads=wrong).fit(X, y)


def test_a_logarithm_of_the_target_is_told():
    rng = np.random.default_rng(9)
    X = rng.uniform(0, 5, (90, 1))
    y = np.where(rng.random(90) < 0.5, 0, np.exp(3 + rng.normal(size=90)))
    model = GPRegressor(threads=1).fit(X, y)
    assert model.summary_["target_transform"] == "log1p" and "log(1 + y)" in str(model.inspect())
    assert GPRegressor("rbf", threads=1).fit(X, y).summary_["target_transform"] == "identity"


def test_errors_speak_of_parameters(rows):
    X, y = rows
    with pytest.raises(NotFittedError):
        GPRegressor().predict(X)
    with pytest.raises(ValueError, match="rbff"):
        GPRegressor("rbff").fit(X, y)
    with pytest.raises(ValueError, match="mean"):
        GPRegressor(mean="cubic").fit(X, y)
    with pytest.raises(ValueError, match="trials is for likelihood binomial"):
        GPRegressor(likelihood="poisson").fit(X, np.abs(y).round(), trials=np.ones(80))
    with pytest.raises(ValueError, match="no option 'inducings'"):
        GPRegressor(options={"inducings": 3}).fit(X, y)
    with pytest.raises(ValueError, match=r'options\["inducing"\] is for model sgpr'):
        GPRegressor(options={"inducing": 30}).fit(X, y)


def test_notes_are_logged_and_nothing_is_printed(rows, capfd, caplog):
    X, y = rows
    with caplog.at_level(logging.INFO, "cagey"):
        GPRegressor(likelihood="auto", threads=1).fit(X, y)
    assert "regression with the gaussian likelihood" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_steps_are_shown_on_request(rows, capfd):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 5))
    GPRegressor("rbf(ard)", threads=1, starts="data", verbose=1).fit(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=600))
    out, err = capfd.readouterr()
    assert out == "" and "\rcagey: step" in err and "of at most" in err and err.endswith("\n")


def test_a_model_that_needs_too_much_memory_is_refused():
    X = np.arange(400_000.0)[:, None]
    with pytest.raises(MemoryError, match="GB of memory"):
        GPRegressor("rbf", model="exact").fit(X, X[:, 0])


def test_numbers_of_rows_are_routed(rows):
    X, y = rows
    noise = np.where(X[:, 1] < 3, 0.05, 0.5)
    with config_context(enable_metadata_routing=True):
        own = GPRegressor("rbf(ard)", threads=1).set_fit_request(noise_sd=True)
        assert own.get_metadata_routing().fit.requests["noise_sd"] is True
        routed = make_pipeline(StandardScaler(), own).fit(X, y, noise_sd=noise)
        search = GridSearchCV(own, {"kernel": ["rbf(ard)", "linear"]}, cv=3).fit(X, y, noise_sd=noise)
    alone = GPRegressor("rbf(ard)", threads=1).fit(StandardScaler().fit_transform(X), y, noise_sd=noise)
    np.testing.assert_array_equal(routed[-1].predict_latent(X[:5]), alone.predict_latent(X[:5]))
    assert search.best_params_ == {"kernel": "rbf(ard)"}


def test_the_command_gives_the_same_bits(rows, fitted, tmp_path):
    X, y = rows
    lines = ["x0,x1,y"] + [f"{a!r},{b!r},{c!r}" for (a, b), c in zip(X.tolist(), y.tolist())]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    (tmp_path / "new.csv").write_text("\n".join(["x0,x1"] + [f"{a!r},{b!r}" for a, b in (X[:5] + 0.1).tolist()]))
    run = lambda *words: subprocess.run([sys.executable, "-m", "cagey", *words], cwd=tmp_path, check=True, capture_output=True, text=True)
    run("fit", "table.csv", "--target", "y", "--likelihood", "gaussian", "-o", "model.cagey", "--threads", "1")
    table = run("predict", "model.cagey", "new.csv").stdout.splitlines()[1:]
    mean, sd = np.array([[float(cell) for cell in row.split(",")[:2]] for row in table]).T
    np.testing.assert_array_equal(mean, fitted.predict(X[:5] + 0.1, return_std=True)[0])
    np.testing.assert_array_equal(sd, fitted.predict(X[:5] + 0.1, return_std=True)[1])
    np.testing.assert_array_equal(cagey.load(tmp_path / "model.cagey").predict(X), fitted.predict(X))


def test_options_are_those_of_the_command():
    table = {option.name: option for option in cagey.options()}
    assert {"kernel", "init", "fix", "bounds", "prior", "holdout", "steps", "inducing"} <= set(table)
    assert table["no_standardize"].value is None and "random" in table["restarts"].help
    assert not {"output", "json", "shards"} & set(table)
