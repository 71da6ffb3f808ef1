"""Refusals of ``compute_ahead`` and ``pack_weights``, and their messages."""

import numpy as np
import pytest
from sched_check import refused

from whet.compiler import driver, te
from whet.compiler.errors import ArgumentError, LowerError, ScheduleError
from whet.compiler.tir.ops.reducers import comm_reducer


def chain():
    """Y of X and P, P of T, T of W."""
    w, x = te.placeholder((8,), name="W"), te.placeholder((8,), name="X")
    t = te.compute((8,), lambda i: w[i] * 2.0, name="T")
    p = te.compute((8,), lambda i: t[i] + 1.0, name="P")
    y = te.compute((8,), lambda i: p[i] * x[i], name="Y")
    return te.create_schedule(y.op), w, x, t, p, y


def test_an_input_and_an_output():
    s, w, _, _, _, y = chain()
    refused(s, s[w].compute_ahead, "compute_ahead(W): W is an input and is not computed")
    refused(s, s[y].compute_ahead, "compute_ahead(Y): Y is an output", "a kernel of its own")


def test_an_input_that_each_call_needs():
    w, x = te.placeholder((8,), name="W"), te.placeholder((8,), name="X")
    p = te.compute((8,), lambda i: w[i] * 2.0, name="P")
    d = te.compute((8,), lambda i: w[i] - x[i], name="D")
    y = te.compute((8,), lambda i: p[i] * d[i], name="Y")
    s = te.create_schedule(y.op)
    refused(s, s[p].compute_ahead, "compute_ahead(P): W is read by D, too", "gets P in its place")
    refused(s, s[d].compute_ahead, "W is read by P, too")


def test_an_output_that_is_read_on_the_way():
    _, _, _, t, p, y = chain()
    s = te.create_schedule([t.op, y.op])
    refused(s, s[p].compute_ahead, "compute_ahead(P): W is read by T, too")


def test_two_of_one_input():
    w, x = te.placeholder((8,), name="W"), te.placeholder((8,), name="X")
    p = te.compute((8,), lambda i: w[i] * 2.0, name="P")
    q = te.compute((8,), lambda i: w[7 - i], name="Q")
    y = te.compute((8,), lambda i: p[i] * q[i] * x[i], name="Y")
    s = te.create_schedule(y.op)
    refused(s, s[p].compute_ahead, "W is read by Q, too")
    both = te.compute((8,), lambda i: p[i] * q[i], name="both")
    y = te.compute((8,), lambda i: both[i] * x[i], name="Y")
    s = te.create_schedule(y.op)
    s[both].compute_ahead()
    assert list(driver.lower(s, [w, x, y])) == ["main", "main_ahead"]


def test_one_of_another():
    s, _, _, t, p, _ = chain()
    s[p].compute_ahead()
    words = "compute_ahead(P): P is computed from T, which is computed ahead itself"
    refused(s, s[t].compute_ahead, words, "it goes with P")
    s, _, _, t, p, _ = chain()
    s[t].compute_ahead()
    refused(s, s[p].compute_ahead, words)


def test_one_of_nothing():
    x = te.placeholder((8,), name="X")
    p = te.compute((8,), lambda i: te.cast("float32", i), name="P")
    y = te.compute((8,), lambda i: p[i] * x[i], name="Y")
    s = te.create_schedule(y.op)
    refused(s, s[p].compute_ahead, "compute_ahead(P): P is computed from no input", "compute_root")


def test_several_results():
    w = te.placeholder((4, 8), name="W")
    argmax = comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
    )
    k = te.reduce_axis((0, 8), name="k")
    p, v = te.compute((4,), lambda i: argmax((k.var, w[i, k]), axis=k), name="P")
    y = te.compute((4,), lambda i: te.cast("float32", p[i]) + v[i], name="Y")
    s = te.create_schedule(y.op)
    refused(s, s[p].compute_ahead, "compute_ahead(P): P has 2 results")


