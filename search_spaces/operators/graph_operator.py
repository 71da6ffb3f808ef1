"""Templates of GEMMs and convolutions that say what to compute; rules schedule it.

@graph_operator("N K M dtype epilogue packed")
def dense(**given): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler.te import Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.graph.canonical_args import Kind
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.graph_templates import NamedGraph, graph_version
from whet.search_spaces.operators.arguments import accumulated, canonical_operator
from whet.search_spaces.template import Template, template


def graph_operator(
    arguments: str, *, version: int = 1, rank: int = 0, **kinds: Kind
) -> Callable[[Callable[..., ComputeGraph]], Template]:
    """Decorator that makes a template of a function of keyword arguments, under its name.

    Args:
        arguments, rank, kinds: as for
            :func:`~whet.search_spaces.operators.arguments.canonical_operator`.
        version: raise it when the function computes something else.
    """

    def decorate(function: Callable[..., ComputeGraph]) -> Template:
        run, canonical = canonical_operator(function, arguments, rank, kinds)
        made = template(function.__name__, version=graph_version(version), canonical=canonical)
        return made(NamedGraph(run, version, operator=True))

    return decorate


def after_epilogue(
    plain: Tensor,
    epilogue: Any,
    channel_axis: int | Sequence[int],
    inputs: Sequence[Tensor],
    flop: int,
) -> ComputeGraph:
    """The graph of a result after an epilogue.

    Args:
        plain: the result before it.
        epilogue, channel_axis: as for ``Epilogue.of`` and ``Epilogue.apply``.
        inputs: of the kernel, before those of the epilogue; the first one has the type that
            results are stored as, those of int8 aside.
        flop: operations of the result before it.
    """
    _, stored = accumulated(inputs[0].dtype)
    out, extras = Epilogue.of(epilogue).apply(plain, channel_axis, stored=stored)
    return ComputeGraph([out], [*inputs, *extras, out], flop)
