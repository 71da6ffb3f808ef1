"""Reductions of columns on GPUs: vectors of neighbours, rows of threads, parts of the reduction."""

import numpy as np
import pytest
from gpu_checks import TARGET, by_numpy, check, configs_of

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.emulator import emulator_options

NARROW, WIDE = {"vector": 1, "rows": 2, "unroll": 1}, {"vector": 4, "rows": 32, "unroll": 2}
CASES = {
    "sum": (by_numpy("sum", ((70, 136), 0)), WIDE),
    "sum at an edge": (by_numpy("sum", ((131, 148), 0)), WIDE),
    "one at a time": (by_numpy("sum", ((37, 33), 0)), NARROW),
    "in parts": (by_numpy("sum", ((1040, 68), 0)), {"vector": 2, "parts": 4}),
    "of images": (
        by_numpy("sum", ((4, 12, 12, 64), (0, 1, 2))),
        {"vector": 2, "parts": 2},
    ),
    "float16": (
        by_numpy("sum", ((65, 136), 0, "float16")),
        {"vector": 4, "rows": 16},
    ),
    "maxima in the middle": (by_numpy("max", ((3, 40, 96), 1)), {"vector": 4}),
}


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", CASES)
def test_reductions_of_columns(which, gpu_full):
    case, given = CASES[which]
    space = whet.create_task(case.name, args=case.args, target=TARGET).config_space
    check(case, space.from_choices(space.default.as_dict() | given), full=gpu_full)


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", CASES)
def test_step_by_step(which):
    for config in configs_of(CASES[which][0], 4):
        check(CASES[which][0], config, "cpu")


def columns(body, shape=(40, 136), dtype="float32", reducer=te.sum, **given):
    """A kernel for a reduction over rows of what ``body`` makes of ``A``, and its inputs."""
    A, k = te.placeholder(shape, dtype, name="A"), te.reduce_axis((0, shape[0]), name="k")
    out = te.compute(shape[1:], lambda j: reducer(body(A, k, j), axis=k), name="C")
    task = whet.create_task(outputs=[out], args=[A, out], target=TARGET)
    space = task.config_space
    with task.target:
        made = task.instantiate(space.from_choices(space.default.as_dict() | given))
    return whet.build(*made, task.target)


def ran(f, a, out):
    """A kernel's result for an array, in the emulator."""
    device = whet.device("cuda-emulator")
    held = [whet.nd.array(x, device) for x in (a, out)]
    with emulator_options(checks=True, order="backwards"):
        f(*held)
    return held[1].numpy()


def test_neighbours_are_read_in_one_load():
    f = columns(lambda A, k, j: A[k, j] * A[k, j], vector=4)
    text = f.get_source("cuda")
    assert "whet_load<float32x4>(A" in text and text.count("__syncthreads") == 1
    a = np.random.default_rng(0).standard_normal((40, 136)).astype("f4")
    right = (a.astype("f8") ** 2).sum(0)
    np.testing.assert_allclose(ran(f, a, np.full(136, 77, "f4")), right, 1e-5)


def test_guarded_reads_may_lie_outside():
    def shifted(A, k, j):
        return te.if_then_else(te.all(k > 2, j > 0), A[k - 3, j - 1], 1.0)

    a = np.random.default_rng(1).standard_normal((40, 136)).astype("f4")
    right = np.ones((40, 136))
    right[3:, 1:] = a[:-3, :-1]
    out = ran(columns(shifted, vector=4), a, np.full(136, 77, "f4"))
    np.testing.assert_allclose(out, right.sum(0), 1e-4, 1e-4)


def test_without_neighbours_in_memory_there_are_no_vectors():
    A, k = te.placeholder((40, 136), name="A"), te.reduce_axis((0, 40), name="k")
    for body in (
        lambda j: te.sum((k * 2 + j).astype("float32"), axis=k),
        lambda j: te.sum(A[k, 0], axis=k),
    ):
        out = te.compute((136,), body, name="C")
        task = whet.create_task(outputs=[out], args=[A, out], target=TARGET)
        assert task.config_space.default["vector"].val == 1
    a = np.random.default_rng(2).standard_normal((40, 136)).astype("f4")
    found = ran(whet.build(*task.instantiate(), task.target), a, np.full(136, 77, "f4"))
    np.testing.assert_allclose(found, np.repeat(a.astype("f8")[:, 0].sum(), 136), 1e-5, 1e-5)


def test_pairs_are_reduced_together():
    """A reduction of tuples: the largest of each column, and where it is."""

    def join(x, y):
        later = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
        return [te.if_then_else(later, x[k], y[k]) for k in range(2)]

    first = te.comm_reducer(join, lambda i, v: (te.const(1 << 30, i), te.min_value(v)))
    A, k = te.placeholder((40, 136), name="A"), te.reduce_axis((0, 40), name="k")
    place, _ = te.compute((136,), lambda j: first((k, A[k, j]), axis=k), name="C")
    out = te.compute((136,), lambda j: place[j] + 1, name="D")
    a = np.random.default_rng(3).integers(0, 9, (40, 136)).astype("f4")
    task = whet.create_task(outputs=[out], args=[A, out], target=TARGET)
    f = whet.build(*task.instantiate(), task.target)
    np.testing.assert_array_equal(ran(f, a, np.full(136, 77, "i4")), a.argmax(0) + 1)


def test_what_is_made_of_sums_is_made_with_them():
    A, b = te.placeholder((64, 256), name="A"), te.placeholder((256,), name="b")
    out = topi.nn.relu(topi.add(topi.sum(A, axis=0), b))
    task = whet.create_task(outputs=[out], args=[A, b, out], target=TARGET)
    f = whet.build(*task.instantiate(), task.target)
    assert f.get_source("cuda").count("__global__") == 1
    device, rng = whet.device("cuda-emulator"), np.random.default_rng(4)
    a, c = rng.standard_normal((64, 256)).astype("f4"), rng.standard_normal(256).astype("f4")
    held = [whet.nd.array(x, device) for x in (a, c, np.full(256, 77, "f4"))]
    f(*held)
    right = np.maximum(a.astype("f8").sum(0) + c, 0)
    np.testing.assert_allclose(held[2].numpy(), right, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("shape", "parts", "blocks"),
    [((4096, 4096), 1, 128), ((16384, 8192), 1, 128), ((1 << 16, 64), 64, 128)],
)
def test_a_second_kernel_is_for_columns_too_few(shape, parts, blocks):
    """On an H200 of 132 multiprocessors."""
    config = whet.create_task("sum", args=(shape, 0), target="cuda -arch=sm_90").config_space
    chosen = {k: config.default[k].val for k in ("parts", "vector", "threads", "rows")}
    assert chosen["parts"] == parts and chosen["rows"] * chosen["threads"] == 1024
    assert parts * shape[1] // (chosen["vector"] * chosen["threads"]) == blocks
