"""Tags of operators, by TVM's names; schedules go by them."""

from __future__ import annotations

ELEMWISE = "elemwise"
BROADCAST = "broadcast"
INJECTIVE = "injective"
COMM_REDUCE = "comm_reduce"
SCAN = "scan"


def is_injective(tag: str) -> bool:
    """True if each element of the result is made of at most one of each operand."""
    return any(t in (ELEMWISE, BROADCAST, INJECTIVE) for t in tag.split(","))


def is_broadcast(tag: str) -> bool:
    """True if each element of the result is made of the elements that stand in its place."""
    return any(t in (ELEMWISE, BROADCAST) for t in tag.split(","))
