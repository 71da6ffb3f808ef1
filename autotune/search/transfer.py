"""Transfer: what a log knows of other tasks, as seeds and weighted rows for a new search."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
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


@dataclass(frozen=True)
class _Part:
    """The trials of another task; ``fits``: their choices are of this space's knobs."""

    other: _Other
    trials: list[similar.Sampled]
    fits: bool


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

    others, stale, broken = _others(log, task, device, before)
    knobs = task.config_space.knobs.keys()
    parts: list[_Part] = []
    room, unread = ROWS, 0
    for other in others:
        if room <= 0:
            break
        trials = similar.sample(log, other.task, min(MOST, room))
        sound = [t for t in trials if t.choices is not None]
        unread += len(trials) - len(sound)
        if any(math.isfinite(t.cost) for t in sound):
            fits = other.same_template and (sound[0].choices or {}).keys() == knobs
            parts.append(_Part(other, sound, fits))
            room -= len(sound)
    passed = [("run", " that cannot be read", broken), *_passed_over(log, stale, task)]
    _say_ignored(task, [*passed, ("trial", " that cannot be read", unread)], say)
    return _prior(parts, task.config_space, columns) if parts else None


def say_stale(
    log: TuningLog, task: Task, device: Device | None, say: Callable[[str], None]
) -> None:
    """Say, as :func:`read_prior`, that other spaces of the task are ignored; learn nothing.

    Args:
        log, task, device, say: as there.
    """
    _, stale, _ = _others(log, task, device)
    _say_ignored(task, _passed_over(log, stale, task), say)


def _say_ignored(
    task: Task, ignored: list[tuple[str, str, int]], say: Callable[[str], None]
) -> None:
    """Say how many records of which kinds were ignored, if any."""
    if words := ", ".join(counted(n, kind) + which for kind, which, n in ignored if n):
        say(f"{task.workload}: records that were ignored: {words}")


def _passed_over(
    log: TuningLog, stale: list[similar.LoggedTask], task: Task
) -> list[tuple[str, str, int]]:
    """How many trials of the task in other spaces there are, by why these are others."""
    from whet.db.similar import trials_of
    from whet.db.values.identity import target_difference

    trials: Counter[str] = Counter()
    for one in stale:
        other = target_difference(one.target, task.target.to_json())
        which = f" for another target, with another space ({other})"
        trials[which if other else " of another version of this space"] += trials_of(log, one)
    return [("trial", which, n) for which, n in trials.items()]


def _others(
    log: TuningLog, task: Task, device: Device | None, before: float = math.inf
) -> tuple[list[_Other], list[similar.LoggedTask], int]:
    """The tasks to learn from, nearest first; those that are this one with another space; and how
    many runs cannot be read."""
    from whet.db import similar
    from whet.db.values.identity import device_key, distance
    from whet.measure.device.identity import device_of

    here = device_key(device_of(task.target, device))
    logged, broken = similar.tasks(log, before)
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
        apart = distance(one.workload.args, task.workload.args) if same_template else math.inf
        near = apart < math.inf
        weight = max(math.exp(-apart / NEAR), OTHER_OPERATOR) if near else OTHER_OPERATOR
        weight *= 1.0 if at_home else OTHER_MACHINE
        others.append(_Other(one, apart, same_template, weight))
    # The newest of equals first; ids make the order the same each time.
    others.sort(key=lambda o: (-o.weight, o.distance, -o.task.runs[-1]))
    return others[:TASKS], old, broken


def _prior(parts: list[_Part], space: ConfigSpace, columns: tuple[int, int]) -> Prior:
    """The trials of other tasks as rows."""
    trials = [trial for part in parts for trial in part.trials]
    lengths = [len(part.trials) for part in parts]
    knobs = np.full((len(trials), len(space.feature_names)), np.nan, dtype=np.float32)
    fitted = _points(parts, space)
    if fitted:
        places, points = np.array(list(fitted)), np.array(list(fitted.values()), dtype=np.int64)
        valid = space.valid(points)
        knobs[places[valid]] = space.features_of_points(points[valid])
    return Prior(
        seeds=_seeds(parts, space),
        features=vectors.unpack([t.features for t in trials], *columns),
        knobs=knobs,
        scores=np.concatenate([_scores(part) for part in parts]).astype(np.float32),
        weights=np.repeat([part.other.weight for part in parts], lengths).astype(np.float32),
        tasks=np.repeat(np.arange(len(parts)), lengths),
    )


def _scores(part: _Part) -> np.ndarray:
    """log(best cost / cost) of each trial; failures a little below the worst success."""
    costs = np.array([t.cost for t in part.trials])
    finite = np.isfinite(costs)
    scores = np.full(len(costs), -np.inf)
    scores[finite] = np.log(costs[finite].min() / costs[finite])
    scores[~finite] = scores[finite].min() - WORST
    return scores


def _seeds(parts: list[_Part], space: ConfigSpace) -> tuple[Config, ...]:
    """The best configs of near shapes: of each its best, nearest first, then the next ones."""
    near = [
        [t.choices for t in part.trials if math.isfinite(t.cost)][:SEEDS]
        for part in parts
        if part.fits and part.other.distance <= BESIDE
    ]
    seeds: dict[str, Config] = {}
    for choices in filter(None, chain.from_iterable(zip_longest(*near))):
        if len(seeds) == SEEDS:
            break
        with suppress(SpaceError, TypeError, ValueError):  # choices that no template ever made
            config = space.nearest(choices)
            if config.key != space.default.key:
                seeds.setdefault(config.key, config)
    return tuple(seeds.values())


def _points(parts: list[_Part], space: ConfigSpace) -> dict[int, list[int]]:
    """By row the point of the choices most alike, for trials whose choices are of these knobs."""
    places: dict[tuple[str, str], int] = {}

    def place(name: str, choice: Any) -> int:
        key = (name, repr(choice))  # 1 and True are equal, and two choices
        if key not in places:
            places[key] = space.knobs[name].similar(choice)
        return places[key]

    points: dict[int, list[int]] = {}
    rows = ((part.fits, trial.choices) for part in parts for trial in part.trials)
    for row, (fits, choices) in enumerate(rows):
        if fits and choices is not None:
            # A config that no template made has no point.
            with suppress(SpaceError, KeyError, TypeError, ValueError):
                points[row] = [place(name, choices[name]) for name in space.knobs]
    return points
