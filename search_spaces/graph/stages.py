"""The stages of a compute graph and the groups of them that one rule schedules together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from whet.compiler.target import Target
from whet.compiler.te.lang.compute import compute
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.tir.expr import Call, IntImm, IterVar, Select, Var
from whet.compiler.tir.visit.rewrite import nodes
from whet.search_spaces.graph.access import Access, accesses
from whet.search_spaces.graph.cost import cost_of

if TYPE_CHECKING:
    from whet.search_spaces.values.instructions import Instruction

T = TypeVar("T")
_LLVM = Target("llvm")
_AHEAD = "ahead"

INLINE = "inline"  # cheap and injective: computed in its readers
TILED = "tiled"  # a reduction with reuse: matmul, convolution, depthwise convolution
REDUCTION = "reduction"  # one without reuse: row sums, maxima, pooling, argmax
INJECTIVE = "injective"  # materialised: outputs, expensive producers, padded images
OPAQUE = "opaque"  # default loops: extern statements, empty tensors


@dataclass(frozen=True, eq=False)
class Node:
    """One computed stage of a graph, and facts about it.

    Attributes:
        op: what it computes (after a rewrite: as it is computed now).
        index: its place in ``ComputeGraph.nodes``, producers first.
        name: the operation's name, made unique within the graph.
        role: ``"inline"``, ``"tiled"``, ``"reduction"``, ``"injective"`` or ``"opaque"``.
        is_output: whether the kernel's caller gets it.
        readers: places of the nodes that read it.
        inlinable: whether it could be computed in all its readers, cheap or not.
    """

    op: Operation
    index: int
    name: str
    role: str
    is_output: bool
    readers: tuple[int, ...]
    inlinable: bool = False

    @property
    def tensor(self) -> Tensor:
        """Its (first) tensor, by which schedules find the stage."""
        return self.op.output(0)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Extents of what it makes, outermost first."""
        return tuple(int(d) for d in self.op.output_shape(0))

    @cached_property
    def reduce_extents(self) -> tuple[int, ...]:
        """Extents of the axes that it reduces over."""
        return tuple(int_extent(a) for a in self.op.reduce_axis)

    @property
    def points(self) -> int:
        """Elements that it makes."""
        return prod(self.extents)

    @property
    def steps(self) -> int:
        """How often its expression is evaluated: elements times steps of the reduction."""
        return self.points * prod(self.reduce_extents)

    @property
    def dtype(self) -> str:
        """Type of its (first) tensor's elements."""
        return self.op.output_dtype(0)

    @cached_property
    def reads(self) -> tuple[Access, ...]:
        """Every different read with its affine indices; inlined producers are read as tensors."""
        return accesses(self.op) if isinstance(self.op, ComputeOp) else ()

    def few_reads(self, most: int) -> bool:
        """True if each element of the largest operand is read ``most`` times at most."""
        return self.steps <= most * max((read.size for read in self.reads), default=1)

    @cached_property
    def loads(self) -> Counter[Operation]:
        """How many different elements of each producer one evaluation reads."""
        tensors = (a.tensor for a in self.reads)
        return Counter(t.op for t in (tensors if self.reads else self.op.input_tensors))

    @cached_property
    def cost(self) -> int:
        """Arithmetic of one evaluation in simple operations; a call of ``exp`` counts as 10."""
        return cost_of(self.op)

    @cached_property
    def is_guarded(self) -> bool:
        """True if it chooses by a condition what to read: padding, concatenation."""
        return isinstance(self.op, ComputeOp) and any(
            type(n) is Select or (type(n) is Call and n.op == "if_then_else")
            for n in nodes(self.op.body)
        )

    def axis_of(self, variable: Var) -> int | None:
        """The place of a variable among the data axes; None if it is none of them."""
        return next((k for k, a in enumerate(self.op.axis) if a.var is variable), None)

    def __repr__(self) -> str:
        return f"Node({self.name}, {self.role}, {self.extents})"


