"""An instruction called within te.compute: ``lambda i: intrin(A[i, 0:16], B[i, 0:16])``.

The operation is a computation as others are: that of the instruction, with the regions that it was
given in place of its inputs. Its last axes, which the function does not take, are the tile's; its
stage begins with the tile innermost and tensorized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.tensor import Tensor, TensorComputeOp, TensorSlice
from whet.compiler.tir.expr import (
    COMM_REDUCE,
    IterVar,
    PrimExpr,
    ProducerLoad,
    Reduce,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import Rewriter

_FORM = "intrin(A[i, 0:16], B[i, 0:16]), or with reduce_axis=k"
Region = list[tuple[PrimExpr, PrimExpr]]
"""The first index and the extent along each dimension of a tensor."""


@dataclass(slots=True, eq=False, frozen=True)
class IntrinCall:
    """What ``intrin(...)`` gives, for ``te.compute`` to make an operation of.

    Attributes:
        intrin: the instruction.
        inputs: a tensor and its region for each of the instruction's inputs.
        scalars: values of its scalar parameters.
        reduce_axis: axes over which the instruction's results are combined.
    """

    intrin: Any
    inputs: tuple[tuple[Tensor, Region], ...]
    scalars: tuple[PrimExpr, ...]
    reduce_axis: tuple[IterVar, ...]

    def as_operation(
        self, name: str, axis: Sequence[IterVar], outer: int, tag: str, attrs: dict[str, Any]
    ) -> TensorComputeOp:
        """The operation over ``axis``, of which the first ``outer`` are the function's.

        Raises:
            ArgumentError: the other axes are not what the instruction computes.
        """
        op, inner = self.intrin.op, axis[outer:]
        request = f"compute({name}) of {self.intrin.name}"
        lead = len(op.axis) - len(inner)
        sizes = [a.domain.extent for a in op.axis]
        if lead < 0 or not _alike([ops.const(1)] * lead + [a.domain.extent for a in inner], sizes):
            raise ArgumentError(
                request,
                f"it computes {_shape(sizes)}, and the dimensions that the function does not take "
                f"are {_shape([a.domain.extent for a in inner])}",
                "the last dimensions of the shape are the instruction's",
            )
        values: dict[Var, PrimExpr] = dict(zip(self.intrin.scalar_params, self.scalars))
        values |= {a.var: ops.const(0) for a in op.axis[:lead]}
        values |= {a.var: b.var for a, b in zip(op.axis[lead:], inner)}
        sums = tuple(IterVar(a.dom, Var(a.name, a.dtype), COMM_REDUCE) for a in op.reduce_axis)
        values |= {a.var: b.var for a, b in zip(op.reduce_axis, sums)}
        read = self._reader(values)
        over = (*self.reduce_axis, *sums)
        body = tuple(_over(n, over, read) if isinstance(n, Reduce) else read(n) for n in op.body)
        loops = (*axis[:outer], *self.reduce_axis, *inner, *sums)
        return TensorComputeOp(name, tuple(axis), over, body, tag, attrs, self.intrin, loops, outer)

    def _reader(self, values: dict[Var, PrimExpr]) -> Rewriter:
        """What puts the regions in place of the instruction's inputs."""
        regions = dict(zip(self.intrin.inputs, self.inputs))

        def load(n: ProducerLoad) -> PrimExpr:
            n = rewrite.children(n)
            tensor, region = regions[n.producer]
            lead = len(region) - len(n.indices)
            offsets = [ops.const(0)] * lead + list(n.indices)
            return tensor(*(first + k for (first, _), k in zip(region, offsets)))

        rewrite = Rewriter({ProducerLoad: load, Var: lambda v: values.get(v, v)})
        return rewrite


def called(intrin: Any, args: Sequence[Any], reduce_axis: Any) -> IntrinCall:
    """An instruction on regions of tensors.

    Args:
        intrin: what ``te.decl_tensor_intrin`` gave.
        args: parts of tensors, e.g. ``A[i, 0:16]``, in the order of its inputs; and the values of
            its scalar parameters.
        reduce_axis: an axis, or several.

    Raises:
        ArgumentError: they do not fit the instruction.
    """
    request = f"{intrin.name}(...)"
    many = (TensorSlice, Tensor)
    given = [x for x in args if isinstance(x, many)]
    scalars = tuple(ops.convert(x) for x in args if not isinstance(x, many))
    if len(given) != len(intrin.inputs) or len(scalars) != len(intrin.scalar_params):
        raise ArgumentError(
            request,
            f"it reads {len(intrin.inputs)} tensors and has {len(intrin.scalar_params)} scalar "
            f"parameters, and {len(given)} parts of tensors and {len(scalars)} scalars were given",
            _FORM,
        )
    over = reduce_axis if isinstance(reduce_axis, (list, tuple)) else [reduce_axis]
    over = [] if reduce_axis is None else list(over)
    for a in over:
        if not isinstance(a, IterVar) or a.iter_type != COMM_REDUCE:
            raise ArgumentError(request, f"{a!r} is no te.reduce_axis", _FORM)
    if over and not isinstance(intrin.op.body[0], Reduce):
        raise ArgumentError(
            request,
            f"{intrin.op.name} is no reduction: results are not combined over {over[0].name}",
            "declare it with a te.sum over an axis of its own, and (body, reset, update)",
        )
    inputs = []
    for t, part in zip(intrin.inputs, given):
        tensor, region = _region(part, request)
        lead = len(region) - t.ndim
        sizes = [ops.const(1)] * lead + list(t.shape)
        if lead < 0 or not _alike([extent for _, extent in region], sizes):
            raise ArgumentError(
                request,
                f"its input {t.name} is {_shape(t.shape)}, and the part of {tensor.name} is "
                f"{_shape([extent for _, extent in region])}",
                "a slice along each of its dimensions, e.g. A[i, 0:16]",
            )
        if tensor.dtype != t.dtype:
            raise ArgumentError(
                request, f"its input {t.name} is {t.dtype}, {tensor.name} is {tensor.dtype}"
            )
        inputs.append((tensor, region))
    return IntrinCall(intrin, tuple(inputs), scalars, tuple(over))


def _region(part: Tensor | TensorSlice, request: str) -> tuple[Tensor, Region]:
    """The tensor, and where in it a part is."""
    if isinstance(part, Tensor):
        part = TensorSlice(part, ())
    tensor, rest = part.tensor, part.tensor.ndim - len(part.indices)
    region: Region = []
    for index, size in zip((*part.indices, *[slice(None)] * rest), tensor.shape):
        if not isinstance(index, slice):
            region.append((ops.convert(index), ops.const(1)))
            continue
        if index.step not in (None, 1):
            raise ArgumentError(request, f"a slice of {tensor.name} has the step {index.step}")
        first = ops.convert(0 if index.start is None else index.start)
        end = size if index.stop is None else ops.convert(index.stop)
        region.append((first, Analyzer().simplify(end - first)))
    return tensor, region


def _over(n: Reduce, axis: tuple[IterVar, ...], read: Rewriter) -> Reduce:
    """The reduction over more axes, of the regions."""
    source, init = (tuple(map(read, x)) for x in (n.source, n.init))
    return Reduce(n.combiner, source, axis, read(n.condition), n.value_index, n.dtype, init)


def _alike(one: Sequence[PrimExpr], other: Sequence[PrimExpr]) -> bool:
    return len(one) == len(other) and all(map(Analyzer().can_prove_equal, one, other))


def _shape(sizes: Sequence[Any]) -> str:
    from whet.compiler.tir.printer import expr_text

    return f"({', '.join(map(expr_text, sizes))})"
