"""Tensors and the operations that make them: placeholders, computations, extern statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler import late
from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.axes import widened
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import ExprOp, IterVar, PrimExpr, ProducerLoad
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import nodes

if TYPE_CHECKING:
    from whet.compiler.tir.buffer import Buffer
    from whet.compiler.tir.stmt import Stmt


@dataclass(slots=True, eq=False, frozen=True)
class Operation:
    """The computation of one or several tensors; never changed after it is made."""

    name: str

    @property
    def num_outputs(self) -> int:
        """The number of tensors that it makes."""
        return 1

    def output(self, index: int) -> Tensor:
        """The tensor number ``index`` that it makes."""
        if not isinstance(index, int) or not 0 <= index < self.num_outputs:
            raise ArgumentError(
                f"{self.name}.output({index!r})",
                f"the operation has {self.num_outputs} outputs",
                f"outputs are numbered from 0 to {self.num_outputs - 1}",
            )
        return Tensor(self, index)

    @property
    def tag(self) -> str:
        """A word about what it is, for schedules to look at; empty by default."""
        return ""

    @property
    def attrs(self) -> dict[str, Any]:
        """Further notes about it, by name."""
        return {}

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axes of what it makes; none for an input."""
        return ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The axes that it reduces over."""
        return ()

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors it reads, in the order of their first use."""
        return []

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        """The shape of output ``index``."""
        raise NotImplementedError

    def output_dtype(self, index: int) -> str:
        """The element type of output ``index``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class PlaceholderOp(Operation):
    """An input; its values lie in ``value_range``, both ends included, where one is said."""

    shape: tuple[PrimExpr, ...]
    dtype: str
    tag: str = ""
    value_range: tuple[float, float] | None = None

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        """The shape of the input."""
        return self.shape

    def output_dtype(self, index: int) -> str:
        """The element type of the input."""
        return self.dtype


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class ComputeOp(Operation):
    """Elements given by an expression over ``axis`` (and reduced over ``reduce_axis``).

    ``body`` holds an expression for each output; all share one loop nest.
    """

    # without field() the base's properties would be taken for defaults
    axis: tuple[IterVar, ...] = field()
    reduce_axis: tuple[IterVar, ...] = field()
    body: tuple[PrimExpr, ...]
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)
    _inputs: tuple[Tensor, ...] | None = field(default=None, init=False)

    @property
    def num_outputs(self) -> int:
        """The number of tensors that it makes: one for each expression of the body."""
        return len(self.body)

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors it reads, in the order of their first use."""
        if self._inputs is None:  # operations do not change, and bodies may be large
            reads = (n.producer for n in nodes(self.body) if type(n) is ProducerLoad)
            object.__setattr__(self, "_inputs", tuple(dict.fromkeys(reads)))
        return list(self._inputs or ())

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        """The extents of the axes."""
        return tuple(a.dom.extent for a in self.axis if a.dom is not None)

    def output_dtype(self, index: int) -> str:
        """The type of the expression."""
        return self.body[index].dtype


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class TensorComputeOp(ComputeOp):
    """A computation made of one instruction for each index of its outer axes.

    Attributes:
        intrin: the instruction.
        loops: its axes as its stage's loops begin: the outer ones, then those of the tile.
        schedulable_ndim: how many of ``axis`` are outer ones, as in TVM.
    """

    intrin: Any = field(default=None)
    loops: tuple[IterVar, ...] = ()
    schedulable_ndim: int = 0

    @property
    def tile(self) -> IterVar:
        """The first axis of the tile."""
        return self.loops[self.schedulable_ndim + len(self.reduce_axis) - self._inner]

    @property
    def _inner(self) -> int:
        return len(self.intrin.op.reduce_axis)


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class GroupOp(Operation):
    """The name of several stages that are moved together: it makes no tensor itself."""

    @property
    def num_outputs(self) -> int:
        """None: its stages make tensors."""
        return 0


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class ExternOp(Operation):
    """A computation by one statement, from whole inputs (``te.extern`` makes it).

    Attributes:
        inputs: the tensors that it reads.
        input_placeholders: the buffers that stand for them in ``body``.
        output_placeholders: the buffers that stand for what it makes.
        body: the statement.
        tag, attrs: kept for schedules to look at.
    """

    inputs: tuple[Tensor, ...]
    input_placeholders: tuple[Buffer, ...]
    output_placeholders: tuple[Buffer, ...]
    body: Stmt
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def num_outputs(self) -> int:
        """The number of tensors that it makes."""
        return len(self.output_placeholders)

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors it reads, in the order in which they were given."""
        return list(self.inputs)

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        """The extents of the output's buffer."""
        return self.output_placeholders[index].shape

    def output_dtype(self, index: int) -> str:
        """The element type of the output's buffer."""
        return self.output_placeholders[index].dtype


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class HybridOp(ExternOp):
    """A statement whose loops can be scheduled (``te.hybrid.script`` makes it).

    Attributes:
        axis: its loops that begin at 0; a loop stands before those inside it, and of loops one
            after the other the last stands first, as TVM has it.
        chains: the same loops, those together that have nothing between them.
    """

    axis: tuple[IterVar, ...] = field(default=())
    chains: tuple[tuple[IterVar, ...], ...] = ()


