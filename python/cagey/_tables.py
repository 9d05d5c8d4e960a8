"""Tables of pandas, polars and Arrow as columns for the native module; options as the texts that the command reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._cagey import Frame


def is_frame(table: Any) -> bool:
    """Whether a table has named columns."""
    return hasattr(table, "columns") or hasattr(table, "column_names") or hasattr(table, "__arrow_c_stream__")


def names(table: Any) -> list[str]:
    """The names of its columns, as texts."""
    columns = table.column_names if hasattr(table, "column_names") else table.columns
    return [str(name) for name in columns]


def _opened(table: Any) -> Any:
    """A table whose columns can be taken; one that only speaks Arrow is read by pyarrow."""
    if hasattr(table, "columns") or hasattr(table, "column_names"):
        return table.collect() if hasattr(table, "collect") and not hasattr(table, "iloc") else table
    import pyarrow

    return pyarrow.table(table)


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
    """Numbers as an array with NaN for missing ones; anything else as texts."""
    kind = str(getattr(column, "dtype", getattr(column, "type", ""))).lower()
    if kind.startswith(("int", "uint", "float", "double", "halffloat")):
        try:
            return np.ascontiguousarray(column.to_numpy() if hasattr(column, "to_numpy") else column, dtype=np.float64)
        except (TypeError, ValueError):
            return np.array([np.nan if _is_missing(value) else float(value) for value in column], dtype=np.float64)
    values = column.to_pylist() if hasattr(column, "to_pylist") else column.tolist() if hasattr(column, "tolist") else list(column)
    return [_text(value) for value in values]


def columns(table: Any, more: Mapping[str, Any] | None = None) -> list[tuple[str, Any]]:
    """The columns of a table, and more columns beside them."""
    table = _opened(table)
    own = names(table)
    picked = [table.iloc[:, at] if hasattr(table, "iloc") else table[name] for at, name in enumerate(own)]
    found = [(name, _cells(column)) for name, column in zip(own, picked)]
    found.extend((name, _cells(values if hasattr(values, "dtype") else np.asarray(values))) for name, values in (more or {}).items())
    return found


def frame(table: Any, more: Mapping[str, Any] | None = None) -> Frame:
    """A table for the native module."""
    return Frame(columns(table, more))


def is_numeric(table: Any) -> bool:
    """Whether all columns of a frame are numbers without a gap, so that an array holds the same."""
    found = columns(table)
    return all(isinstance(cells, np.ndarray) and bool(np.isfinite(cells).all()) for _, cells in found)


def texts(options: Mapping[str, Any] | None) -> list[str]:
    """Options of the command's ``fit`` as it reads them: ``{"init": {"noise": 0.1}}`` is ``--init=noise=0.1``."""
    words: list[str] = []
    for name, value in (options or {}).items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is None or value is False:
            continue
        else:
            words.extend(f"{option}={text}" for text in _values(value))
    return words


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
