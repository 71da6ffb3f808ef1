"""Tensors of int4 and uint4: two elements a byte, numbers against numpy, no byte of two threads."""

from __future__ import annotations

import emulated
import numpy as np
import pytest
from pass_checks import around

import whet
from whet import te, tir, topi

CPU = "llvm -num_threads=2"
RNG = np.random.default_rng()
RANGE = {"int4": (-8, 8), "uint4": (0, 16)}


def wrapped(x, dtype):
    """Integers as four bits hold them."""
    return (np.asarray(x) + 8) % 16 - 8 if dtype == "int4" else np.asarray(x) % 16


def drawn(shape, dtype):
    return RNG.integers(*RANGE[dtype], shape)


def ran(s, args, arrays, target=CPU):
    """The last argument's elements after a call; every other one is packed if it is of int4."""
    out = args[-1]
    shape = tuple(map(int, out.shape))
    made = whet.nd.empty(shape, out.dtype)
    made[:] = 0xA5 if made.dtype == "uint8" else 77
    f = whet.build(s, args, target)
    f(*[whet.nd.pack(a, t.dtype) if t.dtype in RANGE else a for a, t in zip(arrays, args)], made)
    if out.dtype not in RANGE:
        return made.numpy()
    if np.prod(shape) % 2:  # the half byte behind the last element is no element
        assert made.numpy().reshape(-1)[-1] >> 4 == 0xA
    return whet.nd.unpack(made, shape, out.dtype).astype("int64")


def sums(shape, dtype):
    A, B = (te.placeholder(shape, dtype, name=n) for n in "AB")
    C = te.compute(shape, lambda i, j: A[i, j] * B[i, j] - A[shape[0] - 1 - i, j], name="C")
    a, b = drawn(shape, dtype), drawn(shape, dtype)
    return A, B, C, [a, b], wrapped(a * b - a[::-1], dtype)


def plain(s, C):
    pass


def vectors(s, C):
    s[C].vectorize(C.op.axis[1])


def short_vectors(s, C):
    s[C].vectorize(s[C].split(C.op.axis[1], 4)[1])


def odd_vectors(s, C):
    s[C].vectorize(s[C].split(C.op.axis[1], 3)[1])


def rows_as_vectors(s, C):
    s[C].reorder(C.op.axis[1], C.op.axis[0])
    s[C].vectorize(C.op.axis[0])


def threads(s, C):
    outer, inner = s[C].split(s[C].fuse(*C.op.axis), 6)
    s[C].parallel(outer)
    s[C].unroll(inner)


def threads_and_vectors(s, C):
    outer, inner = s[C].split(s[C].fuse(*C.op.axis), 8)
    s[C].parallel(outer)
    s[C].vectorize(inner)


def copies(s, C):
    for t in C.op.input_tensors:
        s[s.cache_read(t, "local", [C])].compute_at(s[C], C.op.axis[0])
    s[s.cache_write(C, "local")].compute_at(s[C], s[C].split(C.op.axis[1], 3)[0])


@pytest.mark.parametrize("shape", [(7, 5), (6, 8), (1, 1)])
@pytest.mark.parametrize("dtype", RANGE)
@pytest.mark.parametrize(
    "schedule",
    [plain, vectors, short_vectors, odd_vectors, rows_as_vectors, threads, threads_and_vectors]
    + [copies],
    ids=lambda f: f.__name__,
)
def test_schedules(schedule, dtype, shape):
    A, B, C, arrays, wanted = sums(shape, dtype)
    s = te.create_schedule(C.op)
    schedule(s, C)
    np.testing.assert_array_equal(ran(s, [A, B, C], arrays), wanted)


@pytest.mark.parametrize("target", ["c", CPU + " -opt_level=0", "llvm -mcpu=x86-64-v2"])
def test_generators(target):
    A, B, C, arrays, wanted = sums((7, 6), "int4")
    s = te.create_schedule(C.op)
    short_vectors(s, C)
    np.testing.assert_array_equal(ran(s, [A, B, C], arrays, target), wanted)


def test_whole_bytes_are_stored_as_vectors():
    A = te.placeholder((3, 16), "int8", name="A")
    B = te.compute((3, 16), lambda i, j: A[i, j].astype("int4"), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[1])
    text = str(whet.lower(s, [A, B]))
    assert "B[ramp(i * 8, 1, 8)] = " in text and "B[ramp(i * 8, 1, 8)] &" not in text
    assert "uint8[24]" in text
    a = RNG.integers(-128, 128, (3, 16)).astype("int8")
    np.testing.assert_array_equal(ran(s, [A, B], [a]), wrapped(a.astype("int64"), "int4"))


