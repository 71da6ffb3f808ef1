"""Every node of the loop IR, built by hand, printed, copied and run."""

import numpy as np
import pytest

import whet
from whet.compiler import tir
from whet.compiler.errors import CodegenError, KernelError
from whet.compiler.tir.ops import ops

I32 = "int32"


def run(func, *arrays):
    whet.build(func, target="llvm")(*arrays)


def const(x, dtype=I32):
    return tir.const(x, dtype)


def load(b, *indices, dtype=None):
    return tir.BufferLoad(b, tuple(ops.convert(i) for i in indices), dtype or b.dtype)


def store(b, value, *indices):
    return tir.BufferStore(b, ops.convert(value), tuple(ops.convert(i) for i in indices))


def loop(var, n, body, kind="serial", thread=""):
    return tir.For(var, const(0), ops.convert(n), kind, body, {}, thread)


def test_let_in_an_expression_and_around_a_statement():
    A, B = tir.decl_buffer(7, name="A"), tir.decl_buffer(7, name="B")
    i, x, y = tir.Var("i"), tir.Var("x", "float32"), tir.Var("y", "float32")
    square = tir.Let(x, load(A, i), x * x, "float32")
    body = loop(i, 7, tir.LetStmt(y, square, store(B, y + y, i)))
    func = tir.PrimFunc((A, B), body)
    assert "y = let(x, A[i], x * x)" in func.script()
    a, b = np.random.rand(7).astype("f4"), np.full(7, np.nan, "f4")
    run(func, a, b)
    np.testing.assert_allclose(b, 2 * a * a, rtol=1e-6)


def test_a_let_of_an_index_is_an_index():
    A, B = tir.decl_buffer(12, name="A"), tir.decl_buffer(12, name="B")
    i, j = tir.Var("i"), tir.Var("j")
    body = loop(i, 12, tir.LetStmt(j, ops.floormod(i + 5, 12), store(B, load(A, j), i)))
    a, b = np.random.rand(12).astype("f4"), np.full(12, np.nan, "f4")
    run(tir.PrimFunc((A, B), body), a, b)
    np.testing.assert_array_equal(b, np.roll(a, -5))


def test_while_reads_its_condition_anew():
    # Collatz steps of each number
    N, C = tir.decl_buffer(9, I32, "N"), tir.decl_buffer(9, I32, "C")
    i = tir.Var("i")
    n = load(N, i)
    half = ops.floordiv(n, 2)
    step = tir.SeqStmt(
        (
            store(C, load(C, i) + 1, i),
            store(N, tir.Select(ops.floormod(n, 2).equal(0), half, n * 3 + 1, I32), i),
        )
    )
    body = loop(i, 9, tir.SeqStmt((store(C, 0, i), tir.While(n > 1, step))))
    func = tir.PrimFunc((N, C), body)
    assert "while N[i] > 1:" in func.script()
    numbers, counts = np.arange(1, 10, dtype="i4"), np.full(9, -1, "i4")
    run(func, numbers, counts)
    assert list(counts) == [0, 1, 7, 2, 5, 8, 16, 3, 19]


def test_an_assertion_that_fails_names_its_numbers_in_every_way_of_calling():
    A, I, B = (
        tir.decl_buffer(5, name="A"),
        tir.decl_buffer(4, I32, "I"),
        tir.decl_buffer(4, name="B"),
    )
    i = tir.Var("i")
    where = load(I, i)
    inside = tir.AssertStmt(
        ops.logical_and(where >= 0, where < 5),
        "A[{0}] is outside 0..4, at step {1}",
        store(B, load(A, where), i),
        (where, i),
    )
    func = tir.PrimFunc((A, I, B), loop(i, 4, inside))
    assert "assert I[i] >= 0 and I[i] < 5, 'A[{0}] is outside" in func.script()
    f = whet.build(func, target="llvm")
    a, b = np.arange(5, dtype="f4"), np.full(4, np.nan, "f4")
    f(a, np.array([4, 0, 3, 1], "i4"), b)
    np.testing.assert_array_equal(b, [4, 0, 3, 1])
    bad = np.array([4, 0, 77, 1], "i4")
    for call in (f, lambda *args: f.entry_func.repeater(args)(1)):
        with pytest.raises(KernelError, match=r"\(\): A\[77\] is outside 0\.\.4, at step 2"):
            call(a, bad, b)
    with pytest.raises(KernelError, match=r"A\[-1\]"):  # an array that goes the slow way
        f(whet.nd.array(a), memoryview_like(np.array([0, 0, 0, -1], "i4")), b)


