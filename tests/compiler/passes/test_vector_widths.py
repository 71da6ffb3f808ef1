"""Kernels for lesser machines run here, and AVX-512 code is looked at: registers, masks, no spills.

What cannot run here is judged by its assembly alone.
"""

import re

import numpy as np
import pytest

from whet.compiler import driver, te, tir
from whet.compiler.target import Target

TARGETS = {
    "sse2": "llvm -mcpu=x86-64",
    "sse4.2": "llvm -mcpu=x86-64 -mattr=+sse4.2",
    "avx": "llvm -mcpu=x86-64 -mattr=+avx",
    "avx2": "llvm -mcpu=x86-64 -mattr=+avx2",
    "avx2 and fma": "llvm -mcpu=x86-64-v3",
}
AVX512 = Target("llvm -mcpu=x86-64-v4")
BYTES = {"sse2": 16, "sse4.2": 16, "avx": 32, "avx2": 32, "avx2 and fma": 32}

x86 = pytest.mark.skipif(
    not str(Target("llvm").canonical().attrs["mtriple"]).startswith("x86_64"), reason="x86-64 code"
)
runs = pytest.mark.skipif(Target("llvm").vector_bytes < 32, reason="no AVX2 here")
pytestmark = x86


def product(n, k, m, rows, cols, unroll=4):
    """A matrix product in tiles of registers, nothing packed."""
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m), name="B")
    kk = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="C")
    s = te.create_schedule(c.op)
    acc = s.cache_write(c, "local")
    _, jo, ii, ji = s[c].tile(*s[c].op.axis, rows, cols)
    s[acc].compute_at(s[c], jo)
    ko, ki = s[acc].split(s[acc].op.reduce_axis[0], factor=unroll)
    i, j = s[acc].op.axis
    s[acc].reorder(ko, ki, i, j)
    for stage, axis in ((acc, ki), (acc, i), (c, ii)):
        s[stage].unroll(axis)
    s[acc].vectorize(j)
    s[c].vectorize(ji)
    return s, [a, b, c]


