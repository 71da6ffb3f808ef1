"""Layouts and rolling buffers of a ``tir.Schedule``: by te's loops, and by the blocks alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from block_programs import check, expected, inputs, matmul_relu

import whet
from whet import te, tir

SEED = random.randrange(10**6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layouts_keep_the_numbers_and_the_loops(dtype):
    rng = random.Random(SEED)
    sizes = [rng.choice((3, 8, 13)) for _ in range(3)]
    args = matmul_relu(*sizes, dtype)
    given = inputs(args, np.random.default_rng(SEED))
    sch = tir.Schedule(te.create_prim_func(args))
    y = sch.get_block("Y")
    i, j, k = sch.get_loops(y)
    outer, inner = sch.split(j, [None, 4])
    sch.reorder(outer, i, k, inner)
    sch.transform_layout(y, ("write", 0), lambda i, j: [j // 4, i, j % 4])
    sch.transform_layout(y, "B", lambda k, j: [j, k])
    sch.transform_layout(sch.get_block("E"), ("write", 0), tir.IndexMap.from_func(
        lambda i, j: [j, i]))  # fmt: skip
    sch.transform_layout(sch.get_block("C"), ("write", 0), lambda i, j: [j, i])
    sch.reverse_compute_at(sch.get_block("E"), outer)
    sch.decompose_reduction(y, k)
    assert [sch.get(x).loop_var.name for x in (outer, inner)] == ["j_0", "j_1"]
    text = sch.mod.script()
    assert "Y[vj // 4, vi, vj % 4]" in text and "B[vj, vk]" in text and "C[vj, vi]" in text
    a, b, bias = given
    want = np.ascontiguousarray(expected(*given).T)
    try:
        check(sch.mod["main"], [a, np.ascontiguousarray(b.T), bias], want, dtype)
    except AssertionError as error:
        error.add_note(f"seed {SEED}\n{sch.trace}")
        raise
    again = tir.Schedule(te.create_prim_func(args))
    sch.trace.apply_to_schedule(again)
    assert again.mod.script() == text
    assert "index_map=lambda i, j: [j // 4, i, j % 4]" in str(sch.trace)


def test_one_layout_after_the_other_with_a_rest():
    a = te.placeholder((10, 3), name="A")
    t = te.compute((10, 3), lambda i, j: a[i, j] * 2.0, name="T")
    u = te.compute((10, 3), lambda i, j: t[i, j] + t[9 - i, j], name="U")
    sch = tir.Schedule(te.create_prim_func([a, u]))
    block = sch.get_block("T")
    sch.transform_layout(block, ("write", 0), lambda i, j: [i // 4, j, i % 4])
    sch.transform_layout(sch.get_block("U"), ("read", 0), lambda x, y, z: [z, y, x])
    assert "T_1 = T.alloc_buffer((4, 3, 3))" in sch.mod.script()
    x = np.random.default_rng(SEED).standard_normal((10, 3)).astype("float32")
    check(sch.mod["main"], [x], 2.0 * (x + x[::-1]))


def sums(n, width, dtype="float32"):
    a = te.placeholder((n + width - 1, 5), dtype, name="A")
    k = te.reduce_axis((0, 5), name="k")
    t = te.compute((n + width - 1,), lambda i: te.sum(a[i, k], axis=k), name="T")
    r = te.reduce_axis((0, width), name="r")
    return [a, te.compute((n,), lambda i: te.sum(t[i + r], axis=r), name="U")]


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_rolling_buffers_keep_the_numbers(decomposed, factor):
    n, width = random.Random(SEED).choice(((7, 3), (12, 5), (9, 4)))
    args = sums(n, width)
    sch = tir.Schedule(te.create_prim_func(args))
    t, u = sch.get_block("T"), sch.get_block("U")
    loop = sch.split(sch.get_loops(u)[0], [None, factor])[0]
    sch.compute_at(t, loop)
    x = np.random.default_rng(SEED).standard_normal((n + width - 1, 5)).astype("float32")
    rows = x.astype("float64").sum(1)
    want = np.convolve(rows, np.ones(width), "valid")
    if decomposed:
        sch.decompose_reduction(t, sch.get_loops(t)[-1])
    sch.rolling_buffer(t, 0)
    assert "T.where(" in sch.mod.script()
    check(sch.mod["main"], [x], want)
    assert "%" in str(whet.lower(sch.mod["main"])) or "//" in str(whet.lower(sch.mod["main"]))


def test_what_a_layout_and_a_rolling_buffer_need():
    sch = tir.Schedule(te.create_prim_func(matmul_relu()))
    y, c = sch.get_block("Y"), sch.get_block("C")
    for call, why in (
        (lambda: sch.transform_layout(y, ("write", 1), lambda i, j: [j, i]), "the block writes 1"),
        (lambda: sch.transform_layout(y, ("out", 0), lambda i, j: [j, i]), "it names no buffer"),
        (lambda: sch.transform_layout(y, "C", lambda i, j: [j, i]), "the block accesses 3"),
        (lambda: sch.transform_layout(y, "Y", lambda i, j: [i, i]), "transform_layout(Y"),
        (lambda: sch.transform_layout(y, "Y", lambda i, j: [j, i], 0.0), "pad_value"),
        (lambda: sch.rolling_buffer(c, 0), "C is an output"),
        (lambda: sch.rolling_buffer(y, 0), "Y is computed as a whole"),
        (lambda: sch.rolling_buffer(y, 1), "the block writes 1"),
    ):
        before = sch.mod.script()
        with pytest.raises(whet.ScheduleError) as error:
            call()
        assert why in str(error.value)
        assert sch.mod.script() == before
