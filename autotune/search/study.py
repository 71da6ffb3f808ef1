"""Between our log and Optuna: trials as a study in memory, numbered as the search numbered them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.results.trial import Trial
from whet.compiler.errors import SpaceError

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import SpaceSampler
    from whet.measure.values import MeasureResult
    from whet.search_spaces import Config, ConfigSpace


class Search:
    """An Optuna study over a space: ask for configs, tell their results, in the order of trials.

    Args:
        space: the space that is searched.
        sampler: a sampler over that space.
    """

    def __init__(self, space: ConfigSpace, sampler: SpaceSampler) -> None:
        import optuna

        # Optuna would print a line a trial; the progress line says the same, once.
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.space = space
        self.sampler = sampler
        self.distributions = sampler.distributions
        self.study = optuna.create_study(direction="minimize", sampler=sampler)
        self.proposed = 0
        self.observed = 0

    def ask(self) -> Config:
        """The config that the sampler proposes for trial number ``proposed``."""
        with self._named(f"asked for trial {self.proposed}"):
            trial = self.study.ask(self.distributions)
        point = np.array([trial.params[name] for name in self.distributions], dtype=np.int64)
        if not self.space.is_valid(point):
            raise SpaceError(
                f"trial {self.proposed} of {type(self.sampler).__name__}",
                f"it proposes {dict(zip(self.distributions, map(int, point)))}, which the space's "
                "constraints exclude",
                "a sampler proposes valid points only: space.repair(point) gives the nearest",
            )
        self.proposed += 1
        return self.space.decode(point)

    def place(self, config: Config) -> None:
        """Make ``config`` trial number ``proposed``; the sampler sees when, and is not asked."""
        from optuna.trial import TrialState, create_trial

        params = dict(zip(self.distributions, map(int, self.space.encode(config))))
        self.study.add_trial(
            create_trial(
                state=TrialState.RUNNING, params=params, distributions=dict(self.distributions)
            )
        )
        self.sampler.history(self.study, self.study.get_trials(deepcopy=False)[self.proposed])
        self.proposed += 1

    def expected_gain(self) -> float | None:
        """The relative improvement that the sampler expects next; None: it has no opinion."""
        return self.sampler.expected_gain(self.sampler.history(self.study))

    def tell(self, result: MeasureResult) -> None:
        """Tell the result of trial number ``observed``: always the next one in order."""
        from optuna.trial import TrialState

        number = self.observed
        self.observed += 1
        with self._named(f"told of trial {number}"):
            if result.ok:
                self.study.tell(number, result.cost)
            else:
                self.study.tell(number, state=TrialState.FAIL)

    @contextmanager
    def _named(self, doing: str) -> Iterator[None]:
        """Note on what is raised, by whom: samplers of a user's own may raise anything."""
        try:
            yield
        except Exception as error:
            error.add_note(f"raised by the sampler {self.sampler.name}, {doing}")
            raise


def slots(records: Sequence[Trial], default: Config) -> dict[int, Trial]:
    """The recorded trials by their place in the search.

    A record keeps the number it was logged with. Two searches on one log may have used the same
    number: the first stays, the other takes the first free place. Place 0 is the default
    config's. A config recorded twice counts once, and one whose worker was lost (``infra_error``)
    does not count: nothing is known of it.

    Args:
        records: in the order of the log.
        default: the default config of their space.
    """
    placed: dict[int, Trial] = {}
    displaced: list[Trial] = []
    seen: set[str] = set()
    for record in records:
        if record.result.status == "infra_error" or record.config.key in seen:
            continue
        seen.add(record.config.key)
        is_default = record.config.key == default.key
        number = 0 if is_default else record.number
        if number in placed or (number == 0 and not is_default):
            displaced.append(record)
        else:
            placed[number] = replace(record, number=number)
    free = 1
    for record in displaced:
        while free in placed:
            free += 1
        placed[free] = replace(record, number=free)
    return dict(sorted(placed.items()))
