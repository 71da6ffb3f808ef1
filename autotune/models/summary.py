"""The groups of a model as rows: what a table or a drawing says of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from whet.autotune.models.kernels import group_tasks
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.kinds import Kind, kind_of
from whet.compiler.graph.views import Views, views
from whet.compiler.target import Target
from whet.search_spaces.template.config_scope import resolved_in_force


@dataclass(frozen=True)
class GroupRow:
    """A group of a model.

    Attributes:
        operators: that it computes, in order.
        kind: of its loops, the hardest one's.
        origins: what its nodes were in the model's file.
        inputs: the values that it reads, constants left out; of a view, the values that it shows.
        outputs: the values that it makes.
        flop: its arithmetic operations.
        moved: bytes of its arguments.
        task: the key of its task: groups with one key share a kernel.
        tuned_by: where its config comes from; None: no log was asked.
        seconds: of a call, where it was measured.
    """

    operators: tuple[str, ...]
    kind: Kind
    origins: tuple[str, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    flop: int
    moved: int
    task: str
    tuned_by: TunedBy | None
    seconds: float | None = None

    @property
    def is_tuned(self) -> bool:
        """True where a record of a log chose its config."""
        return self.tuned_by is not None and self.tuned_by.is_tuned

    @property
    def source(self) -> str:
        """Where its config comes from, in a few words."""
        by = self.tuned_by
        if by is None or by.trial is None:
            return "default"
        return f"{by.how}: trial {by.trial[1]} of run {by.trial[0]}"


def group_rows(graph: Graph, target: Target) -> list[GroupRow]:
    """The groups of a graph in the order in which they run; no kernel is built.

    Args:
        graph: after its passes.
        target: canonical; configs are those in force for it.
    """
    seen = views(graph)
    rows = []
    for g in group_tasks(graph, target):
        with target:
            by = resolved_in_force(g.task.workload).tuned_by
        nodes = g.group.nodes
        kinds = [k for k in map(kind_of, nodes) if k is not Kind.OPAQUE]
        read = list(dict.fromkeys(s for v in g.group.inputs for s in _sources(graph, seen, v)))
        rows.append(
            GroupRow(
                operators=tuple(n.operator for n in nodes),
                kind=max(kinds, default=Kind.OPAQUE),
                origins=tuple(n.origin for n in nodes if n.origin),
                inputs=tuple(v for v in read if v not in graph.constants),
                outputs=g.group.outputs,
                flop=g.task.flop,
                moved=sum(v.bytes for v in g.args),
                task=g.task.key,
                tuned_by=by,
            )
        )
    return rows


def _sources(graph: Graph, seen: Views, v: Value) -> list[Value]:
    """The values of kernels, inputs and constants that a value is or shows."""
    made = graph.producers.get(v)
    if made is None or made not in seen.nodes:
        return [v]
    return [s for x in made.reads for s in _sources(graph, seen, x)]


def timed_rows(rows: Sequence[GroupRow], seconds: Sequence[float]) -> list[GroupRow]:
    """Rows with the measured seconds of each."""
    return [replace(r, seconds=s) for r, s in zip(rows, seconds, strict=True)]


def shares(rows: Sequence[GroupRow]) -> list[float] | None:
    """Each row's part of the time, of 1; None where none was measured."""
    times = [r.seconds for r in rows if r.seconds is not None]
    if len(times) < len(rows) or not times:
        return None
    return [t / (sum(times) or 1) for t in times]
