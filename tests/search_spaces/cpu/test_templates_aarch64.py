"""Checks of templates run a sample of their kernels for aarch64, and see what is wrong there."""

import aarch64
import cpu_conv_checks
import cpu_gemm_checks
import cpu_image_checks
import derived_checks
import numpy as np
import pytest
from derived_graphs import CASES

import whet

pytestmark = pytest.mark.skipif(bool(aarch64.missing()), reason=aarch64.missing())


def derived():
    case = next(iter(CASES.values()))()
    task = derived_checks.task_of(case)
    inputs = derived_checks.inputs_of(case, np.random.default_rng(0))
    wanted = case.reference(*(x.astype("float64") for x in inputs))
    derived_checks.check(task, task.config_space.default, inputs, wanted)


def image():
    args = (1, 2, 5, 6, 3, 3, 3, 1, 1)
    task = whet.create_task("conv2d_nhwc", args=args, target="llvm -num-threads=1")

    def reference(x, w):
        x, w = np.moveaxis(x, 3, 1), np.moveaxis(w, (3, 2), (0, 1))
        made = cpu_conv_checks.convolved(x, w, (1, 1), [(1, 1)] * 2, (1, 1), 1)
        return np.moveaxis(made, 1, -1)

    cpu_image_checks.check(task, reference, True, count=0)


CHECKS = {
    "product": lambda: cpu_gemm_checks.check("matmul", (5, 7, 6), lambda a, b: a @ b, count=0),
    "packed": lambda: cpu_gemm_checks.check(
        "dense", (4, 9, 8, "float32", (), True), lambda a, b: a @ b.T, packed=True, count=0
    ),
    "convolution": lambda: cpu_conv_checks.check(
        "conv2d_nchw", (1, 3, 6, 7, 4, 3, 3, 1, 1), count=0
    ),
    "image": image,
    "derived": derived,
}


@pytest.mark.parametrize("what", CHECKS)
def test_a_template_is_right_there_and_a_fault_is_seen(what, monkeypatch):
    monkeypatch.setattr(aarch64, "chosen", True)
    asked = []
    call = aarch64.Kernel.__call__

    def counted(self, *args):
        asked.append(self.name)
        call(self, *args)

    monkeypatch.setattr(aarch64.Kernel, "__call__", counted)
    CHECKS[what]()
    assert asked
    monkeypatch.setattr(aarch64.Kernel, "__call__", lambda self, *args: None)
    with pytest.raises(AssertionError, match=r"(?i)not equal|mismatch"):
        CHECKS[what]()
