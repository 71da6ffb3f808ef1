"""Replay pools for tests of tune(), and samplers that expect, leave the space, or note all."""

from __future__ import annotations

import zlib

import numpy as np

from whet.autotune.samplers.contract.base import SpaceSampler
from whet.autotune.samplers.contract.planned import Plan, PlannedSampler
from whet.measure import ReplayPool


class Recorder(ReplayPool):
    """A replay pool that remembers what it was asked."""

    def __init__(self, cost, capacity=4):
        super().__init__(cost, capacity)
        self.submitted = []
        self.remeasured = []
        self.references = []

    def compare_with(self, reference):
        self.references.append(reference)
        super().compare_with(reference)

    def submit(self, inp):
        self.submitted.append(inp)
        return super().submit(inp)

    def remeasure(self, inputs, rounds):
        self.remeasured.append(inputs)
        return super().remeasure(inputs, rounds)


class InDisorder:
    """In front of a pool: it gives results back one at a time, the newest first."""

    def __init__(self, *args):
        super().__init__(*args)
        self.held = []

    def collect(self, timeout=None):
        self.held += super().collect(timeout)
        return [self.held.pop()] if self.held else []


class Shuffling(InDisorder, Recorder):
    """A recorder whose results come in disorder."""


class Stopping(Recorder):
    """Gives results back one at a time, as if Ctrl-C were pressed after some of them."""

    def __init__(self, cost, capacity, results):
        super().__init__(cost, capacity)
        self.held = []
        self.left = results

    def collect(self, timeout=None):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.held += super().collect(timeout)
        return [self.held.pop(0)]


class Expecting(SpaceSampler):
    """A random sampler that expects what it is told to, as a function of the number of trials."""

    def __init__(self, space, gain, seed=0):
        super().__init__(space, seed)
        self.gain = gain

    def propose(self, history):
        return self.fresh(history)

    def expected_gain(self, history):
        return self.gain(len(history.costs))


class Leaving(SpaceSampler):
    """Proposes outside of the space from its fifth trial on."""

    def propose(self, history):
        if history.number < 5:
            return self.fresh(history)
        return tuple(int(n) for n in np.asarray(self.space.dims) + 3)


class Attentive(PlannedSampler):
    """Random plans, which differ with all that was known when they were made."""

    def plan(self, history, size):
        known = history.points.tobytes() + history.costs.tobytes()
        if self.prior is not None:
            known += self.prior.scores.tobytes()
        rng = self.rng(history.number, salt=zlib.crc32(known))
        return Plan(self._fresh.points(history, rng, size), gain=0.2 * rng.random())
