"""Vectors in CUDA C: what moves whole, what goes lane by lane, and the numbers of both."""

import random

import ml_dtypes
import numpy as np
import pytest
from on_emulator import Programs

import whet
from whet.compiler import te, tir
from whet.compiler.arith import Analyzer
from whet.compiler.codegen.cuda import source
from whet.compiler.codegen.cuda.lanes import uniform
from whet.compiler.codegen.cuda.nvrtc import available, compile_cubin
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def axis(tag):
    return te.thread_axis(tag)


def spread(n, lanes, f, dtype="float32", m=None, threads=4):
    """``B[i] = f(A, i)``, ``lanes`` elements a thread."""
    A = te.placeholder((m or n,), dtype, name="A")
    B = te.compute((n,), lambda i: f(A, i), name="B")
    s = te.create_schedule(B.op)
    o, v = s[B].split(B.op.axis[0], lanes)
    o, i = s[B].split(o, threads)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    s[B].vectorize(v)
    return s, [A, B]


def text_of(s, args):
    with whet.Target("llvm -mcpu=x86-64-v4"):  # whose vectors are CUDA's to take apart
        return source(whet.lower(s, args, name="f"))


# types

PAIRS = [
    ("float16", "float32"),
    ("float32", "float16"),
    ("bfloat16", "float32"),
    ("float32", "bfloat16"),
    ("float64", "float16"),
    ("float64", "bfloat16"),
    ("int8", "float32"),
    ("uint8", "int32"),
    ("int16", "int64"),
    ("float32", "int8"),
    ("bool", "float16"),
    ("int64", "uint16"),
]


def numpy_type(dtype):
    return BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)


def lanes_of(pair):
    """Two of the lengths that there are, so that each length meets half of the pairs."""
    return ((2, 8), (4, 16), (2, 16), (4, 8))[PAIRS.index(pair) % 4]


def edges(low, high, lanes=4):
    """A shift by ``low`` within an interval, -1 outside of it."""

    def f(A, i):
        outside = te.const(-1.0, "float32")
        return te.if_then_else(te.all(i >= low, i < high), A[i - low], outside)

    return spread(64, lanes, f)


def short_floats(dtype):
    """Four operations of 16-bit floats."""

    def f(A, i):
        return (A[i] + A[95 - i]) - te.const(0.5, dtype) / (A[i] + te.const(9.0, dtype))

    return spread(96, 8, f, dtype)


