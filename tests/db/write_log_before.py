"""Write the digests of ``before.db`` anew; with ``--tune`` the log itself, which takes minutes.

The templates are imported, never of ``__main__``: spaces of templates that every process can
import have fingerprints of their own.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from log_before import FOUND, LINES, LOG, built_from, read_from, tasks

import whet

TRIALS = {"user": 9, "user for sm_80": 4, "matmul for sm_80": 3, "softmax for sm_90": 3}
SAMPLERS = {"conv2d": "xgb", "packed": "tpe", "softmax": "xgb", "sum": "tpe"}


def write() -> None:
    """Write ``before.json``."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(LOG, folder))
        whet.TuningLog(copy).close()  # brings it up to this version
        made = {"built": built_from(copy), "read": read_from(copy)}
    FOUND.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")


def check_tree() -> None:
    """End where ``whet`` is another checkout's than this file's: the log would be that one's."""
    here = Path(__file__).resolve().parent.parent.parent
    if not Path(whet.__file__).resolve().is_relative_to(here):
        sys.exit(f"whet comes from {whet.__file__}: set PYTHONPATH={here}")


def tune() -> None:
    """Write the log: short searches of every task."""
    LOG.unlink(missing_ok=True)
    for k, (name, task) in enumerate(tasks().items()):
        device = "cuda-emulator" if "sm_" in name else None
        sampler, trials = SAMPLERS.get(name, "random"), TRIALS.get(name, 5)
        whet.tune(task, trials, LOG, sampler, 1, device=device, seed=k, progress=False)
        print(name, flush=True)
    LINES.unlink(missing_ok=True)
    with whet.TuningLog(LOG) as log:
        log.export_json(LINES)


if __name__ == "__main__":
    check_tree()
    if "--tune" in sys.argv:
        tune()
    write()
