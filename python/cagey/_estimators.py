"""Gaussian processes with scikit-learn's interface."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from . import _cagey, _tables
from ._messages import Bar, CageyWarning, ConvergenceWarning, tell, warn
from ._report import Figure, Report

Array = NDArray[np.float64]


class LeftOut(NamedTuple):
    """Training targets, and what the other rows predict for each of them: mean and standard deviation."""

    y: Array
    mean: Array
    sd: Array


def _numbers(data: bytearray, *shape: int) -> Array:
    return np.frombuffer(data, dtype=np.float64).reshape(shape or -1)


def _text(value: Any) -> str:
    """A parameter that is a name or a number, as the command reads it."""
    return ("yes" if value else "no") if isinstance(value, (bool, np.bool_)) else str(value)


class _GP(BaseEstimator):
    """What regression and classification share."""

    _parameter_names = {"n_restarts": "restarts", "random_state": "seed"}

    def __init__(
        self,
        kernel=None,
        *,
        model=None,
        likelihood=None,
        mean=None,
        noise=None,
        calibrate=None,
        starts=None,
        max_time=None,
        n_restarts=None,
        threads=None,
        device=None,
        dtype=None,
        random_state=None,
        verbose=0,
        options=None,
    ):
        self.kernel = kernel
        self.model = model
        self.likelihood = likelihood
        self.mean = mean
        self.noise = noise
        self.calibrate = calibrate
        self.starts = starts
        self.max_time = max_time
        self.n_restarts = n_restarts
        self.threads = threads
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.options = options

    # --- Fitting -------------------------------------------------------------------------------------------------

    def _words(self, likelihood: str | None, columns: dict[str, str]) -> list[str]:
        """The options of the command for these parameters."""
        own: dict[str, Any] = {
            "kernel": None if self.kernel is None else str(self.kernel),
            "model": self.model,
            "likelihood": likelihood,
            "mean": self.mean,
            "calibrate": self.calibrate,
            "starts": self.starts,
            "max_time": f"{self.max_time}s" if isinstance(self.max_time, (int, float)) else self.max_time,
            "restarts": self.n_restarts,
            "device": self.device,
            "dtype": self.dtype,
            **{"noise_column" if name == "noise_sd" else name: column for name, column in columns.items()},
        }
        if self.random_state is not None:
            seed = self.random_state
            own["seed"] = seed if isinstance(seed, (int, np.integer)) else check_random_state(seed).randint(2**31)
        words = _tables.texts({name: _text(value) for name, value in own.items() if value is not None})
        if isinstance(self.noise, tuple):
            words += _tables.texts({"bounds": {"noise": self.noise}})
        elif self.noise is not None:
            words += _tables.texts({"init": {"noise": self.noise}, "fix": "noise"})
        options = dict(self.options or {})
        words += _tables.texts(getattr(self.kernel, "options", None))
        unknown = sorted(set(options) - {row[0] for row in _cagey.options()}) if options else []
        if unknown:
            raise ValueError(f"options: there is no option {unknown[0]!r}; cagey.options() lists them")
        return words + _tables.texts(options)

    def _fit(self, X: Any, y: Any, likelihood: str | None, labels: list[str] | None, rows: dict[str, Any]) -> Any:
        """Train on numbers or on a frame; `y` holds numbers, or the codes of `labels`."""
        rows = {name: values for name, values in rows.items() if values is not None}
        columns = {name: values if isinstance(values, str) else name for name, values in rows.items()}
        arrays = {name: values for name, values in rows.items() if not isinstance(values, str)}
        words = self._words(likelihood, columns)
        self._frames = _tables.is_frame(X) and not _tables.is_numeric(X)
        names = None
        if self._frames:
            validate_data(self, X, skip_check_array=True)
            target = "y" + "_" * sum(name.rstrip("_") == "y" for name in _tables.names(X))
            codes = y if labels is None else np.array([str(int(code)) for code in y], dtype=object)
            table: Any = _tables.frame(X, {**arrays, target: codes})
            given = ([*words, f"--target={target}"], table)
        else:
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=1)
            known = getattr(self, "feature_names_in_", None)
            names = [f"x{at}" for at in range(X.shape[1])] if known is None else [str(name) for name in known]
            more = [column_or_1d(values, dtype=np.float64) for values in arrays.values()]
            if any(len(values) != len(X) for values in more):
                raise ValueError(f"{', '.join(arrays)}: one number for each of the {len(X)} rows")
            X, names = np.column_stack([X, *more]) if more else X, names + list(arrays)
            given = (words, np.ascontiguousarray(X), y)
        bar = Bar() if self.verbose else None
        model, messages, _, interrupt = _cagey.fit(
            *given, names=names, classes=labels, threads=self.threads, progress=bar
        )
        if bar:
            bar.close()
        self._keep(model)
        tell(messages)
        for text in model.warnings():
            warn(text, ConvergenceWarning if self.summary_["cut_short"] else CageyWarning)
        if interrupt is not None:
            raise interrupt
        return self

    def _keep(self, model: _cagey.Model) -> None:
        self.model_ = model
        self.summary_: dict[str, Any] = json.loads(model.summary())
        self.kernel_: str = self.summary_["kernel"]
        self.n_iter_: int = self.summary_["iterations"]
        self.log_marginal_likelihood_value_: float = -self.summary_["loss"] * self.summary_["rows"]
        self.calibration_: dict[str, Any] | None = self.summary_["calibration"]

    def _rows(self, X: Any) -> Any:
        """Rows as the model takes them."""
        check_is_fitted(self, "model_")
        if self._frames:
            if not _tables.is_frame(X):
                raise ValueError(f"the model was fitted to a table with named columns; X is a {type(X).__name__}")
            validate_data(self, X, reset=False, skip_check_array=True)
            return _tables.frame(X)
        if not hasattr(self, "feature_names_in_") and _tables.is_frame(X) and _tables.names(X) == self.summary_["inputs"]:
            # The columns of arrays have names too: those of this frame.
            X = np.asarray(X)
        return np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float64))

    # --- What is known about the model ---------------------------------------------------------------------------

    @property
    def error_bars_(self) -> Report:
        """Whether intervals hold, in words and numbers, from training rows that are each predicted from all others."""
        check_is_fitted(self, "model_")
        words, value = self.model_.error_bars(False)
        return Report("\n".join(words) or "this model leaves no row out in closed form", json.loads(value))

    @property
    def advice_(self) -> list[dict[str, Any]]:
        """Settings that predict better: tried now, which takes seconds; empty if none does."""
        check_is_fitted(self, "model_")
        value = json.loads(self.model_.error_bars(True)[1]) or {}
        return list(value.get("advice", []))

    @property
    def leave_one_out_(self) -> LeftOut:
        """Closed-form leave-one-out predictions of the training rows."""
        check_is_fitted(self, "model_")
        return LeftOut(*(_numbers(part) for part in self.model_.leave_one_out()))

    def inspect(self) -> Report:
        """Describe the model: parameters, data, training; text when printed, and a dict."""
        check_is_fitted(self, "model_")
        text, value = self.model_.describe()
        return Report(text, json.loads(value))

    def plot(self, kind: str = "posterior", ax: Any = None) -> Any:
        """Draw the model.

        Parameters
        ----------
        kind : {"posterior", "components", "calibration", "learning", "parts"}
            The figures of the command's ``plot``.
        ax : matplotlib axes, optional
            Draws the posterior over one input into them, with 95 % intervals.

        Returns
        -------
        Figure or axes
            An SVG, which a notebook shows and ``save(path)`` writes; with `ax`, the axes.
        """
        check_is_fitted(self, "model_")
        if ax is not None:
            return self._draw(ax)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "figure.svg")
            self.model_.draw(kind, path)
            return Figure(Path(path).read_text())

    def _draw(self, ax: Any) -> Any:
        x, y = (_numbers(part) for part in self.model_.training())
        if len(x) != len(y):
            raise ValueError(f"axes show one input, and the model has {self.n_features_in_}; leave ax out")
        grid = np.linspace(x.min(), x.max(), 400)
        rows = grid[:, None] if not self._frames else _cagey.Frame([(self.summary_["inputs"][0], grid)])
        low, middle, high = _numbers(self.model_.quantiles(rows, [0.025, 0.5, 0.975]), -1, 3).T
        ax.fill_between(grid, low, high, alpha=0.25, linewidth=0, label="95 % intervals")
        ax.plot(grid, middle, label="median")
        ax.plot(x, y, ".", color="black", markersize=3, label="training rows")
        ax.set(xlabel=self.summary_["inputs"][0], ylabel=self.summary_["target"])
        return ax

    # --- Files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which the command ``cagey`` and :meth:`load` read."""
        check_is_fitted(self, "model_")
        self.model_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, threads: int | None = None) -> Any:
        """Read a model that :meth:`save` or the command ``cagey fit`` wrote."""
        return cls._of(_cagey.Model.load(path, threads), threads)

    @classmethod
    def _of(cls, model: _cagey.Model, threads: int | None) -> Any:
        """An estimator around a fitted model."""
        own = cls(threads=threads)
        own._keep(model)
        summary = own.summary_
        own.set_params(kernel=summary["settings_kernel"], model=summary["model"], likelihood=summary["likelihood"])
        names = summary["inputs"]
        own.n_features_in_ = len(names)
        own._frames = not summary["numeric"]
        if names != [f"x{at}" for at in range(len(names))]:
            own.feature_names_in_ = np.array(names, dtype=object)
        own._loaded(summary)
        return own

    def _loaded(self, summary: dict[str, Any]) -> None:
        """Set what a file tells beside the model."""


