"""Checks that the primitives share, and the words of their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from whet.compiler.errors import ScheduleError, Text
from whet.compiler.te.bounds.extents import leaf_extents
from whet.compiler.te.lang.relations import INLINE
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.scopes import SCOPES, is_scope, is_thread
from whet.compiler.te.lang.sizes import size_text
from whet.compiler.te.lang.tensor import GroupOp, HybridOp, PlaceholderOp
from whet.compiler.te.lang.tensor_intrin import TensorIntrin
from whet.compiler.te.primitives.scans import check_not_ordered
from whet.compiler.tir.expr import IterVar
from whet.compiler.tir.stmt import SERIAL

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


ON_STAGE: dict[str, Callable[..., Any]] = {}
"""The primitives of a stage by their names, which a step of a trace may hold."""
ON_SCHEDULE: dict[str, Callable[..., Any]] = {}
"""The primitives of a schedule by their names."""

F = TypeVar("F", bound=Callable[..., Any])


def on_stage(primitive: F) -> F:
    """Decorator of a primitive of a stage."""
    ON_STAGE[primitive.__name__] = primitive
    return primitive


def on_schedule(primitive: F) -> F:
    """Decorator of a primitive of a schedule."""
    ON_SCHEDULE[primitive.__name__] = primitive
    return primitive


class Request:
    """A primitive as it was called: the beginning of its errors, and its step of the trace."""

    __slots__ = ("args", "name", "options", "stage")

    def __init__(self, stage: Stage, name: str, *args: Any, **options: Any) -> None:
        self.stage, self.name, self.args, self.options = stage, name, args, options

    def __call__(self) -> str:
        """``"split(B, axis=i, factor=4)"``, made when an error is shown."""
        texts = [self.stage.op.name, *map(argument_text, self.args)]
        texts += [f"{k}={argument_text(v)}" for k, v in self.options.items()]
        return f"{self.name}({', '.join(texts)})"

    def record(self, *results: Any) -> None:
        """Append the call, as it is, to the trace."""
        self.stage.record(self.name, *self.args, results=results, **self.options)


def argument_text(x: Any) -> str:
    """An argument of a primitive as errors show it."""
    if isinstance(x, (list, tuple)):
        return f"[{', '.join(map(argument_text, x))}]"
    if isinstance(x, IterVar):
        return x.thread_tag if is_thread(x) else x.name
    if isinstance(x, TensorIntrin):
        return x.name
    return x.op.name if hasattr(x, "leaf_iter_vars") else size_text(x)


def check_computed(stage: Stage, request: Text) -> None:
    """An error for an input, which nothing computes."""
    if isinstance(stage.op, PlaceholderOp):
        raise ScheduleError(request, f"{stage.op.name} is an input and is not computed")
    if isinstance(stage.op, GroupOp):
        names = ", ".join(s.op.name for s in stage.children)
        raise ScheduleError(
            request,
            f"{stage.op.name} is a group of stages and has neither loops nor a result",
            f"compute_at and compute_root move it; its stages: {names}",
        )


def check_loops(stage: Stage, request: Text) -> None:
    """An error for what has no loops of its own: inputs and what was inlined."""
    check_computed(stage, request)
    if stage.attach_type == INLINE:
        raise ScheduleError(
            request,
            f"{stage.op.name} is inlined: it has no loops of its own",
            "compute_root or compute_at gives it some",
        )


def unannotated_leaf(stage: Stage, axis: IterVar, request: Text, pragmas: bool = False) -> int:
    """The index of a loop that has no annotation yet, since that would be lost.

    Args:
        pragmas: the loop may have pragmas and prefetch, which it keeps.
    """
    check_loops(stage, request)
    place = leaf_index(stage, axis, request)
    check_not_ordered(stage, axis, request)
    if axis not in stage.iter_var_attrs:
        return place
    attr = stage.attr(axis)
    if attr.bind_thread is not None:
        said = f"bound to {attr.bind_thread.thread_tag}"
    elif attr.tensor_intrin is not None:
        said = "tensorized"
    elif attr.kind != SERIAL:
        said = attr.kind
    else:
        said = ""
        if attr.pragma_keys and not pragmas:
            said = f"under pragma {attr.pragma_keys[0]}"
        elif attr.prefetch_data and not pragmas:
            said = f"prefetching {attr.prefetch_data[0].op.name}"
    if said:
        raise ScheduleError(
            request,
            f"{argument_text(axis)} is {said} already",
            lambda: f"make the loops first, then say how they run\n{_loops_text(stage)}",
        )
    return place


def leaf_index(stage: Stage, axis: IterVar, request: Text) -> int:
    """The index of a loop among its stage's; an error for an axis that is no loop of it."""
    if isinstance(axis, IterVar):
        for k, leaf in enumerate(stage.leaf_iter_vars):
            if leaf is axis and (k == 0 or not isinstance(stage.op, ScanOp)):
                return k
    if isinstance(stage.op, ScanOp) and any(axis is a for a in stage.op.spatial_axis):
        why = f"{argument_text(axis)} is an axis of a state: its loops are those of the update"
    elif isinstance(axis, IterVar) and any(axis is a for a in stage.all_iter_vars):
        why = f"{argument_text(axis)} is no longer a loop: it was split or fused"
    else:
        why = f"{argument_text(axis)} is not an axis of {stage.op.name}"
    raise ScheduleError(request, why, loops_of(stage))


def loops_of(stage: Stage) -> Callable[[], str]:
    """The text of a stage's loops, for an error that may never be shown."""
    return partial(_loops_text, stage)


def _loops_text(stage: Stage) -> str:
    """The loops as they stand, with their extents where they are known."""
    extents = leaf_extents(stage)
    loops = " ".join(f"{a.var.name}({extents.get(a, '?')})" for a in stage.leaf_iter_vars)
    return f"loops of {stage.op.name}: {loops or 'none'}"


def check_scope(scope: Any, request: Text) -> None:
    """An error unless there is such a storage scope."""
    if not is_scope(scope):
        raise ScheduleError(
            request,
            f"{scope!r} is not a storage scope",
            f"scopes: {', '.join(SCOPES)}; with a tag: global.vtcm, ...",
        )


def in_one_nest(stage: Stage, axes: Sequence[IterVar]) -> bool:
    """True for loops with no other statement between them; those of a script may have some."""
    if not isinstance(stage.op, HybridOp):
        return True
    chain = {a: k for k, chain in enumerate(stage.op.chains) for a in chain}
    for r in stage.relations:
        known = next(chain[a] for a in r.members if a in chain)
        chain.update(dict.fromkeys(r.members, known))
    return len({chain[a] for a in axes}) < 2


def check_one_nest(stage: Stage, axes: Sequence[IterVar], request: Text) -> None:
    """An error for loops of a script between which other statements stand.

    Asked by what changes how loops stand to each other: fuse, reorder, tile.
    """
    if not in_one_nest(stage, axes):
        names = ", ".join(a.name for a in axes)
        raise ScheduleError(
            request,
            f"{names} are loops of {stage.op.name} that do not stand directly inside each other",
            "fuse, reorder and tile take loops with nothing between them",
        )


def check_no_loop_around(stage: Stage, request: Text) -> None:
    """An error for ``fuse()``: a loop around all of a script's statements."""
    if isinstance(stage.op, HybridOp):
        raise ScheduleError(
            request, f"{stage.op.name} is a script: its loops are those that it is written with"
        )
