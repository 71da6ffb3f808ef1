"""rfactor gives numpy's numbers for every reduction, split and condition; and its errors."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import numpy as np
import pytest
from sched_check import refused, replays
from te_check import check

from whet.compiler import driver, te


def sums(n=7, m=37, f=te.sum, where=None, init=None, dtype="float32", begin=0):
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis((begin, m), name="k")
    b = te.compute(
        (n,),
        lambda i: f(
            a[i, k], axis=k, where=None if where is None else where(i, k),
            init=None if init is None else init(i),
        ),
        name="B",
    )  # fmt: skip
    return te.create_schedule(b.op), a, b, k


@pytest.mark.parametrize("factor_axis", [0, 1, -1, -2])
@pytest.mark.parametrize("by", [{"factor": 8}, {"nparts": 8}, {"factor": 37}, {"factor": 1}])
@pytest.mark.parametrize("which", ["outer", "inner"])
def test_rfactor_of_either_part_at_every_place(factor_axis, by, which):
    s, a, b, k = sums()
    ko, ki = s[b].split(k, **by)
    bf = s.rfactor(b, ko if which == "outer" else ki, factor_axis)
    assert bf.ndim == 2 and len(s[bf].op.reduce_axis) == 1
    assert s[bf].op.axis[factor_axis].name == f"k.{which}"
    assert [x.name for x in s[b].op.reduce_axis] == [f"k.{which}.v"]
    check(s, [a, b], rtol=1e-4)


@pytest.mark.parametrize("f", [te.sum, te.max, te.min])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_what_does_not_divide_is_the_identity(f, dtype):
    s, a, b, k = sums(f=f, dtype=dtype)
    _, ki = s[b].split(k, factor=16)  # 37 = 2 * 16 + 5
    bf = s.rfactor(b, ki)
    s[bf].vectorize(s[bf].op.axis[0])
    check(s, [a, b], rtol=1e-4)


def test_where_init_and_begin_are_kept():
    for where in (None, lambda i, k: k != i, lambda i, k: te.all(k > 3, i < 5)):
        for init in (None, lambda i: i * 10.0):
            s, a, b, k = sums(where=where, init=init, begin=2)
            _, ki = s[b].split(k, factor=8)
            s.rfactor(b, ki)
            check(s, [a, b], rtol=1e-4)


def test_rfactor_of_a_whole_axis_leaves_an_elementwise_stage():
    s, a, b, k = sums(where=lambda i, k: k % 2 == 1)
    bf = s.rfactor(b, k, 1)
    assert s[bf].op.reduce_axis == ()
    check(s, [a, b], rtol=1e-4)


def test_rfactor_of_one_of_several_axes():
    a = te.placeholder((5, 6, 7), name="A")
    k, r = te.reduce_axis((0, 6), name="k"), te.reduce_axis((0, 7), name="r")
    b = te.compute((5,), lambda i: te.sum(a[i, k, r], axis=[k, r]), name="B")
    s = te.create_schedule(b.op)
    bf = s.rfactor(b, r)
    assert [x is k for x in s[bf].op.reduce_axis] == [True]
    s[bf].parallel(bf.op.axis[1])
    s[bf].split(k, factor=4)
    check(s, [a, b], rtol=1e-4)


def test_rfactor_of_fused_and_split_axes():
    a = te.placeholder((5, 6, 7), name="A")
    k, r = te.reduce_axis((0, 6), name="k"), te.reduce_axis((0, 7), name="r")
    b = te.compute((5,), lambda i: te.sum(a[i, k, r], axis=[k, r]), name="B")
    for factor in (4, 5, 42):
        s = te.create_schedule(b.op)
        outer, inner = s[b].split(s[b].fuse(k, r), factor=factor)
        s.rfactor(b, inner)
        check(s, [a, b], rtol=1e-4)


def test_rfactor_twice():
    s, a, b, k = sums(3, 101)
    ko, ki = s[b].split(k, factor=16)
    bf = s.rfactor(b, ki)
    ko, ki = s[bf].split(s[bf].op.reduce_axis[0], factor=4)
    bff = s.rfactor(bf, ki)
    assert bff.ndim == 3
    check(s, [a, b], rtol=1e-4)


def test_the_first_stage_is_attached_vectorised_and_parallel():
    s, a, b, k = sums(13, 101)
    ko, ki = s[b].split(k, factor=16)
    bf = s.rfactor(b, ki, 1)
    i, lanes = s[bf].op.axis
    s[bf].reorder(i, *s[bf].op.reduce_axis, lanes)
    s[bf].vectorize(lanes)
    s[bf].compute_at(s[b], s[b].op.axis[0])
    s[b].parallel(s[b].op.axis[0])
    check(s, [a, b], rtol=1e-4)


def test_rfactor_with_symbolic_sizes():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")
    for by in ({"factor": 8}, {"nparts": 8}):
        s = te.create_schedule(b.op)
        ko, ki = s[b].split(k, **by)
        s.rfactor(b, ki)
        for size in (0, 1, 7, 8, 37):
            check(s, [a, b], {n: size}, rtol=1e-4)


def test_rfactor_of_a_stage_in_the_middle_and_of_a_cache():
    s, a, b, k = sums()
    c = te.compute((7,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    _, ki = s[b].split(k, factor=8)
    s.rfactor(b, ki)
    s[b].compute_at(s[c], c.op.axis[0])
    check(s, [a, c], rtol=1e-4)
    s = te.create_schedule(b.op)
    cache = s.cache_write(b, "local")
    _, ki = s[cache].split(k, factor=8)
    s.rfactor(cache, ki)
    check(s, [a, b], rtol=1e-4)


def test_rfactor_of_independent_reductions_in_one_nest():
    a = te.placeholder((7, 37), name="A")
    k = te.reduce_axis((0, 37), name="k")
    both = te.compute((7,), lambda i: (te.sum(a[i, k], axis=k), te.max(a[i, k], axis=k)), name="B")
    s = te.create_schedule(both[0].op)
    _, ki = s[both[0]].split(k, factor=8)
    parts = s.rfactor(both[0], ki)
    assert [p.value_index for p in parts] == [0, 1]
    check(s, [a, *both], rtol=1e-4)


@pytest.mark.parametrize("factor", [8, 37])
def test_rfactor_of_a_tuple(factor):
    a = te.placeholder((5, 37), name="A")
    k = te.reduce_axis((0, 37), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    at, best = te.compute((5,), lambda i: argmax((k.var, a[i, k]), axis=k), name="M")
    s = te.create_schedule(at.op)
    ko, ki = s[at].split(k, factor=factor)
    parts = s.rfactor(at, ko)  # the last stage sees the parts in order
    assert [p.dtype for p in parts] == ["int32", "float32"]
    f = driver.build(s, [a, at, best])
    x = np.random.default_rng(0).standard_normal((5, 37)).astype("float32")
    found, value = np.full(5, -9, "int32"), np.full(5, np.nan, "float32")
    f(x, found, value)
    np.testing.assert_array_equal(found, x.argmax(1))
    np.testing.assert_array_equal(value, x.max(1))
    replays(s, [a, at, best])


def test_both_stages_begin_with_plain_loops():
    s, a, b, k = sums()
    i = b.op.axis[0]
    s[b].split(i, factor=4)
    _, ki = s[b].split(k, factor=8)
    bf = s.rfactor(b, ki)
    assert [x.name for x in s[bf].leaf_iter_vars] == ["k.inner", "i", "k.outer"]
    assert [x.name for x in s[b].leaf_iter_vars] == ["i", "k.inner.v"]
    assert not s[b].relations and not s[bf].relations
    assert s[b].is_output and not s[bf].is_output and s.stages.index(s[bf]) == 1
    check(s, [a, b], rtol=1e-4)


def test_what_cannot_be_factored():
    s, a, b, k = sums()
    c = te.compute((7,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    loops = "loops of B: i(7) k.outer(5) k.inner(8)"
    ko, ki = s[b].split(k, factor=8)
    refused(s, lambda: s.rfactor(b, k), "rfactor(B, k, factor_axis=0)", "no longer a loop", loops)
    refused(s, lambda: s.rfactor(b, b.op.axis[0]), "i is a data axis", loops)
    refused(s, lambda: s.rfactor(a, ki), "A is an input and is not computed")
    refused(s, lambda: s.rfactor(c, ki), "C is not a reduction", "loops of C: i(7)")
    refused(s, lambda: s.rfactor(b, c.op.axis[0]), "i is not an axis of B", loops)
    for axis in (None, "k", 3):
        refused(s, lambda: s.rfactor(b, axis), f"{axis!r} is not an axis of B", loops)  # noqa: B023
    refused(s, lambda: s.rfactor(None, ki), "give the tensor that is reduced")
    refused(s, lambda: s.rfactor(b, ki, 2), "the first stage has 2 axes", "-2 to 1")
    refused(s, lambda: s.rfactor(b, ki, -3), "factor_axis=-3", "-2 to 1")
    for place in (None, 1.0, True, "0"):
        refused(s, lambda: s.rfactor(b, ki, place), "factor_axis must be an integer")  # noqa: B023
    assert s.rfactor(b, ki, np.int64(1)).ndim == 2
