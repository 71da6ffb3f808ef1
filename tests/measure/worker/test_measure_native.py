"""The real runner on machine code: right, wrong, endless and straying kernels."""

from __future__ import annotations

import pytest
from measure_fakes import candidate

from whet.measure import LocalPool, MeasureOptions


@pytest.fixture(scope="module")
def pool():
    # what is endless is hopeless beside the reference long before that
    options = MeasureOptions(run_timeout=60.0, min_repeat_ms=1, max_measure_s=0.05)
    build = "measure_fakes:native_build"
    with LocalPool(1, options=options, reference=candidate("good", 9), build_function=build) as one:
        yield one


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [
        ("good", "ok", ""),
        ("short", "wrong_answer", "C[999, 99]"),
        ("beyond", "run_crash", "SIGSEGV"),
        ("endless", "run_timeout", "hopeless: the best so far takes"),
        ("no_memory", "out_of_memory", "MemoryError"),
    ],
)
def test_machine_code_gets_its_due(pool, behaviour: str, status: str, words: str) -> None:
    pool.submit(candidate(behaviour))
    ((_, result),) = pool.collect()
    assert result.status == status, result
    assert words in result.error


def test_costs_are_plausible_and_remeasuring_interleaves(pool) -> None:
    first, second = pool.remeasure([candidate("good", 1), candidate("good", 2)], rounds=4)
    assert len(first.costs) == len(second.costs) == 4
    # 100000 additions one after the other: no processor is quicker, and a busy one much slower
    assert first.min_cost > 2e-6
    assert first.environment["number"] >= 1