@dataclass(frozen=True, eq=False)
class Group:
    """Stages that one rule schedules together.

    Attributes:
        anchor: the stage that the group is about.
        consumers: elementwise stages behind the anchor, in order; each reads the one before at its
            own element and has its extents. All but the last are inlined.
        staged: materialised producers that only this group reads (a padded image, an expensive
            ``exp``), producers first. The rule says where they are computed; default: on their own.
        members: stages of the rows that ``last`` is made of, producers first: reductions and what
            is between them (softmax: the maximum, the exponentials, the sum).
        rows: places of the axes of ``last`` that all members have: one step of these loops needs
            one row of every member. Empty without members.
        maps: node's index -> for each of its data axes the place of the axis of ``last`` that it
            is, or None; for members, the anchor and ``last``.
        blocks: axis of ``last`` among ``rows`` -> how many steps of it are one row (group
            normalisation: the channels of a group); an axis that is not there has one.
        prefix: of the knobs' names; empty where the graph has one group.
        expanded: the anchor as its loops compute it: an injective one with the bodies of inlined
            producers in the place of their reads, so that its reads are those of stored tensors.
        inlined: the operations of the graph that are computed in their readers, as they are now.
        notes: by its class, what ``rewrite`` tells ``schedule``; fresh for each config.
        cfg: where knobs are defined and read, under a config.
        target: what is compiled for, under a config.
        memo: what :meth:`once` has worked out; kept as long as the graph.
        instructions: those that a user had declared when the graph was made.
    """

    anchor: Node
    consumers: tuple[Node, ...] = ()
    staged: tuple[Node, ...] = ()
    members: tuple[Node, ...] = ()
    rows: tuple[int, ...] = ()
    maps: Mapping[int, tuple[int | None, ...]] = field(default_factory=dict)
    blocks: Mapping[int, int] = field(default_factory=dict)
    prefix: str = ""
    expanded: Node | None = None
    inlined: frozenset[Operation] = frozenset()
    notes: dict[type, Any] = field(default_factory=dict)
    cfg: Any = None
    target: Target = _LLVM
    memo: dict[Hashable, Any] = field(default_factory=dict)
    instructions: tuple[Instruction, ...] = ()

    @property
    def role(self) -> str:
        """The anchor's role."""
        return self.anchor.role

    @property
    def is_chain(self) -> bool:
        """True for a chain of stages over rows."""
        return bool(self.members) and self.role in (REDUCTION, INJECTIVE)

    @property
    def last(self) -> Node:
        """The stage that stores the group's result: the last consumer, else the anchor."""
        return self.consumers[-1] if self.consumers else self.anchor

    @property
    def inner(self) -> list[Node]:
        """The stages before the last one."""
        return [n for n in (*self.members, self.anchor) if n is not self.last]

    def knob(self, name: str) -> str:
        """The full name of a knob of this group."""
        return self.prefix + name

    def choose(
        self, name: str, choices: Sequence[Any], default: Any, quick: Sequence[Any] | None = None
    ) -> Any:
        """Define a knob of this group; the choice in force."""
        full = self.knob(name)
        self.cfg.define_knob(full, choices, default=default, quick=quick)
        return self.cfg[full].val

    def note(self, note: object) -> None:
        """Leave a note, an object of the rule's own class, for ``schedule``."""
        self.notes[type(note)] = note

    def noted(self, kind: type[T]) -> T:
        """The note of a class that ``rewrite`` has left."""
        return self.notes[kind]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of ``make``, computed once for a graph: it follows from the structure alone.

        Args:
            key: tells it from what else is worked out for the group.
            make: called where it is not known yet.
        """
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def with_ops(self, ops: Mapping[int, Operation], inlined: Iterable[Operation] = ()) -> Group:
        """The group with the operations as they are now.

        Args:
            ops: node's index -> its operation, for those that were rewritten.
            inlined: the operations among them that are computed in their readers.
        """

        def now(*many: Node) -> tuple[Node, ...]:
            given = ((node, ops.get(node.index, node.op)) for node in many)
            return tuple(n if op is n.op else replace(n, op=op) for n, op in given)

        parts = now(*self.consumers), now(*self.staged), now(*self.members)
        (anchor,), (consumers, staged, members) = now(self.anchor), parts
        new = replace(self, anchor=anchor, consumers=consumers, staged=staged, members=members)
        return replace(new, inlined=frozenset(inlined))


def plain_nodes(outputs: Sequence[Tensor]) -> tuple[Node, ...]:
    """The computed stages behind tensors, producers first, without roles yet."""
    ops = [op for op in post_order([t.op for t in outputs]) if not isinstance(op, PlaceholderOp)]
    place = {op: k for k, op in enumerate(ops)}
    readers: list[list[int]] = [[] for _ in ops]
    for k, op in enumerate(ops):
        for t in op.input_tensors:
            if t.op in place and k not in readers[place[t.op]]:
                readers[place[t.op]].append(k)
    wanted = {t.op for t in outputs}
    names = unique([op.name for op in ops], "{}_{}", 1)
    return tuple(
        Node(op, k, names[k], OPAQUE, op in wanted, tuple(readers[k])) for k, op in enumerate(ops)
    )


def unique(names: Sequence[str], form: str, first: int) -> tuple[str, ...]:
    """The names with numbers, from ``first`` on, behind those that were there before.

    >>> unique(["a", "b", "a", "a"], "{}_{}", 1)
    ('a', 'b', 'a_1', 'a_2')
    """
    out: dict[str, None] = {}
    for name in names:
        numbered = (form.format(name, k) for k in count(first))
        out[next(n for n in chain([name], numbered) if n not in out)] = None
    return tuple(out)


def int_extent(axis: IterVar) -> int:
    """The extent of an axis as an int, which pins a traced one."""
    assert axis.dom is not None
    return int(axis.dom.extent)


def extent_of(axis: IterVar) -> int:
    """The extent of an operation's own axis."""
    assert axis.dom is not None and isinstance(axis.dom.extent, IntImm)
    return axis.dom.extent.value  # int() would pin a traced one


def constant_extents(op: Operation) -> bool:
    """True if all axes of a computation run from 0 to a number that is known."""
    axes = (*op.axis, *op.reduce_axis)
    return all(
        a.dom is not None
        and isinstance(a.dom.min, IntImm)
        and a.dom.min.value == 0
        and isinstance(a.dom.extent, IntImm)
        and a.dom.extent.value >= 1
        for a in axes
    )


def computed_ahead(t: Tensor) -> Tensor:
    """A copy of a tensor that is made ahead of the kernel's calls, in the layout that a rule likes.

    The kernel then takes what ``Module.pack_weights`` makes of ``t`` in the place of it.
    """
    return compute(t.shape, lambda *i: t(*i), t.name, attrs={_AHEAD: True})


def is_ahead(op: Operation) -> bool:
    """True for the operation of :func:`computed_ahead`."""
    return isinstance(op, ComputeOp) and bool(op.attrs.get(_AHEAD))
