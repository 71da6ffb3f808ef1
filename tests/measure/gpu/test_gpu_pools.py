"""Measuring on devices: numbers in the emulator, times and faults on the stand-in driver."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from gpu_fakes import candidate

from whet.measure import LocalPool, MeasureOptions, MeasureResult
from whet.measure.pool.engine import StagedPool

FAKES = {"build_function": "gpu_fakes:fake_build"}
STANDIN = FAKES | {
    "run_function": "gpu_fakes:standin_run",
    "prepare_function": "gpu_fakes:standin_prepare",
}
QUICK = MeasureOptions(
    build_timeout=60.0, run_timeout=60.0, min_repeat_ms=0.1, repeat=3, max_measure_s=0.05
)


def results(pool: StagedPool, *behaviours: str) -> dict[str, MeasureResult]:
    """The results of candidates, by their behaviours."""
    tickets = {pool.submit(candidate(b, k)): b for k, b in enumerate(behaviours)}
    found: dict[str, MeasureResult] = {}
    while len(found) < len(behaviours):
        found |= {tickets[t]: r for t, r in pool.collect(60)}
    return found


# --- the emulator


@pytest.fixture(scope="module")
def emulator() -> Iterator[StagedPool]:
    with LocalPool(
        1, device="cuda-emulator", options=QUICK, reference=candidate("good", 99), **FAKES
    ) as pool:
        yield pool


def test_costs_of_the_emulator_are_the_models(emulator):
    found = results(emulator, "sums", "good", "pruned", "large")
    good, large = found["good"], found["large"]
    assert good.ok and good.costs == (2e-6,) and good.predicted == "a fake"
    assert good.environment["cost"] == "model" and good.environment["checked"] is True
    assert good.environment["registers"] == 16
    assert large.ok and large.costs == (4e-6,) and large.environment["checked"] is False
    assert "too much for the emulator: 1e+12 instructions" in large.environment["unchecked"]
    pruned = found["pruned"]
    assert pruned.status == "pruned" and pruned.pruned and not pruned.failed and not pruned.ok
    assert pruned.environment == {"registers": 300} and pruned.stage == "build"
    assert "Traceback" not in pruned.error


def test_a_default_that_is_too_large_is_not_run():
    """It would take the measurer minutes to compile, and each new worker again."""
    pool = LocalPool(
        1, device="cuda-emulator", options=QUICK, reference=candidate("large", 99), **FAKES
    )
    with pool:
        found = results(pool, "good", "race")
    good = found["good"]
    assert good.ok and good.environment["checked"] is False
    assert good.environment["unchecked"] == (
        "the default config is too much for the emulator: 1e+12 instructions, "
        "and 1.5e+08 are the most"
    )
    assert found["race"].status == "run_error"  # all else is looked at


@pytest.mark.parametrize(
    ("behaviour", "status", "said"),
    [
        ("wrong", "wrong_answer", r"C\[104\].*the largest error is 0.01"),
        ("unwritten", "wrong_answer", r"1 of 1000 numbers.*C\[999\]"),
        ("scribble", "wrong_answer", "its input A"),
        ("beside", "run_error", "(?s)add_kernel0.*C"),
        ("race", "run_error", "(?s)race.*add_kernel0.*T"),
        ("sums", "run_error", r"C\[0\], which nothing has written"),
    ],
)
def test_mistakes_are_found_in_the_emulator(emulator, behaviour, status, said):

    result = results(emulator, behaviour)[behaviour]
    assert result.status == status and result.failed and not result.costs
    assert re.search(said, result.error, re.S), result.error


def test_accumulations_are_compared_with_an_accumulation():
    reference = candidate("sums", 99)
    with LocalPool(1, device="cuda-emulator", options=QUICK, reference=reference, **FAKES) as pool:
        found = results(pool, "sums", "good")
    assert found["sums"].ok and found["sums"].environment["checked"] is True
    assert found["good"].status == "wrong_answer"


def test_an_endless_kernel_ends_with_its_worker():
    for seconds in (2.0, 15.0, 60.0):  # on a busy machine what is good may take longer than that
        options = MeasureOptions(build_timeout=60.0, run_timeout=seconds)
        with LocalPool(1, device="cuda-emulator", options=options, **FAKES) as pool:
            found = results(pool, "endless", "good")
        endless = found["endless"]
        assert endless.status == "run_timeout" and f"killed after {seconds:g} s" in endless.error
        if found["good"].ok:
            break
    assert found["good"].ok


def test_without_a_check_nothing_is_run():
    options = MeasureOptions(check=False)
    with LocalPool(1, device="cuda-emulator", options=options, **FAKES) as pool:
        found = results(pool, "endless", "far")
    assert [r.environment["unchecked"] for r in found.values()] == ["switched off"] * 2
    assert all(r.ok for r in found.values())


def test_finalists_of_a_model(emulator):
    once = emulator.remeasure([candidate("good", 1), candidate("wrong", 2)], 3)
    assert once[0].costs == (2e-6,) * 3 and once[1].status == "wrong_answer"


# --- the real pycuda on a stand-in for NVIDIA's driver


@pytest.fixture
def standin(monkeypatch) -> Iterator[StagedPool]:
    if not find_spec("pycuda"):
        pytest.skip("pycuda is not installed")
    from whet.compiler.emulator.standin import folder

    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder()))
    with LocalPool(
        1, device="cuda:1", options=QUICK, reference=candidate("good", 99), **STANDIN
    ) as pool:
        yield pool


def test_faults_cost_one_trial_and_a_worker(standin):
    found = {}
    for behaviour in ("good", "far", "scribble", "beside", "wrong", "unwritten", "sums", "race"):
        found |= results(standin, behaviour)
    good, far, after = found["good"], found["far"], found["scribble"]
    assert good.ok and good.predicted == "" and all(cost > 0 for cost in good.costs)
    facts = good.environment
    assert facts["cost"] == "measured" and facts["checked"] and facts["flushed"] is False
    assert facts["gpu"]["name"] and facts["gpu"]["cuda"]
    assert facts["gpu"]["bus"].startswith("0000:02:")  # the second GPU of the machine
    assert far.status == "run_error" and "illegal" in far.error.lower()
    assert far.environment["pid"] == facts["pid"]
    # The poisoned process is gone; the next candidate has another one, which knows the reference.
    assert after.environment["pid"] != facts["pid"]
    assert after.status == "wrong_answer" and "its input A" in after.error
    assert found["beside"].status == "wrong_answer" and "outside of C" in found["beside"].error
    assert found["wrong"].status == found["unwritten"].status == "wrong_answer"
    assert found["wrong"].environment["pid"] == after.environment["pid"]
    assert found["sums"].failed and found["race"].failed
    last = results(standin, "good")["good"]
    assert last.ok and last.environment["checked"]


def test_a_hung_kernel_ends_with_its_worker(standin):
    first = results(standin, "good")["good"]
    hung = results(standin, "endless")["endless"]
    assert hung.status == "run_timeout" and "deadline" in hung.error
    again = results(standin, "sums", "good")["good"]
    assert again.ok and again.environment["pid"] != first.environment["pid"]


def test_the_cache_is_flushed_when_that_is_asked_for(monkeypatch, standin):
    options = MeasureOptions(run_timeout=60.0, number=3, repeat=2, flush_l2=True)
    with LocalPool(
        1, device="cuda:0", options=options, reference=candidate("good", 99), **STANDIN
    ) as pool:
        good = results(pool, "good")["good"]
    assert good.ok and good.environment["flushed"] is True and good.environment["number"] == 3


def test_a_search_on_a_gpu(tmp_path):
    """From tune() to build(): records are the GPU's, and this machine's GPU is the default."""
    if not find_spec("pycuda"):
        pytest.skip("pycuda is not installed")
    from whet.compiler.emulator.standin import folder

    script = Path(__file__).parents[1].joinpath("gpu_search.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path / "a.db")],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder())},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "all is well\n" and done.returncode == 0, done.stderr[-4000:]
