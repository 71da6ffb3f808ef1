"""Models for GPUs: the plan of any model, with constants that the device packs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from whet.autotune.models.cache import ModelCache
from whet.autotune.models.compiled import plans_of
from whet.autotune.models.constants import Constants, Stored
from whet.autotune.models.steps import Steps
from whet.compiler.errors import TargetError
from whet.compiler.graph.device_constants import DeviceConstants, Upload
from whet.compiler.graph.device_model import DeviceModel
from whet.compiler.graph.ir import Graph, digest
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target

_KERNEL = '\nextern "C" __global__'


def device_models(
    graphs: Sequence[Graph],
    target: Target,
    device: Device | None,
    steps: Steps | None = None,
    cache: ModelCache | None = None,
) -> list[DeviceModel]:
    """Models whose kernels a device launches; nothing is asked of it before the first run.

    Args:
        graphs: after their passes.
        target: canonical, of a kind whose kernels can be launched.
        device: where they run; None: the first one.
        steps: where kernels are told of.
        cache: where kernels may be already, and are kept.

    Raises:
        TargetError: kernels of this kind are not launched.
    """
    if target.kind != "cuda":
        raise TargetError(
            f"compiling a model for {target.kind}",
            f"code of kind {target.kind!s} is made, and not launched",
            'models run on "llvm" and "cuda"',
        )
    where = device or Device("cuda")
    constants = Uploaded(graphs)
    plans = plans_of(graphs, target, constants, cache, steps)
    held = DeviceConstants(constants.size, constants.uploads(), where)
    return [
        DeviceModel(p.graph.inputs, p.graph.outputs, p.modules, held, p.arena, p.calls)
        for p in plans
    ]


class Uploaded(Constants):
    """Constants that a device takes: equal arrays, packed by equal programs, are there once."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        super().__init__(graphs)
        self._digests: dict[Any, str] = {}

    def _key(self, one: Stored) -> Any:
        if one.packed_by is None:
            return self._digest(one)
        assert isinstance(one.made_of, tuple)
        weights = tuple(map(self._digest, one.made_of))
        return weights, _packing(one.packed_by), one.which

    def _digest(self, one: Any) -> str:
        if one.made_of not in self._digests:
            self._digests[one.made_of] = digest(self._array(one))
        return f"{self._digests[one.made_of]} {one.shape}"

    def uploads(self) -> list[Upload]:
        """The uploads into the device's memory, and their places."""
        found = []
        together: dict[Any, tuple[Stored, dict[int, int]]] = {}
        for place, one in self._places.values():
            if one.packed_by is None:
                found.append(Upload((self._array(one),), (place.offset,)))
                continue
            key = one.packed_by, one.made_of
            together.setdefault(key, (one, {}))[1][one.which] = place.offset
        for one, offsets in together.values():
            assert isinstance(one.made_of, tuple)
            sources = tuple(map(self._array, one.made_of))
            each = tuple(offsets[k] for k in sorted(offsets))
            found.append(Upload(sources, each, one.packed_by))
        return found


def _packing(module: Module) -> str:
    """The text of the function that packs a kernel's weights, whatever its name."""
    function = module.entry_func.ahead
    assert function is not None
    artifact = module.artifact
    plan = next(p for p in artifact.plans if p.function == function.name)
    own = [f" {x.kernel}(" for x in plan.launches]
    texts = artifact.source.split(_KERNEL)[1:]
    found = [t for t in texts if any(name in t.partition("\n")[0] for name in own)]
    return "\n".join([json.dumps(plan.to_json()), *found]).replace(function.name, "")
