"""The expressions of the loop IR: one small immutable node class each.

Nodes compare by identity; ``a == b`` builds an :class:`EQ` node whose truth value is identity, so
that nodes still work as dictionary keys. Build them with Python operators or :mod:`tir.ops`, which
promote types and fold constants; the classes themselves check nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.ops.op_name import OpName, op_name
from whet.compiler.tir.ops.operators import ExprOp

if TYPE_CHECKING:
    from whet.compiler.te.lang.tensor import Tensor
    from whet.compiler.tir.buffer import Buffer


def by_value_hash(constant: Any) -> int:
    """The hash of a constant: equal values, Python's own among them, hash alike."""
    return hash(constant.value)


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

    def __str__(self) -> str:
        return infer_dtype.text(self)


@dataclass(slots=True, eq=False)
class Var(PrimExpr):
    """A variable, told from others by identity; the name is for people."""

    name: str
    dtype: str = "int32"

    def __post_init__(self) -> None:
        self.dtype = dt.check(self.dtype)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


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

    def __post_init__(self) -> None:
        if type(self.value) is not int or self.dtype not in dt.INTEGERS:
            self.dtype, self.value = infer_dtype.integer(self.dtype, self.value)

    __hash__ = by_value_hash

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return self.value != 0


@dataclass(slots=True, eq=False)
class FloatImm(PrimExpr):
    """A floating-point constant; ``float(x)`` is its value."""

    dtype: str
    value: float

    def __post_init__(self) -> None:
        if type(self.value) is not float or self.dtype not in dt.FLOATS:
            self.dtype, self.value = infer_dtype.floating(self.dtype, self.value)

    __hash__ = by_value_hash

    def __float__(self) -> float:
        return self.value


@dataclass(slots=True, eq=False)
class StringImm(PrimExpr):
    """A string constant, for annotations and intrinsic calls."""

    value: str
    dtype: str = "handle"

    def __eq__(self, other: Any) -> Any:
        return self.value == (other.value if isinstance(other, StringImm) else other)

    def __ne__(self, other: Any) -> Any:
        return not self == other

    __hash__ = by_value_hash


@dataclass(slots=True, eq=False)
class Cast(PrimExpr):
    """``value`` converted to ``dtype``."""

    dtype: str
    value: PrimExpr

    def __post_init__(self) -> None:
        self.dtype = dt.check(self.dtype)
        if not isinstance(self.value, PrimExpr):
            self.value = ops.convert(self.value)


@dataclass(slots=True, eq=False)
class Not(PrimExpr):
    """The opposite truth value."""

    a: PrimExpr
    dtype: str = "bool"

    def __post_init__(self) -> None:
        if not isinstance(self.a, PrimExpr):
            self.a = ops.convert(self.a)


@dataclass(slots=True, eq=False, init=False)
class Select(PrimExpr):
    """``true_value`` where ``condition`` holds, else ``false_value``; both are evaluated."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    dtype: str

    def __init__(
        self, condition: Any, true_value: Any, false_value: Any, dtype: str | None = None
    ) -> None:
        if dtype is None:
            condition = ops.convert(condition)
            true_value, false_value, dtype = infer_dtype.operands(Add, true_value, false_value)
        self.condition = condition
        self.true_value = true_value
        self.false_value = false_value
        self.dtype = dtype


@dataclass(slots=True, eq=False, init=False)
class BufferLoad(PrimExpr):
    """``buffer[indices]``; lanes where ``mask`` is false are not read and are zero."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    dtype: str
    mask: PrimExpr | None = None

    def __init__(
        self, buffer: Buffer, indices: Any, dtype: str | None = None, mask: PrimExpr | None = None
    ) -> None:
        if dtype is None:
            indices, dtype = infer_dtype.access(
                infer_dtype.element_of(buffer, "BufferLoad", "buffer"), indices
            )
        self.buffer = buffer
        self.indices = indices
        self.dtype = dtype
        self.mask = mask


@dataclass(slots=True, eq=False, init=False)
class ProducerLoad(PrimExpr):
    """``producer[indices]``, of a tensor; lowering turns it into a :class:`BufferLoad`."""

    producer: Tensor
    indices: tuple[PrimExpr, ...]
    dtype: str

    def __init__(self, producer: Tensor, indices: Any, dtype: str | None = None) -> None:
        if dtype is None:
            indices, dtype = infer_dtype.access(
                infer_dtype.element_of(producer, "ProducerLoad", "tensor"), indices
            )
        self.producer = producer
        self.indices = indices
        self.dtype = dtype


