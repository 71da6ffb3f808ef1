"""Random computations under random schedules equal the plain ones and numpy.

``pytest tests/compiler/fuzz/test_random_programs.py --draws 2000`` draws more of them. What fails
prints the computation, the trace that replays its schedule, and the command that draws it again.
"""

import random

import numpy as np
import pytest
from extremes import Placed, extreme
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st
from run_random import Program
from te_defined import undefined
from te_oracle import evaluate

from whet.compiler import driver, te
from whet.compiler.errors import LowerError


def drawn(seed, symbolic):
    """The random program of a seed, as (program, what was compiled of it)."""
    odd = random.Random(f"odd {seed}").random
    edges, extremes, strides = odd() < 0.25, odd() < 0.5, odd() < 0.25
    pick = random.Random(seed).randint
    return Program(pick, seed, symbolic, edges=edges, extremes=extremes, strides=strides)


def test_any_schedule_gives_the_same_numbers(draws, is_known):
    ran = 0

    # a smaller program that fails alike takes minutes to find
    @settings(max_examples=draws(200), phases=[Phase.generate])
    @given(st.integers(0, 2**31), st.booleans(), st.booleans(), st.booleans(), st.data())
    def one(seed, symbolic, edges, extremes, data):
        nonlocal ran
        pick = lambda a, b: data.draw(st.integers(a, b))  # noqa: E731
        program = Program(pick, seed, symbolic, edges=edges, extremes=extremes)
        note(str(program))
        try:
            ready = program.compiled()
            if ready is not None:
                ran += 1
                program.run(*ready)
        except Exception as error:
            if not is_known(str(program), error):
                raise

    one()
    assert ran >= draws(200) // 2, f"only {ran} of {draws(200)} schedules were legal"


@pytest.mark.parametrize("symbolic", [False, True])
def test_programs_drawn_evenly(symbolic, seeds, is_known):
    """Hypothesis likes small numbers; these are drawn without a preference."""
    ran, applied, some = 0, set(), seeds(60)
    for seed in some:
        program = drawn(seed, symbolic)
        try:
            ready = program.compiled()
            if ready is None:
                continue
            ran += 1
            applied |= set(program.made.applied)
            program.run(*ready)
        except Exception as error:
            if not is_known(str(program), error):
                error.add_note(str(program))
                raise
    assert ran >= len(some) // 2
    assert len(applied) >= 15 or len(some) < 60, applied


def test_the_oracle_can_fail():
    program = Program(lambda a, b: a, 0)
    kernel, plain = program.compiled()

    def broken(*arrays):
        kernel(*arrays)
        arrays[-1].reshape(-1)[0] += 1

    program.run(kernel, plain)
    with pytest.raises(AssertionError):
        program.run(broken, plain)


def test_an_illegal_attachment_is_refused_in_words():
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 8), lambda i, j: b[i, j] + c[i, j], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(LowerError, match="D reads B too, and runs outside this loop"):
        driver.lower(s, [a, d])


# what is compared


def test_what_is_undefined():
    """By hand: which elements a NaN, an infinity and a large number leave defined."""
    a = te.placeholder((2, 3), name="A")
    k = te.reduce_axis((0, 3), name="k")
    total = te.compute((2,), lambda i: te.sum(a[i, k], axis=k), name="S")
    most = te.compute((2,), lambda i: te.max(a[i, k], axis=k), name="M")
    number = te.compute((2, 3), lambda i, j: a[i, j].astype("int32"), name="N")
    double = te.compute((2, 3), lambda i, j: a[i, j] * 2, name="D")
    above = te.compute((2, 3), lambda i, j: a[i, j] > 1, name="G")
    later = te.compute((2, 3), lambda i, j: te.select(j > 0, double[i, j], most[i]), name="L")
    values = np.array([[np.nan, 1, np.inf], [2, 2.0**23, -4]], "float32")
    masks = undefined([total, most, number, double, above, later], {a: values})
    wanted = [
        [0, 1], [1, 0], [[1, 0, 1], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]], np.zeros((2, 3)),
        [[1, 0, 0], [0, 1, 0]],
    ]  # fmt: skip
    wanted[0] = [0, 0]
    for t, mask, want in zip((total, most, number, double, above, later), masks, wanted):
        np.testing.assert_array_equal(mask, np.array(want, bool), t.name)
    assert np.isnan(evaluate([total], {a: values})[0][0])


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "bool"])
def test_extremes_are_drawn(dtype):
    rng = np.random.default_rng(0)
    values = extreme(rng, np.ones(4000, dtype))
    assert values.dtype == dtype
    if dtype == "float32":
        assert {np.inf, -np.inf} <= set(values) and np.isnan(values).any()
        assert np.signbit(values[values == 0]).any()
    elif dtype != "bool":
        info = np.iinfo(dtype)
        assert {info.min, info.max} <= set(values.tolist())


@pytest.mark.parametrize("strides", [False, True])
def test_arrays_begin_anywhere_and_know_what_is_around_them(strides):
    rng = np.random.default_rng(0)
    begins, layouts = set(), set()
    for _ in range(200):
        given = rng.standard_normal((3, 5)).astype("float32")
        placed = Placed(rng, given, strides)
        np.testing.assert_array_equal(placed.array, given)
        begins.add(placed.array.ctypes.data % 64)
        layouts.add(placed.array.strides)
        placed.array[...] = 7
        placed.check_surroundings()
        assert (placed.array == 7).all()
        placed.memory[-1] += 1
        with pytest.raises(AssertionError, match="memory around an argument"):
            placed.check_surroundings()
    assert len(begins) == 16 and (len(layouts) > 20) == strides
    assert Placed(rng, np.zeros((0, 4), "int16"), strides).array.shape == (0, 4)
