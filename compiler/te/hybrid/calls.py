"""The functions that scripts call, as they are read: loops, arrays, casts, mathematics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te.hybrid.arrays import (
    ALLOCATED,
    OUTPUT,
    Array,
    Loop,
    NewArray,
    Part,
    plain,
)
from whet.compiler.te.lang.axes import integer
from whet.compiler.te.lang.scopes import SCOPES, TAGS, is_scope, is_tag
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops import mathematics, ops
from whet.compiler.tir.ops.bits import infinity
from whet.compiler.tir.stmt import PARALLEL, SERIAL, UNROLLED, VECTORIZED

CONST = "const"
"""The kind of a loop that is written out while the script is read."""

KINDS = {
    "range": SERIAL,
    "serial": SERIAL,
    "unroll": UNROLLED,
    "vectorize": VECTORIZED,
    "parallel": PARALLEL,
    "const_range": CONST,
}
CASTS = [
    f"{kind}{bits}" for kind, sizes in (
        ("float", (16, 32, 64)), ("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)),
    ) for bits in sizes
]  # fmt: skip
NUMPY = {
    **{x: x for x in (
        "ceil", "copysign", "cos", "cosh", "exp", "exp2", "expm1", "floor", "fmod", "hypot",
        "isfinite", "isinf", "isnan", "ldexp", "log", "log10", "log1p", "log2", "logaddexp",
        "nextafter", "power", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )},
    "abs": "abs", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "nearbyint": "rint",
}  # fmt: skip
"""A function of scripts -> numpy's name for it."""
MATHEMATICS = (*NUMPY, "erf", "exp10", "popcount", "round", "rsqrt", "sigmoid")


def _loop(name: str) -> Callable[..., Loop]:
    def make(*given: Any) -> Loop:
        if not 1 <= len(given) <= 3:
            raise ArgumentError(f"{name}(...)", f"it takes an end, or a begin, an end and a step, "
                                f"not {len(given)} arguments")  # fmt: skip
        bounds = [plain(integer(x, f"{name}(...)", "a bound")) for x in given]
        begin, end = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else 1
        if not isinstance(step, int) or step == 0:
            raise ArgumentError(f"{name}(...)", "the step is not a number other than 0")
        numbers = isinstance(begin, int) and isinstance(end, int)
        if numbers:
            extent: Any = len(range(begin, end, step))
        else:
            extent = end - begin
            if step != 1:
                extent = (extent + (step - 1 if step > 0 else step + 1)) // step
        if name == "const_range":
            if not numbers:
                raise ArgumentError(
                    "const_range(...)", "its bounds are not known when the script is read",
                    "range(...) takes any bounds",
                )  # fmt: skip
            return Loop(CONST, begin, extent, step, list(range(begin, end, step)))
        return Loop(KINDS[name], begin, extent, step)

    return make


def _bind(tag: Any, extent: Any) -> Loop:
    if not is_tag(tag):
        raise ArgumentError(
            f"bind({tag!r}, ...)", "there is no such thread axis", "tags: " + ", ".join(TAGS)
        )
    return Loop(tag, 0, plain(integer(extent, f"bind({tag!r}, ...)", "the extent")))


def _new(role: str) -> Callable[..., NewArray]:
    name = "output_tensor" if role == OUTPUT else "allocate"

    def make(shape: Any, dtype: str = "float32", scope: str = "global") -> NewArray:
        if role == OUTPUT and scope != "global":
            raise ArgumentError(f"{name}(...)", "an output has no scope: it is in global memory")
        if not isinstance(shape, (tuple, list)):
            raise ArgumentError(
                f"{name}(...)", "the shape is not a tuple", f"{name}((n, m), dtype)"
            )
        dims = tuple(integer(d, f"{name}(...)", "a dimension") for d in shape)
        if not is_scope(scope):
            raise ArgumentError(
                f"{name}(...)", f"{scope!r} is not a scope", "scopes: " + ", ".join(SCOPES)
            )
        return NewArray(role, dims, dt.check(dtype), scope)

    return make


def _len(x: Any) -> Any:
    if isinstance(x, (Array, Part)):
        return x.shape[0]
    return len(x)


def _cast(name: str) -> Callable[[Any], Any]:
    return lambda x: ops.cast(name, x)


def _to(x: Any, dtype: str) -> Any:
    return ops.cast(dt.check(dtype), x)


def _extreme(name: str, of_two: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def pick(*given: Any) -> Any:
        many = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
        if not many:
            raise ArgumentError(f"{name}()", "it takes numbers")
        out = many[0]
        for x in many[1:]:
            numbers = isinstance(out, (int, float)) and isinstance(x, (int, float))
            out = {"min": min, "max": max}[name](out, x) if numbers else of_two(out, x)
        return out

    return pick


def _max_num_threads(allow_none: Any = True) -> int:
    target = Target.current(bool(allow_none))
    if target is None:
        raise ArgumentError(
            "max_num_threads()", "no target is in force",
            'call the script in `with whet.Target("cuda"):`',
        )  # fmt: skip
    return target.max_num_threads


def _ceil_div(a: Any, b: Any) -> Any:
    return (a + b - 1) // b


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: _loop(name) for name in KINDS},
    **{name: _cast(name) for name in CASTS},
    **{name: getattr(mathematics, name) for name in MATHEMATICS},
    "bind": _bind,
    "allocate": _new(ALLOCATED),
    "output_tensor": _new(OUTPUT),
    "len": _len,
    "cast": _to,
    "min": _extreme("min", ops.minimum),
    "max": _extreme("max", ops.maximum),
    "ceil_div": _ceil_div,
    "likely": lambda condition: condition,
    "max_num_threads": _max_num_threads,
    "inf": lambda dtype: infinity(dtype),
    "ninf": lambda dtype: -infinity(dtype),
    "int": lambda x: x if isinstance(x, int) else ops.cast("int32", x),
    "float": lambda x: x if isinstance(x, float) else ops.cast("float32", x),
    "bool": lambda x: x if isinstance(x, bool) else ops.cast("bool", x),
}
"""Name in a script -> what it makes of its arguments."""
