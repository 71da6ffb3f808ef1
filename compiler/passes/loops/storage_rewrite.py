"""StorageRewrite: large buffers that are never needed at the same time share their memory.

    T1 = allocate([100000])                    T1 = allocate([100000])
    T2 = allocate([100000])                    T2 = allocate([100000])
    T3 = allocate([100000])            ->      T1 = ... ;  T2 = ... T1 ...
    T1 = ... ;  T2 = ... T1 ...                T1 = ... T2 ... ;  C = ... T1 ...
    T3 = ... T2 ... ;  C = ... T3 ...

Buffers of one type and scope, allocated one around the other, are looked at by when the statements
inside first and last use them. Small ones are on the stack, where LLVM does the same, and those
whose address is taken stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.passes.contract.uses import handed_on
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, Call, IntImm, Var
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, SeqStmt, Stmt
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.rewrite import Rewriter, keep, nodes_of

_USES = (Var, BufferLoad, BufferStore, BufferView, DeclBuffer, AttrStmt, Call)

#: what a buffer must exceed for its memory to be worth sharing: less is on the stack
LARGE_BYTES = 64 * 1024


def storage_rewrite(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with fewer large buffers."""
    rewrite = Rewriter({Allocate: lambda n: _chain(n, rewrite), BufferStore: keep})
    return func.with_body(rewrite(func.body))


def _chain(first: Allocate, rewrite: Rewriter) -> Stmt:
    """A row of allocations around one body."""
    held: list[Allocate] = []
    body: Stmt = first
    while isinstance(body, Allocate):
        held.append(body)
        body = body.body
    inside = rewrite(body)
    steps = inside.seq if isinstance(inside, SeqStmt) else (inside,)
    lives, taken = _lifetimes(steps)
    shared = _share([n for n in held if n.buffer.data not in taken], lives)
    if not shared and inside is body:
        return first
    out = replace_buffers(inside, shared)
    made: set[Buffer] = set()
    for n in reversed(held):
        b = shared.get(n.buffer, n.buffer)
        if b not in made:
            made.add(b)
            out = Allocate(b, out)
    return out


def _lifetimes(steps: tuple[Stmt, ...]) -> tuple[dict[Buffer, tuple[int, int]], set[Var]]:
    """When each buffer is first and last used, and the memory whose address is taken."""
    lives: dict[Buffer, tuple[int, int]] = {}
    taken: set[Var] = set()
    for k, step in enumerate(steps):
        for n in nodes_of(step, *_USES):
            if isinstance(n, Var):
                if n.dtype == "handle":
                    taken.add(n)
            elif isinstance(n, (BufferLoad, BufferStore)):
                lives[n.buffer] = (lives.get(n.buffer, (k, k))[0], k)
            elif (held := handed_on(n)) is not None:
                taken.add(held.data)
    return lives, taken


def _share(held: list[Allocate], lives: dict[Buffer, tuple[int, int]]) -> dict[Buffer, Buffer]:
    """Buffer -> the one whose memory it uses, a larger one where it must be."""
    candidates = [n.buffer for n in held if allocated_bytes(n) > LARGE_BYTES and n.buffer in lives]
    groups: list[tuple[list[Buffer], int]] = []  # buffers in one memory, and its last use
    for b in sorted(candidates, key=lambda b: lives[b][0]):
        begin, end = lives[b]
        for k, (members, last) in enumerate(groups):
            if last < begin and _alike(members[0], b):
                groups[k] = ([*members, b], end)
                break
        else:
            groups.append(([b], end))
    out: dict[Buffer, Buffer] = {}
    for members, _ in groups:
        if len(members) == 1:
            continue
        largest = max(members, key=lambda b: b.shape[0].value)  # type: ignore[attr-defined]
        new = replace(members[0], shape=largest.shape)
        out.update(dict.fromkeys(members, new))
    return out


def _alike(a: Buffer, b: Buffer) -> bool:
    flat = len(a.shape) == len(b.shape) == 1 and not a.strides and not b.strides
    return flat and a.dtype == b.dtype and a.storage_scope == b.storage_scope


def allocated_bytes(n: Allocate) -> int:
    """The size of a buffer of constant shape, in bytes; 0 for another."""
    total = dt.itemsize(n.buffer.dtype)
    for d in n.buffer.shape:
        if not isinstance(d, IntImm):
            return 0
        total *= d.value
    return total