class Tensor(ExprOp):
    """A multi-dimensional array, by the operation that makes it; ``A[i, j]`` reads it.

    Two objects for the same output of the same operation are the same tensor: they hash alike.
    """

    __slots__ = ("op", "value_index")

    def __init__(self, op: Operation, value_index: int = 0) -> None:
        self.op = op
        self.value_index = value_index

    @property
    def shape(self) -> tuple[PrimExpr, ...]:
        """Extents, outermost first; constants are :class:`IntImm`, which compares to int."""
        return self.op.output_shape(self.value_index)

    @property
    def dtype(self) -> str:
        """Element type."""
        return self.op.output_dtype(self.value_index)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The operation's name; with a suffix for one of several outputs."""
        many = self.op.num_outputs > 1
        return f"{self.op.name}.v{self.value_index}" if many else self.op.name

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axes of the computation that makes it."""
        return self.op.axis

    def __call__(self, *indices: Any) -> ProducerLoad:
        flat: list[Any] = []
        for i in indices:
            flat.extend(i) if isinstance(i, (tuple, list)) else flat.append(i)
        if any(isinstance(i, slice) or i is Ellipsis for i in flat):
            raise ArgumentError(
                f"{self.name}[...] with a slice",
                "an element has one index for each dimension",
                f"give all {self.ndim} indices: {self._example()}",
            )
        if len(flat) != self.ndim:
            raise ArgumentError(
                f"{self.name}[{', '.join(str(_show(i)) for i in flat)}]",
                f"{len(flat)} indices were given for {self.ndim} dimensions",
                f"shape of {self.name}: ({', '.join(str(_show(d)) for d in self.shape)})",
            )
        exprs = []
        for i, d in zip(flat, self.shape):
            x = ops.convert(i)
            if not dt.is_int(x.dtype):
                raise ArgumentError(
                    f"index {self.name} with a {x.dtype if x.dtype != 'handle' else 'string'}",
                    "indices are integers",
                    "convert it: x.astype('int32')",
                )
            if x.dtype not in ("int32", "int64"):
                # narrow and unsigned arithmetic wraps, that of indices does not
                x = ops.cast("int64" if dt.bits(x.dtype) >= 32 else "int32", x)
            exprs.append(widened(x) if d.dtype == "int64" and x.dtype == "int32" else x)
        return ProducerLoad(self, tuple(exprs), self.dtype)

    def __getitem__(self, indices: Any) -> Any:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) < self.ndim or any(isinstance(i, slice) for i in given):
            return TensorSlice(self, given)
        return self(*given)

    def __whet_expr__(self) -> PrimExpr:
        if self.ndim == 0:
            return self()
        raise ArgumentError(
            f"use the tensor {self.name} in an expression",
            "only its elements can be computed with",
            f"index it: {self._example()}",
        )

    def __iter__(self) -> Iterator[Tensor]:  # as checkers see `a, b = te.compute(...)`
        raise ArgumentError(
            f"iterate over the tensor {self.name}",
            "its elements are computed in the kernel, there are none yet",
            f"index it: {self._example()}",
        )

    def _example(self) -> str:
        return f"{self.name}[{', '.join('ijklmn'[k % 6] for k in range(self.ndim))}]"

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return self.op is other.op and self.value_index == other.value_index
        return NotImplemented

    def __ne__(self, other: Any) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def same_as(self, other: Any) -> bool:
        """True if ``other`` is the same output of the same operation."""
        return isinstance(other, Tensor) and bool(self == other)

    def __repr__(self) -> str:
        dims = ", ".join(str(_show(d)) for d in self.shape)
        return f"Tensor(shape=[{dims}], dtype={self.dtype}, name={self.name})"


def _whole(method: str, operator: str, swapped: bool = False) -> Callable[..., Any]:
    """A method for an operator: of elements for tensors without axes, else ``topi``'s."""
    of_elements = getattr(ExprOp, method)

    def run(self: Tensor, *other: Any) -> Any:
        if not any(isinstance(x, Tensor) and x.ndim for x in (self, *other)):
            return of_elements(self, *other)
        function = late.whole_tensor_operator(operator)
        return function(*other, self) if swapped else function(self, *other)

    run.__name__ = method
    run.__doc__ = f"``topi.{operator}`` of whole tensors."
    return run


for _method, _operator in (
    ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"),
    ("floordiv", "floor_divide"), ("mod", "floor_mod"),
):  # fmt: skip
    setattr(Tensor, f"__{_method}__", _whole(f"__{_method}__", _operator))
    setattr(Tensor, f"__r{_method}__", _whole(f"__r{_method}__", _operator, swapped=True))
for _method, _operator in (
    ("__and__", "bitwise_and"), ("__or__", "bitwise_or"), ("__xor__", "bitwise_xor"),
    ("__lshift__", "left_shift"), ("__rshift__", "right_shift"), ("__lt__", "less"),
    ("__le__", "less_equal"), ("__gt__", "greater"), ("__ge__", "greater_equal"),
    ("__neg__", "negative"), ("__invert__", "bitwise_not"), ("astype", "cast"),
):  # fmt: skip
    setattr(Tensor, _method, _whole(_method, _operator))


class TensorSlice(ExprOp):
    """A tensor with its first indices given: ``A[i]``, to be indexed on: ``A[i][j]``.

    With slices, ``A[i, 0:16]``, it is a region for an instruction
    (:func:`te.decl_tensor_intrin`), and no value.
    """

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, more: Any) -> Any:
        return self.tensor[(*self.indices, *(more if isinstance(more, tuple) else (more,)))]

    def __iter__(self) -> Iterator[Any]:
        return self.tensor.__iter__()

    @property
    def dtype(self) -> str:
        """Element type of the tensor."""
        return self.tensor.dtype

    def __whet_expr__(self) -> PrimExpr:
        return self.tensor(*self.indices)


def _show(x: Any) -> Any:
    from whet.compiler.tir.printer import expr_text

    if isinstance(x, IterVar):
        return x.var.name
    return expr_text(x) if isinstance(x, PrimExpr) else x
