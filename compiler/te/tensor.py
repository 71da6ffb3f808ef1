"""Tensors and the operations that make them: placeholders and computations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import ops


@dataclass(slots=True, eq=False, frozen=True)
class Operation:
    """What computes one or several tensors; never changed after it is made."""

    name: str

    @property
    def num_outputs(self) -> int:
        """How many tensors it makes."""
        return 1

    def output(self, index: int) -> Tensor:
        """The tensor number ``index`` that it makes."""
        if not 0 <= index < self.num_outputs:
            raise ArgumentError(
                f"{self.name}.output({index})", f"the operation has {self.num_outputs} outputs"
            )
        return Tensor(self, index)

    @property
    def axis(self) -> tuple[e.IterVar, ...]:
        """The axes of what it makes; none for an input."""
        return ()

    @property
    def reduce_axis(self) -> tuple[e.IterVar, ...]:
        """The axes that it reduces over."""
        return ()

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors it reads, in the order of their first use."""
        return []

    def output_shape(self, index: int) -> tuple[e.PrimExpr, ...]:
        """The shape of output ``index``."""
        raise NotImplementedError

    def output_dtype(self, index: int) -> str:
        """The element type of output ``index``."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class PlaceholderOp(Operation):
    """An input."""

    shape: tuple[e.PrimExpr, ...]
    dtype: str

    def output_shape(self, index: int) -> tuple[e.PrimExpr, ...]:
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
    axis: tuple[e.IterVar, ...] = field()
    reduce_axis: tuple[e.IterVar, ...] = field()
    body: tuple[e.PrimExpr, ...]
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def num_outputs(self) -> int:
        """How many tensors it makes: one for each expression of the body."""
        return len(self.body)

    @property
    def input_tensors(self) -> list[Tensor]:
        """The tensors it reads, in the order of their first use."""
        from whet.compiler.tir.rewrite import post_order_visit

        found: dict[tuple[Operation, int], Tensor] = {}

        def visit(n: Any) -> None:
            if type(n) is e.ProducerLoad:
                found.setdefault((n.producer.op, n.producer.value_index), n.producer)

        for expression in self.body:
            post_order_visit(expression, visit)
        return list(found.values())

    def output_shape(self, index: int) -> tuple[e.PrimExpr, ...]:
        """The extents of the axes."""
        return tuple(a.dom.extent for a in self.axis if a.dom is not None)

    def output_dtype(self, index: int) -> str:
        """The type of the expression."""
        return self.body[index].dtype


class Tensor(e.ExprOp):
    """A multi-dimensional array, by the operation that makes it; ``A[i, j]`` reads it.

    Two objects for the same output of the same operation are the same tensor: they hash alike.
    """

    __slots__ = ("op", "value_index")

    def __init__(self, op: Operation, value_index: int = 0) -> None:
        self.op = op
        self.value_index = value_index

    @property
    def shape(self) -> tuple[e.PrimExpr, ...]:
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
    def axis(self) -> tuple[e.IterVar, ...]:
        """The axes of the computation that makes it."""
        return self.op.axis

    def __call__(self, *indices: Any) -> e.ProducerLoad:
        flat: list[Any] = []
        for i in indices:
            flat.extend(i) if isinstance(i, (tuple, list)) else flat.append(i)
        if len(flat) != self.ndim:
            raise ArgumentError(
                f"{self.name}[{', '.join(str(_show(i)) for i in flat)}]",
                f"{len(flat)} indices were given for {self.ndim} dimensions",
                f"shape of {self.name}: ({', '.join(str(_show(d)) for d in self.shape)})",
            )
        exprs = []
        for i in flat:
            x = ops.convert(i)
            if not dt.is_int(x.dtype):
                raise ArgumentError(
                    f"index {self.name} with a {x.dtype}",
                    "indices are integers",
                    "convert it: x.astype('int32')",
                )
            if x.dtype not in ("int32", "int64"):
                # narrow and unsigned arithmetic wraps, that of indices does not
                x = ops.cast("int64" if dt.bits(x.dtype) >= 32 else "int32", x)
            exprs.append(x)
        return e.ProducerLoad(self, tuple(exprs), self.dtype)

    def __getitem__(self, indices: Any) -> Any:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) < self.ndim:
            return TensorSlice(self, given)
        return self(*given)

    def __whet_expr__(self) -> e.PrimExpr:
        if self.ndim == 0:
            return self()
        raise ArgumentError(
            f"use the tensor {self.name} in an expression",
            "only its elements can be computed with",
            f"index it: {self.name}[{', '.join('ijklmn'[k % 6] for k in range(self.ndim))}]",
        )

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, Tensor):
            return self.op is other.op and self.value_index == other.value_index
        return NotImplemented

    def __ne__(self, other: Any) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __repr__(self) -> str:
        dims = ", ".join(str(_show(d)) for d in self.shape)
        return f"Tensor(shape=[{dims}], dtype={self.dtype}, name={self.name})"


class TensorSlice:
    """A tensor with its first indices given: ``A[i]``, to be indexed on: ``A[i][j]``."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, more: Any) -> Any:
        return self.tensor[(*self.indices, *(more if isinstance(more, tuple) else (more,)))]

    def __whet_expr__(self) -> e.PrimExpr:
        return self.tensor(*self.indices)


def _show(x: Any) -> Any:
    from whet.compiler.tir.printer import expr_text

    if isinstance(x, e.IterVar):
        return x.var.name
    return expr_text(x) if isinstance(x, e.PrimExpr) else x
