"""Candidates whose weights are packed ahead: packed once, from the numbers that all of them get."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from whet.compiler import driver, te
from whet.compiler.abi.signature import Ahead, BufferParam, KernelSignature
from whet.measure.stage.arguments import COLD, LEAST, Arguments, Call
from whet.measure.stage.builder import Built
from whet.measure.stage.processor import Processor
from whet.measure.stage.runner import RUNNER, Kernel, Measurement, prepare_reference, run_candidate
from whet.measure.stage.stages import run_budget
from whet.measure.values import MeasureOptions

OPTIONS = MeasureOptions(min_repeat_ms=0.1, max_measure_s=0.02, repeat=2)
N, K, M = 5, 7, 13


def artifact(nr: int = 0, right: bool = True, order: str = "AWC"):
    """A matmul; W in panels of ``nr`` columns that are packed ahead, or read as it is."""
    a, w = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="W")
    r = te.reduce_axis((0, K), name="k")
    p = None
    if nr:
        shift = 0 if right else 1
        p = te.compute(
            (-(-M // nr), K, nr),
            lambda jo, k, ji: te.if_then_else(
                jo * nr + ji + shift < M, w[k, jo * nr + ji + shift], 0.0
            ),
            name="P",
        )
    c = te.compute(
        (N, M),
        lambda i, j: te.sum(a[i, r] * (p[j // nr, r, j % nr] if nr else w[r, j]), axis=r),
        name="C",
    )
    s = te.create_schedule(c.op)
    if p is not None:
        s[p].compute_ahead()
    args = {"A": a, "W": w, "C": c}
    return driver.build(s, [args[x] for x in order]).artifact


def _call(size: int) -> Call:
    """A call with an input of its own and packed weights of some bytes."""
    processor, param = Processor(), BufferParam("P", "float32", (size // 4,))
    weights = processor.buffer(param, (size // 4,), np.arange(size // 4, dtype="float32"))
    return Call(("x", weights.array), Arguments({}, 0), [weights])


@pytest.mark.parametrize("size", [256 << 10, (256 << 10) + 36, 3 << 20, 150 << 20])
def test_calls_take_turns_with_copies_of_their_weights(size: int) -> None:
    call, seen = _call(size), []

    def bind(values: tuple) -> Callable[[int], None]:
        return lambda number: seen.append((number, values))

    run = call.in_turns(bind)
    run(3)
    run(600)
    assert [number for number, _ in seen] == [1] * 603
    apart = {values[1].ctypes.data for _, values in seen}
    assert len(apart) * size >= COLD
    assert len({id(values) for _, values in seen}) == len(apart)  # in turn, all of them
    for _, values in seen:
        assert values[0] == "x"
        assert values is call.values or values[1].ctypes.data % 64 == 0
        np.testing.assert_array_equal(values[1], call.values[1])


def test_small_weights_are_at_hand() -> None:
    call, seen = _call(LEAST - 64), []
    run = call.in_turns(lambda values: lambda number: seen.append((number, values)))
    run(9)
    assert [(number, values is call.values) for number, values in seen] == [(9, True)]


def test_an_option_leaves_weights_where_they_are() -> None:
    kernel = Kernel(SIGNATURE, lambda values: lambda number: seen.append(values))
    call, seen = _call(1 << 20), []
    for cold, apart in ((True, 10), (False, 1)):
        seen.clear()
        run = kernel.runs(call, cold)
        for _ in range(10):
            run(1)
        assert len({values[1].ctypes.data for values in seen}) == apart


@pytest.mark.parametrize("reference", [0, 4])
def test_other_layouts_compare_equal(reference: int) -> None:
    key = f"panels of {reference}"
    assert key in prepare_reference(key, artifact(reference), OPTIONS)
    for nr in (0, 1, 4, 8, 16):
        report = run_candidate(artifact(nr), OPTIONS, key)
        assert report.status == "ok" and report.environment["checked"], report
        assert min(report.costs) > 0


def test_a_wrong_layout_is_a_wrong_answer() -> None:
    prepare_reference("as it is", artifact(), OPTIONS)
    report = run_candidate(artifact(8, right=False), OPTIONS, "as it is")
    assert report.status == "wrong_answer" and "C: 65 of 65 numbers differ" in report.error


def test_weights_have_the_numbers_of_their_place() -> None:
    for order in ("AWC", "WCA", "CAW"):
        plain, packed = (artifact(nr, order=order).signatures for nr in (0, 4))
        one = Arguments.places(plain[0], None)
        assert Arguments.places(*packed) == one
        assert [one[k].name for k in range(3)] == list(order)


SIGNATURE = KernelSignature(
    "fake",
    (BufferParam("P", "float32", (8,)), BufferParam("C", "float32", (8,), written=True)),
    ahead=Ahead("fake_ahead", (0,), (0,), (0, 1)),
)
PACKS = KernelSignature(
    "fake_ahead",
    (BufferParam("W", "float32", (8,)), BufferParam("P", "float32", (8,), written=True)),
)


def fake(pack: Callable, run: Callable) -> Kernel:
    def binding(act: Callable) -> Callable[[tuple], Callable[[int], None]]:
        return lambda values: lambda number: [act(*values) for _ in range(number)] and None

    return Kernel(SIGNATURE, binding(run), Kernel(PACKS, binding(pack)))


def test_weights_are_packed_once_before_the_kernel_runs() -> None:
    done: list[str] = []

    def pack(w: np.ndarray, p: np.ndarray) -> None:
        assert np.isfinite(w).all()
        assert np.isnan(p).all() and p.ctypes.data % 64 == 0
        p[:] = w[::-1]
        done.append("pack")

    def run(p: np.ndarray, c: np.ndarray) -> None:
        c[:] = p * 2
        done.append("run")

    report = RUNNER.measure(fake(pack, run), OPTIONS)
    assert report.status == "ok"
    assert done.count("pack") == 1 and done[0] == "pack" and done.count("run") > 1


def test_a_write_beside_a_packed_array_is_seen() -> None:
    def pack(w: np.ndarray, p: np.ndarray) -> None:
        p[:] = w
        ctypes.memset(p.ctypes.data - 4, 0, 4)

    report = RUNNER.measure(fake(pack, lambda p, c: np.copyto(c, p)), OPTIONS)
    assert report.status == "wrong_answer" and "outside of P" in report.error


def test_an_element_that_is_not_packed_shows() -> None:
    def pack(w: np.ndarray, p: np.ndarray) -> None:
        p[1:] = w[1:]

    def all_of_it(w: np.ndarray, p: np.ndarray) -> None:
        p[:] = w

    RUNNER.prepare("all of it", fake(all_of_it, lambda p, c: np.copyto(c, p)), OPTIONS)
    report = RUNNER.measure(fake(pack, lambda p, c: np.copyto(c, p)), OPTIONS, "all of it")
    assert report.status == "wrong_answer" and "1 of 8 numbers differ" in report.error


def test_the_budget_has_room_for_the_weights() -> None:
    small = Built("ok", artifact(0))
    large = Built("ok", artifact(4))
    first, second = (
        run_budget(Measurement(built, OPTIONS, None, 1e-6)) for built in (small, large)
    )
    assert first < second
