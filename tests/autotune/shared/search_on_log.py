"""The program of a process that searches on a log which others search on, too."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from autotune_synthetic import gemm_cost, gemm_template, small_cost, small_template

from whet.autotune import create_task, tune
from whet.measure import ReplayPool


class Slow(ReplayPool):
    """Measures one candidate after another, and says of each that it begins.

    Args:
        seconds: that each takes.
        hurry: the path of a file; once it is there, they take none.
    """

    def __init__(self, seconds, hurry):
        super().__init__(cost_of)
        self.seconds, self.hurry = seconds, Path(hurry)
        self.held = []

    def submit(self, inp):
        print("measures", inp.workload.template, inp.config.key, flush=True)
        return super().submit(inp)

    def collect(self, timeout=None):
        self.held += super().collect(timeout)
        if not self.held:
            return []
        if not self.hurry.exists():
            time.sleep(self.seconds)
        return [self.held.pop(0)]


def cost_of(inp):
    return (small_cost if inp.workload.template == "test/small" else gemm_cost)(inp.config)


def main(location, sampler, trials, many, seconds, hurry):
    tasks = [create_task(gemm_template, (768, 1152, 512), "llvm")]
    if many == "many":
        tasks.append(create_task(small_template, (64,), "llvm"))
    task = tasks if many == "many" else tasks[0]
    pool = Slow(float(seconds), hurry)
    found = tune(task, int(trials), location, sampler, pool, progress=True)
    results = list(found) if many == "many" else [found]
    said = [(r.best.config.key, r.best.cost, len(r.trials), r.state) for r in results]
    print("result", json.dumps(said), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
