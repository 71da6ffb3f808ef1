"""What a user sees of a search: plain lines in a pipe, one live line on a terminal."""

from __future__ import annotations

import io
import math

from autotune_synthetic import result

from whet.autotune import progress as module
from whet.autotune.progress import Progress
from whet.autotune.result import Trial, duration
from whet.search_spaces import Config


class Terminal(io.StringIO):
    def isatty(self):
        return True


def trial(number, cost, flop=2_000_000):
    return Trial(number, Config((("tile", number),)), result(cost), flop)


def test_plain_lines_come_every_few_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    with Progress("matmul", 10, peak=4e9, stream=out) as bar:
        for number, cost in enumerate((2e-3, 1e-3, math.inf, 4e-3)):
            now[0] += 2.0
            bar.trial(trial(number, cost))
        bar.tick()
    [line] = out.getvalue().splitlines()
    assert line.startswith("matmul: 3/10  best 1 ms 2.0 GFLOP/s (50% of peak)")
    assert line.endswith("14 s left  2 ok  1 build_error")


def test_the_pace_does_not_count_trials_of_earlier_runs(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Progress("matmul", 100, stream=io.StringIO()) as bar:
        bar.resumed([trial(n, 1e-3) for n in range(50)])
        now[0] += 30.0  # until the workers have started
        bar.trial(trial(50, 1e-3))
        assert "left" not in bar.line()
        now[0] += 3.0
        bar.trial(trial(51, 1e-3))
        assert bar.done == 52
        assert "2 min 24 s left" in bar.line()


def test_a_terminal_gets_a_live_line():
    out = Terminal()
    with Progress("matmul", 2, stream=out) as bar:
        bar.trial(trial(0, 2e-3))
        bar.say("[a line of its own]")
        bar.enter("measuring the best 2 once more")
    text = out.getvalue()
    assert "matmul" in text and "1/2" in text and "2 ms 1.0 GFLOP/s" in text
    assert "[a line of its own]" in text and "once more" in text


def test_nothing_is_printed_when_it_is_switched_off():
    out = Terminal()
    with Progress("matmul", 2, enabled=False, stream=out) as bar:
        bar.enter("starting")
        bar.trial(trial(0, 2e-3))
    assert out.getvalue() == ""


def test_times_are_readable():
    assert [duration(t) for t in (2.5, 1.234e-3, 5.6e-6, 7e-9)] == [
        "2.5 s",
        "1.23 ms",
        "5.6 us",
        "7 ns",
    ]
