"""Schedules of blocks keep the numbers: by te's loops, and by the blocks alone."""

from __future__ import annotations

import ast
import random

import numpy as np
import pytest
from block_programs import check, expected, inputs, matmul_relu
from emulated import TARGET as CUDA
from emulated import on_device

import whet
from whet import te, tir

SEED = random.randrange(10**6)


def scheduled(args, steps, rng):
    """A schedule after some random primitives; those that are refused are left out."""
    sch = tir.Schedule(te.create_prim_func(args), seed=SEED)
    if rng.random() < 0.5:
        _together(sch, rng)
    refused = 0
    for _ in range(steps):
        try:
            _step(sch, rng)
        except whet.ScheduleError as error:
            refused += 1
            assert str(error)
    assert refused < steps
    return sch


def _together(sch, rng):
    """Tile the product, and compute what reads it in its loops."""
    block = sch.get_block("Y")
    if rng.random() < 0.5:
        sch.cache_write(block, 0, "global")
    i, j, k = sch.get_loops(block)
    if rng.random() < 0.3:
        j = sch.fuse(i, j)
    outer, inner = sch.split(j, [None, rng.choice((1, 3, 4))])
    first, second = sch.split(k, [None, rng.choice((2, 5))])
    loops = [outer, first, inner, second] if rng.random() < 0.5 else [outer, inner, first, second]
    sch.reorder(*loops)
    if rng.random() < 0.5:
        sch.parallel(outer)
    (reader,) = sch.get_consumers(block)
    sch.reverse_compute_at(reader, outer)
    if rng.random() < 0.5:
        sch.decompose_reduction(block, first)


def _step(sch, rng):
    blocks = sch.get_child_blocks(sch.get_block("root"))
    block = rng.choice(blocks)
    loops = sch.get_loops(block)
    kind = rng.choice([
        "split", "split", "split", "fuse", "reorder", "reorder", "parallel", "vectorize", "unroll",
        "compute_at", "reverse_compute_at", "reverse_compute_at", "compute_inline", "cache_read",
        "reverse_compute_inline", "cache_write", "decompose", "annotate", "align",
    ])  # fmt: skip
    match kind:
        case "split":
            sch.split(
                rng.choice(loops), [None, *rng.choices((1, 2, 3, 4, 8), k=rng.choice((1, 2)))]
            )
        case "fuse":
            k = rng.randrange(len(loops))
            sch.fuse(*loops[k : k + 2])
        case "reorder":
            sch.reorder(*rng.sample(loops, k=min(len(loops), rng.choice((2, 3)))))
        case "compute_at" | "reverse_compute_at":
            other = rng.choice(sch.get_loops(rng.choice(blocks)))
            getattr(sch, kind)(block, other)
        case "compute_inline" | "reverse_compute_inline":
            getattr(sch, kind)(block)
        case "cache_read" | "cache_write":
            getattr(sch, kind)(block, 0, "global")
        case "decompose":
            sch.decompose_reduction(block, rng.choice(loops))
        case "annotate":
            sch.annotate(rng.choice([block, *loops]), "hint", 1)
        case "align":
            sch.storage_align(block, 0, -2, 16, 3)
        case "vectorize" | "unroll":
            inner = loops[-1]
            if sch.get(inner).extent.value <= 16:
                getattr(sch, kind)(inner)
        case _:
            getattr(sch, kind)(rng.choice(loops))


@pytest.mark.parametrize("number", range(4))
def test_random_schedules_keep_the_numbers(number):
    rng = random.Random(SEED + number)
    sizes = [rng.choice((1, 5, 8, 13)) for _ in range(3)]
    dtype = rng.choice(("float32", "float64"))
    args = matmul_relu(*sizes, dtype)
    sch = scheduled(args, 20, rng)
    ast.parse(sch.mod.script())
    given = inputs(args, np.random.default_rng(SEED + number))
    try:
        check(sch.mod["main"], given, expected(*given), dtype)
    except (AssertionError, whet.WhetError) as error:
        error.add_note(f"seed {SEED + number}\n{sch.trace}")
        raise
    again = tir.Schedule(te.create_prim_func(args))
    sch.trace.apply_to_schedule(again)
    assert again.mod.script() == sch.mod.script()


def gpu_product(sch):
    """A product in tiles, by TVM's primitives in the order of its courses."""
    block = sch.get_block("Y")
    sch.compute_inline(sch.get_block("E"))
    written = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, 4, 2])
    j0, j1, j2 = sch.split(j, [None, 4, 2])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    for loop, tag in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (i1, "threadIdx.y")):
        sch.bind(loop, tag)
    sch.reverse_compute_at(written, j1)
    sch.bind(j1, "threadIdx.x")
    for operand in range(2):
        copy = sch.cache_read(block, operand, "shared")
        sch.compute_at(copy, k0)
        fused = sch.fuse(*sch.get_loops(copy)[-2:])
        _, y, x = sch.split(fused, [None, 4, 4])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
    sch.unroll(k1)
    sch.decompose_reduction(block, k0)
    last = sch.fuse(*sch.get_loops(sch.get_block("C")))
    outer, inner = sch.split(last, [None, 16])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")


def test_a_product_in_tiles_on_a_gpu_and_on_a_cpu():
    args = matmul_relu(19, 13, 9)
    sch = tir.Schedule(te.create_prim_func(args))
    gpu_product(sch)
    text = sch.mod.script()
    assert 'for i_0 in T.thread_binding(3, thread="blockIdx.y"):' in text
    assert 'A_shared = T.alloc_buffer((19, 9), scope="shared")' in text
    given = inputs(args, np.random.default_rng())
    want = expected(*given)
    check(sch.mod["main"], given, want)
    out = np.full(want.shape, np.nan, "float32")
    made = on_device(whet.build(sch.mod, target=CUDA)["main"], [*given, out])[-1]
    np.testing.assert_allclose(made, want, 1e-4, 1e-4)


def test_unbound_loops_are_bound_for_a_gpu():
    a = te.placeholder((70,), name="A")
    func = te.create_prim_func([a, te.compute((70,), lambda i: a[i] * 3.0, name="B")])
    with pytest.warns(UserWarning, match="no loop of the schedule is bound"):
        built = whet.build(func, target=CUDA)
    assert "threadIdx.x" in built.get_source("cuda")
