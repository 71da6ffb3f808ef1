"""A compute graph as bytes, for the workers of the process that made it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.tensor import Operation, Tensor

Serialized = tuple[tuple[bytes, ...], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
"""Operations, producers first, each on its own; the outputs and arguments as (operation, value)."""


def serialize(outputs: Sequence[Tensor], args: Sequence[Tensor]) -> Serialized:
    """A graph as plain data. One operation at a time: graphs are deeper than Python's stack.

    Args:
        outputs: what is computed.
        args: what the kernel takes.

    Raises:
        Exception: as pickle does for something in an operation's attributes that it cannot send.
    """
    ops = post_order([t.op for t in (*outputs, *args)])
    place = {op: k for k, op in enumerate(ops)}

    def places(tensors: Sequence[Tensor]) -> tuple[tuple[int, int], ...]:
        return tuple((place[t.op], t.value_index) for t in tensors)

    return tuple(_bytes(op, place) for op in ops), places(outputs), places(args)


def deserialize(data: Serialized) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs and arguments that :func:`serialize` took; for a driver's bytes only."""
    ops: list[Operation] = []
    for one in data[0]:
        ops.append(_Reader(io.BytesIO(one), ops).load())
    outputs, args = ([Tensor(ops[k], v) for k, v in which] for which in data[1:])
    return outputs, args


def _bytes(op: Operation, place: dict[Operation, int]) -> bytes:
    from whet.search_spaces.template import by_value

    class Writer(by_value.pickler()):  # type: ignore[misc]
        """Names what an operation reads instead of sending it again."""

        def persistent_id(self, obj: Any) -> tuple[int, int] | None:
            return (place[obj.op], obj.value_index) if isinstance(obj, Tensor) else None

    out = io.BytesIO()
    Writer(out, protocol=pickle.HIGHEST_PROTOCOL).dump(op)
    return out.getvalue()


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, ops: list[Operation]) -> None:
        super().__init__(file)
        self._ops = ops

    def persistent_load(self, pid: tuple[int, int]) -> Tensor:
        return Tensor(self._ops[pid[0]], pid[1])
