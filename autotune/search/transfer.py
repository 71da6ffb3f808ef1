"""Transfer: what a log knows of other tasks, as seeds and weighted rows for a new search."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.errors import SpaceError
from whet.db.store import vectors
from whet.measure.device.names import is_model
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.db import TuningLog, similar
    from whet.measure.device.names import Device
    from whet.search_spaces import Config, ConfigSpace

ROWS = 1600
"""Trials of other tasks that a search learns from at most."""
TASKS = 24
"""Other tasks that are looked at, the nearest first."""
MOST = 320
"""Trials of one other task at most: several shapes teach more than one."""
SEEDS = 4
"""Configs that are tried first, the best ones of the nearest shapes in turns. What is best for
another shape is good here, seldom the best: with more of them searches took longer."""
BESIDE = 4.0
"""Doublings up to which a shape is near enough for its best config to be tried first."""
NEAR = 6.0
"""Doublings between two shapes over which the trust in a shape falls to 1 / e."""
OTHER_OPERATOR, OTHER_MACHINE = 0.25, 0.3
"""Trust in the trials of another template, and of another machine or target."""
WORST = math.log(2.0)
"""How much worse than the worst success a failure counts."""


@dataclass(frozen=True)
class Prior:
    """The knowledge from other tasks.

    Attributes:
        seeds: best configs of near shapes fitted to this space, best first: the first to be tried
            after the default.
        features: float32 ``(m, D)``: loop features of other tasks' trials, as the log keeps them;
            a row of NaN where it has none of this version.
        knobs: float32 ``(m, K)``: this space's features of their configs, each knob's choice as
            the one here that is most alike; rows of NaN where the template is another one, or this
            space's constraints exclude that.
        scores: float32 ``(m,)``: log(best cost of that task / cost): 0 is its best; failures: its
            worst less log 2.
        weights: float32 ``(m,)`` in (0, 1]: same template, near shape and same machine high, other
            operators less, other machines least.
        tasks: int64 ``(m,)``: which task each row is of; its rows stand together, its best first.
    """

    seeds: tuple[Config, ...]
    features: np.ndarray
    knobs: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    tasks: np.ndarray


@dataclass(frozen=True)
class _Other:
    """Another task of the log, and how much it says about this one."""

    task: similar.LoggedTask
    distance: float
    same_template: bool
    weight: float


def read_prior(
    log: TuningLog,
    task: Task,
    device: Device | None,
    before: float = math.inf,
    columns: tuple[int, int] = (0, 0),
    say: Callable[[str], None] = lambda text: None,
) -> Prior | None:
    """The knowledge of a log from other tasks; None where there is none.

    Args:
        log: an open log.
        task: the task to learn for; its own trials are no part of it.
        device: the machine that measures; None: this one.
        before: only runs begun before this time count, so that a search that is resumed starts
            from what it started from at first.
        columns: version and number of the loop features' columns.
        say: takes a line on records that were ignored.
    """
    from whet.db import similar  # which loads SQLAlchemy
    from whet.db.values.identity import device_key
    from whet.measure.device.identity import device_of

    here = device_key(device_of(task.target, device))
    logged, broken = similar.tasks(log, before)
    others, stale = _others(logged, task, here)
    old = _passed_over(log, stale, task)
    if not others and not broken and not old:
        return None
    rows = _Rows(task.config_space, columns)
    for other in others:
        room = min(MOST, ROWS - rows.count)
        if room <= 0:
            break
        rows.add(other, similar.sample(log, other.task, room))
    ignored = [
        (broken, "run", " that cannot be read"),
        *((n, "trial", which) for which, n in old.items()),
        (rows.broken, "trial", " that cannot be read"),
    ]
    words = ", ".join(counted(n, what) + which for n, what, which in ignored if n)
    if words:
        say(f"{task.workload}: records that were ignored: {words}")
    return rows.prior()


def say_stale(
    log: TuningLog, task: Task, device: Device | None, say: Callable[[str], None]
) -> None:
    """Say, as :func:`read_prior`, that other spaces of the task are ignored; learn nothing.

    Args:
        log, task, device, say: as there.
    """
    from whet.db import similar
    from whet.db.values.identity import device_key
    from whet.measure.device.identity import device_of

    here = device_key(device_of(task.target, device))
    _, stale = _others(similar.tasks(log)[0], task, here)
    if old := _passed_over(log, stale, task):
        words = ", ".join(counted(n, "trial") + which for which, n in old.items())
        say(f"{task.workload}: records that were ignored: {words}")


def _passed_over(log: TuningLog, stale: list[similar.LoggedTask], task: Task) -> dict[str, int]:
    """How many trials of the task in other spaces there are, by why these are others."""
    from whet.db.similar import trials_of
    from whet.db.values.identity import target_difference

    trials_of_space: dict[str, int] = {}
    for one in stale:
        other = target_difference(one.target, task.target.to_json())
        which = " of another version of this space"
        if other:
            which = f" for another target, with another space ({other})"
        if trials := trials_of(log, one):
            trials_of_space[which] = trials_of_space.get(which, 0) + trials
    return trials_of_space


def _others(
    logged: list[similar.LoggedTask], task: Task, here: str
) -> tuple[list[_Other], list[similar.LoggedTask]]:
    """The tasks to learn from, nearest first, and those that are this one with another space."""
    from whet.db.values.identity import distance

    space, target = task.config_space, task.target.to_json()
    others, old = [], []
    for one in logged:
        if one.target.get("kind") != target.get("kind"):
            continue
        if is_model(one.device) != is_model(here):
            continue  # what a model says is no measurement, and a measurement none of its words
        at_home = one.device == here and one.target == target
        same = one.workload == task.workload
        if same and one.fingerprint != space.fingerprint:
            old.append(one)
            continue
        if same and at_home:
            continue  # its own trials, which the search goes on from
        same_template = one.workload.template == task.workload.template
        apart = distance(one.workload.args, task.workload.args)
        near = same_template and apart < math.inf
        weight = max(math.exp(-apart / NEAR), OTHER_OPERATOR) if near else OTHER_OPERATOR
        weight *= 1.0 if at_home else OTHER_MACHINE
        others.append(_Other(one, apart if near else math.inf, same_template, weight))
    # The newest of equals first; ids make the order the same each time.
    others.sort(key=lambda o: (-o.weight, o.distance, -o.task.runs[-1]))
    return others[:TASKS], old


class _Rows:
    """Collects the rows of a prior."""

    def __init__(self, space: ConfigSpace, columns: tuple[int, int]) -> None:
        self._space = space
        self._columns = columns
        self._near: list[list[dict[str, Any]]] = []
        self._points: list[list[int] | None] = []
        self._places: dict[tuple[str, str], int] = {}
        self._texts: list[str | None] = []
        self._scores: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self.broken = 0

    @property
    def count(self) -> int:
        """Rows so far."""
        return len(self._texts)

    def add(self, other: _Other, trials: list[similar.Sampled]) -> None:
        """Add the trials of another task."""
        sound = [t for t in trials if t.choices is not None]
        self.broken += len(trials) - len(sound)
        costs = np.array([t.cost for t in sound])
        finite = np.isfinite(costs)
        if not finite.any():
            return
        scores = np.full(len(costs), -np.inf)
        scores[finite] = np.log(costs[finite].min() / costs[finite])
        scores[~finite] = scores[finite].min() - WORST
        fits = other.same_template and (sound[0].choices or {}).keys() == self._space.knobs.keys()
        self._scores.append(scores)
        self._weights.append(np.full(len(costs), other.weight))
        self._texts += [t.features for t in sound]
        self._points += [self._fitted(t.choices) if fits else None for t in sound]
        if fits and other.distance <= BESIDE:
            worked = [t.choices for t in sound if t.choices and math.isfinite(t.cost)]
            self._near.append(worked[:SEEDS])

    def prior(self) -> Prior | None:
        """All rows; None where there are none."""
        if not self.count:
            return None
        space = self._space
        knobs = np.full((self.count, len(space.feature_names)), np.nan, dtype=np.float32)
        places = np.array([i for i, p in enumerate(self._points) if p is not None], dtype=np.int64)
        if len(places):
            points = np.array([p for p in self._points if p is not None], dtype=np.int64)
            valid = space.valid(points)
            knobs[places[valid]] = space.features_of_points(points[valid])
        version, width = self._columns
        return Prior(
            seeds=self._seeds(),
            features=vectors.unpack(self._texts, version, width),
            knobs=knobs,
            scores=np.concatenate(self._scores).astype(np.float32),
            weights=np.concatenate(self._weights).astype(np.float32),
            tasks=np.repeat(np.arange(len(self._scores)), [len(s) for s in self._scores]),
        )

    def _seeds(self) -> tuple[Config, ...]:
        """The best configs of near shapes: of each its best, nearest first, then the next ones."""
        seeds: dict[str, Config] = {}
        taken = self._space.default.key
        for choices in (own[k] for k in range(SEEDS) for own in self._near if k < len(own)):
            config = self._nearest(choices) if len(seeds) < SEEDS else None
            if config is not None and config.key != taken:
                seeds.setdefault(config.key, config)
        return tuple(seeds.values())

    def _nearest(self, choices: dict[str, Any]) -> Config | None:
        try:
            return self._space.nearest(choices)
        except (SpaceError, TypeError, ValueError):  # choices that no template ever made
            self.broken += 1
            return None

    def _fitted(self, choices: dict[str, Any] | None) -> list[int] | None:
        """The point of the choices most alike; None where they are not of these knobs."""
        assert choices is not None
        try:
            return [self._place(name, choices[name]) for name in self._space.knobs]
        except (SpaceError, KeyError, TypeError, ValueError):  # choices that no template ever made
            return None

    def _place(self, name: str, choice: Any) -> int:
        key = (name, repr(choice))  # 1 and True are equal, and two choices
        if key not in self._places:
            self._places[key] = self._space.knobs[name].similar(choice)
        return self._places[key]
