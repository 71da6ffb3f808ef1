"""te.decl_tensor_intrin: an instruction on tiles, described by the computation that it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.tir.buffer import Buffer, decl_buffer
from whet.compiler.tir.expr import IntImm, PrimExpr, Reduce, Var
from whet.compiler.tir.stmt import Evaluate, Stmt

if TYPE_CHECKING:
    from whet.compiler.te.lang.intrin_call import IntrinCall


@dataclass(slots=True, eq=False, frozen=True)
class TensorIntrin:
    """Statements that do a small computation on tiles (``te.decl_tensor_intrin`` makes it).

    Attributes:
        name: for people.
        op: the computation.
        inputs: the tensors that it reads.
        buffers: what stands for the inputs and then the outputs in the statements.
        scalar_params: variables of the computation to which each use gives values.
        body: the computation as a whole; None if there is only the reduction in steps.
        reduce_init: sets the output to the reduction's first value; None without one.
        reduce_update: adds one tile's terms to the output; None without a reduction.
    """

    name: str
    op: ComputeOp
    inputs: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    scalar_params: tuple[Var, ...]
    body: Stmt | None
    reduce_init: Stmt | None
    reduce_update: Stmt | None

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers of what it computes."""
        return self.buffers[len(self.inputs) :]

    def __call__(self, *args: Any, reduce_axis: Any = None) -> IntrinCall:
        """The instruction on parts of tensors, for a function of ``te.compute`` to return.

        Args:
            args: a part of a tensor for each input, e.g. ``A[i, 0:16]``; values of the scalar
                parameters.
            reduce_axis: an axis, or several, over which its results are combined.

        Raises:
            ArgumentError: they do not fit the instruction.
        """
        from whet.compiler.te.lang.intrin_call import called

        return called(self, args, reduce_axis)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Sequence[Var] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """An instruction that computes ``op``, for ``Stage.tensorize`` to put in place of loops.

    >>> a = te.placeholder((4,), name="a")
    >>> b = te.compute((4,), lambda i: a[i] * 2.0, name="b")
    >>> def twice(ins, outs):
    ...     return outs[0].vstore(0, ins[0].vload(0, "float32x4") * 2.0)
    >>> te.decl_tensor_intrin(b.op, twice, name="twice")
    TensorIntrin(twice)

    Args:
        op: a computation of ``te.compute`` over placeholders, all extents numbers.
        fcompute: from the buffers of inputs and outputs (and, where there are some, the scalar
            parameters) to a statement, or to three: ``(body, reset, update)``. The body does it
            all; reset sets what a reduction begins with, update adds a tile. Each may be None.
        name: for people.
        binds: tensor of ``op`` -> the buffer that stands for it (``tir.decl_buffer``), e.g. with
            variables as strides; compact ones by default.
        scalar_params: variables that ``op`` uses, each to be matched by a value of the tile.
        default_buffer_params: arguments of ``decl_buffer`` for tensors that ``binds`` leaves out.

    Raises:
        ArgumentError: for a computation of another form, or what is no statement.
    """
    request = f"decl_tensor_intrin({name!r})"
    inputs = _inputs(op, request)
    assert isinstance(op, ComputeOp)
    tensors = (*inputs, *[op.output(k) for k in range(op.num_outputs)])
    buffers = _buffers(tensors, binds or {}, default_buffer_params or {}, request)
    scalars = tuple(scalar_params or ())
    for v in scalars:
        if not isinstance(v, Var):
            raise ArgumentError(
                request, f"the scalar parameter {v!r} is no variable", "te.var(...)"
            )
    if not callable(fcompute):
        raise ArgumentError(request, f"fcompute is a {type(fcompute).__name__}, not a function")
    ins, outs = list(buffers[: len(inputs)]), list(buffers[len(inputs) :])
    made = fcompute(ins, outs, list(scalars)) if scalars else fcompute(ins, outs)
    return TensorIntrin(name, op, inputs, buffers, scalars, *_statements(made, request, op))


def _inputs(op: Any, request: str) -> tuple[Tensor, ...]:
    if not isinstance(op, ComputeOp):
        raise ArgumentError(
            request,
            f"{op!r} is not a computation",
            "op is that of what te.compute gave: c.op",
        )
    for t in op.input_tensors:
        if not isinstance(t.op, PlaceholderOp):
            raise ArgumentError(
                request,
                f"{t.name}, which {op.name} reads, is computed",
                "an instruction is one computation over placeholders",
            )
    for a in (*op.axis, *op.reduce_axis):
        if not isinstance(a.domain.extent, IntImm) or not isinstance(a.domain.min, IntImm):
            raise ArgumentError(
                request,
                f"the extent of its axis {a.name} is {a.domain.extent}, not a number",
                "an instruction works on tiles of one size",
            )
    return tuple(op.input_tensors)


def _buffers(
    tensors: Sequence[Tensor], binds: Mapping[Any, Any], options: Mapping[str, Any], request: str
) -> tuple[Buffer, ...]:
    for t in binds:
        if t not in tensors:
            raise ArgumentError(
                request,
                f"binds names {t!r}, which is no tensor of the computation",
                "tensors: " + ", ".join(x.name for x in tensors),
            )
    out = []
    for t in tensors:
        b = binds.get(t)
        if b is None:
            b = decl_buffer(t.shape, t.dtype, t.op.name, **options)
        if not isinstance(b, Buffer):
            raise ArgumentError(
                request, f"{t.name} is bound to a {type(b).__name__}", "tir.decl_buffer makes one"
            )
        alike = len(b.shape) == t.ndim and all(
            isinstance(x, IntImm) and x.value == int(y) for x, y in zip(b.shape, t.shape)
        )
        if not alike or b.dtype != t.dtype:
            raise ArgumentError(
                request,
                f"{t.name} is {t.dtype}{list(map(int, t.shape))}, its buffer {b}",
                "declare the buffer with the tensor's shape and dtype",
            )
        out.append(b)
    return tuple(out)


def _statements(
    made: Any, request: str, op: ComputeOp
) -> tuple[Stmt | None, Stmt | None, Stmt | None]:
    given = list(made) if isinstance(made, (tuple, list)) else [made]
    many = [Evaluate(x) if isinstance(x, PrimExpr) else x for x in given]
    right = all(x is None or isinstance(x, Stmt) for x in many)
    if not right or not 1 <= len(many) <= 3 or all(x is None for x in many):
        raise ArgumentError(
            request,
            f"fcompute returned {made!r}"
            if len(many) == 1
            else f"fcompute returned {', '.join(type(x).__name__ for x in given) or 'nothing'}",
            "return one statement, e.g. ib.get(), or three: (body, reset, update)",
        )
    body, reset, update = (*many, None, None, None)[:3]
    if not isinstance(op.body[0], Reduce) and body is None:
        raise ArgumentError(
            request, f"{op.name} is no reduction, and there is no body", "return one statement"
        )
    if body is None and (reset is None or update is None):
        raise ArgumentError(
            request,
            f"without a body, {op.name} needs a reset and an update",
            "return (body, reset, update)",
        )
    return body, reset, update
