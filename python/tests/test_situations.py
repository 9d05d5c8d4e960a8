"""Situations of the tests of scikit-learn's Gaussian processes, and of GPyTorch's and GPflow's examples, written anew."""

import numpy as np
import pytest

from cagey import CageyWarning, GPClassifier, GPRegressor, Objective
from cagey import kernels as k

# A model as it is given: zero mean, no scales, no priors, no calibration.
PLAIN = {"mean": "zero", "calibrate": False, "threads": 1}
RAW = {"no_standardize": True, "prior": "none"}


def wave(x):
    return np.sin(2 * np.pi * x)


def fixed(lengthscale, variance, noise, kernel="rbf", **more):
    """An estimator that keeps its parameters."""
    given = {**RAW, "init": {"lengthscale": lengthscale, "variance": variance}, "fix": ["lengthscale", "variance"]}
    return GPRegressor(kernel, noise=noise, options={**given, **more.pop("options", {})}, **{**PLAIN, **more})


def rbf(a, b, lengthscale, variance):
    square = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    return variance * np.exp(-0.5 * square / lengthscale**2)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, size=(50, 2))
    return X, X[:, 0] * np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=50)


# --- scikit-learn ------------------------------------------------------------------------------------------------


def test_posterior_and_leave_one_out_are_those_of_dense_algebra(rows):
    X, y = rows
    model = fixed(1.3, 2.0, 0.05).fit(X, y)
    new = X[:9] + 0.2
    gram = rbf(X, X, 1.3, 2.0) + 0.05 * np.eye(50)
    cross = rbf(new, X, 1.3, 2.0)
    covariance = rbf(new, new, 1.3, 2.0) - cross @ np.linalg.solve(gram, cross.T)
    mean, sd = model.predict_latent(new)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(gram, y), rtol=1e-8)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance)), rtol=1e-6)
    found, joint = model.predict(new, return_cov=True)
    np.testing.assert_allclose(joint, covariance + 0.05 * np.eye(9), atol=1e-9)
    left = model.leave_one_out_
    for at in range(0, 50, 7):
        kept = np.arange(50) != at
        some, own = gram[np.ix_(kept, kept)], gram[at, kept]
        assert left.mean[at] == pytest.approx(own @ np.linalg.solve(some, y[kept]), rel=1e-8)
        assert left.sd[at] ** 2 == pytest.approx(gram[at, at] - own @ np.linalg.solve(some, own), rel=1e-8)


def test_training_improves_the_evidence_inside_bounds_and_ends_where_it_is_flat(rows):
    X, y = rows
    free = GPRegressor("rbf", **PLAIN, options=RAW).fit(X, y)
    assert free.log_marginal_likelihood_value_ > fixed(1.0, 1.0, 0.1).fit(X, y).log_marginal_likelihood_value_
    objective = Objective(GPRegressor("rbf", **PLAIN, options=RAW), X, y)
    values = {name: one["values"] for name, one in free.inspect()["parameters"].items()}
    from scipy.optimize import minimize

    found = minimize(objective, objective.theta, jac=True, options={"gtol": 1e-9})
    assert free.log_marginal_likelihood_value_ == pytest.approx(-found.fun, abs=1e-6 * len(y))
    assert values["kernel.rbf.lengthscale"] == pytest.approx(objective.values(found.x)["kernel.rbf.lengthscale"], rel=1e-2)
    with pytest.warns(CageyWarning, match="lengthscale"):
        bound = GPRegressor("rbf", **PLAIN, options={**RAW, "bounds": {"lengthscale": (5.0, 9.0)}}).fit(X, y)
    assert 5.0 <= bound.inspect()["parameters"]["kernel.rbf.lengthscale"]["values"][0] <= 9.0


def test_far_away_it_knows_the_prior(rows):
    mean, sd = fixed(1.3, 2.0, 0.05).fit(*rows).predict_latent([[1e3, -1e3]])
    np.testing.assert_allclose([mean[0], sd[0]], [0, np.sqrt(2)], atol=1e-9)


