"""Checks that the primitives share, and the words of their errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.bounds.extents import leaf_extents
from whet.compiler.te.lang.relations import INLINE, IterVarAttr
from whet.compiler.te.lang.scopes import SCOPES, is_scope
from whet.compiler.te.lang.tensor import PlaceholderOp
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


def check_computed(stage: Stage, request: str) -> None:
    """An error for an input, which nothing computes."""
    if isinstance(stage.op, PlaceholderOp):
        raise ScheduleError(request, f"{stage.op.name} is an input and is not computed")


def check_loops(stage: Stage, request: str) -> None:
    """An error for what has no loops of its own: inputs and what was inlined."""
    check_computed(stage, request)
    if stage.attach_type == INLINE:
        raise ScheduleError(
            request,
            f"{stage.op.name} is inlined: it has no loops of its own",
            "compute_root or compute_at gives it some",
        )


def attr_of(stage: Stage, axis: e.IterVar) -> IterVarAttr:
    """The annotations of an axis so far."""
    known = stage.iter_var_attrs.get(axis)
    return known if known is not None else IterVarAttr(axis.iter_type)


def unannotated_leaf(stage: Stage, axis: e.IterVar, request: str, pragmas: bool = False) -> int:
    """The index of a loop that has no annotation yet, since that would be lost.

    Args:
        pragmas: the loop may have pragmas, which it keeps.
    """
    check_loops(stage, request)
    place = leaf_index(stage, axis, request)
    attr = stage.iter_var_attrs.get(axis)
    if attr is None:
        return place
    if attr.bind_thread is not None:
        said = f"bound to {attr.bind_thread.thread_tag}"
    elif attr.kind != s.SERIAL:
        said = attr.kind
    else:
        lost = attr.pragma_keys and not pragmas
        said = f"under pragma {attr.pragma_keys[0]}" if lost else ""
    if said:
        raise ScheduleError(
            request,
            f"{axis_name(axis)} is {said} already",
            lambda: f"make the loops first, then say how they run\n{_loops_text(stage)}",
        )
    return place


def leaf_index(stage: Stage, axis: e.IterVar, request: str) -> int:
    """The index of a loop among its stage's; an error for an axis that is no loop of it."""
    if isinstance(axis, e.IterVar):
        for k, leaf in enumerate(stage.leaf_iter_vars):
            if leaf is axis:
                return k
    if isinstance(axis, e.IterVar) and any(axis is a for a in stage.all_iter_vars):
        why = f"{axis_name(axis)} is no longer a loop: it was split or fused"
    else:
        why = f"{axis_name(axis)} is not an axis of {stage.op.name}"
    raise ScheduleError(request, why, loops_of(stage))


def loops_of(stage: Stage) -> Callable[[], str]:
    """The text of a stage's loops, for an error that may never be shown."""
    return partial(_loops_text, stage)


def _loops_text(stage: Stage) -> str:
    """The loops as they stand, with their extents where they are known."""
    extents = leaf_extents(stage)
    loops = " ".join(f"{a.var.name}({extents.get(a, '?')})" for a in stage.leaf_iter_vars)
    return f"loops of {stage.op.name}: {loops or 'none'}"


def axis_name(axis: Any) -> str:
    return axis.var.name if isinstance(axis, e.IterVar) else repr(axis)


def check_scope(scope: Any, request: str) -> None:
    """An error unless there is such a storage scope."""
    if not is_scope(scope):
        raise ScheduleError(
            request, f"{scope!r} is not a storage scope", "scopes: " + ", ".join(SCOPES)
        )
