"""The pass RegisterAccumulators: where it applies, where it must not, and the numbers."""

import numpy as np
import pytest

import whet
from whet import te


def matmul(n, rows, columns, depth, unroll_k):
    """A matmul without cache_write: it adds to C itself, a block of k at a time."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    it, ii = s[C].split(i, factor=rows)
    jo, ji = s[C].split(j, factor=columns)
    ko, ki = s[C].split(k, factor=depth)
    kk, ku = s[C].split(ki, factor=unroll_k)
    s[C].reorder(ko, it, jo, kk, ku, ii, ji)
    s[C].unroll(ii)
    s[C].unroll(ku)
    s[C].vectorize(ji)
    return s, [A, B, C]


@pytest.mark.parametrize(
    ("n", "rows", "columns", "depth", "unroll_k"),
    [
        (48, 6, 16, 16, 1),
        (48, 4, 16, 24, 4),
        (37, 5, 16, 37, 1),
        (61, 6, 8, 20, 2),
        (5, 8, 16, 8, 1),
    ],
)
def test_numbers(n, rows, columns, depth, unroll_k):
    s, args = matmul(n, rows, columns, depth, unroll_k)
    f = whet.build(s, args)
    rng = np.random.default_rng(n + rows)
    a, b = (rng.standard_normal((n, n)).astype("float32") for _ in range(2))
    c = np.full((n, n), np.nan, "float32")
    f(a, b, c)
    np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-4, atol=1e-4)


def test_the_innermost_reduction_adds_up_in_a_local_array():
    s, args = matmul(48, 6, 16, 16, 1)
    text = str(whet.lower(s, args))
    loop = text.split("for k_inner_outer in range(16):")[1].split("C[")[0]
    assert "C_acc[" in loop, text
    with whet.transform.PassContext(disabled_pass=["RegisterAccumulators"]):
        assert "C_acc" not in str(whet.lower(*matmul(48, 6, 16, 16, 1)))


def test_a_tail_gets_a_tile_of_its_own_length():
    s, args = matmul(32, 6, 16, 32, 1)  # 32 rows are 5 tiles of 6 and one of 2
    text = str(whet.lower(s, args))
    assert "unrolled(2)" in text
    assert "likely" not in text, text


def test_steps_that_meet_in_one_place_share_an_accumulator():
    # both reduction loops add to the one element: one accumulator, whatever is unrolled
    A = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 8), name="k")
    j = te.reduce_axis((0, 4), name="j")
    C = te.compute((1,), lambda i: te.sum(A[k, j], axis=[k, j]), name="C")
    s = te.create_schedule(C.op)
    s[C].unroll(j)
    f = whet.build(s, [A, C])
    a = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
    c = np.full(1, np.nan, "float32")
    f(a, c)
    np.testing.assert_allclose(c, a.astype("float64").sum(), rtol=1e-5)


def test_a_value_that_reads_its_own_buffer_elsewhere_is_left_alone():
    from whet.compiler.passes.loops.register_accumulators import register_accumulators
    from whet.compiler.tir import (
        Add,
        BufferLoad,
        BufferStore,
        For,
        PrimFunc,
        Var,
        const,
        decl_buffer,
    )

    b, k = decl_buffer((9,), "float32", "b"), Var("k")
    here, other = const(0), const(1)
    total = Add(BufferLoad(b, (here,), "float32"), BufferLoad(b, (other,), "float32"), "float32")
    loop = For(k, const(0), const(4), "serial", BufferStore(b, total, (here,)))
    func = PrimFunc((b,), loop)
    assert register_accumulators(func, whet.Target("llvm"), {}) is func


def test_steps_that_overlap_are_left_alone():
    # b[i + j] for unrolled i and j: two steps share an element, a copy for each would lose a sum
    from whet.compiler.passes.loops.register_accumulators import register_accumulators
    from whet.compiler.tir import (
        Add,
        BufferLoad,
        BufferStore,
        For,
        PrimFunc,
        Var,
        const,
        decl_buffer,
    )

    b, i, j, k = decl_buffer((3,), "float32", "b"), Var("i"), Var("j"), Var("k")
    for index, apart in ((i + j, False), (i * 2 + j, True)):
        total = Add(BufferLoad(b, (index,), "float32"), const(1.0), "float32")
        body = BufferStore(b, total, (index,))
        for var, kind in ((j, "unrolled"), (i, "unrolled"), (k, "serial")):
            body = For(var, const(0), const(2), kind, body)
        func = PrimFunc((b,), body)
        assert (register_accumulators(func, whet.Target("llvm"), {}) is not func) == apart


@pytest.mark.parametrize(("n", "m"), [(64, 64), (61, 40), (7, 5)])
def test_rows_that_are_added_up_together_are_stored_once(n, m):
    """The serial loop over columns is in the place; the iterations unrolled inside of it not."""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((m,), lambda j: te.sum(A[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    ko, ki = s[C].split(k, factor=4)
    jo, ji = s[C].split(s[C].op.axis[0], factor=8)
    s[C].reorder(ko, jo, ki, ji)
    s[C].unroll(ki)
    s[C].vectorize(ji)
    with whet.Target("llvm -mcpu=x86-64-v3"):  # eight columns are one vector
        text = str(whet.lower(s, [A, C]))
    if n % 4 == m % 8 == 0:
        steps = text.split("for k_inner in unrolled(4):")[1].splitlines()
        assert steps[1].strip().startswith("C_acc["), text
        assert steps[2].strip().startswith("C["), text
    a = np.random.default_rng(n).standard_normal((n, m)).astype("float32")
    c = np.full(m, np.nan, "float32")
    whet.build(s, [A, C])(a, c)
    np.testing.assert_allclose(c, a.sum(0, dtype="float64"), rtol=1e-4, atol=1e-4)