class memoryview_like:
    """An array that only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_an_assertion_in_a_parallel_loop_and_beside_memory_from_the_heap():
    A = tir.decl_buffer(64, name="A")
    n = tir.size_var("n") if hasattr(tir, "size_var") else tir.SizeVar("n")
    W = tir.decl_buffer((n,), name="W")
    N = tir.decl_buffer((n,), name="N")
    i = tir.Var("i")
    check = tir.AssertStmt(load(A, i) >= 0.0, "A[{0}] is negative", store(A, 1.0, i), (i,))
    body = tir.Allocate(W, tir.SeqStmt((store(W, 0.0, 0), loop(i, 64, check, "parallel"))))
    f = whet.build(tir.PrimFunc((A, N), body), target="llvm")
    a = np.zeros(64, "f4")
    f(a, np.zeros(3, "f4"))
    assert (a == 1).all()
    a[41] = -1
    for _ in range(50):
        with pytest.raises(KernelError, match=r"A\[41\] is negative"):
            f(a, np.zeros(100_000, "f4"))
        a[:] = 0
        a[41] = -1


def test_constants_and_views_of_the_same_memory():
    table = np.array([[1.5, -2.5, 3.5], [4.0, 5.0, 6.0]], "f4")
    T, B = tir.decl_buffer((2, 3), name="T"), tir.decl_buffer((2, 3), name="B")
    flat = tir.decl_buffer(6, name="flat", data=B.data)
    i, j, k = tir.Var("i"), tir.Var("j"), tir.Var("k")
    first = loop(i, 2, loop(j, 3, store(B, load(T, i, j), i, j)))
    then = tir.DeclBuffer(flat, loop(k, 6, store(flat, load(flat, k) * 2.0, k)))
    func = tir.PrimFunc((B,), tir.AllocateConst(T, table, tir.SeqStmt((first, then))))
    assert 'T = constant([2, 3], "float32")' in func.script()
    assert 'flat = decl_buffer([6], "float32")' in func.script()
    b = np.full((2, 3), np.nan, "f4")
    run(func, b)
    np.testing.assert_array_equal(b, 2 * table)


def test_a_view_of_memory_that_nobody_has_is_an_error():
    B, other = tir.decl_buffer(3, name="B"), tir.decl_buffer(3, name="other")
    body = tir.DeclBuffer(other, store(other, 0.0, 0))
    with pytest.raises(CodegenError, match="declare the buffer other: nothing allocates"):
        run(tir.PrimFunc((B,), body), np.zeros(3, "f4"))


def test_an_attribute_changes_nothing():
    B = tir.decl_buffer(3, name="B")
    i = tir.Var("i")
    body = tir.AttrStmt(i, "pragma_mine", const(1), loop(i, 3, store(B, 2.0, i)))
    func = tir.PrimFunc((B,), body)
    assert "attr(i, 'pragma_mine', 1)" in func.script()
    b = np.full(3, np.nan, "f4")
    run(func, b)
    assert (b == 2).all()


def test_shuffle_picks_lanes_of_several_vectors():
    A, B = tir.decl_buffer(8, name="A"), tir.decl_buffer(4, name="B")
    low, high = A.vload([0], "float32x4"), A.vload([4], "float32x4")
    mixed = tir.Shuffle((low, high), (6, 0, 3, 5), "float32x4")
    one = tir.Shuffle((low,), (2,), "float32")
    func = tir.PrimFunc((A, B), tir.SeqStmt((B.vstore([0], mixed), store(B, one, 1))))
    assert "shuffle([" in func.script()
    a, b = np.random.rand(8).astype("f4"), np.full(4, np.nan, "f4")
    run(func, a, b)
    np.testing.assert_array_equal(b, [a[6], a[2], a[3], a[5]])


def test_a_thread_bound_loop_is_a_loop():
    A, B = tir.decl_buffer(35, name="A"), tir.decl_buffer(35, name="B")
    bx, tx = tir.Var("bx"), tir.Var("tx")
    inner = loop(
        tx, 5, store(B, load(A, bx * 5 + tx) + 1.0, bx * 5 + tx), "thread_binding", "threadIdx.x"
    )
    func = tir.PrimFunc((A, B), loop(bx, 7, inner, "thread_binding", "blockIdx.x"))
    assert 'for bx in thread_binding(7, "blockIdx.x"):' in func.script()
    a, b = np.random.rand(35).astype("f4"), np.full(35, np.nan, "f4")
    run(func, a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_virtual_threads_that_form_the_same_sum_form_it_as_often_as_the_loop_says():
    A, B = tir.decl_buffer(7, name="A"), tir.decl_buffer(2, name="B")
    v, k = tir.Var("v"), tir.Var("k")
    total = loop(k, 7, store(B, load(B, 0) + load(A, k), 0))
    often = store(B, load(B, 1) + 1.0, 1)
    body = tir.SeqStmt((store(B, 0.0, 0), total, often))
    a, b = np.arange(7, dtype="f4"), np.array([np.nan, 0], "f4")
    run(tir.PrimFunc((A, B), loop(v, 3, body, "thread_binding", "vthread")), a, b)
    np.testing.assert_array_equal(b, [21, 3])  # begun anew by each, and counted by each


def test_a_copy_defines_everything_itself():
    A, W = tir.decl_buffer(6, name="A"), tir.decl_buffer(6, name="W")
    V = tir.decl_buffer(6, name="V", data=W.data)
    i, x = tir.Var("i"), tir.Var("x", "float32")
    body = loop(
        i,
        6,
        tir.Allocate(W, tir.DeclBuffer(V, tir.LetStmt(x, load(A, i), store(A, load(V, i) + x, i)))),
    )
    copy = tir.renewed(body)
    assert tir.PrimFunc((A,), copy).script() == tir.PrimFunc((A,), body).script()
    old, new = set(), set()
    for tree, found in ((body, old), (copy, new)):
        tir.post_order_visit(
            tree,
            lambda n, found=found: found.update(
                id(p)
                for p in (getattr(n, "var", None), getattr(n, "buffer", None))
                if p is not None
            ),
        )
    assert old & new == {id(A)}


def test_buffers_are_replaced_where_they_are_used_and_made():
    A, W, X, Y = (tir.decl_buffer(6, name=n) for n in "AWXY")
    i = tir.Var("i")
    whole = tir.BufferView(A, (const(6),), (), const(0))
    call = tir.Evaluate(tir.Call(I32, "call_packed", (tir.StringImm("f"), whole)))
    body = tir.Allocate(W, tir.SeqStmt((loop(i, 6, store(W, load(A, i), i)), call)))
    text = tir.PrimFunc((X,), tir.replace_buffers(body, {A: X, W: Y})).script()
    assert "Y[i] = X[i]" in text and "view(X, (6,))" in text and "Y = allocate" in text
    assert tir.replace_buffers(body, {tir.decl_buffer(1): X}) is body
