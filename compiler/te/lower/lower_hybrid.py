"""The statement of a hybrid script in the loops that its stage has by now.

    for i in range(8):                     for j_outer in range(2):
        for j in range(8):         ->          for i in range(8):
            c[i, j] = a[i] * b[j]                  for j_inner in range(4):
                                                       c[i, j_outer * 4 + j_inner] = ...

Loops that hold nothing but the next one are a chain: the stage's loops that were made of a chain
stand where its first loop stood. What is inside a chain may hold chains of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from whet.compiler.arith import Affine
from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.bounds.inlining import Inlining, inlined_in
from whet.compiler.te.lang.relations import AT
from whet.compiler.te.lang.tensor import HybridOp, Tensor
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, IterVar, PrimExpr, ProducerLoad, Var
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import (
    PARALLEL,
    SERIAL,
    THREAD_BINDING,
    VECTORIZED,
    Allocate,
    BufferStore,
    For,
    LetStmt,
    Stmt,
    nothing,
)
from whet.compiler.tir.visit.rewrite import Rewriter, changed, nodes_of, substitute, variables

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage

ZERO_FILL = "zero_fill"
"""The key of a loop's annotation: it sets to 0 what a script reads before all of it is written."""

Loop = Callable[[IterVar, Stmt], Stmt]
Guarded = Callable[["Stage", Stmt, set[Var]], Stmt]


def with_inlined(
    schedule: Schedule,
    body: Stmt,
    inlined: Mapping[Buffer, Tensor],
    read: Callable[[PrimExpr], PrimExpr],
) -> Stmt:
    """The statement that computes what inlined stages would have stored, where it reads it.

    Args:
        schedule: the stages.
        body: the statement.
        inlined: from the buffers that it reads them by.
        read: from an expression over tensors to one over their buffers.
    """
    if not inlined:
        return body
    inlining = Inlining(inlined_in(schedule))

    def load(n: BufferLoad) -> PrimExpr:
        n = rewrite.children(n)
        if n.buffer not in inlined:
            return n
        # what stands in the indices reads buffers already: keep it away from `read`
        names = {Var("at", i.dtype): i for i in n.indices}
        value = read(inlining.expanded(ProducerLoad(inlined[n.buffer], tuple(names), n.dtype)))
        return substitute(value, names)

    rewrite = Rewriter({BufferLoad: load})
    return rewrite(body)


def in_loops(bounds: Bounds, stage: Stage, body: Stmt, loop: Loop, guarded: Guarded) -> Stmt:
    """The statement in the loops of its stage.

    Args:
        bounds: of the schedule.
        stage: whose axes are loops of the statement.
        body: the statement on the real buffers.
        loop: one of the stage's loops around what is attached there and its body.
        guarded: a body under the conditions of some loops.

    Raises:
        LowerError: for an order of loops in which one needs the value of another inside it, and
            for steps that would be run side by side and all store the same elements.
    """
    assert isinstance(stage.op, HybridOp)
    chains = stage.op.chains
    heads = {chain[0].var: chain for chain in chains}
    leaves = {chain[0].var: leaves_of(stage, chain) for chain in chains}
    b = bounds.stages[stage]
    values = bounds.axis_values(stage)

    def nest(n: For) -> Stmt:
        chain = heads.get(n.var)
        if chain is None:
            n = rewrite.children(n)
            alone = bounds.threads and not stage.launch_threads and ZERO_FILL in n.annotations
            return changed(n, kind=THREAD_BINDING, thread="blockIdx.x") if alone else n
        inner: Stmt = n
        for _ in chain:
            assert isinstance(inner, For)
            inner = inner.body
        out = substitute(rewrite(inner), values)
        own = leaves[n.var]
        out = guarded(stage, out, {leaf.var for leaf in own})
        inside: set[Var] = set()
        for leaf in reversed(own):
            inside.add(leaf.var)
            steps = b.lengths.get(leaf) or b.limits.get(leaf, b.extents[leaf])
            late = inside & variables(substitute(steps.to_expr(), values))
            if late:
                raise LowerError(
                    f"lower: the loop {leaf.name} of {stage.op.name}",
                    f"it has {expr_text(steps.to_expr())} steps, and "
                    f"{', '.join(sorted(v.name for v in late))} is a loop inside it",
                    "keep the loop that another one's extent depends on outside of it",
                )
            _check_apart(stage, leaf, b.extents[leaf], out)
            out = loop(leaf, out)
        return out

    rewrite = Rewriter({For: nest})
    return substitute(rewrite(body), values)


