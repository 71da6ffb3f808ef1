"""The same seed, window and costs give the trials that were recorded in ``same_trials.json``.

    python tests/autotune/samplers/test_same_trials.py [NAME ...]

records those of the named samplers anew, all of them where none is named: a change of what is
proposed is a change that users see, and belongs into the changelog.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

import numpy as np
import pytest
from autotune_synthetic import gemm_cost, gemm_space
from samplers_check import SynthFeatures, propose, tied_cost, tied_space

from whet.autotune.search.transfer import Prior
from whet.compiler.installed import installed_versions
from whet.compiler.target.machine import host

RECORDED = Path(__file__).with_name("same_trials.json")
STEP = 16
"""Trials a digest is of, from the first one on: a difference is found where it begins."""
EXACT = ("random", "grid", "qmc", "genetic")
"""Samplers whose arithmetic is of integers and of random numbers: alike on every machine."""
PACKAGES = ("numpy", "scipy", "optuna", "cmaes", "xgboost")


def failing(config) -> float:
    """Seconds; one order of the loops never works."""
    return math.inf if config.choice("order") == "kij" else gemm_cost(config)


@dataclass(frozen=True)
class Case:
    """A search to repeat."""

    sampler: str
    trials: int
    window: int = 4
    seed: int = 3
    make: Callable[[], Any] = gemm_space
    cost: Callable[[Any], float] = gemm_cost
    features: bool = False
    prior: bool = False
    recorded: int = 1

    def digests(self, trials: int | None = None) -> list[str]:
        """A digest of each prefix of the proposals, every :data:`STEP` trials."""
        space, given = self.make(), {}
        if self.features:
            given["features"] = SynthFeatures(space, self.cost)
        if self.prior:
            given["prior"] = prior_of(space)
        first = [space.default][: self.recorded]
        configs = propose(
            space, self.sampler, trials or self.trials, self.cost, first, self.seed, self.window,
            **given,
        )  # fmt: skip
        points = np.array([space.encode(c) for c in configs], dtype=np.int64)
        return [
            hashlib.sha256(points[:end].tobytes()).hexdigest()[:16]
            for end in range(STEP, len(points) + 1, STEP)
        ]


def prior_of(space, count: int = 96) -> Prior:
    """Two tasks' records, with two seeds."""
    from whet.autotune.features import NAMES

    rng = np.random.default_rng(7)
    points = space.sample_points(rng, count)
    costs = [2 * gemm_cost(space.decode(p)) * math.exp(0.1 * rng.standard_normal()) for p in points]
    return Prior(
        (space.at(4711), space.at(815)),
        np.full((count, len(NAMES)), np.nan, dtype=np.float32),
        space.features_of_points(points),
        np.log(min(costs) / np.asarray(costs)).astype(np.float32),
        np.full(count, 0.8, dtype=np.float32),
        np.arange(count) // (count // 2),
    )


def _cases() -> dict[str, Case]:
    cases = {f"{name} failing": Case(name, 96, cost=failing) for name in ("random", "grid", "qmc")}
    for name, trials in (("genetic", 240), ("cmaes", 160), ("tpe", 96), ("gp", 240), ("xgb", 112)):
        cases[name] = Case(name, trials)
        cases[f"{name} failing, window 16"] = Case(name, 80, 16, 5, cost=failing)
        cases[f"{name} tied, window 8"] = Case(name, 64, 8, 1, tied_space, tied_cost, recorded=0)
    cases["xgb long"] = Case("xgb", 272)
    cases["xgb estimated"] = Case("xgb", 96, features=True)
    cases["xgb estimated, transferred"] = Case("xgb", 80, 8, features=True, prior=True)
    cases["xgb transferred"] = Case("xgb", 64, 16, prior=True)
    cases["gp transferred"] = Case("gp", 48, prior=True)
    return cases


CASES = _cases()


def machine() -> dict[str, Any]:
    """The versions and instructions that floating-point numbers depend on."""
    return {"versions": installed_versions(PACKAGES), "cpu": host.cpu_model()}


@pytest.mark.parametrize("name", CASES)
def test_the_trials_are_those_that_were_recorded(name):
    recorded, case = json.loads(RECORDED.read_text()), CASES[name]
    if case.sampler not in EXACT and recorded["machine"] != machine():
        pytest.skip(f"it was recorded with {recorded['machine']}: sums may be rounded otherwise")
    assert case.digests() == recorded["trials"][name]


def test_every_sampler_is_recorded():
    from whet.autotune.samplers import SAMPLERS

    assert {case.sampler for case in CASES.values()} == set(SAMPLERS)


if __name__ == "__main__":
    kept = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"trials": {}}
    for case_name, one in CASES.items():
        if one.sampler in (sys.argv[1:] or [one.sampler]):
            kept["trials"][case_name] = one.digests()
    kept["machine"] = machine()
    RECORDED.write_text(json.dumps(kept, indent=1) + "\n")
