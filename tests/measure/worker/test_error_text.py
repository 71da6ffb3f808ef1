"""Texts of exceptions in results: their begin and their end, however long they are."""

import contextlib

import pytest

from whet.measure.worker.error_text import LONGEST, capped, error_text
from whet.measure.worker.supervisor import Supervisor


def endless(values):
    raise ValueError(f"the first word {values!r} the last word")


def test_short_texts_stay():
    assert capped("x" * LONGEST) == "x" * LONGEST


@pytest.mark.parametrize("size", [LONGEST + 1, 10 * LONGEST])
def test_long_texts_say_what_was_cut(size):
    text = "head" + "x" * (size - 8) + "tail"
    out = capped(text)
    assert out.startswith("headx") and out.endswith("xtail")
    assert len(out) < LONGEST + 100
    cut = size - LONGEST
    assert f"... {cut} characters of {size} left out ..." in out


def test_a_workers_traceback_is_capped():
    with contextlib.closing(Supervisor()) as supervisor:
        outcome = supervisor.call("measure_fakes:shout", 1_000_000, timeout=60)
    assert outcome.kind == "error"
    text = outcome.error
    assert LONGEST < len(text) < LONGEST + 1000
    assert text.startswith("Traceback") and "the last word" in text[-1000:]


def test_the_exception_at_hand():
    try:
        endless(1)
    except ValueError:
        assert "the first word 1 the last word" in error_text()
