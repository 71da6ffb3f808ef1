"""Shared by the checks of the runtime: a small kernel, its arrays, how a check is left out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

import whet
from whet import te
from whet.compiler.runtime.arrays.device import Device

SKIPPED = 77
"""The exit code of what cannot be checked here."""


def skip(why: str) -> NoReturn:
    """End: there is nothing here to check."""
    print(why)
    sys.exit(SKIPPED)


def adding(n: Any = 1000, dtype: str = "float32") -> Any:
    """A kernel for ``cuda`` that adds two arrays."""
    A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    block, thread = s[C].split(C.op.axis[0], factor=128)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    return whet.build(s, [A, B, C], "cuda")


def on(device: Device, *arrays: np.ndarray) -> list[Any]:
    """Copies on the device."""
    return [whet.nd.array(x, device) for x in arrays]


def numbers(n: int = 1000, dtype: str = "float32", seed: int = 0) -> list[np.ndarray]:
    """Two inputs, and an output that no kernel has written."""
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-50, 50, n).astype(dtype) for _ in range(2))
    return [a, b, np.full(n, 77, dtype)]


def call_us(f: Callable[..., None], args: list[Any], device: Device, count: int) -> float:
    """Microseconds of the host that a call takes; the best of five rows of calls."""
    f(*args)
    device.sync()
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            f(*args)
        best = min(best, (time.perf_counter() - start) / count * 1e6)
        device.sync()
    return best
