"""A model for GPUs: the plan of any model, with constants that the device packs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from whet.autotune.models.compiled import Plan
from whet.autotune.models.kernels import Kernel, group_tasks
from whet.compiler.abi.signature import BufferParam
from whet.compiler.errors import TargetError
from whet.compiler.graph.device_model import DeviceModel, Upload
from whet.compiler.graph.executor import CONSTANTS, Place
from whet.compiler.graph.fusion import views
from whet.compiler.graph.ir import Graph, Value, digest
from whet.compiler.graph.memory import ALIGNMENT
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.target import Target


def device_model(graph: Graph, target: Target, device: Device | None) -> DeviceModel:
    """A model whose kernels a device launches; nothing is asked of the device before its first run.

    Args:
        graph: after its passes.
        target: canonical, of a kind whose kernels can be launched.
        device: where it runs; None: the first one.

    Raises:
        TargetError: kernels of this kind are not launched.
    """
    if target.kind != "cuda":
        raise TargetError(
            f"compiling a model for {target.kind}",
            f"code of kind {target.kind!s} is made, and not launched",
            'models run on "llvm" and "cuda"',
        )
    plan = _DevicePlan(graph, group_tasks(graph, target), views(graph), target)
    return plan.on(device or Device("cuda"))


class _DevicePlan(Plan):
    """The places of all values, and what the constants hold."""

    def on(self, device: Device) -> DeviceModel:
        """The model."""
        self.uploads: list[Upload] = []
        self.packed: dict[tuple[str, ...], tuple[Place, ...]] = {}
        calls = self.calls()
        raw = [
            Upload((np.ascontiguousarray(array),), (place.offset,))
            for place, array in zip(self.known.values(), self.constants)
        ]
        modules = {k.symbol: k.module for k in self.kernels.values()}
        return DeviceModel(
            self.graph.inputs, self.graph.outputs, modules, [*raw, *self.uploads], self.size,
            self.arena, calls, device,
        )  # fmt: skip

    def places(self, kernel: Kernel, given: Sequence[Value | np.ndarray]) -> tuple[Place, ...]:
        """Where a kernel's arguments are; room for weights that are packed on the device."""
        ahead = kernel.signature.ahead
        if ahead is None:
            return super().places(kernel, given)
        weights = [given[k] for k in ahead.weights]
        packed = self._packed(kernel, [np.ascontiguousarray(w) for w in weights])
        at = dict(zip(ahead.packed, packed))
        return tuple(
            at[k] if k in at else self.constant(x) if isinstance(x, np.ndarray) else self.place(x)
            for k, x in enumerate(given[place] for place in ahead.places)
        )

    def _packed(self, kernel: Kernel, weights: Sequence[np.ndarray]) -> tuple[Place, ...]:
        """The places of a kernel's packed weights; equal ones have one."""
        key = (kernel.symbol, *map(digest, weights))
        if key not in self.packed:
            ahead = kernel.signature.ahead
            assert ahead is not None
            made = tuple(self._room(kernel.signature.params[k]) for k in ahead.packed)
            offsets = tuple(p.offset for p in made)
            self.uploads.append(Upload(tuple(weights), offsets, kernel.symbol))
            self.packed[key] = made
        return self.packed[key]

    def _room(self, param: object) -> Place:
        """Room for an array among the constants."""
        assert isinstance(param, BufferParam)
        size = math.prod(int(str(d)) for d in param.shape) * np.dtype(param.dtype).itemsize
        place = Place(CONSTANTS, self.size)
        self.size += -(-size // ALIGNMENT) * ALIGNMENT
        return place
