"""The objective of a model as a function of its parameters, for optimisers and samplers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _cagey, _tables
from ._estimators import GPClassifier, GPRegressor

Array = NDArray[np.float64]


class Objective:
    """Minus the log posterior of a model's parameters: minus the log evidence, or its bound, minus the log priors.

    It is that of the standardised targets. Its argument theta holds the free parameters, one after another, in a form
    without constraints: positive ones by a smooth one-to-one map.

    Parameters
    ----------
    estimator : GPRegressor or GPClassifier
        What to fit; it need not be fitted. Without a kernel it is ``"matern32(ard)"``; an average of kernels has no
        objective.
    X, y : arrays
        Rows of numbers, and their targets.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> from cagey import GPRegressor, Objective
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> objective = Objective(GPRegressor("rbf"), X, np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0]))
    >>> found = minimize(objective, objective.theta, jac=True)
    >>> bool(found.fun < objective(objective.theta)[0])
    True
    >>> sorted(objective.values(found.x))
    ['kernel.rbf.lengthscale', 'kernel.rbf.variance', 'likelihood.noise']
    """

    def __init__(self, estimator: GPRegressor | GPClassifier, X: ArrayLike, y: ArrayLike) -> None:
        if str(estimator.kernel).partition("(")[0] in ("average", "auto"):
            raise ValueError("an average of kernels has no one objective: choose a kernel for the estimator")
        X = np.ascontiguousarray(np.asarray(X, dtype=np.float64))
        labels = None
        if isinstance(estimator, GPClassifier):
            classes, y = np.unique(y, return_inverse=True)
            labels = [str(label) for label in classes.tolist()]
        likelihood = estimator.likelihood or ("gaussian" if labels is None else None)
        words = estimator._words(likelihood) + ([] if estimator.kernel else ["--kernel=matern32(ard)"])
        y = np.ascontiguousarray(np.asarray(y, dtype=np.float64))
        self._native = _cagey.Objective(words, X, y, classes=labels, threads=_tables.threads(estimator.threads))

    @property
    def theta(self) -> Array:
        """The point where training begins."""
        return np.frombuffer(self._native.theta(), dtype=np.float64).copy()

    @property
    def names(self) -> list[str]:
        """The parameter that each number of theta belongs to."""
        return [name for name, _, count in self._native.parameters(None) for _ in range(count)]

    def values(self, theta: ArrayLike) -> dict[str, list[float]]:
        """All parameters at a point, in the units of the data."""
        return {name: values for name, values, _ in self._native.parameters(_point(theta))}

    def __call__(self, theta: ArrayLike) -> tuple[float, Array]:
        """The objective and its gradient."""
        value, gradient = self._native.evaluate(_point(theta))
        return value, np.frombuffer(gradient, dtype=np.float64)


def _point(theta: ArrayLike) -> Array:
    return np.ascontiguousarray(np.asarray(theta, dtype=np.float64))
