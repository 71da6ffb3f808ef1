"""Large rows that are computed where their only result will be.

    for i:                                          for i:
        e = allocate([100000])
        for k: e[k] = exp(A[i, k] - m)                  for k: B[i, k] = exp(A[i, k] - m)
        for k: s += e[k]                    ->          for k: s += B[i, k]
        for k: B[i, k] = e[k] / s                       for k: B[i, k] = B[i, k] / s

The caches then hold two rows instead of three: a softmax of rows of 50,257 takes 0.87 of the time
(Zen 4). Where the first cache holds all three, a buffer of its own is as good or better.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine
from whet.compiler.te.bounds.threads import scope_of
from whet.compiler.te.lang.relations import AT, Split
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.lower.lower_store import aligned
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import IterVar, Reduce

if TYPE_CHECKING:
    from whet.compiler.te.bounds.infer_bound import Bounds
    from whet.compiler.te.stage import Stage
    from whet.compiler.tir.buffer import Buffer

#: bytes of a row that is computed in place if it has more: three are too many for 32 KiB
IN_PLACE = (1 << 15) // 3


def keep_in_place(
    bounds: Bounds, buffers: dict[tuple[Stage, int], Buffer], given: set[tuple[Stage, int]]
) -> None:
    """Give stages the memory of the result that is made of them.

    Args:
        bounds: of the schedule.
        buffers: of arguments, by stage and number of the output; gets those of other stages.
        given: the outputs that the caller keeps; gets those that live in their memory.
    """
    used: set[Stage] = set()
    for stage in bounds.stages:
        host = stage.attach_stage
        if stage.attach_type != AT or host is None or host in used:
            continue
        if (stage, 0) not in given and (host, 0) in given and _fits(bounds, stage, host):
            used.add(host)
            buffers[stage, 0] = buffers[host, 0]
            given.add((stage, 0))


def _fits(bounds: Bounds, stage: Stage, host: Stage) -> bool:
    """True for whole rows of a result's type, each of whose elements makes one of the result."""
    assert stage.attach_ivar is not None
    alike = stage.op.output_dtype(0) == host.op.output_dtype(0)
    if not alike or not _is_plain(bounds, stage) or not _is_plain(bounds, host):
        return False
    if host.attach_type == AT or not bounds.stages[host].whole:
        return False
    loops = host.leaf_iter_vars
    rows = _axes_of(host, loops[: loops.index(stage.attach_ivar) + 1])
    size = dt.itemsize(stage.op.output_dtype(0))
    if len(stage.op.axis) != len(host.op.axis):
        return False
    for own, axis in zip(stage.op.axis, host.op.axis):
        extent, whole = bounds.stages[stage].extents[own], bounds.stages[host].extents[axis]
        if extent.key != (Affine.constant(1) if axis in rows else whole).key:
            return False
        size *= extent.const if extent.is_const else 0
    return size > IN_PLACE and _is_read_before(bounds, stage, host)


def _is_plain(bounds: Bounds, stage: Stage) -> bool:
    """True for one tensor's elements, each stored once and as it is, by one thread."""
    op = stage.op
    if not isinstance(op, ComputeOp) or op.num_outputs > 1:
        return False
    if isinstance(bounds.bodies[stage][0], Reduce) or stage.tensorized is not None:
        return False
    if stage.store_predicate is not None or stage.launch_threads or stage.double_buffered:
        return False
    if stage.nontemporal or aligned(stage) or scope_of(stage) != "global":
        return False
    if stage.layout or stage.rolls:
        return False
    # the last steps of a shifted loop are done twice, and may be by two threads at once
    shifts = any(isinstance(r, Split) and r.shifts for r in stage.relations)
    return not shifts and all(a.bind_thread is None for a in stage.iter_var_attrs.values())


def _axes_of(stage: Stage, loops: Collection[IterVar]) -> set[IterVar]:
    """The axes of a stage's operation that loops are made of, and those fused with them."""
    made = set(loops)
    for r in reversed(stage.relations):
        if any(m in made for m in r.members):
            made.update(r.members)
    return made & set(stage.op.axis)


def _is_read_before(bounds: Bounds, stage: Stage, host: Stage) -> bool:
    """True if the host reads each element where it stores it, and others before its own loops.

    Where the host reads its own row, the one row that is computed is that for all readers.
    """
    own = tuple(a.var for a in host.op.axis)
    if all(reader is not host for reader, _ in bounds.readers(stage)):
        return False
    for reader, loads in bounds.readers(stage):
        if reader is host:
            if not all(i is v for n in loads for i, v in zip(n.indices, own, strict=True)):
                return False
            continue
        at = reader
        while at.attach_stage is not host:
            if at.attach_type != AT or at.attach_stage is None:
                return False
            at = at.attach_stage
        if at.attach_ivar is not stage.attach_ivar:
            return False
    return True
