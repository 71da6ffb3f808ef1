"""The program of a process that takes configs from a list that others take from, too."""

import json
import random
import sys
import time

from db_records import AVX2, HERE, MATMUL, SPACE, ok, start

from whet.db import Mine, TaskKey, TrialEntry, TuningLog
from whet.search_spaces.values import Config

CONFIGS = 200
KEY = TaskKey(MATMUL, AVX2, HERE, SPACE)


def candidate(i: int) -> Config:
    return Config((("knob", i),), SPACE, ("knob",))


def race(location: str, seed: int) -> None:
    """Measure what nobody else has, until all are recorded; four at a time are under way.

    Wait for a line before the first reservation and after the fourth: who is up first, or who
    has the lock of the file most, would take all.
    """
    print("ready", flush=True)
    sys.stdin.readline()
    order = list(range(CONFIGS))
    random.Random(seed).shuffle(order)
    with TuningLog(location) as log, log.open_session({"seed": seed}) as session:
        run, number, mark, claimed = start(log), 0, 0, []
        while order:
            i = order.pop(0)
            answer = session.reserve(run, number, candidate(i), CONFIGS)
            if isinstance(answer, Mine):
                claimed.append(TrialEntry(run, number, candidate(i), ok(1.0 + i)))
                number += 1
                print("mine", i, flush=True)
                if number == 4:
                    sys.stdin.readline()
            if len(claimed) >= 4 or not order or not isinstance(answer, Mine):
                assert session.add_trials(claimed) == []
                claimed = []
                if not isinstance(answer, Mine):
                    time.sleep(0.02)
                    order.append(i)  # who has it may die
                points, mark = log.news(KEY, mark)
                known = {json.loads(point.config)["choices"][0][2] for point in points}
                order = [i for i in order if i not in known]
    print("done", flush=True)


if __name__ == "__main__":
    race(sys.argv[1], int(sys.argv[2]))
