"""A cheap real kernel with a few hundred configs, for searches whose workers are struck."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import whet
from whet import te

SERVED = "whet.autotune.features.served"
"""Loaded by the worker that runs templates for their features."""
CHEAP = whet.MeasureOptions(min_repeat_ms=0.1, max_measure_s=0.01)


@whet.template("faults/scale")
def scale(n):
    """Scale a vector in three loops.

    The first builder that comes here while the file that ``WHET_TEST_HOLD`` names does not exist
    writes its number into it, and stays.
    """
    place = os.environ.get("WHET_TEST_HOLD")
    if place and sys.argv == ["whet-worker"] and SERVED not in sys.modules:
        hold(Path(place))
    cfg = whet.get_config()
    a = te.placeholder((n,), "float32", name="a")
    b = te.compute((n,), lambda i: a[i] * 2 + 1, name="b")
    s = te.create_schedule(b.op)
    cfg.define_split("tile", b.op.axis[0], num_outputs=3)
    cfg["tile"].apply(s, b, b.op.axis[0])
    return s, [a, b]


def hold(place):
    """Stay here, if nobody has before."""
    try:
        handle = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    os.write(handle, str(os.getpid()).encode())
    os.close(handle)
    time.sleep(300)
