"""Constraints in words: what ``print(space)`` and errors show of them."""

from functools import cache, partial

import pytest

from whet.search_spaces import ConfigSpace


def of_one_knob():
    space = ConfigSpace("t")
    space.define_knob("k0", list(range(4)))
    return space


class _Below:
    def __init__(self, most):
        self.most = most

    def __call__(self, c):
        return c["k0"].val < self.most


class _Said(_Below):
    def __repr__(self):
        return f"k0 is below {self.most}"


def _less(c, most, key=abs):
    """Less than a limit.

    More of it.
    """
    return key(c["k0"].val) < most


def _lower(c):
    return c["k0"].val < 3


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (partial(_less, most=3), "less(most=3): less than a limit"),
        (partial(_less, most=3, key=_lower), "less(most=3, key=lower): less than a limit"),
        (partial(lambda c, n: c["k0"].val < n, n=3), "lambda c, n: c['k0'].val < n, with n=3"),
        (partial(_Said(3)), "k0 is below 3"),
        (_lower, "lower"),
        (cache(_lower), "lower"),
        (_Below(3).__call__, "_call__"),
        (_Below(3), "Below"),
        (_Said(3), "k0 is below 3"),
        (lambda c: c["k0"].val < 3, "lambda c: c['k0'].val < 3"),
        (eval("lambda c: True"), "lambda of line 1"),
    ],
)
def test_a_constraint_is_printed_in_words(constraint, text):
    space = of_one_knob()
    space.multi_filter(constraint)
    assert space.constraints[0].text == text
    shown = str(space.constraints[0])
    assert shown.startswith(text) and " at 0x" not in shown


def test_a_printed_space_has_constraints_in_words():
    space = of_one_knob()
    space.multi_filter(partial(_less, most=3))
    space.multi_filter(lambda c: c["k0"].val < 3)
    assert [line for line in str(space).splitlines() if "where" in line] == [
        "  where less(most=3): less than a limit",
        "  where lambda c: c['k0'].val < 3",
    ]


def test_long_words_of_a_constraint_are_cut():
    space = of_one_knob()
    space.multi_filter(partial(_less, most="3" * 300))
    assert len(space.constraints[0].text) == 160 and space.constraints[0].text.endswith("...")


def test_words_are_no_part_of_a_fingerprint():
    spaces = of_one_knob(), of_one_knob()
    kinds = partial, type("Worded", (partial,), {"__repr__": lambda self: "in words"})
    for space, kind in zip(spaces, kinds):
        space.multi_filter(kind(_less, most=3))
    assert str(spaces[1]).endswith("where in words")
    assert spaces[0].fingerprint == spaces[1].fingerprint
