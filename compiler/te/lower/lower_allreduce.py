"""Reductions over the threads of a block: each thread has a part, and a tree combines the parts.

Plain loops, bound to threads, so that they mean the same one step after the other::

    red = allocate([32], "float32", "shared")
    for k in thread_binding(32, "threadIdx.x"):
        red[k] = 0
    for k in thread_binding(32, "threadIdx.x"):
        red[k] = red[k] + A[i, k]
    for k in thread_binding(32, "threadIdx.x"):
        if k < 16:
            red[k] = red[k] + red[k + 16]
    ...
    B[i] = red[0]

On a GPU, warps exchange their parts by shuffles (``passes/gpu/lower_thread_allreduce.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.bounds.threads import around
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.lower import lower_reduce
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import COMM_REDUCE, LT, IntImm, IterVar, PrimExpr, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import ALLREDUCE, THREAD_BINDING, AttrStmt, For, IfThenElse, Stmt, seq

if TYPE_CHECKING:
    from whet.compiler.te.stage import Stage


@dataclass(frozen=True)
class Parts:
    """The partial results of a reduction's threads in shared memory.

    Attributes:
        loops: the reduction's loops over threads, each with its tag and its steps.
        buffers: shared memory for each output: an element a thread.
        outer: the other threads of the block, by the variables of their loops.
        inner: those of them that are neighbours, along threadIdx.x: their parts lie side by side,
            on different banks.
    """

    loops: tuple[tuple[IterVar, str, int], ...]
    buffers: list[Buffer]
    outer: tuple[Var, ...]
    inner: tuple[Var, ...]

    @property
    def target(self) -> tuple[PrimExpr, ...]:
        """The element of the thread that runs."""
        return self.at([leaf.var for leaf, _, _ in self.loops])

    @property
    def first(self) -> tuple[PrimExpr, ...]:
        """The element where everything has come together."""
        return self.at([ops.const(0) for _ in self.loops])

    def at(self, steps: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """The element of the threads at these steps of the reduction's loops."""
        return (*self.outer, *steps, *self.inner)

    def over(self, make: Callable[[tuple[Var, ...]], Stmt]) -> Stmt:
        """Loops over the threads of the reduction around what is made of their variables."""
        fresh = tuple(Var(leaf.var.name, leaf.var.dtype) for leaf, _, _ in self.loops)
        out = make(fresh)
        for v, (_, tag, extent) in zip(reversed(fresh), reversed(self.loops)):
            steps = ops.const(extent, v.dtype)
            out = For(v, ops.const(0, v.dtype), steps, THREAD_BINDING, out, {}, tag)
        return out


def parts(bounds: Bounds, stage: Stage) -> Parts | None:
    """Shared memory for a reduction over the threads of a block; None where none is needed.

    None, too, where the loops are not such: then they stay loops, which a GPU's target refuses.
    """
    if not bounds.threads:
        return None
    b = bounds.stages[stage]

    inner = stage.leaf_iter_vars[stage.first_reduce :]
    bound = [(leaf, tag) for leaf in inner if (tag := stage.attr(leaf).thread_tag)]
    if not bound or any(leaf.iter_type != COMM_REDUCE for leaf in inner):
        return None
    tags = {tag for _, tag in bound}
    if not all(tag.startswith("threadIdx") for tag in tags) or len(tags) < len(bound):
        return None
    loops = []
    for leaf, tag in bound:
        extent = b.lengths.get(leaf) or b.extents[leaf]
        if not extent.is_const or extent.const == 0:
            return None
        loops.append((leaf, tag, extent.const))
    outer = _outer(bounds, stage, stage.leaf_iter_vars[: stage.first_reduce])
    sizes: list[int] = []
    for tag in [t for t in outer if t in tags]:
        del outer[tag]
    neighbours = [outer.pop(tag) for tag in ("threadIdx.x",) if tag in outer]
    for _, steps in (*outer.values(), *neighbours):
        if steps is None:
            return None
        sizes.append(steps)
    sizes[len(outer) : len(outer)] = [n for _, _, n in loops]
    shape = tuple(map(ops.const, sizes))
    buffers = [
        Buffer(f"{Tensor(stage.op, k).name}.red", shape, stage.op.output_dtype(k), "shared")
        for k in range(stage.op.num_outputs)
    ]
    variables = (tuple(v for v, _ in threads) for threads in (outer.values(), neighbours))
    return Parts(tuple(loops), buffers, *variables)


def _outer(
    bounds: Bounds, stage: Stage, leaves: list[IterVar]
) -> dict[str, tuple[Var, int | None]]:
    """The loops over threads of the block around a reduction: tag -> variable and steps."""
    out: dict[str, tuple[Var, int | None]] = {}

    def add(tag: str, leaf: IterVar) -> None:
        if not tag.startswith("threadIdx"):
            return
        for b in bounds.stages.values():
            if leaf in b.launched:
                known = leaf.dom.extent if leaf.dom is not None else None
                extent = known.value if isinstance(known, IntImm) else None
                out[tag] = (b.launched[leaf], extent)
            elif leaf in b.extents:
                length = b.lengths.get(leaf) or b.extents[leaf]
                out[tag] = (leaf.var, length.const if length.is_const else None)

    for tag, leaf in reversed(list(around(stage))):
        add(tag, leaf)
    for t in stage.launch_threads:
        add(t.thread_tag, t)
    for leaf in leaves:
        add(stage.attr(leaf).thread_tag, leaf)
    return out


def begin(out: lower_reduce.Outputs, p: Parts) -> Stmt:
    """Every thread's part is the identity."""
    return p.over(lambda fresh: lower_reduce.begin(out, p.at(fresh), identity=True))


def tree(out: lower_reduce.Outputs, p: Parts) -> Stmt:
    """Combine the parts of all threads, half of them at a time, into the first one's.

    The steps along ``threadIdx.x`` come first and are marked: a GPU's warps have a faster way.
    """
    order = sorted(range(len(p.loops)), key=lambda d: p.loops[d][1] != "threadIdx.x")
    return seq(*[_along(out, p, d) for d in order])


def _along(out: lower_reduce.Outputs, p: Parts, d: int) -> Stmt:
    """The steps along one loop."""
    steps: list[Stmt] = []
    _, tag, extent = p.loops[d]
    left = extent
    while left > 1:
        half = (left + 1) // 2

        def step(fresh: tuple[Var, ...], half: int = half, rest: int = left - half) -> Stmt:
            here = p.at(fresh)
            there = p.at((*fresh[:d], ops.add(fresh[d], half), *fresh[d + 1 :]))
            both = lower_reduce.merge(out, here, there)
            if rest == extent:
                return both
            return IfThenElse(ops.compare(LT, fresh[d], ops.const(rest)), both)

        steps.append(p.over(step))
        left = half
    if tag != "threadIdx.x" or not steps:
        return seq(*steps)
    return AttrStmt(p.buffers[0], ALLREDUCE, ops.const(extent), seq(*steps))
