"""Entities: what a template gets for a knob, and how each is applied to a schedule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.errors import SpaceError

LOOPS = ("none", "unroll", "vec")
_THREADS = tuple(f"{unit}.{d}" for unit in ("blockIdx", "threadIdx") for d in "zyx")
WORDS = (*LOOPS, "fuse", "vthread", *_THREADS)
"""The words that an annotate knob may give an axis."""


def as_tuple(entity: Any, name: str) -> None:
    """Make an entity's list a tuple: templates also write ``SplitEntity([-1, 8])``."""
    if isinstance(given := getattr(entity, name), list):
        object.__setattr__(entity, name, tuple(given))


@dataclass(frozen=True, slots=True)
class SplitEntity:
    """The sizes that an axis is split into, outermost first.

    ``size[0]`` is ``ceil(extent / prod(size[1:]))``: with sizes that do not divide the extent, the
    product is larger than the extent, and the schedule guards the tail.
    """

    size: tuple[int, ...]

    def __post_init__(self) -> None:
        as_tuple(self, "size")

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

    def __post_init__(self) -> None:
        as_tuple(self, "perm")

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
    """One word for each axis, or, of policy ``"locate_cache"``, the numbers of axes.

    Words: ``"none"``, ``"unroll"``, ``"vec"``, ``"fuse"`` (with the next axis), ``"vthread"``,
    ``"blockIdx.x"`` ... ``"threadIdx.z"``.
    """

    anns: tuple

    def __post_init__(self) -> None:
        as_tuple(self, "anns")

    def apply(
        self,
        s: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> list[Any]:
        """Annotate ``axes`` of the stage ``s[op]``, or place caches at them; returns the axes.

        Args:
            s: the schedule.
            op: the operation or tensor whose axes they are.
            axes: as many axes as the knob was defined for, in the same order.
            axis_lens: their extents; needed with ``max_unroll`` and ``vec_size``.
            max_unroll: the largest extent that may be unrolled.
            vec_size: the extents that may be vectorized.
            cfg: told by ``cfg.raise_error`` of an extent outside the limits, instead of raising.
            source: for each anchor of ``"locate_cache"``, the tensors computed there.

        Returns:
            the axes, outermost first; one in the place of those that were fused.

        Raises:
            SpaceError: another number of axes, an extent outside the limits, words where
                ``source`` is given or numbers where it is not.
        """
        located = any(isinstance(ann, int) for ann in self.anns)
        if located != (source is not None):
            raise SpaceError(
                "AnnotateEntity.apply",
                "source= goes with the policy 'locate_cache', and with no other",
                f"the knob's choice is {self.anns}",
            )
        if source is not None:
            return self._locate(s, op, axes, source)
        _same_number("AnnotateEntity.apply", axes, self.anns)
        if axis_lens is None and (max_unroll is not None or vec_size is not None):
            raise SpaceError(
                "AnnotateEntity.apply",
                "max_unroll and vec_size need the axes' extents",
                "pass axis_lens=, e.g. cfg['tile'].size",
            )
        if axis_lens is not None:
            _same_number("AnnotateEntity.apply: axis_lens", axis_lens, self.anns)
            error = self._wrong_extent(axis_lens, max_unroll, vec_size)
            if error is not None and cfg is None:
                raise error
            if error is not None:
                cfg.raise_error(str(error))
                return list(axes)
        return self._annotate(s[op], axes)

    def _annotate(self, stage: Any, axes: Sequence[Any]) -> list[Any]:
        from whet.compiler.te import thread_axis

        left, pending = [], None
        for ann, axis in zip(self.anns, axes, strict=True):
            axis = axis if pending is None else stage.fuse(pending, axis)
            pending = axis if ann == "fuse" else None
            if ann == "unroll":
                stage.unroll(axis)
            elif ann == "vec":
                stage.vectorize(axis)
            elif ann not in ("none", "fuse"):
                stage.bind(axis, thread_axis(ann))
            if pending is None:
                left.append(axis)
        return left

    def _locate(
        self, s: Any, op: Any, axes: Sequence[Any], source: Sequence[Sequence[Any]]
    ) -> list[Any]:
        _same_number("AnnotateEntity.apply: source", source, self.anns)
        if max(self.anns) >= len(axes):
            raise SpaceError(
                "AnnotateEntity.apply", f"{len(axes)} axes have no axis {max(self.anns)}"
            )
        for tensors, anchor in zip(source, self.anns, strict=True):
            for tensor in tensors:
                s[tensor].compute_at(s[op], axes[anchor])
        return list(axes)

    def _wrong_extent(
        self, extents: Sequence[int], max_unroll: int | None, vec_size: Sequence[int] | None
    ) -> SpaceError | None:
        for ann, extent in zip(self.anns, extents, strict=True):
            if ann == "unroll" and max_unroll is not None and extent > max_unroll:
                return SpaceError(
                    f"unroll an axis of extent {extent}", f"max_unroll is {max_unroll}"
                )
            if ann == "vec" and vec_size is not None and extent not in vec_size:
                legal = ", ".join(map(str, vec_size))
                return SpaceError(f"vectorize an axis of extent {extent}", f"vec_size is {legal}")
        return None


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


@dataclass(eq=False, slots=True)
class VirtualAxis:
    """An axis that a split knob will make: a token to name in ``define_reorder`` and others."""

    name: str

    def __repr__(self) -> str:
        return f"VirtualAxis({self.name})"


def _same_number(request: str, given: Sequence[Any], expected: Sequence[Any]) -> None:
    if len(given) != len(expected):
        raise SpaceError(request, f"{len(given)} were given, the knob has {len(expected)}")
