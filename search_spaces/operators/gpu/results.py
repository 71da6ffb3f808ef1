"""Results of contractions with their epilogues: schedules, graphs, and arguments of kernels.

A GPU's kernel reads weights as they are. Whether an algorithm packs is its config's affair, so that
``f(x, f.pack_weights(w), y)`` is right for all: where nothing is packed, a copy of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import PlaceholderOp, Schedule, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.template import schedule_graph
from whet.search_spaces.operators.arguments import accumulated
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused

_THREADS = 128

Scheduled = tuple[Schedule, list[Tensor]]
"""A schedule, and the arguments of its kernel in order."""


def versioned(version: int, function: Callable[..., Scheduled]) -> Callable[..., Scheduled]:
    """A function for GPUs with a version of its own: to be raised when its programs change."""
    function.version = version  # type: ignore[attr-defined]
    return function


def with_epilogue(
    plain: Tensor,
    epilogue: Epilogue,
    channel_axis: int | Sequence[int],
    inputs: Sequence[Tensor],
) -> tuple[Schedule, Tensor, list[Tensor]]:
    """The schedule of a result after an epilogue, which is computed as it is stored.

    Args:
        plain: the result before it.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        inputs: of the kernel; the first one has the type that results are stored as.

    Returns:
        The schedule, the tensor that is stored, and the kernel's arguments.
    """
    *_, out = arguments = _after_epilogue(plain, epilogue, channel_axis, inputs)
    s = te.create_schedule(out.op)
    if out.op is not plain.op:
        s[plain].compute_inline()
    return s, out, arguments


def scheduled_as_graph(
    plain: Tensor,
    epilogue: Epilogue,
    channel_axis: int | Sequence[int],
    inputs: Sequence[Tensor],
) -> Scheduled:
    """The schedule, by the rules of graphs, of a result after an epilogue; the kernel's arguments.

    Args:
        plain, epilogue, channel_axis, inputs: as for :func:`with_epilogue`.
    """
    arguments = _after_epilogue(plain, epilogue, channel_axis, inputs)
    return schedule_graph(ComputeGraph(arguments[-1:], arguments))


def _after_epilogue(
    plain: Tensor, epilogue: Epilogue, channel_axis: int | Sequence[int], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """The arguments of a kernel: its inputs, what the epilogue reads, and the result."""
    stored = accumulated(inputs[0].dtype)[1]
    out, extras = epilogue.apply(plain, channel_axis, stored=stored)
    return [*inputs, *extras, out]


def refuse_packed(name: str, packed: bool) -> None:
    """An error where weights were to be packed ahead of a GPU's kernel."""
    if packed:
        raise ArgumentError(
            f"packed=True of {name} for a GPU",
            "its kernels copy tiles of an operand into shared memory as they are, packed or not",
            "leave packed out: packed=False",
        )


def empty_contraction(
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    epilogue: Epilogue,
    channel_axis: int | Sequence[int],
    name: str,
) -> Scheduled:
    """Zeros of a shape after an epilogue; the kernel takes both operands all the same.

    No knobs: a dimension has extent 0, and a sum of nothing is 0.

    Args:
        a, b: the operands, of which one has no elements, or the result has none. A ``b`` that is
            computed is named for elements that there are not, so that the kernel takes it.
        shape: of the result.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
    """
    kind, _ = accumulated(a.dtype)
    zero = te.const(0, kind)

    def element(*index: Any) -> Any:
        if isinstance(b.op, PlaceholderOp):
            return zero
        return te.if_then_else(index[0] < 0, b(*(0 for _ in b.shape)).astype(kind), zero)

    zeros = te.compute(shape, element, name=name)
    s, out, arguments = with_epilogue(zeros, epilogue, channel_axis, [a, b])
    bind_fused(s[out], threads=_THREADS)
    return s, arguments


def with_copied_weights(
    weight: Tensor, packed: bool, schedule: Callable[[Tensor], Scheduled]
) -> Scheduled:
    """A schedule that reads weights, or the copy of them that is made ahead of its calls.

    Args:
        weight: an input.
        packed: whether the kernel takes what ``pack_weights`` returns.
        schedule: makes a schedule, and the kernel's arguments, that reads what it is given.
    """
    if not packed:
        return schedule(weight)
    copy = te.compute(weight.shape, lambda *index: weight(*index), name="packed")
    s, arguments = schedule(copy)
    bind_fused(s[copy])
    s[copy].compute_ahead()
    return s, [weight if t is copy else t for t in arguments]
