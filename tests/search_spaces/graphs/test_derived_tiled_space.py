"""The space of a tiled reduction: knobs, constraints, defaults, programs."""

from __future__ import annotations

import numpy as np
import pytest
from derived_graphs import CASES, Case, conv2d, depthwise, matmul

import whet
from whet import te
from whet.compiler.te import graph_text

AVX2 = "llvm -mcpu=x86-64 -mattr=+avx2,+fma -num-threads=1"
WHOLE = "int32"
"""Contractions of floats are the rules' for GEMMs and convolutions; of integers the tiled one's."""


def space_of(case: Case, target=AVX2):
    return whet.create_task(outputs=[case.args[-1]], args=case.args, target=target).config_space


def lowered(case: Case, choices: dict, target=AVX2) -> str:
    task = whet.create_task(outputs=[case.args[-1]], args=case.args, target=target)
    space = task.config_space
    config = space.nearest({**space.default.as_dict(), **choices})
    for name, value in choices.items():
        assert config.choice(name) == value, (name, config)
    schedule, args = task.instantiate(config)
    with task.target:
        return str(whet.lower(schedule, args))


def test_the_knobs_of_a_matmul():
    space = space_of(matmul(512, 512, 512, WHOLE))
    assert list(space.knobs) == [
        "tile", "blocks_i", "blocks_j", "outer", "inner", "blocks_k", "unroll", "pack_A", "pack_B",
    ]  # fmt: skip
    assert 10**4 < space.size < 10**7
    assert ("j", 6, 16) in space.knobs["tile"].choices


@pytest.mark.parametrize(
    "name", ["conv2d", "conv2d_batch", "conv2d_nchwc", "conv3d", "contraction"]
)
def test_spaces_have_at_most_twenty_knobs_and_a_valid_default(name):
    space = space_of(CASES[name]())
    assert len(space.knobs) <= 20
    assert space.is_valid(np.array(space.encode(space.default)))
    assert space.size < 10**9


def test_threads_add_a_knob():
    case = matmul(256, 256, 256)
    assert "parallel" not in space_of(case).knobs
    assert "parallel" in space_of(case, {"kind": "llvm", "num_threads": 4}).knobs


def test_accumulators_fit_the_registers():
    for case in (matmul(64, 64, 64, WHOLE), conv2d(1, 16, 20, 20, 32, 3, dtype=WHOLE)):
        for _, *sizes in space_of(case).knobs["tile"].choices:
            assert int(np.prod(sizes)) <= 8 * 15


def test_a_copy_that_changes_nothing_is_pinned():
    space = space_of(matmul(64, 64, 64, WHOLE))
    rng = np.random.default_rng(0)
    drawn = [space.decode(tuple(p)) for p in space.sample_points(rng, 400)]
    rows = [c for c in drawn if c.choice("tile")[1] == 1]
    assert rows and all(c.choice("pack_A") == "none" for c in rows)


def test_a_copy_for_each_block_needs_blocks():
    space = space_of(matmul(64, 64, 64, WHOLE))
    rng = np.random.default_rng(1)
    for point in space.sample_points(rng, 400):
        config = space.decode(tuple(point))
        if config.choice("pack_B") == "block":
            assert config.choice("blocks_j") > 1


def test_different_points_are_different_programs():
    case = matmul(12, 8, 16, WHOLE)
    task = whet.create_task(outputs=[case.args[-1]], args=case.args, target=AVX2)
    space = task.config_space
    rng = np.random.default_rng(2)
    points = {tuple(map(int, p)) for p in space.sample_points(rng, 60)}
    texts = []
    for point in sorted(points):
        schedule, args = task.instantiate(space.decode(point))
        with task.target:
            texts.append(str(whet.lower(schedule, args)))
    assert len(set(texts)) >= 0.5 * len(texts)


def test_lanes_that_a_load_cannot_read_are_copied():
    space = space_of(matmul(64, 64, 64, WHOLE, turn="B"))
    rng = np.random.default_rng(3)
    lanes_j = [
        c
        for c in (space.decode(tuple(p)) for p in space.sample_points(rng, 200))
        if c.choice("tile")[0] == "j"
    ]
    assert lanes_j and all(c.choice("pack_B") != "none" for c in lanes_j)


