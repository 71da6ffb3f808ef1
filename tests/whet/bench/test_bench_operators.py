"""`whet.bench`: references agree with the kernels of default configs and with the peers."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest

import whet
from whet.bench.arguments import arrays_of, call_of
from whet.bench.check import error_of
from whet.bench.contest import compare
from whet.bench.cpu import libraries as peers_module
from whet.bench.cpu import onnx_runtimes
from whet.bench.cpu.libraries import peers_of
from whet.bench.cpu.place import cores
from whet.bench.operators.onnx_models import MODELS
from whet.bench.operators.operator import Peers
from whet.bench.operators.table import REFERENCES, by_name, expected, laid_out
from whet.compiler import settings
from whet.search_spaces.values.builtin import BUILTIN

EPILOGUE = ("bias", "residual", ("clip", -0.5, 0.75))
PLAIN = (1, 1, "float32", (), False)

SMALL = {
    "matmul": [(5, 7, 9), (4, 6, 8, True, True), (8, 5, 24, False, False, "float32", EPILOGUE)],
    "batch_matmul": [(2, 5, 3, 7, False, True)],
    "dense": [(3, 5, 17, "float32", ("bias", "relu"), True)],
    "matvec": [(17, 33)],
    "conv2d_nchw": [
        (1, 3, 9, 8, 5, 3, 3, 2, 1),
        (1, 4, 7, 7, 6, 3, 2, 1, (1, 0, 0, 2), 2, 2, "float32", EPILOGUE, True),
    ],
    "conv2d_nhwc": [(1, 3, 9, 8, 5, 3, 3, 2, 1, *PLAIN[:3], ("bias", "silu"), True)],
    "conv2d_nchwc": [(1, 8, 6, 6, 16, 3, 3, 1, 1, 1, 1, "float32", ("bias",), False, 8)],
    "conv1d_ncw": [(2, 3, 11, 4, 3, 2, 1)],
    "conv3d_ncdhw": [(1, 2, 5, 6, 4, 3, 2, 3, 3, 1, 1)],
    "conv2d_transpose_nchw": [(1, 3, 5, 4, 2, 3, 3, 2, 1, 1)],
    "depthwise_conv2d_nchw": [(1, 3, 9, 8, 3, 3, 2, 1, 1, 2)],
    "depthwise_conv2d_nhwc": [(1, 5, 9, 8, 3, 3, 1, 1, 1, 1, "float32", ("bias", "relu"), True)],
    "softmax": [((3, 11), -1)],
    "log_softmax": [((3, 11), 0)],
    "layer_norm": [((3, 4, 5), (-2, -1))],
    "rms_norm": [((3, 11),)],
    "batch_norm": [((2, 3, 4, 5),)],
    "bias_gelu": [((3, 11),)],
    "add": [((3, 11), (1, 11))],
    "sum": [((3, 4, 5), (0, 2)), ((3, 4), None)],
    "mean": [((3, 4, 5), (1,))],
    "max": [((3, 4, 5), (1,))],
    "min": [((3, 4, 5), (1,))],
    "argmax": [((3, 11), 1)],
    "argmin": [((3, 11), 0)],
    "cumsum": [((3, 11), 1)],
    "max_pool2d": [((1, 2, 7, 6), (3, 2), (2, 1), (1, 0))],
    "avg_pool2d": [((1, 2, 7, 6), (3, 2), (2, 1), (1, 0)), ((1, 1, 5, 5), 3, 2, 1, True)],
    "global_avg_pool2d": [((1, 2, 7, 6),)],
    "adaptive_avg_pool2d": [((1, 2, 7, 6), (3, 4)), ((2, 1, 6, 8), 2)],
    "resize2d": [
        ((1, 2, 5, 9), (11, 6)),
        ((1, 2, 5, 9), (3, 1), "linear", "pytorch_half_pixel"),
        ((1, 2, 5, 6), (7, 4), "linear", "align_corners"),
        ((1, 2, 5, 6), (10, 4), "nearest_neighbor"),
        ((1, 2, 5, 6), (7, 4), "nearest_neighbor", "asymmetric"),
    ],
    "layout_transform": [
        ((1, 16, 3, 5), "NCHW", "NCHW8c"),
        ((2, 3, 4, 5, 4), "NCHW4c", "NHWC"),
        ((2, 3, 4, 5, 4), "NCHW4c", "NCHW6c"),
    ],
    "transpose": [((3, 4, 5), (2, 0, 1))],
    "concatenate": [(((3, 4), (3, 2)), 1)],
    "gather": [((5, 6), (4, 6), 0)],
    "take": [((5, 6), (3,), 0)],
    "pad": [((3, 4), (1, 0), (2, 2), "constant", 1.5)],
}
"""For each operator, arguments of a template that make a quick kernel."""
LEFT_OUT = ("layer_norm", "layout_transform", "resize2d")
"""Operators that PyTorch does not have, or not with all these arguments."""
CASES = [(name, args) for name, many in SMALL.items() if name in BUILTIN for args in many]


def task_of(name, args):
    return whet.create_task(name, args=args, target="llvm -num_threads=1")


def test_every_operator_with_a_reference_is_tried():
    assert set(SMALL) == set(REFERENCES)
    assert set(SMALL) <= set(BUILTIN)


@pytest.mark.parametrize(("name", "args"), CASES)
def test_a_reference_is_what_the_kernel_computes(name, args):
    task = task_of(name, args)
    arrays = arrays_of(task)
    right = expected(task, arrays.inputs)
    assert right is not None and len(right) == len(arrays.outputs)
    call_of(whet.build(task), arrays.values)()
    assert error_of(name, arrays.outputs, right) < 1e-5


@pytest.mark.parametrize(("name", "args"), CASES)
def test_peers_compute_the_same(name, args, monkeypatch):
    monkeypatch.setattr(peers_module, "numpy_threads", lambda: 1)
    task = task_of(name, args)
    arrays = arrays_of(task)
    right = expected(task, arrays.inputs)
    found = peers_of(1, task, arrays.inputs, compiled=False)
    for peer, call in found.calls.items():
        made = laid_out(task, call())
        assert error_of(f"{name}, {peer}", made, right) < 1e-4
    held = settings.cpu_level()  # by which the runtimes cannot be held back, and are left out
    if find_spec("onnx") and name in MODELS and name not in LEFT_OUT and not held:
        for library in filter(find_spec, ("onnxruntime", "openvino")):
            assert any(peer.startswith(library) for peer in found.calls), found.left_out
    if find_spec("torch") is not None and name not in LEFT_OUT:
        assert any(peer.startswith("torch") for peer in found.calls), found.left_out


def test_inputs_are_seeded_and_outputs_spoiled():
    task = task_of("take", ((5, 6), (300,), 0))
    first, again = arrays_of(task), arrays_of(task)
    data, places, out = first.values
    assert np.array_equal(data, again.values[0]) and np.array_equal(places, again.values[1])
    assert set(places) == set(range(5)) and np.isnan(out).all()
    assert not np.array_equal(data, arrays_of(task, seed=1).values[0])
    assert [a.shape for a in first.inputs] == [(5, 6), (300,)]


def test_large_inputs_repeat_themselves(monkeypatch):
    monkeypatch.setattr("whet.bench.arguments.PERIOD", 7)
    x, y, out = arrays_of(task_of("add", ((3, 5), (1, 5)))).values
    assert len(set(x.flat)) == 7 and (x.flat[7:14] == x.flat[:7]).all() and x.flat[14] == x.flat[0]
    assert len(set(y.flat)) == 5 and np.isnan(out).all()


def test_arguments_have_names_and_defaults():
    a = by_name(task_of("matmul", (2, 3, 4)))
    assert (a.N, a.M, a.transpose_a, a.dtype, a.packed) == (2, 4, False, "float32", False)


def test_a_peer_that_fails_is_noted_and_no_contestant():
    def broken():
        raise RuntimeError("no such backend\nand more")

    found = Peers()
    found.add("a", lambda: broken)
    found.add("b", broken)
    found.add("c", lambda: lambda: 1, packed=True)
    assert list(found.calls) == ["c"] and found.packed == {"c"}
    assert found.left_out == ["a: no such backend", "b: no such backend"]


def test_without_pytorch_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr(peers_module, "find_spec", lambda name: None)
    task = task_of("matmul", (5, 7, 9))
    (said,) = [w for w in peers_of(1, task, arrays_of(task).inputs).left_out if "torch" in w]
    assert said.startswith("torch: PyTorch is not installed: pip install ") and "[bench]" in said


def test_runtimes_that_are_not_here_are_named(monkeypatch):
    task = task_of("softmax", ((3, 11), -1))
    inputs = arrays_of(task).inputs
    monkeypatch.setattr(onnx_runtimes, "find_spec", lambda name: None)
    said = peers_of(1, task, inputs, compiled=False).left_out
    assert any(w.startswith("onnxruntime: onnx is not installed: pip install ") for w in said)
    assert any(w.startswith("openvino: onnx is not installed: pip install ") for w in said)
    monkeypatch.setattr(onnx_runtimes, "find_spec", lambda name: True)
    monkeypatch.setattr(onnx_runtimes.settings, "cpu_level", lambda: "x86-64-v3")
    said = peers_of(1, task, inputs, compiled=False).left_out
    assert "openvino: nothing keeps it from this machine's wider vectors" in said


def test_wrong_numbers_are_refused():
    right = (np.array([1.0, 2.0]),)
    assert error_of("k", (np.array([1.0, 2.0001], np.float32),), right) == pytest.approx(
        5e-5, rel=0.1
    )
    with pytest.raises(whet.MeasureError, match=r"k: its worst element is wrong by 0\.5 of the"):
        error_of("k", (np.array([1.0, 1.0], np.float32),), right)
    with pytest.raises(whet.MeasureError, match="wrong by nan"):
        error_of("k", (np.array([1.0, np.nan], np.float32),), right)
    with pytest.raises(whet.MeasureError, match=r"the shape \(3,\), not \(2,\)"):
        error_of("k", (np.zeros(3, np.float32),), right)
    with pytest.raises(whet.MeasureError, match="0 is allowed"):
        error_of("k", (np.array([1, 3], np.int32),), (np.array([1, 2]),))


def test_every_named_template_has_a_reference():
    assert set(REFERENCES) == set(BUILTIN)


@pytest.mark.parametrize(
    ("name", "args", "shape"),
    [
        ("max", ((0, 5), (0,)), r"\(0, 5\)"),
        ("argmax", ((0, 5), 1), r"\(0, 5\)"),
        ("max_pool2d", ((0, 3, 8, 8), 2, 2), r"\(0, 3, 8, 8\)"),
        ("softmax", ((0, 5),), r"\(0, 5\)"),
    ],
)
def test_what_has_no_elements_is_not_compared(name, args, shape):
    task = task_of(name, args)
    kernel = whet.build(task)
    with pytest.raises(whet.MeasureError, match=rf"tensor 0 has the shape {shape}: 0 elements"):
        compare(cores(1), task, {"default": kernel}, rounds=1, compiled=False)


def test_a_contest_has_everyone_in_it(monkeypatch):
    monkeypatch.setattr(peers_module, "numpy_threads", lambda: 1)
    monkeypatch.setattr("whet.bench.cpu.place.MOMENT", 1e-4)
    task = task_of("matmul", (6, 5, 16, False, False, "float32", (), True))
    kernel = whet.build(task)
    found = compare(cores(1), task, {"default": kernel, "tuned": kernel}, rounds=3, compiled=False)
    assert found.ours == ("default", "tuned") and {"default", "tuned", "numpy"} <= set(
        found.samples
    )
    assert all(len(s.seconds) == 3 and s.best > 0 for s in found.samples.values())
    assert min(len(found.peaks), len(found.streams)) >= 3 and min(found.peaks) > 1e8
    assert (found.flop, found.read, found.written) == (960, 4 * (30 + 80), 4 * 96)
    assert found.errors["tuned"] < 1e-5 and found.threads == 1
    assert found.environment["cpus"] >= 1 and found.environment["load"] >= 0
    if "torch" in sys.modules:
        assert found.packed <= set(found.samples)
