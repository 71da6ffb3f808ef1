"""Shared by the tests of operators: an operator's numbers beside a reference in float64."""

import aarch64
import emulated
import numpy as np

from whet.compiler import te, topi
from whet.compiler.driver import build


def drawn(*shape, dtype="float32", seed=0):
    """Seeded numbers; small whole ones for integers."""
    rng = np.random.default_rng(seed)
    if dtype.startswith("int"):
        return rng.integers(-9, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def holds(make, wanted, *arrays, tolerance=0.0, gpu=True):
    """Assert that an operator computes the expected arrays; outputs are poisoned before.

    ``gpu=False``: its loops are written by hand, for the host.
    """
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"x{k}") for k, a in enumerate(arrays)]
    out = make(*tensors)
    wanted = np.asarray(wanted)
    assert tuple(int(d) for d in out.shape) == wanted.shape
    got = np.full(wanted.shape, np.nan if "float" in out.dtype else 77, out.dtype)
    schedule = te.create_schedule([out.op])
    for stage in schedule.stages:  # as a user would: what is cheap is computed where it is read
        if stage.op is not out.op and getattr(stage.op, "axis", None) and not stage.op.reduce_axis:
            stage.compute_inline()
    build(schedule, [*tensors, out])(*arrays, got)
    if not gpu:
        aarch64.too(schedule, [*tensors, out], arrays, got)
    else:
        emulated.too(schedule, [*tensors, out], arrays, got)
    scale = max(1.0, float(np.abs(wanted.astype("float64")).max(initial=0)))
    np.testing.assert_allclose(got.astype("float64"), wanted, rtol=0, atol=tolerance * scale)


def results(make, *arrays):
    """An operator's result for arrays, outputs poisoned before."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"x{k}") for k, a in enumerate(arrays)]
    made = make(*tensors)
    made = list(made) if isinstance(made, (list, tuple)) else [made]
    out = [np.full([int(d) for d in t.shape], 77, t.dtype) for t in made]
    schedule = te.create_schedule([t.op for t in made])
    build(schedule, [*tensors, *made], "llvm -num_threads=2")(*arrays, *out)
    return out if len(out) > 1 else out[0]


__all__ = ["drawn", "holds", "results", "topi"]
