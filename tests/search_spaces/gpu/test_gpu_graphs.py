"""Graphs as users write them on a GPU: windows, chains of reductions, and stages around
contractions: few kernels, numpy's numbers."""

import gpu_graph_cases as cases
import numpy as np
import pytest
from gpu_checks import TARGET
from test_gpu_tiled import drawn, emulated

import whet
from whet import te
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.rule import rule_of

EVERY = {**cases.WINDOWS, **cases.CHAINS, **cases.FUSIONS}


def task_of(graph):
    inputs, out = graph.make(graph.dtype)
    return whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET), inputs


def exact(graph, given):
    """The float64 result of the inputs, computed on a CPU."""
    inputs, out = graph.make("float64")
    result = np.zeros([int(d) for d in out.shape])
    f = whet.build(te.create_schedule(out.op), [*inputs, out], "llvm")
    f(*(x.astype("f8") for x in given), result)
    return result


def draw(inputs):
    rng = np.random.default_rng(3)
    return [rng.standard_normal([int(d) for d in t.shape]).astype(t.dtype) for t in inputs]


# half a minute together in the emulator
LONG = ("a long row", "two in one", "long window", "large window")


@pytest.mark.gpu_matrix(3)
@pytest.mark.parametrize("which", [k for k in EVERY if k not in LONG])
def test_in_the_emulator(which, gpu_full):
    _compared(EVERY[which], gpu_full)


@pytest.mark.gpu_matrix(0)
@pytest.mark.parametrize("which", LONG)
def test_long_ones_in_the_emulator(which, gpu_full):
    _compared(EVERY[which], gpu_full)


def _compared(graph, gpu_full):
    task, inputs = task_of(graph)
    given = draw(inputs)
    wanted = exact(graph, given)
    near = 4e-3 if graph.dtype == "float16" else 1e-4
    for config in drawn(task, 2 if gpu_full else 1):
        emulated(task, config, given, wanted, gpu_full, near)


@pytest.mark.parametrize("which", EVERY)
def test_rules_and_kernels(which):
    graph = EVERY[which]
    inputs, out = graph.make(graph.dtype)
    groups = ComputeGraph([out], [*inputs, out]).groups
    assert type(rule_of(groups[-1], whet.Target(TARGET))).__name__ == graph.rule
    task, _ = task_of(graph)
    text = whet.build(*task.instantiate(), task.target).get_source("cuda")
    assert text.count("__global__") == graph.kernels


def _text(inputs, out):
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    return whet.build(*task.instantiate(), task.target).get_source("cuda")


def test_parts_of_a_reduction_are_read_side_by_side():
    """The axis that is cut comes last among those of rfactor: it must not be the innermost."""
    inputs, out = cases.variance("float32", (16, 8, 56, 56), [0, 2, 3])
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    assert all(task.config_space.default[f"{x}.parts"].val > 1 for x in ("x0_red", "sq_red"))
    text = _text(inputs, out)
    assert text.count("x0_v = whet_load<float32x4>(x0, ") == 2
    assert "ax0" not in text  # no more than a vector is read at a time


def test_the_patch_of_a_window_is_in_registers_and_no_padding_is_stored():
    text = _text(*cases.depthwise("float32", 16, 28, 3))
    assert "WHET_LOCAL(float, padded" in text or "WHET_LOCAL(float, pad" in text
    assert "WHET_LOCAL(float, x0_local" in _text(*cases.moving("float32", (3, 70), 7))


def test_threads_of_a_sum_over_columns_have_parts_on_different_banks():
    text = _text(*cases.softmax("float32", (30, 70, 72), 1))
    assert "_red[ty * 32 + tx]" in text and "_red[tx *" not in text


def test_a_thread_has_no_whole_image():
    """A row of the group's last stage was a thread's: of a pooling, the padded image."""
    text = _text(*cases.pooled("float32", (4, 8, 56, 56), "max", 3, 2, 1))
    sizes = [int(x.split(",")[2].split(")")[0]) for x in text.split("WHET_LOCAL")[1:]]
    assert max(sizes) <= 96