def test_repeated_rows_are_more_data_about_the_same_point(rows):
    X, y = rows
    twice = fixed(1.3, 2.0, 0.1).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    half = fixed(1.3, 2.0, 0.05).fit(X, y)
    for ours, theirs in zip(twice.predict_latent(X + 0.1), half.predict_latent(X + 0.1)):
        np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_points_close_together_leave_numbers_finite():
    x = np.concatenate([np.linspace(0, 1, 30), np.linspace(0, 1, 30) + 1e-9])[:, None]
    mean, sd = fixed(0.5, 1.0, 1e-8).fit(x, wave(x[:, 0])).predict_latent(x)
    assert np.isfinite(sd).all() and (sd < 1e-3).all()
    np.testing.assert_allclose(mean, wave(x[:, 0]), atol=1e-4)


def test_without_noise_it_goes_through_the_data():
    x = np.linspace(0, 1, 12)[:, None]
    model = fixed(0.2, 1.0, 1e-9).fit(x, wave(x[:, 0]))
    mean, sd = model.predict_latent(x)
    np.testing.assert_allclose(mean, wave(x[:, 0]), atol=1e-6)
    assert (sd < 1e-4).all()


def test_more_starts_are_never_worse(rows):
    X, y = rows
    best = [GPRegressor("rbf", n_restarts=count, **PLAIN, options=RAW).fit(X, y).log_marginal_likelihood_value_ for count in (1, 4)]
    assert best[1] >= best[0] - 1e-6


@pytest.mark.parametrize("scale, offset", [(1e8, 0), (1e-8, 0), (1e-150, 0), (1, 1e9)])
def test_units_of_the_target_change_nothing(rows, scale, offset):
    X, y = rows
    usual = GPRegressor("rbf", threads=1).fit(X, y).predict(X[:5], return_std=True)
    other = GPRegressor("rbf", threads=1).fit(X, scale * y + offset).predict(X[:5], return_std=True)
    tolerance = 1e-4 if offset else 1e-6
    np.testing.assert_allclose((other[0] - offset) / scale, usual[0], rtol=tolerance)
    np.testing.assert_allclose(other[1] / scale, usual[1], rtol=tolerance)


@pytest.mark.parametrize("scale, offset", [(1e12, 0), (1e-12, 0), (1, 1e6)])
def test_units_of_inputs_change_nothing(rows, scale, offset):
    X, y = rows
    usual = GPRegressor("rbf(ard)", threads=1).fit(X, y).predict(X[:5])
    other = GPRegressor("rbf(ard)", threads=1).fit(scale * X + offset, y).predict(scale * X[:5] + offset)
    np.testing.assert_allclose(other, usual, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::cagey.CageyWarning")
def test_a_constant_target_is_predicted():
    x = np.linspace(0, 1, 20)[:, None]
    mean, sd = GPRegressor("rbf", threads=1).fit(x, np.full(20, 3.5)).predict([[0.55], [2.0]], return_std=True)
    np.testing.assert_allclose(mean, 3.5, atol=1e-6)
    assert np.isfinite(sd).all()


def test_one_row_can_be_learned_from():
    model = fixed(1.0, 1.0, 0.01).fit([[0.0]], [2.0])
    assert model.predict([[0.0]])[0] == pytest.approx(2 / 1.01)
    assert model.predict([[9.0]])[0] == pytest.approx(0, abs=1e-9)


def test_inputs_that_do_not_matter_get_long_lengthscales():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(80, 2))
    model = GPRegressor("rbf(ard)", threads=1).fit(X, wave(X[:, 0]) + 0.05 * rng.normal(size=80))
    short, long = model.inspect()["parameters"]["kernel.rbf.lengthscale"]["values"]
    assert long > 5 * short


