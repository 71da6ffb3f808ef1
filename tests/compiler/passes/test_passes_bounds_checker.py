"""The bounds checker: what is out of range is an error with numbers, what is in range is right."""

import numpy as np
import pytest
from te_check import check
from test_random_programs import drawn

import whet
from whet import te, tir
from whet.compiler.errors import KernelError
from whet.compiler.passes import PassContext

CHECKED = {"tir.instrument_bound_checkers": True}


def built(s, args, **config):
    with PassContext(config={**CHECKED, **config}):
        return whet.build(s, args)


def gather(n, m, dtype="int32"):
    table = te.placeholder((n,), dtype, name="T")
    a = te.placeholder((m,), name="A")
    c = te.compute((n,), lambda i: a[table[i]] * 2.0, name="C")
    return te.create_schedule(c.op), c, [table, a, c]


@pytest.mark.parametrize("how", ["serial", "parallel", "vectorize", "unroll", "split"])
@pytest.mark.parametrize(("where", "index"), [(0, -1), (6, 5), (3, 2**31 - 1)])
def test_a_gather_out_of_range(how, where, index):
    s, c, args = gather(7, 5)
    if how == "split":
        _, inner = s[c].split(c.op.axis[0], factor=4)
        s[c].vectorize(inner)
    elif how != "serial":
        getattr(s[c], how)(c.op.axis[0])
    f = built(s, args)
    a = np.arange(5, dtype="float32")
    t = np.array([0, 4, 2, 1, 3, 3, 0], "int32")
    out = np.full(7, np.nan, "float32")
    f(t, a, out)
    np.testing.assert_array_equal(out, a[t] * 2)
    t[where] = index
    words = f"read of A: index {index} of dimension 0 is out of range, the extent is 5"
    with pytest.raises(KernelError, match=words):
        f(t, a, out)
    t[where] = 4
    f(t, a, out)
    np.testing.assert_array_equal(out, a[t] * 2)


def test_the_dimension_is_named():
    table = te.placeholder((4,), "int64", name="T")
    a = te.placeholder((3, 6), name="A")
    c = te.compute((3, 4), lambda i, j: a[i, table[j]], name="C")
    f = built(te.create_schedule(c.op), [table, a, c])
    x = np.arange(18, dtype="float32").reshape(3, 6)
    out = np.empty((3, 4), "float32")
    f(np.array([5, 0, 1, 2]), x, out)
    np.testing.assert_array_equal(out, x[:, [5, 0, 1, 2]])
    with pytest.raises(KernelError, match=r"read of A: index 6 of dimension 1 .* extent is 6"):
        f(np.array([5, 0, 6, 2]), x, out)


def test_one_beyond_a_symbolic_extent():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n,), name="A")
    b = te.placeholder((m,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i + 1], name="C")
    f = built(te.create_schedule(c.op), [a, b, c])
    x, out = np.ones(6, "float32"), np.empty(6, "float32")
    f(x, np.arange(7, dtype="float32"), out)
    np.testing.assert_array_equal(out, np.arange(1, 7) + 1)
    with pytest.raises(KernelError, match=r"read of B: index 6 of dimension 0 .* the extent is 6"):
        f(x, np.arange(6, dtype="float32"), out)


def extern(body, n=8):
    a = te.placeholder((n,), name="A")
    c = te.extern((n,), [a], lambda ins, outs: body(ins[0], outs[0]), name="C", dtype="float32")
    return te.create_schedule(c.op), [a, c]


def test_an_extern_statement_that_reads_and_writes_beyond():
    def shifted(a, c):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 8, name="i") as i:
            ib.emit(c.vstore([i], a.vload([i + 1])))
        return ib.get()

    def doubled(a, c):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 8, name="i") as i:
            ib.emit(c.vstore([i * 2], a.vload([i])))
        return ib.get()

    x, out = np.ones(8, "float32"), np.empty(8, "float32")
    with pytest.raises(KernelError, match=r"read of A: index 8 of dimension 0 .* extent is 8"):
        built(*extern(shifted))(x, out)
    with pytest.raises(KernelError, match=r"write of C: index 8 of dimension 0 .* extent is 8"):
        built(*extern(doubled))(x, out)


