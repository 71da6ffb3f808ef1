"""UnrollLoop: short loops are unrolled where configuration or a pragma asks for it.

    attr(None, "pragma_auto_unroll_max_step", 16)      for i in unrolled(4):
    for i in range(4):                             ->      C[i] = A[i]
        C[i] = A[i]

An unrolled loop stays a loop of that kind, which the generator expands; with ``explicit_unroll``
(or the pragma ``unroll_explicit``) it is fully expanded here: C[0] = A[0], C[1] = A[1] and so on. A
loop that would become more than :data:`MOST_EXPANDED` statements stays one, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.arith.simplify import Simplifier
from whet.compiler.passes.contract.option import PassConfig
from whet.compiler.target import Target
from whet.compiler.tir.expr import int_value
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import SERIAL, UNROLLED, AttrStmt, BufferStore, For, SeqStmt, Stmt, seq
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import Rewriter, substitute

#: statements that a loop may be expanded into: they take a generator some seconds
MOST_EXPANDED = 10_000

_STEP, _EXPLICIT = "pragma_auto_unroll_max_step", "pragma_unroll_explicit"


def unroll_loop(func: PrimFunc, target: Target, config: PassConfig) -> PrimFunc:
    """The function with its short loops unrolled."""
    unroll = _Unroll(config["tir.UnrollLoop"])
    body = unroll(func.body)
    if unroll.expanded:  # numbers have come into indices
        body = Simplifier(Analyzer())(body)
    return func.with_body(body)


class _Unroll(Rewriter):
    def __init__(self, config: PassConfig) -> None:
        super().__init__(
            {
                For: self._for,
                AttrStmt: self._attr,
                BufferStore: self._store,
                SeqStmt: self._sequence,
            }
        )
        self.max_step = config["auto_max_step"]
        self.max_depth = config["auto_max_depth"]
        self.max_extent = config["auto_max_extent"]
        self.explicit = config["explicit_unroll"]
        self.steps = 0  # statements that what has just been rewritten runs
        self.lines = 0  # statements that it is made of
        self.depth = 0  # levels of unrolled loops in it
        self.expanded = False  # whether a loop has been expanded

    def _store(self, n: BufferStore) -> BufferStore:
        self.steps += 1
        self.lines += 1
        return n

    def _attr(self, n: AttrStmt) -> Stmt:
        if n.key not in (_STEP, _EXPLICIT):
            return self.children(n)
        before = self.max_step, self.explicit
        self._obey({n.key: n.value})
        body = self(n.body)
        self.max_step, self.explicit = before
        return body  # said to this pass, and done

    def _sequence(self, n: SeqStmt) -> Stmt:
        steps, lines, depth, out = 0, 0, 0, []
        for part in n.seq:
            self.steps = self.lines = self.depth = 0
            out.append(self(part))
            steps += max(self.steps, 1)
            lines += max(self.lines, 1)
            depth = max(depth, self.depth)
        self.steps, self.lines, self.depth = steps, lines, depth
        same = all(a is b for a, b in zip(out, n.seq))
        return n if same else seq(*out)

    def _for(self, n: For) -> Stmt:
        before = self.max_step, self.explicit
        self._obey(n.annotations)
        self.steps = self.lines = self.depth = 0
        body = self(n.body)
        explicit, kind = self.explicit, n.kind
        extent = int_value(n.extent)
        if extent is not None and kind == SERIAL and self._wanted(extent):
            kind = UNROLLED
        self.max_step, self.explicit = before
        unrolls = kind == UNROLLED and extent is not None
        self.steps = max(self.steps, 1) * (extent if extent is not None else 1)
        if kind == UNROLLED:
            self.depth += 1
        if extent is None and kind != UNROLLED:
            self.steps = 1 << 30  # a loop of unknown length is in no short loop
        if unrolls and explicit and self._may_be_expanded(n, extent):
            assert extent is not None
            self.expanded = True
            self.lines = max(self.lines, 1) * extent
            return _expanded(n, body, extent)
        notes = {k: v for k, v in n.annotations.items() if k not in (_STEP, _EXPLICIT)}
        if body is n.body and kind == n.kind and len(notes) == len(n.annotations):
            return n
        return For(n.var, n.min, n.extent, kind, body, notes, n.thread)

    def _obey(self, pragmas: Mapping[str, Any]) -> None:
        """The pragmas around a loop, and those that it carries itself."""
        self.max_step = int(pragmas.get(_STEP, self.max_step))
        self.explicit = bool(int(pragmas.get(_EXPLICIT, self.explicit)))

    def _may_be_expanded(self, n: For, extent: int | None) -> bool:
        lines = max(self.lines, 1) * (extent or 0)
        if lines <= MOST_EXPANDED:
            return True
        warnings.warn(
            f"UnrollLoop: the loop over {n.var.name} would be unrolled into {lines} statements, "
            f"of which {MOST_EXPANDED} are the most; it stays a loop. Split it, and unroll the "
            "inner part",
            stacklevel=2,
        )
        return False

    def _wanted(self, extent: int) -> bool:
        short = extent * max(self.steps, 1) <= self.max_step and self.depth < self.max_depth
        return short or extent <= self.max_extent


def _expanded(n: For, body: Stmt, extent: int) -> Stmt:
    """A copy of the body for each step, each with variables of its own."""
    parts = []
    for k in range(extent):
        step = substitute(body, {n.var: n.min + ops.const(k, n.var.dtype)})
        parts.append(step if k == extent - 1 else renewed(step))
    return seq(*parts)
