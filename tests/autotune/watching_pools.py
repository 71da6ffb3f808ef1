"""Pools that give no result, remember what was asked, are interrupted, or come back in disorder."""

from __future__ import annotations

from autotune_pools import InDisorder

from whet.autotune import tune
from whet.measure import ReplayPool


class Forbidden:
    """A pool that nothing may be asked of."""

    capacity = 1
    best_costs: dict = {}
    busy_s = 0.0

    def used(self, *args, **options):
        raise AssertionError("the pool was used")

    submit = collect = remeasure = compare_with = close = __enter__ = __exit__ = used


class Recorder(ReplayPool):
    """A replay pool that remembers what it was asked."""

    def __init__(self, cost, capacity=4):
        super().__init__(lambda inp: cost(inp.config), capacity)
        self.submitted = []
        self.remeasured = []

    def submit(self, inp):
        self.submitted.append(inp.config)
        return super().submit(inp)

    def remeasure(self, inputs, rounds):
        self.remeasured.append([inp.config for inp in inputs])
        return super().remeasure(inputs, rounds)


class Interrupting(Recorder):
    """Raises KeyboardInterrupt in place of the results after ``after`` of them."""

    def __init__(self, cost, after):
        super().__init__(cost)
        self.after = after

    def collect(self, timeout=None):
        if len(self.submitted) >= self.after:
            raise KeyboardInterrupt
        return super().collect(timeout)


class Shuffling(InDisorder, Recorder):
    """A recorder whose results come in disorder."""


def tuned(task, pool, log, trials, sampler="random", **options):
    """The result of a search; the default sampler learns, which takes longer than the rest."""
    return tune(task, trials, sampler=sampler, log=log, workers=pool, progress=False, **options)
