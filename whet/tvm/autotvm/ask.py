"""A sampler that is asked and told by hand: ``next_batch`` and ``update`` of a tuner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import inf
from typing import Any

from whet.autotune.samplers import make_sampler
from whet.autotune.samplers.contract.history import Trials
from whet.autotune.tasks.task import Task
from whet.search_spaces import Config
from whet.tvm.autotvm.record import mean
from whet.tvm.autotvm.values import MeasureInput, MeasureResult


class Asked:
    """The proposals of a sampler for one task, and what it was told.

    Args:
        task: whose space it is.
        sampler: a name of :data:`whet.autotune.SAMPLERS`.
        seed: of the sampler.
    """

    def __init__(self, task: Task, sampler: str, seed: int) -> None:
        self.task, self.name, self.seed = task, sampler, seed
        self._numbers: dict[str, int] = {}
        self._told: set[str] = set()

    @cached_property
    def _trials(self) -> Trials:
        return Trials(len(self.task.config_space.knobs))

    @cached_property
    def _sampler(self) -> Any:
        from whet.autotune.features import LoopFeatures

        features = LoopFeatures(self.task) if self.name == "xgb" else None
        return make_sampler(self.name, self.task.config_space, self.seed, features)

    def has_next(self) -> bool:
        """Whether a valid config is left."""
        return self._trials.rows < self.task.config_space.size

    def next_batch(self, batch_size: int) -> list[Config]:
        """The next configs, none of which was proposed or told before."""
        space, batch = self.task.config_space, list[Config]()
        while len(batch) < batch_size and self.has_next():
            self._trials.begin()
            point = self._sampler.propose(self._trials.history())
            number = self._trials.ask(point)
            batch.append(space.decode(point))
            self._numbers[batch[-1].key] = number
        return batch

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """How configs ended; what was not proposed here is learnt from, too."""
        for inp, result in zip(inputs, results, strict=True):
            config = self.task.config_space.from_choices(inp.config.as_dict())
            cost = mean(result) if result.error_no == 0 else inf
            number = self._numbers.get(config.key)
            if number is None:
                self._trials.place(self.task.config_space.encode(config), cost)
            elif config.key not in self._told:
                self._trials.observe(number, cost)
            self._told.add(config.key)
