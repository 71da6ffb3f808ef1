"""Lines come while a search waits, though nothing calls the progress."""

from __future__ import annotations

import io
import threading
import time

from whet.autotune import progress
from whet.autotune.progress import Progress


def test_lines_come_by_themselves_and_end_with_the_search(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.01)
    monkeypatch.setattr(progress, "SAME_EVERY", 0.01)
    stream = io.StringIO()
    before = threading.active_count()
    with Progress("it", 9, stream=stream) as bar:
        bar.enter("starting the workers")
        deadline = time.monotonic() + 60
        while stream.getvalue().count("it: 0/9  starting the workers\n") < 2:
            assert time.monotonic() < deadline, stream.getvalue()
            time.sleep(0.05)
    assert threading.active_count() == before
    text = stream.getvalue()
    time.sleep(0.6)
    assert stream.getvalue() == text


def test_a_line_is_not_repeated_while_nothing_changes(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    stream = io.StringIO()
    bar = Progress("it", 9, stream=stream)
    for _ in range(2):
        bar.enter("starting the workers")
        bar.tick()
        bar.tick()
    lines = stream.getvalue().splitlines()
    assert lines == ["it: starting the workers", "it: 0/9  starting the workers"]
    bar.enter("measuring the best 4 once more, interleaved")
    bar.tick()
    assert len(stream.getvalue().splitlines()) == 4


def test_what_is_not_shown_has_no_clock():
    before = threading.active_count()
    with Progress("it", 9, enabled=False, stream=io.StringIO()):
        assert threading.active_count() == before
