"""Operators of each element: of one tensor, and of several whose shapes are broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import IntImm, PrimExpr
from whet.compiler.tir.ops import bits, ops
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops.ops import const
from whet.compiler.topi.shapes import is_one
from whet.compiler.topi.tag import BROADCAST, ELEMWISE

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "cast",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "divide",
    "elemwise_sum",
    "equal",
    "erf",
    "exp",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "floor",
    "floor_divide",
    "floor_mod",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "identity",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log10",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "ones",
    "power",
    "right_shift",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "zeros",
]

Operand = Tensor | PrimExpr | int | float
Shape = tuple[PrimExpr, ...]


def broadcast_shape(a: Sequence[PrimExpr], b: Sequence[PrimExpr], request: str) -> Shape:
    """The shape that two shapes are broadcast to.

    Raises:
        ArgumentError: two dimensions differ and neither is 1.
    """
    rank, one = max(len(a), len(b)), [ops.const(1)]
    pairs = zip(one * (rank - len(a)) + [*a], one * (rank - len(b)) + [*b])
    return tuple(_broadcast_extent(x, y, request) for x, y in pairs)


def _broadcast_extent(x: PrimExpr, y: PrimExpr, request: str) -> PrimExpr:
    if is_one(x):
        return y
    known = isinstance(x, IntImm) and isinstance(y, IntImm)
    if is_one(y) or x is y or (known and int(x) == int(y)):
        return x
    if known:
        raise ArgumentError(request, f"dimensions of {x} and {y} do not go together")
    if Analyzer().can_prove_equal(x, y):
        return x
    raise ArgumentError(
        request, f"the dimensions {x} and {y} are not known to be equal", "use one variable"
    )


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """``data`` repeated to ``shape``.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    to = tuple(ops.convert(d) for d in shape)
    request = f"broadcast_to({data}, {list(shape)})"
    if len(broadcast_shape(data.shape, to, request)) != len(to):
        raise ArgumentError(request, "the result has more dimensions than were asked for")
    name = f"{data.op.name}_to"
    return compute(to, lambda *i: at(data, i), name, BROADCAST)


def at(data: Operand, index: Sequence[PrimExpr]) -> Any:
    """The element of an operand that goes with ``index`` of the result."""
    if not isinstance(data, Tensor):
        return data
    own = index[len(index) - data.ndim :]
    return data(*[ops.const(0) if is_one(d) else i for d, i in zip(data.shape, own)])


def each_element(x: Tensor, change: Callable[[Any], Any], name: str) -> Tensor:
    """``change`` of each element, as a stage of this name."""
    return compute(x.shape, lambda *i: change(x(*i)), name, ELEMWISE)


def unary(name: str, change: Callable[[Any], Any], says: str = "") -> Callable[[Tensor], Tensor]:
    """The operator that computes ``change`` of each element; ``says`` is its docstring."""

    def operator(x: Tensor) -> Tensor:
        return each_element(x, change, f"T_{name}")

    operator.__name__ = name
    operator.__doc__ = says or f"``{name}`` of each element."
    return operator


