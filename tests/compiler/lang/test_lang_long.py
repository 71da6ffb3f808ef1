"""64-bit indices where a shape needs them: sparse arrays beyond 2**31 elements, and the loop IR."""

import numpy as np
import pytest

from whet.compiler import driver, te, tir
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.visit.rewrite import post_order_visit

BIG = 2**31 + 7


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """2**31 + 7 zeros of a byte, of which only touched pages exist, with marks in it."""
    path = tmp_path_factory.mktemp("sparse") / "data"
    with path.open("wb") as f:
        f.truncate(BIG)
    array = np.asarray(np.memmap(path, np.uint8, "r+"))
    for k in range(17):
        array[mark(k)] = k + 1
    return array


def mark(k):
    return min(k * 2**27 + 3, BIG - 1)


def loops(mod):
    found = []
    post_order_visit(mod["main"].body, lambda n: found.append(n) if isinstance(n, s.For) else None)
    return found


def well_typed(mod):
    """Each operator's operands are of its type; each index into a long buffer has 64 bits."""

    def visit(n):
        if isinstance(n, e.BinaryOp):
            assert n.a.dtype == n.b.dtype
            assert isinstance(n, e.CmpOp) or n.dtype == n.a.dtype
        if isinstance(n, (e.BufferLoad, s.BufferStore)):
            size = n.buffer.shape[0]
            if isinstance(size, e.IntImm) and size.value >= 2**31:
                assert n.indices[0].dtype.startswith("int64"), n.indices[0]

    post_order_visit(mod["main"].body, visit)


def test_loops_and_indices_of_a_long_tensor():
    a = te.placeholder((2**33,), name="A")
    b = te.compute((2**33,), lambda i: a[i] + 1.0, name="B")
    assert b.op.axis[0].dtype == "int64"
    assert te.reduce_axis((0, 2**40)).dtype == "int64"
    sch = te.create_schedule(b.op)
    outer, inner = sch[b].split(b.op.axis[0], factor=48)
    mod = driver.lower(sch, [a, b])
    assert {loop.var.dtype for loop in loops(mod)} == {"int64"}
    well_typed(mod)
    assert f"range({-(-(2**33) // 48)})" in str(mod)
    sch[b].vectorize(inner)
    sch[b].parallel(outer)
    well_typed(driver.lower(sch, [a, b]))
    driver.build(sch, [a, b])  # no memory is touched


def test_a_product_of_short_dimensions_is_long():
    a = te.placeholder((70000, 70000), "uint8", name="A")
    b = te.compute((70000, 70000), lambda i, j: a[j, i], name="B")
    sch = te.create_schedule(b.op)
    fused = sch[b].fuse(*b.op.axis)
    sch[b].split(fused, factor=16)
    mod = driver.lower(sch, [a, b])
    well_typed(mod)
    assert str(70000 * 70000 // 16) in str(mod)


@pytest.mark.parametrize("schedule", ["plain", "vector", "inline", "at"])
def test_elements_beyond_two_billion(sparse, schedule):
    a = te.placeholder((BIG,), "uint8", name="A")
    p = te.compute((BIG,), lambda i: a[i] * 2, name="P")
    # 16 * 2**27 does not fit 32 bits, and j is an int32
    read = p if schedule in ("inline", "at") else a
    c = te.compute((17,), lambda j: read[te.min(j * 2**27 + 3, BIG - 1)], name="C")
    assert c.op.axis[0].dtype == "int32"
    sch = te.create_schedule(c.op)
    if schedule == "inline":
        sch[p].compute_inline()
    elif schedule == "at":
        sch[p].compute_at(sch[c], c.op.axis[0])
    else:
        _, inner = sch[c].split(c.op.axis[0], factor=8)
        if schedule == "vector":
            sch[c].vectorize(inner)
    well_typed(driver.lower(sch, [a, c]))
    out = np.zeros(17, np.uint8)
    driver.build(sch, [a, c])(sparse, out)
    scale = 2 if schedule in ("inline", "at") else 1
    np.testing.assert_array_equal(out, np.arange(1, 18) * scale)


def test_a_symbolic_size_of_64_bits(sparse):
    n = te.size_var("n", "int64")
    a = te.placeholder((n,), "uint8", name="A")
    c = te.compute((17,), lambda j: a[te.min(j * 2**27 + 3, n - 1)], name="C")
    sch = te.create_schedule(c.op)
    sch[c].vectorize(sch[c].split(c.op.axis[0], factor=8)[1])
    out = np.zeros(17, np.uint8)
    driver.build(sch, [a, c])(sparse, out)
    np.testing.assert_array_equal(out, np.arange(1, 18))


def test_a_symbolic_product_of_32_bits(sparse):
    """Neither the rows nor the columns need 64 bits; their product does."""
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), "uint8", name="A")
    c = te.compute((16,), lambda j: a[j * (n // 16), 3], name="C")
    out = np.zeros(16, np.uint8)
    view = sparse[: 2**31].reshape(2**17, 2**14)
    driver.build(te.create_schedule(c.op), [a, c])(view, out)
    np.testing.assert_array_equal(out, np.arange(1, 17))


def test_an_argmax_whose_place_is_long():
    """The place is an int64 because the axis is."""
    a = te.placeholder((2**33,), name="A")
    k = te.reduce_axis((0, 2**33), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
    )
    where, _ = te.compute((), lambda: argmax((k.var, a[k]), axis=k), name="R")
    assert where.dtype == "int64"


def test_literals_that_need_64_bits_widen_an_index():
    i = te.var("i")
    assert (i + 2**33).dtype == "int64"
    assert (i * 2).dtype == "int32"
