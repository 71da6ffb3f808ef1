"""Graphs of launches through libcuda: captured once from a stream of their own, put into any."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import KernelError
from whet.compiler.runtime.gpu.driver.interface import Prepared
from whet.compiler.runtime.gpu.driver.pycuda_objects import Held, Reporting

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.driver.pycuda_context import PycudaContext

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: a stream that waits for the default one has no capture


class PycudaGraph:
    """Launches that were captured: their kernels live as long as it does.

    pycuda launches what its kernels are; the capture takes these launches as they come, so that
    nothing has to be known of pycuda's kernels but how they are called.

    Args:
        context: of the device, whose driver has graphs.
        launches: in order.

    Raises:
        KernelError: the driver refuses one, or earlier work failed.
    """

    __slots__ = ("_context", "_graph", "_kernels", "_streams")

    def __init__(self, context: PycudaContext, launches: Sequence[Prepared]) -> None:
        self._context = context
        self._kernels: list[Any] = [launch[0] for launch in launches]
        # what code is unloaded for: the streams in which its launches were put
        self._streams = list({id(k.streams): k.streams for k in self._kernels}.values())
        with Reporting(context, "making a graph on"), context.library.relaxed():
            own = Held(context, context.drv.Stream(_NON_BLOCKING))

            def put() -> None:
                for kernel, (_, grid, block, arguments, shared) in zip(self._kernels, launches):
                    if shared > kernel.shared_bytes:
                        kernel.allow(shared)
                    kernel.launch(grid, block, arguments, shared, own.held)

            self._graph = context.library.captured(int(own.held.handle), put)

    def launch(self, stream: Any = None) -> bool:
        """Put all launches into a stream; False where somebody captures what comes there."""
        context, held, handle = self._context, None, 0
        if stream is not None:
            with Reporting(context, "looking at a stream of"):
                if context.library.is_capturing(stream.handle):
                    return False
            held, handle = stream.held, int(stream.held.handle)
        for streams in self._streams:
            streams.add(held)
        with Reporting(context, "launching a graph on", stream):
            context.library.launch_graph(self._graph, handle)
        return True

    def __del__(self) -> None:
        context = self._context
        if not hasattr(self, "_graph") or not context.usable:
            return
        with suppress(context.drv.Error, KernelError), context, context.library.relaxed():
            context.library.destroy_graph(self._graph)
