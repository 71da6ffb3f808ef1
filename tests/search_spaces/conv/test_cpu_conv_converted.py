"""Channels first, computed with the channels last: numbers, and squares in registers."""

from __future__ import annotations

import re

import pytest
from cpu_conv_checks import check
from cpu_gemm_checks import TWO, drawn

import whet
from whet.compiler import driver
from whet.search_spaces.template import instantiate
from whet.search_spaces.values import Config

CASES = [
    (1, 20, 9, 9, 24, 3, 3, 1, 1),
    (2, 7, 8, 19, 11, 3, 3, 2, 1),
    (3, 6, 14, 9, 12, 3, 5, 1, (2, 1), (2, 1), 3),
    (1, 3, 31, 29, 8, 7, 7, 2, 3),
    (2, 32, 7, 7, 64, 1, 1),
    (1, 16, 5, 4, 16, 1, 7, 1, (0, 3)),
    (1, 1, 3, 3, 1, 3, 3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers(case):
    check("conv2d_nchw", case, algorithm="channels_last", count=2)
    check("conv2d_nchw", case, algorithm="channels_last", count=1, target=TWO)


def test_numbers_in_float64_packed_and_with_an_epilogue():
    more = {"epilogue": ("bias", "relu"), "packed": True, "algorithm": "channels_last"}
    for case in CASES[:3]:
        check("conv2d_nchw", case, dtype="float64", count=1, **more)
        check("conv2d_nchw", case, count=1, target=TWO, **more)
    check("conv2d_nchw", CASES[4], epilogue=("residual",), algorithm="channels_last", count=1)


@pytest.mark.parametrize("case", [(2, 12, 37, 20, 5, 2, 2, 2), (1, 17, 40, 16, 1)], ids=str)
def test_rows(case):
    check("conv1d_ncw", case, algorithm="channels_last", count=2)


def _of(target: str, name: str, args: tuple, algorithm: str, **wanted: object) -> str:
    """The lowered text of one config of an algorithm."""
    task = whet.create_task(name, args=args, target=target)
    config = next(
        c for c in drawn(task, 400)
        if c["algorithm"].val == algorithm and all(c[k].val == v for k, v in wanted.items())
    )  # fmt: skip
    return _lowered(task, config)


def _lowered(task: whet.Task, config: Config) -> str:
    with task.target:
        s, args = instantiate(task.workload, config)
        return str(driver.lower(s, args))


@pytest.mark.parametrize(("level", "side"), [("v2", 4), ("v3", 8), ("v4", 16)])
def test_images_weights_and_results_are_transposed_in_registers(level, side):
    """No vector is gathered from the image, nor scattered into the result."""
    args = (1, 32, 16, 16, 48, 3, 3, 1, 1)
    target = f"llvm -mcpu=x86-64-{level} -num_threads=1"
    text = _of(target, "conv2d_nchw", args, "channels_last")
    for name, stride in (("data", 256), ("weight", 288)):
        reads = re.findall(rf"\b{name}\[ramp\(.*?, (\d+), (\d+)\)\]", text)
        assert reads and all(step == "1" for step, _ in reads), (name, stride)
    assert "shuffle(" in text
    stored = re.findall(r"\bconv\[ramp\(.*?, (\d+), (\d+)\)\] = ", text)
    assert set(stored) == {("1", str(side))}


@pytest.mark.parametrize("algorithm", ["winograd2", "winograd4"])
def test_winograd_reads_whole_vectors_of_copies(algorithm):
    """Gathers that each place of a transform unrolled were most of LLVM's time."""
    args = (1, 32, 16, 16, 48, 3, 3, 1, 1)
    target = "llvm -mcpu=x86-64-v4 -num_threads=1"
    text = _of(target, "conv2d_nchw", args, algorithm)
    for name in ("data", "weight", "image", "weights"):
        reads = re.findall(rf"\b{name}\[ramp\(.*?, (\d+), (\d+)\)\]", text)
        assert reads and all(step == "1" for step, _ in reads), name


@pytest.mark.parametrize(
    ("case", "wide"),
    [
        ((1, 64, 7, 7, 32, 1, 1), 64),
        ((1, 8, 9, 9, 32, 3, 3, 2, 1), 72),
        ((1, 5, 9, 9, 32, 3, 3), 45),
    ],
    ids=str,
)
def test_panels_are_packed_by_squares_along_all_steps(case, wide):
    """The steps of a sum lie side by side in OIHW, whatever the window; odd ends are shifted."""
    target = "llvm -mcpu=x86-64-v3 -num_threads=1"
    task = whet.create_task("conv2d_nchw", args=case, target=target)
    config = next(
        c for c in drawn(task, 600)
        if c["algorithm"].val == "direct" and c["tile"].val[:2] == ("channels", 16)
    )  # fmt: skip
    text = _lowered(task, config)
    packing = text[: text.index("conv[")].split("packed = allocate")[1]
    reads = re.findall(r"\bweight\[ramp\(.*?, (\d+), (\d+)\)\]", packing)
    assert reads and {step for step, _ in reads} == {"1"}
    assert re.search(rf"in range\({-(-wide // 8)}\)", packing)


@pytest.mark.parametrize("algorithm", ["direct", "im2col"])
def test_threads_share_images_and_tiles_evenly(algorithm):
    """A loop of each image alone would be begun anew for each, or have too few steps."""
    args = (6, 8, 12, 12, 16, 3, 3, 1, 1)
    order = {"outer": "rows", "pad_at": "image"} if algorithm == "direct" else {}
    wanted = {"parallel": True, "grain": 0, **order}
    text = _of("llvm -mcpu=x86-64-v3 -num_threads=2", "conv2d_nchw", args, algorithm, **wanted)
    computing = text[text.index("packed[") :]
    shares = [int(n) for n in re.findall(r"in parallel\((\d+)\)", computing)]
    assert shares and max(shares) % 6 == 0
    assert "for b in range(6)" not in computing
