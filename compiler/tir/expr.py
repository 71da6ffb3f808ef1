"""The expressions of the loop IR: one small immutable node class each.

Nodes compare by identity; ``a == b`` builds an :class:`EQ` node whose truth value is identity, so
that nodes still work as dictionary keys. Build them with Python operators or :mod:`tir.ops`, which
promote types and fold constants. A class completes (``infer``) what is made by hand, and checks
nothing of what comes with a dtype, as in the compiler's own code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from whet.compiler.tir import dtype as dt
from whet.compiler.tir.binary import (  # noqa: F401
    ARITHMETIC,
    BINARY,
    COMPARISONS,
    DIVISIONS,
    EQ,
    GE,
    GT,
    INDEX_ARITHMETIC,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    CmpOp,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
)
from whet.compiler.tir.node import ExprOp, Node, PrimExpr, are_expressions, node_class
from whet.compiler.tir.op_name import OpName, op_name

if TYPE_CHECKING:
    from whet.compiler.tir.buffer import Buffer


def by_value_hash(constant: Any) -> int:
    """The hash of a constant: equal values, Python's own among them, hash alike."""
    return hash(constant.value)


@node_class()
class Var(PrimExpr):
    """A variable, told from others by identity; the name is for people."""

    name: str
    dtype: str = "int32"

    def __post_init__(self) -> None:
        self.dtype = dt.check(self.dtype)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


@dataclass(slots=True, eq=False, repr=False)
class SizeVar(Var):
    """A variable that is never negative: the size of a dimension."""


@node_class()
class IntImm(PrimExpr):
    """An integer constant; bool constants are 0 and 1. It serves as a Python int, too."""

    dtype: str
    value: int

    def __post_init__(self) -> None:
        if type(self.value) is not int or self.dtype not in dt.INTEGERS:
            self.infer()

    __hash__ = by_value_hash

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.value != 0


@node_class()
class FloatImm(PrimExpr):
    """A floating-point constant; ``float(x)`` is its value."""

    dtype: str
    value: float

    def __post_init__(self) -> None:
        if type(self.value) is not float or self.dtype not in dt.FLOATS:
            self.infer()

    __hash__ = by_value_hash

    def __float__(self) -> float:
        return self.value


@node_class()
class StringImm(PrimExpr):
    """A string constant, for annotations and intrinsic calls."""

    value: str
    dtype: str = "handle"

    def __eq__(self, other: Any) -> Any:
        return self.value == (other.value if isinstance(other, StringImm) else other)

    def __ne__(self, other: Any) -> Any:
        return not self == other

    __hash__ = by_value_hash


@node_class()
class Cast(PrimExpr):
    """``value`` converted to ``dtype``."""

    dtype: str
    value: PrimExpr

    def __post_init__(self) -> None:
        self.dtype = dt.check(self.dtype)
        if not isinstance(self.value, PrimExpr):
            self.infer()


@node_class("a")
class Not(PrimExpr):
    """The opposite truth value."""

    a: PrimExpr
    dtype: str = "bool"


@node_class()
class Select(PrimExpr):
    """``true_value`` where ``condition`` holds, else ``false_value``; both are evaluated."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    dtype: str = ""


@node_class()
class BufferLoad(PrimExpr):
    """``buffer[indices]``; lanes where ``mask`` is false are not read and are zero."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    dtype: str = ""
    mask: PrimExpr | None = None


@node_class()
class ProducerLoad(PrimExpr):
    """``producer[indices]``, of a tensor; lowering turns it into a :class:`BufferLoad`."""

    producer: Any  # a tensor
    indices: tuple[PrimExpr, ...]
    dtype: str = ""


@node_class()
class Ramp(PrimExpr):
    """The vector ``base, base + stride, ...`` of ``lanes`` integers."""

    base: PrimExpr
    stride: int
    lanes: int
    dtype: str = ""


@node_class()
class Broadcast(PrimExpr):
    """``value`` in each of ``lanes`` lanes."""

    value: PrimExpr
    lanes: int
    dtype: str = ""


