"""A process that asks a Ray cluster for its state, a line of JSON for each line that it is sent.

Ray ends a process that loses the head, and waits long for one that is not there; so this is a
child of :class:`whet.measure.cluster.reader.ClusterReader`, which gives up in time.

``python -m whet.measure.cluster.probe ray://host:10001`` (or ``host:6379``)
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys

from whet.measure.cluster import token
from whet.measure.cluster.snapshot import connect, taken_by, with_actors
from whet.measure.worker.descendants import die_with


def main() -> None:
    """Answer until the input ends."""
    die_with(int(sys.argv[2]), signal.SIGKILL)
    address = sys.argv[1]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what Ray prints is no answer
    if address.startswith("ray://"):
        import ray

        token.check(address)
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        for _ in sys.stdin:
            print(json.dumps(taken_by(ray, with_actors)), file=answers)
        ray.shutdown()
        return
    connect(address)
    for _ in sys.stdin:
        print(json.dumps(with_actors()), file=answers)


if __name__ == "__main__":
    main()
