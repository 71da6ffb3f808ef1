"""The reorder knob: which orders of a stage's axes are tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any, ClassVar

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.definition import LARGEST_LIST, Definition, check_policy, number_of
from whet.search_spaces.knobs.plain import Choice

POLICIES = ("identity", "all", "interval_all", "candidate", "interleave", "interleave_cuda")
_INTERLEAVED = ("interleave", "interleave_cuda")
Chains = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ReorderDefinition(Definition):
    """How a reorder knob was asked for; see ``ConfigSpace.define_reorder``."""

    name: str
    num_axes: int
    policy: str
    interval: tuple[int, int] | None
    candidate: Chains
    spatial: Chains
    reduce: Chains

    kind: ClassVar[str] = "reorder"

    @staticmethod
    def of(
        name: str,
        axes: Sequence[Any],
        policy: str,
        interval: tuple[int, int] | None,
        candidate: Sequence[Sequence[Any]] | None,
        spatial: Sequence[Sequence[Any]] | None,
        reduce: Sequence[Sequence[Any]] | None,
    ) -> ReorderDefinition:
        """Check the arguments of ``define_reorder``; axes become their numbers.

        Raises:
            SpaceError: an argument is wrong.
        """
        request = f"define_reorder({name!r}, policy={policy!r})"
        check_policy(request, policy, POLICIES)
        if not axes:
            raise SpaceError(request, "there are no axes")
        options = {
            "candidate": (candidate, ("candidate",)),
            "interval": (interval, ("interval_all",)),
            "spatial": (spatial, _INTERLEAVED),
        }
        for word, (option, owners) in options.items():
            if (policy in owners) != (option is not None):
                raise SpaceError(request, f"policy={owners[0]!r} and {word}= go together")
        if reduce is not None and policy not in _INTERLEAVED:
            raise SpaceError(request, "policy='interleave' and reduce= go together")
        if interval is not None:
            interval = _interval(interval, len(axes), request)
        orders = _numbered(candidate, axes, request)
        if candidate is not None and not orders:
            raise SpaceError(request, "candidate= is empty")
        for order in orders:
            _check_permutation(order, len(axes), request)
        chains = _numbered(spatial, axes, request), _numbered(reduce, axes, request)
        if policy in _INTERLEAVED:
            if not chains[0] or not all(chains[0] + chains[1]):
                raise SpaceError(request, "spatial= and reduce= are lists of chains of axes")
            _check_permutation(sum(chains[0] + chains[1], ()), len(axes), request)
        return ReorderDefinition(name, len(axes), policy, interval, orders, *chains)

    def choices(self) -> tuple[Choice, ...]:
        entries = tuple(islice(self._orders(), LARGEST_LIST + 1))
        if len(entries) > LARGEST_LIST:
            raise SpaceError(
                f"define_reorder({self.name!r}, policy={self.policy!r})",
                f"{self.num_axes} axes have more than {LARGEST_LIST} orders",
                "use policy='interval_all', 'interleave' or 'candidate'",
            )
        return entries

    def _orders(self) -> Iterator[tuple[int, ...]]:
        every = tuple(range(self.num_axes))
        if self.policy == "identity":
            yield every
        elif self.policy == "all":
            yield from permutations(every)
        elif self.interval is not None:
            begin, end = self.interval
            for middle in permutations(every[begin:end]):
                yield every[:begin] + middle + every[end:]
        elif self.policy == "candidate":
            yield from self.candidate
        else:
            merged = [islice(_merges(chains), LARGEST_LIST + 1) for chains in self._parts()]
            yield from (sum(parts, ()) for parts in product(*merged))

    def _parts(self) -> list[Chains]:
        """The chains that are merged with one another, one group inside the other."""
        outer = tuple(chain[:-1] for chain in self.spatial)
        last = tuple(chain[-1:] for chain in self.spatial)
        if self.policy == "interleave":
            return [outer, self.reduce + last]
        steps = tuple(chain[:-1] for chain in self.reduce)
        return [outer, steps, last + tuple(chain[-1:] for chain in self.reduce)]

    def preferred(self, choices: tuple[Choice, ...]) -> int:
        if self.policy in _INTERLEAVED:
            # Tiles within tiles, level by level; reductions inside them; the vectors innermost.
            outer = _by_level(tuple(chain[:-1] for chain in self.spatial))
            steps = _by_level(tuple(chain[:-1] for chain in self.reduce))
            if self.policy == "interleave":
                steps = _by_level(self.reduce)
            else:
                steps += tuple(chain[-1] for chain in self.reduce)
            return choices.index(outer + steps + tuple(chain[-1] for chain in self.spatial))
        identity = tuple(range(self.num_axes))
        return choices.index(identity) if identity in choices else 0

    def closest(self, choices: tuple[Choice, ...], wanted: Any) -> int | None:
        if isinstance(wanted, tuple | list) and all(type(number) is int for number in wanted):
            return Definition.closest(self, choices, wanted)
        return None

    def coordinates(self, choices: tuple[Choice, ...]) -> np.ndarray:
        # Swapping two neighbouring axes moves two places by one: a step of 1.
        return self.features(choices)[1] / 2

    def features(self, choices: tuple[Choice, ...]) -> tuple[list[str], np.ndarray]:
        names = [f"{self.name}.place{axis}" for axis in range(self.num_axes)]
        return names, np.argsort(np.asarray(choices), axis=1).astype(np.float32)


def _interval(interval: Any, num_axes: int, request: str) -> tuple[int, int]:
    if not isinstance(interval, tuple | list) or len(interval) != 2:
        raise SpaceError(request, f"interval={interval!r} must be (begin, end)")
    begin, end = interval
    if type(begin) is not int or type(end) is not int or not 0 <= begin < end <= num_axes:
        raise SpaceError(
            request, f"interval={interval!r} must satisfy 0 <= begin < end <= {num_axes}"
        )
    return begin, end


def _numbered(groups: Sequence[Sequence[Any]] | None, axes: Sequence[Any], request: str) -> Chains:
    """Groups of axes (or of their numbers) as groups of numbers."""
    return tuple(
        tuple(item if type(item) is int else number_of(axes, item, request) for item in group)
        for group in groups or ()
    )


def _check_permutation(order: tuple[int, ...], num_axes: int, request: str) -> None:
    if sorted(order) != list(range(num_axes)):
        raise SpaceError(request, f"{order!r} does not name each of the {num_axes} axes once")


def _merges(chains: Chains) -> Iterator[tuple[int, ...]]:
    """Every merge of the chains that keeps each chain's own order."""
    if not any(chains):
        yield ()
        return
    for i, chain in enumerate(chains):
        if chain:
            for rest in _merges(chains[:i] + (chain[1:],) + chains[i + 1 :]):
                yield (chain[0], *rest)


def _by_level(chains: Chains) -> tuple[int, ...]:
    """The merge that takes one axis of each chain in turn."""
    depth = max(map(len, chains), default=0)
    return tuple(chain[level] for level in range(depth) for chain in chains if level < len(chain))
