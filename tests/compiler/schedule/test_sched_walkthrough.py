"""The steps of lowering by hand, under TVM's names, give the program that lower gives."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)

import numpy as np
import pytest
from sched_check import replays

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError


def sums(n=9, m=7):
    a = te.placeholder((n, m), name="A")
    t = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="T")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(t[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=4)
    s[t].compute_at(s[b], outer)
    return s, a, t, b, outer, inner


def test_bounds_loops_and_function():
    s, a, t, b, outer, inner = sums()
    bounds = te.schedule.InferBound(s)
    assert (int(bounds[outer].extent), int(bounds[inner].extent)) == (3, 4)
    assert [int(bounds[x].extent) for x in t.op.axis] == [4, 7]
    assert str(bounds[t.op.axis[0]].min.a) == "i.outer"
    stmt = te.schedule.ScheduleOps(s, bounds)
    assert te.schedule.VerifyCompactBuffer(stmt)
    func = te.schedule.SchedulePostProcToPrimFunc([a, b], stmt, None)
    assert isinstance(func, tir.PrimFunc) and [p.name for p in func.params] == ["A", "B"]
    assert str(driver.lower(func)) == str(driver.lower(s, [a, b]))
    x, out = np.random.default_rng(0).standard_normal((9, 7)).astype("float32"), np.empty(9, "f4")
    driver.build(func)(x, out)
    np.testing.assert_allclose(out, x.sum(1) * 2, rtol=1e-5)
    replays(s, [a, b])


def test_buffers_of_the_callers_own():
    s, a, t, b, _, _ = sums()
    mine = tir.decl_buffer((9, 7), "float32", name="mine")
    stmt = te.schedule.ScheduleOps(s)
    func = te.schedule.SchedulePostProcToPrimFunc([a, b], stmt, {a: mine})
    assert func.params[0] is mine and "mine[" in str(driver.lower(func))


def test_rows_with_gaps_are_not_compact():
    s, a, t, b, _, _ = sums()
    s[t].storage_align(t.op.axis[0], 8, 1)
    assert not te.schedule.VerifyCompactBuffer(te.schedule.ScheduleOps(s))


def test_what_is_no_schedule_statement_or_argument():
    s, a, t, b, _, _ = sums()
    with pytest.raises(ArgumentError, match="InferBound: a int is not a schedule"):
        te.schedule.InferBound(3)
    with pytest.raises(ArgumentError, match="ScheduleOps: a NoneType is not a schedule"):
        te.schedule.ScheduleOps(None)
    stmt, post = te.schedule.ScheduleOps(s), te.schedule.SchedulePostProcToPrimFunc
    with pytest.raises(ArgumentError, match="none that ScheduleOps gave"):
        post([a, b], stmt.body)
    with pytest.raises(ArgumentError, match="T is no input or output\n  there are: A, B"):
        post([a, t], stmt)
    with pytest.raises(ArgumentError, match="a str is no Tensor, Buffer or Var"):
        post(["A"], stmt)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        te.schedule.Nonsense  # noqa: B018
    assert te.schedule.Split is te.stage.Split
