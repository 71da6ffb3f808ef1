"""The expressions of the loop IR: one small immutable node class each.

Nodes compare by identity; ``a == b`` builds an :class:`EQ` node whose truth value is identity, so
that nodes still work as dictionary keys. Build them with Python operators or :mod:`tir.ops`, which
promote types and fold constants; the classes themselves check nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.te.tensor import Tensor
    from whet.compiler.tir.buffer import Buffer


class ExprOp:
    """Python's operators, for everything that can stand in an expression."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy scalars leave the operators to us, np.exp(expr) is refused

    def __add__(self, other: Any) -> PrimExpr:
        return ops.add(self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return ops.add(other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return ops.subtract(self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return ops.subtract(other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return ops.multiply(self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return ops.multiply(other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return ops.divide(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return ops.divide(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return ops.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return ops.floordiv(other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return ops.floormod(self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return ops.floormod(other, self)

    def __neg__(self) -> PrimExpr:
        return ops.negate(self)

    def __and__(self, other: Any) -> PrimExpr:
        return ops.bitwise("bitwise_and", self, other)

    def __or__(self, other: Any) -> PrimExpr:
        return ops.bitwise("bitwise_or", self, other)

    def __xor__(self, other: Any) -> PrimExpr:
        return ops.bitwise("bitwise_xor", self, other)

    def __invert__(self) -> PrimExpr:
        return ops.bitwise_not(self)

    def __lshift__(self, other: Any) -> PrimExpr:
        return ops.bitwise("shift_left", self, other)

    def __rshift__(self, other: Any) -> PrimExpr:
        return ops.bitwise("shift_right", self, other)

    def __lt__(self, other: Any) -> PrimExpr:
        return ops.compare(LT, self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return ops.compare(LE, self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return ops.compare(GT, self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return ops.compare(GE, self, other)

    def __eq__(self, other: Any) -> Any:
        if not _convertible(other):
            return NotImplemented
        return ops.compare(EQ, self, other)

    def __ne__(self, other: Any) -> Any:
        if not _convertible(other):
            return NotImplemented
        return ops.compare(NE, self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise ArgumentError(
            "the truth value of an expression",
            "it has none before the kernel runs, so `if`, `and`, `or` and `not` cannot be used",
            "use te.if_then_else, te.all, te.any or tir.Not instead",
        )

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to ``dtype``."""
        return ops.cast(dtype, self)

    def equal(self, other: Any) -> PrimExpr:
        """An expression that is true where both are equal."""
        return ops.compare(EQ, self, other)


def _convertible(other: Any) -> bool:
    return isinstance(other, (ExprOp, int, float, bool))


class PrimExpr(ExprOp):
    """A scalar or vector value of type ``dtype``."""

    __slots__ = ()
    dtype: str

    def __int__(self) -> int:
        """The number that a constant is.

        Raises:
            ArgumentError: for anything that is known only when the kernel runs.
        """
        raise ArgumentError(
            f"int({type(self).__name__})", "its value is not known before the kernel runs"
        )


@dataclass(slots=True, eq=False)
class Var(PrimExpr):
    """A variable, told from others by identity; the name is for people."""

    name: str
    dtype: str = "int32"

    def __repr__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False)
class SizeVar(Var):
    """A variable that is never negative: the size of a dimension."""

    def __repr__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False)
class IntImm(PrimExpr):
    """An integer constant; bool constants are 0 and 1. It serves as a Python int, too."""

    dtype: str
    value: int

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0


@dataclass(slots=True, eq=False)
class FloatImm(PrimExpr):
    """A floating-point constant."""

    dtype: str
    value: float


@dataclass(slots=True, eq=False)
class StringImm(PrimExpr):
    """A string constant, for annotations and intrinsic calls."""

    value: str
    dtype: str = "handle"


@dataclass(slots=True, eq=False)
class Cast(PrimExpr):
    """``value`` converted to ``dtype``."""

    dtype: str
    value: PrimExpr


@dataclass(slots=True, eq=False)
class BinaryOp(PrimExpr):
    """``a symbol b``; both operands have the same type."""

    a: PrimExpr
    b: PrimExpr
    dtype: str
    symbol: ClassVar[str] = "?"


class Add(BinaryOp):
    """Sum."""

    __slots__ = ()
    symbol = "+"


class Sub(BinaryOp):
    """Difference."""

    __slots__ = ()
    symbol = "-"


class Mul(BinaryOp):
    """Product."""

    __slots__ = ()
    symbol = "*"


class Div(BinaryOp):
    """Quotient: of floats, or of integers rounded towards zero."""

    __slots__ = ()
    symbol = "/"


class Mod(BinaryOp):
    """Remainder of the division that rounds towards zero."""

    __slots__ = ()
    symbol = "truncmod"


class FloorDiv(BinaryOp):
    """Quotient rounded down."""

    __slots__ = ()
    symbol = "//"


class FloorMod(BinaryOp):
    """Remainder of the division that rounds down."""

    __slots__ = ()
    symbol = "%"


class Min(BinaryOp):
    """The smaller of two."""

    __slots__ = ()
    symbol = "min"


class Max(BinaryOp):
    """The larger of two."""

    __slots__ = ()
    symbol = "max"


class CmpOp(BinaryOp):
    """A comparison: bool, of as many lanes as the operands."""

    __slots__ = ()


class EQ(CmpOp):
    """Equal; in Python its truth is the identity of both operands."""

    __slots__ = ()
    symbol = "=="

    def __bool__(self) -> bool:
        return self.a is self.b


class NE(CmpOp):
    """Not equal; in Python its truth is that the operands are two objects."""

    __slots__ = ()
    symbol = "!="

    def __bool__(self) -> bool:
        return self.a is not self.b


class LT(CmpOp):
    """Less."""

    __slots__ = ()
    symbol = "<"


class LE(CmpOp):
    """Less or equal."""

    __slots__ = ()
    symbol = "<="


class GT(CmpOp):
    """Greater."""

    __slots__ = ()
    symbol = ">"


class GE(CmpOp):
    """Greater or equal."""

    __slots__ = ()
    symbol = ">="


class And(BinaryOp):
    """Both."""

    __slots__ = ()
    symbol = "and"


class Or(BinaryOp):
    """Either."""

    __slots__ = ()
    symbol = "or"


@dataclass(slots=True, eq=False)
class Not(PrimExpr):
    """The opposite truth value."""

    a: PrimExpr
    dtype: str = "bool"


@dataclass(slots=True, eq=False)
class Select(PrimExpr):
    """``true_value`` where ``condition`` holds, else ``false_value``; both are evaluated."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    dtype: str


@dataclass(slots=True, eq=False)
class BufferLoad(PrimExpr):
    """``buffer[indices]``; lanes where ``mask`` is false are not read and are zero."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    dtype: str
    mask: PrimExpr | None = None


@dataclass(slots=True, eq=False)
class ProducerLoad(PrimExpr):
    """``producer[indices]``, of a tensor; lowering turns it into a :class:`BufferLoad`."""

    producer: Tensor
    indices: tuple[PrimExpr, ...]
    dtype: str


@dataclass(slots=True, eq=False)
class Ramp(PrimExpr):
    """The vector ``base, base + stride, ...`` of ``lanes`` integers."""

    base: PrimExpr
    stride: int
    lanes: int
    dtype: str


@dataclass(slots=True, eq=False)
class Broadcast(PrimExpr):
    """``value`` in each of ``lanes`` lanes."""

    value: PrimExpr
    lanes: int
    dtype: str


@dataclass(slots=True, eq=False)
class Call(PrimExpr):
    """The intrinsic ``op``, e.g. ``"exp"`` or ``"if_then_else"``, applied to ``args``."""

    dtype: str
    op: str
    args: tuple[PrimExpr, ...]


@dataclass(slots=True, eq=False)
class CommReducer:
    """A commutative, associative combination of two values.

    Attributes:
        lhs, rhs: variables that stand for the values combined, one for each output.
        result: the combined values, in terms of ``lhs`` and ``rhs``.
        identity: the values that change nothing.
        name: for printing.
    """

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity: tuple[PrimExpr, ...]
    name: str


@dataclass(slots=True, eq=False)
class Reduce(PrimExpr):
    """``combiner`` over ``source`` for each value of ``axis`` where ``condition`` holds."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int
    dtype: str
    init: tuple[PrimExpr, ...] = ()


@dataclass(slots=True, eq=False)
class Range:
    """The integers from ``min`` on, ``extent`` of them."""

    min: PrimExpr
    extent: PrimExpr


# kinds of an iteration variable, with TVM's numbers
DATA_PAR, THREAD_INDEX, COMM_REDUCE, ORDERED, OPAQUE = 0, 1, 2, 3, 4
UNROLLED, VECTORIZED, PARALLELIZED, TENSORIZED = 5, 6, 7, 8


@dataclass(slots=True, eq=False)
class IterVar(ExprOp):
    """An axis: a variable with the range it runs over (None until it is inferred)."""

    dom: Range | None
    var: Var
    iter_type: int = DATA_PAR
    thread_tag: str = ""
    attrs: dict = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.var.name

    @property
    def dtype(self) -> str:
        """The variable's type."""
        return self.var.dtype

    def __repr__(self) -> str:
        if self.dom is not None and isinstance(self.dom.extent, IntImm):
            return f"iter_var({self.var.name}, extent={self.dom.extent.value})"
        return f"iter_var({self.var.name})"


Value = ExprOp | int | float | bool

from whet.compiler.tir import ops  # noqa: E402  (operators build nodes through ops, ops needs the nodes)