@dataclass(slots=True, eq=False, init=False)
class Ramp(PrimExpr):
    """The vector ``base, base + stride, ...`` of ``lanes`` integers."""

    base: PrimExpr
    stride: int
    lanes: int
    dtype: str

    def __init__(self, base: Any, stride: Any, lanes: int, dtype: str | None = None) -> None:
        if dtype is None:
            base, stride, dtype = infer_dtype.ramp(base, stride, lanes)
        self.base = base
        self.stride = stride
        self.lanes = lanes
        self.dtype = dtype


@dataclass(slots=True, eq=False, init=False)
class Broadcast(PrimExpr):
    """``value`` in each of ``lanes`` lanes."""

    value: PrimExpr
    lanes: int
    dtype: str

    def __init__(self, value: Any, lanes: int, dtype: str | None = None) -> None:
        if dtype is None:
            value, dtype = infer_dtype.vector_of(value, lanes)
        self.value = value
        self.lanes = lanes
        self.dtype = dtype


@dataclass(slots=True, eq=False, init=False)
class Shuffle(PrimExpr):
    """Lanes picked from ``vectors`` put side by side: lane k is number ``indices[k]`` of them."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[int, ...]
    dtype: str

    def __init__(self, vectors: Any, indices: Any, dtype: str | None = None) -> None:
        if dtype is None:
            vectors, indices, dtype = infer_dtype.shuffle(vectors, indices)
        self.vectors = vectors
        self.indices = indices
        self.dtype = dtype


@dataclass(slots=True, eq=False, init=False)
class Let(PrimExpr):
    """``body``, in which ``var`` stands for ``value``."""

    var: Var
    value: PrimExpr
    body: PrimExpr
    dtype: str

    def __init__(self, var: Var, value: Any, body: Any, dtype: str | None = None) -> None:
        if dtype is None:
            value, body = ops.cast(var.dtype, value), ops.convert(body)
            dtype = body.dtype
        self.var = var
        self.value = value
        self.body = body
        self.dtype = dtype


@dataclass(slots=True, eq=False)
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

    def __post_init__(self) -> None:
        self.shape, self.strides = (
            infer_dtype.expressions(self.shape),
            infer_dtype.expressions(self.strides),
        )
        self.offset = ops.convert(self.offset)


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
        self.args = infer_dtype.expressions(args)


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

    def __post_init__(self) -> None:
        self.result = infer_dtype.typed(self.lhs, self.result)
        self.identity = infer_dtype.typed(self.lhs, self.identity)

    @property
    def identity_element(self) -> tuple[PrimExpr, ...]:
        """``identity``, TVM's name."""
        return self.identity


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

    def __post_init__(self) -> None:
        self.source, self.init = (
            infer_dtype.expressions(self.source),
            infer_dtype.expressions(self.init),
        )
        if not isinstance(self.condition, PrimExpr):
            self.condition = ops.convert(self.condition)


@dataclass(slots=True, eq=False, init=False)
class Range:
    """The integers from ``min`` on, ``extent`` of them; made as ``Range(begin, end)``.

    ``Range(end)`` begins at 0; the end is left out. :meth:`from_min_extent` takes the fields.

    Raises:
        ArgumentError: for bounds that are no integers.
    """

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: Any, end: Any = None) -> None:
        self.min, self.extent = infer_dtype.span(begin, end)

    @staticmethod
    def from_min_extent(min: Any, extent: Any, span: Any = None) -> Range:
        """The range of ``extent`` integers from ``min`` on."""
        out = Range.__new__(Range)
        out.min = min if isinstance(min, PrimExpr) else ops.convert(min)
        out.extent = extent if isinstance(extent, PrimExpr) else ops.convert(extent)
        return out

    def __str__(self) -> str:
        return f"range(min={self.min}, ext={self.extent})"


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

# Nodes and what makes them need each other: the classes come first, what uses them afterwards.
from whet.compiler.tir.binary import (  # noqa: E402, F401, I001
    Add,
    And,
    BinaryOp,
    CmpOp,
    Div,
    EQ,
    FloorDiv,
    FloorMod,
    GE,
    GT,
    LE,
    LT,
    Max,
    Min,
    Mod,
    Mul,
    NE,
    Or,
    Sub,
)
from whet.compiler.tir.ops import infer_dtype, ops  # noqa: E402
