"""The trials of a search from its log, by the hundred thousand: arrays, no records."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whet.autotune.samplers.contract.history import Past
from whet.measure.values import OK

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.history import Point
    from whet.db.values.claims import LoggedPoint
    from whet.search_spaces import ConfigSpace


@dataclass(frozen=True)
class Recalled:
    """The beginning of a search as its log has it.

    Attributes:
        past: trials 0 to n-1, without a gap, and others' of which they were told.
        waiting: by number the costs of those of them that no later one was told of: they are told
            when a search that goes on would have been.
        later: points and costs of trials whose numbers come after a gap, by number.
        others: points and costs of other searches that no trial was told of yet.
    """

    past: Past
    waiting: dict[int, float]
    later: dict[int, tuple[Point, float]]
    others: list[tuple[Point, float]]


class _Trial(NamedTuple):
    """A point of the log."""

    id: int
    point: Point
    cost: float
    told: tuple[int | str, ...] | None


def recall(logged: Iterable[LoggedPoint], space: ConfigSpace, window: int) -> Recalled:
    """The past of a search, from the points of its task.

    The first trial of a number is the search's own; what else there is of that number is another
    search's. A config counts once, and one whose worker was lost does not count.

    Args:
        logged: in the order in which they were recorded.
        space: of their configs; those of another one are passed over.
        window: trials that may be in flight; of use where the log does not say what was told.
    """
    read = Reader(space)
    own: dict[int, _Trial] = {}
    others: dict[int, _Trial] = {}
    seen: set[Point] = set()
    default = space.encode(space.default)
    for row in logged:
        if row.status == "infra_error" or (point := read.point(row.config)) is None:
            continue
        if point in seen:
            continue
        seen.add(point)
        cost = row.cost if row.status == OK and row.cost is not None else math.inf
        mine = row.number not in own and (row.number > 0) == (point != default)
        trial = _Trial(row.id, point, cost, row.told if mine else None)
        if mine:
            own[row.number] = trial
        else:
            others[row.id] = trial
    return _arranged(own, others, window)


def _arranged(own: dict[int, _Trial], others: dict[int, _Trial], window: int) -> Recalled:
    """The rows in the order in which they came, and in which they were told."""
    points: list[Point] = []
    row_of: list[int] = []
    rows_at: list[int] = []
    observed_at: list[int] = []
    told: list[int] = []
    costs: list[float] = []
    waiting: dict[int, float] = {}
    number = 0
    while (trial := own.pop(number, None)) is not None:
        news: Iterable[int | str] = (
            trial.told
            if trial.told is not None
            else ((number - window,) if number >= window else ())
        )
        for one in news:
            if isinstance(one, int):
                if one in waiting:
                    told.append(row_of[one])
                    costs.append(waiting.pop(one))
            elif (other := others.pop(int(one[1:]), None)) is not None:
                told.append(len(points))
                costs.append(other.cost)
                points.append(other.point)
        rows_at.append(len(points))
        observed_at.append(len(told))
        row_of.append(len(points))
        points.append(trial.point)
        waiting[number] = trial.cost
        number += 1
    past = Past(
        np.array(points, dtype=np.int32).reshape(len(points), -1),
        np.array(row_of, dtype=np.int32),
        np.array(rows_at, dtype=np.int32),
        np.array(observed_at, dtype=np.int32),
        np.array(told, dtype=np.int32),
        np.array(costs, dtype=np.float64),
    )
    later = {n: (trial.point, trial.cost) for n, trial in sorted(own.items())}
    return Recalled(past, waiting, later, [(t.point, t.cost) for t in others.values()])


class Reader:
    """Reads the points of configs from their JSON text, without making configs.

    Args:
        space: of the configs.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._fingerprint = space.fingerprint
        self._names = tuple(space.knobs)
        pairs, kinds = space.named_choices
        # by a choice's text: 1, 1.0 and True are three
        self._positions = [{_text(c): at for at, (_, c) in enumerate(of)} for of in pairs]
        triples = (
            re.escape(f"[{_text(name)},{_text(kind)},") + r"(.*?)\]"
            for name, kind in zip(self._names, kinds)
        )
        head = f'{{"fingerprint":{_text(self._fingerprint)},"choices":['
        self._usual = re.compile(re.escape(head) + ",".join(triples) + r"\]\}")

    def point(self, text: str) -> Point | None:
        """The point of a config; None where it is not one of the space."""
        if (usual := self._usual.fullmatch(text)) is not None:
            found = map(dict.get, self._positions, usual.groups())
        elif (choices := self._choices(text)) is not None:
            found = map(dict.get, self._positions, map(_text, choices))
        else:
            return None
        point = tuple(at for at in found if at is not None)
        return point if len(point) == len(self._names) else None

    def _choices(self, text: str) -> list[Any] | None:
        """The choices of a config that is written otherwise than Whet writes it."""
        try:
            data = json.loads(text)
            choices = {name: choice for name, _, choice in data["choices"]}
            known = data["fingerprint"] == self._fingerprint
        except (KeyError, TypeError, ValueError, RecursionError):
            return None  # broken, or of another program
        if not known or len(data["choices"]) != len(choices) or choices.keys() != set(self._names):
            return None
        return [choices[name] for name in self._names]


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))
