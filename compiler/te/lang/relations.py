"""How the loops of a stage come from the axes of its operation, and a loop's annotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from whet.compiler.tir import stmt as s
from whet.compiler.tir.expr import (
    DATA_PAR,
    PARALLELIZED,
    UNROLLED,
    VECTORIZED,
    IterVar,
    PrimExpr,
    Var,
)
from whet.compiler.tir.layouts.index_map import IndexMap
from whet.compiler.tir.ops import ops

if TYPE_CHECKING:
    from whet.compiler.te.lang.tensor import Tensor
    from whet.compiler.te.lang.tensor_intrin import TensorIntrin

# where a stage is computed, with TVM's numbers: on its own, in its readers, at a loop of another;
# and one that TVM has not: before the kernel is called
ROOT, INLINE, AT, AHEAD = 1, 2, 4, 6

# a loop's kind in the loop IR by its iter_type in the schedule
_KINDS = {UNROLLED: s.UNROLLED, VECTORIZED: s.VECTORIZED, PARALLELIZED: s.PARALLEL}


Extents = dict[IterVar, Any]
"""Axis or loop -> its number of steps, of an algebra of sizes (:mod:`whet.compiler.te.bounds`)."""
Values = dict[IterVar, Any]
"""Axis or loop -> its value counted from 0, a linear form of the algebra."""


@dataclass(slots=True, eq=False, frozen=True)
class Split:
    """``parent = outer * extent(inner) + inner``; exactly one of factor and nparts is given.

    With ``shifts`` the last steps begin earlier instead of running beyond the end.
    """

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: PrimExpr | None
    nparts: PrimExpr | None
    shifts: bool = False

    def __setstate__(self, state: list[Any]) -> None:
        """Take the fields; one that was pickled before the last was added has one less."""
        values = dict(zip(self.__slots__, state))
        for name in self.__slots__:
            object.__setattr__(self, name, values.get(name, False))

    @property
    def members(self) -> tuple[IterVar, ...]:
        """The loops that it ties together."""
        return self.parent, self.outer, self.inner

    def extents_down(self, extents: Extents, sizes: Any) -> None:
        """The extents of the new loops, from that of the old one."""
        parent = extents[self.parent]
        size = sizes.size(self.nparts if self.factor is None else self.factor)
        given = sizes.clamped(size, parent)
        both = given, sizes.ceildiv(parent, given)
        extents[self.inner], extents[self.outer] = both if self.nparts is None else both[::-1]

    def values_up(self, extents: Extents, values: Values, sizes: Any) -> tuple[IterVar, ...]:
        """The value of the old loop, which is returned if the new ones may run beyond its end."""
        inner, whole = extents[self.inner], extents[self.parent]
        begin = sizes.scaled(values[self.outer], inner)
        covered = sizes.covered(extents[self.outer], inner, whole)
        if self.shifts and not covered:
            shifted = sizes.shifted_inwards(begin, inner, whole)
            begin, covered = (begin, False) if shifted is None else (shifted, True)
        values[self.parent] = begin + values[self.inner]
        return () if covered else (self.parent,)

    def values_down(self, extents: Extents, values: Values, sizes: Any) -> None:
        """The values of the new loops, from that of the old one."""
        both = sizes.divided(values[self.parent], extents[self.inner])
        values[self.outer], values[self.inner] = both


@dataclass(slots=True, eq=False, frozen=True)
class Fuse:
    """``fused = outer * extent(inner) + inner``."""

    outer: IterVar
    inner: IterVar
    fused: IterVar

    @property
    def members(self) -> tuple[IterVar, ...]:
        """The loops that it ties together."""
        return self.outer, self.inner, self.fused

    def extents_down(self, extents: Extents, sizes: Any) -> None:
        """The extent of the fused loop."""
        extents[self.fused] = sizes.product(extents[self.outer], extents[self.inner])

    def values_up(self, extents: Extents, values: Values, sizes: Any) -> tuple[IterVar, ...]:
        """The values of the two loops; the fused one never runs beyond them."""
        both = sizes.divided(values[self.fused], extents[self.inner])
        values[self.outer], values[self.inner] = both
        return ()

    def values_down(self, extents: Extents, values: Values, sizes: Any) -> None:
        """The value of the fused loop."""
        scaled = sizes.scaled(values[self.outer], extents[self.inner])
        values[self.fused] = scaled + values[self.inner]


@dataclass(slots=True, eq=False, frozen=True)
class Rebase:
    """``parent = rebased + the least value of parent``: the same steps, counted from 0."""

    parent: IterVar
    rebased: IterVar

    @property
    def members(self) -> tuple[IterVar, ...]:
        """The loops that it ties together."""
        return self.parent, self.rebased

    def extents_down(self, extents: Extents, sizes: Any) -> None:
        """The same extent."""
        extents[self.rebased] = extents[self.parent]

    def values_up(self, extents: Extents, values: Values, sizes: Any) -> tuple[IterVar, ...]:
        """The same value."""
        values[self.parent] = values[self.rebased]
        return ()

    def values_down(self, extents: Extents, values: Values, sizes: Any) -> None:
        """The same value."""
        values[self.rebased] = values[self.parent]


@dataclass(slots=True, eq=False, frozen=True)
class Singleton:
    """``iter`` is a loop of one step, made of nothing."""

    iter: IterVar

    @property
    def members(self) -> tuple[IterVar, ...]:
        """The loop."""
        return (self.iter,)

    def extents_down(self, extents: Extents, sizes: Any) -> None:
        """One step."""
        extents[self.iter] = sizes.size(ops.const(1))

    def values_up(self, extents: Extents, values: Values, sizes: Any) -> tuple[IterVar, ...]:
        """It stands for no axis."""
        return ()

    def values_down(self, extents: Extents, values: Values, sizes: Any) -> None:
        """Its only step."""
        values[self.iter] = sizes.form(ops.const(0))


@dataclass(slots=True, eq=False, frozen=True)
class Transform:
    """Axes in the order of a layout: splits and fusions of them, at once.

    Attributes:
        original_variables: the axes; ``transformed_variables``: what was made of them.
        forward_transform: from the indices of the ones to those of the others.
        inverse_transform: and back; with padding it gives indices beyond the axes, too.
        steps: the same as relations of one kind each.
    """

    original_variables: tuple[IterVar, ...]
    transformed_variables: tuple[IterVar, ...]
    forward_transform: IndexMap
    inverse_transform: IndexMap
    steps: tuple[Split | Fuse | Rebase | Singleton, ...]

    @staticmethod
    def of(axes: Sequence[IterVar], extents: Sequence[Any], index_map: IndexMap) -> Transform:
        """The transform of axes with some extents by a map.

        Raises:
            ArgumentError: if the map does not take indices apart into digits, each used once.
        """
        digits = index_map.digits(extents, "transform_layout")
        loops = dict(enumerate(axes))
        last = {k: n for n, k in enumerate(digits.final)}
        dtype = axes[0].dtype if axes else "int32"
        for k in range(len(axes), len(digits.extents)):
            name = f"axis{last[k]}" if k in last else f"digit{k}"
            loops[k] = IterVar(None, Var(name, dtype), DATA_PAR)
        steps: list[Split | Fuse | Rebase | Singleton] = [Singleton(loops[k]) for k in digits.ones]
        for x in digits.steps:
            parent, outer, inner = loops[x.parent], loops[x.outer], loops[x.inner]
            if x.splits:
                steps.append(Split(parent, outer, inner, ops.const(x.factor, dtype), None))
            else:
                steps.append(Fuse(outer, inner, parent))
        for k in digits.final:
            if k < len(axes):  # a whole axis
                loops[k] = IterVar(None, Var(f"axis{last[k]}", dtype), DATA_PAR)
                steps.append(Rebase(axes[k], loops[k]))
        inverse, _ = index_map.non_surjective_inverse(extents)
        made = tuple(loops[k] for k in digits.final)
        return Transform(tuple(axes), made, index_map, inverse, tuple(steps))

    @property
    def members(self) -> tuple[IterVar, ...]:
        """The loops that it ties together."""
        inner = [a for r in self.steps for a in r.members]
        return tuple(dict.fromkeys((*self.original_variables, *self.transformed_variables, *inner)))

    def extents_down(self, extents: Extents, sizes: Any) -> None:
        """The extents of the new loops, from those of the axes."""
        for r in self.steps:
            r.extents_down(extents, sizes)

    def values_up(self, extents: Extents, values: Values, sizes: Any) -> tuple[IterVar, ...]:
        """The values of the axes; those are returned beyond whose ends the new loops may run."""
        out: tuple[IterVar, ...] = ()
        for r in reversed(self.steps):
            out += r.values_up(extents, values, sizes)
        return out

    def values_down(self, extents: Extents, values: Values, sizes: Any) -> None:
        """The values of the new loops, from those of the axes."""
        for r in self.steps:
            r.values_down(extents, values, sizes)


Relation = Split | Fuse | Rebase | Singleton | Transform


def with_guards(relations: Sequence[Relation]) -> list[Relation]:
    """The relations where no element may be computed twice: tails are guarded, not shifted."""
    return [replace(r, shifts=False) if isinstance(r, Split) else r for r in relations]


class PragmaKey(str):
    """The name of a pragma: a str that has TVM's ``value``."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The name."""
        return str.__str__(self)


