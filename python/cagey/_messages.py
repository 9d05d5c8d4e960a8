"""What the library says: warnings through ``warnings``, notes through ``logging``; nothing is printed."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterable

from sklearn.exceptions import ConvergenceWarning as _ConvergenceWarning

logger = logging.getLogger("cagey")


class CageyWarning(UserWarning):
    """What is doubtful about data, a model or a prediction."""


class ConvergenceWarning(CageyWarning, _ConvergenceWarning):
    """A training that ended before it came to an end by itself."""


def _level() -> int:
    """How many frames lie between this call and the user's."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("cagey", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level


def warn(text: str, category: type[Warning] = CageyWarning) -> None:
    """Warn with the line of the user's own code."""
    warnings.warn(text, category, stacklevel=_level())


def tell(messages: Iterable[tuple[bool, str]]) -> None:
    """Pass on messages of the native module: pairs of whether it is a warning, and its text."""
    for is_warning, text in messages:
        if is_warning:
            warn(text)
        else:
            logger.info(text)


class Bar:
    """A line on standard error that shows the steps of a training."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, step: int, limit: int, loss: float) -> None:
        text = f"cagey: step {step} of at most {limit}, objective {loss:.6g}"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        """Leave the line."""
        if self._width:
            sys.stderr.write("\n")
