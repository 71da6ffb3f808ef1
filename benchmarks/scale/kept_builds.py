"""Builds that are kept in a folder: a second pass over the same candidates waits for no compiler.

One machine builds no faster than its other cores can. A device that has builders enough is shown by
candidates that were built before: all else in the pool is as ever.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

from whet.measure import MeasureInput
from whet.measure.stage import builder

FOLDER = "WHET_BENCHMARK_BUILDS"
"""The environment variable of the folder; builders inherit it."""


def build(inp: MeasureInput) -> builder.Built:
    """Build a candidate, or take it from the folder."""
    text = f"{inp.workload.key} {inp.target} {inp.config.key}"
    path = Path(os.environ[FOLDER], hashlib.sha256(text.encode()).hexdigest())
    if path.exists():
        return pickle.loads(path.read_bytes())
    built = builder.build_candidate(inp)
    path.write_bytes(pickle.dumps(built))
    return built


build.imports = builder.imports  # type: ignore[attr-defined]
