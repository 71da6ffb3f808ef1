"""Schedules by way of C99: equal to numpy and to what LLVM makes of them, with no warning."""

import random

import numpy as np
import pytest
from c_kernels import build_c, lowered, text_of
from run_random import Program
from te_check import evaluate_size, poisoned, random_array, run_and_compare

from whet.compiler import driver, te
from whet.compiler.target import Target
from whet.compiler.tir import expr as e


def matmul(n, m, k, dtype="float32"):
    A = te.placeholder((n, k), dtype, name="A")
    B = te.placeholder((k, m), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return A, B, C


def conv_padded():
    X = te.placeholder((2, 3, 9, 11), name="X")
    W = te.placeholder((4, 3, 3, 3), name="W")

    def inside(n, c, y, x):
        ok = te.all(y >= 1, y < 10, x >= 1, x < 12)
        return te.if_then_else(ok, X[n, c, y - 1, x - 1], 0.0)

    P = te.compute((2, 3, 11, 13), inside, name="P")
    c, dy, dx = (te.reduce_axis((0, 3), name=x) for x in ("c", "dy", "dx"))
    Y = te.compute(
        (2, 4, 9, 11),
        lambda n, o, y, x: te.sum(P[n, c, y + dy, x + dx] * W[o, c, dy, dx], axis=[c, dy, dx]),
        name="Y",
    )
    return X, W, P, Y


def plain():
    A, B, C = matmul(7, 9, 5)
    return te.create_schedule(C.op), [A, B, C]


def tiled():
    A, B, C = matmul(37, 41, 53)
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    io, jo, _, ji = s[C].tile(*s[C].op.axis, 8, 16)
    s[C].vectorize(ji)
    s[C].parallel(io)
    s[local].compute_at(s[C], jo)
    ti, tj = s[local].op.axis
    (tk,) = s[local].op.reduce_axis
    ko, ki = s[local].split(tk, 4)
    s[local].reorder(ko, ki, ti, tj)
    s[local].vectorize(tj)
    s[local].unroll(ti)
    return s, [A, B, C]


def packed():
    A, B, C = matmul(19, 23, 17)
    s = te.create_schedule(C.op)
    read = s.cache_read(B, "local", [C])
    io, _ = s[C].split(s[C].op.axis[0], nparts=3)
    s[read].compute_at(s[C], io)
    s[read].vectorize(s[read].op.axis[1])
    return s, [A, B, C]


def convolution():
    X, W, P, Y = conv_padded()
    s = te.create_schedule(Y.op)
    n, o, y, x = s[Y].op.axis
    yo, yi = s[Y].split(y, 4)
    s[Y].reorder(n, yo, o, yi, x)
    s[P].compute_at(s[Y], yo)
    s[Y].vectorize(x)
    return s, [X, W, Y]


def inlined_padding():
    X, W, P, Y = conv_padded()
    s = te.create_schedule(Y.op)
    s[P].compute_inline()
    f = s[Y].fuse(*s[Y].op.axis[:3])
    s[Y].parallel(f)
    s[Y].unroll(s[Y].op.reduce_axis[1])
    return s, [X, W, Y]


def threads():
    A = te.placeholder((50,), name="A")
    B = te.compute((50,), lambda i: A[49 - i] * 2.0, name="B")
    C = te.compute((50,), lambda i: B[i] + A[i], name="C")
    s = te.create_schedule(C.op)
    o, i = s[C].split(C.op.axis[0], 16)
    s[C].bind(o, te.thread_axis("blockIdx.x"))
    s[C].bind(i, te.thread_axis("threadIdx.x"))
    s[B].set_scope("shared")
    s[B].compute_at(s[C], o)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [A, C]


def masks():
    A = te.placeholder((13, 21), "int32", name="A")
    B = te.compute(
        (13, 21),
        lambda i, j: te.if_then_else(te.any(j < i, j > 18), A[i, j] // 3, A[i, 20 - j] % 5),
        name="B",
    )
    s = te.create_schedule(B.op)
    _, j = s[B].split(B.op.axis[1], 8)
    s[B].vectorize(j)
    return s, [A, B]


def gathered():
    T = te.placeholder((40,), name="T")
    I = te.placeholder((33,), "int32", name="I")
    B = te.compute((33,), lambda i: T[te.max(te.min(I[i] * 3 + 4, 39), 0)], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    return s, [T, I, B]


def shifted_in_place():
    """A whole stage in one vector, which reads what an earlier one left."""
    A = te.placeholder((29,), "int64", name="A")
    B = te.compute((29,), lambda i: A[i] * 3 - i, name="B")
    C = te.compute((28,), lambda i: B[i + 1] - B[i], name="C")
    s = te.create_schedule(C.op)
    o, i = s[C].split(C.op.axis[0], 7)
    s[B].compute_at(s[C], o)
    s[B].vectorize(B.op.axis[0])
    s[C].vectorize(i)
    return s, [A, C]


PROGRAMS = [
    plain, tiled, packed, convolution, inlined_padding, threads, masks, gathered, shifted_in_place,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_schedule_gives_numpys_numbers(program):
    s, args = program()
    run_and_compare(build_c(s, args), args, rtol=1e-4)


@pytest.mark.parametrize("target", ("c", "c -vector-bytes=16"))
@pytest.mark.parametrize("program", [tiled, masks], ids=lambda p: p.__name__)
def test_c_and_llvm_give_the_same_numbers(program, target):
    s, args = program()
    arrays = [random_array(np.random.default_rng(3), _shape(a), a.dtype) for a in args[:-1]]
    outs = []
    for f in (
        build_c(s, args, target=target),
        driver.build(s, args, target="llvm"),
    ):
        outs.append(poisoned(_shape(args[-1]), args[-1].dtype))
        f(*arrays, outs[-1])
    np.testing.assert_allclose(*outs, rtol=1e-5, atol=1e-5)


def _shape(t):
    return tuple(int(evaluate_size(d, {})) for d in t.shape)


@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (5, 8), (17, 31)], ids=str)
def test_symbolic_shapes(sizes):
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
    R = te.compute((n,), lambda i: te.sum(B[i, k], axis=k), name="R")
    s = te.create_schedule(R.op)
    io, _ = s[R].split(R.op.axis[0], 4)
    s[R].parallel(io)
    _, ji = s[B].split(B.op.axis[1], 8)
    s[B].vectorize(ji)
    run_and_compare(build_c(s, [A, R]), [A, R], {n: sizes[0], m: sizes[1]}, rtol=1e-4)


def test_random_programs(seeds, is_known):
    for seed in seeds(10):
        program = Program(random.Random(seed).randint, seed, seed % 3 == 0, extremes=seed % 2 == 0)
        try:
            ready = program.compiled()
            if ready is not None:  # some random attachments are not legal
                mod = lowered(program.made.s, program.made.args)
                assert mod["kernel"].attrs["lowered"]
                program.run(build_c(mod), ready[1])
        except Exception as error:
            if not is_known(str(program), error):
                error.add_note(str(program))
                raise


def test_a_size_and_a_scalar_as_arguments():
    n, a = te.var("n"), te.var("a", "float32")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * a + n, name="B")
    f = build_c(te.create_schedule(B.op), [n, a, A, B])
    x, y = np.random.rand(11).astype("f4"), np.full(11, np.nan, "f4")
    f(11, 2.5, x, y)
    np.testing.assert_allclose(y, x * np.float32(2.5) + 11, rtol=1e-6)


def test_a_reduction_of_pairs():
    A = te.placeholder((6, 37), name="A")
    k = te.reduce_axis((0, 37), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.select(x[1] >= y[1], x[1], y[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="argmax",
    )
    I, V = te.compute((6,), lambda i: argmax((k.var, A[i, k]), axis=k), name="T")
    f = build_c(te.create_schedule(I.op), [A, I, V])
    a = np.random.rand(6, 37).astype("f4")
    where, best = np.full(6, -7, "i4"), np.full(6, np.nan, "f4")
    f(a, where, best)
    np.testing.assert_array_equal(where, a.argmax(1))
    np.testing.assert_array_equal(best, a.max(1))


def test_a_sum_that_is_shared_over_and_over_stays_short():
    A = te.placeholder((5,), "int64", name="A")

    def twice(x, times):
        for _ in range(times):
            x = x * 3 - x // 2
        return x

    B = te.compute((5,), lambda i: twice(A[i] + i, 6), name="B")
    s = te.create_schedule(B.op)
    assert text_of(s, [A, B]).count("A[i]") < 20  # unrolled, it would be there 64 times
    f = build_c(s, [A, B])
    a, b = np.arange(5, dtype="i8") * 3, np.full(5, -1, "i8")
    f(a, b)
    np.testing.assert_array_equal(b, twice(a + np.arange(5), 6))


def test_text_of_a_small_kernel(golden):
    A = te.placeholder((10, 21), name="A")
    k = te.reduce_axis((0, 21), name="k")
    B = te.compute((10,), lambda i: te.sum(te.exp(A[i, k]), axis=k), name="B")
    s = te.create_schedule(B.op)
    golden("c_row_sums", text_of(s, [A, B], "row_sums", "c -vector-bytes=32"))


def test_two_functions_in_one_text():
    mods = [lowered(*plain(), name=f"f{k}")[f"f{k}"] for k in range(2)]
    f = driver.build(list(mods), target="c")
    a, b = np.random.rand(7, 5).astype("f4"), np.random.rand(5, 9).astype("f4")
    for name in ("f0", "f1"):
        c = np.full((7, 9), np.nan, "f4")
        f[name](a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_build_for_the_target_c():
    s, args = tiled()
    f = driver.build(s, args, target="c", name="mm")
    run_and_compare(f, args, rtol=1e-4)
    assert "int32_t mm__raw(const float *restrict A" in f.artifact.source
    assert Target(f.artifact.target).kind == "c"
    a = [random_array(np.random.default_rng(0), _shape(t), t.dtype) for t in args]
    assert f.time_evaluator(f.entry_name, _cpu(), number=2)(*a).mean > 0


def _cpu():
    from whet.compiler.runtime import cpu

    return cpu(0)


def test_main_is_a_kernels_name_like_others():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    assert isinstance(B, te.Tensor) and not isinstance(B, e.Var)
    f = build_c(te.create_schedule(B.op), [A, B], name="main")
    a, b = np.zeros(4, "f4"), np.full(4, np.nan, "f4")
    f(a, b)
    np.testing.assert_array_equal(b, np.ones(4))
