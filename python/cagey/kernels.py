"""Kernels as objects: sums and products of the command's kernels, which are text underneath.

Examples
--------
>>> from cagey import kernels as k
>>> k.linear() + 2.0 * k.periodic(period=1.0, fix="period") * k.rbf(ard=True)
linear + 2.0 * periodic(period=1.0, fix=period) * rbf(ard)
>>> k.rbf(dims=["age"]) * (k.linear() + k.constant())
rbf(dims=["age"]) * (linear + constant)

A kernel can carry what training knows about its parameters: ``k.rbf().bounds(lengthscale=(0.1, 10))``,
``.prior(lengthscale="lognormal(0, 1)")``, ``.start(lengthscale=2.0)``, ``.fixed("variance")``; names are those that
``inspect`` shows, such as ``rbf.lengthscale`` where several kernels have one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Kernel:
    """A covariance function: its text, and what is known about its parameters."""

    def __init__(self, text: str, options: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.text = str(text)
        self.options = {name: dict(values) for name, values in (options or {}).items()}

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and (self.text, self.options) == (other.text, other.options)

    def __hash__(self) -> int:
        return hash(self.text)

    def _joined(self, text: str, other: Kernel | None = None) -> Kernel:
        options = {name: dict(values) for name, values in self.options.items()}
        for name, values in (other.options if other else {}).items():
            options.setdefault(name, {}).update(values)
        return Kernel(text, options)

    def __add__(self, other: Kernel | str) -> Kernel:
        other = _kernel(other)
        return self._joined(f"{self} + {other}", other)

    def __radd__(self, other: str) -> Kernel:
        return _kernel(other) + self

    def __mul__(self, other: Kernel | str | float) -> Kernel:
        if isinstance(other, (int, float)):
            return other * self
        other = _kernel(other)
        return self._joined(f"{_factor(self)} * {_factor(other)}", other)

    def __rmul__(self, other: str | float) -> Kernel:
        if isinstance(other, (int, float)):
            return self._joined(f"{float(other)!r} * {_factor(self)}")
        return _kernel(other) * self

    def _known(self, kind: str, values: Mapping[str, Any]) -> Kernel:
        return self._joined(self.text, Kernel("", {kind: values}))

    def bounds(self, **ranges: tuple[float, float]) -> Kernel:
        """Bounds of parameters: ``bounds(lengthscale=(0.1, 10))``."""
        return self._known("bounds", ranges)

    def prior(self, **priors: str) -> Kernel:
        """Priors of parameters: ``prior(lengthscale="gamma(2, 1)")``."""
        return self._known("prior", priors)

    def start(self, **values: float | Sequence[float]) -> Kernel:
        """Initial values of parameters in the units of the data."""
        return self._known("init", values)

    def fixed(self, *names: str) -> Kernel:
        """Parameters that keep their initial value."""
        return self._known("fix", {name: True for name in names})


def _kernel(value: Kernel | str) -> Kernel:
    return value if isinstance(value, Kernel) else Kernel(value)


def _factor(kernel: Kernel) -> str:
    """A text that may stand in a product."""
    depth = 0
    for sign in kernel.text:
        depth += (sign in "([") - (sign in ")]")
        if sign == "+" and depth == 0:
            return f"({kernel.text})"
    return kernel.text


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(f'"{part}"' if isinstance(part, str) else str(part) for part in value) + "]"
    return str(value)


def call(name: str, *arguments: Any, ard: bool = False, **named: Any) -> Kernel:
    """The kernel with that name in the command's grammar: ``call("rq", alpha=2.0)``."""
    parts = [_value(part) for part in arguments] + (["ard"] if ard else [])
    parts += [f"{key}={_value(part)}" for key, part in named.items() if part is not None]
    return Kernel(f"{name}({', '.join(parts)})" if parts else name)


def _named(name: str) -> Callable[..., Kernel]:
    def made(*arguments: Any, ard: bool = False, **named: Any) -> Kernel:
        return call(name, *arguments, ard=ard, **named)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"The kernel ``{name}``; arguments as in its text, such as ``ard=True`` or ``dims=[0]``."
    return made


rbf = _named("rbf")
matern12 = _named("matern12")
matern32 = _named("matern32")
matern52 = _named("matern52")
rq = _named("rq")
periodic = _named("periodic")
periodic_norm = _named("periodic_norm")
cosine_norm = _named("cosine_norm")
cosine_sum = _named("cosine_sum")
spectral_mixture = _named("spectral_mixture")
linear = _named("linear")
polynomial = _named("polynomial")
constant = _named("constant")
white = _named("white")
