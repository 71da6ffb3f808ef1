"""The split knob: every way to cut an axis of known extent into nested loops."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isqrt, log2, prod
from typing import Any, ClassVar

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import is_scalar, np
from whet.compiler.tir.expr import IntImm
from whet.search_spaces.knobs.constraint_source import described
from whet.search_spaces.knobs.definition import LARGEST_LIST, Definition, check_policy
from whet.search_spaces.knobs.entities import SplitEntity, VirtualAxis
from whet.search_spaces.knobs.plain import Choice, said

POLICIES = ("factors", "power2", "verbose", "candidate")
Filter = Callable[[SplitEntity], Any]

# What a loop nest wants before anybody has measured: about a cache line or two innermost, small
# register tiles above it.
_INNERMOST, _MIDDLE = 16, 4


@dataclass(frozen=True, slots=True)
class SplitDefinition(Definition):
    """How a split knob was asked for; see ``ConfigSpace.define_split``."""

    name: str
    extent: int
    policy: str
    num_outputs: int
    max_factor: int | None
    filter: Filter | None = field(compare=False)
    no_tail: bool
    candidate: tuple[tuple[int, ...], ...]

    kind: ClassVar[str] = "split"

    @staticmethod
    def of(
        name: str,
        axis: Any,
        policy: str,
        num_outputs: int | None,
        max_factor: int | None,
        filter: Filter | None,
        no_tail: bool,
        candidate: Sequence[Sequence[int]] | None,
    ) -> SplitDefinition:
        """Check the arguments of ``define_split``.

        Raises:
            SpaceError: an argument is wrong.
        """
        request = f"define_split({name!r}, policy={policy!r})"
        check_policy(request, policy, POLICIES)
        extent = _extent_of(axis, request)
        if max_factor is not None and (type(max_factor) is not int or max_factor < 1):
            raise SpaceError(request, f"max_factor={max_factor!r} must be an int of at least 1")
        if filter is not None and not callable(filter):
            raise SpaceError(request, f"filter={filter!r} is not callable")
        if (policy == "candidate") != (candidate is not None):
            raise SpaceError(request, "policy='candidate' and candidate= go together")
        sizes: tuple[tuple[int, ...], ...] = ()
        if candidate is not None:
            sizes = tuple(_sizes(entry, extent, request) for entry in candidate)
            if not sizes:
                raise SpaceError(request, "candidate= is empty")
            if num_outputs is None:
                num_outputs = len(sizes[0])
        if type(num_outputs) is not int or num_outputs < 1:
            raise SpaceError(request, f"num_outputs={num_outputs!r} must be an int of at least 1")
        for entry in sizes:
            if len(entry) != num_outputs:
                raise SpaceError(
                    request,
                    f"the candidate {entry!r} does not have num_outputs={num_outputs} sizes",
                )
        return SplitDefinition(
            name, extent, policy, num_outputs, max_factor, filter, bool(no_tail), sizes
        )

    def choices(self) -> tuple[Choice, ...]:
        entries = self.candidate if self.policy == "candidate" else self._enumerated()
        kept: tuple[Choice, ...] = tuple(size for size in entries if self._admits(size))
        if not kept:
            raise SpaceError(
                f"define_split({self.name!r}, policy={self.policy!r})",
                f"every way to split an extent of {self.extent} is rejected",
                f"max_factor={self.max_factor}, no_tail={self.no_tail}, "
                f"filter={'given' if self.filter else None}; loosen them, or use "
                "policy='verbose', whose sizes need not divide the extent",
            )
        return kept

    def _admits(self, size: tuple[int, ...]) -> bool:
        if self.max_factor is not None and any(factor > self.max_factor for factor in size[1:]):
            return False
        if self.no_tail and self.extent % prod(size[1:]):
            return False
        if self.filter is None:
            return True
        try:
            return bool(self.filter(SplitEntity(size)))
        except Exception as error:
            raise SpaceError(
                f"define_split({self.name!r}, filter={described(self.filter)})",
                f"it raised {said(error)} for the sizes {size}",
                "a filter answers for all sizes: test for those that it cannot judge",
            ) from error

    def _enumerated(self) -> list[tuple[int, ...]]:
        factors: set[int] = set()
        if self.policy in ("factors", "verbose"):
            factors.update(divisors(self.extent))
        if self.policy in ("power2", "verbose"):
            factors.update(1 << bit for bit in range(self.extent.bit_length()))
        options = sorted(f for f in factors if f <= (self.max_factor or self.extent))
        exact = self.no_tail or self.policy == "factors"
        entries = []
        for inner in _products(options, self.num_outputs - 1, self.extent, exact):
            entries.append((-(-self.extent // prod(inner)), *inner))
            if len(entries) > LARGEST_LIST:
                raise SpaceError(
                    f"define_split({self.name!r}, policy={self.policy!r})",
                    f"more than {LARGEST_LIST} ways to split {self.extent} into "
                    f"{self.num_outputs} loops",
                    "give max_factor=, fewer num_outputs, or policy='candidate'",
                )
        return entries

    def same_as(self, other: Any) -> bool:
        return self == other and _same_filter(self.filter, other.filter)

    def preferred(self, choices: tuple[Choice, ...]) -> int:
        inner = [_MIDDLE] * max(self.num_outputs - 2, 0) + [_INNERMOST]
        return self._nearest(choices, tuple(inner[: self.num_outputs - 1]), tail_costs=2.0)

    def closest(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        # A template names the tile it likes for every shape; where the extent or a filter does not
        # allow it, the nearest legal one is meant.
        if (
            not isinstance(wanted, tuple | list)
            or len(wanted) != self.num_outputs
            or any(type(factor) is not int or factor < 1 for factor in wanted[1:])
        ):
            return None
        first = wanted[0]
        if type(first) is not int or (first < 1 and first != -1):
            return None
        return self._nearest(choices, tuple(wanted[1:]), tail_costs=0.0)

    def _nearest(
        self, choices: tuple[Choice, ...], inner: tuple[int, ...], tail_costs: float
    ) -> int:
        wanted = [log2(factor) for factor in inner]

        def away(position: int) -> float:
            size: Any = choices[position]
            total = sum(abs(log2(f) - w) for f, w in zip(size[1:], wanted, strict=True))
            return total + (tail_costs if self.extent % prod(size[1:]) else 0.0)

        return min(range(len(choices)), key=away)

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        # All sizes and not only the inner ones: moving a factor of two between two loops is then a
        # step of 2 whichever loops they are.
        sizes = np.asarray(choices, dtype=np.float64).reshape(len(choices), self.num_outputs)
        return (np.log2(sizes) / 2).astype(np.float32)

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        sizes = np.asarray(choices, dtype=np.float64).reshape(len(choices), self.num_outputs)
        # Column l is the extent of the tile below loop l - 1: the product of the sizes from l on.
        tiles = np.cumprod(sizes[:, ::-1], axis=1)[:, ::-1]
        waste = tiles[:, :1] / self.extent - 1.0
        extent = np.full((len(choices), 1), log2(self.extent))
        names = [f"{self.name}.size{level}" for level in range(self.num_outputs)]
        names += [f"{self.name}.tile{level}" for level in range(1, self.num_outputs - 1)]
        names += [f"{self.name}.waste", f"{self.name}.extent"]
        columns = [np.log2(sizes), np.log2(tiles[:, 1:-1]), waste, extent]
        return names, np.concatenate(columns, axis=1).astype(np.float32)

    def axes(self) -> list[VirtualAxis]:
        return [VirtualAxis(f"{self.name}.{level}") for level in range(self.num_outputs)]


def divisors(n: int) -> list[int]:
    """The divisors of ``n >= 1`` in rising order."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _products(options: list[int], length: int, room: int, exact: bool) -> Iterator[tuple[int, ...]]:
    """Every tuple of ``options`` whose product is at most ``room``, or divides it if ``exact``."""
    if length == 0:
        yield ()
        return
    for factor in options:
        if factor > room:
            return
        if exact and room % factor:
            continue
        for rest in _products(options, length - 1, room // factor, exact):
            yield (factor, *rest)


def _extent_of(axis: Any, request: str) -> int:
    if isinstance(axis, VirtualAxis):
        raise SpaceError(
            request,
            f"{axis!r} is made by another knob, so its extent differs between configs",
            "give that split more num_outputs instead",
        )
    extent = axis
    if not isinstance(axis, int) and not (is_scalar(axis) and isinstance(axis, np.integer)):
        domain = getattr(axis, "dom", None)
        extent = getattr(domain, "extent", None)
    if isinstance(extent, IntImm):
        extent = extent.value
    try:
        size = int(extent)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SpaceError(
            request,
            f"the extent of {axis!r} is not a known number",
            "give an operation's own axis of constant extent, or the extent itself",
        ) from error
    if isinstance(axis, bool) or size < 1:
        raise SpaceError(request, f"an extent of {extent!r} cannot be split")
    return size


def _sizes(entry: Any, extent: int, request: str) -> tuple[int, ...]:
    """A candidate's sizes with the first one filled in."""
    if (
        not isinstance(entry, tuple | list)
        or not entry
        or any(type(factor) is not int or factor < 1 for factor in entry[1:])
        or type(entry[0]) is not int
    ):
        raise SpaceError(
            request,
            f"the candidate {entry!r} is not a list of sizes",
            "sizes are ints of at least 1, outermost first; the first may be -1 (what is left)",
        )
    first = -(-extent // prod(entry[1:]))
    if entry[0] not in (-1, first):
        raise SpaceError(
            request,
            f"the candidate {entry!r} does not cover an extent of {extent}",
            f"its first size must be {first}, or -1 (what is left)",
        )
    return (first, *entry[1:])


def _same_filter(ours: Any, theirs: Any) -> bool:
    """True only if both filters are sure to decide alike."""
    if ours is theirs:
        return True
    if not isinstance(ours, types.FunctionType) or not isinstance(theirs, types.FunctionType):
        return False
    if ours.__code__ is not theirs.__code__ or ours.__globals__ is not theirs.__globals__:
        return False
    return _same_values(_captured(ours), _captured(theirs))


def _captured(function: types.FunctionType) -> list[Any]:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _same_values(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(_same_value, ours, theirs))


def _same_value(ours: Any, theirs: Any) -> bool:
    # Only immutable values: what can change may decide otherwise although it is the same object.
    return type(ours) is type(theirs) and (
        (isinstance(ours, int | float | str | bytes | None) and ours == theirs)
        or (isinstance(ours, tuple) and _same_values(list(ours), list(theirs)))
        or (
            isinstance(ours, type | types.ModuleType | types.BuiltinFunctionType) and ours is theirs
        )
    )
