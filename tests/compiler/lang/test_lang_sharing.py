"""Expressions that share parts, and graphs of diamonds: as long as they are written, no longer."""

import numpy as np

from whet.compiler import driver, te


def doublings(x, times):
    for _ in range(times):
        x = x + x
    return x


def test_sixty_doublings_of_one_expression():
    a = te.placeholder((37,), "float64", name="A")
    b = te.compute((37,), lambda i: doublings(a[i], 60), name="B")
    for vector in (False, True):
        s = te.create_schedule(b.op)
        if vector:
            s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
        f = driver.build(s, [a, b])  # a walk over every path would take years
        data, out = np.random.default_rng(0).standard_normal(37), np.empty(37)
        f(data, out)
        np.testing.assert_array_equal(out, data * 2.0**60)


def test_doublings_of_an_index_and_of_integers():
    a = te.placeholder((37,), "int64", name="A")
    b = te.compute(
        (37,), lambda i: doublings(a[i], 60) + doublings(i.astype("int64"), 40), name="B"
    )
    c = te.compute((37,), lambda i: a[doublings(i, 30) % 37], name="C")
    data, x, y = np.arange(37) % 3, np.empty(37, "i8"), np.empty(37, "i8")
    driver.build(te.create_schedule([b.op, c.op]), [a, b, c])(data, x, y)
    np.testing.assert_array_equal(x, data * 2**60 + np.arange(37) * 2**40)
    np.testing.assert_array_equal(y, data[(np.arange(37) * 2**30) % 37])


def chain(a, depth):
    """Sixty tensors, each the sum of the one before with itself."""
    t = a
    for k in range(depth):
        t = _twice(t, k)
    return t


def _twice(t, k):
    return te.compute((16,), lambda i: t[i] + t[i], name=f"T{k}")


def test_inlined_diamonds():
    a = te.placeholder((16,), "float64", name="A")
    t = chain(a, 60)
    s = te.create_schedule(t.op)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    data, out = np.random.default_rng(0).standard_normal(16), np.empty(16)
    driver.build(s, [a, t])(data, out)
    np.testing.assert_array_equal(out, data * 2.0**60)


def test_a_graph_of_diamonds_has_one_text_and_one_count():
    a = te.placeholder((16,), name="A")
    t = te.compute((16,), lambda i: doublings(a[i], 40), name="T")
    assert te.count_flop(te.create_schedule(t.op)) == 16 * 40
    assert len(te.create_schedule(chain(a, 60).op).stages) == 61
    assert len(chain(a, 60).op.input_tensors) == 1
