"""The works that are compared, by kind: what bounds them says which limit they are held against."""

from __future__ import annotations

from direct_works import DIRECT, WINOGRAD
from layers import Work
from memory_works import MEMORY
from network_works import NETWORKS

KINDS: dict[str, tuple[Work, ...]] = {
    "direct": DIRECT,
    "winograd": WINOGRAD,
    "memory": MEMORY,
    "networks": NETWORKS,
}
COUNTS = {"direct": 40, "winograd": 20, "memory": 60, "networks": 20}
"""How many works each kind has: goals are means over all of them."""
TRIALS = {"direct": 100, "winograd": 100, "memory": 100, "networks": 64}
"""Trials of a search, unless the command line says otherwise."""
ARITHMETIC = ("direct", "winograd")
"""Kinds that arithmetic bounds."""
