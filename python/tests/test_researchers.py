"""Kernels as objects, and objectives for optimisers of Python."""

import numpy as np
import pytest

from cagey import GPClassifier, GPRegressor, Objective
from cagey import kernels as k


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(40, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)


def test_kernels_are_texts(rows):
    kernel = (k.rbf(ard=True) + k.linear(dims=[0])) * k.constant() + 0.5 * k.rq(alpha=2.0)
    assert str(kernel) == "(rbf(ard) + linear(dims=[0])) * constant + 0.5 * rq(alpha=2.0)"
    assert str("rbf" + k.linear()) == "rbf + linear" and k.rbf() == k.Kernel("rbf")
    known = k.rbf().bounds(lengthscale=(0.5, 0.7)).fixed("variance").start(variance=1.0)
    model = GPRegressor(known, threads=1).fit(*rows)
    parameters = model.inspect()["parameters"]
    assert 0.5 <= parameters["kernel.rbf.lengthscale"]["values"][0] <= 0.7
    variance = parameters["kernel.rbf.variance"]
    assert variance["fixed"] and variance["values"] == pytest.approx([1.0])


def _values(model, name):
    return model.inspect()["parameters"][f"kernel.{name}"]["values"][0]


def test_what_is_known_of_a_kernel_stays_with_it(rows):
    X, y = rows
    short, long = k.rbf(dims=[0]).bounds(lengthscale=(0.1, 1)), k.rbf(dims=[1]).bounds(lengthscale=(20, 30))
    model = GPRegressor(short + long, threads=1).fit(X, y)
    assert 0.1 <= _values(model, "rbf1.lengthscale") <= 1 and 20 <= _values(model, "rbf2.lengthscale") <= 30
    model = GPRegressor(k.rbf().start(lengthscale=0.3).fixed("lengthscale") + k.matern32(), threads=1).fit(X, y)
    parameters = model.inspect()["parameters"]
    assert parameters["kernel.rbf.lengthscale"]["fixed"] and not parameters["kernel.matern32.lengthscale"]["fixed"]
    assert _values(model, "rbf.lengthscale") == pytest.approx(0.3)
    seasonal = k.periodic(period=1.0, fix="period") * k.rbf().bounds(lengthscale=(5, 50))
    assert (k.linear() + seasonal).options == {"bounds": {"rbf.lengthscale": (5, 50)}}
    both = (k.rbf() + k.linear() * k.periodic()).bounds(lengthscale=(1, 2)) + 2.0 * k.rbf().fixed("variance")
    ranges = {"rbf1.lengthscale": (1, 2), "periodic.lengthscale": (1, 2)}
    assert both.options == {"bounds": ranges, "fix": {"rbf2.variance": True}}
    named = (k.rbf() + k.rbf()).bounds(**{"rbf2.lengthscale": (1, 2)}).prior(**{"rbf1.lengthscale[age]": "gamma(2, 1)"})
    assert ("white" + named).options == {
        "bounds": {"rbf2.lengthscale": (1, 2)},
        "prior": {"rbf1.lengthscale[age]": "gamma(2, 1)"},
    }
    inside = k.rbf(dims=["rq"]) * k.projection(k.rbf(ard=True, fix="variance").fixed("lengthscale"), dim=2)
    assert inside.options == {"fix": {"rbf2.lengthscale": True}}
    assert GPRegressor(k.wiener(dims=[0]) + k.rbf(), threads=1).fit(X, y).score(X, y) > 0
    with pytest.raises(ValueError, match="no parameter .period.; there are rbf"):
        k.rbf().fixed("period")


def test_an_average_has_no_objective(rows):
    with pytest.raises(ValueError, match="choose a kernel"):
        Objective(GPRegressor("average"), *rows)


@pytest.mark.parametrize("estimator", [GPRegressor("rbf(ard)", threads=1), GPClassifier("rbf", model="laplace", threads=1)])
def test_the_gradient_is_that_of_the_objective(rows, estimator):
    X, y = rows
    objective = Objective(estimator, X, y if isinstance(estimator, GPRegressor) else y > 0)
    theta = objective.theta + 0.1
    assert len(objective.names) == len(theta)
    _, gradient = objective(theta)
    step = 1e-5
    for at in range(len(theta)):
        move = np.eye(len(theta))[at] * step
        slope = (objective(theta + move)[0] - objective(theta - move)[0]) / (2 * step)
        assert gradient[at] == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_training_ends_where_the_gradient_vanishes(rows):
    X, y = rows
    from scipy.optimize import minimize

    estimator = GPRegressor("rbf(ard)", threads=1)
    objective = Objective(estimator, X, y)
    found = minimize(objective, objective.theta, jac=True, options={"gtol": 1e-8})
    trained = estimator.fit(X, y)
    assert -trained.log_marginal_likelihood_value_ == pytest.approx(found.fun, abs=1e-3)
