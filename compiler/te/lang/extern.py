"""te.extern: tensors that a statement computes, or a function that it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.compute import checked_attrs, checked_name, dimensions, element_type
from whet.compiler.te.lang.tag import chosen_tag
from whet.compiler.te.lang.tensor import ExternOp, Tensor
from whet.compiler.tir.blocks.lower import without_blocks
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import IntImm, PrimExpr
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import Evaluate, Stmt


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """Tensors that a statement of the loop IR makes of other tensors, as wholes.

    >>> A = te.placeholder((8,), name="A")
    >>> B = te.extern((8,), [A], lambda ins, outs: tir.call_packed("double", ins[0], outs[0]))
    >>> print(lower(te.create_schedule(B.op), [A, B]))
    def main(A: float32[8], extern: float32[8]):
        call_packed('double', view(A, (8,)), view(extern, (8,)))

    Args:
        shape: of the one output, or a list of shapes, one for each output.
        inputs: what it reads.
        fcompute: from the buffers of inputs and outputs to a statement (``tir.ir_builder``), or to
            a call (``tir.call_packed``).
        name: name of the operation.
        dtype: of the output, or a list of them; that of the inputs where they agree.
        in_buffers, out_buffers: buffers to use for inputs and outputs, e.g. with symbolic strides
            (``tir.decl_buffer``), to which the real ones are given.
        tag, attrs: kept with the operation, for schedules to look at.

    Returns:
        A tensor, or a list of tensors.

    Raises:
        ArgumentError: for arguments that do not fit each other.
    """
    name = checked_name(name, "extern(...)")
    request = f"extern({name})"
    tag, attrs = chosen_tag(tag, request), checked_attrs(attrs, request)
    read = _tensors(inputs, request)
    shapes = _shapes(shape, request)
    ins = _inputs(read, in_buffers, request)
    outs = _outputs(shapes, read, dtype, out_buffers, name, request)
    if not callable(fcompute):
        raise ArgumentError(request, f"fcompute is a {type(fcompute).__name__}, not a function")
    body = fcompute(list(ins), list(outs))
    if isinstance(body, PrimExpr):
        body = Evaluate(body)
    if not isinstance(body, Stmt):
        raise ArgumentError(
            request,
            f"fcompute returned a {type(body).__name__}",
            "return a statement, e.g. ib.get(), or a call: tir.call_packed(name, *ins, *outs)",
        )
    op = ExternOp(name, read, ins, outs, body, tag, attrs)
    tensors = [op.output(k) for k in range(op.num_outputs)]
    return tensors[0] if len(tensors) == 1 else tensors


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc, **options: Any) -> Any:
    """The outputs of a function of loop IR that reads ``input_tensors``.

    Its first parameters are the inputs, the others are outputs.

    Args:
        input_tensors: one for each of the first parameters.
        primfunc: a function that has not been lowered.
        options: ``name``, ``tag`` and ``attrs``, as :func:`extern` takes them.

    Raises:
        ArgumentError: if the tensors do not fit the parameters.
    """
    request = "extern_primfunc(...)"
    if not isinstance(primfunc, PrimFunc):
        raise ArgumentError(request, f"a {type(primfunc).__name__} is not a PrimFunc")
    primfunc = without_blocks(primfunc)
    params = [p for p in primfunc.params if isinstance(p, Buffer)]
    read = _tensors(input_tensors, request)
    if len(params) != len(primfunc.params) or len(params) <= len(read):
        raise ArgumentError(
            request,
            f"the function has {len(primfunc.params)} parameters, {len(params)} of them buffers, "
            f"for {len(read)} inputs",
            "its parameters are buffers: the inputs first, then the outputs",
        )
    ins, outs = params[: len(read)], params[len(read) :]
    return extern(
        [b.shape for b in outs],
        read,
        lambda ins, outs: primfunc.body,
        dtype=[b.dtype for b in outs],
        in_buffers=ins,
        out_buffers=outs,
        **options,
    )


def _tensors(inputs: Any, request: str) -> tuple[Tensor, ...]:
    many = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    for t in many:
        if not isinstance(t, Tensor):
            raise ArgumentError(
                request, f"the input {t!r} is a {type(t).__name__}, not a tensor", "inputs=[A, B]"
            )
    return tuple(many)


def _shapes(shape: Any, request: str) -> list[tuple[PrimExpr, ...]]:
    """One shape for each output: a list of shapes, or a single one."""
    if isinstance(shape, (list, tuple)) and any(isinstance(x, (list, tuple)) for x in shape):
        return [dimensions(x, request) for x in shape]
    return [dimensions(shape, request)]


def _inputs(read: tuple[Tensor, ...], given: Any, request: str) -> tuple[Buffer, ...]:
    if given is None:
        return tuple(Buffer(t.name, t.shape, t.dtype) for t in read)
    buffers = _buffers(given, "in_buffers", len(read), request)
    for t, b in zip(read, buffers):
        _check_fit(b, t.shape, t.dtype, t.name, request)
    return buffers


def _outputs(
    shapes: list[tuple[PrimExpr, ...]],
    read: tuple[Tensor, ...],
    dtype: Any,
    given: Any,
    name: str,
    request: str,
) -> tuple[Buffer, ...]:
    if given is not None:
        buffers = _buffers(given, "out_buffers", len(shapes), request)
        for k, (b, dims) in enumerate(zip(buffers, shapes)):
            _check_fit(b, dims, b.dtype, f"output {k}", request)
        return buffers
    if dtype is None:
        kinds = sorted({t.dtype for t in read})
        if len(kinds) != 1:
            raise ArgumentError(
                request,
                f"the inputs are of {' and '.join(kinds) or 'no type'}, "
                "which does not say what the outputs are",
                "give dtype=, one for each output",
            )
        types = kinds * len(shapes)
    else:
        types = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype]
        types = types * len(shapes) if len(types) == 1 else types
    if len(types) != len(shapes):
        raise ArgumentError(request, f"{len(types)} types were given for {len(shapes)} outputs")
    return tuple(
        Buffer(name if len(shapes) == 1 else f"{name}.v{k}", dims, element_type(kind, request))
        for k, (dims, kind) in enumerate(zip(shapes, types))
    )


def _buffers(given: Any, which: str, count: int, request: str) -> tuple[Buffer, ...]:
    many = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for b in many:
        if not isinstance(b, Buffer):
            raise ArgumentError(
                request, f"{which} holds a {type(b).__name__}", "make buffers with tir.decl_buffer"
            )
    if len(many) != count:
        raise ArgumentError(request, f"{which} holds {len(many)} buffers for {count} tensors")
    if len({id(b) for b in many}) != count:
        raise ArgumentError(request, f"{which} holds a buffer twice", "declare one for each tensor")
    return many


def _check_fit(b: Buffer, shape: tuple[PrimExpr, ...], dtype: str, what: str, request: str) -> None:
    if len(b.shape) != len(shape):
        raise ArgumentError(
            request, f"the buffer {b.name} has {len(b.shape)} dimensions, {what} has {len(shape)}"
        )
    if b.dtype != dtype:
        raise ArgumentError(request, f"the buffer {b.name} holds {b.dtype}, {what} is {dtype}")
    for d, (x, y) in enumerate(zip(b.shape, shape)):
        if isinstance(x, IntImm) and isinstance(y, IntImm) and x.value != y.value:
            raise ArgumentError(
                request,
                f"dimension {d} of the buffer {b.name} is {x.value}, that of {what} {y.value}",
            )