def test_golden(golden):
    def program():
        A = te.placeholder((4, 6), "int4", name="A")
        B = te.compute((4, 6), lambda i, j: A[i, j] + A[3 - i, j], name="B")
        C = te.compute((4, 3), lambda i, j: B[i, j * 2 + 1] * A[i, j], name="C")
        s = te.create_schedule([B.op, C.op])
        s[B].vectorize(B.op.axis[1])
        return s, [A, B, C]

    golden("pass_PackNibbles", around("PackNibbles", program))


OPERATIONS = {
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "floordiv": (
        lambda a, b: te.floordiv(a, te.max(b, te.const(1, b.dtype))),
        lambda a, b: a // np.maximum(b, 1),
    ),
    "floormod": (
        lambda a, b: te.floormod(a, te.max(b, te.const(1, b.dtype))),
        lambda a, b: a % np.maximum(b, 1),
    ),
    "truncdiv by -1": (
        lambda a, b: te.truncdiv(a, te.min(b, tir.const(-1, "int4"))) if a.dtype == "int4" else a,
        lambda a, b: np.trunc(a / np.minimum(b, -1)).astype(int) if a.min() < 0 else a,
    ),
    "shift": (lambda a, b: a << 1 >> 2, None),
    "bits": (lambda a, b: (a & b) | ~(a ^ b), lambda a, b: (a & b) | ~(a ^ b)),
    "less": (lambda a, b: tir.Select(a < b, a, b), np.minimum),
    "either": (
        lambda a, b: te.if_then_else(a > 3, a + b, b),
        lambda a, b: np.where(a > 3, a + b, b),
    ),
    "negative": (lambda a, b: -a, lambda a, b: -a),
    "let": (lambda a, b: tir.Let(x := tir.Var("x", a.dtype), a + b, x * x), None),
    "abs": (lambda a, b: te.abs(a), lambda a, b: np.abs(a)),
}


@pytest.mark.parametrize("dtype", RANGE)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_wrap_at_four_bits(name, dtype):
    make, numbers = OPERATIONS[name]
    numbers = (
        numbers
        or {
            "shift": lambda a, b: wrapped(a << 1, dtype) >> 2,
            "let": lambda a, b: wrapped(a + b, dtype) ** 2,
        }[name]
    )
    A, B = (te.placeholder((16, 16), dtype, name=n) for n in "AB")
    C = te.compute((16, 16), lambda i, j: make(A[i, j], B[i, j]), name="C")
    a, b = np.meshgrid(np.arange(*RANGE[dtype]), np.arange(*RANGE[dtype]))
    s = te.create_schedule(C.op)
    np.testing.assert_array_equal(ran(s, [A, B, C], [a, b]), wrapped(numbers(a, b), dtype))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64", "float32", "float16", "bool"])
@pytest.mark.parametrize("dtype", RANGE)
def test_casts(dtype, kind):
    A = te.placeholder((9,), dtype, name="A")
    B = te.compute((9,), lambda i: A[i].astype(kind), name="B")
    a = drawn(9, dtype)
    got = ran(te.create_schedule(B.op), [A, B], [a])
    np.testing.assert_array_equal(got, a.astype("int64").astype(kind))
    X = te.placeholder((9,), kind, name="X")
    Y = te.compute((9,), lambda i: X[i].astype(dtype), name="Y")
    x = a.astype(kind)
    if kind in ("int32", "int64"):
        x = RNG.integers(-1000, 1000, 9).astype(kind)
    got = ran(te.create_schedule(Y.op), [X, Y], [x])
    np.testing.assert_array_equal(got, wrapped(x.astype("int64"), dtype))


