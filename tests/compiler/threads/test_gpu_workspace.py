"""Memory between the kernels of a call: kept for its stream, and where it makes room."""

import pytest

from whet.compiler.emulator.driver import EmulatedStream
from whet.compiler.errors import OutOfMemoryError
from whet.compiler.runtime.arrays.device_array import Memory
from whet.compiler.runtime.gpu.driver.workspace import Workspace, workspace_of


class Few:
    """A context's memory with room for two blocks."""

    def __init__(self):
        self.held = set()
        self.next = 0
        self.discarded = []

    def memory(self):
        return 300, 2400  # an eighth of 2400 may lie idle

    def alloc(self, nbytes):
        if len(self.held) == 2:
            raise OutOfMemoryError("a block", "none is left")
        self.next += 1
        self.held.add(self.next)
        return self.next

    def free(self, address):
        self.held.remove(address)

    def discard(self, address, nbytes):
        self.discarded.append((address, nbytes))


def test_a_workspace_reuses_blocks_of_a_stream_and_frees_idle_ones():
    context = Few()
    workspace = Workspace(context)
    one, other = EmulatedStream(context), EmulatedStream(context)
    assert one.handle == other.handle  # as of a stream that took the place of one that went
    first = workspace.take(100, one)
    workspace.give_back(first, 100, one)
    assert workspace.take(100, other) != first  # another stream may still be reading
    assert workspace.take(100, one) == first and context.discarded == [(first, 100)]
    for address in sorted(context.held):
        workspace.give_back(address, 100, one)
    more = workspace.take(300, one)  # there is room only after the idle ones are freed
    assert context.held == {more}
    workspace.give_back(more, 300, one)
    assert context.held == {more}
    workspace.give_back(workspace.take(10, one), 10, one)
    assert more not in context.held and len(context.held) == 1  # 310 bytes are too many


def test_what_lies_idle_makes_room_for_arrays():
    context = Few()
    workspace = workspace_of(context)
    for address in [workspace.take(10, None), workspace.take(10, None)]:
        workspace.give_back(address, 10, None)
    array = Memory(context, 100)
    assert context.held == {array.address}
    with pytest.raises(OutOfMemoryError, match="none is left"):
        [Memory(context, 100), Memory(context, 100)]


def test_a_stream_that_is_given_back_keeps_nothing():
    context = Few()
    workspace = Workspace(context)
    one, other = EmulatedStream(context), EmulatedStream(context)
    blocks = [workspace.take(20, one), workspace.take(10, other)]
    workspace.give_back(blocks[0], 20, one)
    workspace.give_back(blocks[1], 10, other)
    workspace.forget(one)
    assert context.held == {blocks[1]} and workspace.take(10, other) == blocks[1]