def row_sums(n, m, lanes, count):
    """Sums of rows in ``count`` vectors of ``lanes`` numbers."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    part = s.rfactor(b, s[b].split(k, factor=lanes * count)[1], 1)
    s[part].compute_at(s[b], s[b].op.axis[0])
    s[part].reorder(s[part].op.reduce_axis[0], s[part].op.axis[1])
    s[part].vectorize(s[part].op.axis[1])
    return s, [a, b]


def scaled(n):
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: te.exp(a[i]) * 2.0 + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[c].vectorize(s[c].split(c.op.axis[0], factor=32)[1])
    return s, [a, c]


def kernel_asm(program, target):
    text = driver.build(*program, target=target).get_source("asm")
    return text[text.index("__raw:") : text.index("__release")]


def hottest(asm, pattern):
    """The block between two labels that has most instructions of a kind."""
    blocks = re.split(r"^\.LBB\S+:", asm, flags=re.M)
    return max(blocks, key=lambda b: len(re.findall(pattern, b)))


@runs
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("n", "k", "m"), [(12, 16, 48), (13, 7, 50), (1, 1, 1), (7, 33, 17)])
def test_products_of_every_width_run_here(name, n, k, m):
    rng = np.random.default_rng(n)
    x, y = rng.random((n, k), "float32"), rng.random((k, m), "float32")
    out = np.full((n, m), np.nan, "float32")
    driver.build(*product(n, k, m, 6, 16), target=TARGETS[name])(x, y, out)
    np.testing.assert_allclose(out, x.astype("float64") @ y.astype("float64"), rtol=1e-5)


@runs
@pytest.mark.parametrize("name", TARGETS)
def test_other_kernels_of_every_width_run_here(name):
    rng = np.random.default_rng(3)
    x, y = rng.random((5, 131), "float32"), np.full(5, np.nan, "float32")
    driver.build(*row_sums(5, 131, 8, 4), target=TARGETS[name])(x, y)
    np.testing.assert_allclose(y, x.astype("float64").sum(1), rtol=1e-5)
    x, y = rng.random(77, "float32"), np.full(77, np.nan, "float32")
    driver.build(*scaled(77), target=TARGETS[name])(x, y)
    np.testing.assert_allclose(y, np.exp(x.astype("float64")) * 2 + 1, rtol=1e-5)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_that_the_processor_does_not_have(name):
    target = Target(TARGETS[name])
    assert target.vector_bytes == BYTES[name]
    asm = kernel_asm(product(12, 16, 50, 6, 16), target)
    assert ("%ymm" in asm) == (BYTES[name] == 32) and "%zmm" not in asm
    assert ("vfmadd" in asm) == (name == "avx2 and fma")
    assert ("\tvmulps" in asm) == (name in ("avx", "avx2"))
    assert ("\tmulps" in asm) == (name in ("sse2", "sse4.2"))
    assert "{%k" not in asm


@pytest.mark.parametrize(("rows", "vectors"), [(6, 4), (12, 2), (14, 2), (8, 3), (9, 3)])
def test_a_tile_of_avx512_keeps_everything_in_its_32_registers(rows, vectors):
    lanes = 16
    asm = kernel_asm(product(rows * 4, 64, lanes * vectors * 3, rows, lanes * vectors), AVX512)
    assert not re.search(r"\(%r[sb]p", asm)  # nothing is spilled
    inner = hottest(asm, "vfmadd")
    assert len(re.findall(r"vfmadd\S+\t.*%zmm", inner)) == 4 * rows * vectors
    accumulators = set(re.findall(r"vfmadd\S+\t.*, %(zmm\d+)$", inner, flags=re.M))
    assert len(accumulators) == rows * vectors
    broadcasts = re.findall(r"vbroadcastss|\{1to16\}", inner)
    assert 4 * rows <= len(broadcasts) <= 4 * rows * vectors
    stores = re.findall(r"vmovu?ps\t%zmm\d+, ", inner)
    assert len(stores) <= rows * vectors  # what a tile stores when it is done


@pytest.mark.parametrize(("rows", "vectors"), [(6, 4), (12, 2)])
def test_tails_of_avx512_are_masks(rows, vectors):
    cols = 16 * vectors
    asm = kernel_asm(product(rows * 3 + 1, 64, cols * 2 + 25, rows, cols), AVX512)
    assert not re.search(r"\(%r[sb]p", asm)
    assert re.search(r"vmovups\t\S+\(%\S+, %zmm\d+ \{%k\d\} \{z\}|vmovups\t.*\{%k\d\}", asm)
    assert "{%k" not in hottest(asm, "vfmadd") or asm.count("vfmadd") > 4 * rows * vectors


@pytest.mark.parametrize(("rows", "vectors"), [(6, 2), (5, 2), (4, 2)])
def test_a_tile_of_avx2_keeps_everything_in_its_16_registers(rows, vectors):
    target = Target(TARGETS["avx2 and fma"])
    asm = kernel_asm(product(rows * 4, 64, 8 * vectors * 3, rows, 8 * vectors), target)
    assert not re.search(r"\(%r[sb]p", asm)
    assert len(re.findall(r"vfmadd\S+\t", hottest(asm, "vfmadd"))) == 4 * rows * vectors


@pytest.mark.parametrize(("target", "lanes"), [(TARGETS["avx2 and fma"], 8), (AVX512, 16)])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_a_sum_along_vectors_streams_into_as_many_accumulators(target, lanes, count):
    asm = kernel_asm(row_sums(16, lanes * count * 20, lanes, count), Target(str(target)))
    inner = hottest(asm, r"vaddps\t\S*\(%r")
    adds = re.findall(r"vaddps\t\S*\(%r\w+(?:,\S+)?\), %([yz]mm\d+), %([yz]mm\d+)", inner)
    assert len(adds) == count and len({into for _, into in adds}) == count
    assert all(a == b for a, b in adds)  # each into its own
    assert "mov" not in inner[: inner.index("\tj")]  # and none to memory


def test_a_ragged_edge_costs_the_main_part_nothing():
    """Rows of 250 in tiles of 16: neither masks nor clamped lanes but in the last tile."""
    target = Target(TARGETS["avx2 and fma"])
    even = hottest(kernel_asm(product(60, 64, 240, 6, 16), target), "vfmadd")
    ragged = hottest(kernel_asm(product(61, 64, 250, 6, 16), target), "vfmadd")
    assert len(re.findall("vfmadd", ragged)) == len(re.findall("vfmadd", even)) == 48
    assert not re.search(r"vmaskmov|vinsertps|vblend|vpinsr|\(%rsp", ragged)


def some_of_a_row(kind):
    """Rows of a buffer, of which data says how many elements there are."""

    def body(ins, outs):
        ib = tir.ir_builder.create()
        a, n, out = (ib.buffer_ptr(b) for b in (*ins, *outs))
        own = ib.allocate("float32", 16, name="T")
        with ib.for_range(0, 2, name="i", kind=kind) as i:
            with ib.for_range(0, 8, name="j", kind="vectorize") as j:
                own[i * 8 + j] = 0.0
            with (
                ib.for_range(0, 8, name="j", kind="vectorize") as j,
                ib.if_scope(j < n[0]),
            ):
                own[i * 8 + j] = a[i, j] * 2.0
        with ib.for_range(0, 2, name="i") as i, ib.for_range(0, 8, name="j") as j:
            out[i, j] = own[i * 8 + j]
        return ib.get()

    a, n = te.placeholder((2, 8), name="A"), te.placeholder((1,), "int32", name="n")
    b = te.extern((2, 8), [a, n], body, dtype="float32", name="B")
    return te.create_schedule(b.op), [a, n, b]


@runs
@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_stores_to_memory_of_its_own_have_no_masks(kind):
    """Where threads share it, the lanes that are off may be another thread's elements."""
    s, args = some_of_a_row(kind)
    with Target(TARGETS["avx2 and fma"]):
        text = str(driver.lower(s, args))
    (store,) = (x for x in text.splitlines() if x.strip().startswith("T[") and "A[" in x)
    assert store.rstrip().endswith("broadcast(n[0], 8)") == (kind == "parallel"), store
    kernel = driver.build(s, args, TARGETS["avx2 and fma"])
    x = np.random.default_rng().standard_normal((2, 8)).astype("float32")
    for count in (0, 3, 8):
        out = np.full((2, 8), np.nan, "float32")
        kernel(x, np.array([count], "int32"), out)
        np.testing.assert_array_equal(out, np.where(np.arange(8) < count, x * 2, 0))
