"""Results of contractions with their epilogues: schedules, graphs, and arguments of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.halves import summed_in
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.template import schedule_graph
from whet.search_spaces.operators.arguments import BYTES

Scheduled = tuple[Schedule, list[Tensor]]
"""A schedule, and the arguments of its kernel in order."""


def accumulated(dtype: str) -> tuple[str, str]:
    """The types that a contraction of a stored type is accumulated in, and stored in.

    >>> accumulated("float16"), accumulated("int8")
    (('float32', 'float16'), ('int32', 'int32'))
    """
    return ("int32", "int32") if dtype in BYTES else (summed_in(dtype), dtype)


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
    stored = accumulated(inputs[0].dtype)[1]
    out, extras = epilogue.apply(plain, channel_axis, stored=stored)
    s = te.create_schedule(out.op)
    if out.op is not plain.op:
        s[plain].compute_inline()
    return s, out, [*inputs, *extras, out]


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
    stored = accumulated(inputs[0].dtype)[1]
    out, extras = epilogue.apply(plain, channel_axis, stored=stored)
    arguments = [*inputs, *extras, out]
    return schedule_graph(ComputeGraph([out], arguments))


def refuse_packed(name: str, packed: bool) -> None:
    """An error where weights were to be packed ahead of a GPU's kernel."""
    if packed:
        raise ArgumentError(
            f"packed=True of {name} for a GPU",
            "its kernels copy tiles of an operand into shared memory as they are, packed or not",
            "leave packed out: packed=False",
        )