def test_a_vector_access_is_checked_at_its_last_lane():
    def vectors(a, c):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 2, name="i") as i:
            ib.emit(c.vstore([i * 4 + 1], a.vload([i * 4], "float32x4")))
        return ib.get()

    x, out = np.ones(8, "float32"), np.empty(8, "float32")
    with pytest.raises(KernelError, match=r"write of C: index 8 of dimension 0 .* extent is 8"):
        built(*extern(vectors))(x, out)


def test_a_loop_and_a_condition_that_read_are_checked():
    def looped(a, c):
        ib = tir.ir_builder.create()
        with ib.if_scope(a.vload([9]) > 0.0):
            ib.emit(c.vstore([0], 1.0))
        return ib.get()

    x, out = np.ones(8, "float32"), np.empty(8, "float32")
    with pytest.raises(KernelError, match="read of A: index 9 of dimension 0"):
        built(*extern(looped))(x, out)


def guarded(choose):
    n = te.var("n")
    table = te.placeholder((n,), "int32", name="T")
    a = te.placeholder((5,), name="A")
    return (
        te.compute(
            (n,),
            lambda i: choose(te.all(table[i] >= 0, table[i] < 5), a[table[i]], -1.0),
            name="C",
        ),
        [table, a],
    )


@pytest.mark.parametrize("choose", [te.if_then_else, te.select], ids=["if_then_else", "select"])
@pytest.mark.parametrize("vectorized", [False, True])
def test_what_a_condition_guards_needs_no_check(choose, vectorized):
    c, inputs = guarded(choose)
    s = te.create_schedule(c.op)
    if vectorized:
        _, inner = s[c].split(c.op.axis[0], factor=8)
        s[c].vectorize(inner)
    with PassContext(config=CHECKED):
        assert "assert" not in str(whet.lower(s, [*inputs, c]))
    f = built(s, [*inputs, c])
    t = np.array([-7, 0, 4, 5, 2**30, 3, -1, 2, 1], "int32")
    a, out = np.arange(5, dtype="float32"), np.full(9, np.nan, "float32")
    f(t, a, out)
    inside = (t >= 0) & (t < 5)
    np.testing.assert_array_equal(out, np.where(inside, a[np.clip(t, 0, 4)], -1))


def test_a_guarded_access_is_checked_where_its_guard_holds():
    n = te.var("n")
    table = te.placeholder((n,), "int32", name="T")
    a = te.placeholder((5,), name="A")
    flag = te.placeholder((n,), "int32", name="F")
    c = te.compute((n,), lambda i: te.if_then_else(flag[i] > 0, a[table[i]], 0.0), name="C")
    f = built(te.create_schedule(c.op), [table, flag, a, c])
    t, a_ = np.array([1, 99, 2], "int32"), np.arange(5, dtype="float32")
    out = np.full(3, np.nan, "float32")
    f(t, np.array([1, 0, 1], "int32"), a_, out)
    np.testing.assert_array_equal(out, [1, 0, 2])
    with pytest.raises(KernelError, match="read of A: index 99 "):
        f(t, np.array([1, 1, 1], "int32"), a_, out)


def test_an_index_that_is_read_is_checked_before_what_it_indexes():
    first = te.placeholder((6,), "int32", name="first")
    second = te.placeholder((3,), "int32", name="second")
    a = te.placeholder((4,), name="A")
    c = te.compute((6,), lambda i: a[second[first[i]]], name="C")
    f = built(te.create_schedule(c.op), [first, second, a, c])
    out = np.empty(6, "float32")
    x = np.arange(4, dtype="float32")
    i, j = np.array([0, 1, 2, 2, 1, 0], "int32"), np.array([3, 0, 1], "int32")
    f(i, j, x, out)
    np.testing.assert_array_equal(out, x[j[i]])
    with pytest.raises(KernelError, match="read of second: index 3 "):
        f(np.array([0, 1, 2, 3, 1, 0], "int32"), j, x, out)
    with pytest.raises(KernelError, match="read of A: index 4 "):
        f(i, np.array([3, 4, 1], "int32"), x, out)


