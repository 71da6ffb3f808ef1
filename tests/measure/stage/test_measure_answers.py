"""Inputs, walls and the comparison of numbers."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import MeasureError
from whet.measure.pool.gate import Gate
from whet.measure.stage import machine
from whet.measure.stage.arguments import Arguments, stray_writes
from whet.measure.stage.reference import ExpectedOutput
from whet.measure.values import MeasureOptions


def signature(*shapes: tuple[tuple[int | str, ...], str, bool]) -> KernelSignature:
    params = [
        BufferParam(f"b{i}", dtype, shape, out) for i, (shape, dtype, out) in enumerate(shapes)
    ]
    return KernelSignature("k", (*params, ScalarParam("n", "int32")))


def made(wanted: KernelSignature, seed: int) -> Arguments:
    return Arguments(Arguments.places(wanted, None), seed)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5, 7), (1000, 1001)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "bool"])
def test_inputs_are_seeded_aligned_and_read_only(shape: tuple[int, ...], dtype: str) -> None:
    wanted = signature((shape, dtype, False), (shape, dtype, True))
    one, same, other = made(wanted, 1), made(wanted, 1), made(wanted, 2)
    a, out, number = one.at(range(3))
    assert a.shape == out.shape == shape and a.dtype == np.dtype(dtype)
    assert a.ctypes.data % 64 == 0 or a.size == 0
    assert a.flags.c_contiguous and isinstance(number, int)
    np.testing.assert_array_equal(a, same.at([0])[0])
    if a.size > 30:
        assert (a != other.at([0])[0]).any()
        assert 0 < np.abs(a.astype(np.float64)).mean() <= 8
    if dtype.startswith("float"):
        tiny = np.abs(a.astype(np.float64)) < np.finfo(dtype).tiny
        assert not tiny.any() and (np.abs(a) <= 1).all()
    assert stray_writes(one.buffers) == []


def test_outputs_are_poisoned() -> None:
    one = made(signature(((3,), "float32", True), ((3,), "int32", True)), 0)
    one.poison()
    assert np.isnan(one.at([0])[0]).all()
    assert (one.at([1])[0] == 0x5A5A5A5A).all()
    one.poison(finite=True)
    assert np.isfinite(one.at([0])[0]).all()


@pytest.mark.parametrize("offset", [-256, -1, 12, 63])
def test_a_write_beside_a_buffer_is_seen(offset: int) -> None:
    one = made(signature(((3,), "float32", True), ((3,), "float32", True)), 0)
    ctypes.memset(one.at([1])[0].ctypes.data + offset, 0, 1)
    assert stray_writes(one.buffers) == ["memory outside of b1"]


def test_symbolic_shapes_are_refused() -> None:
    with pytest.raises(MeasureError, match="symbolic"):
        made(signature((("n", 3), "float32", False)), 0)


def test_rounding_passes_and_errors_do_not() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.random((64, 4096), np.float32) * 2 - 1 for _ in range(2))
    want = (a * b).sum(axis=1)
    expected = ExpectedOutput("C", want)
    other_order = (a * b)[:, ::-1].cumsum(axis=1)[:, -1]
    assert (other_order != want).any()
    assert expected.difference(other_order) == ""
    left_out = want - a[:, 7] * b[:, 7]  # one of 4096 products is missing
    assert "numbers differ" in expected.difference(left_out)


def test_the_difference_names_place_and_size() -> None:
    want = np.ones((4, 5), np.float32)
    got = want.copy()
    got[2, 3], got[3, 4] = 1.5, np.nan
    text = ExpectedOutput("C", want).difference(got)
    assert "C: 2 of 20" in text and "C[2, 3] = 1.5, expected 1.0" in text
    assert "largest error is 0.5" in text and "1 are NaN" in text


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "uint8"])
def test_integers_are_compared_exactly(dtype: str) -> None:
    want = np.array([0, 1, 1], dtype)
    expected = ExpectedOutput("C", want)
    assert expected.difference(want) == ""
    assert "C[0]" in expected.difference(np.array([1, 1, 1], dtype))


def test_infinities_and_nans_must_be_in_the_same_places() -> None:
    want = np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)
    expected = ExpectedOutput("C", want)
    assert expected.difference(want.copy()) == ""
    assert expected.difference(np.array([np.inf, np.inf, np.nan, 1.0], np.float32)) != ""
    assert expected.difference(np.array([np.inf, -np.inf, 1.0, 1.0], np.float32)) != ""


def test_tolerance_can_be_given() -> None:
    want = np.ones(3)
    assert ExpectedOutput("C", want).difference(want + 1e-6) != ""
    assert ExpectedOutput("C", want, rtol=1e-5).difference(want + 1e-6) == ""


def test_builds_share_the_gate_and_a_lone_measurement_goes_first() -> None:
    gate, events = Gate(), []
    inside, finish = threading.Barrier(3), threading.Event()

    def build(name: str) -> None:
        with gate.building():
            inside.wait(60)  # both builds are inside at once
            finish.wait(60)
            events.append(name)

    def measure() -> None:
        with gate.alone():
            events.append("alone")
            assert gate._building == 0
            events.append("done")

    def late(name: str) -> None:
        with gate.building():
            events.append(name)

    with ThreadPoolExecutor(5) as threads:
        begun = [threads.submit(build, f"build {i}") for i in range(2)]
        inside.wait(60)
        begun.append(threads.submit(measure))
        while not gate._waiting and not begun[-1].done():
            time.sleep(0.001)
        # it waits for the builds, and those that come now wait for it
        begun += [threads.submit(late, f"late {i}") for i in range(2)]
        finish.set()
        for one in begun:
            one.result(60)
    assert sorted(events[:2]) == ["build 0", "build 1"]
    assert events[2:4] == ["alone", "done"]


def test_one_device_is_used_by_one_at_a_time() -> None:
    name = f"test-{time.monotonic_ns()}"
    with (
        machine.exclusive(name, lambda: False),
        pytest.raises(MeasureError, match="waiting for its turn"),
        machine.exclusive(name, lambda: True),
    ):
        raise AssertionError("two at a time")
    with machine.exclusive(name, lambda: True):
        pass  # free again


def test_builders_leave_the_measuring_core_alone_where_there_are_two() -> None:
    cores = machine.builder_cores()
    assert cores
    assert (machine.measuring_core() in cores) == machine.cores_overlap()


def test_options_go_into_a_log() -> None:
    assert MeasureOptions(**MeasureOptions(seed=5).to_json()) == MeasureOptions(seed=5)
