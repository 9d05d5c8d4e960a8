"""Gaussian processes with error bars you can trust: scikit-learn's interface to the library and command ``cagey``."""

from __future__ import annotations

from . import kernels
from ._api import Comparison, Option, compare, fit, load, options
from ._cagey import Model, TrainingError
from ._estimators import GPClassifier, GPRegressor, LeftOut
from ._messages import CageyWarning, ConvergenceWarning
from ._objective import Objective
from ._report import Figure, Report

__version__ = "0.1.0"
__all__ = [
    "CageyWarning",
    "Comparison",
    "ConvergenceWarning",
    "Figure",
    "GPClassifier",
    "GPRegressor",
    "LeftOut",
    "Model",
    "Objective",
    "Option",
    "Report",
    "TrainingError",
    "compare",
    "fit",
    "kernels",
    "load",
    "options",
]
