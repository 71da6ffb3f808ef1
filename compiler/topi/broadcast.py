"""Binary operators whose operands' shapes are broadcast by numpy's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.tir import IntImm, PrimExpr
from whet.compiler.tir.ops import mathematics as m
from whet.compiler.tir.ops import ops
from whet.compiler.topi import tag

Operand = Tensor | PrimExpr | int | float
Shape = tuple[PrimExpr, ...]


def broadcast_shape(a: Sequence[PrimExpr], b: Sequence[PrimExpr], asked: str) -> Shape:
    """The shape that two shapes are broadcast to.

    Raises:
        ArgumentError: two dimensions differ and neither is 1.
    """
    out: list[PrimExpr] = []
    for k in range(max(len(a), len(b))):
        x = a[len(a) - 1 - k] if k < len(a) else ops.const(1)
        y = b[len(b) - 1 - k] if k < len(b) else ops.const(1)
        if _is_one(x):
            out.append(y)
        elif _is_one(y) or x is y or (_known(x) and _known(y) and int(x) == int(y)):
            out.append(x)
        elif _known(x) and _known(y):
            raise ArgumentError(asked, f"dimensions of {int(x)} and {int(y)} do not go together")
        else:
            raise ArgumentError(
                asked, f"the dimensions {x} and {y} are not known to be equal", "use one variable"
            )
    return tuple(reversed(out))


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """``data`` repeated to ``shape``.

    Raises:
        ArgumentError: the shapes do not fit.
    """
    wanted = tuple(ops.convert(d) for d in shape)
    asked = f"broadcast_to({data}, {list(shape)})"
    if len(broadcast_shape(data.shape, wanted, asked)) != len(wanted):
        raise ArgumentError(asked, "the result has more dimensions than were asked for")
    name = f"{data.op.name}_to"
    return te.compute(wanted, lambda *i: at(data, i), name=name, tag=tag.BROADCAST)


def at(data: Operand, index: Sequence[PrimExpr]) -> Any:
    """The element of an operand that goes with ``index`` of the result."""
    if not isinstance(data, Tensor):
        return data
    own = index[len(index) - data.ndim :]
    return data(*[ops.const(0) if _is_one(d) else i for d, i in zip(data.shape, own)])


def _is_one(d: PrimExpr) -> bool:
    return isinstance(d, IntImm) and d.value == 1


def _known(d: PrimExpr) -> bool:
    return isinstance(d, IntImm)


def _binary(name: str, combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operator(lhs: Operand, rhs: Operand) -> Any:
        if not isinstance(lhs, Tensor) and not isinstance(rhs, Tensor):
            return combine(lhs, rhs)
        a, b = (x.shape if isinstance(x, Tensor) else () for x in (lhs, rhs))
        shape = broadcast_shape(a, b, f"{name}({lhs}, {rhs})")
        return te.compute(
            shape,
            lambda *i: combine(at(lhs, i), at(rhs, i)),
            name=f"T_{name}",
            tag=tag.BROADCAST,
        )

    operator.__name__ = name
    operator.__doc__ = f"``{name}`` of tensors, or of a tensor and a number, element by element."
    return operator


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
bitwise_and = _binary("bitwise_and", lambda a, b: ops.bitwise("bitwise_and", a, b))
bitwise_or = _binary("bitwise_or", lambda a, b: ops.bitwise("bitwise_or", a, b))
bitwise_xor = _binary("bitwise_xor", lambda a, b: ops.bitwise("bitwise_xor", a, b))
left_shift = _binary("left_shift", lambda a, b: ops.bitwise("shift_left", a, b))
right_shift = _binary("right_shift", lambda a, b: ops.bitwise("shift_right", a, b))
