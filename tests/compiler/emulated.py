"""Schedules for GPUs run in the emulator, with all its checks, in several orders of threads."""

import warnings

import aarch64
import numpy as np
from te_check import binds_threads

import whet
from whet.compiler import te
from whet.compiler.emulator import emulator_options
from whet.compiler.te.primitives.auto_bind import AutoBindWarning

TARGET = "cuda -arch=sm_80"
CHECKS = True
ORDERS = ("forwards", "backwards", 5)


def on_device(kernel, arrays, order="forwards"):
    """Call a built module on arrays of the emulator; what they hold afterwards."""
    device = whet.device("cuda-emulator")
    with emulator_options(checks=CHECKS, order=order):
        held = [whet.nd.array(a, device) for a in arrays]
        kernel(*held)
        return [h.numpy() for h in held]


def agree(s, args, inputs, outputs, wanted, target=TARGET, orders=ORDERS, name="kernel", **close):
    """Numbers of a schedule in each order, outputs poisoned; the CUDA C text.

    Args:
        s, args: the schedule and its arguments, inputs first.
        inputs: their arrays.
        outputs: (shape, dtype) of each output.
        wanted: what they should hold.
    """
    kernel = whet.build(s, args, target, name=name)
    for order in orders:
        poison = [np.full(shape, 77, dtype) for shape, dtype in outputs]
        got = on_device(kernel, [*inputs, *poison], order)[len(inputs) :]
        for g, w in zip(got, wanted):
            np.testing.assert_allclose(g, w, **{"rtol": 1e-4, "atol": 1e-4, **close})
    return kernel.get_source("cuda")


SHARE = 12
"""Of so many tests of operators, one runs its operator in the emulator, too; --gpu-full: all."""
chosen = False  # whether the test that runs now does; set by a fixture for all tests


def too(s, args, arrays, result, rtol=1e-5):
    """The emulator and an aarch64 compute what a CPU has computed: in samples of all tests.

    Args:
        s: the schedule, for a GPU or not; if not, loops are bound by themselves.
        args: its arguments, the output last.
        arrays: the inputs.
        result: the output of the CPU.
    """
    aarch64.too(s, args, arrays, result, rtol)
    if not chosen:
        return
    if not binds_threads(s):
        s = te.create_schedule([args[-1].op])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AutoBindWarning)
        kernel = whet.build(s, args, TARGET)
    device = whet.device("cuda-emulator")
    with emulator_options(checks=CHECKS, order="backwards"):
        out = whet.nd.empty(result.shape, str(result.dtype), device)
        kernel(*(whet.nd.array(a, device) for a in arrays), out)
    got, wanted = (x.astype("float64") for x in (out.numpy(), np.asarray(result)))
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0, where=np.isfinite(wanted))))
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol * scale)
