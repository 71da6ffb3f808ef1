"""Entities: what a template gets for a knob, and how each is applied to a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.errors import SpaceError


@dataclass(frozen=True, slots=True)
class SplitEntity:
    """The sizes that an axis is split into, outermost first.

    ``size[0]`` is ``ceil(extent / prod(size[1:]))``: with sizes that do not divide the extent, the
    product is larger than the extent, and the schedule guards the tail.
    """

    size: tuple[int, ...]

    def apply(self, s: Any, op: Any, axis: Any) -> list[Any]:
        """Split ``axis`` of the stage ``s[op]`` and return the axes, outermost first.

        Args:
            s: the schedule.
            op: the operation or tensor whose axis it is.
            axis: the axis to split.
        """
        axes = []
        # From the outside in by the product of what is left: only the first split can have a tail,
        # so there is one guard and not one for each level.
        for level in range(1, len(self.size)):
            outer, axis = s[op].split(axis, factor=prod(self.size[level:]))
            axes.append(outer)
        return [*axes, axis]


@dataclass(frozen=True, slots=True)
class ReorderEntity:
    """An order of axes: ``perm[i]`` is the number of the axis that comes ``i``-th from outside."""

    perm: tuple[int, ...]

    def apply(self, s: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorder ``axes`` of the stage ``s[op]`` and return them in their new order.

        Args:
            s: the schedule.
            op: the operation or tensor whose axes they are.
            axes: as many axes as the knob was defined for, in the same order.

        Raises:
            SpaceError: another number of axes.
        """
        _same_number("ReorderEntity.apply", axes, self.perm)
        order = [axes[i] for i in self.perm]
        s[op].reorder(*order)
        return order


@dataclass(frozen=True, slots=True)
class AnnotateEntity:
    """One word for each axis: ``"none"``, ``"unroll"`` or ``"vec"``."""

    anns: tuple[str, ...]

    def apply(
        self,
        s: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
    ) -> list[Any]:
        """Unroll and vectorize ``axes`` of the stage ``s[op]`` and return them.

        Args:
            s: the schedule.
            op: the operation or tensor whose axes they are.
            axes: as many axes as the knob was defined for, in the same order.
            axis_lens: their extents; needed with ``max_unroll`` and ``vec_size``.
            max_unroll: the largest extent that may be unrolled.
            vec_size: the extents that may be vectorized.

        Raises:
            SpaceError: another number of axes, or an extent outside the limits.
        """
        _same_number("AnnotateEntity.apply", axes, self.anns)
        if axis_lens is None and (max_unroll is not None or vec_size is not None):
            raise SpaceError(
                "AnnotateEntity.apply",
                "max_unroll and vec_size need the axes' extents",
                "pass axis_lens=, e.g. cfg['tile'].size",
            )
        if axis_lens is not None:
            _same_number("AnnotateEntity.apply: axis_lens", axis_lens, self.anns)
            self._check_extents(axis_lens, max_unroll, vec_size)
        for ann, axis in zip(self.anns, axes, strict=True):
            if ann == "unroll":
                s[op].unroll(axis)
            elif ann == "vec":
                s[op].vectorize(axis)
        return list(axes)

    def _check_extents(
        self, extents: Sequence[int], max_unroll: int | None, vec_size: Sequence[int] | None
    ) -> None:
        for ann, extent in zip(self.anns, extents, strict=True):
            if ann == "unroll" and max_unroll is not None and extent > max_unroll:
                raise SpaceError(
                    f"unroll an axis of extent {extent}", f"max_unroll is {max_unroll}"
                )
            if ann == "vec" and vec_size is not None and extent not in vec_size:
                legal = ", ".join(map(str, vec_size))
                raise SpaceError(f"vectorize an axis of extent {extent}", f"vec_size is {legal}")


@dataclass(frozen=True, slots=True)
class OtherOptionEntity:
    """The value of a plain knob."""

    val: Any

    def __bool__(self) -> bool:
        raise SpaceError(
            "the truth value of a knob",
            "cfg[name] is the knob's entity, not its value",
            "use cfg[name].val",
        )


Entity = SplitEntity | ReorderEntity | AnnotateEntity | OtherOptionEntity

# A knob's kind, as configs and fingerprints name it.
_ENTITIES: dict[str, Callable[[Any], Entity]] = {
    "split": SplitEntity,
    "reorder": ReorderEntity,
    "annotate": AnnotateEntity,
    "knob": OtherOptionEntity,
}


def entity_of(kind: str, choice: Any) -> Any:
    """The entity for a ``choice`` of a knob of this ``kind``.

    Raises:
        SpaceError: an unknown kind.
    """
    if kind not in _ENTITIES:
        raise SpaceError(
            f"a knob of kind {kind!r}", "unknown kind", f"kinds: {', '.join(_ENTITIES)}"
        )
    return _ENTITIES[kind](choice)


class VirtualAxis:
    """An axis that a split knob will make: a token to name in ``define_reorder`` and others."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"VirtualAxis({self.name})"


def _same_number(asked: str, given: Sequence[Any], expected: Sequence[Any]) -> None:
    if len(given) != len(expected):
        raise SpaceError(asked, f"{len(given)} were given, the knob has {len(expected)}")
