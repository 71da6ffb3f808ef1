"""The quickstart, with small kernels: what it prints, what it logs, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import whet
from whet import quickstart
from whet.compiler.errors import MeasureError

SMALL = """
import sys
from whet import quickstart
quickstart.MATMUL = ("matmul", (33, 32, 34))
quickstart.CONVOLUTION = ("conv2d_nchw", (1, 4, 9, 8, 8, 3, 3, 1, 1))
quickstart.CODES = (9, 11, 3)
quickstart.ROUNDS, quickstart.ROUND_SECONDS = 3, 0.001
sys.exit(quickstart.main(sys.argv[1:]))
"""


def run(folder, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SMALL, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_it_tunes_builds_from_the_log_and_compares(tmp_path):
    first = run(tmp_path, "--trials", "3")
    assert first.returncode == 0, first.stdout + first.stderr
    for said in ("matmul(33, 32, 34", "conv2d_nchw(1, 4, 9, 8", "GFLOP/s", "of the peak"):
        assert said in first.stdout
    assert first.stdout.count("agrees with numpy") == 6
    rows = [line for line in first.stdout.splitlines() if line.startswith("│")]
    programs = [line.split("│")[2].strip().partition(":")[0] for line in rows]
    both = ["default config", "tuned"]
    assert programs == [*both, "numpy", *both, *both, "numpy"]
    assert first.stdout.count("starting the workers") == 0  # progress is on standard error
    worth = first.stdout.partition("what the search was worth:\n")[2].splitlines()
    assert [line.split("(")[0].strip() for line in worth] == [
        "matmul", "conv2d_nchw", "differing_bits",
    ]  # fmt: skip
    assert all(" over the default config" in line for line in worth)
    assert "(without a template)" in worth[2] and "x numpy" in worth[2]
    with whet.TuningLog(tmp_path / "whet.db", write=False) as log:
        assert [len(log.trials(workload=w)) >= 3 for w in log.workloads()] == [True] * 3
        before = len(log.trials())

    again = run(tmp_path, "--trials", "3")
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("agrees with numpy") == 6
    assert "starting the workers" not in again.stderr
    with whet.TuningLog(tmp_path / "whet.db", write=False) as log:
        assert len(log.trials()) == before


@pytest.mark.parametrize(("kept", "said"), [(True, "nothing"), (False, "1.25x")])
def test_a_default_that_won_is_no_faster_than_itself(kept, said, capsys):
    task = whet.create_task("matmul", args=(8, 8, 8), target="llvm")
    default, tuned, _ = quickstart.candidates(task, whet.build(task), whet.build(task), kept)
    default.seconds, tuned.seconds = [1.25], [1.0]
    capsys.readouterr()
    quickstart.say_worth([default, tuned])
    assert f": {said} over the default config" in capsys.readouterr().out


def test_bad_input_is_explained(tmp_path, capsys):
    for words, code, said in (
        (("--trials", "0"), 1, "at least 1"),
        (("--trials", "few"), 2, "not a valid integer"),
        (("--log", str(tmp_path / "no" / "such.db")), 1, "LogError"),
    ):
        assert quickstart.main(words) == code
        text = capsys.readouterr().err
        assert said in text and "Traceback" not in text


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (1, 1), (2, 1), (3, 2), ((2, 1), (0, 2))])
def test_the_reference_convolution_against_loops(stride, padding):
    rng = np.random.default_rng(0)
    data = rng.integers(-4, 5, (2, 3, 7, 6)).astype("float32")
    weight = rng.integers(-4, 5, (4, 3, 3, 2)).astype("float32")
    args = (2, 3, 7, 6, 4, 3, 2, stride, padding)
    task = whet.create_task("conv2d_nchw", args=args, target="llvm")
    exact, terms, scale = quickstart.reference(task, [data, weight])

    (sh, sw), (ph, pw) = (v if isinstance(v, tuple) else (v, v) for v in (stride, padding))
    oh, ow = (7 + 2 * ph - 3) // sh + 1, (6 + 2 * pw - 2) // sw + 1
    slow = np.zeros((2, 4, oh, ow))
    for n, o, y, x, c, i, j in np.ndindex(2, 4, oh, ow, 3, 3, 2):
        row, column = y * sh + i - ph, x * sw + j - pw
        if 0 <= row < 7 and 0 <= column < 6:
            slow[n, o, y, x] += data[n, c, row, column] * weight[o, c, i, j]
    assert exact.shape == slow.shape
    assert (exact == slow).all()
    assert terms == 18
    assert (scale >= abs(exact)).all()


def test_the_reference_distances_against_counting():
    rng = np.random.default_rng()
    a, b = (quickstart.drawn(rng, (n, 3), "int32") for n in (5, 7))
    a[0], b[0] = -1, 0  # all bits differ
    counted = [[sum((int(x) ^ int(y)) & (1 << k) != 0 for x, y in zip(p, q) for k in range(32))
                for q in b] for p in a]  # fmt: skip
    assert counted[0][0] == 96
    assert quickstart.distances(a, b).tolist() == counted
    assert quickstart.distances_by_numpy(a, b).tolist() == counted


def test_a_wrong_result_is_refused():
    exact, scale = np.ones((4, 4)), np.ones((4, 4))
    right = exact.astype("float32")
    quickstart.check("it", right, exact, 8, scale)
    for wrong in (1.0001, np.nan, np.inf):
        result = right.copy()
        result[2, 3] = wrong
        with pytest.raises(MeasureError, match=r"1 of 16 elements are wrong"):
            quickstart.check("it", result, exact, 8, scale)
    whole = np.ones((4, 4), "int32")
    quickstart.check("it", whole, whole.astype("int64"), 0, 0)
    with pytest.raises(MeasureError, match=r"16 of 16 elements are wrong"):
        quickstart.check("it", whole + 1, whole.astype("int64"), 0, 0)
