"""te.scan: recurrences, whose steps read what the steps before have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.axes import axis_over, index_type
from whet.compiler.te.lang.compute import checked_attrs, checked_name, compute
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tag import chosen_tag
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.tir.expr import ORDERED, IterVar, PrimExpr, ProducerLoad, Range, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.visit.rewrite import nodes


@dataclass(slots=True, eq=False, frozen=True, repr=False)
class ScanOp(Operation):
    """A recurrence over the first dimension of its states (``te.scan`` makes it).

    Attributes:
        scan_axis: over the steps, from the first one that ``init`` does not give.
        spatial_axis: the other axes of all states, one state after the other.
        init: the first steps of each state.
        update: each state at a step, of which the schedule computes one after the other.
        state_placeholder: what ``update`` reads the steps before from.
        inputs: what it reads besides, for people.
        tag, attrs: kept for schedules to look at.
    """

    scan_axis: IterVar
    spatial_axis: tuple[IterVar, ...]
    init: tuple[Tensor, ...]
    update: tuple[Tensor, ...]
    state_placeholder: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...] = ()
    tag: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def num_outputs(self) -> int:
        """The number of states."""
        return len(self.update)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The axis over the steps, then the others of all states."""
        return (self.scan_axis, *self.spatial_axis)

    @property
    def input_tensors(self) -> list[Tensor]:
        """The first steps of the states, then what computes the others."""
        return list(dict.fromkeys((*self.init, *self.update)))

    @property
    def body(self) -> tuple[PrimExpr, ...]:
        """The reads of a step, one of each update: all of it at that step."""
        out: list[PrimExpr] = []
        begin = 0
        for t in self.update:
            end = begin + t.ndim - 1
            out.append(t(self.scan_axis.var, *(a.var for a in self.spatial_axis[begin:end])))
            begin = end
        return tuple(out)

    def output_shape(self, index: int) -> tuple[PrimExpr, ...]:
        """The shape of a state."""
        return self.state_placeholder[index].shape

    def output_dtype(self, index: int) -> str:
        """The element type of a state."""
        return self.state_placeholder[index].dtype


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """The states of a recurrence over their first dimension.

    >>> X = te.placeholder((4, 8), name="X")
    >>> before = te.placeholder((4, 8), name="before")
    >>> first = te.compute((1, 8), lambda _, i: X[0, i], name="first")
    >>> step = te.compute((4, 8), lambda t, i: before[t - 1, i] + X[t, i], name="step")
    >>> S = te.scan(first, step, before, inputs=[X], name="S")
    >>> print(lower(te.create_schedule(S.op), [X, S]))
    def main(X: float32[32], S: float32[32]):
        for i in range(8):
            S[i] = X[i]
        for S_idx in range(3):
            for i_1 in range(8):
                S[S_idx * 8 + i_1 + 8] = S[S_idx * 8 + i_1] + X[S_idx * 8 + i_1 + 8]

    ``first`` and ``step`` are stages with loops of their own, which a schedule may change; they
    compute in the memory of the result. What ``step`` needs of the states is computed step by step.

    Args:
        init: the first steps of each state.
        update: each state at a step, by what ``state_placeholder`` holds of the steps before.
        state_placeholder: a placeholder for each state, of its shape.
        inputs: the other tensors that ``update`` reads; only for people.
        name: name of the operation.
        tag, attrs: kept with the operation, for schedules to look at.

    Returns:
        The states, a tensor each; a single one is no list.

    Raises:
        ArgumentError: for states whose shapes, types or numbers of steps do not fit.
    """
    name = checked_name(name, "scan(...)")
    request = f"scan({name})"
    tag, attrs = chosen_tag(tag, request), checked_attrs(attrs, request)
    first, step, state = (
        _tensors(given, what, request)
        for given, what in (
            (init, "init"), (update, "update"), (state_placeholder, "state_placeholder")
        )
    )  # fmt: skip
    read = _tensors(inputs or (), "inputs", request)
    _check_states(first, step, state, request)
    op = _operation(name, (first, step, state, read), tag, attrs)
    before = post_order([t.op for t in op.init])
    if any(t.op in before for t in state):
        raise ArgumentError(
            request, "init reads a state", "the first steps are computed from inputs alone"
        )
    out = [op.output(k) for k in range(op.num_outputs)]
    return out[0] if len(out) == 1 else out


def _operation(
    name: str, tensors: tuple[tuple[Tensor, ...], ...], tag: str, attrs: dict[str, Any]
) -> ScanOp:
    first, step, state, read = tensors
    begin, steps = first[0].shape[0], state[0].shape[0]
    extent = Analyzer().simplify(ops.subtract(steps, begin))
    kind = index_type(steps)
    axis = IterVar(Range.from_min_extent(begin, extent), Var(f"{name}.idx", kind), ORDERED)
    spatial = tuple(
        axis_over(f"{t.op.name}.{d}", size, index_type(size))
        for t in state
        for d, size in enumerate(t.shape[1:], 1)
    )
    own = tuple(_own(t, first[:k]) for k, t in enumerate(first))
    op = ScanOp(name, axis, spatial, own, step, state, read, tag, attrs)
    _check_updates(op, f"scan({name})")
    return op


def scan_body(op: ScanOp) -> list[Operation]:
    """The operations that are computed at each step: the updates, and what reads a state."""
    states = {t.op for t in op.state_placeholder}
    updates = [t.op for t in op.update]
    inside: set[Operation] = set(updates)
    order = post_order(updates)
    for x in order:
        if not isinstance(x, PlaceholderOp) and any(
            t.op in states or t.op in inside for t in x.input_tensors
        ):
            inside.add(x)
    return [x for x in order if x in inside]


