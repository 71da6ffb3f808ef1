"""Named templates of compute graphs: a function says what to compute, the rules say how.

    @graph_template("softmax", SHAPE, AXIS, DTYPE)
    def softmax(shape, axis=-1, dtype="float32"):
        X = te.placeholder(shape, dtype, name="X")
        return [X], [topi.nn.softmax(X, axis)]

Unlike a task of ``create_task(outputs=...)``, such a template can be made again from a log: its
name and its arguments say all.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from whet.compiler.errors import SpaceError
from whet.compiler.target import Target
from whet.compiler.te.lang.compute import placeholder
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.topi.half_precision import stored, widened
from whet.search_spaces.graph.canonical_args import DTYPE, SHAPE, Kind, canonical_arguments
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.template import (
    OPERATORS,
    OTHERS,
    VERSION,
    rules_version,
    schedule_graph,
)
from whet.search_spaces.template import Template, template
from whet.search_spaces.template.config_scope import get_config

Make = Callable[..., tuple[list[Tensor], list[Tensor]] | ComputeGraph]

# A version of the template and one of the rules are one number.
_VERSIONS = 1000
# What rules find out about a graph is kept with it; a run looks at few shapes at a time.
_GRAPHS_KEPT = 64


class NamedGraph:
    """The function of a named template: from its arguments to a schedule.

    Args:
        make: from the arguments in canonical form to ``(inputs, outputs)``, or to the graph.
        version: of what it computes.
        operator: whether it is a GEMM or a convolution, whose rules have a version of their own.
    """

    def __init__(self, make: Make, version: int = 1, operator: bool = False) -> None:
        functools.update_wrapper(self, make)
        self._make = make
        self._version = version
        self._operator = operator
        self.graph = functools.lru_cache(maxsize=_GRAPHS_KEPT)(self._graph)

    def __call__(self, *args: Any) -> tuple[Schedule, list[Tensor]]:
        """The schedule of the graph of these arguments under the config in force."""
        target = Target.current(allow_none=True)
        graph = self.graph("" if target is None else str(target.kind), *args)
        if graph.given_flop is not None:
            get_config().add_flop(graph.given_flop)
        return schedule_graph(graph)

    def _graph(self, kind: str, *args: Any) -> ComputeGraph:
        """The compute graph of these arguments.

        Args:
            kind: of the target in force, which may refuse an element type.

        Raises:
            SpaceError: the function does not return ``(inputs, outputs)``.
            ArgumentError: what it returns cannot be computed, or what it raises itself.
        """
        result = self._make(*args)
        if isinstance(result, ComputeGraph):
            return result
        if not isinstance(result, tuple) or len(result) != 2:
            raise SpaceError(
                f"graph template {self.__qualname__}{args}",
                f"it returned a {type(result).__name__}",
                "a graph template returns ([inputs], [outputs])",
            )
        # with numpy, which finding a config in a log has no need of
        from whet.search_spaces.graph.validate_outputs import validate

        inputs, outputs = (list(part) for part in result)
        return ComputeGraph(*validate(outputs, [*inputs, *outputs]))

    def __reduce__(self) -> tuple:
        return NamedGraph, (self._make, self._version, self._operator)

    @property
    def version(self) -> int:
        """The version of what it computes, and of the rules for the target in force."""
        return self._version + _VERSIONS * rules_version(OPERATORS if self._operator else OTHERS)


def graph_version(version: int) -> int:
    """The version of a template of this version whose graph the rules schedule."""
    return version + _VERSIONS * VERSION


def graph_template(name: str, *kinds: Kind, version: int = 1) -> Callable[[Make], Template]:
    """Decorator that makes a named template of a function that says what to compute.

    Args:
        name: the template's name, for workloads and records.
        kinds: for each parameter what it is (:mod:`whet.search_spaces.graph.canonical_args`):
            checks it, and gives several spellings of one computation one form.
        version: raise it when the function computes something else. The version of the rules is
            added to it.

    The function takes positional arguments that JSON can hold and returns ``(inputs, outputs)``,
    lists of tensors of known extents; the kernel takes the inputs, then the outputs.

    Raises:
        SpaceError: as :func:`whet.search_spaces.template` does.
    """

    def decorate(make: Make) -> Template:
        canonical = canonical_arguments(name, list(inspect.signature(make).parameters), kinds)
        made = template(name, version=graph_version(version), canonical=canonical)
        return made(NamedGraph(make, version))

    return decorate


def tensor_template(
    name: str, *kinds: Kind, shape: Kind = SHAPE, dtype: Kind = DTYPE, wide: bool = False
) -> Callable[[Callable[..., Tensor]], Template]:
    """Decorator that makes a named template of a function of one tensor, ``X``, and its options.

    The template's arguments are the tensor's shape, the function's other parameters, and the
    element type.

    Args:
        name: the template's name.
        kinds: for each parameter behind the tensor what it is.
        shape, dtype: the kinds of the tensor's shape and of its element type.
        wide: whether float16 is computed in float32, and rounded at the end.
    """

    def decorate(compute: Callable[..., Tensor]) -> Template:
        @functools.wraps(compute)
        def make(extents: tuple, *options: Any) -> tuple[list[Tensor], list[Tensor]]:
            *given, kind = options
            X = placeholder(extents, kind, name="X")
            result = compute(widened(X) if wide else X, *given)
            return [X], [stored(result, kind) if wide else result]

        first, *others = inspect.signature(compute).parameters.values()
        last = inspect.Parameter("dtype", first.kind, default="float32")
        make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [first.replace(name="shape", annotation=first.empty), *others, last]
        )
        return graph_template(name, shape, *kinds, dtype)(make)

    return decorate
