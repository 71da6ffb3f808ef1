"""The name of an intrinsic: a str that knows TVM's name for it, and stands for TVM's ``Op``."""

from __future__ import annotations


class OpName(str):
    """An intrinsic's name, e.g. ``"exp"``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """TVM's name, e.g. ``"tir.exp"``."""
        return self if self.startswith("tir.") else f"tir.{self}"

    def same_as(self, other: object) -> bool:
        """True if both are the same intrinsic."""
        return str.__eq__(self, other) is True

    @staticmethod
    def get(op_name: str) -> OpName:
        """The intrinsic of a name, with or without ``tir.``, as TVM's ``ir.Op.get``."""
        short = op_name.removeprefix("tir.")
        return OP_NAMES.get(short) or _new(short)


#: each name's one object
OP_NAMES: dict[str, OpName] = {}


def op_name(op: str) -> OpName:
    """The one object for the name ``op``."""
    return OP_NAMES.get(op) or _new(op)


def _new(op: str) -> OpName:
    known = OP_NAMES[op] = OpName(op)
    return known
