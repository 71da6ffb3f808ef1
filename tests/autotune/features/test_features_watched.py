"""Loop features from a worker: what a template does to its process costs one row."""

from __future__ import annotations

import ctypes
import os
import time

import numpy as np
import pytest

import whet
from whet import te
from whet.autotune.features import LoopFeatures, WatchedFeatures
from whet.autotune.features.watched import LOST


@whet.template("test/harmful")
def harmful(n):
    cfg = whet.get_config()
    cfg.define_knob("how", ["plain", "vector", "raise", "hang", "crash", "hog", "exit"])
    cfg.define_knob("factor", [4])
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=cfg["factor"].val)
    how = cfg["how"].val
    if how == "vector":
        s[B].vectorize(inner)
    elif how == "raise":
        raise ValueError(how)
    elif how == "crash":
        ctypes.string_at(0)
    elif how == "hog":
        bytearray(1 << 50)
    elif how == "exit":
        os._exit(3)
    while how == "hang":
        time.sleep(0.01)
    return s, [A, B]


def points_of(space):
    return np.array([space.encode(config) for config in space], dtype=np.int64)


def test_each_fault_costs_one_row_and_the_others_are_right():
    task = whet.create_task(harmful, (64,), target="llvm")
    points = points_of(task.config_space)
    watched = WatchedFeatures(task)
    rows = watched.of_points(points)
    works = points[:, 0] < 2
    assert not np.isnan(rows[works]).any()
    assert np.isnan(rows[~works]).all()
    np.testing.assert_array_equal(rows[works], LoopFeatures(task).of_points(points[works]))
    assert watched.lost == 2  # it crashes, and it exits
    assert np.array_equal(watched.of_points(points), rows, equal_nan=True)
    assert watched.lost == 2


@whet.template("test/always_harmful")
def always_harmful(n):
    cfg = whet.get_config()
    cfg.define_knob("which", list(range(3 * LOST)))
    if cfg["which"].val:
        os._exit(1)
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    return te.create_schedule(B.op), [A, B]


@pytest.mark.parametrize("first", [0, LOST])
def test_a_template_that_takes_many_workers_down_is_asked_no_more(first):
    task = whet.create_task(always_harmful, (64,), target="llvm")
    points = points_of(task.config_space)
    watched = WatchedFeatures(task)
    watched.lost = first
    rows = watched.of_points(points[:2] if first else points)
    assert watched.lost == LOST
    assert (rows[-1] == 0).all()
