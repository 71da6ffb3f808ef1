"""Named templates at small sizes, each with numpy's answer in float64 as `whet bench` has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import whet
from whet.autotune.tasks.task import Task
from whet.bench.operators.table import expected
from whet.search_spaces import get_template


@dataclass(frozen=True)
class Case:
    """A template, its arguments, and what numpy makes of its inputs."""

    name: str
    args: tuple
    tolerance: float = 2e-6

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """The right output of inputs in float64."""
        template = get_template(self.name)
        task = Task(template.workload(*self.args), whet.Target("llvm"), template)
        right = expected(task, inputs)
        assert right is not None
        return np.asarray(right[0])


CASES: dict[str, Case] = {
    "softmax": Case("softmax", ((13, 77),)),
    "softmax over columns": Case("softmax", ((33, 21), 0)),
    "softmax of the middle": Case("softmax", ((3, 17, 9), 1)),
    "softmax of size 1": Case("softmax", ((5, 1),)),
    "log_softmax": Case("log_softmax", ((7, 130),)),
    "layer_norm": Case("layer_norm", ((9, 101),), 5e-6),
    "layer_norm of two": Case("layer_norm", ((4, 6, 17), (1, 2)), 5e-6),
    "layer_norm of columns": Case("layer_norm", ((40, 19), (0,)), 5e-6),
    "rms_norm": Case("rms_norm", ((11, 67),)),
    "batch_norm": Case("batch_norm", ((2, 5, 6, 7),), 5e-6),
    "bias_gelu": Case("bias_gelu", ((9, 37),)),
    "add": Case("add", ((5, 1, 9), (7, 1))),
    "transpose": Case("transpose", ((45, 70),)),
    "transpose of squares": Case("transpose", ((64, 32),)),
    "transpose of three": Case("transpose", ((5, 33, 18), (1, 2, 0))),
    "transpose of doubles": Case("transpose", ((24, 40), None, "float64")),
    "sum over rows": Case("sum", ((130, 45), 0)),
    "sum over columns": Case("sum", ((45, 130), 1)),
    "sum of all": Case("sum", ((37, 61),)),
    "sum of few": Case("sum", ((3, 1), 0)),
    "sum over the outer": Case("sum", ((9, 20, 31), (0, 2))),
    "mean": Case("mean", ((20, 33), -1)),
    "max": Case("max", ((7, 90), 1)),
    "min": Case("min", ((90, 33), 0)),
    "argmax": Case("argmax", ((11, 70),)),
    "argmin": Case("argmin", ((70, 11), 0)),
    "cumsum": Case("cumsum", ((5, 67),)),
    "cumsum over rows": Case("cumsum", ((21, 35), 0)),
    "max_pool2d": Case("max_pool2d", ((2, 3, 13, 15), 3, 2, 1)),
    "avg_pool2d": Case("avg_pool2d", ((1, 4, 12, 11), 2, 2)),
    "avg_pool2d of the edge": Case("avg_pool2d", ((1, 2, 9, 9), 3, 1, 1)),
    "global_avg_pool2d": Case("global_avg_pool2d", ((2, 9, 7, 7),)),
    "adaptive_avg_pool2d": Case("adaptive_avg_pool2d", ((1, 3, 8, 8), 2)),
    "gather": Case("gather", ((6, 9), (4, 9))),
    "take": Case("take", ((6, 33), (4, 3))),
    "concatenate": Case("concatenate", (((4, 9), (4, 17), (4, 1)), 1)),
    "pad": Case("pad", ((6, 9), (1, 2))),
    "pad by reflection": Case("pad", ((6, 9), (1, 2), (0, 3), "reflect")),
    "resize2d": Case("resize2d", ((1, 2, 5, 9), (11, 6))),
    "layout_transform": Case("layout_transform", ((1, 16, 5, 6), "NCHW", "NCHW8c")),
}
"""Name -> a case."""