@pytest.mark.parametrize("n, k, m", [(3, 5, 7), (4, 6, 8)])
@pytest.mark.parametrize("dtype", ["int32", "int4"])
def test_products(dtype, n, k, m):
    """uint4 times int4, summed in int32 and in four bits."""
    A, B = te.placeholder((n, k), "uint4", name="A"), te.placeholder((k, m), "int4", name="B")
    a, b = drawn((n, k), "uint4"), drawn((k, m), "int4")
    X, Y = (topi.cast(t, dtype) for t in (A, B))
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(X[i, r] * Y[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    s[X].compute_inline()
    s[Y].compute_inline()
    W = s.cache_write(C, "local")
    s[W].compute_at(s[C], C.op.axis[0])
    s[W].reorder(s[W].op.reduce_axis[0], s[W].op.axis[1])
    s[W].vectorize(s[W].op.axis[1])
    wanted = a @ b if dtype == "int32" else wrapped(a @ b, dtype)
    np.testing.assert_array_equal(ran(s, [A, B, C], [a, b]), wanted)


@pytest.mark.parametrize("dtype", ["int4x8", "uint4x3", "int4x2"])
def test_vectors_of_them(dtype):
    element, _, lanes = dtype.partition("x")
    A = te.placeholder((5,), dtype, name="A")
    B = te.compute((5,), lambda i: A[i] * 3 + A[4 - i], name="B")
    s = te.create_schedule(B.op)
    a = drawn((5, int(lanes)), element)
    x, y = whet.nd.pack(a, element), whet.nd.empty((5,), dtype)
    assert y.shape == ((5, int(lanes) // 2) if int(lanes) % 2 == 0 else (8,))
    whet.build(s, [A, B], CPU)(x, y)
    got = whet.nd.unpack(y, a.shape, element).astype("int64")
    np.testing.assert_array_equal(got, wrapped(a * 3 + a[::-1], element))


def test_sizes_that_are_symbols():
    n = te.size_var("n")
    A = te.placeholder((n, 6), "int4", name="A")
    B = te.placeholder((n,), "int8", name="B")
    C = te.compute((n, 6), lambda i, j: A[i, j] + B[i].astype("int4"), name="C")
    s = te.create_schedule(C.op)
    s[C].parallel(C.op.axis[0])
    f = whet.build(s, [A, B, C], CPU)
    for size in (1, 5):
        a, b = drawn((size, 6), "int4"), RNG.integers(-99, 99, size).astype("int8")
        out = whet.nd.empty((size, 6), "int4")
        f(whet.nd.pack(a, "int4"), b, out)
        got = whet.nd.unpack(out, (size, 6)).astype("int64")
        np.testing.assert_array_equal(got, wrapped(a + b[:, None], "int4"))
    odd = te.compute((n, 3), lambda i, j: A[i, j] + A[i, j + 3], name="odd")
    f = whet.build(te.create_schedule(odd.op), [A, odd], CPU)
    out = whet.nd.empty((5, 3), "int4")
    f(whet.nd.pack(a, "int4"), out)
    got = whet.nd.unpack(out, (5, 3)).astype("int64")
    np.testing.assert_array_equal(got, wrapped(a[:, :3] + a[:, 3:], "int4"))
    with pytest.raises(whet.ArgumentError, match=r"odd.shape\[0\] is 7, expected 8"):
        f(whet.nd.pack(a, "int4"), np.zeros(7, "uint8"))


@pytest.mark.parametrize("dtype", RANGE)
def test_on_a_gpu(dtype):
    """A thread stores whole bytes, and the emulator finds no race."""
    A, B, C, arrays, wanted = sums((7, 5), dtype)
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), 2)
    block, thread = s[C].split(outer, 4)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    copy = s.cache_read(A, "shared", [C])
    s[copy].compute_at(s[C], block)
    s[copy].bind(s[copy].split(s[copy].fuse(*copy.op.axis), 4)[1], te.thread_axis("threadIdx.x"))
    packed = [whet.nd.pack(a, dtype) for a in arrays]
    out = whet.nd.pack(wanted, dtype)
    out[-1] |= 77 & 0xF0
    emulated.agree(s, [A, B, C], packed, [(out.shape, "uint8")], [out], rtol=0, atol=0)


def test_threads_that_would_share_a_byte_are_refused():
    A, B, C, _, _ = sums((7, 5), "int4")

    def refused(schedule, target=CPU):
        s = te.create_schedule(C.op)
        schedule(s)
        with pytest.raises(whet.LowerError, match=r"(?s)stored by the threads of.*even factor"):
            whet.build(s, [A, B, C], target)

    refused(lambda s: s[C].parallel(C.op.axis[0]))
    refused(lambda s: s[C].parallel(C.op.axis[1]))
    refused(lambda s: s[C].parallel(s[C].fuse(*C.op.axis)))
    refused(lambda s: s[C].parallel(s[C].split(s[C].fuse(*C.op.axis), 3)[0]))
    fused = {"blockIdx.x": 0, "threadIdx.x": 1}

    def bound(s):
        axes = s[C].split(s[C].fuse(*C.op.axis), 4)
        for name, k in fused.items():
            s[C].bind(axes[k], te.thread_axis(name))

    refused(bound, "cuda -arch=sm_80")
    s = te.create_schedule(C.op)
    s[C].parallel(s[C].split(s[C].fuse(*C.op.axis), 2)[0])
    whet.build(s, [A, B, C], CPU)


def test_two_stores_of_a_thread_to_different_halves():
    def made(first, second):
        ib = tir.ir_builder.create()
        A = tir.decl_buffer((16,), "int4", "A")
        a = ib.buffer_ptr(A)
        with ib.for_range(0, 6, "i", kind="parallel") as i:
            a[i * 2 + first] = tir.const(1, "int4")
            a[i * 2 + second] = tir.const(2, "int4")
        return tir.PrimFunc([A], ib.get())

    def both_halves(first):
        ib = tir.ir_builder.create()
        A = tir.decl_buffer((16,), "int4", "A")
        a = ib.buffer_ptr(A)
        threads, halves = ib.for_range(0, 6, "i", kind="parallel"), ib.for_range(first, first + 2)
        with threads as i, halves as j:
            a[i * 2 + j] = tir.const(1, "int4")
        return tir.PrimFunc([A], ib.get())

    for wrong in (made(0, 3), both_halves(1)):
        with pytest.raises(whet.LowerError, match="two threads may store to one"):
            whet.lower(wrong)
    whet.lower(both_halves(2))
    out = np.full(8, 0xCC, "uint8")
    whet.build(made(0, 2), target="c")(out)
    assert set(out & 15) == {1, 2, 12} and set(out >> 4) == {12}


def test_what_four_bits_do_not_do():
    A = te.placeholder((6,), "int4", name="A")
    for make, why in (
        (lambda i: tir.popcount(A[i]), "popcount of int4.*not known for elements of four bits"),
        (lambda i: tir.call_pure_extern("int8", "f", A[i]), "call_pure_extern.* of int4"),
    ):
        B = te.compute((6,), make, name="B")
        with pytest.raises(whet.LowerError, match=f"(?s){why}.*astype"):
            whet.lower(te.create_schedule(B.op), [A, B])
    B = te.extern((6,), [A], lambda i, o: tir.call_packed("f", i[0], o[0]), dtype="int8", name="B")
    with pytest.raises(whet.LowerError, match=r"(?s)is handed A: int4.*half a byte"):
        whet.lower(te.create_schedule(B.op), [A, B])
    x = te.var("x", "int4")
    B = te.compute((6,), lambda i: A[i] + x, name="B")
    with pytest.raises(whet.LowerError, match=r"x: int4.*passed by value"):
        whet.lower(te.create_schedule(B.op), [A, x, B])
    C = te.compute((6,), lambda i: A[i] + A[i], name="C")
    strided = tir.decl_buffer((6,), "int4", "A", strides=[2])
    with pytest.raises(whet.LowerError, match="has no strides"):
        whet.lower(te.create_schedule(C.op), [A, C], binds={A: strided})
    for name in ("int1", "int2", "uint2", "int2x8"):
        with pytest.raises(whet.ArgumentError, match=r"(?s)smaller than half a byte.*int4"):
            te.placeholder((6,), name)
        with pytest.raises(whet.WhetError, match="smaller than half a byte"):
            whet.nd.empty((6,), name)
    with pytest.raises(whet.ArgumentError, match="8"):
        te.const(8, "int4")


def test_arrays():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = drawn((3, 4), "int4").astype("int8").astype(ml_dtypes.int4)
    packed = whet.nd.array(a)
    assert packed.shape == (3, 2) and packed.dtype == "uint8"
    np.testing.assert_array_equal(packed.numpy(), whet.nd.pack(a))
    back = whet.nd.unpack(packed, (3, 4))
    assert back.dtype == ml_dtypes.int4
    np.testing.assert_array_equal(back, a)
    on_gpu = whet.nd.array(a, whet.device("cuda-emulator"))
    np.testing.assert_array_equal(whet.nd.unpack(on_gpu, (3, 4)), a)
    assert whet.nd.empty((3, 5), "uint4").shape == (8,)
    A = te.placeholder((3, 4), "int4", name="A")
    B = te.compute((3, 4), lambda i, j: A[i, j].astype("int8"), name="B")
    f = whet.build(te.create_schedule(B.op), [A, B], CPU)
    out = np.zeros((3, 4), "int8")
    with pytest.raises(whet.ArgumentError, match=r"A.dtype is int4.*whet.nd.array\(a\) packs two"):
        f(a, out)
    f(packed, out)
    np.testing.assert_array_equal(out, a.astype("int8"))
    with pytest.raises(whet.ArgumentError, match="int4 holds the integers from -8 to 7"):
        whet.nd.pack([8], "int4")
    with pytest.raises(whet.ArgumentError, match="uint4 holds the integers from 0 to 15"):
        whet.nd.pack(np.array([0.5]), "uint4")
    with pytest.raises(whet.ArgumentError, match="those of int4 and uint4"):
        whet.nd.pack([1, 2])
    with pytest.raises(whet.ArgumentError, match="7 elements of int4 are 4 bytes"):
        whet.nd.unpack(packed, (7,))
