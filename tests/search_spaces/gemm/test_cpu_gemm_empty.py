"""GEMMs with a dimension of extent 0: an empty sum is 0."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_gemm_checks import ONE, TWO, check

import whet
from whet.measure import MeasureOptions

QUICK = MeasureOptions(
    build_timeout=60.0, run_timeout=60.0, repeat=2, min_repeat_ms=0.2, max_measure_s=0.01
)


def _layer(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return data @ weight.T


@pytest.mark.parametrize("target", [ONE, TWO])
@pytest.mark.parametrize("sizes", [(0, 4, 5), (4, 0, 5), (4, 5, 0), (1, 0, 3), (0, 0, 0)], ids=str)
def test_matmul_and_dense(sizes: tuple, target: str) -> None:
    check("matmul", sizes, np.matmul, target=target)
    check("matmul", (*sizes, True, True, "float64"), lambda a, b: a.T @ b.T, target=target)
    steps = ("bias", "relu")
    for packed in (False, True):
        args = (*sizes, "float32", steps, packed)
        check("dense", args, _layer, epilogue=steps, packed=packed, target=target)


@pytest.mark.parametrize("sizes", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (2, 3, 4, 0)], ids=str)
def test_batch_matmul(sizes: tuple) -> None:
    check("batch_matmul", sizes, np.matmul)


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0), (1, 0), (0, 0)], ids=str)
def test_matvec(sizes: tuple) -> None:
    check("matvec", (*sizes, "float32", ("bias",)), np.matmul, epilogue=("bias",))


def test_a_search(tmp_path) -> None:
    task = whet.create_task("dense", args=(3, 0, 5, "float32", (), True), target=ONE)
    assert task.flop == 0 and len(task.config_space) == 1
    log = tmp_path / "a.db"
    found = whet.tune(task, 2, log, progress=False, options=QUICK)
    assert found.outcomes() == {"ok": 1}
    f = whet.build(task, log=log)
    out = np.full((3, 5), np.nan, "float32")
    f(np.empty((3, 0), "float32"), f.pack_weights(np.empty((5, 0), "float32")), out)
    assert (out == 0).all()