def fixed_points(op: ScanOp) -> dict[IterVar, bool]:
    """The axes of a recurrence, each with True where its indices depend on no others before."""
    body = set(scan_body(op))
    spatial = iter(op.spatial_axis)
    own: dict[IterVar, set[IterVar | None]] = {}
    states: dict[Tensor, tuple[IterVar, ...]] = {}
    for step, state in zip(op.update, op.state_placeholder):
        states[state] = tuple(next(spatial) for _ in range(state.ndim - 1))
        for mine, axis in zip(states[state], step.op.axis[1:]):
            own.setdefault(axis, set()).add(mine)
    fixed = dict.fromkeys((op.scan_axis, *op.spatial_axis), True)
    fixed[op.scan_axis] = False
    for x in reversed(scan_body(op)):
        axes = {a.var: own.get(a, {None}) for a in x.axis}
        for n in nodes(getattr(x, "body", ())):
            if type(n) is not ProducerLoad:
                continue
            found = [axes.get(i, {None}) if isinstance(i, Var) else {None} for i in n.indices]
            for mine, here in zip(states.get(n.producer, ()), found[1:]):
                if here != {mine}:
                    fixed[mine] = False
            if n.producer.op in body:
                for axis, here in zip(n.producer.op.axis, found):
                    own.setdefault(axis, set()).update(here)
    return fixed


def _tensors(given: Any, what: str, request: str) -> tuple[Tensor, ...]:
    many: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given]
    for t in many:
        if not isinstance(t, Tensor):
            raise ArgumentError(request, f"{what} has a {type(t).__name__}, not a tensor")
    return tuple(many)


def _check_states(
    first: Sequence[Tensor], step: Sequence[Tensor], state: Sequence[Tensor], request: str
) -> None:
    if not len(first) == len(step) == len(state) or not state:
        raise ArgumentError(
            request,
            f"there are {len(first)} init, {len(step)} update and {len(state)} placeholders",
            "give one of each for every state",
        )
    for what, tensors in (("update", step), ("placeholder", state)):
        for k, t in enumerate(tensors):
            if t in tensors[:k]:
                raise ArgumentError(
                    request,
                    f"{t.name} is the {what} of two states",
                    "each state has its own memory, and what is computed in it",
                )
    for parts in zip(first, step, state):
        _check_state(*parts, request)
    _check_steps(first, state, request)


def _check_state(first: Tensor, step: Tensor, state: Tensor, request: str) -> None:
    if not isinstance(state.op, PlaceholderOp):
        raise ArgumentError(
            request,
            f"the state {state.name} is computed",
            "te.placeholder(shape) stands for what the steps before have made",
        )
    if not isinstance(step.op, ComputeOp):
        raise ArgumentError(
            request,
            f"the update {step.name} is no te.compute",
            "te.compute(state.shape, lambda t, *i: ...) reads state[t - 1, ...]",
        )
    same = Analyzer()
    for what, t in (("init", first), ("update", step)):
        sizes = list(zip(t.shape, state.shape))[0 if t is step else 1 :]
        fits = t.ndim == state.ndim > 0 and all(same.equal(a, b) for a, b in sizes)
        if not fits or t.dtype != state.dtype:
            raise ArgumentError(
                request,
                f"{what} {t.name} is {_shown(t)}, and the state {state.name} is {_shown(state)}",
                "they agree in type and shape, but for the first dimension of init",
            )


def _check_steps(first: Sequence[Tensor], state: Sequence[Tensor], request: str) -> None:
    same = Analyzer()
    if same.less(state[0].shape[0], first[0].shape[0]):
        raise ArgumentError(
            request,
            f"init {first[0].name} has {expr_text(first[0].shape[0])} steps, "
            f"{state[0].name} only {expr_text(state[0].shape[0])}",
            "init gives the first of the steps",
        )
    for t in (*first, *state):
        other = first[0] if t in first else state[0]
        if not same.equal(t.shape[0], other.shape[0]):
            raise ArgumentError(
                request,
                f"{t.name} has {expr_text(t.shape[0])} steps, "
                f"{other.name} {expr_text(other.shape[0])}",
                "all states run over the same steps",
            )


def _check_updates(op: ScanOp, request: str) -> None:
    """An error for reads of updates at other steps than their own: those are in the states."""
    states = dict(zip(op.update, op.state_placeholder))
    for x in scan_body(op):
        reads = [n for n in nodes(getattr(x, "body", ())) if type(n) is ProducerLoad]
        for n in reads:
            if n.producer in states and n.indices[0] is not x.axis[0].var:
                raise ArgumentError(
                    request,
                    f"{x.name} reads the update {n.producer.name} at {expr_text(n.indices[0])}, "
                    f"not at its own step {x.axis[0].name}",
                    f"what the steps before have made is in {states[n.producer].name}",
                )


def _shown(t: Tensor) -> str:
    return f"{t.dtype}[{', '.join(expr_text(d) for d in t.shape)}]"


def _own(first: Tensor, before: Sequence[Tensor]) -> Tensor:
    """A first step that nothing else is kept in: it is computed in the memory of the state."""
    if isinstance(first.op, ComputeOp) and first not in before:
        return first
    copy: Tensor = compute(first.shape, lambda *i: first(*i), name=f"{first.op.name}.init")
    return copy