def test_rows_and_columns_in_another_order_and_rows_one_by_one(rows):
    X, y = rows
    mean, sd = GPRegressor("rbf(ard)", threads=1).fit(X, y).predict(X, return_std=True)
    order = np.random.default_rng(2).permutation(50)
    for other in (
        GPRegressor("rbf(ard)", threads=1).fit(X[order], y[order]).predict(X, return_std=True),
        GPRegressor("rbf(ard)", threads=1).fit(X[:, ::-1], y).predict(X[:, ::-1], return_std=True),
        GPRegressor("rbf(ard)", threads=2).fit(X, y).predict(X, return_std=True),
    ):
        np.testing.assert_allclose(other, (mean, sd), rtol=1e-5)
    model = fixed(1.0, 1.0, 0.1).fit(X, y)
    one_by_one = [model.predict(X[at : at + 1])[0] for at in range(50)]
    np.testing.assert_allclose(one_by_one, model.predict(X), rtol=1e-12)


def test_arrays_of_any_layout_and_type_are_the_same_numbers(rows):
    X = np.round(rows[0] * 4)
    y = np.round(rows[1] * 4)
    expected = fixed(1.0, 1.0, 0.1).fit(X, y).predict(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    for other in (np.asfortranarray(X), X.astype(np.float32), X.astype(int), X.astype(">f8"), X.tolist(), frozen, np.repeat(X, 2, axis=1)[:, ::2]):
        model = fixed(1.0, 1.0, 0.1).fit(other, y.astype(int))
        np.testing.assert_array_equal(model.predict(other), expected)


def test_classes_do_not_depend_on_threads_or_labels():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > -0.4).astype(int) + (X[:, 0] > 0.4)
    model = {"kernel": "rbf", "model": "laplace"}
    one = GPClassifier(**model, threads=1).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(GPClassifier(**model, threads=2).fit(X, y).predict_proba(X), one, atol=1e-6)
    swapped = GPClassifier(**model, threads=1).fit(X, 2 - y).predict_proba(X)
    np.testing.assert_allclose(swapped[:, ::-1], one, atol=1e-3)


# --- GPyTorch and GPflow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [{}, {"noise": 0.001}, {"model": "sgpr", "options": {"inducing": 8}}, {"model": "svgp", "options": {"inducing": 10, "steps": 400}}],
    ids=["exact", "known noise", "sgpr", "svgp"],
)
@pytest.mark.filterwarnings("ignore::cagey.CageyWarning")
def test_a_wave_is_learned(more):
    x = np.linspace(0, 1, 40 if "model" in more else 11)[:, None]
    model = GPRegressor("rbf", threads=1, **more).fit(x, wave(x[:, 0]))
    new = np.linspace(0.02, 0.98, 51)[:, None]
    assert np.abs(model.predict(new) - wave(new[:, 0])).mean() < 0.05


def test_inducing_inputs_at_all_rows_are_the_exact_model():
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(0, 5, 30))[:, None]
    y = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=30)
    exact = fixed(0.5, 1.0, 0.04).fit(x, y)
    for model, more in (("sgpr", {"inducing": 30}), ("svgp", {"inducing": 30, "natural_gradients": 1.0, "batch": 30, "steps": 50})):
        other = fixed(0.5, 1.0, 0.04, model=model, options=more).fit(x, y)
        np.testing.assert_allclose(other.predict_latent(x + 0.03), exact.predict_latent(x + 0.03), atol=2e-3)


@pytest.mark.parametrize("kernel", ["periodic", "spectral_mixture(components=2)"])
def test_a_period_goes_on(kernel):
    x = np.linspace(0, 1, 40)[:, None]
    model = GPRegressor(kernel, threads=1, random_state=0, n_restarts=3).fit(x, wave(4 * x[:, 0]))
    new = np.linspace(1, 1.5, 30)[:, None]
    assert np.abs(model.predict(new) - wave(4 * new[:, 0])).mean() < 0.05


