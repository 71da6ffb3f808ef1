"""Checks that the tests of TVM's pages share."""

from typing import Any

import numpy as np

import whet as tvm

CPU = "llvm -num_threads=2"
ORDERS = ("forwards", 5)


def close(kernel: Any, given: Any, wanted: Any, dtype: str = "float32") -> None:
    """The kernel gives the wanted arrays for those given, on the CPU, in poisoned outputs."""
    outs = [tvm.nd.array(np.full(w.shape, 77, dtype)) for w in wanted]
    kernel(*(x if np.isscalar(x) else tvm.nd.array(x) for x in given), *outs)
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for out, want in zip(outs, wanted, strict=True):
        tvm.testing.assert_allclose(out.numpy(), want, rtol=tolerance, atol=tolerance)


def text_of(s: Any, args: list[Any]) -> str:
    """The loops of a schedule."""
    return str(tvm.lower(s, args, simple_mode=True))