def leaves_of(stage: Stage, chain: tuple[IterVar, ...]) -> list[IterVar]:
    """The loops of a stage that were made of a chain's, outermost first."""
    made = {a for a in chain}
    for r in stage.relations:
        if not made.isdisjoint(r.members):
            made.update(r.members)
    return [leaf for leaf in stage.leaf_iter_vars if leaf in made]


def check_attached(
    bounds: Bounds, stage: Stage, body: Stmt, buffers: Mapping[tuple[Stage, int], Buffer]
) -> None:
    """Refuse a stage that is attached at a loop of one nest and read before or after that nest.

    Args:
        bounds: of the schedule.
        stage: that of the script.
        body: its statement on the real buffers.
        buffers: of all stages.

    Raises:
        LowerError: naming both loops, or the loop and the statement outside it.
    """
    assert isinstance(stage.op, HybridOp)
    heads = {leaf: chain[0] for chain in stage.op.chains for leaf in leaves_of(stage, chain)}
    loops = {n.var: n for n in nodes_of(body, For)}
    for s in bounds.schedule.stages:
        if s.attach_stage is not stage or s.attach_type != AT or s not in bounds.stages:
            continue
        assert s.attach_ivar is not None
        head = heads[s.attach_ivar].var
        kept = {buffers[s, k] for k in range(s.op.num_outputs)}
        elsewhere = [n for n in nodes_of(_without(body, head), BufferLoad) if n.buffer in kept]
        outside = [f"as {expr_text(n)}" for n in elsewhere]
        inside = {n.var for n in nodes_of(loops[head], For)}
        for reader, _ in bounds.readers(s):
            while reader.attach_type == AT and reader.attach_stage is not stage:
                assert reader.attach_stage is not None
                reader = reader.attach_stage
            at = reader.attach_ivar
            if reader.attach_type == AT and at is not None and heads[at].var not in inside:
                outside.append(f"by {reader.op.name}, attached at {at.name}")
        if outside:
            raise LowerError(
                f"compute_at({s.op.name}, {stage.op.name}, {s.attach_ivar.name})",
                f"{s.op.name} is also read outside of that loop, {outside[0]}",
                f"attach {s.op.name} at a loop that holds all that reads it, or at the root",
            )


def _without(body: Stmt, head: Var) -> Stmt:
    """The statement but for one loop."""

    def loop(n: For) -> Stmt:
        return nothing() if n.var is head else rewrite.children(n)

    rewrite = Rewriter({For: loop})
    return rewrite(body)


def _check_apart(stage: Stage, leaf: IterVar, steps: Affine, body: Stmt) -> None:
    """Steps that run side by side store elements of their own."""
    kind = stage.attr(leaf).kind
    alone = steps.is_const and steps.const <= 1
    if alone or kind not in (PARALLEL, VECTORIZED, THREAD_BINDING):
        return
    own = {n.buffer for n in nodes_of(body, Allocate)}
    named = {n.var: variables(n.value) for n in nodes_of(body, LetStmt)}
    for n in nodes_of(body, BufferStore):
        used = {v for i in n.indices for v in variables(i)}
        used |= {v for x in used for v in named.get(x, ())}
        if n.buffer in own or leaf.var in used or any(_reads(i) for i in n.indices):
            continue
        element = BufferLoad(n.buffer, n.indices, n.buffer.dtype)
        raise LowerError(
            f"lower: {kind} loop {leaf.name} of {stage.op.name}",
            f"its steps run side by side and all store {expr_text(element)}",
            f"leave it {SERIAL}, or let each step store an element of its own",
        )


def _reads(index: PrimExpr) -> bool:
    return bool(nodes_of(index, BufferLoad))
