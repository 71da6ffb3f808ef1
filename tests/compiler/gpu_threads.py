"""Runs a kernel's loop IR as a GPU would: blocks one by one, a block's threads in any order.

Threads run up to each barrier; shared memory is poisoned. What a missing barrier or a race would do
shows in the numbers.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from whet.compiler.tir import dtype as dt
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.rewrite import TABLE

BARRIER = object()
_BINARY = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Div: lambda a, b: a / b,
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Min: min,
    e.Max: max,
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
    e.And: lambda a, b: a and b,
    e.Or: lambda a, b: a or b,
}
_TAGS = [f"{what}.{axis}" for what in ("blockIdx", "threadIdx") for axis in "xyz"]


def run_kernel(func: PrimFunc, args: dict[str, np.ndarray | int], seed: int = 0) -> None:
    """Run a kernel on flat arrays and scalars, by the names of its parameters."""
    order = random.Random(seed)
    values = {id(p if isinstance(p, e.Var) else p.data): args[p.name] for p in func.params}
    base = {k: v for k, v in values.items() if not isinstance(v, np.ndarray)}
    reader = _Thread(base, values, {})
    spans = [
        int(reader.value(func.attrs["thread_extent"].get(t, e.IntImm("int32", 1)))) for t in _TAGS
    ]
    for block in itertools.product(*map(range, spans[:3])):
        shared: dict[int, np.ndarray] = {}
        waiting = []
        for thread in itertools.product(*map(range, spans[3:])):
            own = _Thread(dict(base), values, shared)
            own.ids = dict(zip(_TAGS, (*block, *thread)))
            waiting.append(own.run(func.body))
        while waiting:
            order.shuffle(waiting)
            stopped = [next(t, None) for t in waiting]
            if any(x is None for x in stopped):
                assert all(x is None for x in stopped), "not all threads reach a barrier"
                break


class _Thread:
    def __init__(self, scalars: dict, memory: dict, shared: dict) -> None:
        self.scalars, self.memory, self.shared = scalars, memory, shared
        self.local: dict[int, np.ndarray] = {}
        self.ids: dict[str, int] = {}

    def run(self, n: s.Stmt) -> Iterator[Any]:
        if isinstance(n, s.SeqStmt):
            for part in n.seq:
                yield from self.run(part)
        elif isinstance(n, s.AttrStmt):
            if n.key == "thread_extent":
                self.scalars[id(n.node)] = self.ids[n.node.name]
            yield from self.run(n.body)
        elif isinstance(n, s.For):
            first, count = self.value(n.min), self.value(n.extent)
            for k in range(int(first), int(first + count)):
                self.scalars[id(n.var)] = k
                yield from self.run(n.body)
        elif isinstance(n, s.IfThenElse):
            if self.value(n.condition):
                yield from self.run(n.then_case)
            elif n.else_case is not None:
                yield from self.run(n.else_case)
        elif isinstance(n, s.Allocate):
            size = math.prod(int(self.value(d)) for d in n.buffer.shape)
            room = self.shared if n.buffer.storage_scope == "shared" else self.local
            if room is self.local or id(n.buffer.data) not in room:
                room[id(n.buffer.data)] = np.full(size, np.nan)
            yield from self.run(n.body)
        elif isinstance(n, s.BufferStore):
            assert n.mask is None or dt.lanes(n.value.dtype) > 1
            at, value = self.index(n), self.value(n.value)
            keep = np.ones_like(at, bool) if n.mask is None else np.asarray(self.value(n.mask))
            assert np.all(at[keep] >= 0), "a store in front of its buffer"
            self.array(n)[at[keep]] = np.broadcast_to(value, at.shape)[keep]
        else:
            assert isinstance(n, s.Evaluate), n
            if isinstance(n.value, e.Call) and n.value.op == "tvm_storage_sync":
                yield BARRIER

    def array(self, n: Any) -> np.ndarray:
        key = id(n.buffer.data)
        for room in (self.local, self.shared, self.memory):
            if key in room:
                return room[key]
        raise KeyError(n.buffer.name)

    def index(self, n: Any) -> np.ndarray:
        (i,) = n.indices
        return np.atleast_1d(np.asarray(self.value(i)))

    def value(self, n: Any) -> Any:
        kind = type(n)
        if kind in _BINARY and dt.lanes(n.dtype) == 1:
            return _BINARY[kind](self.value(n.a), self.value(n.b))
        if kind in _BINARY:
            vector = {e.Min: np.minimum, e.Max: np.maximum, e.And: np.logical_and}
            return vector.get(kind, _BINARY[kind])(self.value(n.a), self.value(n.b))
        if kind in (e.IntImm, e.FloatImm):
            return n.value
        if kind in (e.Var, e.SizeVar):
            return self.scalars[id(n)]
        if kind is e.BufferLoad:
            at = self.index(n)
            assert np.all(at >= 0) and n.mask is None, "a read in front of its buffer"
            found = self.array(n)[at]
            return found if dt.lanes(n.dtype) > 1 else found[0]
        if kind is e.Ramp:
            return self.value(n.base) + n.stride * np.arange(n.lanes)
        if kind is e.Broadcast:
            return np.full(n.lanes, self.value(n.value))
        if kind is e.Cast:
            return self.value(n.value)
        if kind is e.Not:
            return not self.value(n.a)
        if kind is e.Select or (kind is e.Call and n.op == "if_then_else"):
            test, yes, no = TABLE[kind][0](n)
            return self.value(yes) if self.value(test) else self.value(no)
        if kind is e.Call and n.op in ("exp", "sqrt", "tanh"):
            return getattr(math, n.op)(self.value(n.args[0]))
        raise NotImplementedError(str(n))
