"""Names that people read: workloads, targets, kernels' arguments, modules."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import te
from whet.search_spaces.values.shown import name_of, shown

CPU = "llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu -num_threads=2"


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("matmul", (64, 65, 66), "matmul(64, 65, 66)"),
        ("matmul", (64, 65, 66, False, True), "matmul(64, 65, 66, transpose_b=True)"),
        ("matmul", (64, 65, 66, True), "matmul(64, 65, 66, True)"),
        (
            "matmul",
            (8, 8, 8, False, False, "float32", ("relu",)),
            "matmul(8, 8, 8, epilogue=('relu',))",
        ),
        # defaults in their canonical form: axis -1 of two axes is 1, stride 1 is (1, 1)
        ("softmax", ((5, 7), 1, "float32"), "softmax((5, 7))"),
        ("softmax", ((5, 7), 0), "softmax((5, 7), 0)"),
        ("conv2d_nchw", (1, 4, 9, 9, 8, 3, 3, (1, 1)), "conv2d_nchw(1, 4, 9, 9, 8, 3, 3)"),
        (
            "conv2d_nchw",
            (1, 4, 9, 9, 8, 3, 3, 1, (1, 1)),
            "conv2d_nchw(1, 4, 9, 9, 8, 3, 3, padding=(1, 1))",
        ),
    ],
)
def test_only_what_differs_from_the_defaults_is_shown(name, args, text):
    workload = whet.create_task(name, args, CPU).workload
    assert str(workload) == shown(workload) == text
    assert workload == whet.search_spaces.Workload.from_json(workload.to_json())


def test_a_template_that_is_not_here_shows_everything():
    workload = whet.search_spaces.Workload("not/here", (4, False, "x", (1, 2)))
    assert str(workload) == "not/here(4, False, x, (1, 2))"


def test_arguments_that_do_not_fit_are_shown_as_they_are():
    assert str(whet.search_spaces.Workload("matmul", (4,))) == "matmul(4)"
    bad = ("softmax", ((2, 3), 17, "float32"))
    assert str(whet.search_spaces.Workload(*bad)).startswith("softmax((2, 3), 17")


def test_derived_graphs_are_called_after_their_outputs():
    A = te.placeholder((6, 9), name="A")
    B = te.placeholder((9, 5), name="B")
    k = te.reduce_axis((0, 9), name="k")
    mine = te.compute((6, 5), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="mine")
    for outputs, text in (
        (whet.topi.nn.softmax(A), "softmax(6, 9)"),
        (whet.topi.nn.relu(A), "relu(6, 9)"),
        (mine, "mine(6, 9, 5)"),
    ):
        task = whet.create_task(outputs=[outputs], target=CPU)
        assert str(task.workload) == text
        assert str(task) == f"{text} on llvm x86-64-v2, 128 bits, 2 threads"
        assert name_of(task.workload) == text.partition("(")[0]
        assert whet.build(task).entry_name == name_of(task.workload)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (CPU, "llvm x86-64-v2, 128 bits, 2 threads"),
        ("llvm -mcpu=x86-64-v3 -num_threads=1", "llvm x86-64-v3, 256 bits, 1 thread"),
        (
            "llvm -mtriple=aarch64-linux-gnu -num_threads=1",
            "llvm aarch64-linux-gnu generic, 128 bits, 1 thread",
        ),
        ("cuda -arch=sm_90", "cuda sm_90"),
    ],
)
def test_the_short_form_of_a_target(target, text):
    assert whet.Target(target).canonical().short == text


def test_a_task_tells_its_kernels_arguments_and_a_module_its_signature():
    A = te.placeholder((4, 6), name="A")
    W = te.placeholder((3, 6), name="W")
    out = whet.topi.nn.dense(A, W)
    task = whet.create_task(outputs=[out], args=[W, A, out], target=CPU)
    assert ", ".join(map(str, task.kernel_args)) == (
        "W: float32[3, 6], A: float32[4, 6], out T_dense: float32[4, 3]"
    )
    built = whet.build(task)
    assert repr(built) == f"<whet module: dense({', '.join(map(str, task.kernel_args))})>"
    arrays = [np.ones(p.shape, p.dtype) for p in task.kernel_args]
    built(*arrays)
    assert (arrays[2] == 6).all()
    packed = whet.create_task("dense", (4, 8, 8, "float32", (), True), CPU)
    assert "; dense_ahead(weight: float32[8, 8], out weight.packed: " in repr(whet.build(packed))


def test_operators_of_halves_are_named_as_others():
    A = te.placeholder((4, 6), "float16", name="A")
    task = whet.create_task(outputs=[whet.topi.nn.softmax(A)], target=CPU)
    assert str(task.workload) == "softmax(4, 6)"


def test_a_kernel_is_called_after_its_template_or_as_it_is_named():
    task = whet.create_task("matmul", (4, 5, 6), CPU)
    assert whet.build(task).entry_name == "matmul"
    assert whet.build(task, name="mine").entry_name == "mine"
