"""Scripts as plain Python: the names that they use while they run on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

from whet.compiler.late_numpy import np
from whet.compiler.target import Target
from whet.compiler.te.hybrid.calls import CASTS, NUMPY


class bind:
    """The steps of a thread axis, one after the other."""

    def __init__(self, tag: str, ext: int) -> None:
        self.ext = ext

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.ext))


def allocate(shape: Any, dtype: str = "float32", scope: str = "global") -> Any:
    """An array of zeros.

    Args:
        shape: extents.
        dtype: element type.
        scope: where a kernel would keep it; of no meaning here.
    """
    return np.zeros(shape, dtype)


def output_tensor(shape: Any, dtype: str = "float32") -> Any:
    """An output: an array of zeros."""
    return np.zeros(shape, dtype)


def _round(x: Any) -> Any:
    return np.copysign(np.floor(np.abs(x) + 0.5), x).astype(np.result_type(x))


def _erf(x: Any) -> Any:
    import math

    return np.vectorize(math.erf)(x)


def popcount(x: Any) -> int:
    """The number of bits that are set in an integer, in two's complement."""
    bits = np.dtype(getattr(x, "dtype", "int64")).itemsize * 8
    return (int(x) & ((1 << bits) - 1)).bit_count()


def max_num_threads(allow_none: bool = True) -> int:
    """The most threads of a block of the target in force.

    Raises:
        TargetError: where none is.
    """
    target = Target.current(allow_none) or Target.current(False)
    assert target is not None
    return target.max_num_threads


def _extreme(dtype: str, sign: int) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return kind.type(sign * np.inf)
    return np.iinfo(kind).max if sign > 0 else np.iinfo(kind).min


def _cast(x: Any, dtype: str) -> Any:
    return np.dtype(dtype).type(x)


def _numpy(name: str) -> Callable[..., Any]:
    return lambda *x: getattr(np, name)(*x)  # numpy is loaded when it is first needed


def _type(dtype: str) -> Callable[[Any], Any]:
    return lambda x: _cast(x, dtype)


HYBRID_GLOBALS: dict[str, Any] = {
    **dict.fromkeys(("serial", "unroll", "vectorize", "parallel", "const_range"), range),
    "bind": bind,
    "allocate": allocate,
    "output_tensor": output_tensor,
    **{name: _numpy(there) for name, there in NUMPY.items()},
    "exp10": lambda x: np.power(x * 0 + 10.0, x),
    "erf": _erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "popcount": popcount,
    "round": _round,
    "likely": lambda condition: condition,
    "ceil_div": lambda a, b: (a + b - 1) // b,
    "max_num_threads": max_num_threads,
    "inf": lambda dtype: _extreme(dtype, 1),
    "ninf": lambda dtype: _extreme(dtype, -1),
    "cast": _cast,
    **{name: _type(name) for name in CASTS},
}
"""The names of scripts -> what they are while a script runs as Python."""


def as_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the names of scripts; its module's own names stay as they are."""
    if not isinstance(function, FunctionType):
        return function
    names: Mapping[str, Any] = {**function.__globals__, **HYBRID_GLOBALS}
    out = FunctionType(
        function.__code__, dict(names), function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    out.__kwdefaults__ = function.__kwdefaults__
    return out
