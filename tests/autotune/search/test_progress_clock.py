"""Lines come while a search waits, though nothing calls the progress."""

from __future__ import annotations

import io
import threading
import time

from whet.autotune import progress
from whet.autotune.progress import Progress


def test_lines_come_by_themselves_and_end_with_the_search(monkeypatch):
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.01)
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


def test_what_is_not_shown_has_no_clock():
    before = threading.active_count()
    with Progress("it", 9, enabled=False, stream=io.StringIO()):
        assert threading.active_count() == before
