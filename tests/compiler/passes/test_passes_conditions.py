"""Passes of conditions: choices that read out of range, tests that leave loops; text, numbers."""

import numpy as np
import pytest
from pass_checks import around, lowered, verified
from te_check import check

import whet
from whet import te, tir

# RewriteUnsafeSelect


def selected(low):
    a = te.placeholder((9,), name="A")
    c = te.compute((9,), lambda i: te.select(i >= low, a[i - low], 7.0), name="C")
    return te.create_schedule(c.op), [a, c]


def test_unsafe_select_golden(golden):
    golden("pass_RewriteUnsafeSelect", around("RewriteUnsafeSelect", lambda: selected(2)))


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_choice_reads_nothing_out_of_range(vectorized):
    s, args = selected(2)
    if vectorized:
        s[args[1]].vectorize(args[1].op.axis[0])
    else:
        assert "if_then_else" in lowered(s, args)
    a = te.placeholder((9,), name="A")
    c = te.compute((9,), lambda i: te.select(i > 3, a[i], a[8 - i]), name="C")
    assert "select" in lowered(te.create_schedule(c.op), [a, c])
    with verified():
        check(s, args)


def test_a_choice_divides_by_nothing():
    a, b = (te.placeholder((9,), "int32", name=n) for n in "AB")
    c = te.compute((9,), lambda i: te.select(b[i] != 0, te.floordiv(a[i], b[i]), -1), name="C")
    s = te.create_schedule(c.op)
    assert "if_then_else" in lowered(s, [a, b, c])
    f = whet.build(s, [a, b, c])
    x = np.arange(9, dtype="int32")
    y = np.array([1, 0, 2, 0, -3, 4, 0, 1, 5], "int32")
    out = np.empty(9, "int32")
    f(x, y, out)
    np.testing.assert_array_equal(out, np.where(y == 0, -1, x // np.where(y == 0, 1, y)))


# HoistIfThenElse


def conditional(kind="serial", otherwise=False, reads_output=False):
    a, c = (tir.decl_buffer((8,), "float32", n) for n in "AC")
    m = tir.Var("m", "int32")
    i = tir.Var("i", "int32")
    test = c.vload([0]) > 0.0 if reads_output else m > 4
    other = c.vstore([i], 0.0) if otherwise else None
    branch = tir.IfThenElse(test, c.vstore([i], a.vload([i])), other)
    loop = tir.For(i, tir.const(0), tir.const(8), kind, branch)
    return (tir.PrimFunc((a, c, m), loop),)


def test_hoisting_golden(golden):
    function = conditional(otherwise=True)
    golden("pass_HoistIfThenElse", around("HoistIfThenElse", lambda: function))


def test_a_condition_stays_where_it_may_change_or_the_loop_would_be_doubled():
    def first_line(function):
        return lowered(*function).splitlines()[1].strip()

    assert first_line(conditional()) == "if m > 4:"
    assert first_line(conditional("parallel")) == "if m > 4:"
    assert first_line(conditional("parallel", otherwise=True)).startswith("for i in parallel")
    assert first_line(conditional(reads_output=True)).startswith("for i in range")


def test_a_condition_leaves_a_loop_over_threads_where_asked():
    asked = {"tir.HoistIfThenElse": {"support_block_scope_hosting": True}}
    (func,) = conditional("thread_binding")
    body = tir.For(func.body.var, 0, 8, "thread_binding", func.body.body, {}, "threadIdx.x")
    bound = tir.PrimFunc(func.params, body)
    assert "if m > 4:" not in lowered(bound).splitlines()[1]
    assert "if m > 4:" in lowered(bound, config=asked).splitlines()[1]


@pytest.mark.parametrize("m", [3, 5])
def test_hoisted_conditions_give_the_right_numbers(m):
    with verified():
        f = whet.build(*conditional(otherwise=True), name="conditional")
    a, c = np.arange(1, 9, dtype="float32"), np.full(8, np.nan, "float32")
    f(a, c, m)
    np.testing.assert_array_equal(c, a if m > 4 else 0)


def in_a_row(kind="serial", reads_output=False, divides=False):
    """Three stores, the first and the last under a condition more than the middle one."""
    a, c = (tir.decl_buffer((24,), "float32", n) for n in "AC")
    m, n, i = (tir.Var(x, "int32") for x in "mni")
    shared = c.vload([0]) > 0.0 if reads_output else (m // n if divides else m) > 4
    tests = (tir.And(shared, n > 0, "bool"), shared, tir.And(shared, n > 1, "bool"))
    stores = [
        tir.IfThenElse(test, c.vstore([i * 3 + k], a.vload([i * 3 + k])))
        for k, test in enumerate(tests)
    ]
    thread = "threadIdx.x" if kind == "thread_binding" else None
    loop = tir.For(i, tir.const(0), tir.const(8), kind, tir.SeqStmt(tuple(stores)), {}, thread)
    return tir.PrimFunc((a, c, m, n), loop)


def test_statements_in_a_row_share_a_test():
    text = lowered(in_a_row())
    assert text.count("m > 4") == 1
    assert text.splitlines()[1].strip() == "if m > 4:"  # and then it leaves the loop
    assert text.count("n > 0") == text.count("n > 1") == 1


def test_a_test_is_not_shared_where_it_may_change_or_threads_may_meet():
    assert lowered(in_a_row(reads_output=True)).count("C[0] > ") == 3
    assert lowered(in_a_row("thread_binding")).count("m > 4") == 3
    # what stands beside a division may be what guards it
    assert lowered(in_a_row(divides=True)).count("m // n > 4") == 3


@pytest.mark.parametrize("m, n", [(3, 2), (5, 0), (5, 1), (5, 2)])
def test_shared_tests_give_the_right_numbers(m, n):
    with verified():
        f = whet.build(in_a_row(), name="in_a_row")
    a, c = np.arange(1, 25, dtype="float32"), np.zeros(24, "float32")
    f(a, c, m, n)
    right = np.zeros((8, 3), "float32")
    if m > 4:
        right[:, 1] = a.reshape(8, 3)[:, 1]
        for column, least in ((0, 1), (2, 2)):
            if n >= least:
                right[:, column] = a.reshape(8, 3)[:, column]
    np.testing.assert_array_equal(c, right.reshape(-1))
