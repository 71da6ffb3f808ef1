"""Features of a function, from one scan: passes with nothing to do are not run."""

from __future__ import annotations

from dataclasses import dataclass, field

from whet.compiler.passes.loops.storage_rewrite import LARGE_BYTES, allocated_bytes
from whet.compiler.tir.dtype import is_nibble
from whet.compiler.tir.expr import Cast
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import Allocate, AttrStmt, BufferStore, For, IfThenElse
from whet.compiler.tir.visit.rewrite import LEAVES


@dataclass(slots=True)
class Features:
    """The classes, keys and tags that occur in a function.

    Attributes:
        nodes: the classes of its nodes.
        keys: the keys of its attributes.
        kinds: the kinds of its loops.
        threads: the tags of its thread-bound loops.
        wide_loops: whether a loop counts in 64 bits.
        conditions: whether it has conditions besides the guards of tails.
        nibbles: whether it has to do with elements of four bits.
        large: how many buffers of more than :data:`LARGE_BYTES` it allocates.
    """

    nodes: set[type] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    threads: set[str] = field(default_factory=set)
    wide_loops: bool = False
    conditions: bool = False
    nibbles: bool = False
    large: int = 0


def features_of(func: PrimFunc) -> Features:
    """The features of a function."""
    found = Features(nibbles=any(is_nibble(p.dtype) for p in func.params))
    nodes = found.nodes
    stack: list = [func.body]
    seen: set[int] = set()  # expressions may share parts
    while stack:
        n = stack.pop()
        kind = type(n)
        nodes.add(kind)
        if kind is For:
            if n.thread:
                found.threads.add(n.thread)
            found.wide_loops = found.wide_loops or n.var.dtype == "int64"
            found.keys.update(n.annotations)
            found.kinds.add(n.kind)
        elif kind is IfThenElse:
            found.conditions = found.conditions or not n.likely
        elif kind is AttrStmt:
            found.keys.add(n.key)
        elif (kind is Cast and (is_nibble(n.dtype) or is_nibble(n.value.dtype))) or (
            kind is BufferStore and is_nibble(n.buffer.dtype)
        ):
            found.nibbles = True
        elif kind is Allocate and allocated_bytes(n) > LARGE_BYTES:
            found.large += 1
        for p in n.parts:
            if type(p) not in LEAVES and id(p) not in seen:
                seen.add(id(p))
                stack.append(p)
    return found
