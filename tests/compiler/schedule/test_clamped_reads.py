"""Clamped indices: reads are whole vectors or blended at the edge; shifted tails have no guards."""

import numpy as np
import pytest
from te_check import check

from whet.compiler import driver, te
from whet.compiler.target import Target

TARGETS = {"16 bytes": "llvm -mcpu=x86-64", "32 bytes": "llvm -mcpu=x86-64-v3"}
runs = pytest.mark.skipif(Target("llvm").vector_bytes < 32, reason="no AVX2 here")


def edges(n, m, low, high, dtype, factor, split=True):
    """Rows read from ``low`` before their begin to ``high`` beyond their end, edges repeated."""
    a = te.placeholder((n, m), dtype, name="A")
    c = te.compute(
        (n, m + low + high),
        lambda i, j: a[i, te.max(te.min(j - low, m - 1), 0)] if low and high
        else a[i, te.min(j, m - 1)] if high
        else a[i, te.max(j - low, 0)],
        name="C",
    )  # fmt: skip
    s = te.create_schedule(c.op)
    axis = c.op.axis[1]
    s[c].vectorize(s[c].split(axis, factor=factor)[1] if split else axis)
    return s, [a, c]


@runs
@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
@pytest.mark.parametrize(("low", "high"), [(0, 3), (5, 0), (2, 1), (0, 40), (40, 0)])
@pytest.mark.parametrize(
    ("m", "dtype"),
    [(1, "float32"), (1, "int8"), (16, "float64"), (16, "int32"), (37, "float32"), (37, "int8")],
)
def test_numbers(m, low, high, dtype, target):
    x = np.random.default_rng(m).integers(-9, 9, (3, m)).astype(dtype)
    wanted = np.pad(x, ((0, 0), (low, high)), mode="edge")
    for factor in (8, 16):
        out = np.full(wanted.shape, 99, dtype)
        driver.build(*edges(3, m, low, high, dtype, factor), target=target)(x, out)
        np.testing.assert_array_equal(out, wanted)
    out = np.full(wanted.shape, 99, dtype)
    driver.build(*edges(3, m, low, high, dtype, 0, split=False), target=target)(x, out)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("low", "high", "clamp"), [(0, 3, "min("), (3, 0, "max(")])
def test_the_main_part_has_no_clamps(low, high, clamp):
    with Target(TARGETS["32 bytes"]):
        text = str(driver.lower(*edges(3, 61, low, high, "float32", 16)))
    main = [line for line in text.splitlines() if " = A[ramp(" in line]
    assert main and not any(clamp in line for line in main)
    edge = [line for line in text.splitlines() if "select(" in line]
    assert edge and all("where" in line and clamp in line for line in edge)


def test_a_second_loop_is_split_where_a_branch_took_the_first():
    a = te.placeholder((61, 8), name="A")
    b = te.placeholder((8, 50), name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((61, 50), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    acc = s.cache_write(c, "local")
    _, jo, ii, ji = s[c].tile(*s[c].op.axis, 6, 16)
    s[acc].compute_at(s[c], jo)
    s[acc].reorder(s[acc].op.reduce_axis[0], *s[acc].op.axis)
    s[acc].unroll(s[acc].op.axis[0])
    s[acc].vectorize(s[acc].op.axis[1])
    s[c].unroll(ii)
    s[c].vectorize(ji)
    with Target(TARGETS["32 bytes"]):
        text = str(driver.lower(s, [a, b, c]))
    assert "for i_outer in range(10):\n        for j_outer in range(3):" in text
    assert (
        text.count("C_local") and text.count(" = allocate(") == 3
    )  # main, its edge, the last rows


def test_a_clamp_by_a_symbol_is_left_alone():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    c = te.compute((40,), lambda j: a[te.min(j, n - 1)], name="C")
    s = te.create_schedule(c.op)
    s[c].vectorize(s[c].split(c.op.axis[0], factor=16)[1])
    f = driver.build(s, [a, c])
    for size in (1, 7, 16, 39, 40, 90):
        x, out = np.arange(size, dtype="float32"), np.full(40, np.nan, "float32")
        f(x, out)
        np.testing.assert_array_equal(out, np.minimum(np.arange(40), size - 1))


# splits whose last steps begin earlier


def chain(n=37, m=23):
    """A stencil of an elementwise stage: T, then three neighbours of it, then their square."""
    a = te.placeholder((n + 2, m), name="A")
    t = te.compute((n + 2, m), lambda i, j: a[i, j] * 2.0 + j, name="T")
    u = te.compute((n, m), lambda i, j: t[i, j] + t[i + 1, j] - t[i + 2, j], name="U")
    v = te.compute((n, m), lambda i, j: u[i, j] * u[i, j], name="V")
    return te.create_schedule(v.op), a, t, u, v


@pytest.mark.parametrize("n, factor", [(13, 4), (12, 4), (3, 4), (37, 16), (17, 1)])
@pytest.mark.parametrize("by", ["factor", "nparts"])
def test_a_shifted_tail_needs_no_guard(n, factor, by):
    a = te.placeholder((n, 11), name="A")
    b = te.compute((n, 11), lambda i, j: a[i, j] * 2.0 + j, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], tail="shift", **{by: factor})
    s[b].vectorize(s[b].split(s[b].op.axis[1], factor=8, tail="shift")[1])
    assert "if " not in str(driver.lower(s, [a, b], simple_mode=True))
    check(s, [a, b], gpu=False)


def test_shifted_tails_of_attached_stages_fused_and_split_again():
    s, a, t, u, v = chain()
    i, j = v.op.axis
    io, ii = s[v].split(i, factor=8, tail="shift")
    jo, ji = s[v].split(j, factor=6, tail="shift")
    s[v].reorder(io, jo, ii, ji)
    s[v].split(ii, factor=5, tail="shift")
    outer = s[v].fuse(io, jo)
    s[v].parallel(outer)
    for stage in (t, u):
        s[stage].compute_at(s[v], outer)
        s[stage].split(s[stage].op.axis[1], factor=4, tail="shift")
    check(s, [a, v], gpu=False)


def test_a_shifted_tail_of_a_symbolic_size_is_guarded():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=4, tail="shift")
    for size in (1, 3, 4, 9):
        check(s, [a, b], {n: size}, gpu=False)
