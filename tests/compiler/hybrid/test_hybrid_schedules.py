"""Primitives on the loops of hybrid scripts: the loops before and after, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hybrid_check import numbers, run_compiled

import whet
from whet import te
from whet.compiler.errors import LowerError, ScheduleError

script = te.hybrid.script


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


@script
def outer(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@script
def product(a, b):
    c = output_tensor((a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0.0
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


def outer_of(n, m, dtype="float32"):
    a, b = te.placeholder((n,), dtype, "a"), te.placeholder((m,), dtype, "b")
    c = outer(a, b)
    return a, b, c, te.create_schedule(c.op)


def loops(s, args):
    with whet.Target("llvm -mcpu=x86-64-v3"):
        text = str(whet.lower(s, args))
    return "\n".join(text.splitlines()[1:])


def test_loops_before_and_after():
    a, b, c, s = outer_of(64, 64)
    assert loops(s, [a, b, c]) == (
        "    for i in range(64):\n"
        "        for j in range(64):\n"
        "            outer[i * 64 + j] = a[i] * b[j]"
    )
    i, j = c.op.axis
    io, ii = s[c].split(i, 4)
    s[c].parallel(ii)
    jo, ji = s[c].split(j, 4)
    joo, joi = s[c].split(jo, 4)
    s[c].vectorize(ji)
    s[c].reorder(ii, io, joo, joi, ji)
    assert loops(s, [a, b, c]) == (
        "    for i_inner in parallel(4):\n"
        "        for i_outer in range(16):\n"
        "            for j_outer_outer in range(4):\n"
        "                for j_outer_inner in range(4):\n"
        "                    outer[ramp(i_outer * 256 + i_inner * 64 + j_outer_outer * 16 + "
        "j_outer_inner * 4, 1, 4)] = broadcast(a[i_outer * 4 + i_inner], 4) * "
        "b[ramp(j_outer_outer * 16 + j_outer_inner * 4, 1, 4)]"
    )


def one(s, c):
    s[c].split(c.op.axis[0], 3)


def two(s, c):
    i, j = c.op.axis
    io, _, ii, ji = s[c].tile(i, j, 4, 8)
    s[c].vectorize(ji)
    s[c].unroll(ii)
    s[c].parallel(io)


def three(s, c):
    fused = s[c].fuse(*c.op.axis)
    s[c].vectorize(s[c].split(fused, 8)[1])


def four(s, c):
    i, j = c.op.axis
    s[c].parallel(i)
    s[c].split(j, nparts=3)
    s[c].pragma(i, "auto_unroll_max_step", 8)


def five(s, c):
    i, j = c.op.axis
    s[c].reorder(j, i)
    s[c].split(i, 7)


@pytest.mark.parametrize("schedule", [one, two, three, four, five])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_under_primitives(rng, schedule, dtype):
    n, m = (int(x) for x in rng.integers(9, 40, 2))
    a, b, c, s = outer_of(n, m, dtype)
    schedule(s, c)
    x, y = numbers(n, dtype, rng), numbers(m, dtype, rng)
    got = run_compiled(s, [a, b], [x, y], [c])[0]
    np.testing.assert_array_equal(got, np.outer(x, y))
    again = te.hybrid.build(s, [a, b], c)
    np.testing.assert_array_equal(again(x, y), np.outer(x, y))


def test_loops_that_stand_in_order(rng):
    a, b = te.placeholder((17, 9), name="a"), te.placeholder((9, 23), name="b")
    c = product(a, b)
    assert [x.var.name for x in c.op.axis] == ["i", "j", "k"]
    s = te.create_schedule(c.op)
    i, j, k = c.op.axis
    io, *_ = s[c].tile(i, j, 4, 4)
    s[c].unroll(s[c].split(k, 4)[1])
    s[c].parallel(io)
    x, y = numbers((17, 9), "float32", rng), numbers((9, 23), "float32", rng)
    got = run_compiled(s, [a, b], [x, y], [c])[0]
    np.testing.assert_allclose(got, x.astype(float) @ y, rtol=1e-4, atol=1e-4)
    with pytest.raises(ScheduleError, match="do not stand directly inside each other"):
        s[c].reorder(s[c].leaf_iter_vars[-1], s[c].leaf_iter_vars[0])
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match="do not stand directly inside each other"):
        s[c].fuse(j, k)
    s[c].parallel(k)
    with pytest.raises(LowerError, match="run side by side and all store"):
        whet.lower(s, [a, b, c])


def test_several_nests(rng):
    @script
    def two_nests(a):
        b = output_tensor(a.shape, a.dtype)
        c = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            b[i] = a[i] + 1.0
        for j in range(a.shape[0]):
            c[j] = b[j] * 2.0
        return b, c

    a = te.placeholder((19,), name="a")
    b, c = two_nests(a)
    assert b.op is c.op
    assert [x.var.name for x in b.op.axis] == ["j", "i"]  # TVM's order
    s = te.create_schedule(b.op)
    j, i = b.op.axis
    s[b].vectorize(s[b].split(i, 4)[1])
    s[b].parallel(j)
    x = numbers(19, "float32", rng)
    got = run_compiled(s, [a], [x], [b, c])
    np.testing.assert_allclose(got[0], x + 1)
    np.testing.assert_allclose(got[1], (x + 1) * 2)


def test_a_triangle_keeps_its_outer_loop_outside(rng):
    @script
    def triangle(a):
        c = output_tensor((12, 12), a.dtype)
        for i in range(12):
            for j in range(i, 12):
                c[i, j] = a[i] + a[j]
            for j in range(i):
                c[i, j] = 0.0
        return c

    @script
    def upper(a):
        c = output_tensor((12, 12), a.dtype)
        for i in range(12):
            for j in range(12):
                c[i, j] = 0.0
        for i in range(12):
            for j in range(i, 12):
                c[i, j] = a[i] + a[j]
        return c

    a = te.placeholder((12,), name="a")
    x = numbers(12, "float32", rng)
    want = np.triu(x[:, None] + x[None, :])
    c = triangle(a)
    s = te.create_schedule(c.op)
    i, _, j = c.op.axis
    s[c].split(i, 5)
    s[c].split(j, 5)
    np.testing.assert_allclose(run_compiled(s, [a], [x], [c])[0], want)
    c = upper(a)
    i, j = c.op.axis[:2]
    s = te.create_schedule(c.op)
    s[c].split(i, 5)
    s[c].split(j, 4)
    np.testing.assert_allclose(run_compiled(s, [a], [x], [c])[0], want)
    s = te.create_schedule(c.op)
    s[c].reorder(j, i)
    with pytest.raises(LowerError, match="is a loop inside it"):
        whet.lower(s, [a, c])


def neighbours():
    a = te.placeholder((13, 7), name="a")
    before = te.compute((13, 7), lambda i, j: a[i, j] + 1.0, name="before")
    b = te.placeholder((7, 6), name="b")
    c = product(before, b)
    after = te.compute((13, 6), lambda i, j: c[i, j] * 2.0 + before[i, 0], name="after")
    return a, b, before, c, after, te.create_schedule(after.op)


@pytest.mark.parametrize("how", ["root", "inline", "at", "inside", "attached"])
def test_neighbours(rng, how):
    a, b, before, c, after, s = neighbours()
    x, y = numbers((13, 7), "float32", rng), numbers((7, 6), "float32", rng)
    if how == "inline":
        s[before].compute_inline()
        assert "before" not in loops(s, [a, b, after])
    if how == "at":
        i = after.op.axis[0]
        s[c].compute_at(s[after], i)
        s[before].compute_at(s[after], i)
    if how == "inside":
        d = c.op.output(0)
        s = te.create_schedule(d.op)
        s[before].compute_at(s[d], d.op.axis[0])
        got = run_compiled(s, [a, b], [x, y], [d])[0]
        np.testing.assert_allclose(got, (x + 1.0) @ y, rtol=1e-4, atol=1e-4)
        return
    if how == "attached":
        s[before].compute_inline()
        i = after.op.axis[0]
        s[c].split(c.op.axis[1], 4)
        s[c].compute_at(s[after], s[after].split(i, 5)[0])
    got = run_compiled(s, [a, b], [x, y], [after])[0]
    want = ((x + 1.0).astype(float) @ y) * 2 + x[:, :1] + 1
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_script_reads_what_is_inlined_at_indices_that_it_reads(rng):
    @script
    def gather(a, at):
        c = output_tensor(at.shape, a.dtype)
        for i in range(at.shape[0]):
            c[i] = a[at[i]]
        return c

    a = te.placeholder((9,), name="a")
    k = te.placeholder((15,), "int32", "k")
    twice = te.compute((9,), lambda i: a[i] * 2.0, name="twice")
    turned = te.compute((15,), lambda i: 8 - k[i], name="turned")
    c = gather(twice, turned)
    s = te.create_schedule(c.op)
    s[twice].compute_inline()
    s[turned].compute_inline()
    x, y = numbers(9, "float32", rng), rng.integers(0, 9, 15).astype("int32")
    np.testing.assert_allclose(run_compiled(s, [a, k], [x, y], [c])[0], x[8 - y] * 2)


def test_outputs_of_several_scripts(rng):
    @script
    def both(a):
        b = output_tensor((16,), "int32")
        c = output_tensor((4, 4), "int32")
        for i in range(16):
            b[i] = a[i] + 2
            c[i // 4, i % 4] = a[i] + 1
        return b, c

    @script
    def times(b, a):
        c = output_tensor((4, 4), "int32")
        for i in range(4):
            for j in range(4):
                c[i, j] = a[i * 4 + j] * b[i, j]
        return c

    a = te.placeholder((16,), "int32", "a")
    b, c = both(a)
    d = times(c, b)
    x = numbers(16, "int32", rng)
    got = run_compiled(te.create_schedule(d.op), [a], [x], [d])[0]
    np.testing.assert_array_equal(got, ((x + 1) * (x + 2)).reshape(4, 4))


def test_a_trace_is_replayed():
    a, b, c, s = outer_of(20, 30)
    two(s, c)
    again = s.trace.replay([c])
    assert loops(again, [a, b, c]) == loops(s, [a, b, c])
    assert isinstance(c.op, te.HybridOp)
    assert isinstance(c.op, te.ExternOp)


def test_steps_beyond_the_end_are_guarded():
    _, _, c, s = outer_of(10, 3)
    _, inner = s[c].split(c.op.axis[0], 4)
    s[c].unroll(inner)
    text = str(te.schedule.ScheduleOps(s))
    assert "likely(i_outer * 4 + i_inner < 10)" in text


def test_readers_of_a_second_output_of_more_dimensions(rng):
    """Each output has a shape of its own: an index of the second is none of the first."""

    @script
    def rows(a):
        b = output_tensor((a.shape[0],), a.dtype)
        c = output_tensor(a.shape, a.dtype)
        for i in range(a.shape[0]):
            b[i] = a[i, 0]
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                c[i, j] = a[i, j] - b[i]
        return b, c

    a = te.placeholder((7, 5), "int32", "a")
    _, c = rows(a)
    d = te.compute((7, 5), lambda i, j: c[i, j] * 2, name="d")
    x = numbers((7, 5), "int32", rng)
    for options in ({}, {"tail": "shift"}):
        s = te.create_schedule(d.op)
        s[d].vectorize(s[d].split(d.op.axis[1], 2, **options)[1])
        got = run_compiled(s, [a], [x], [d])[0]
        np.testing.assert_array_equal(got, (x - x[:, :1]) * 2)


def test_a_script_beside_stages_of_nothing():
    """A sum over no steps is 0, whether a script reads it or not."""
    a, b = te.placeholder((4, 0), name="a"), te.placeholder((0, 3), name="b")
    k = te.reduce_axis((0, 0), name="k")
    none = te.compute((4, 0), lambda i, j: a[i, j] + 1.0, name="none")
    zeros = te.compute((4, 3), lambda i, j: te.sum(none[i, k] * b[k, j], axis=k), name="zeros")
    c = product(zeros, te.placeholder((3, 2), name="d"))
    s = te.create_schedule(c.op)
    f = whet.build(s, [a, b, c.op.input_tensors[1], c])
    out = np.full((4, 2), np.nan, "float32")
    f(*(np.ones(n, "float32") for n in ((4, 0), (0, 3), (3, 2))), out)
    np.testing.assert_array_equal(out, np.zeros((4, 2)))


@pytest.mark.parametrize("how", ["aligned", "shared", "both"])
def test_memory_of_what_a_script_reads_and_writes(rng, how):
    """Rows with padding, and scopes: a script has elements by their indices."""
    a, b, before, c, after, s = neighbours()
    if how != "shared":
        s[before].storage_align(before.op.axis[0], 8, 3)
    if how != "aligned":
        s[c].set_scope("shared")
        s[before].set_scope("local")
    x, y = numbers((13, 7), "float32", rng), numbers((7, 6), "float32", rng)
    got = run_compiled(s, [a, b], [x, y], [after])[0]
    want = ((x + 1.0).astype(float) @ y) * 2 + x[:, :1] + 1
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
