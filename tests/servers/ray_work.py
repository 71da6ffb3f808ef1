"""Builds and measures on a machine of :mod:`ray_machines`, slowly, and leaves marks while it does.

A file ``next-build`` or ``next-run`` in the folder of marks says what the next one does besides:
``"hog 3000"`` fills 3,000 MB, ``"fill"`` writes the machine's temporary folder full; what a worker
has in its own goes with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ray_machines import MARKS

from whet.measure import MeasureInput, MeasureOptions
from whet.measure.stage.builder import Built, build_candidate
from whet.measure.stage.runner import RunReport, run_candidate

PACE_S = 0.25
"""Seconds that each takes longer; a file ``pace`` says another number."""


def build(inp: MeasureInput) -> Built:
    with _marked("build", inp.config.key):
        return build_candidate(inp)


def run(artifact: Any, options: MeasureOptions, *more: Any) -> RunReport:
    if options.repeat == 1:  # one of many turns of the last measurement
        return run_candidate(artifact, options, *more)
    with _marked("run", hashlib.sha256(artifact.object).hexdigest()[:16]):
        return run_candidate(artifact, options, *more)


@contextlib.contextmanager
def _marked(act: str, which: str) -> Iterator[None]:
    folder = Path(os.environ[MARKS])
    now = folder / f"{act}-{os.getpid()}"
    with open(folder / "began", "a") as began:
        began.write(f"{act} {which}\n")
    with open(folder / "clock", "a") as clock:
        clock.write(f"{time.time()}\n")
    now.touch()
    try:
        with contextlib.suppress(FileNotFoundError):
            asked = (folder / f"next-{act}").read_text()
            (folder / f"next-{act}").unlink()
            _misbehave(asked)
        pace = folder / "pace"
        time.sleep(float(pace.read_text()) if pace.exists() else PACE_S)
        yield
    finally:
        now.unlink(missing_ok=True)


def _misbehave(asked: str) -> None:
    what, _, size = asked.partition(" ")
    if what == "hog":
        blocks = [bytearray(b"x") * (1 << 20) for _ in range(int(size))]
        time.sleep(2)
        del blocks
    elif what == "fill":
        with (
            open(Path(os.environ[MARKS]).parent / "tmp" / "filled", "wb") as file,
            contextlib.suppress(OSError),
        ):
            while True:
                file.write(b"x" * (1 << 16))
    else:
        raise ValueError(asked)