def test_a_sum_over_columns_is_learned_from_a_grid():
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 14)] * 2), axis=-1).reshape(-1, 2)
    target = wave(grid[:, 0]) + np.cos(2 * np.pi * grid[:, 1])
    model = GPRegressor("rbf(dims=[0]) + rbf(dims=[1])", threads=1).fit(grid, target)
    new = np.random.default_rng(5).uniform(0.05, 0.95, size=(40, 2))
    assert np.abs(model.predict(new) - wave(new[:, 0]) - np.cos(2 * np.pi * new[:, 1])).mean() < 0.02


def test_many_linear_features_of_unequal_sizes():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(120, 20)) * np.logspace(-4, 4, 20)
    weights = rng.normal(size=20) / np.logspace(-4, 4, 20)
    y = X @ weights + 0.1 * rng.normal(size=120)
    model = GPRegressor("linear", threads=1).fit(X[:80], y[:80])
    assert np.abs(model.predict(X[80:]) - X[80:] @ weights).mean() < 0.15


@pytest.mark.parametrize("kernel", [k.rbf().start(lengthscale=0.1, variance=4.0).fixed("lengthscale", "variance"), "periodic"], ids=str)
def test_ten_points_of_alternating_classes(kernel):
    x = np.linspace(0, 1, 10)[:, None]
    y = np.cos(4 * np.pi * x[:, 0]) > 0
    model = GPClassifier(kernel, model="laplace", threads=1).fit(x, y)
    assert model.score(x, y) == 1


def test_noise_that_grows_with_the_input():
    rng = np.random.default_rng(7)
    x = np.linspace(0, 1, 120)
    y = wave(x) + (0.05 + 0.5 * x) * rng.normal(size=120)
    model = GPRegressor("rbf", likelihood="heteroscedastic", options={"inducing": 20, "steps": 150}, threads=1).fit(x[:, None], y)
    _, sd = model.predict([[0.1], [0.9]], return_std=True)
    np.testing.assert_allclose(sd, [0.1, 0.5], rtol=0.5)


@pytest.mark.parametrize(
    "likelihood, draw, inverse",
    [
        ("poisson", lambda rng, f: rng.poisson(np.exp(f)), np.exp),
        ("negative-binomial", lambda rng, f: rng.negative_binomial(5, 5 / (5 + np.exp(f))), np.exp),
        ("gamma", lambda rng, f: rng.gamma(4, np.exp(f) / 4), np.exp),
        ("exponential", lambda rng, f: rng.exponential(np.exp(f)), np.exp),
        ("beta", lambda rng, f: rng.beta(20 / (1 + np.exp(-f)), 20 / (1 + np.exp(f))), lambda f: 1 / (1 + np.exp(-f))),
        ("student-t(4)", lambda rng, f: f + 0.2 * rng.standard_t(4, size=len(f)), lambda f: f),
    ],
)
def test_likelihoods_find_the_function(likelihood, draw, inverse):
    rng = np.random.default_rng(8)
    x = np.linspace(0, 1, 150)
    f = 1 + wave(x)
    model = GPRegressor("rbf", likelihood=likelihood, model="laplace", threads=1).fit(x[:, None], draw(rng, f))
    assert np.abs(model.predict(x[:, None]) - inverse(f)).mean() < 0.3 * inverse(f).mean()


def test_numbers_of_trials():
    rng = np.random.default_rng(9)
    x, trials = np.linspace(0, 1, 100), rng.integers(5, 30, 100)
    share = 1 / (1 + np.exp(-2 * wave(x)))
    model = GPRegressor("rbf", likelihood="binomial", model="laplace", threads=1).fit(x[:, None], rng.binomial(trials, share), trials=trials)
    assert np.abs(model.predict(x[:, None]) - share).mean() < 0.05


def test_classes_in_an_order():
    rng = np.random.default_rng(10)
    x = rng.uniform(-2, 2, 120)
    y = np.digitize(x + 0.2 * rng.normal(size=120), [-1, 0, 1])
    model = GPClassifier("rbf", likelihood="ordinal", model="laplace", threads=1).fit(x[:, None], y)
    assert np.abs(model.predict(x[:, None]) - y).mean() < 0.25