def _binary(name: str, combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operator(lhs: Operand, rhs: Operand) -> Any:
        if not isinstance(lhs, Tensor) and not isinstance(rhs, Tensor):
            return combine(lhs, rhs)
        a, b = (x.shape if isinstance(x, Tensor) else () for x in (lhs, rhs))
        shape = broadcast_shape(a, b, f"{name}({lhs}, {rhs})")
        return compute(
            shape,
            lambda *i: combine(at(lhs, i), at(rhs, i)),
            f"T_{name}",
            BROADCAST,
        )

    operator.__name__ = name
    operator.__doc__ = f"``{name}`` of tensors, or of a tensor and a number, element by element."
    return operator


exp = unary("exp", m.exp)
log = unary("log", m.log)
sqrt = unary("sqrt", m.sqrt)
rsqrt = unary("rsqrt", m.rsqrt)
log2 = unary("log2", m.log2)
log10 = unary("log10", m.log10)
tan = unary("tan", m.tan)
isnan = unary("isnan", m.isnan)
isinf = unary("isinf", m.isinf)
isfinite = unary("isfinite", m.isfinite)
tanh = unary("tanh", m.tanh)
sigmoid = unary("sigmoid", m.sigmoid)
erf = unary("erf", m.erf)
sin = unary("sin", m.sin)
sinh = unary("sinh", m.sinh)
cosh = unary("cosh", m.cosh)
asin = unary("asin", m.asin)
acos = unary("acos", m.acos)
atan = unary("atan", m.atan)
asinh = unary("asinh", m.asinh)
acosh = unary("acosh", m.acosh)
atanh = unary("atanh", m.atanh)
fast_exp, fast_erf, fast_tanh = exp, erf, tanh  # TVM approximates these
cos = unary("cos", m.cos)
floor = unary("floor", m.floor)
ceil = unary("ceil", m.ceil)
trunc = unary("trunc", m.trunc)
round = unary("round", m.round)
abs = unary("abs", m.abs)
negative = unary("negative", ops.negate)
identity = unary("identity", lambda x: x)
bitwise_not = unary("bitwise_not", bits.bitwise_not)
logical_not = unary(
    "logical_not", lambda x: ops.logical_not(x) if x.dtype == "bool" else x.equal(0)
)
sign = unary(
    "sign",
    lambda x: ops.select(x > 0, ops.cast(x.dtype, 1), ops.select(x < 0, ops.cast(x.dtype, -1), x)),
)


add = _binary("add", ops.add)
subtract = _binary("subtract", ops.subtract)
multiply = _binary("multiply", ops.multiply)
divide = _binary("divide", ops.divide)
floor_divide = _binary("floor_divide", ops.floordiv)
mod = _binary("mod", ops.truncmod)
floor_mod = _binary("floor_mod", ops.floormod)
maximum = _binary("maximum", ops.maximum)
minimum = _binary("minimum", ops.minimum)
power = _binary("power", m.power)
greater = _binary("greater", lambda a, b: ops.convert(a) > b)
less = _binary("less", lambda a, b: ops.convert(a) < b)
equal = _binary("equal", lambda a, b: ops.convert(a).equal(b))
greater_equal = _binary("greater_equal", lambda a, b: ops.convert(a) >= b)
less_equal = _binary("less_equal", lambda a, b: ops.convert(a) <= b)
not_equal = _binary("not_equal", lambda a, b: ops.logical_not(ops.convert(a).equal(b)))


def _truth(x: Any) -> PrimExpr:
    c = ops.convert(x)
    return c if c.dtype == "bool" else ops.logical_not(c.equal(0))


def _xor(a: Any, b: Any) -> PrimExpr:
    x, y = _truth(a), _truth(b)
    return ops.logical_or(
        ops.logical_and(x, ops.logical_not(y)), ops.logical_and(ops.logical_not(x), y)
    )


logical_and = _binary("logical_and", lambda a, b: ops.logical_and(_truth(a), _truth(b)))
logical_or = _binary("logical_or", lambda a, b: ops.logical_or(_truth(a), _truth(b)))
logical_xor = _binary("logical_xor", _xor)
bitwise_and = _binary("bitwise_and", bits.bitwise_and)
bitwise_or = _binary("bitwise_or", bits.bitwise_or)
bitwise_xor = _binary("bitwise_xor", bits.bitwise_xor)
left_shift = _binary("left_shift", bits.shift_left)
right_shift = _binary("right_shift", bits.shift_right)


def cast(x: Tensor, dtype: str) -> Tensor:
    """Each element converted to ``dtype``."""
    return each_element(x, lambda one: one.astype(dtype), "T_cast")


def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """Each element, no less than ``a_min`` and no more than ``a_max``."""
    low, high = const(a_min, x.dtype), const(a_max, x.dtype)
    return each_element(x, lambda one: ops.maximum(ops.minimum(one, high), low), "T_clip")


def full(shape: Sequence[Any], dtype: str, fill_value: Any) -> Tensor:
    """A tensor whose elements are all ``fill_value``."""
    value = ops.cast(dtype, fill_value)
    return compute(shape, lambda *i: value, "T_full", ELEMWISE)


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of ``x``'s shape and element type whose elements are all ``fill_value``."""
    return full(x.shape, x.dtype, fill_value)


def zeros(shape: Sequence[Any], dtype: str = "float32") -> Tensor:
    """A tensor of zeros."""
    return full(shape, dtype, 0)


def ones(shape: Sequence[Any], dtype: str = "float32") -> Tensor:
    """A tensor of ones."""
    return full(shape, dtype, 1)


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape, element by element.

    Raises:
        ArgumentError: there is none, or their numbers of dimensions differ.
    """
    given = list(xs)
    request = f"elemwise_sum([{', '.join(map(str, given))}])"
    if not given:
        raise ArgumentError(request, "there is no tensor")
    if any(str(t.shape) != str(given[0].shape) for t in given):
        raise ArgumentError(request, "their shapes differ")

    def element(*i: Any) -> Any:
        elements: list[Any] = [t(*i) for t in given]
        return reduce(ops.add, elements)

    return compute(given[0].shape, element, "T_sum", ELEMWISE)
