"""A compute graph as rules see it: stages in order, who reads whom, roles, and groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from whet.compiler.te.flop import count_flop
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import create_schedule
from whet.search_spaces.graph.groups import grouped
from whet.search_spaces.graph.roles import roles_of
from whet.search_spaces.graph.serialize import Serialized, deserialize, serialize
from whet.search_spaces.graph.stages import Group, Node, plain_nodes

if TYPE_CHECKING:
    from whet.search_spaces.values.instructions import Instruction


class ComputeGraph:
    """The computation behind some tensors.

    Args:
        outputs: what is computed; checked by ``create_task``.
        args: the tensors that the kernel takes.
        flop: its arithmetic operations, where they are not to be counted.
        instructions: those that a user has declared, which rules may use.
    """

    def __init__(
        self,
        outputs: Sequence[Tensor],
        args: Sequence[Tensor],
        flop: int | None = None,
        instructions: Sequence[Instruction] = (),
    ) -> None:
        self.outputs = tuple(outputs)
        self.args = tuple(args)
        self.given_flop = flop
        self.instructions = tuple(instructions)

    @cached_property
    def _roles(self) -> tuple[Node, ...]:
        return roles_of(plain_nodes(self.outputs))

    @cached_property
    def _parts(self) -> tuple[tuple[Node, ...], tuple[Group, ...]]:
        return grouped(self._roles)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The computed stages, producers first."""
        return self._parts[0]

    @property
    def groups(self) -> tuple[Group, ...]:
        """How they are scheduled together, producers first."""
        return self._parts[1]

    @cached_property
    def groups_in_blocks(self) -> tuple[Group, ...]:
        """The groups for rules that know rows of several steps of an axis (``Group.blocks``)."""
        return grouped(self._roles, in_blocks=True)[1]

    @cached_property
    def flop(self) -> int:
        """Arithmetic operations of the graph as it was given, whatever schedules make of it."""
        return count_flop(create_schedule(list(dict.fromkeys(t.op for t in self.outputs))))

    def __reduce__(self) -> tuple:
        return _received, (serialize(self.outputs, self.args), self.instructions)


def _received(data: Serialized, instructions: tuple[Instruction, ...] = ()) -> ComputeGraph:
    return ComputeGraph(*deserialize(data), instructions=instructions)
