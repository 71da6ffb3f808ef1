"""A process that runs ``ray start --block``, and ends with the one that started it.

``python -m whet.measure.cluster.node PARENT CORES OPTIONS...``
"""

from __future__ import annotations

import os
import signal
import sys

from whet.measure.cluster.announce import cores_of_text
from whet.measure.worker.descendants import die_with

LOOPBACK = ("127.0.0.1", "::1")
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0, Ray's processes take 127.0.0.1 for this machine's address, and bind to it alone."""


def main() -> None:
    """Run ``ray start`` on some cores; actors that measure pin themselves to their own."""
    die_with(int(sys.argv[1]), signal.SIGTERM)
    os.sched_setaffinity(0, cores_of_text(sys.argv[2]) or os.sched_getaffinity(0))
    options = sys.argv[3:]
    if _address_of(options) in LOOPBACK:
        keep_loopback()
    from ray.scripts.scripts import main as ray_command

    sys.argv = ["ray", "start", "--block", *options]
    ray_command()


def keep_loopback() -> None:
    """Let a node have the address 127.0.0.1, so that Ray binds its ports to loopback only.

    ``ray start`` puts another address of the machine in its place, for other machines' sake, and
    listens on every interface then. Its switch against that also refuses a second node; both are
    wanted here, the switch for the processes that this one starts.
    """
    os.environ[LOOPBACK_ONLY] = "0"
    from ray._private import ray_constants, services

    def as_given(host: str) -> str:
        return host

    ray_constants.ENABLE_RAY_CLUSTER = True
    services.resolve_ip_for_localhost = as_given


def _address_of(options: list[str]) -> str:
    given = [o.partition("=")[2] for o in options if o.startswith("--node-ip-address=")]
    return given[0] if given else ""


if __name__ == "__main__":
    main()
