"""Progress of a search: plain lines in a pipe, one live line on a terminal."""

from __future__ import annotations

import io
import math

import pytest
from autotune_synthetic import result

from whet.autotune import progress as module
from whet.autotune.progress import Progress, clock
from whet.autotune.results.result import duration
from whet.autotune.results.trial import Trial
from whet.search_spaces import Config


class Terminal(io.StringIO):
    def isatty(self):
        return True


def trial(number, cost, flop=2_000_000):
    return Trial(number, Config((("tile", number),)), result(cost), flop)


def test_plain_lines_come_every_few_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Progress, "_tick_on", lambda self: None)  # its clock is the real one
    out = io.StringIO()
    with Progress("matmul", 10, peak=4e9, stream=out) as bar:
        for number, cost in enumerate((2e-3, 1e-3, math.inf, 4e-3)):
            now[0] += 2.0
            bar.trial(trial(number, cost))
        bar.tick()
    lines = out.getvalue().splitlines()
    assert [line.partition("  ")[0] for line in lines] == [f"matmul: {n}/10" for n in (1, 2, 3, 4)]
    line = lines[2]
    assert line.startswith("matmul: 3/10  best 1 ms 2.0 GFLOP/s (50% of peak)")
    assert line.endswith("14 s left  2 ok  1 build_error")


def test_the_pace_does_not_count_trials_of_earlier_runs(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Progress, "_tick_on", lambda self: None)  # its clock is the real one
    with Progress("matmul", 100, stream=io.StringIO()) as bar:
        bar.resumed({"ok": 50}, trial(0, 1e-3))
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
    below = next(line for line in text.splitlines() if "not compared in turns, 3 repeats" in line)
    assert "2 ms" not in below  # a narrow terminal would cut off the end of the line


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


@pytest.fixture
def clocked(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Progress, "_tick_on", lambda self: None)  # its clock is the real one
    return now


def test_many_tasks_share_one_line(clocked):
    out = io.StringIO()
    with Progress("3 tasks", 40, stream=out) as bar:
        for name, peak in (("matmul(8)", 4e9), ("conv(3)", 0.0)):
            bar.at(name, peak)
        bar.resumed({"ok": 1}, trial(0, 5e-3))
        assert bar.line() == (
            "conv(3) (100% of the trials)  best 5 ms 0.4 GFLOP/s, not compared in turns, "
            "3 repeats, spread 0.0 %, machine load unknown  1 ok"
        )
        for number, (name, cost) in enumerate(
            (("matmul(8)", 1e-3), ("conv(3)", math.inf), ("matmul(8)", 2e-3))
        ):
            clocked[0] += 2.0
            bar.at(name)
            bar.trial(trial(number, cost))
        line = bar.line()
    assert line.startswith("matmul(8) (50% of the trials)  best 1 ms 2.0 GFLOP/s (50% of peak)")
    assert line.endswith("1 min 12 s left  3 ok  1 build_error")
    plain = out.getvalue().splitlines()
    assert plain[0] == "conv(3): 1 trial is in the log already"
    assert plain[1].startswith("3 tasks: 2/40  matmul(8) (50% of the trials)")
    assert plain[-1].startswith("3 tasks: 4/40  matmul(8) (50% of the trials)")


def test_the_time_left_is_never_more_than_the_timeout(clocked):
    with Progress("matmul", 1000, stream=io.StringIO(), timeout=100.0) as bar:
        assert "1 min 40 s left" in bar.line()  # before there is a pace
        for number in range(3):
            clocked[0] += 1.0
            bar.trial(trial(number, 1e-3))
        assert "1 min 37 s left" in bar.line()  # the pace alone would say 997 s
        clocked[0] += 200.0
        assert "0 s left" in bar.line()
    with Progress("matmul", 5, stream=io.StringIO(), timeout=1e6) as bar:
        for number in range(3):
            clocked[0] += 1.0
            bar.trial(trial(number, 1e-3))
        assert "2 s left" in bar.line()


def test_a_long_search_says_less_and_less_often(clocked):
    out = io.StringIO()
    with Progress("matmul", 100_000, stream=out) as bar:
        for number in range(3600):
            clocked[0] += 1.0
            bar.trial(trial(number, 1e-3))
    lines = out.getvalue().splitlines()
    assert 60 < len(lines) < 150  # an hour: one every two seconds would be 1800


def test_brackets_are_no_markup_on_a_terminal():
    out = Terminal()
    with Progress("[red]matmul", 2, stream=out) as bar:
        bar.at("other")
        bar.at("conv[/red](3)")
        bar.trial(trial(0, 2e-3))
    assert "[red]matmul" in out.getvalue() and "conv[/red](3)" in out.getvalue()


def test_waits_are_readable():
    assert [clock(t) for t in (0.4, 59.4, 144, 3600, 11100)] == [
        "0 s", "59 s", "2 min 24 s", "1 h 0 min", "3 h 5 min",
    ]  # fmt: skip