@node_class()
class Shuffle(PrimExpr):
    """Lanes picked from ``vectors`` put side by side: lane k is number ``indices[k]`` of them."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[int, ...]
    dtype: str = ""


@node_class()
class Let(PrimExpr):
    """``body``, in which ``var`` stands for ``value``."""

    var: Var
    value: PrimExpr
    body: PrimExpr
    dtype: str = ""


@node_class("shape", "strides", "offset")
class BufferView(PrimExpr):
    """A buffer, or a part of it, handed to a call as an array.

    Attributes:
        buffer: whose memory it is.
        shape: extents of the array.
        strides: steps in elements; none for a compact row-major array.
        offset: the first element, counted in elements from the start of the buffer.
    """

    buffer: Buffer
    shape: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...]
    offset: PrimExpr
    dtype: str = "handle"


@dataclass(slots=True, eq=False, init=False)
class Call(PrimExpr):
    """The intrinsic ``op``, e.g. ``"exp"`` or ``"if_then_else"``, applied to ``args``.

    ``op`` is a str; ``op.name`` is TVM's name, e.g. ``"tir.exp"``.
    """

    dtype: str
    op: str
    args: tuple[PrimExpr, ...]

    def __init__(self, dtype: str, op: str, args: Any) -> None:
        self.dtype = dt.check(dtype)
        self.op = op if type(op) is OpName else op_name(op)
        self.args = args
        if not are_expressions(args):
            self.infer()


@node_class()
class CommReducer(Node):
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

    def __post_init__(self) -> None:
        self.infer()

    @property
    def identity_element(self) -> tuple[PrimExpr, ...]:
        """``identity``, TVM's name."""
        return self.identity


@node_class("source", "init", "condition")
class Reduce(PrimExpr):
    """``combiner`` over ``source`` for each value of ``axis`` where ``condition`` holds."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int
    dtype: str
    init: tuple[PrimExpr, ...] = ()


@dataclass(slots=True, eq=False, init=False)
class Range(Node):
    """The integers from ``min`` on, ``extent`` of them; made as ``Range(begin, end)``.

    ``Range(end)`` begins at 0; the end is left out. :meth:`from_min_extent` takes the fields.

    Raises:
        ArgumentError: for bounds that are no integers.
    """

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: Any, end: Any = None) -> None:
        self.min, self.extent = begin, end
        self.infer()

    @staticmethod
    def from_min_extent(min: Any, extent: Any, span: Any = None) -> Range:
        """The range of ``extent`` integers from ``min`` on."""
        out = Range.__new__(Range)
        out.min, out.extent = min, extent
        if not are_expressions((min, extent)):
            out.infer(of_extent=True)
        return out

    def __str__(self) -> str:
        return f"range(min={self.min}, ext={self.extent})"


# kinds of an iteration variable, with TVM's numbers
DATA_PAR, THREAD_INDEX, COMM_REDUCE, ORDERED, OPAQUE = 0, 1, 2, 3, 4
UNROLLED, VECTORIZED, PARALLELIZED, TENSORIZED = 5, 6, 7, 8


@node_class()
class IterVar(ExprOp):
    """An axis: a variable with the range it runs over (None until it is inferred)."""

    dom: Range | None
    var: Var
    iter_type: int = DATA_PAR
    thread_tag: str = ""
    attrs: dict = field(default_factory=dict)

    DataPar: ClassVar[int] = DATA_PAR
    ThreadIndex: ClassVar[int] = THREAD_INDEX
    CommReduce: ClassVar[int] = COMM_REDUCE
    Ordered: ClassVar[int] = ORDERED
    DimInfo: ClassVar[int] = OPAQUE
    Unrolled: ClassVar[int] = UNROLLED
    Vectorized: ClassVar[int] = VECTORIZED
    Parallelized: ClassVar[int] = PARALLELIZED
    Tensorized: ClassVar[int] = TENSORIZED

    def __post_init__(self) -> None:
        if isinstance(self.var, str):
            self.var = Var(self.var)
        if isinstance(self.dom, (tuple, list)):
            self.dom = Range(*self.dom)

    @property
    def domain(self) -> Range:
        """``dom`` of an axis that has one, as those of operations do."""
        assert self.dom is not None
        return self.dom

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

    def __str__(self) -> str:
        tag = f", {self.thread_tag}" if self.thread_tag else ""
        dom = "" if self.dom is None else f", {self.dom}"
        return f"iter_var({self.var.name}{dom}{tag})"


Value = ExprOp | int | float | bool


def is_choice(n: Any) -> TypeGuard[Call]:
    """True for an ``if_then_else``, of whose two values one is evaluated."""
    return isinstance(n, Call) and n.op == "if_then_else"


def int_value(n: Any) -> int | None:
    """The number of an integer constant; None for anything else."""
    return n.value if isinstance(n, IntImm) else None


def is_int(n: Any, value: int) -> bool:
    """True for the integer constant ``value``."""
    return isinstance(n, IntImm) and n.value == value
