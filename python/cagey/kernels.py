"""Kernels as objects: sums and products of the command's kernels, which are text underneath.

Examples
--------
>>> from cagey import kernels as k
>>> k.linear() + 2.0 * k.periodic(period=1.0, fix="period") * k.rbf(ard=True)
linear + 2.0 * periodic(period=1.0, fix=period) * rbf(ard)
>>> k.rbf(dims=["age"]) * (k.linear() + k.constant())
rbf(dims=["age"]) * (linear + constant)

A kernel can carry what training knows about its parameters: ``k.rbf().bounds(lengthscale=(0.1, 10))``,
``.prior(lengthscale="lognormal(0, 1)")``, ``.start(lengthscale=2.0)``, ``.fixed("variance")``. This holds for the
kernels that the object has then, and not for those that are added to it or multiplied with it later. Of several, one
is named as by ``inspect``: ``.bounds(**{"rbf2.lengthscale": (0.1, 10)})``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._cagey import kernel_parameters


class Kernel:
    """A covariance function: its text, and what is known about its parameters."""

    # Numbers of NumPy leave products to this class.
    __array_ufunc__ = None

    def __init__(self, text: str) -> None:
        self.text = str(text)
        self._leaves = _leaves(self.text)
        # Values by option, place of the kernel in the text, and parameter.
        self._known: dict[tuple[str, int, str], Any] = {}

    @property
    def options(self) -> dict[str, dict[str, Any]]:
        """What is known about parameters, as the options of a fit: by option, then by the parameter's path."""
        paths, options = _paths(self._leaves), dict[str, dict[str, Any]]()
        for (option, at, parameter), value in self._known.items():
            options.setdefault(option, {})[f"{paths[at]}.{parameter}"] = value
        return options

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and (self.text, self.options) == (other.text, other.options)

    def __hash__(self) -> int:
        return hash(self.text)

    def _holding(self, *parts: tuple[Kernel, int]) -> Kernel:
        """The same with what is known about kernels that its text holds, each from a place on."""
        for part, first in parts:
            known = part._known.items()
            self._known.update({(option, first + at, parameter): value for (option, at, parameter), value in known})
        return self

    def _joined(self, text: str, other: Kernel) -> Kernel:
        return Kernel(text)._holding((self, 0), (other, len(self._leaves)))

    def __add__(self, other: Kernel | str) -> Kernel:
        other = _kernel(other)
        return self._joined(f"{self} + {other}", other)

    def __radd__(self, other: str) -> Kernel:
        return _kernel(other) + self

    def __mul__(self, other: Kernel | str | float) -> Kernel:
        if not isinstance(other, (str, Kernel)):
            return other * self
        other = _kernel(other)
        return self._joined(f"{_factor(self)} * {_factor(other)}", other)

    def __rmul__(self, other: str | float) -> Kernel:
        if not isinstance(other, str):
            return Kernel(f"{float(other)!r} * {_factor(self)}")._holding((self, 0))
        return _kernel(other) * self

    def _with(self, option: str, values: Mapping[str, Any]) -> Kernel:
        made = Kernel(self.text)._holding((self, 0))
        for name, value in values.items():
            own, parameter = _parts(name)
            paths = _paths(self._leaves)
            has = [parameter.partition("[")[0] in kernel_parameters(leaf) for leaf in self._leaves]
            places = [at for at, path in enumerate(paths) if has[at] and own in (None, path)]
            if not places:
                known = zip(paths, map(kernel_parameters, self._leaves))
                there = [f"{path}.{each}" for path, parameters in known for each in parameters]
                raise ValueError(f"{self} has no parameter {name!r}; there are {', '.join(there) or 'none'}")
            made._known.update({(option, at, parameter): value for at in places})
        return made

    def bounds(self, **ranges: tuple[float, float]) -> Kernel:
        """Bounds of parameters: ``bounds(lengthscale=(0.1, 10))``."""
        return self._with("bounds", ranges)

    def prior(self, **priors: str) -> Kernel:
        """Priors of parameters: ``prior(lengthscale="gamma(2, 1)")``."""
        return self._with("prior", priors)

    def start(self, **values: float | Sequence[float]) -> Kernel:
        """Initial values of parameters in the units of the data."""
        return self._with("init", values)

    def fixed(self, *names: str) -> Kernel:
        """Parameters that keep their initial value."""
        return self._with("fix", {name: True for name in names})


# Numbers, arguments with a name, and lists hold no kernels.
_WORDS = re.compile(r'"[^"]*"|\d[\w.]*|\w+\s*=\s*[\w.+-]*|\[(?:"[^"]*"|[^]"])*\]|([A-Za-z_]\w*)')


def _leaves(text: str) -> list[str]:
    """The names of kernels and input transforms in a text, in its order."""
    return [name for name in _WORDS.findall(text) if name not in ("", "ard")]


def _paths(leaves: list[str]) -> list[str]:
    """Their paths: names that occur more than once have numbers."""
    numbers = [leaves[: at + 1].count(leaf) for at, leaf in enumerate(leaves)]
    return [leaf if leaves.count(leaf) == 1 else f"{leaf}{number}" for leaf, number in zip(leaves, numbers)]


def _parts(name: str) -> tuple[str | None, str]:
    """The path of a kernel, if there is one, and a parameter, which may have a column: `rbf.lengthscale[age]`."""
    path, column = name.removeprefix("kernel.").partition("[")[::2]
    own, _, parameter = path.rpartition(".")
    return own or None, f"{parameter}[{column}" if column else parameter


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
    made = Kernel(f"{name}({', '.join(parts)})" if parts else name)
    return made._holding(*((part, 1) for part in arguments if isinstance(part, Kernel)))


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
wiener = _named("wiener")
same = _named("same")
projection = _named("projection")