def test_the_left_of_an_and_guards_the_right():
    table = te.placeholder((6,), "int32", name="T")
    a = te.placeholder((5,), name="A")
    c = te.compute(
        (6,),
        lambda i: te.if_then_else(te.all(table[i] >= 0, a[table[i]] > 2.0), 1.0, 0.0),
        name="C",
    )
    f = built(te.create_schedule(c.op), [table, a, c])
    out, x = np.empty(6, "float32"), np.arange(5, dtype="float32")
    f(np.array([-9, 4, 1, -1, 3, 0], "int32"), x, out)
    np.testing.assert_array_equal(out, [0, 1, 0, 0, 1, 0])
    with pytest.raises(KernelError, match="read of A: index 5 "):
        f(np.array([-9, 4, 1, -1, 3, 5], "int32"), x, out)


def test_only_what_cannot_be_proved_is_checked():
    s, _, args = gather(7, 5)
    with PassContext(config=CHECKED):
        text = str(whet.lower(s, args))
    assert text.count("assert") == 1
    assert "assert T[i] >= 0 and T[i] < 5, 'read of A: index {0} of dimension 0" in text
    assert "assert" not in str(whet.lower(*gather(7, 5)[::2]))


def test_it_is_off_by_default_and_names_with_braces_are_shown():
    table = te.placeholder((2,), "int32", name="T")
    a = te.placeholder((4,), name="A{0}")
    c = te.compute((2,), lambda i: a[table[i]], name="C")
    f = built(te.create_schedule(c.op), [table, a, c])
    with pytest.raises(KernelError, match=r"read of A\{0\}: index 4 "):
        f(np.array([0, 4], "int32"), np.zeros(4, "float32"), np.zeros(2, "float32"))


def test_checks_stay_where_assertions_are_dropped():
    s, _, args = gather(7, 5)
    f = built(s, args, **{"tir.disable_assert": True})
    with pytest.raises(KernelError, match="index 9 "):
        f(np.full(7, 9, "int32"), np.zeros(5, "float32"), np.zeros(7, "float32"))


def test_assertions_of_the_user_are_dropped_where_asked():
    def asserting(a, c):
        body = c.vstore([0], 1.0)
        return tir.AssertStmt(a.vload([0]) > 0.0, "A[0] must be positive", body)

    x, out = np.zeros(8, "float32"), np.zeros(8, "float32")
    with pytest.raises(KernelError, match=r"A\[0\] must be positive"):
        whet.build(*extern(asserting))(x, out)
    with PassContext(config={"tir.disable_assert": True}):
        whet.build(*extern(asserting))(x, out)
    assert out[0] == 1


def test_schedules_with_tails_and_caches_are_unaffected():
    n = te.var("n")
    a = te.placeholder((n, 17), name="A")
    k = te.reduce_axis((0, 17), name="k")
    b = te.compute((n, 17), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], o)
    s[b].vectorize(b.op.axis[1])
    s.cache_read(a, "local", [b])
    with PassContext(config=CHECKED):
        check(s, [a, c], {n: 13})


def test_random_programs_give_the_same_numbers_with_checks(seeds, is_known):
    ran, some = 0, seeds(36)
    for seed in some:
        program = drawn(seed, seed % 2 == 1)
        try:
            with PassContext(config=CHECKED, instruments=[whet.instrument.VerifyEach()]):
                ready = program.compiled()
            if ready is not None:
                program.run(*ready)
                ran += 1
        except Exception as error:
            if not is_known(str(program), error):
                error.add_note(str(program))
                raise
    assert ran >= len(some) // 2
