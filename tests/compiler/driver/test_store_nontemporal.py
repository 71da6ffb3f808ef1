"""Stores past the caches: the numbers at every alignment, what is stored how, fences, errors."""

import re

import numpy as np
import pytest
from sched_check import refused, replays

import whet
from whet.compiler import driver, te
from whet.compiler.target import Target

AVX2 = "llvm -mcpu=x86-64 -mattr=+avx2,+fma"


def plus_one(n, m, fuse=True, parallel=False, factor=32, dtype="float32"):
    a = te.placeholder((n, m), dtype, name="A")
    c = te.compute((n, m), lambda i, j: a[i, j] + te.const(1, dtype), name="C")
    s = te.create_schedule(c.op)
    x = s[c].fuse(*c.op.axis) if fuse else c.op.axis[1]
    outer, inner = s[c].split(x, factor=factor)
    s[c].vectorize(inner)
    if parallel:
        s[c].parallel(outer if fuse else c.op.axis[0])
    s[c].store_nontemporal()
    return s, [a, c]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
@pytest.mark.parametrize(
    ("n", "m", "fuse", "parallel"),
    [
        (8, 64, True, False),
        (3, 96, False, False),
        (7, 33, False, True),
        (5, 101, True, True),
        (1, 1, True, False),
    ],
)
def test_numbers_at_every_alignment(n, m, fuse, parallel, dtype):
    if dtype == "bool":
        a = te.placeholder((n, m), "int8", name="A")
        c = te.compute((n, m), lambda i, j: a[i, j] > 3, name="C")
        s = te.create_schedule(c.op)
        s[c].vectorize(s[c].split(s[c].fuse(*c.op.axis), factor=32)[1])
        s[c].store_nontemporal()
        args, given = [a, c], "int8"
    else:
        (s, args), given = plus_one(n, m, fuse, parallel, dtype=dtype), dtype
    f = whet.build(s, args)
    rng = np.random.default_rng(n * m)
    for shift in range(0, 20, 1 if dtype == "float32" else 7):
        x = rng.integers(0, 8, (n, m)).astype(given)
        room = np.full(n * m + 64, 77, dtype)
        out = room[shift : shift + n * m].reshape(n, m)
        f(x, out)
        np.testing.assert_array_equal(out, x > 3 if dtype == "bool" else x + 1)
        untouched = np.concatenate([room[:shift], room[shift + n * m :]])
        assert (untouched == np.full(1, 77, dtype)).all()


@pytest.mark.parametrize(
    ("mattr", "past", "plain", "registers"),
    [
        ("+avx2,+fma", "vmovntps", "vmovups", {"xmm": 8, "ymm": 4}),
        ("", "movntps", "movups", {"xmm": 8}),
        ("+avx512f", "vmovntps", "vmovups", {"xmm": 8, "zmm": 2}),
    ],
)
def test_one_question_for_a_row_of_stores_and_a_fence_at_the_end(mattr, past, plain, registers):
    s, args = plus_one(8, 128)
    target = Target(f"llvm -mcpu=x86-64 -mattr={mattr}" if mattr else "llvm -mcpu=x86-64")
    ll = driver.build(s, args, target=target).get_source("ll")
    body = ll[: ll.index("define void")]
    assert body.count("!nontemporal") == sum(registers.values())  # 128 bytes, whole or in 16s
    assert body.count("and i64") == len(registers)  # where the base begins decides for all of them
    assert body.count("@llvm.x86.sse.sfence()") == 1
    asm = driver.build(s, args, target=target).get_source("asm")
    found = re.findall(rf"\t{past}\t%(.mm)", asm)
    assert {kind: found.count(kind) for kind in found} == registers
    assert asm.count("\tsfence") == 1 and f"\t{plain}\t" in asm


def test_a_row_that_is_no_multiple_of_16_bytes_asks_in_every_row():
    s, args = plus_one(8, 101, fuse=False)
    ll = driver.build(s, args, target=Target(AVX2)).get_source("ll")
    row = ll.index("loop")
    assert "and i64" in ll[row:] and "and i64" not in ll[:row]


def test_every_part_of_a_parallel_loop_has_its_fence():
    s, args = plus_one(8, 128, fuse=False, parallel=True)
    ll = driver.build(s, args, target=Target(AVX2)).get_source("ll")
    part = ll[ll.index("define internal void") :]
    assert "sfence()\n  ret void" in part[: part.index("\n}")]


