"""Graphs that differ in their extents only are one family: the shapes of one template."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whet.compiler.errors import SpaceError
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.identity import identity_of
from whet.search_spaces.graph.stages import TILED
from whet.search_spaces.graph.stored_graph import loaded, stored
from whet.search_spaces.graph.template import (
    CONTRACTIONS,
    INSTRUCTIONS,
    OTHERS,
    VERSION,
    rules_version,
    schedule_graph,
    uses_instructions,
)
from whet.search_spaces.template import Template, register
from whet.search_spaces.template.config_scope import get_config
from whet.search_spaces.values import Workload
from whet.search_spaces.values.instructions import declared

PREFIX = "graph/"
"""The beginning of derived templates' names; the rest is for people."""

_families: dict[str, Template] = {}


@dataclass(eq=False)
class Family:
    """The function of a derived template: from extents to a schedule, for the graphs it was told.

    A graph cannot be made again from its extents alone: what computes them is code. So a family
    knows those graphs that ``create_task`` was given in this process, or that the driver sent.

    Attributes:
        name: the template's name.
        graphs: the numbers that a graph's identity leaves out -> the graph.
    """

    name: str
    graphs: dict[tuple[int, ...], ComputeGraph] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.__qualname__ = type(self).__qualname__

    def __call__(self, *extents: int) -> tuple[Schedule, list[Tensor]]:
        """The schedule of the graph of these extents under the config in force."""
        graph = self.graphs[extents]
        get_config().add_flop(graph.flop)
        return schedule_graph(graph)

    @property
    def version(self) -> int:
        """The version of the rules for the target in force that schedule such graphs."""
        if any(map(uses_instructions, self.graphs.values())):
            return INSTRUCTIONS
        groups = (group for graph in self.graphs.values() for group in graph.groups)
        return rules_version(CONTRACTIONS if any(g.role == TILED for g in groups) else OTHERS)

    @property
    def modules(self) -> set[str]:
        """The modules of the instructions that go to workers with its graphs."""
        used = (one for graph in self.graphs.values() for one in graph.instructions)
        functions = (getattr(one.make, "func", one.make) for one in used)  # a partial's
        return {str(getattr(f, "__module__", "")) for f in functions}

    def known(self, extents: tuple) -> tuple:
        """The extents, if there is a graph of them.

        Raises:
            SpaceError: there is none.
        """
        if extents in self.graphs:
            return extents
        raise SpaceError(
            f"{Workload(self.name, extents)}",
            "its compute graph is not known in this process, only its name and its extents",
            "run the code that makes it: whet.create_task(outputs=[...])\nknown here: "
            + (", ".join(map(str, self.graphs)) or "(none)"),
        )

    def __reduce__(self) -> tuple:
        return Family, (self.name, dict(self.graphs))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Earlier versions pickled the attributes alone."""
        self.__init__(**state)  # type: ignore[misc]


def derived(outputs: list[Tensor], args: list[Tensor], label: str) -> tuple[Template, Workload]:
    """The template of a graph, and its workload.

    The template has this graph's tensors, and goes to workers with this graph alone. By its name,
    this process knows a template of all the family's graphs that were made in it.

    Args:
        outputs: what is computed.
        args: what the kernel takes; all inputs and outputs are among them.
        label: the readable part of the name.
    """
    identity = identity_of(outputs, args)
    name = f"{PREFIX}{label}/{identity.digest}"
    graph = ComputeGraph(outputs, args, instructions=declared())
    shared = _families.get(name)
    if shared is None:
        shared = _families[name] = _template(name)
    register(shared, replace=True)
    # The first one stays: a graph that is made again computes the same.
    shared.func.graphs.setdefault(identity.numbers, graph)  # type: ignore[attr-defined]
    own = _template(name)
    own.func.graphs[identity.numbers] = graph  # type: ignore[attr-defined]
    return own, Workload(name, identity.numbers)


def graph_data(template: Template, workload: Workload) -> dict[str, Any] | None:
    """The compute graph of a derived workload as JSON-able data, for a log.

    None for any other template, and where the graph calls code or is an extern statement.
    """
    graph = template.func.graphs.get(workload.args) if isinstance(template.func, Family) else None
    return None if graph is None else stored(graph.outputs, graph.args)


def from_data(workload: Workload, data: Any) -> Template:
    """The derived template of a workload whose graph a log holds.

    Args:
        workload: whose it is.
        data: from :func:`graph_data`, as it was read.

    Raises:
        SpaceError: the data is no graph, or another one than the workload's.
    """
    label = workload.template.removeprefix(PREFIX).rpartition("/")[0]
    template, found = derived(*loaded(data), label)
    if found != workload:
        raise SpaceError(
            f"the stored compute graph of {workload}",
            f"it is the graph of {found.key}, not of {workload.key}",
            "name the task in the code that makes it",
        )
    return template


def _template(name: str) -> Template:
    family = Family(name)
    return Template(name, family, VERSION, family.known)
