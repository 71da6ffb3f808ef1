"""Traced ints: they compute as ints do, and write down all that a program asks of them."""

from __future__ import annotations

import math
import numbers

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whet.compiler.tir.ops import ops
from whet.compiler.tir.tracing.traced import (
    ARITHMETIC,
    QUESTIONS,
    Guard,
    Tape,
    TracedInt,
    least,
    most,
)


def replayed(tape, leaves):
    """The values at all places for other leaves; None where a guard has another answer."""
    values = list(leaves)
    for event in tape.events:
        code, a, b = event[:3]
        if isinstance(event, Guard):
            if QUESTIONS[code](values[a], values[b]) != event[3]:
                return None
        else:
            values.append(a if code == "const" else ARITHMETIC[code](values[a], values[b]))
    return values


def program(a, b):
    """Arithmetic, comparisons, and everything that needs the number itself."""
    c = -(-a // b) * b - a % b + max(a, 3) - min(b, 7)
    if c > 10:
        c = c * b + sum(1 for _ in range(b))
    if a == b or not b - 1:
        c += [10, 20, 30, 40][a % 4]
    c += most(a, b) * 3 - least(a * 2, b) + divmod(c, b)[1] + (a * b) // b + (b * a) % a
    return c + {True: 1, False: a}[a < 2 * b] + math.prod((a, b, 2)) - abs(b - a)


@given(st.data())
def test_a_tape_replays_what_the_program_computes(data):
    size = st.integers(1, 12)
    a, b = data.draw(size), data.draw(size)
    tape = Tape()
    out = program(tape.leaf(a, 1, 12), tape.leaf(b, 1, 12))
    assert (tape.values[out.node] if type(out) is TracedInt else out) == program(a, b)
    for x in range(1, 13):
        for y in range(1, 13):
            values = replayed(tape, [x, y])
            if values is not None:
                found = values[out.node] if type(out) is TracedInt else out
                assert found == program(x, y)


@pytest.mark.parametrize(
    "use",
    [
        lambda n: list(range(n)), lambda n: "ab" * n, lambda n: [1, 2, 3, 4, 5][n],
        lambda n: f"{n}", str, repr, hash, float, int, lambda n: {3: 1}[n], math.log2,
        lambda n: math.gcd(n, 6), np.sqrt, lambda n: n / 2, lambda n: n << 1, lambda n: n**2,
        lambda n: n.bit_length(), lambda n: np.zeros(n), lambda n: bytes(n), round,
    ],
)  # fmt: skip
def test_what_needs_the_number_is_written_down(use):
    tape = Tape()
    n = tape.leaf(3, 1, 100)
    got, wanted = use(n), use(3)
    np.testing.assert_array_equal(got, wanted)
    asked = [e for e in tape.events if isinstance(e, Guard)]
    assert asked == [("is", 0, 0, 3)]


def test_what_all_values_have_in_common_is_not_asked():
    tape = Tape()
    n = tape.leaf(8, 2, 64)
    assert n >= 1 and n != 0 and n < 2**31 and not n > 64 and n * 4 >= 8 and n == n
    assert (n * 3) % n == 0 and (n * 3) // n == 3 and n - n == 0
    assert not [e for e in tape.events if isinstance(e, Guard)]
    assert n > 4
    assert n > 3  # follows from the answer before
    assert len([e for e in tape.events if isinstance(e, Guard)]) == 1


def test_what_follows_from_common_factors_is_not_written_down():
    tape = Tape()
    n, m = tape.leaf(8, 1, 64), tape.leaf(3, 1, 9)
    block = n * m
    written = len(tape.events)
    for same, wanted in [
        (-(-block // n), m), (-(-block // m), n), (least(n, block), n), (most(block, m), block),
        (least(block, m), m), (0 - (0 - block), block), (block - 1 + 1, block),
    ]:  # fmt: skip
        assert same.node == wanted.node
    assert block % m == 0 and -block % n == 0
    kept = [e for e in tape.events[written:] if e[0] not in ("const", "-")]
    assert kept == []
    assert tape.values[least(n, m).node] == 3  # neither is a factor of the other
    assert replayed(tape, [2, 5])[least(n, m).node] == 2


def test_it_passes_for_an_int_and_makes_constants():
    tape = Tape()
    n = tape.leaf(8, 1, 64)
    assert isinstance(n, int) and isinstance(n, numbers.Integral) and not isinstance(n, bool)
    constant = ops.add(ops.const(n), 4)
    assert type(constant.value) is TracedInt and constant.dtype == "int32"
    assert not [e for e in tape.events if isinstance(e, Guard)]
    assert int(constant) == 12
    assert tape.events[-1][0] == "is"


def test_a_divisor_that_may_be_zero_is_asked_for():
    tape = Tape()
    n = tape.leaf(8, 0, 64)
    assert tape.values[(100 // n).node] == 12
    assert replayed(tape, [0]) is None
    assert replayed(tape, [5]) is not None
