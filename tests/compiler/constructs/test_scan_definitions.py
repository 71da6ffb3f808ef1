"""te.scan: definitions that are refused, in words."""

import pytest

from whet.compiler import te
from whet.compiler.errors import ArgumentError


def test_refused_definitions():
    x = te.placeholder((4, 8), name="X")
    state = te.placeholder((4, 8), name="state")
    first = te.compute((1, 8), lambda _, i: x[0, i], name="first")
    step = te.compute((4, 8), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    wide = te.compute((1, 9), lambda _, i: 0.0, name="wide")
    whole = te.compute((4, 8), lambda t, i: 1, name="whole")
    late = te.compute((1, 8), lambda _, i: state[0, i], name="late")
    made = te.compute((4, 8), lambda t, i: 0.0, name="made")
    more = te.placeholder((5, 8), name="more")
    other = te.compute((5, 8), lambda t, i: more[t - 1, i], name="other")
    third = te.placeholder((4, 8), name="third")
    again = te.compute((4, 8), lambda t, i: state[t - 1, i], name="again")
    late_step = te.compute((4, 8), lambda t, i: third[t - 1, i] + step[t - 1, i], name="late_step")
    long = te.compute((5, 8), lambda _, i: x[0, i], name="long")
    for arguments, words in (
        ((wide, step, state), r"init wide is float32\[1, 9\]"),
        ((first, whole, state), r"update whole is int32\[4, 8\]"),
        ((first, x, state), "the update X is no te.compute"),
        ((first, step, made), "the state made is computed"),
        (([first, first], step, state), "2 init, 1 update"),
        ((late, step, state), "init reads a state"),
        (([first, first], [step, other], [state, more]), "more has 5 steps, state 4"),
        ((1, step, state), "init has a int"),
        (([first, first], [step, step], [state, state]), "step is the update of two states"),
        (([first, first], [step, again], [state, state]), "state is the placeholder of two"),
        ((long, step, state), "init long has 5 steps, state only 4"),
        (([first, first], [step, late_step], [state, third]), r"reads the update step at t - 1"),
    ):
        with pytest.raises(ArgumentError, match=words):
            te.scan(*arguments)
