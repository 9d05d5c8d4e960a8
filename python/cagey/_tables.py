"""Tables of pandas, polars and Arrow as columns for the native module; options as the texts that the command reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from joblib import cpu_count

from ._cagey import Frame
from ._messages import warn


def is_frame(table: Any) -> bool:
    """Whether a table has named columns."""
    return hasattr(table, "columns") or hasattr(table, "column_names") or hasattr(table, "__arrow_c_stream__")


def names(table: Any) -> list[str]:
    """The names of its columns, as texts."""
    columns = table.column_names if hasattr(table, "column_names") else table.columns
    return [str(name) for name in columns]


def opened(table: Any) -> Any:
    """A table whose columns can be taken: a lazy one is collected, one that only speaks Arrow is read by pyarrow. What
    is no frame stays as it is."""
    if hasattr(table, "collect") and not hasattr(table, "iloc"):
        return table.collect()
    if not is_frame(table) or hasattr(table, "columns") or hasattr(table, "column_names"):
        return table
    if hasattr(table, "to_frame"):
        raise ValueError("Expected 2D array, got one column (a Series): give X.to_frame(), or a frame of all inputs")
    import pyarrow

    return pyarrow.table(table)


def _picked(table: Any) -> list[tuple[str, Any]]:
    """The columns of a table by their names."""
    own = names(table)
    return [(name, table.iloc[:, at] if hasattr(table, "iloc") else table[name]) for at, name in enumerate(own)]


def without(table: Any, name: str) -> tuple[Any, Any]:
    """A table without one of its columns, and that column as an array."""
    column = np.asarray(dict(_picked(table))[name])
    if hasattr(table, "iloc"):
        return table.iloc[:, [at for at, own in enumerate(names(table)) if own != name]], column
    return table.drop_columns([name]) if hasattr(table, "drop_columns") else table.drop(name), column


def _kind(column: Any) -> str:
    return str(getattr(column, "dtype", getattr(column, "type", ""))).lower()


def _listed(options: Mapping[str, Any], name: str) -> list[str]:
    """The columns that an option lists."""
    parts = parameters(texts({name: options.get(name)})).get(name, [])
    return [column for part in parts for column in part.split(",")]


def categories(table: Any, options: Mapping[str, Any], target: str | None = None) -> list[str]:
    """The option that reads columns of categories as such, even if they look like numbers."""
    drop, features = _listed(options, "drop"), _listed(options, "features")
    kinds = ("category", "categorical", "enum", "dictionary")
    found = [name for name, column in _picked(table) if _kind(column).startswith(kinds) and name not in drop]
    found = [name for name in found if not features or name in [*features, target]]
    # A likelihood that is given says what the target is.
    found = [name for name in found if name != target or not options.get("likelihood")]
    commas = [name for name in found if "," in name]
    if commas:
        raise ValueError(f"the name of the column {commas[0]!r} of categories has a comma; rename it")
    return texts({"categorical": found})


def tell_left_out(given: Iterable[str], inputs: Sequence[str], options: Mapping[str, Any]) -> None:
    """Warn of columns that are no inputs although no option left them out."""
    drop = _listed(options, "drop")
    out = [name for name in given if name not in inputs and name not in drop]
    if out and not options.get("features"):
        listed = ", ".join(repr(name) for name in out)
        reason = "they number or name the rows, are empty, or are texts that nearly every row has of its own"
        warn(f"no inputs: {listed}: {reason}; `features` keeps a column, `drop` leaves it out without this warning")


def order(values: Any) -> list[Any] | None:
    """The categories of values that have an order."""
    kind: Any = getattr(values, "dtype", None)
    has = getattr(kind, "ordered", type(kind).__name__ == "Enum")
    return list(kind.categories) if has and hasattr(kind, "categories") else None


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _text(value: Any) -> str:
    """A cell as it would stand in a file; a missing one is empty."""
    if _is_missing(value):
        return ""
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _cells(column: Any) -> Any:
    """Numbers as an array with NaN for missing ones, durations among them in days; anything else as texts."""
    kind = _kind(column)
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        try:
            return np.ascontiguousarray(column.to_numpy() if hasattr(column, "to_numpy") else column, dtype=np.float64)
        except (TypeError, ValueError):
            return np.array([np.nan if _is_missing(value) else float(value) for value in column], dtype=np.float64)
    values = cells(column)
    if _is_duration(column):
        days = [np.nan if _is_missing(value) else value.total_seconds() / 86_400 for value in values]
        return np.array(days, dtype=np.float64)
    return [_text(value) for value in values]


def cells(column: Any) -> list[Any]:
    """The cells of a column as objects of Python."""
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _is_duration(column: Any) -> bool:
    return _kind(column).startswith(("timedelta", "duration"))


def columns(table: Any, more: Mapping[str, Any] | None = None) -> list[tuple[str, Any]]:
    """The columns of a table, and more columns beside them."""
    found = [(name, _cells(column)) for name, column in _picked(table)]
    found.extend((name, _cells(values if hasattr(values, "dtype") else np.asarray(values))) for name, values in (more or {}).items())
    return found


def frame(table: Any, more: Mapping[str, Any] | None = None) -> Frame:
    """A table for the native module."""
    table = opened(table)
    if not is_frame(table):
        problem = "expected a frame of pandas, polars or Arrow with named columns"
        raise TypeError(f"{problem}, got {type(table).__name__}; GPRegressor().fit(X, y) takes arrays")
    return Frame(columns(table, more))


def is_numeric(table: Any) -> bool:
    """Whether all columns of a frame are numbers without a gap, so that an array holds the same."""
    if any(_is_duration(column) for _, column in _picked(table)):
        return False
    found = columns(table)
    return all(isinstance(cells, np.ndarray) and bool(np.isfinite(cells).all()) for _, cells in found)


def _canonical(label: Any) -> str:
    """A label as the command reads it: 1.0 is 1, and 01 is a text."""
    text = str(label).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    if "_" in text:
        return text
    padded = len(text.lstrip("+-").partition(".")[0]) > 1 and text.lstrip("+-").startswith("0")
    return text if padded or not number.is_integer() or abs(number) >= 1e15 else str(int(number))


def labels(texts: Iterable[str], column: Any) -> list[Any]:
    """The labels of classes as they stand in a column, from the texts that the native module reads them as."""
    known: dict[str, Any] = {}
    for value in cells(column):
        if isinstance(value, (bool, int, float, str)):
            known.setdefault(_canonical(value), value)
    return [known.get(text, text) for text in texts]


def texts(options: Mapping[str, Any] | None) -> list[str]:
    """Options of the command's ``fit`` as it reads them: ``{"init": {"noise": 0.1}}`` is ``--init=noise=0.1``."""
    words: list[str] = []
    for name, value in (options or {}).items():
        option = "--" + name.replace("_", "-")
        if name == "calibrate" and isinstance(value, bool):
            words.append(f"{option}={'yes' if value else 'no'}")
        elif value is True:
            words.append(option)
        elif value is None or value is False:
            continue
        else:
            words.extend(f"{option}={text}" for text in _values(value))
    return words


def parameters(words: Iterable[str]) -> dict[str, Any]:
    """The options that :func:`texts` wrote as these words."""
    found: dict[str, Any] = {}
    for word in words:
        name, given, value = word.removeprefix("--").partition("=")
        if given:
            found.setdefault(name.replace("-", "_"), []).append(value)
        else:
            found[name.replace("-", "_")] = True
    return found


def threads(count: Any) -> int | None:
    """The number of threads that a parameter asks for."""
    if count is None:
        return None
    whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
    if not whole or (count < 1 and count != -1):
        raise ValueError(f"threads is a whole number from 1 on, -1 for all cores, or None; got {count!r}")
    return cpu_count() if count == -1 else int(count)


def _values(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        return [name if part is True else f"{name}={_value(part)}" for name, part in value.items()]
    if isinstance(value, (list, tuple, set)):
        return [_value(part) for part in value]
    return [_value(value)]


def _value(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return f"{_value(value[0])}..{_value(value[1])}"
    if isinstance(value, (list, np.ndarray)):
        return ",".join(_value(part) for part in value)
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return str(value)
