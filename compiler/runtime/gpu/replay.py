"""Plans that run one after the other: for addresses that come again, as one work of the driver's.

A graph holds the addresses of its launches. It is looked up by those of each run: others have
another graph, or none, and are launched one by one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import KernelError
from whet.compiler.runtime.arrays.device_array import DeviceArray
from whet.compiler.runtime.arrays.nd import empty
from whet.compiler.runtime.gpu.driver.interface import Prepared, WorkGraph
from whet.compiler.runtime.gpu.driver.streams import current_stream
from whet.compiler.runtime.gpu.launching import ReadyPlan

Step = tuple[ReadyPlan, list[Any], list[tuple[int, int, int]]]
"""A plan, its slots; which of them are in arrays of a run: the slot, the array, bytes from there.
"""

_MOST_GRAPHS = 8  # sets of addresses that have one
_MOST_SEEN = 64  # sets of addresses that came once


class Replay:
    """Plans in order, run for the addresses of some arrays.

    The first run with some addresses launches kernel by kernel, the second makes a graph: new
    arrays in each call cost no graphs. The plans' temporaries are memory of its own then, one after
    the other's.

    Args:
        memory: of the device that the plans are for, kept alive.
        steps: the plans.

    Runs follow one another, as of a model: they share memory.
    """

    def __init__(self, memory: DeviceArray, steps: Sequence[Step]) -> None:
        self._memory, self._steps = memory, tuple(steps)
        self._context = memory.context
        self._graphs: OrderedDict[tuple[int, ...], WorkGraph] = OrderedDict()
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._between: DeviceArray | None = None
        self._has_graphs = True

    def run(self, addresses: Sequence[int]) -> None:
        """Put the launches into the current stream.

        Args:
            addresses: of the arrays, which live until the work is done.

        Raises:
            KernelError: a launch was refused, or earlier work failed.
        """
        key = tuple(addresses)
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._new(key)
        else:
            self._graphs.move_to_end(key)
        if graph is not None:
            if self._between is not None:
                self._context.discard(self._between.address, self._between.nbytes)
            if graph.launch(current_stream(self._context)):
                return
        for step in self._steps:
            step[0].run(_filled(step, key))

    def _new(self, key: tuple[int, ...]) -> WorkGraph | None:
        """The graph for addresses that came before; None: there is none, or not yet."""
        if not self._has_graphs:
            return None
        if key not in self._seen:
            self._seen[key] = None
            if len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
            return None
        launches = self._launches(key)
        try:
            made = self._context.graph(launches) if len(launches) > 1 else None
        except KernelError:  # kernel by kernel the driver says why, or takes them
            made = None
        if made is None:
            self._has_graphs = False
            return None
        del self._seen[key]
        self._graphs[key] = made
        if len(self._graphs) > _MOST_GRAPHS:
            self._graphs.popitem(last=False)
        return made

    def _launches(self, key: tuple[int, ...]) -> list[Prepared]:
        between = max((s[0].temporary_bytes for s in self._steps), default=0)
        if between and self._between is None:
            made = empty((between,), "uint8", self._memory.device)
            assert isinstance(made, DeviceArray)
            self._between = made
        address = 0 if self._between is None else self._between.address
        return [x for s in self._steps for x in s[0].prepared(_filled(s, key), address)]


def _filled(step: Step, key: Sequence[int]) -> list[Any]:
    """A plan's slots for the addresses of a run."""
    _, slots, open_slots = step
    filled = list(slots)
    for at, k, offset in open_slots:
        filled[at] = key[k] + offset
    return filled
