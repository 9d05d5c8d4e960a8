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
