"""The stopwatch of shared work: overlapping pieces count once, pauses not at all."""

from __future__ import annotations

import threading

import pytest

from whet.measure.pool.gate import Stopwatch


def test_overlapping_work_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("whet.measure.pool.gate.time.perf_counter", lambda: now[0])
    busy = Stopwatch()
    with busy:
        now[0] = 2.0
        with busy:
            now[0] = 5.0
        assert busy.seconds == 5.0
        now[0] = 6.0
    now[0] = 100.0
    assert busy.seconds == 6.0
    with busy:
        now[0] = 101.0
    assert busy.seconds == 7.0


def test_work_that_raises_ends() -> None:
    busy = Stopwatch()
    with pytest.raises(ZeroDivisionError), busy:
        raise ZeroDivisionError
    before = busy.seconds
    assert busy.seconds == before


def test_threads_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [3.0]
    monkeypatch.setattr("whet.measure.pool.gate.time.perf_counter", lambda: now[0])
    busy, inside, over = Stopwatch(), threading.Barrier(5), threading.Barrier(5)

    def work() -> None:
        with busy:
            inside.wait()
            over.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    inside.wait()  # all four are at work
    now[0] = 5.0
    assert busy.seconds == 2.0
    over.wait()
    for thread in threads:
        thread.join()
    now[0] = 9.0
    assert busy.seconds == 2.0
