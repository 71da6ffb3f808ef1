"""One contract for all pools, and the faults that a pool must survive."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measure_fakes import candidate

from whet.compiler.errors import MeasureError
from whet.measure import (
    LocalPool,
    MeasureInput,
    MeasureOptions,
    MeasureResult,
    Pool,
    RayPool,
    ReplayPool,
    open_pool,
)
from whet.measure.pool.ray_actor import RemoteStage
from whet.measure.pool.ray_cluster import MEASURER, searches
from whet.measure.stage import machine

FAKE = candidate("good").workload.key
# Nothing that ends by itself is killed on a busy machine. A kernel that does not is killed soon all
# the same, because it is hopeless beside the best so far.
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
Opener = Callable[..., Any]


def live(kind: type) -> Opener:
    def opener(options: MeasureOptions = QUICK, workers: int = 1, **more: Any) -> Pool:
        return kind(workers=workers, options=options, **FAKES, **more)

    return opener


def replay(**_: Any) -> Pool:
    return ReplayPool(lambda inp: 1e-3 * (1 + float(inp.config.choice("number"))))


def drain(pool: Pool, count: int, seconds: float = 240.0) -> dict[int, MeasureResult]:
    found: list[tuple[int, MeasureResult]] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found += pool.collect(timeout=1.0)
    assert len(found) == count == len(dict(found))
    return dict(found)


def only(pool: Pool, behaviour: str, number: int = 0) -> MeasureResult:
    ticket = pool.submit(candidate(behaviour, number))
    return drain(pool, 1)[ticket]


def opener_of(request: pytest.FixtureRequest) -> Opener:
    """The function that opens the pool of the parameter."""
    if request.param == "replay":
        return replay
    if request.param == "ray":
        request.getfixturevalue("ray_machine")
        return live(RayPool)
    return live(LocalPool)


opener = pytest.fixture(params=["local", "ray", "replay"])(opener_of)
live_opener = pytest.fixture(params=["local", "ray"])(opener_of)


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    """Keep the cluster that the first pool starts until all tests of this file are done."""
    from whet.measure.pool.ray_cluster import connected

    with connected(None):
        yield


@pytest.fixture
def ray_machine(ray_cluster: None, held: list[str]) -> None:
    """The cluster, and nobody measures on it or is about to. Where an earlier test's pool does not
    let go of it, all others fail at once: each would wait for minutes.
    """
    import ray

    assert not held, held
    held.append("an earlier test holds the measuring machine")
    # a search that is still listed has its share, and the machine may be that
    until(lambda: ray.available_resources().get(MEASURER) == 1 and not searches(ray))
    held.clear()


@pytest.fixture(scope="module")
def held() -> list[str]:
    return []


class TestContract:
    """The contract of every pool."""

    def test_it_is_a_pool_with_room(self, opener: Opener) -> None:
        with opener() as pool:
            assert isinstance(pool, Pool)
            assert pool.capacity >= 1
            assert pool.best_costs == {}
            assert open_pool(pool) is pool

    def test_each_candidate_comes_back_once_and_the_best_is_known(self, opener: Opener) -> None:
        with opener() as pool:
            assert pool.collect(timeout=5) == []  # nothing in flight: no waiting
            tickets = [pool.submit(candidate("good", n)) for n in range(8)]
            results = drain(pool, 8)
            assert sorted(tickets) == sorted(results) == list(range(8))
            assert [r.error for r in results.values()] == [""] * 8
            assert all(r.ok and r.costs for r in results.values())
            assert pool.best_costs == {FAKE: min(r.cost for r in results.values())}
            assert pool.collect(timeout=5) == []

    def test_remeasuring_gives_a_cost_for_each_round(self, opener: Opener) -> None:
        with opener() as pool:
            results = pool.remeasure([candidate("good", 1), candidate("good", 2)], rounds=3)
            assert [len(r.costs) for r in results] == [3, 3]

    def test_a_closed_pool_refuses(self, opener: Opener) -> None:
        pool = opener()
        pool.close()
        pool.close()
        for act in (lambda: pool.submit(candidate("good")), pool.collect):
            with pytest.raises(MeasureError, match="closed"):
                act()


FAULTS = {
    "lower_error": ("lower_error", "no such axis"),
    "build_raise_error": ("build_error", "ValueError: no such tile"),
    "build_segfault": ("build_crash", "SIGSEGV"),
    "build_abort": ("build_crash", "SIGABRT"),
    "build_hog": ("out_of_memory", "MemoryError"),
    "raise_error": ("run_error", "ValueError: no such tile"),
    "segfault": ("run_crash", "last words before the fault"),
    "leave": ("run_crash", "exited with status 3"),
    "hang": ("run_timeout", "entering the loop"),
    "hog": ("out_of_memory", "512 MiB"),
    "wrong": ("wrong_answer", "C[3, 4]"),
    "unwritten": ("wrong_answer", "NaN"),
    "overrun": ("run_crash", "SIGSEGV"),
    # 40 * 25 floats end 32 bytes before a multiple of 64: those bytes are watched
    "padding": ("wrong_answer", "outside of C"),
    "underrun": ("wrong_answer", "outside of C"),
    "scribble": ("run_crash", "SIGSEGV"),
    "nearly": ("ok", ""),
}

EACH_STATUS = {status: fault for fault, (status, _) in reversed(FAULTS.items())}
"""The first fault of each status: workers are the same on Ray, which has results to bring back."""


class TestFaults:
    """A bad candidate costs one trial, has a name and a text, and spoils nobody else's."""

    def test_each_fault_costs_one_trial(
        self, live_opener: Opener, request: pytest.FixtureRequest
    ) -> None:
        local = request.node.callspec.params["live_opener"] == "local"
        faults = FAULTS if local else {fault: FAULTS[fault] for fault in EACH_STATUS.values()}
        with live_opener(reference=candidate("good", 99)) as pool:
            expected = {}
            for number, (behaviour, (status, words)) in enumerate(faults.items()):
                expected[pool.submit(candidate(behaviour, number))] = behaviour, status, words
                expected[pool.submit(candidate("good", number))] = "good", "ok", ""
            results = drain(pool, len(expected))
        for ticket, (behaviour, status, words) in expected.items():
            result = results[ticket]
            assert result.status == status, (behaviour, result)
            assert words in result.error, (behaviour, result.error)
            stage = {"ok": "", "wrong_answer": "check"}.get(status)
            if stage is not None:
                assert result.stage == stage
            if result.ok:
                assert result.environment["checked"]

    def test_environment_and_timings_are_recorded(self, live_opener: Opener) -> None:
        with live_opener(reference=candidate("good", 99)) as pool:
            result = only(pool, "good", 1)
        facts = result.environment
        assert facts["cores"] == [max(os.sched_getaffinity(0))]
        assert {"cpu", "governor", "load", "versions", "number", "spread"} <= facts.keys()
        assert result.timings.keys() == {"lower_s", "build_s", "run_s", "total_s"}
        assert abs(result.timestamp - time.time()) < 60
        assert MeasureResult.from_json(result.to_json()) == result


