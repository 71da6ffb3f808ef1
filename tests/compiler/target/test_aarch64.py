"""aarch64 under qemu-user: the driver itself, the C API, the thread pool, mathematics, programs.

Tests of numbers in other files try a sample of their kernels there; ``--aarch64``: all of them.
"""

import random

import aarch64
import numpy as np
import pytest
import te_check
import topi_check
from linked_programs import C_PACKED, C_PARALLEL, C_VADD, compiled, fills, parallel
from random_programs import Graph
from random_schedules import RandomSchedule
from te_check import evaluate_size, poisoned
from te_oracle import evaluate

import whet
from whet import te
from whet.compiler.errors import WhetError

pytestmark = pytest.mark.skipif(bool(aarch64.missing()), reason=aarch64.missing())

CC = aarch64.PREFIX + "gcc"


def add(n, dtype="float32", name="vadd"):
    A, B = (te.placeholder((n,), dtype, name=x) for x in "AB")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    return te.create_schedule(C.op), [A, B, C], name


# the driver


def test_a_kernel_is_called_with_arrays_that_begin_anywhere_and_with_steps():
    n = te.size_var("n")
    A = te.placeholder((n, n), name="A")
    x = te.var("x", "float64")
    B = te.compute((n, n), lambda i, j: A[j, i] * x.astype("float32") + i, name="B")
    strided = whet.tir.decl_buffer((n, n), strides=[te.var("s0"), te.var("s1")], name="A")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[1], factor=4)[1])
    f = aarch64.Kernel(whet.build(s, [A, x, B], aarch64.TARGET, binds={A: strided}))
    for n in (0, 1, 5, 33):
        a = np.random.default_rng(n).standard_normal((2 * n, 3 * n)).astype("float32")
        a = a[::-2, ::3]
        b = np.full((n, n), np.nan, "float32")
        f(a, -2.5, b)
        np.testing.assert_allclose(b, a.T * -2.5 + np.arange(n)[:, None], atol=1e-5)


def test_what_goes_wrong_is_an_error_here():
    s, args, name = add(5)
    f = aarch64.build(s, args, name=name)
    a = np.ones(5, "float32")
    with pytest.raises(AssertionError, match=r"argument 2: shape\[0\] is not what"):
        f(a, a, np.ones(4, "float32"))
    T, at = te.placeholder((9,), name="T"), te.placeholder((1,), "int32", name="at")
    C = te.compute((1,), lambda i: T[at[i]], name="C")
    far = aarch64.build(te.create_schedule(C.op), [T, at, C])
    t, c = np.ones(9, "float32"), np.zeros(1, "float32")
    far(t, np.array([8], "int32"), c)
    assert c[0] == 1
    with pytest.raises(AssertionError, match="ended with"):  # nothing is behind an array
        far(t, np.array([9], "int32"), c)


def test_a_sample_is_drawn_by_name(monkeypatch):
    monkeypatch.setattr(aarch64, "chosen", False)
    drawn = 0
    for k in range(40 * aarch64.SHARE):
        aarch64.choose(f"tests/compiler/test_x.py::test_{k}", False)
        drawn += aarch64.chosen
    assert 20 <= drawn <= 80
    aarch64.choose("tests/compiler/test_x.py::test_0", True)
    assert aarch64.chosen


def test_checks_of_numbers_ask_here(monkeypatch):
    """Outputs stay poisoned, and each of the checks that tests share sees it."""
    monkeypatch.setattr(aarch64, "chosen", True)
    monkeypatch.setattr(aarch64.Kernel, "__call__", lambda self, *args: None)
    s, args, _ = add(7)
    x = np.ones(7, "float32")
    for check in (
        lambda: te_check.check(s, args),
        lambda: te_check.run_and_compare(whet.build(s, args), args),
        lambda: topi_check.holds(lambda a: a + 1.0, x + 1, x, gpu=False),
        lambda: topi_check.holds(lambda a: a + 1.0, x + 1, x),
    ):
        with pytest.raises(AssertionError, match=r"(?i)not equal|mismatch"):
            check()


# C programs


@pytest.mark.parametrize("ending", ["so", "o"])
def test_a_c_program_calls_a_kernel(tmp_path, ending):
    s, args, name = add(te.size_var("n"))
    whet.build(s, args, aarch64.TARGET, name=name).export_library(tmp_path / f"k.{ending}", cc=CC)
    program = compiled(tmp_path, C_VADD, f"./k.{ending}", cc=CC)
    done = aarch64.run(program, folder=tmp_path)
    right, shape, count, null, about = done.stdout.decode().splitlines()
    assert right == "ok: 11 22 33 44 55"
    assert shape == "1 2 0: argument 2: shape[0] is not what the kernel wants"
    assert count == "the number of arguments is wrong" and null == "argument 1: null"
    assert '"mtriple": "aarch64-linux-gnu"' in about


def test_a_c_program_gives_packed_functions(tmp_path):
    fills(aarch64.TARGET).export_library(tmp_path / "k.so", cc=CC)
    done = aarch64.run(compiled(tmp_path, C_PACKED, "./k.so", cc=CC), folder=tmp_path)
    first, second = done.stdout.decode().splitlines()
    assert first == "a packed function failed, or whet_set_packed_caller was not called"
    assert second == "ok 5.5 5.5"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("ending", ["so", "o"])
def test_a_parallel_kernel_brings_its_threads(tmp_path, workers, ending):
    parallel(target=aarch64.TARGET).export_library(tmp_path / f"k.{ending}", cc=CC)
    program = compiled(tmp_path, C_PARALLEL, f"./k.{ending}", cc=CC)
    done = aarch64.run(program, folder=tmp_path, WHET_NUM_THREADS=str(workers))
    assert done.stdout.decode() == f"{workers} 0 0 0\n", done.stderr


