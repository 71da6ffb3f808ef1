"""How the loops of a stage come from the axes of its operation, and what is said of a loop."""

from __future__ import annotations

from dataclasses import dataclass

from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s

# where a stage is computed, with TVM's numbers: on its own, in its readers, at a loop of another;
# and one that TVM has not: before the kernel is called
ROOT, INLINE, AT, AHEAD = 1, 2, 4, 6

# a loop's kind in the loop IR by its iter_type in the schedule
_KINDS = {e.UNROLLED: s.UNROLLED, e.VECTORIZED: s.VECTORIZED, e.PARALLELIZED: s.PARALLEL}


@dataclass(slots=True, eq=False, frozen=True)
class Split:
    """``parent = outer * extent(inner) + inner``; exactly one of factor and nparts is given."""

    parent: e.IterVar
    outer: e.IterVar
    inner: e.IterVar
    factor: e.PrimExpr | None
    nparts: e.PrimExpr | None


@dataclass(slots=True, eq=False, frozen=True)
class Fuse:
    """``fused = outer * extent(inner) + inner``."""

    outer: e.IterVar
    inner: e.IterVar
    fused: e.IterVar


@dataclass(slots=True, eq=False, frozen=True)
class Rebase:
    """``parent = rebased + the least value of parent``: the same steps, counted from 0."""

    parent: e.IterVar
    rebased: e.IterVar


@dataclass(slots=True, eq=False, frozen=True)
class Singleton:
    """``iter`` is a loop of one step, made of nothing."""

    iter: e.IterVar


Relation = Split | Fuse | Rebase | Singleton


class PragmaKey(str):
    """The name of a pragma: a str that has TVM's ``value``."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The name."""
        return str.__str__(self)


@dataclass(slots=True, frozen=True)
class IterVarAttr:
    """What a schedule says of one axis or loop.

    Attributes:
        iter_type: the axis's own kind, or unrolled, vectorised, parallel (``tir.IterVar``'s
            numbers).
        bind_thread: the thread axis that runs the loop.
        pragma_keys, pragma_values: what ``pragma`` has said, in order.
        grain: how many steps of a parallel loop one hand-out takes; 0: an even share each.
        dim_align_factor, dim_align_offset: what ``storage_align`` has said; a factor of 0 is none.
    """

    iter_type: int = e.DATA_PAR
    bind_thread: e.IterVar | None = None
    pragma_keys: tuple[str, ...] = ()
    pragma_values: tuple[e.PrimExpr | None, ...] = ()
    dim_align_factor: int = 0
    dim_align_offset: int = 0
    grain: int = 0

    @property
    def kind(self) -> str:
        """The loop's kind in the loop IR: ``"serial"``, ``"vectorized"`` and so on."""
        if self.bind_thread is not None:
            return s.THREAD_BINDING
        return _KINDS.get(self.iter_type, s.SERIAL)
