"""Devices that a machine offers to a cluster, as names of Ray resources.

Each measuring set of cores is a resource of its own, of which there is exactly one, so that only
one actor of the whole cluster holds it: ``whet|cpu-0123456789ab|host|n0|2-3`` is the cores 2 and 3
of NUMA node 0. GPUs of one kind on one machine are one resource, counted:
``whet|cuda-0123456789ab|host``; who takes one of them takes a ``num_gpus`` of Ray's, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

FIRST = "whet"
"""The beginning of every announced name."""
VERSION_LABEL, CODE_LABEL = "whet/version", "whet/code"
"""Labels of a node (``ray.nodes()[i]["Labels"]``): its Whet's version, a digest of its files."""

_NODE = re.compile(r"n([0-9]{1,6})")
_CORES = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")


@dataclass(frozen=True)
class Announced:
    """One measuring set of cores, or the GPUs of one kind, on one machine.

    Attributes:
        kind: the device's fingerprint, the key of its records in a log: ``"cpu-0123456789ab"``.
        host: the name of the machine.
        numa: the NUMA node of the cores; None for GPUs.
        cores: numbers of the cores, ascending; empty for GPUs.
    """

    kind: str
    host: str
    numa: int | None = None
    cores: tuple[int, ...] = ()


def name(announced: Announced) -> str:
    """The Ray resource of a device, which :func:`parse` reads again.

    >>> name(Announced("cpu-0123456789ab", "node1", 0, (2, 3, 4, 8)))
    'whet|cpu-0123456789ab|node1|n0|2-4,8'
    """
    words = [FIRST, quote(announced.kind, safe=""), quote(announced.host, safe="")]
    if announced.numa is not None:
        words += [f"n{announced.numa}", text_of_cores(announced.cores)]
    return "|".join(words)


def parse(resource_name: str) -> Announced | None:
    """The device of a Ray resource; None for a resource of somebody else.

    >>> parse("whet|cpu-0123456789ab|node1|n0|2-4,8").cores
    (2, 3, 4, 8)
    >>> parse("CPU") is None
    True
    """
    first, *words = resource_name.split("|")
    if first != FIRST or len(words) not in (2, 4) or not all(words):
        return None
    kind, host = unquote(words[0]), unquote(words[1])
    if len(words) == 2:
        return Announced(kind, host)
    node, cores = _NODE.fullmatch(words[2]), cores_of_text(words[3])
    if node is None or not cores:
        return None
    return Announced(kind, host, int(node[1]), cores)


def text_of_cores(cores: Iterable[int]) -> str:
    """Numbers of cores as Linux writes them.

    >>> text_of_cores([8, 0, 1, 2])
    '0-2,8'
    """
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def cores_of_text(text: str) -> tuple[int, ...] | None:
    """Numbers of cores, ascending, from a list as Linux writes it; None where it is none.

    >>> cores_of_text("0-2,8")
    (0, 1, 2, 8)
    >>> cores_of_text("2-0") is None
    True
    """
    cores: set[int] = set()
    for word in text.strip().split(",") if text.strip() else ():
        found = _CORES.fullmatch(word.strip())
        if found is None or int(found[2] or found[1]) < int(found[1]):
            return None
        cores.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return tuple(sorted(cores))