def in_registers():
    """A stage between two, in registers."""
    A = te.placeholder((64,), name="A")
    L = te.compute((64,), lambda i: A[i] + 1.0, name="L")
    B = te.compute((64,), lambda i: L[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[L].set_scope("local")
    t, v = s[B].split(B.op.axis[0], 4)
    s[B].bind(t, axis("threadIdx.x"))
    s[B].vectorize(v)
    s[L].compute_at(s[B], t)
    s[L].vectorize(L.op.axis[0])
    return s, [A, B]


@pytest.fixture(scope="module")
def programs():
    """All of them in one module, which is compiled once."""
    named = {
        "even_edges": edges(4, 60),
        "odd_edges": edges(3, 61),
        "in_registers": in_registers(),
        **{f"short_{t}": short_floats(t) for t in ("float16", "bfloat16")},
        **{
            f"double_{t}": spread(8, 2, lambda A, i, t=t: A[i].astype(t), "float64")
            for t in ("float16", "bfloat16")
        },
    }
    for a, b in PAIRS:
        for lanes in lanes_of((a, b)):
            program = spread(7 * lanes * 3, lanes, lambda A, i, b=b: A[i].astype(b), a)
            named[f"{a}_{b}_{lanes}"] = program
    return Programs(named)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_conversions_of_vectors(a, b, programs):
    rng = np.random.default_rng(len(a) * 31 + len(b))
    for lanes in lanes_of((a, b)):
        n = 7 * lanes * 3
        x = (rng.standard_normal(n) * 50).astype(numpy_type(a))
        wanted = x.astype(numpy_type(b))
        got = programs(f"{a}_{b}_{lanes}", x, np.zeros(n, numpy_type(b)))
        np.testing.assert_array_equal(got, wanted)


def test_a_double_is_rounded_once(programs):
    """Just beside the middle of two short numbers: rounded to float first, they end in between."""
    tiny = 2.0**-40
    for dtype, digits in (("float16", 11), ("bfloat16", 8)):
        middle = 1 + 2.0**-digits
        x = np.array([middle + tiny, middle - tiny, -middle - tiny, middle, 1e30, -1e-30, 0, 3])
        with np.errstate(over="ignore"):
            wanted = x.astype(numpy_type(dtype)).astype("f8")
        wanted[:4] = [1 + 2.0 ** (1 - digits), 1, -1 - 2.0 ** (1 - digits), 1]
        got = programs(f"double_{dtype}", x, np.zeros(8, numpy_type(dtype)))
        np.testing.assert_array_equal(got.astype("f8"), wanted)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_arithmetic_of_16_bits_is_rounded_after_each_operation(dtype, programs):
    kind = numpy_type(dtype)
    x = np.random.default_rng(5).standard_normal(96).astype(kind)
    half, nine = kind.type(0.5), kind.type(9.0)
    wanted = (x + x[::-1]).astype(kind) - (half / (x + nine).astype(kind)).astype(kind)
    got = programs(f"short_{dtype}", x, np.zeros(96, kind))
    np.testing.assert_array_equal(got, wanted.astype(kind))


# what moves at once


def test_a_copy_is_one_load_and_one_store():
    for dtype, lanes, kind in (
        ("float32", 4, "float32x4"),
        ("float16", 8, "float16x8"),
        ("int8", 16, "int8x16"),
        ("float64", 2, "float64x2"),
        ("uint8", 4, "uint8x4"),
    ):
        lines = text_of(*spread(64, lanes, lambda A, i: A[i], dtype))
        assert f"whet_store<{kind}>(B, " in lines
        assert f", whet_load<{kind}>(A, " in lines


def test_a_wide_vector_goes_in_pieces():
    lines = text_of(*spread(128, 8, lambda A, i: A[i]))
    assert lines.count("whet_load<float32x4>(A, ") == lines.count("whet_store<float32x4>(B, ") == 2
    lines = text_of(*spread(128, 8, lambda A, i: A[i].astype("float32"), "float16"))
    assert lines.count("whet_load<float16x8>(A, ") == 1
    assert lines.count("whet_store<float32x4>(B, ") == 2
    assert "v[3] = float(A_v[3]);" in lines


def test_an_address_decides_how_much_moves_at_once():
    shifted = {by: text_of(*spread(64, 4, lambda A, i, by=by: A[i + by], m=80)) for by in (1, 2, 4)}
    assert "whet_load" not in shifted[1] and "whet_store<float32x4>(B, " in shifted[1]
    assert shifted[2].count("whet_load<float32x2>(A, ") == 2
    assert shifted[4].count("whet_load<float32x4>(A, ") == 1


def test_an_equal_load_is_read_once():
    lines = text_of(*spread(64, 4, lambda A, i: A[i] * A[i] + A[i]))
    assert lines.count("whet_load") == 1
    assert "v[2] = A_v[2] * A_v[2] + A_v[2];" in lines


def test_a_register_array_goes_lane_by_lane(programs):
    lines = text_of(*in_registers())
    assert "WHET_LOCAL(float, L, 4);" in lines
    assert "L[3] = A_v[3] + 1.0f;" in lines
    assert "v[1] = L[1] * 2.0f;" in lines
    x = np.arange(64, dtype="f4")
    np.testing.assert_array_equal(programs("in_registers", x, x), (x + 1) * 2)


# conditions


def test_one_question_for_all_lanes_of_an_edge(programs):
    """60 is a multiple of 4: a vector lies on one side of it."""
    lines = text_of(*edges(4, 60))
    assert "chosen = whet_load<float32x4>(A, " in lines
    assert "whet_store<float32x4>(B, bx * 16 + tx * 4, chosen);" in lines
    check_edges(programs, "even_edges", 4, 60)


def test_lanes_that_choose_differently(programs):
    assert "whet_load" not in text_of(*edges(3, 61))
    check_edges(programs, "odd_edges", 3, 61)


def check_edges(programs, name, low, high):
    x = np.random.default_rng(3).standard_normal(64).astype("f4")
    wanted = np.full(64, -1, "f4")
    wanted[low:high] = x[: high - low]
    np.testing.assert_array_equal(programs(name, x, wanted), wanted)


def _drawn(rng):
    """A shift under a condition: program, the same in numpy, elements of B and of A, type."""
    lanes, n = rng.choice((2, 4, 8)), rng.randrange(5, 120)
    low, high, by = rng.randrange(0, 12), rng.randrange(n // 2, n + 9), rng.randrange(0, 9)
    if rng.random() < 0.5:
        low, high, by, n = (x // lanes * lanes for x in (low, high, by, n + lanes))
    m, dtype = n + 24, rng.choice(("float32", "float16", "int8"))
    fill = te.const(7, dtype)
    guard = rng.choice((te.if_then_else, te.select))

    def f(A, i):
        inside = te.all(i >= low, i <= high - 1)
        return guard(inside, A[i + by] + A[i], fill) + A[i]

    def reference(a):
        i = np.arange(n)
        with np.errstate(over="ignore"):
            chosen = np.where((i >= low) & (i < high), a[i + by] + a[i], a.dtype.type(7))
            return chosen + a[i]

    return spread(n, lanes, f, dtype, m), reference, n, m, dtype


def test_random_conditions(seeds):
    programs = {seed: _drawn(random.Random(seed)) for seed in seeds(10)}
    module = Programs({f"f{seed}": p[0] for seed, p in programs.items()})
    for seed, (_, reference, n, m, dtype) in programs.items():
        a = (np.random.default_rng(seed).standard_normal(m) * 9).astype(dtype)
        got = module(f"f{seed}", a, np.zeros(n, dtype))
        np.testing.assert_array_equal(got, reference(a), f"seed {seed}")
    if available():
        compile_cubin(module.text(), "sm_80")


def test_conditions_of_all_lanes():
    x, y = tir.Var("x"), tir.Var("y")
    analyzer = Analyzer()

    def ramp(base):
        return e.Ramp(base, 1, 4, "int32x4")

    def spread_out(n):
        return e.Broadcast(ops.convert(n), 4, "int32x4")

    def asked(kind, a, b):
        return uniform(kind(a, b, "boolx4"), analyzer)

    assert str(asked(e.LT, ramp(x * 4), spread_out(52))) == "x * 4 < 52"
    assert str(asked(e.LE, ramp(x * 4), spread_out(51))) == "x * 4 < 52"
    assert str(asked(e.GE, ramp(x * 8 + 4), spread_out(y * 4))) == "x * 8 + 4 >= y * 4"
    assert str(asked(e.GT, ramp(x * 4), spread_out(-1))) == "x * 4 >= 0"
    for kind, a, b in (
        (e.LT, ramp(x * 4), spread_out(50)),
        (e.LE, ramp(x * 4), spread_out(52)),
        (e.LT, ramp(x), spread_out(52)),
        (e.EQ, ramp(x * 4), spread_out(52)),
        (e.LT, spread_out(52), ramp(x * 4)),
    ):
        assert asked(kind, a, b) is None


# stores that read what they write


@pytest.mark.parametrize("step", (8, 5))
def test_a_vector_that_reads_its_neighbours(step):
    """All lanes are read before one is written, however many instructions that takes."""
    A, B = tir.decl_buffer(64, name="A"), tir.decl_buffer(64, name="B")
    t, k = tir.Var("t"), tir.Var("k")
    whole = tir.BufferStore(B, tir.BufferLoad(A, (k,), "float32"), (k,))
    shifted = tir.BufferLoad(B, (tir.Ramp(ops.const(0), 1, 16),), "float32x16")
    moved = tir.BufferStore(B, shifted, (tir.Ramp(ops.const(step), 1, 16),))
    body = tir.SeqStmt((tir.For(k, 0, 64, tir.ForKind.SERIAL, whole), moved))
    body = tir.For(t, 0, 1, tir.ForKind.THREAD_BINDING, body, thread="threadIdx.x")
    module = whet.build(tir.PrimFunc((A, B), body), target="cuda", name="f")
    x = np.arange(64, dtype="f4")
    device = whet.device("cuda-emulator")
    out = whet.nd.array(np.full(64, np.nan, "f4"), device)
    module(whet.nd.array(x, device), out)
    wanted = x.copy()
    wanted[step : step + 16] = x[:16]
    np.testing.assert_array_equal(out.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
def test_what_a_mask_leaves_out_is_a_zero_of_its_type(dtype):
    """An int beside a watched element would make an int of it in the emulator."""
    A, B = tir.decl_buffer(13, dtype, name="A"), tir.decl_buffer(16, dtype, name="B")
    t, k = tir.Var("t"), tir.Var("k")
    L = tir.decl_buffer(13, dtype, name="L", scope="local")
    kept = tir.BufferStore(L, tir.BufferLoad(A, (k,), dtype), (k,))
    lanes = tir.Ramp(ops.const(0), 1, 16)
    mask = tir.LT(lanes, e.Broadcast(ops.const(13), 16, "int32x16"), "boolx16")
    store = tir.BufferStore(B, tir.BufferLoad(L, (lanes,), f"{dtype}x16", mask), (lanes,))
    body = tir.SeqStmt((tir.For(k, 0, 13, tir.ForKind.SERIAL, kept), store))
    body = tir.For(t, 0, 1, tir.ForKind.THREAD_BINDING, tir.Allocate(L, body), thread="threadIdx.x")
    module = whet.build(tir.PrimFunc((A, B), body), target="cuda", name="f")
    x = (np.arange(13) - 5.5).astype(dtype)
    x[0] = np.iinfo(dtype).max if dtype == "int64" else np.inf
    device = whet.device("cuda-emulator")
    out = whet.nd.array(np.full(16, 7, dtype), device)
    module(whet.nd.array(x, device), out)
    np.testing.assert_array_equal(out.numpy(), [*x, 0, 0, 0])