class TestLocalPool:
    """Tests that need one pool only, because all live pools share the code."""

    def test_a_reference_that_fails_leaves_results_unchecked_and_says_so(self) -> None:
        for behaviour in ("segfault", "build_segfault"):
            with live(LocalPool)(reference=candidate(behaviour, 99)) as pool:
                result = only(pool, "wrong", 1)
            assert result.ok
            assert not result.environment["checked"]
            assert "SIGSEGV" in result.environment["unchecked"]

    def test_a_build_without_end_is_killed_and_the_next_one_works(self) -> None:
        for seconds in (0.6, 4.0, 30.0):  # on a busy machine it comes to the point later
            with live(LocalPool)(replace(QUICK, build_timeout=seconds)) as pool:
                hung, good = only(pool, "build_hang"), only(pool, "good")
            assert hung.status == "build_timeout" and f"after {seconds:g} s" in hung.error
            if "in hang" in hung.error and good.ok:
                break
        assert "in hang" in hung.error and good.ok

    def test_a_known_program_is_not_measured_again(self) -> None:
        asked = []

        def known(program: str, kind: str) -> MeasureResult | None:
            asked.append(program)
            earlier = MeasureResult("ok", (0.5,), program_hash=program)
            return earlier if program == "hash of good 7" else None

        with live(LocalPool)(known=known) as pool:
            first, second = only(pool, "good", 7), only(pool, "good", 8)
            again = only(pool, "good", 8)
        assert first.costs == (0.5,) and first.environment["same_program"]
        assert "same_program" not in second.environment
        assert again.costs == second.costs and again.environment["same_program"]
        assert asked == ["hash of good 7", "hash of good 8"]

    def test_same_program_twice_in_flight_is_measured_once(self) -> None:
        with live(LocalPool)(workers=2) as pool:
            for _ in range(4):
                pool.submit(candidate("slow", 1))
            results = drain(pool, 4)
        assert len({r.costs for r in results.values()}) == 1
        assert Counter("same_program" in r.environment for r in results.values())[True] == 3

    def test_a_log_that_fails_ends_the_run(self) -> None:
        def known(program: str, kind: str) -> MeasureResult | None:
            raise OSError("disk is gone")

        with live(LocalPool)(known=known) as pool:
            pool.submit(candidate("good"))
            with pytest.raises(OSError, match="disk is gone"):
                drain(pool, 1)

    def test_a_slow_candidate_is_not_repeated(self) -> None:
        patient = replace(QUICK, max_measure_s=1.0)  # other programs may take the core meanwhile
        with live(LocalPool)(patient) as pool:
            assert len(only(pool, "good").costs) > 1
            result = only(pool, "slow")
        assert len(result.costs) == 1 and result.environment["stopped"] == "slow"

    def test_a_hopeless_candidate_is_killed_before_its_time(self) -> None:
        with live(LocalPool)() as pool:
            assert only(pool, "good").ok
            begin = time.monotonic()
            result = only(pool, "hang")
            assert result.status == "run_timeout" and "hopeless" in result.error
            assert time.monotonic() - begin < QUICK.run_timeout / 2

    def test_a_parallel_kernel_has_all_cores(self) -> None:
        with live(LocalPool)(reference=candidate("good", 99)) as pool:
            result = only(pool, "parallel")
            assert result.environment["cores"] == sorted(os.sched_getaffinity(0))
            assert len(only(pool, "good").environment["cores"]) == 1

    def test_close_leaves_no_process_and_does_not_wait_for_a_hang(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WHET_TEST_HANGING", str(tmp_path))
        before = children()
        pool = live(LocalPool)(workers=2)
        for behaviour in ("hang", "build_hang", "build_hang"):
            pool.submit(candidate(behaviour))
        hanging = 1 if machine.cores_overlap() else 2  # on one core, builds and runs take turns
        until(lambda: len(list(tmp_path.iterdir())) >= hanging and len(children() - before) >= 3)
        begin = time.monotonic()
        pool.close()
        assert time.monotonic() - begin < QUICK.build_timeout / 2
        assert children() <= before

    def test_bad_workers_are_refused(self) -> None:
        for workers in (0, -1, "tcp", 1.5, True):
            with pytest.raises(MeasureError, match="workers="):
                open_pool(workers)  # type: ignore[arg-type]


class TestRayPool:
    def test_no_actor_is_killed_half_made(
        self, ray_machine: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Ray 2.60 loses what such an actor asked for: the measuring machine, to all later pools.
        import ray

        kill, made = ray.kill, []

        def spy(actor: Any, **more: Any) -> None:
            remotes = stages_of(pool, False) + stages_of(pool, True)
            (remote,) = (one for one in remotes if one._actor is actor)
            made.append(remote._is_made())
            kill(actor, **more)

        monkeypatch.setattr(ray, "kill", spy)
        pool = live(RayPool)(workers=2)
        pool.close()
        assert all(made)
        until(lambda: ray.available_resources().get(MEASURER) == 1)

    def test_a_refused_pool_leaves_nothing(
        self, ray_machine: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import ray

        def refuse(pool: Any, build: Any, run: Any, *_: Any) -> None:
            run[0].start()
            raise KeyboardInterrupt

        monkeypatch.setattr("whet.measure.pool.ray_pool.StagedPool.__init__", refuse)
        with pytest.raises(KeyboardInterrupt) as raised:  # its frames hold what was made
            live(RayPool)()
        until(lambda: ray.available_resources().get(MEASURER) == 1)
        del raised

    def test_who_waits_for_the_only_machine_has_it_next(self, ray_machine: None) -> None:
        with live(RayPool)() as first:
            assert only(first, "good").ok
            with live(RayPool)() as second:
                assert not stages_of(second, True)
                assert any("1 other search: it waits for one" in line for line in second.notes())
                second.submit(candidate("good", 7))
                assert second.collect(0.2) == []
                assert only(first, "good", 2).ok
                first.close()
                found: list[Any] = []
                until(lambda: bool(found.extend(second.collect(0.5)) or found))
                assert found[0][1].ok
            assert not any(thread.is_alive() for thread in second._threads)  # nobody waits on

    def test_a_lost_actor_is_made_again_until_the_pool_is_closed(self, ray_machine: None) -> None:
        import ray

        with live(RayPool)() as pool:
            (lost,) = stages_of(pool, True)
            lost.start()
            ray.kill(lost._actor)
            numbers = itertools.count()  # a candidate may be lost with it, the pool is not
            until(lambda: only(pool, "good", next(numbers)).ok)
        last = lost._actor
        assert lost._replace(last) == "the pool is closed" and lost._actor is last


def stages_of(pool: Any, measures: bool) -> list[RemoteStage]:
    return [seat.stage for seat in pool._traffic.seats if seat.measures == measures]


def until(it_is_so: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not it_is_so():
        assert time.monotonic() < end, f"not so after {seconds:g} s"
        time.sleep(0.02)


def children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        # a thread may end while we look; what it had started is then another thread's child
        with contextlib.suppress(FileNotFoundError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def test_replay_says_what_is_not_recorded() -> None:
    known: MeasureInput = candidate("good", 1)
    with ReplayPool({known.config.key: 2e-3}) as pool:
        pool.submit(known)
        pool.submit(candidate("good", 2))
        (_, first), (_, second) = pool.collect()
    assert first.cost == 2e-3
    assert second.status == "infra_error" and "number=2" in second.error