@pytest.mark.parametrize("grain", [0, 3])
def test_a_parallel_loop_inside_a_parallel_loop_runs_where_it_is_met(grain):
    A = te.placeholder((37, 53), name="A")
    B = te.compute(A.shape, lambda i, j: te.exp(A[i, j]), name="B")
    C = te.compute(A.shape, lambda i, j: B[i, 52 - j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].parallel(B.op.axis[1])
    for axis in C.op.axis:
        s[C].parallel(axis)
    if grain:
        s[C].pragma(C.op.axis[0], "parallel_launch_point")
    f = aarch64.build(s, [A, C])
    a = np.random.default_rng(1).standard_normal((37, 53)).astype("float32")
    c = np.full_like(a, np.nan)
    f(a, c)
    np.testing.assert_allclose(c, np.exp(a.astype("float64"))[:, ::-1] + 1, rtol=1e-6)


# numbers

UNARY = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "atan": np.arctan, "log1p": np.log1p,
}  # fmt: skip


def applied(name, a):
    """A function of each element."""
    return te.compute(a.shape, lambda *i: getattr(te, name)(a(*i)), name=name)


def doubled(a, to):
    """Each element twice, in another type."""
    return te.compute(a.shape, lambda *i: a(*i).astype(to) * te.const(2, to), name=f"of_{a.dtype}")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_mathematical_functions(dtype):
    """All of them in one kernel, over vectors and a tail, infinities and NaN among the values."""
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.standard_normal(41) * 3, rng.uniform(100, 500, 9), [0.0, -0.0]])
    x = np.concatenate([x, [np.inf, -np.inf, np.nan]]).astype(dtype)
    A = te.placeholder(x.shape, dtype, name="A")
    names = [n for n in UNARY if dtype != "float16" or n not in ("atan", "log1p")]
    outs = [applied(n, A) for n in names]
    s = te.create_schedule([o.op for o in outs])
    for o in outs:
        s[o].vectorize(s[o].split(o.op.axis[0], factor=8)[1])
    made = [np.full(x.shape, 77, dtype) for _ in outs]
    aarch64.build(s, [A, *outs], name="functions")(x, *made)
    near = {"float16": 2e-3, "float32": 5e-7, "float64": 1e-14}[dtype]
    for name, got in zip(names, made):
        with np.errstate(all="ignore"):
            wanted = UNARY[name](x.astype("float64")).astype(dtype)
        np.testing.assert_allclose(got, wanted, rtol=near, atol=near, err_msg=name)


DTYPES = ("int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("to", DTYPES)
def test_conversions_and_sums(to):
    """Of every type to every other one, in vectors, and summed."""
    rng = np.random.default_rng(9)
    arrays = {d: rng.integers(0, 11, (7, 19)).astype(d) for d in DTYPES}
    tensors = {d: te.placeholder((7, 19), d, name=f"from_{d}") for d in DTYPES}
    k = te.reduce_axis((0, 19), name="k")
    whole = [doubled(a, to) for a in tensors.values()]
    total = te.compute((7,), lambda i: te.sum(tensors["int16"][i, k].astype(to), axis=k), name="t")
    s = te.create_schedule([x.op for x in (*whole, total)])
    for w in whole:
        s[w].vectorize(s[w].split(w.op.axis[1], factor=8)[1])
    made = [poisoned((7, 19), to) for _ in whole] + [poisoned((7,), to)]
    aarch64.build(s, [*tensors.values(), *whole, total])(*arrays.values(), *made)
    for (d, a), got in zip(arrays.items(), made):
        np.testing.assert_array_equal(got, a.astype(to) * 2, err_msg=f"{d} to {to}")
    np.testing.assert_array_equal(made[-1], arrays["int16"].astype(to).sum(1, dtype=to))


def test_random_programs(draws):
    """Programs and schedules like those of test_random_programs, of integers."""
    ran = 0
    for seed in range(draws(12)):
        rng = random.Random(seed)
        graph = Graph(rng.randint, symbolic=bool(seed % 2))
        made = RandomSchedule(graph, rng.randint)
        try:
            kernel = aarch64.build(made.s, made.args)
        except WhetError:
            continue  # a schedule that may be refused: test_random_programs looks why
        ran += 1
        try:
            run_program(kernel, graph, made.args, seed)
        except Exception as error:
            error.add_note(f"seed {seed}\n{te.graph_text(graph.outputs)}\n{made.s.trace}")
            raise
    assert ran >= draws(12) // 3


def run_program(kernel, graph, args, seed):
    rng = np.random.default_rng(seed)
    arrays = {}
    for t in args:
        shape = [int(evaluate_size(d, graph.symbols)) for d in t.shape]
        low = 0 if t.dtype.startswith("u") else -4
        given = t in graph.inputs
        arrays[t] = (
            rng.integers(low, 5, shape).astype(t.dtype) if given else poisoned(shape, t.dtype)
        )
    given = {t: arrays[t].copy() for t in graph.inputs if t in arrays}
    kernel(*arrays.values())
    results = [t for t in args if t not in given]
    with np.errstate(all="ignore"):
        wanted = evaluate(results, given, graph.symbols)
    for t, want in zip(results, wanted):
        want = np.asarray(want).astype(t.dtype)
        scale = max(1.0, float(np.abs(want[np.isfinite(want)], dtype="float64").max(initial=0)))
        close = {"rtol": 1e-4, "atol": 1e-4 * scale} if "float" in t.dtype else {"rtol": 0}
        np.testing.assert_allclose(arrays[t], want, err_msg=t.name, **close)
