"""Handles of a ``tir.Schedule``: of blocks, of loops, and of numbers that it drew."""

from __future__ import annotations


class BlockRV:
    """A block of a ``tir.Schedule``; it stays the same block while the schedule changes."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"BlockRV({self.name})"


class LoopRV:
    """A loop of a ``tir.Schedule``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"LoopRV({self.name})"


class ExprRV(int):
    """A number that a ``tir.Schedule`` drew; an int that its trace knows."""


Handle = BlockRV | LoopRV | ExprRV
