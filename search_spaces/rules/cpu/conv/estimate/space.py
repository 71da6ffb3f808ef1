"""The knobs of one algorithm, and the choices of them that cost least."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

from whet.search_spaces.knobs.prefixed import Prefixed

Cost = Callable[[Mapping[str, Any]], float]
"""From the values of an algorithm's knobs to cycles."""

Choices = Mapping[str, Sequence[Any]]
"""The choices of each knob; the first knob is ``tile``, the second an order of loops."""

_STARTS = 2  # of the descent, in each order
_TILES = 10  # that are tried again on the way
_BETTER = 0.999  # what a change has to make of the cost


@dataclass(frozen=True)
class Space:
    """The knobs of an algorithm.

    Attributes:
        prefix: of their names. choices: of each, without the prefix.
        filters: the conditions on them.
        apart: a knob whose choices single changes of others do not lead to, or "".
    """

    prefix: str
    choices: Choices
    filters: tuple[Callable[[Any], bool], ...] = ()
    apart: str = ""

    def define(self, cfg: Any, default: Mapping[str, Any]) -> None:
        """Define the knobs and their conditions.

        Args:
            default: a value of each.
        """
        own = Prefixed(cfg, self.prefix)
        for name, values in self.choices.items():
            own.define_knob(name, values, default=default[name])
        for one in self.filters:
            own.multi_filter(one)

    @property
    def first(self) -> dict[str, Any]:
        """The first choice of each knob."""
        return {name: values[0] for name, values in self.choices.items()}

    def best(self, cost: Cost) -> tuple[dict[str, Any], float]:
        """The choices that cost least, and their cost.

        From the best tiles in each order it changes one knob at a time while that helps; so it does
        for each choice of the knob ``apart``.
        """
        if self.apart:
            choices = dict(self.choices)
            each = [{**choices, self.apart: [value]} for value in choices[self.apart]]
            found = [Space("", one, self.filters).best(cost) for one in each]
            return min(found, key=lambda pair: pair[1])
        second = [*self.choices][1]
        starts = []
        first = self.first
        for tile, order in product(self.choices["tile"], self.choices[second]):
            one = {**first, "tile": tile, second: order}
            if self._is_valid(one):
                starts.append((cost(one), one))
        starts.sort(key=lambda pair: pair[0])
        tiles = [one["tile"] for _, one in starts[:_TILES]]
        choices = {**self.choices, "tile": tuple(dict.fromkeys(tiles))}
        orders = [[pair for pair in starts if pair[1][second] == o] for o in self.choices[second]]
        best = [pair for some in orders for pair in some[:_STARTS]]
        found = [self._descended(one, least, cost, choices) for least, one in best]
        return min(found, key=lambda pair: pair[1]) if found else (self.first, cost(self.first))

    def _descended(
        self,
        chosen: dict[str, Any],
        least: float,
        cost: Cost,
        choices: Choices,
    ) -> tuple[dict[str, Any], float]:
        improved = True
        while improved:
            improved = False
            for name, values in choices.items():
                for value in values:
                    tried = {**chosen, name: value}
                    if value == chosen[name] or not self._is_valid(tried):
                        continue
                    found = cost(tried)
                    if found < least * _BETTER:
                        least, chosen, improved = found, tried, True
        return chosen, least

    def _is_valid(self, chosen: Mapping[str, Any]) -> bool:
        if not self.filters:
            return True
        view = {name: SimpleNamespace(val=value) for name, value in chosen.items()}
        return all(test(view) for test in self.filters)
