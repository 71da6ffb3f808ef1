"""Workloads with a dimension of size 0 are measured, compared and built like any other."""

from __future__ import annotations

import numpy as np
import pytest
from autotune_kernels import matmul, panels

import whet
from whet.autotune import create_task, tune
from whet.compiler.errors import SpaceError
from whet.measure import MeasureOptions

QUICK = MeasureOptions(
    build_timeout=60.0, run_timeout=60.0, repeat=2, min_repeat_ms=0.2, max_measure_s=0.01
)


def test_a_search_over_sums_of_nothing(tmp_path):
    task = create_task(panels, (5, 0, 13, (True,)), "llvm")
    found = tune(task, 3, tmp_path / "a.db", progress=False, options=QUICK)
    assert found.outcomes() == {"ok": 3} and task.flop == 0
    assert all(t.result.environment["checked"] for t in found.trials)
    f = whet.build(task, log=tmp_path / "a.db")
    c = np.full((5, 13), np.nan, np.float32)
    f(np.empty((5, 0), np.float32), f.pack_weights(np.empty((0, 13), np.float32)), c)
    assert (c == 0).all()


def test_a_loop_of_no_steps_is_not_a_knob():
    with pytest.raises(SpaceError, match="an extent of 0 cannot be split"):
        create_task(matmul, (0, 8, 16), "llvm")