def test_only_the_marked_stage():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((64,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule([b.op, c.op])
    for t in (b, c):
        s[t].vectorize(s[t].split(t.op.axis[0], factor=8)[1])
    s[c].store_nontemporal()
    f = driver.build(s, [a, b, c], target=Target(AVX2))
    stores = [x for x in f.get_source("ll").splitlines() if "!nontemporal" in x]
    assert len(stores) == 3  # of 32 bytes, or twice 16
    x, y, z = np.arange(64, dtype="float32"), np.zeros(64, "float32"), np.zeros(64, "float32")
    whet.build(s, [a, b, c])(x, y, z)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(z, (x + 1) * 2)


def test_what_is_read_again_is_stored_first():
    a = te.placeholder((32,), name="A")

    def body(ins, outs):
        ib = whet.tir.ir_builder.create()
        x, y, z = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        ib.scope_attr(outs[0], "store_nontemporal", 1)
        with ib.for_range(0, 32, kind="vectorize") as i:
            y[i] = x[i] + 1.0
            z[i] = y[i] * 2.0
        return ib.get()

    b, c = te.extern([(32,), (32,)], [a], body, dtype=["float32", "float32"], name="E")
    f = whet.build(te.create_schedule(b.op), [a, b, c])
    assert "!nontemporal" in f.get_source("ll")
    x, y, z = np.arange(32, dtype="float32"), np.zeros(32, "float32"), np.zeros(32, "float32")
    f(x, y, z)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(z, (x + 1) * 2)


def test_what_is_kept_on_the_stack_stays_in_registers():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((64,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], outer)
    s[b].vectorize(b.op.axis[0])
    s[c].vectorize(inner)
    s[b].store_nontemporal()
    f = whet.build(s, [a, c])
    assert "!nontemporal" not in f.get_source("ll")
    x, z = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    f(x, z)
    np.testing.assert_array_equal(z, (x + 1) * 2)


def test_an_array_between_two_stages_on_the_heap():
    n = 1 << 16
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[n - 1 - i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    inner = s[b].split(b.op.axis[0], factor=8)[1]
    s[b].vectorize(inner)
    s[b].store_nontemporal()
    s[c].parallel(s[c].split(c.op.axis[0], nparts=4)[0])
    f = whet.build(s, [a, c])
    ll = f.get_source("ll")
    assert ll.index("sfence()") < ll.index("call void @whet_parallel_for")  # before others read it
    x, z = np.arange(n, dtype="float32"), np.zeros(n, "float32")
    f(x, z)
    np.testing.assert_array_equal(z, (x[::-1] + 1) * 2)


def test_it_is_traced_and_shown():
    s, args = plus_one(4, 16)
    c = args[1]
    assert s[c].nontemporal
    replays(s, args)
    assert "s[C].store_nontemporal()" in str(s.trace)
    assert "attr(C, 'store_nontemporal', 1)" in str(driver.lower(s, args))
    assert "stored past the caches" in s.show().html


def test_other_generators_ignore_it():
    s, args = plus_one(4, 16)
    f = driver.build(s, args, target="c")
    x, z = np.ones((4, 16), "float32"), np.zeros((4, 16), "float32")
    f(x, z)
    np.testing.assert_array_equal(z, x + 1)


def test_a_processor_without_sfence_has_a_fence():
    s, args = plus_one(4, 16)
    target = Target("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic")
    ll = driver.build(s, args, target=target).get_source("ll")
    assert "fence release" in ll and "sfence" not in ll


def test_what_cannot_be_stored_so():
    a = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    refused(
        s, s[b].store_nontemporal, "store_nontemporal(B): B is a reduction over k",
        'sum up in cache_write(B, "local") and mark the copy that remains',
    )  # fmt: skip
    s.cache_write(b, "local")
    s[b].store_nontemporal()
    replays(s, [a, b])
    refused(s, s[a].store_nontemporal, "A is an input")
    e = te.extern((8,), [a], lambda ins, outs: whet.tir.Evaluate(0), name="E")
    s = te.create_schedule(e.op)
    refused(s, s[e].store_nontemporal, "E is extern: its own code stores", "te.compute")
