"""Comparisons in a worker that are right, raise, crash or hang, as the work's template says."""

import ctypes
import os
import time

from whet.bench.comparison import Comparison
from whet.bench.turns import Sample


def compared(work, how):
    """Stands for :func:`gpu_contest.compared`."""
    from gpu_contest import Failure  # it is found where the benchmark is, which imports this file

    if work.template == "raises":
        return Failure(
            "Traceback (most recent call last):\n  a line\nValueError: it is wrong", False
        )
    if work.template == "spoils":
        text = "RuntimeError: CUDA error: an illegal memory access was encountered"
        return Failure(f"Traceback (most recent call last):\n  a line\n{text}\n", True)
    if work.template == "crashes":
        ctypes.string_at(0)
    if work.template == "hangs":
        time.sleep(600)
    samples = {"default": Sample((1.0,))}
    return Comparison(
        work.name, 1, 1, 1, 1, samples, ("default",), frozenset(), (1.0,), (1.0,), {}, (), "GPU",
        {"pid": os.getpid()},
    )  # fmt: skip
