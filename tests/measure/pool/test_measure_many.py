"""Several workloads in one pool: each is checked by its own default, each has its own best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from measure_fakes import candidate

from whet.compiler.errors import MeasureError, WorkerLostError
from whet.measure import LocalPool, MeasureInput, MeasureOptions, ReplayPool
from whet.measure.stage.lru_cache import LRUCache
from whet.search_spaces import Workload

QUICK = MeasureOptions(
    build_timeout=60.0,
    run_timeout=60.0,
    min_repeat_ms=0.5,
    max_measure_s=0.02,
    memory_limit=1 << 29,
)
FAKES = {
    "build_function": "measure_fakes:fake_build",
    "run_function": "measure_fakes:fake_run",
    "prepare_function": "measure_fakes:fake_prepare",
}


def of(name: str, behaviour: str, number: int = 0) -> MeasureInput:
    return replace(candidate(behaviour, number), workload=Workload(name))


def measured(pool: Any, *inputs: MeasureInput) -> list[Any]:
    tickets = [pool.submit(inp) for inp in inputs]
    found: dict[int, Any] = {}
    while len(found) < len(tickets):
        found |= dict(pool.collect(timeout=10))
    return [found[ticket] for ticket in tickets]


def test_each_workload_is_checked_by_its_own_default() -> None:
    with LocalPool(1, options=QUICK, **FAKES) as pool:
        pool.compare_with(of("sums", "good", 1))
        pool.compare_with(of("others", "wrong", 2))  # its default adds 1e-2 to one number
        turns = [
            of(name, behaviour, 10 + i)
            for i, (name, behaviour) in enumerate(
                [("sums", "good"), ("others", "good"), ("sums", "wrong"), ("others", "wrong")] * 2
            )
        ]
        statuses = [r.status for r in measured(pool, *turns)]
        assert statuses == ["ok", "wrong_answer", "wrong_answer", "ok"] * 2
        alone = measured(pool, of("unheard of", "wrong", 30))[0]
        assert alone.ok and not alone.environment["checked"]
        assert pool.best_costs.keys() == {Workload(n).key for n in ("sums", "others", "unheard of")}


def test_the_best_of_one_workload_does_not_hurry_another() -> None:
    patient = replace(QUICK, max_measure_s=1.0)
    with LocalPool(1, options=patient, **FAKES) as pool:
        fast, slow = measured(pool, of("a", "good", 1), of("b", "slow", 2))
        assert fast.environment["stopped"] != "slow" and slow.environment["stopped"] != "slow"
        behind = measured(pool, of("a", "slow", 3))[0]
        assert behind.environment["stopped"] == "slow"
        assert behind.environment["repeats"] == len(behind.costs) == 1


def test_a_reference_that_cannot_be_built_says_so_of_its_own_workload() -> None:
    with LocalPool(1, options=QUICK, **FAKES) as pool:
        pool.compare_with(of("a", "build_raise_error", 1))
        pool.compare_with(of("b", "good", 1))
        first, second = measured(pool, of("a", "good", 2), of("b", "good", 3))
        assert not first.environment["checked"] and second.environment["checked"]
        assert "could not be built" in first.environment["unchecked"]


@pytest.mark.parametrize("kind", ["local", "replay"])
def test_rounds_may_be_chosen_as_they_go(kind: str) -> None:
    inputs = [of("a", "good", n) for n in range(3)]
    seen = []

    def rounds(costs: list[list[float]]) -> list[int]:
        seen.append([len(own) for own in costs])
        return [[0, 1, 2], [0, 1, 2], [0, 2], [0, 2], []][len(seen) - 1]

    with (
        LocalPool(1, options=QUICK, **FAKES)
        if kind == "local"
        else ReplayPool(lambda inp: 1e-3 * (1 + int(inp.config.choice("number")))) as pool
    ):
        results = pool.remeasure(inputs, rounds)
    assert [len(r.costs) for r in results] == [4, 2, 4]
    assert seen == [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 2, 3], [4, 2, 4]]


@pytest.mark.parametrize("error", [WorkerLostError, MeasureError])
def test_finalists_outlive_measurers_that_die_one_after_the_other(monkeypatch, error) -> None:
    with LocalPool(1, options=QUICK, **FAKES) as pool:
        in_turns, lost = pool._calls.in_turns, []

        def dies(*args: Any) -> Any:
            if len(lost) % 8 < 7:
                lost.append(1)
                raise error("run", "its machine is gone")
            return in_turns(*args)

        def always_dies(*args: Any) -> Any:
            lost.append(1)
            raise error("run", "its machine is gone")

        monkeypatch.setattr(pool._calls, "in_turns", dies)
        assert pool.remeasure([of("a", "good")], 2)[0].ok and len(lost) == 7
        lost.append(1)
        monkeypatch.setattr("whet.measure.pool.traffic.AGAIN_S", 0.0)
        with pytest.raises(MeasureError, match="each measurer was lost"):
            pool.remeasure([of("a", "good")], 2)
        assert len(lost) == 8 + 3
        # What is lost at once is not asked again at once.
        monkeypatch.setattr("whet.measure.pool.traffic.AGAIN_S", 1.0)
        monkeypatch.setattr("whet.measure.pool.traffic.TRIES", 1)
        lost[:] = [1] * 8
        monkeypatch.setattr(pool._calls, "in_turns", always_dies)
        with pytest.raises(MeasureError, match="each measurer was lost"):
            pool.remeasure([of("a", "good")], 2)
        assert len(lost) - 8 <= 6


def test_what_is_kept_is_bounded_by_bytes() -> None:
    cache: LRUCache[np.ndarray] = LRUCache(1000)
    for name in "abc":
        cache.put(name, np.zeros(40), 320)
    assert list(cache) == ["a", "b", "c"]
    assert len(cache["a"]) == 40  # used: b is the oldest now
    cache.put("d", np.zeros(40), 320)
    assert set(cache) == {"a", "c", "d"}
    cache.put("large", np.zeros(1000), 8000)
    assert list(cache) == ["large"] and "a" not in cache
    cache.clear()
    assert list(cache) == []
