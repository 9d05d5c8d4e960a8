"""The command's ``fit`` and ``compare`` for tables in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import _cagey, _tables
from ._estimators import GPClassifier, GPRegressor
from ._messages import Bar, tell, warn
from ._report import Report


class Option(NamedTuple):
    """An option of a fit, as the command's help describes it."""

    name: str
    value: str | None
    heading: str
    help: str
    values: list[str]
    default: str | None


def options() -> list[Option]:
    """Every option that `options=` of the estimators, :func:`fit` and :func:`compare` take.

    Examples
    --------
    >>> import cagey
    >>> [option.name for option in cagey.options() if option.name.startswith("hold")]
    ['holdout', 'holdout_last']
    """
    return [Option(*row) for row in _cagey.options()]


def _words(own: dict[str, Any]) -> list[str]:
    known = {row[0] for row in _cagey.options()} | {"models", "kernels", "folds", "repeats", "group"}
    unknown = sorted(set(own) - known)
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}; cagey.options() lists them")
    return _tables.texts(own)


def fit(table: Any, target: str | None = None, *, threads: int | None = None, verbose: int = 0, **options: Any) -> Any:
    """Fit a model to a table and check its error bars, as ``cagey fit`` does.

    Parameters
    ----------
    table : frame of pandas, polars or Arrow
        Inputs and target. Texts become categories, dates decimal years; columns that only name the rows are left out.
    target : str, optional
        Name of the target column; the last by default.
    threads, verbose
        As of :class:`cagey.GPRegressor`.
    **options
        Options of the command's ``fit``, such as ``holdout=0.2``, ``kernel="rbf(ard)"``, ``fix=["noise"]``.

    Returns
    -------
    GPRegressor or GPClassifier
        The model; its ``report_`` says how good it is: on held-out rows, if there are any, and on rows left out in turn.

    Examples
    --------
    >>> import cagey, numpy as np, pandas as pd
    >>> x = np.linspace(0, 6, 80)
    >>> model = cagey.fit(pd.DataFrame({"x": x, "y": np.sin(x)}), target="y", holdout=0.25)
    >>> model.report_["scores"]["n"]
    20
    """
    words = _words({"target": target, **options})
    table = _tables.opened(table)
    frame, names = _tables.frame(table), _tables.names(table)
    read = _tables.categories(table, options, target or names[-1])
    bar = Bar() if verbose else None
    model, messages, report, interrupt = _cagey.fit(
        words + read, frame, threads=_tables.threads(threads), progress=bar, report=True
    )
    if bar:
        bar.close()
    tell(messages)
    summary = json.loads(model.summary())
    beside = (summary["target"], summary["auxiliary"])
    columns = [name for name in names if name not in beside]
    _tables.tell_left_out(columns, summary["inputs"], options)
    for text in model.warnings():
        warn(text)
    if interrupt is not None:
        raise interrupt
    classes = summary["classes"]
    inputs, column = _tables.without(table, summary["target"])
    labels = None if classes is None else _tables.labels(classes, column)
    frames = not summary["numeric"] or columns != summary["inputs"] or not _tables.is_numeric(inputs)
    model.note = json.dumps({"words": words, "labels": labels, "columns": columns, "frames": frames})
    return _adopted(model, report, threads)


def load(path: str | os.PathLike[str], *, threads: int | None = None) -> Any:
    """Read a model that ``save`` or the command ``cagey fit`` wrote: a :class:`GPRegressor` or :class:`GPClassifier`."""
    return _adopted(_cagey.Model.load(path, _tables.threads(threads)), None, threads)


def _adopted(model: _cagey.Model, report: tuple[str, str] | None, threads: int | None) -> Any:
    classes = json.loads(model.summary())["classes"]
    own = (GPRegressor if classes is None else GPClassifier)._of(model, threads)
    if report is not None:
        own.report_ = Report(report[0], json.loads(report[1]))
    return own


class Comparison(list[dict[str, Any]]):
    """Candidates, the best first, each a dict as ``cagey compare --json`` writes it; a table when printed."""

    def __repr__(self) -> str:
        width = max((len(one["name"]) for one in self), default=0)
        lines = [f"{'':{width}}  {'score':>10}  behind the best"]
        for one in self:
            behind = one["difference"]
            error = max(behind["error_by_rows"] or 0.0, behind["error_by_folds"] or 0.0)
            told = "best" if one["best"] else f"{behind['mean']:.4f} ± {error:.4f}"
            lines.append(f"{one['name']:{width}}  {one['score']:>10.4f}  {told}")
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return f"<pre>{self}</pre>"


def compare(
    table: Any,
    target: str | None = None,
    *,
    kernels: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    threads: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> Comparison:
    """Fit several kernels or models to the same rows and compare their held-out scores, as ``cagey compare`` does.

    Parameters
    ----------
    table, target, threads, verbose
        As of :func:`fit`.
    kernels, models : list of str, optional
        What to compare.
    **options
        Options of the command, such as ``folds=5`` or ``holdout=0.2``.

    Returns
    -------
    Comparison
        The mean log score of held-out rows (less is better), with standard errors of the differences.
    """
    words = _words({"target": target, **options})
    kernels = None if kernels is None else [str(kernel) for kernel in kernels]
    words += _tables.texts({"models": models, "kernels": kernels})
    table = _tables.opened(table)
    frame = _tables.frame(table)
    words += _tables.categories(table, options, target or _tables.names(table)[-1])
    bar = Bar() if verbose else None
    found, messages = _cagey.compare(words, frame, threads=_tables.threads(threads), progress=bar)
    if bar:
        bar.close()
    tell(messages)
    return Comparison(json.loads(found))
