"""Shared by the tests of derived spaces: a task of a graph, its inputs, one config's numbers."""

from __future__ import annotations

import aarch64
import numpy as np
from derived_graphs import Case

import whet
from whet.autotune.tasks.task import Task
from whet.search_spaces import Config

TARGET = {"kind": "llvm", "num_threads": 2}


def task_of(case: Case, target=TARGET) -> Task:
    return whet.create_task(outputs=[case.args[-1]], args=case.args, target=target)


def inputs_of(case: Case, rng: np.random.Generator) -> list[np.ndarray]:
    """Random inputs; small ones for integers, so that nothing overflows."""
    out = []
    for t in case.args[:-1]:
        shape = [int(d) for d in t.shape]
        values = rng.integers(-9, 9, shape) if "int" in t.dtype else rng.standard_normal(shape)
        out.append(values.astype(t.dtype))
    return out


def check(task: Task, config: Config, inputs: list[np.ndarray], wanted: np.ndarray) -> None:
    schedule, args = task.instantiate(config)
    kernel = whet.build(schedule, args, task.target)
    compared(kernel, args, config, inputs, wanted)
    if aarch64.chosen_instead_of(task.target):
        compared(aarch64.build(schedule, args), args, config, inputs, wanted)


def compared(kernel, args, config: Config, inputs: list[np.ndarray], wanted: np.ndarray) -> None:
    dtype = args[-1].dtype
    result = np.full(wanted.shape, 77, dtype)
    kernel(*inputs, result)
    exact = {"float32": 2e-5, "float64": 1e-12}.get(dtype, 0.0)
    scale = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(result, wanted, rtol=0, atol=exact * scale, err_msg=str(config))