class GPRegressor(RegressorMixin, _GP):
    """Gaussian process regression with calibrated intervals.

    Inputs and target are standardised inside; all parameters are in the units of the data.

    Parameters
    ----------
    kernel : str or Kernel, optional
        Text such as ``"rbf(ard) + linear"``, an object of :mod:`cagey.kernels`, or ``"average"`` for a weighted average
        over kernels, which is also the default for few rows; for more rows it is ``"matern32(ard)"``.
    model : str, optional
        ``"exact"``, ``"nearest"``, ``"svgp"``, ``"cagp"``, … By default it is chosen by the number of rows.
    likelihood : str, optional
        How targets scatter: ``"gaussian"`` by default; ``"student-t(4)"``, ``"poisson"``, ``"negative-binomial"``,
        ``"binomial"``, ``"gamma"``, ``"beta"``, … ``"auto"`` chooses it from the values of the target.
    mean : {"auto", "zero", "constant", "linear"}, optional
        Prior mean.
    noise : float or (float, float), optional
        Known noise variance, or its bounds; learned by default.
    calibrate : {"auto", "yes", "no"} or bool, optional
        Whether intervals come from residuals of rows left out.
    starts : {"race", "data"}, optional
        Where training begins.
    max_time : float or str, optional
        Seconds, or a text such as ``"2m"``, after which training ends.
    n_restarts : int, optional
        Number of starting points.
    threads : int, optional
        Threads to compute with. By default ``CAGEY_THREADS``, or what joblib gives its workers, or all cores.
    device, dtype : str, optional
        ``"flex"`` (CPU), …; ``"f64"`` or ``"f32"``.
    random_state : int or RandomState, optional
        Seed of all random choices; 0 by default.
    verbose : int
        1 shows the steps of the training.
    options : dict, optional
        Every other option of the command's ``fit`` by its name; :func:`cagey.options` lists them.

    Attributes
    ----------
    kernel_ : str
        The kernel with its learned values.
    log_marginal_likelihood_value_ : float
        Log evidence of the standardised targets, or its bound, plus log priors.
    n_features_in_, feature_names_in_
        Number and names of the inputs.
    summary_ : dict
        The training: rows, steps, seconds, how it ended, noise variance.
    calibration_ : dict or None
        The distribution of residuals that intervals use.

    Examples
    --------
    >>> import numpy as np
    >>> from cagey import GPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> model = GPRegressor().fit(X, y)
    >>> bool(abs(model.predict([[1.25]])[0] - np.sin(1.25)) < 0.01)
    True
    """

    def fit(self, X, y, *, noise_sd=None, exposure=None, trials=None):
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, d), or a frame of pandas, polars or Arrow
            Inputs. Columns of a frame that hold no numbers become inputs as in the command: categories 0/1, dates
            decimal years.
        y : array of shape (n,)
            Targets.
        noise_sd, exposure, trials : array of shape (n,) or str, optional
            A number for each row: known standard deviations of targets, exposures of counts, numbers of trials; or the
            name of the column of `X` that holds them.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if _tables.is_frame(X) and not _tables.is_numeric(X):
            y = column_or_1d(y, dtype=np.float64, warn=True)
        else:
            _, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=False)
        y = np.ascontiguousarray(column_or_1d(y, warn=True), dtype=np.float64)
        likelihood = {None: "gaussian", "auto": None}.get(self.likelihood, self.likelihood)
        return self._fit(X, y, likelihood, None, {"noise_sd": noise_sd, "exposure": exposure, "trials": trials})

    def predict(self, X, return_std=False, return_cov=False):
        """Predict targets.

        Parameters
        ----------
        X : array of shape (n, d) or frame
            Inputs.
        return_std : bool
            Also return the standard deviation of each target, noise included.
        return_cov : bool
            Also return the covariance [n, n] of new targets, noise included, without calibration.

        Returns
        -------
        mean : array of shape (n,)
        std or cov : array, if asked for
        """
        if return_std and return_cov:
            raise RuntimeError("return_std and return_cov are not for the same call")
        rows = self._rows(X)
        if return_cov:
            mean, covariance = self.model_.covariance(rows)
            mean = _numbers(mean)
            return mean, _numbers(covariance, len(mean), len(mean))
        if return_std:
            mean, sd = self.model_.predict(rows)
            return _numbers(mean), _numbers(sd)
        return _numbers(self.model_.mean(rows))

    def predict_quantiles(self, X, q=(0.05, 0.5, 0.95)):
        """Quantiles of new targets: an array of shape (n, len(q))."""
        q = [float(p) for p in np.atleast_1d(q)]
        rows = self._rows(X)
        return _numbers(self.model_.quantiles(rows, q), -1, len(q))

    def predict_interval(self, X, level=0.95):
        """Intervals that hold new targets with probability `level`: lower and upper ends, an array of shape (n, 2)."""
        return self.predict_quantiles(X, [0.5 * (1 - level), 0.5 * (1 + level)])

    def predict_latent(self, X):
        """Mean and standard deviation of the function without noise: two arrays of shape (n,)."""
        rows = self._rows(X)
        mean, sd = self.model_.latent(rows)
        return _numbers(mean), _numbers(sd)

    def gradients(self, X):
        """Mean and variance of the latent function, and their gradients in X: shapes (n,), (n,), (n, d), (n, d)."""
        rows = self._rows(X)
        mean, variance, of_mean, of_variance = (_numbers(part) for part in self.model_.gradients(rows))
        return mean, variance, of_mean.reshape(len(mean), -1), of_variance.reshape(len(mean), -1)

    def sample_y(self, X, n_samples=1, random_state=0):
        """Joint samples of the latent function at the rows of `X`: an array of shape (n, n_samples)."""
        seed = random_state if isinstance(random_state, (int, np.integer)) else check_random_state(random_state).randint(2**31)
        rows = self._rows(X)
        return _numbers(self.model_.sample(rows, n_samples, seed), n_samples, -1).T

    def components(self, X):
        """The parts of the function that the summands of the kernel explain: a dict of mean and sd by their names."""
        rows = self._rows(X)
        parts = self.model_.components(rows)
        return {f"{name}" if [n for n, *_ in parts].count(name) == 1 else f"{name} {at}": (_numbers(mean), _numbers(sd))
                for at, (name, mean, sd) in enumerate(parts, 1)}

    def update(self, X, y):
        """Add rows without another training: parameters and scales stay. For svgp and closed forms."""
        rows = self._rows(X)
        self._keep(self.model_.update(rows, np.ascontiguousarray(column_or_1d(y), dtype=np.float64)))
        return self

    def evaluate(self, X, y):
        """Scores of rows with known targets, as ``cagey evaluate`` gives them: text when printed, and a dict."""
        rows = self._rows(X)
        text, value = self.model_.evaluate(rows, np.ascontiguousarray(column_or_1d(y), dtype=np.float64))
        return Report(text, json.loads(value))