def test_what_is_attached_in_the_kernel():
    s, _, _, t, p, y = chain()
    s[t].compute_at(s[y], y.op.axis[0])
    words = "T, which P is computed from, is computed at a loop of Y, in the kernel"
    refused(s, s[p].compute_ahead, words, "s[T].compute_root()")


def test_steps_that_come_later_are_looked_at_when_it_is_lowered():
    s, w, x, t, p, y = chain()
    s[p].compute_ahead()
    s[t].compute_at(s[y], y.op.axis[0])
    with pytest.raises(ScheduleError, match="T, which P is computed from, is computed at a loop"):
        driver.lower(s, [w, x, y])


def test_arguments():
    s, w, x, t, p, y = chain()
    s[p].compute_ahead()
    with pytest.raises(LowerError, match=r"input W is not in args\n.*P, computed ahead from it"):
        driver.lower(s, [p, x, y])
    with pytest.raises(LowerError, match=r"P is computed ahead, and takes the place"):
        driver.lower(s, [w, x, p, y])
    with pytest.raises(LowerError, match=r"T is computed ahead of the kernel, for P alone"):
        driver.lower(s, [w, x, t, y])


def test_a_number_of_each_call():
    n = te.var("alpha", "float32")
    w, x = te.placeholder((8,), name="W"), te.placeholder((8,), name="X")
    p = te.compute((8,), lambda i: w[i] * n, name="P")
    y = te.compute((8,), lambda i: p[i] * x[i], name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    with pytest.raises(LowerError, match="alpha is a number that each call gives, and P is comput"):
        driver.lower(s, [w, x, n, y])


def test_a_size_that_only_the_other_arrays_give():
    n = te.size_var("n")
    w, x = te.placeholder((8,), name="W"), te.placeholder((n, 8), name="X")
    p = te.compute((n, 8), lambda i, j: w[j] * 2.0, name="P")
    y = te.compute((n, 8), lambda i, j: p[i, j] * x[i, j], name="Y")
    s = te.create_schedule(y.op)
    s[p].compute_ahead()
    f = driver.build(s, [w, x, y], name="f")
    with pytest.raises(ArgumentError, match="the shape of P needs n, which no weight gives"):
        f.pack_weights(np.ones(8, "float32"))
    made, out = np.empty((3, 8), "float32"), np.empty((3, 8), "float32")
    f["f_ahead"](np.ones(8, "float32"), made)
    f(made, np.full((3, 8), 3, "float32"), out)
    assert (out == 6).all()


@pytest.fixture(scope="module")
def packing():
    s, w, x, _, p, y = chain()
    s[p].compute_ahead()
    return driver.build(s, [w, x, y], name="f")


def test_weights_that_do_not_fit(packing):
    with pytest.raises(ArgumentError, match=r"0 arrays given, it takes 1\n  pack_weights\(W\)"):
        packing.pack_weights()
    with pytest.raises(ArgumentError, match="2 arrays given, it takes 1"):
        packing.pack_weights(np.zeros(8, "float32"), np.zeros(8, "float32"))
    with pytest.raises(ArgumentError, match=r"f_ahead\(\), argument 0 \(W\): W.shape\[0\] is 7"):
        packing.pack_weights(np.zeros(7, "float32"))
    with pytest.raises(ArgumentError, match=r"W\.dtype is float64, expected float32"):
        packing.pack_weights(np.zeros(8))
    with pytest.raises(ArgumentError, match="a list is not an array"):
        packing.pack_weights([0.0] * 8)


def test_a_kernel_without_packed_weights_says_so():
    s, w, x, _, _, y = chain()
    f = driver.build(s, [w, x, y], name="f")
    assert f.entry_func.ahead is None
    with pytest.raises(ArgumentError, match="nothing is computed ahead of this kernel"):
        f.pack_weights(np.zeros(8, "float32"))
    s[w.op].schedule[s.stages[2].op].compute_ahead()
    alone = driver.lower(s, [w, x, y], name="f")["f"]
    with pytest.raises(ArgumentError, match="has no such function"):
        driver.build(alone).pack_weights(np.zeros(8, "float32"))
