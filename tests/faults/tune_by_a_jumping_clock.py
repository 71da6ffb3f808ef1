"""The program of a driver whose wall clock jumps: a search on the real pool."""

import json
import sys
import time
from itertools import pairwise

import whet
from whet.db import session

if __name__ == "__main__":
    from faulty_kernels import CHEAP, scale

    session.BEAT_S = 0.2
    location, trials = sys.argv[1:]
    wall, began = [time.time()], time.monotonic()

    def looks(task: object, trial: object) -> None:
        time.sleep(0.2)  # twelve quick trials would all lie between two jumps
        wall.append(time.time())

    found = whet.tune(
        whet.create_task(scale, (960,), target="llvm"),
        int(trials),
        location,
        "random",
        progress=False,
        options=CHEAP,
        timeout=1000,
        callbacks=[looks],
    )
    steps = [abs(b - a) for a, b in pairwise(wall)]
    facts = {
        "state": found.state,
        "trials": len(found.trials),
        "largest": max(steps),
        "seconds": time.monotonic() - began,
        "timings": [trial.result.timings for trial in found.trials],
    }
    print(json.dumps(facts))
