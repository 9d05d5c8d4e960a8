"""Gaussian processes with scikit-learn's interface."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
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


# Numbers that rows can have beside their inputs, and the option of the command that names their column.
_BESIDE = {"noise_sd": "noise_column", "exposure": "exposure", "trials": "trials"}
# Options that choose and encode the columns of a frame.
_COLUMNS = {"drop", "features", "categorical", "one_hot", "text", "dates"}
# Options that estimators see to themselves.
_OWN = ("classes", *_BESIDE.values())
# Options that set rows apart to be scored.
_HELD_OUT = {"holdout", "holdout_last", "split_mask", "split_column", "split_seed", "distinct"}
# Parameters of the estimators whose names are not those of the command's options.
_RENAMED = {"restarts": "n_restarts", "seed": "random_state"}


def _beside(values: Any, rows: int, name: str) -> Array:
    """A number for each row."""
    numbers: Array = np.ascontiguousarray(column_or_1d(values), dtype=np.float64)
    if len(numbers) != rows:
        raise ValueError(f"{name}: one number for each of the {rows} rows, got {len(numbers)}")
    return numbers


def _given(*values: Any) -> dict[str, Any]:
    """Known noise, exposures and trials by the names of their parameters."""
    return dict(zip(_BESIDE, values, strict=True))


def _usual(classes: int) -> str:
    """The likelihood of as many classes."""
    return "bernoulli(logit)" if classes == 2 else f"softmax({classes})"


def _free(name: str, taken: list[str]) -> str:
    """The name, or one like it that no column has."""
    while name in taken:
        name += "_"
    return name


def _taken(X: Any, name: str, column: str) -> tuple[Any, Any]:
    """A frame without a column that the parameter names, and that column."""
    if not _tables.is_frame(X) or column not in _tables.names(X):
        raise ValueError(f"{name}: X has no column {column!r}; give the name of a column of a frame, or an array")
    return _tables.without(X, column)


class _GP(BaseEstimator):  # type: ignore[misc]
    """What regression and classification share."""

    def __init__(
        self,
        kernel: Any = None,
        *,
        model: str | None = None,
        likelihood: str | None = None,
        mean: str | None = None,
        noise: float | tuple[float, float] | None = None,
        calibrate: str | bool | None = None,
        starts: str | None = None,
        max_time: float | str | None = None,
        n_restarts: int | None = None,
        threads: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        options: Any = None,
    ) -> None:
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

    def _words(self, likelihood: str | None) -> list[str]:
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
        }
        if self.random_state is not None:
            seed = self.random_state
            own["seed"] = seed if isinstance(seed, (int, np.integer)) else check_random_state(seed).randint(2**31)
        words = _tables.texts({name: _text(value) for name, value in own.items() if value is not None})
        if isinstance(self.noise, tuple):
            words += _tables.texts({"bounds": {"noise": self.noise}})
        elif self.noise is not None:
            words += _tables.texts({"init": {"noise": self.noise}, "fix": "noise"})
        options = {name: value for name, value in self._options().items() if name not in _OWN}
        words += _tables.texts(getattr(self.kernel, "options", None))
        return words + _tables.texts(options)

    def _options(self) -> dict[str, Any]:
        options = dict(self.options or {})
        unknown = sorted(set(options) - {row[0] for row in _cagey.options()}) if options else []
        if unknown:
            raise ValueError(f"options: there is no option {unknown[0]!r}; cagey.options() lists them")
        if "target" in options:
            raise ValueError("options['target'] is for cagey.fit; the target of an estimator is y")
        return options

    def _is_read(self, X: Any) -> bool:
        """Whether X is a frame whose columns are read as the command reads them, and not as the numbers they are."""
        chosen = sorted(_COLUMNS & set(self._options()))
        if not _tables.is_frame(X):
            if chosen:
                raise ValueError(f"options[{chosen[0]!r}] is about columns of a frame, and X is an array; give a frame")
            return False
        return bool(chosen) or not _tables.is_numeric(X)

    def _fit(self, X: Any, y: Any, likelihood: str | None, labels: list[Any] | None, rows: dict[str, Any]) -> Self:
        """Train on numbers or on a frame; `y` holds numbers, or the codes of `labels`."""
        words, options = self._words(likelihood), self._options()
        for name, option in _BESIDE.items():
            if rows.get(name) is None:
                given = _tables.parameters(_tables.texts({option: options.get(option)}))
                rows = {**rows, name: given.get(option, [None])[-1]}
        named, beside = [], {}
        for name, values in rows.items():
            if values is None:
                continue
            if isinstance(values, str):
                column = values
                X, values = _taken(X, name, values)
            else:
                column = _free(name, _tables.names(X) if _tables.is_frame(X) else [])
            named.append(f"--{_BESIDE[name].replace('_', '-')}={column}")
            beside[column] = _beside(values, len(X), name)
        self._frames = self._is_read(X)
        texts = None if labels is None else [str(label) for label in labels]
        names = None
        if self._frames:
            validate_data(self, X, skip_check_array=True)
            target = _free("y", [*_tables.names(X), *beside])
            codes = y if labels is None else np.array([str(int(code)) for code in y], dtype=object)
            read = [f"--target={target}", *_tables.categories(X, options)]
            fit: tuple[Any, ...] = (words + named + read, _tables.frame(X, {**beside, target: codes}))
        else:
            X = validate_data(self, X, dtype=np.float64, ensure_min_samples=1)
            known = getattr(self, "feature_names_in_", None)
            names = [f"x{at}" for at in range(X.shape[1])] if known is None else [str(name) for name in known]
            X = np.column_stack([X, *beside.values()]) if beside else X
            fit = (words + named, np.ascontiguousarray(X), y)
            names += list(beside)
        bar = Bar() if self.verbose else None
        held_out = bool(_HELD_OUT & set(options))
        model, messages, report, interrupt = _cagey.fit(
            *fit, names=names, classes=texts, threads=_tables.threads(self.threads), progress=bar, report=held_out
        )
        if bar:
            bar.close()
        columns = _tables.names(X) if self._frames else None
        words += _tables.texts({name: options.get(name) for name in _OWN})
        model.note = json.dumps({"words": words, "labels": labels, "columns": columns, "frames": self._frames})
        self._keep(model)
        self.__dict__.pop("report_", None)
        if report is not None:
            self.report_ = Report(report[0], json.loads(report[1]))
        tell(messages)
        if self._frames:
            _tables.tell_left_out(_tables.names(X), self.summary_["inputs"], options)
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "model_" in state:
            # What is known about the model may be more than the version that wrote it knew.
            self._keep(self.model_)

    def _inputs(self) -> list[str]:
        """The names of the input columns, without that of the numbers beside them."""
        return [name for name in self.summary_["inputs"] if name != self.summary_["auxiliary"]]

    def _rows(self, X: Any, rows: dict[str, Any] | None = None, absent: str | None = None) -> Any:
        """Rows as the model takes them. `rows` has the numbers beside their inputs by the name of their parameter; if
        the model has them and they are missing, `absent` says what to do: `"warn"`, `"neutral"` values with a warning,
        or `"refuse"`."""
        check_is_fitted(self, "model_")
        X = _tables.opened(X)
        own, kind = self.summary_["auxiliary"], self.summary_["auxiliary_kind"]
        rows = {name: values for name, values in (rows or {}).items() if values is not None}
        for name in rows:
            if own is None or name != kind:
                has = f"the model has {kind}" if own else f"the model was fitted without {name}"
                raise ValueError(f"{name}: {has}; leave {name} out, or fit with it")
        values = rows.get(kind)
        if isinstance(values, str):
            X, values = _taken(X, kind, values)
        if own is not None and _tables.is_frame(X) and own in _tables.names(X):
            X, column = _tables.without(X, own)
            values = column if values is None else values
        if own is not None and values is None and absent is not None:
            if absent == "refuse":
                raise ValueError(f"the model was fitted with {kind}: give {kind}= for these rows, too")
            warn(f"no {kind}, so {self._neutral(kind)}; give {kind}= for these rows")
            values = np.full(len(X), 0.0 if kind == "noise_sd" else 1.0) if absent == "neutral" else None
        beside = {} if values is None or absent is None else {own: _beside(values, len(X), kind)}
        if self._frames:
            if not _tables.is_frame(X):
                raise ValueError(f"the model was fitted to a table with named columns; X is a {type(X).__name__}")
            # Columns that were left out in training may be left out again.
            if _tables.names(X) != self._inputs():
                validate_data(self, X, reset=False, skip_check_array=True)
            return _tables.frame(X, beside)
        if not hasattr(self, "feature_names_in_") and _tables.is_frame(X) and _tables.names(X) == self._inputs():
            # The columns of arrays have names too: those of this frame.
            X = np.asarray(X)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        for column, numbers in beside.items():
            X = np.insert(X, self.summary_["inputs"].index(column), numbers, axis=1)
        return np.ascontiguousarray(X)

    def _neutral(self, kind: str) -> str:
        """What predictions are for without the numbers of their rows, in the words of the command."""
        if kind == "noise_sd":
            sd = (self.summary_["noise"] or 0.0) ** 0.5
            return f"error bars hold the learned noise alone, whose sd is {sd:.4g}"
        return "predictions are for an exposure of 1" if kind == "exposure" else "predictions are for one trial"

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
            if kind != "posterior":
                raise ValueError(f"axes show the posterior alone; leave ax out for plot({kind!r})")
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
        rows = grid[:, None] if not self._frames else _cagey.Frame([(self._inputs()[0], grid)])
        low, middle, high = _numbers(self.model_.quantiles(rows, [0.025, 0.5, 0.975]), -1, 3).T
        ax.fill_between(grid, low, high, alpha=0.25, linewidth=0, label="95 % intervals")
        ax.plot(grid, middle, label="median")
        ax.plot(x, y, ".", color="black", markersize=3, label="training rows")
        ax.set(xlabel=self._inputs()[0], ylabel=self.summary_["target"])
        return ax

    # --- Files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which the command ``cagey`` and :meth:`load` read."""
        check_is_fitted(self, "model_")
        self.model_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, threads: int | None = None) -> Any:
        """Read a model that :meth:`save` or the command ``cagey fit`` wrote."""
        return cls._of(_cagey.Model.load(path, _tables.threads(threads)), threads)

    @classmethod
    def _of(cls, model: _cagey.Model, threads: int | None) -> Any:
        """An estimator around a fitted model."""
        own = cls(threads=threads)
        own._keep(model)
        note = json.loads(model.note or "{}")
        own._loaded(own.summary_, note.get("labels"))
        own._set_words(note.get("words"))
        inputs = own._inputs()
        names = note.get("columns") or inputs
        own.n_features_in_ = len(names)
        own._frames = note.get("frames", not own.summary_["numeric"] or names != inputs)
        if names != [f"x{at}" for at in range(len(names))]:
            own.feature_names_in_ = np.array(names, dtype=object)
        return own

    def _set_words(self, words: list[str] | None) -> None:
        """Set the parameters from the options of the fit, so that a clone fits alike; of a file of the command, the kernel, the
        model and its parameters."""
        summary = self.summary_
        if words is None:
            settings, average = summary["settings"], summary["members"] > 0
            # An average of models of many rows, or of a series, is the default without a kernel.
            of_kernels = "average" if summary["model"] in ("exact", "laplace") else None
            own = {"kernel": of_kernels if average else settings["kernel"]}
            if not average:
                own["model"], own["mean"] = summary["model"], settings["mean"]
            words = _tables.texts(own)
            words += [f"--init={name}={','.join(map(repr, values))}" for name, values in settings["init"]]
            words += [f"--fix={name}" for name in settings["fix"]]
            words += [f"--bounds={name}={low!r}..{high!r}" for name, low, high in settings["bounds"]]
            for name, prior in settings["priors"]:
                [(kind, values)] = prior.get("sd", prior).items()
                numbers = ", ".join(map(repr, values if isinstance(values, list) else [values]))
                words.append(f"--prior={name}={kind.lower()}({numbers}){' sd' if 'sd' in prior else ''}")
        options = _tables.parameters(words)
        for name in ("target", *_HELD_OUT):
            options.pop(name, None)
        parameters: dict[str, Any] = {"likelihood": summary["likelihood"]}
        known = set(self.get_params()) - {"options", "noise", "threads", "verbose"}
        for option in list(options):
            name = _RENAMED.get(option, option)
            if name in known:
                value = options.pop(option)
                parameters[name] = value[-1] if isinstance(value, list) else value
        if summary["classes"] and parameters["likelihood"] == _usual(len(summary["classes"])):
            parameters["likelihood"] = None
        for name in _RENAMED.values():
            if name in parameters:
                parameters[name] = int(parameters[name])
        self.set_params(**parameters, options=options or None)

    def _loaded(self, summary: dict[str, Any], labels: list[Any] | None) -> None:
        """Check what a file holds, and set what it tells beside the model."""


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
        The training: rows, steps, seconds, how it ended, noise variance: of the target, or of what
        ``summary_["target_transform"]`` names if that is ``"log"`` or ``"log1p"`` (the logarithm of 1 + y).
    report_ : Report
        Scores of held-out rows, if ``options`` sets some apart.
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

    # Where metadata are routed, these go to every method that is given them.
    __metadata_request__score = dict.fromkeys(_BESIDE, True)
    __metadata_request__predict = dict.fromkeys(_BESIDE, True)

    def fit(self, X: Any, y: Any, *, noise_sd: Any = None, exposure: Any = None, trials: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, d), or a frame of pandas, polars or Arrow
            Inputs. Columns of a frame that hold no numbers become inputs as in the command: categories 0/1, dates
            decimal years; durations become days.
        y : array of shape (n,)
            Targets.
        noise_sd, exposure, trials : array of shape (n,) or str, optional
            A number for each row: known standard deviations of targets, exposures of counts, numbers of trials; or the
            name of the column of `X` that holds them, which is then no input. Predictions take them too.
        """
        X = _tables.opened(X)
        if "classes" in self._options():
            raise ValueError("options['classes'] is for GPClassifier")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if self._is_read(X):
            y = column_or_1d(y, dtype=np.float64, warn=True)
        else:
            _, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=False)
        y = np.ascontiguousarray(column_or_1d(y, warn=True), dtype=np.float64)
        likelihood = {None: "gaussian", "auto": None}.get(self.likelihood, self.likelihood)
        return self._fit(X, y, likelihood, None, _given(noise_sd, exposure, trials))

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noise_sd: Any = None,
        exposure: Any = None,
        trials: Any = None,
    ) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array of shape (n, d) or frame
            Inputs.
        return_std : bool
            Also return the standard deviation of each target, noise included.
        return_cov : bool
            Also return the covariance [n, n] of new targets, noise included, without calibration.
        noise_sd, exposure, trials : array of shape (n,) or str, optional
            As of :meth:`fit`, for models that were fitted with them. Without them, a warning says that standard
            deviations hold the learned noise alone, and that means are those of one unit of exposure, or of one trial.

        Returns
        -------
        mean : array of shape (n,)
        std or cov : array, if asked for
        """
        if return_std and return_cov:
            raise RuntimeError("return_std and return_cov are not for the same call")
        given = _given(noise_sd, exposure, trials)
        check_is_fitted(self, "model_")
        plain = self.summary_["auxiliary_kind"] == "noise_sd" and not (return_std or return_cov)
        rows = self._rows(X, given, None if plain else "warn")
        if return_cov:
            mean, covariance = (_numbers(part) for part in self.model_.covariance(rows))
            return mean, covariance.reshape(len(mean), len(mean))
        if return_std:
            mean, sd = (_numbers(part) for part in self.model_.predict(rows))
            return mean, sd
        return _numbers(self.model_.mean(rows))

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        noise_sd: Any = None,
        exposure: Any = None,
        trials: Any = None,
    ) -> float:
        """R² of the predicted means; more scores are those of :meth:`evaluate`."""
        mean = self.predict(X, noise_sd=noise_sd, exposure=exposure, trials=trials)
        return float(r2_score(y, mean, sample_weight=sample_weight))

    def predict_quantiles(
        self, X: Any, q: Any = (0.05, 0.5, 0.95), *, noise_sd: Any = None, exposure: Any = None, trials: Any = None
    ) -> Array:
        """Quantiles of new targets: an array of shape (n, len(q))."""
        q = [float(p) for p in np.atleast_1d(q)]
        rows = self._rows(X, _given(noise_sd, exposure, trials), "warn")
        return _numbers(self.model_.quantiles(rows, q), -1, len(q))

    def predict_interval(
        self, X: Any, level: float = 0.95, *, noise_sd: Any = None, exposure: Any = None, trials: Any = None
    ) -> Array:
        """Intervals that hold new targets with probability `level`: lower and upper ends, an array of shape (n, 2)."""
        q = [0.5 * (1 - level), 0.5 * (1 + level)]
        return self.predict_quantiles(X, q, noise_sd=noise_sd, exposure=exposure, trials=trials)

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Mean and standard deviation of the function without noise: two arrays of shape (n,)."""
        rows = self._rows(X)
        mean, sd = self.model_.latent(rows)
        return _numbers(mean), _numbers(sd)

    def gradients(self, X: Any) -> tuple[Array, Array, Array, Array]:
        """Mean and variance of the latent function, and their gradients in X: shapes (n,), (n,), (n, d), (n, d)."""
        rows = self._rows(X)
        mean, variance, of_mean, of_variance = (_numbers(part) for part in self.model_.gradients(rows))
        return mean, variance, of_mean.reshape(len(mean), -1), of_variance.reshape(len(mean), -1)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Joint samples of the latent function at the rows of `X`: an array of shape (n, n_samples)."""
        known = isinstance(random_state, (int, np.integer))
        seed = int(random_state if known else check_random_state(random_state).randint(2**31))
        rows = self._rows(X)
        return _numbers(self.model_.sample(rows, n_samples, seed), n_samples, -1).T

    def components(self, X: Any) -> dict[str, tuple[Array, Array]]:
        """The parts of the function that the summands of the kernel explain: a dict of mean and sd by their names.

        Of an average of kernels, they are those of its heaviest member, and a warning says so.
        """
        rows = self._rows(X)
        if self.summary_["members"]:
            warn(f"these are the components of the heaviest of {self.summary_['members']} members, {self.kernel_}")
        parts = self.model_.components(rows)
        return {f"{name}" if [n for n, *_ in parts].count(name) == 1 else f"{name} {at}": (_numbers(mean), _numbers(sd))
                for at, (name, mean, sd) in enumerate(parts, 1)}

    def update(self, X: Any, y: Any, *, noise_sd: Any = None, exposure: Any = None, trials: Any = None) -> Self:
        """Add rows without another training: parameters and scales stay. For svgp and closed forms."""
        rows = self._rows(X, _given(noise_sd, exposure, trials), "refuse")
        self._keep(self.model_.update(rows, np.ascontiguousarray(column_or_1d(y), dtype=np.float64)))
        return self

    def evaluate(
        self, X: Any, y: Any, *, noise_sd: Any = None, exposure: Any = None, trials: Any = None
    ) -> Report:
        """Scores of rows with known targets, as ``cagey evaluate`` gives them: text when printed, and a dict."""
        rows = self._rows(X, _given(noise_sd, exposure, trials), "neutral")
        text, value = self.model_.evaluate(rows, np.ascontiguousarray(column_or_1d(y), dtype=np.float64))
        return Report(text, json.loads(value))

    def _loaded(self, summary: dict[str, Any], labels: list[Any] | None) -> None:
        if summary["classes"] is not None:
            raise ValueError("the file holds a model of classes; load it with GPClassifier.load")


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

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to rows `X` (an array, or a frame) and their labels `y`.

        Labels are texts, numbers or booleans. ``classes_`` has them in sorted order, or in that of
        ``options={"classes": […]}``, or, for the ordinal likelihood, in that of an ordered Categorical.
        """
        X = _tables.opened(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        order = _tables.order(y) if str(self.likelihood).startswith("ordinal") else None
        if self._is_read(X):
            y = column_or_1d(y, warn=True)
        else:
            _, y = validate_data(self, X, y, dtype=np.float64)
            y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = _coded(y, order, self._options().get("classes"))
        if len(self.classes_) < 2:
            raise ValueError("the target has 1 class; a classifier needs at least two")
        labels, kind = self.classes_.tolist(), self.classes_.dtype
        if kind.kind not in "biufUO" or not all(isinstance(label, (bool, int, float, str)) for label in labels):
            raise ValueError(f"labels are texts, numbers or booleans; y holds {kind}: give texts")
        codes = np.ascontiguousarray(codes, dtype=np.float64)
        return self._fit(X, codes, self.likelihood or _usual(len(labels)), labels, {})

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes in the order of ``classes_``: an array of shape (n, k)."""
        rows = self._rows(X)
        return _numbers(self.model_.probabilities(rows), -1, len(self.classes_))

    def predict(self, X: Any) -> Any:
        """The most probable class of each row."""
        most = np.argmax(self.predict_proba(X), axis=1)
        return self.classes_[most]

    def _loaded(self, summary: dict[str, Any], labels: list[Any] | None) -> None:
        if summary["classes"] is None:
            raise ValueError("the file holds a model of numbers; load it with GPRegressor.load")
        if labels is None:
            # A file of the command holds texts alone. Those that whole numbers have are read as such.
            labels = summary["classes"]
            if all(label.removeprefix("-").isdecimal() and str(int(label)) == label for label in labels):
                labels = [int(label) for label in labels]
        self.classes_ = np.array(labels)


def _coded(y: Any, order: list[Any] | None, classes: Any) -> tuple[Any, Any]:
    """The labels in sorted order, or in one that is given, and their codes."""
    found, codes = np.unique(y, return_inverse=True)
    texts = [str(label) for label in found.tolist()]
    if order is not None:
        wanted = [text for text in map(str, order) if text in texts]
    elif classes is not None:
        given = [classes] if isinstance(classes, str) else classes
        wanted = [text for label in given for text in (label.split(",") if isinstance(label, str) else [str(label)])]
    else:
        wanted = texts
    if sorted(wanted) != sorted(texts):
        raise ValueError(f"options['classes'] are {', '.join(wanted)}, and the labels of y are {', '.join(texts)}")
    places = [texts.index(text) for text in wanted]
    return found[places], np.argsort(places)[codes]
