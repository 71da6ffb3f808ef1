"""Convolutions for GPUs, weights packed ahead: numbers, launches, predictions, searches."""

from functools import lru_cache

import numpy as np
import pytest
from gpu_checks import TARGET, check, configs_of, convolution, packed

import whet
from whet.compiler import driver
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime import Module
from whet.compiler.target import Target
from whet.measure import MeasureOptions
from whet.measure.gpu.cost.predicted import launched, predicted
from whet.measure.gpu.runner import prepare_reference, run_candidate
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.rules.gpu.conv.winograd import Winograd

_SHAPES = {
    "tiles beyond the edge": ((2, 16, 7, 9, 24, 3, 3, 1, 1), ("bias", "relu"), "float32"),
    "odd channels": ((1, 17, 5, 6, 19, 3, 3, 1, (0, 1, 2, 1)), ("residual",), "float32"),
    "one pixel": ((1, 16, 1, 1, 16, 3, 3, 1, 1), (), "float32"),
    "float16": ((1, 16, 6, 8, 16, 3, 3, 1, 1), ("bias",), "float16"),
}
CASES = {
    f"{layout} {which}": packed(convolution(f"conv2d_{layout}", args, epilogue, dtype))
    for layout in ("nchw", "nhwc")
    for which, (args, epilogue, dtype) in _SHAPES.items()
}
_ALGORITHMS = ("winograd2", "winograd4", "implicit", "direct")
_DEEP = (16, 512, 7, 7, 512, 3, 3, 1, 1)
_SMALL = (1, 16, 6, 5, 17, 3, 3, 1, 1)


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("algorithm", _ALGORITHMS)
@pytest.mark.parametrize("which", CASES)
def test_in_the_emulator(which, algorithm, gpu_full):
    check(CASES[which], configs_of(CASES[which], 1, {"algorithm": algorithm})[-1], full=gpu_full)


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("algorithm", _ALGORITHMS)
@pytest.mark.parametrize("which", CASES)
def test_step_by_step(which, algorithm):
    check(CASES[which], configs_of(CASES[which], 1, {"algorithm": algorithm})[0], "cpu")


@lru_cache
def _made(ahead, algorithm, args=_SMALL, name="conv2d_nchw"):
    """The kernels of the first config of an algorithm: lowered, and their artifact."""
    case = convolution(name, args)
    case = packed(case) if ahead else case
    config, *_ = configs_of(case, 1, {"algorithm": algorithm, "split_k": 1})
    task = whet.create_task(case.name, args=case.args, target=TARGET)
    with task.target:
        module = driver.lower(*task.instantiate(config))
    return module, driver.compile_module(module, task.target)


@pytest.mark.parametrize("algorithm", ("winograd2", "implicit"))
def test_what_is_packed_is_the_algorithms_affair(algorithm):
    """Of transformed weights there is a kernel less in a call; others are packed as they are."""
    winograd = algorithm == "winograd2"
    assert len(launched(_made(True, algorithm)[1])) == (3 if winograd else 1)
    assert len(launched(_made(False, algorithm)[1])) == (4 if winograd else 1)
    f = Module.from_artifact(_made(True, algorithm)[1])
    device, rng = whet.device("cuda-emulator"), np.random.default_rng(0)
    w = rng.standard_normal((17, 16, 3, 3)).astype("float32")
    given = f.pack_weights(whet.nd.array(w, device))
    assert given.device == device
    assert given.shape == ((4, 4, 16, 17) if winograd else (17, 16, 3, 3))
    if not winograd:
        np.testing.assert_array_equal(given.numpy(), w)
    x, out = (whet.nd.array(np.zeros((1, n, 6, 5), "float32"), device) for n in (16, 17))
    said = r"filters.*\(17, 16, 3, 3\).*\(4, 4, 16, 17\)" if winograd else r"packed.*\(17, 16"
    with pytest.raises(ArgumentError, match=f"(?s){said}"):
        f(x, whet.nd.array(w if winograd else w[:2], device), out)


def test_no_pixels_and_no_channels():
    for args in ((0, 3, 5, 5, 2, 3, 3), (1, 0, 5, 5, 2, 3, 3), (1, 3, 5, 5, 0, 3, 3)):
        empty = packed(convolution("conv2d_nchw", args, ("bias",)))
        check(empty, configs_of(empty, 0)[0])


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("which", ("conv2d_nchw", "conv2d_nhwc"))
def test_a_call_does_not_wait_for_the_transform(which):
    """512 channels make 38 MB of transformed weights: most of what a call for 7x7 pixels moves."""
    found = {}
    for ahead in (False, True):
        module, artifact = _made(ahead, "winograd4", _DEEP, which)
        found[ahead] = predicted(module, Target(TARGET), artifact, {})
    assert found[True]["seconds"] < 0.8 * found[False]["seconds"]
    assert found[True]["instructions"] == pytest.approx(found[False]["instructions"], rel=0.3)


def test_a_default_knows_what_is_packed():
    """Of two images, transforming the weights would cost more than fewer multiplications save."""
    args = (2, *_DEEP[1:], 1, 1, "float32", ())
    for ahead, algorithm in ((False, "implicit"), (True, "winograd2")):
        space = whet.create_task("conv2d_nchw", args=(*args, ahead), target=TARGET).config_space
        assert space.default["algorithm"].val == algorithm
    w = Winograd(conv_shape("conv", "NCHW", 16, 512, (7, 7), 512, (3, 3), 1, 1), 4)
    target = Target(TARGET)
    assert w.transforms(target, packed=True) < 0.5 * w.transforms(target)


def test_candidates_are_compared_whatever_their_layout():
    options, device = MeasureOptions(), "cuda-emulator"
    keys = prepare_reference("packed", _made(True, "implicit")[1], options, device)
    assert "packed" in keys
    report = run_candidate(_made(True, "winograd2")[1], options, "packed", None, device)
    assert report.status == "ok" and report.environment["checked"], report.error
    other = run_candidate(_made(False, "winograd2")[1], options, "packed", None, device)
    assert other.status == "ok"


@pytest.mark.gpu_matrix(0)
def test_a_search_runs_to_its_end(tmp_path):
    case, log = packed(convolution("conv2d_nchw", _SMALL)), tmp_path / "a.db"
    task = whet.create_task(case.name, args=case.args, target=TARGET)
    options = MeasureOptions(build_timeout=60.0, run_timeout=30.0)
    found = whet.tune(
        task, 4, log, "random", 1, device="cuda-emulator", options=options, progress=False, seed=1
    )
    assert found.outcomes() == {"ok": 4}
    assert all(t.result.environment["checked"] for t in found.trials)
    f = whet.build(task, log=log, device="cuda-emulator")
    device, rng = whet.device("cuda-emulator"), np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((1, 16, 6, 5), (17, 16, 3, 3)))
    out = whet.nd.array(np.full((1, 17, 6, 5), np.nan, "float32"), device)
    f(whet.nd.array(x, device), f.pack_weights(whet.nd.array(w, device)), out)
    right = case.reference(x.astype("float64"), w.astype("float64"))
    np.testing.assert_allclose(out.numpy(), right, 1e-4, 1e-4 * np.abs(right).max())
