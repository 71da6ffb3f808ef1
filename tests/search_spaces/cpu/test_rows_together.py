"""Several short rows together: their sums do not wait for each other's lanes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import whet
from whet import te, topi

TARGET = "llvm -num_threads=2"


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


def softmax(shape, dtype="float32", target=TARGET):
    return whet.create_task("softmax", args=(shape, -1, dtype), target=target)


def choices(task):
    knobs = task.config_space.knobs
    return list(knobs["rows"].choices) if "rows" in knobs else [1]


def with_rows(task, rows):
    config = {**task.config_space.default.as_dict(), "rows": rows}
    return task.instantiate(task.config_space.from_choices(config))


def each(task):
    """A kernel for each number of rows that may be together."""
    assert len(choices(task)) > 1
    return [whet.build(*with_rows(task, n), task.target) for n in choices(task)]


def close(got, want, dtype):
    limits = {"rtol": 2e-5, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(got, want, **limits)


def probabilities(x):
    e = np.exp(x.astype("float64") - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# rows of an axis that its own numbers divide, of one that another axis stands in for, of 3 elements
@pytest.mark.parametrize("shape", [(9, 77), (6, 5, 131), (15, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_number_of_rows_together_gives_numpys_numbers(shape, dtype, rng):
    x = (4 * rng.standard_normal(shape)).astype(dtype)
    for kernel in each(softmax(shape, dtype)):
        out = np.full(shape, np.nan, dtype)
        kernel(x, out)
        close(out, probabilities(x), dtype)


@pytest.mark.parametrize("shape", [(10, 77), (4, 7, 29)])
def test_a_result_in_the_memory_of_what_it_is_made_of(shape, rng):
    for kernel in each(softmax(shape)):
        x = rng.standard_normal(shape).astype("float32")
        want = probabilities(x)
        kernel(x, x)
        close(x, want, "float32")


def test_a_mask_before_and_a_scale_behind(rng):
    """Scores of attention: what lies ahead is masked, and the result weighted."""
    heads, n = 6, 37
    X, W = te.placeholder((heads, n, n), name="X"), te.placeholder((n,), name="W")
    masked = te.compute(
        X.shape, lambda h, i, j: te.if_then_else(j <= i, X[h, i, j] * 0.25, -1e30), name="masked"
    )
    soft = topi.nn.softmax(masked)
    Y = te.compute(X.shape, lambda h, i, j: soft[h, i, j] * W[j] + X[h, i, j], name="Y")
    task = whet.create_task(None, [X, W, Y], TARGET, outputs=[Y])
    x, w = (rng.standard_normal(s).astype("float32") for s in ((heads, n, n), (n,)))
    want = probabilities(np.where(np.tri(n, dtype=bool), x * np.float32(0.25), -1e30)) * w + x
    for kernel in each(task):
        y = np.full(x.shape, np.nan, "float32")
        kernel(x, w, y)
        close(y, want, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_number_of_each_row(dtype, rng):
    """What is left of a row is one number: its elements count, not that."""
    n, m = 14, 83
    X = te.placeholder((n, m), dtype, name="X")
    top = topi.max(X, 1)
    k = te.reduce_axis((0, m), name="k")
    total = te.compute((n,), lambda i: te.sum(te.exp(X[i, k] - top[i]), axis=k), name="total")
    Y = te.compute((n,), lambda i: te.log(total[i]) + top[i], name="Y")
    task = whet.create_task(None, [X, Y], TARGET, outputs=[Y])
    x = rng.standard_normal((n, m)).astype(dtype)
    for kernel in each(task):
        y = np.full(n, np.nan, dtype)
        kernel(x, y)
        close(y, np.log(np.exp(x.astype("float64")).sum(1)), dtype)


def test_rows_that_are_long_in_what_is_summed_are_not_together():
    X = te.placeholder((64, 100_000), name="X")
    top = topi.max(X, 1)
    k = te.reduce_axis((0, 100_000), name="k")
    total = te.compute((64,), lambda i: te.sum(te.exp(X[i, k] - top[i]), axis=k), name="total")
    Y = te.compute((64,), lambda i: te.log(total[i]) + top[i], name="Y")
    assert choices(whet.create_task(None, [X, Y], TARGET, outputs=[Y])) == [1]


def test_members_of_several_rows_are_computed_before_the_results():
    task = softmax((8, 77))
    text = str(whet.lower(*with_rows(task, 4)))
    assert "T_exp = allocate([317]" in text, "rows of 77 that begin with whole registers"
    assert "for i0_outer in range(2)" in text
    assert "T_exp = allocate([77]" in str(whet.lower(*with_rows(task, 1)))


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        ((8, 77), [1, 2, 4, 8]),
        ((2001, 77), [1, 3]),
        ((11, 77), [1]),
        ((12, 197, 77), [1, 2, 3, 4, 6]),
    ],
)
def test_numbers_divide_the_rows_so_that_none_is_computed_twice(shape, numbers):
    assert choices(softmax(shape)) == numbers


def test_no_rows_are_together_where_stages_have_loops_of_their_own():
    space = softmax((8, 77)).config_space
    config = {**space.default.as_dict(), "place": "root", "rows": 2}
    with pytest.raises(whet.SpaceError, match="no effect with place=root"):
        space.from_choices(config)


@pytest.mark.parametrize(
    ("level", "shape", "dtype", "rows"),
    [
        ("x86-64-v2", (2000, 77), "float32", 4),
        ("x86-64-v3", (2000, 77), "float32", 4),
        ("x86-64-v4", (2000, 77), "float32", 4),
        ("x86-64-v3", (2005, 77), "float32", 5),
        ("x86-64-v3", (2002, 77), "float32", 7),
        ("x86-64-v3", (998, 77), "float32", 1),  # two gain little
        ("x86-64-v3", (1024, 512), "float32", 4),  # 64 vectors
        ("x86-64-v4", (1024, 512), "float32", 1),  # with 512 bits no sum waits long beside 32
        ("x86-64-v3", (1024, 1024), "float32", 1),
        ("x86-64-v3", (2000, 77), "float64", 1),  # exponentials that take longer than all else
        ("x86-64-v3", (100_000, 77), "float32", 1),  # from memory
    ],
)
def test_the_default_is_what_gains(level, shape, dtype, rows):
    target = f"llvm -mcpu={level} -num_threads=1"
    assert softmax(shape, dtype, target).config_space.default["rows"].val == rows


@pytest.mark.parametrize(("count", "rows"), [(4, 1), (8, 4), (64, 4), (12, 3), (10, 5)])
def test_the_default_leaves_each_thread_its_share(count, rows):
    assert softmax((count, 77)).config_space.default["rows"].val == rows


@pytest.mark.parametrize("shape", [(1, 12, 17, 65), (1, 1, 30, 77), (3, 1, 5, 33), (1, 1, 1, 50)])
@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_an_axis_of_one_step_does_not_part_the_lanes(shape, level):
    """The heads of one sentence: its batch of one is no part of a row, whose lanes lie in order."""
    target = f"llvm -mcpu=x86-64-{level} -mtriple=x86_64-unknown-linux-gnu -num_threads=1"
    for operator in ("softmax", "log_softmax"):
        task = whet.create_task(operator, args=(shape,), target=target)
        s, args = task.instantiate()
        with task.target:
            text = str(whet.lower(s, args))
        assert not re.findall(r"ramp\([^)]*\)\)? *//", text), text