@dataclass(slots=True, frozen=True)
class IterVarAttr:
    """The annotations of one axis or loop.

    Attributes:
        iter_type: the axis's own kind, or unrolled, vectorised, parallel (``tir.IterVar``'s
            numbers).
        bind_thread: the thread axis that runs the loop.
        pragma_keys, pragma_values: the pragmas, in order.
        grain: how many steps of a parallel loop one hand-out takes; 0: an even share each.
        dim_align_factor, dim_align_offset: of ``storage_align``; a factor of 0 is none.
        prefetch_data, prefetch_offset: the tensors of ``prefetch``, and how many iterations ahead.
        prefetch_spread: of each of these, whether it is spread over the loops within.
        tensor_intrin: what computes the loop and all inside of it, after ``tensorize``.
    """

    iter_type: int = DATA_PAR
    bind_thread: IterVar | None = None
    pragma_keys: tuple[str, ...] = ()
    pragma_values: tuple[PrimExpr | None, ...] = ()
    dim_align_factor: int = 0
    dim_align_offset: int = 0
    grain: int = 0
    prefetch_data: tuple[Tensor, ...] = ()
    prefetch_offset: tuple[int, ...] = ()
    tensor_intrin: TensorIntrin | None = None
    prefetch_spread: tuple[bool, ...] = ()

    def __setstate__(self, state: list[Any]) -> None:
        """Take the fields; those of ``prefetch`` and ``tensorize`` are the last that were added."""
        values = dict(zip(self.__slots__, state))
        for name in self.__slots__:
            absent: Any = None if name == "tensor_intrin" else ()
            if name == "prefetch_spread":
                absent = (False,) * len(values.get("prefetch_data", ()))
            object.__setattr__(self, name, values.get(name, absent))

    @property
    def thread_tag(self) -> str:
        """The tag of the thread axis that runs the loop; empty where none does."""
        return self.bind_thread.thread_tag if self.bind_thread is not None else ""

    @property
    def kind(self) -> str:
        """The loop's kind in the loop IR: ``"serial"``, ``"vectorized"`` and so on."""
        if self.bind_thread is not None:
            return s.THREAD_BINDING
        return _KINDS.get(self.iter_type, s.SERIAL)