class GPClassifier(ClassifierMixin, _GP):
    """Gaussian process classification.

    Parameters are those of :class:`GPRegressor`; `likelihood` is ``"bernoulli(logit)"`` for two classes and
    ``"softmax"`` for more by default, and may be ``"ordinal"`` for classes in the order of ``classes_``.

    Attributes
    ----------
    classes_ : array
        The labels.
    kernel_, log_marginal_likelihood_value_, n_features_in_, feature_names_in_, summary_
        As of :class:`GPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from cagey import GPClassifier
    >>> X = np.linspace(-3, 3, 40)[:, None]
    >>> y = np.where(X[:, 0] > 0, "above", "below")
    >>> GPClassifier().fit(X, y).predict([[-2.0], [2.0]]).tolist()
    ['below', 'above']
    """

    def fit(self, X, y):
        """Fit the model to rows `X` (an array, or a frame) and their labels `y`."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if _tables.is_frame(X) and not _tables.is_numeric(X):
            y = column_or_1d(y, warn=True)
        else:
            _, y = validate_data(self, X, y, dtype=np.float64)
            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("the target has 1 class; a classifier needs at least two")
        usual = "bernoulli(logit)" if len(self.classes_) == 2 else f"softmax({len(self.classes_)})"
        labels = [str(label) for label in self.classes_.tolist()]
        return self._fit(X, np.ascontiguousarray(codes, dtype=np.float64), self.likelihood or usual, labels, {})

    def predict_proba(self, X):
        """Probabilities of the classes in the order of ``classes_``: an array of shape (n, k)."""
        rows = self._rows(X)
        return _numbers(self.model_.probabilities(rows), -1, len(self.classes_))

    def predict(self, X):
        """The most probable class of each row."""
        most = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most]

    def _loaded(self, summary):
        if summary["classes"] is None:
            raise ValueError("the file holds a model of numbers; load it with GPRegressor.load")
        numbers = all(label.lstrip("-").isdigit() for label in summary["classes"])
        self.classes_ = np.array([int(label) if numbers else label for label in summary["classes"]])