def test_a_copy_of_b_for_each_block_stands_in_the_loop_over_blocks():
    text = lowered(
        matmul(48, 64, 64, WHOLE),
        {
            "tile": ("j", 6, 16),
            "blocks_j": 2,
            "blocks_i": 1,
            "outer": ("i", "j"),
            "pack_B": "block",
            "pack_A": "none",
        },
    )
    assert text.index("for j_outer in range(2)") < text.index("B_packed = allocate([2048]")
    assert "broadcast(A[" in text and "B[ramp" in text


def test_an_epilogue_is_computed_on_the_tile():
    text = lowered(matmul(48, 64, 64, WHOLE, epilogue=True), {"tile": ("j", 6, 16)})
    assert text.count("allocate") <= 3
    assert 'C = allocate([96], "int32", "local")' in text
    assert "max(" in text.split("C = allocate")[1]


def test_padding_is_put_into_the_copy_of_the_image():
    text = lowered(conv2d(1, 8, 14, 14, 8, 3, pad=1, dtype=WHOLE), {"pack_image": "whole"})
    assert "image_packed = allocate" in text
    assert "image = allocate" not in text


def test_the_callers_tensors_stay_theirs():
    case = depthwise(8, 14, 14, 3)
    task = whet.create_task(outputs=[case.args[-1]], args=case.args, target=AVX2)
    _, args = task.instantiate()
    assert [a.name for a in args] == [a.name for a in case.args]
    assert args[0].op is case.args[0].op and args[1].op is case.args[1].op
    before = graph_text([case.args[-1]])
    task.instantiate(task.config_space.sample(np.random.default_rng(0)))
    assert graph_text([case.args[-1]]) == before


def test_two_reductions_have_prefixed_knobs():
    A = te.placeholder((40, 24), name="A")
    B = te.placeholder((24, 32), name="B")
    D = te.placeholder((32, 48), name="D")
    k = te.reduce_axis((0, 24), name="k")
    r = te.reduce_axis((0, 32), name="r")
    C = te.compute((40, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    E = te.compute((40, 48), lambda i, j: te.sum(C[i, r] * D[r, j], axis=r), name="E")
    task = whet.create_task(outputs=[E], args=[A, B, D, E], target=AVX2)
    names = set(task.config_space.knobs)
    assert {"C.tile", "E.tile", "C.pack_b", "E.pack_b"} <= names
    rng = np.random.default_rng(4)
    a, b, d = (rng.standard_normal(s).astype("float32") for s in ((40, 24), (24, 32), (32, 48)))
    for config in (task.config_space.default, task.config_space.sample(rng)):
        schedule, args = task.instantiate(config)
        out = np.zeros((40, 48), "float32")
        whet.build(schedule, args, "llvm")(a, b, d, out)
        np.testing.assert_allclose(out, a @ b @ d, rtol=1e-3, atol=1e-3)


def test_the_default_of_a_large_matmul_copies_blocks_of_b_and_fills_the_registers():
    choices = space_of(matmul(512, 512, 512, WHOLE)).default.as_dict()
    assert choices["pack_B"] in ("block", "whole")
    lane, rows, lanes = choices["tile"]
    assert lane == "j" and rows * lanes >= 10 * 8


def test_a_default_for_several_threads_is_parallel_where_there_is_work():
    target = {"kind": "llvm", "num_threads": 4}
    assert space_of(matmul(512, 512, 512, WHOLE), target).default.choice("parallel") is True
    assert space_of(matmul(16, 16, 16, WHOLE), target).default.choice("parallel") is False


def test_many_operands_do_not_make_many_knobs():
    tables = [te.placeholder((24, 32), name=f"T{k}") for k in range(6)]
    A = te.placeholder((40, 24), name="A")
    k = te.reduce_axis((0, 24), name="k")
    C = te.compute(
        (40, 32), lambda i, j: te.sum(A[i, k] * sum(t[k, j] for t in tables), axis=k), name="C"
    )
    task = whet.create_task(outputs=[C], args=[A, *tables, C], target=AVX2)
    assert sum(name.startswith("pack_") for name in task.config_space.knobs) == 3
    rng = np.random.default_rng(8)
    a, *many = (rng.standard_normal([int(d) for d in t.shape]).astype("f") for t in (A, *tables))
    schedule, args = task.instantiate()
    out = np.zeros((40, 32), "float32")
    whet.build(schedule, args, "llvm")(a, *many, out)
    np.testing.assert_allclose(out, a @ sum(many), rtol=1e-3, atol=1e-3)
