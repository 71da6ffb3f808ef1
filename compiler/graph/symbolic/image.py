"""A model with symbols as data: what a package and the cache hold of it beside its code.

Symbols are written as the parameters of its function have them, ``s0``, ``s1``: a name such as
``x[0]`` is no word of an extent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.abi.extent import (
    Extent,
    Operation,
    Shape,
    Symbol,
    evaluate,
    from_data,
    symbols_of,
    to_data,
)
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.graph.executor import ARENA, CONSTANTS, Place
from whet.compiler.graph.image import Json, description_of
from whet.compiler.graph.ir import Value
from whet.compiler.graph.model import arrays_of
from whet.compiler.graph.symbolic.calls import Steps, SymbolicCall, calls_at, outermost
from whet.compiler.graph.symbolic.executor import Block, RowStep, SizedStep
from whet.compiler.graph.symbolic.model import SymbolicModel
from whet.compiler.graph.symbolic.sizes import Dynamic, range_text, widest

if TYPE_CHECKING:
    from whet.compiler.graph.device_constants import DeviceConstants
    from whet.compiler.graph.symbolic.device_model import SymbolicDeviceModel
    from whet.compiler.runtime.module import Module

_MOST = 1 << 62  # of a size


def described(model: SymbolicModel) -> Json:
    """The ranges, the shapes, the groups and their steps of a model, as JSON-able data."""
    words = {name: f"s{k}" for k, name in enumerate(model.ranges)}
    shapes = [[name, _of_shape(shape, words)] for name, shape in model.shapes.items()]
    return {
        "ranges": [[name, r.low, r.high, r.step] for name, r in model.ranges.items()],
        "shapes": shapes,
        "groups": [_of_group(g, words) for g in model.groups],
        "steps": [_of_step(step, words) for step in model.steps],
        "scaled": model.scaled,
    }


def restored(
    data: Json, function: Module, kernels: Mapping[str, Module], constants: np.ndarray
) -> SymbolicModel:
    """The model that was described.

    Args:
        data: its whole description.
        function: the module of the function that runs it.
        kernels: symbol -> its module.
        constants: the bytes that the kernels read.

    Raises:
        Exception: the data is not as it was written, of any kind.
    """
    inputs, outputs, arena, _ = description_of(data, kernels)
    ranges, shapes, groups, steps, scaled = of_symbols(data, kernels)
    _check(function, ranges, shapes, [*inputs, *outputs], (constants.size, arena.size))
    model = SymbolicModel(
        ranges, shapes, inputs, outputs, function, kernels, constants, arena, groups, steps, scaled
    )
    check_calls(model, constants.size)
    return model


def restored_on_device(
    data: Json, kernels: Mapping[str, Module], constants: DeviceConstants
) -> SymbolicDeviceModel:
    """The model for GPUs that was described.

    Args:
        data: its whole description.
        kernels: symbol -> its module.
        constants: what the kernels read.

    Raises:
        Exception: the data is not as it was written, of any kind.
    """
    from whet.compiler.graph.symbolic.device_model import SymbolicDeviceModel

    inputs, outputs, arena, _ = description_of(data, kernels)
    ranges, shapes, groups, steps, scaled = of_symbols(data, kernels)
    _check_greatest(ranges, shapes, [*inputs, *outputs])
    model = SymbolicDeviceModel(
        ranges, shapes, inputs, outputs, kernels, constants, arena, groups, steps, scaled
    )
    check_calls(model, constants.size)
    return model


def of_symbols(
    data: Json, kernels: Mapping[str, Module]
) -> tuple[dict[str, Dynamic], dict[str, Shape], list[SymbolicCall], Steps, bool]:
    """The ranges, the shapes, the groups, their steps, and whether the arena is scaled.

    Raises:
        Exception: the data is not as it was written, of any kind.
    """
    ranges = {str(name): _range(*sizes) for name, *sizes in data["ranges"]}
    words = {f"s{k}": name for k, name in enumerate(ranges)}
    shapes = {str(name): _shape(extents, words) for name, extents in data["shapes"]}
    groups = [_group(g, words) for g in data["groups"]]
    steps = [_step(step, words) for step in data["steps"]]
    named = {k for g in groups for k in g.kernels}
    named |= {x.kernel for s in steps for x in (s.blocks if isinstance(s, RowStep) else (s,))}
    for kernel in named:
        if kernel not in kernels:
            raise ValueError(f"it calls {kernel}, which it does not have")
    return ranges, shapes, groups, steps, bool(data["scaled"])


def check_calls(model: SymbolicModel, constants: int) -> None:
    """Check that all calls at the least and the greatest sizes stay in a model's memory.

    Args:
        constants: their bytes.

    Raises:
        Exception: they do not, of any kind.
    """
    low = {name: r.low for name, r in model.ranges.items()}
    for sizes in (low, widest(model.ranges)):
        held = {v.name: v.bytes for v in model._sized((*model.inputs, *model.outputs), sizes)}
        held |= {ARENA: model.arena.size, CONSTANTS: constants}
        scale = model._scale(sizes)
        for call in chain(*calls_at(model.steps, model.groups, sizes, scale, outermost)):
            params = _params(model._kernels[call.kernel])
            for place, (shape, dtype) in zip(call.places, arrays_of(call, params), strict=True):
                many = prod(shape) * numpy_dtype(dtype).itemsize
                if not 0 <= place.offset <= max(held[place.argument], 1) - many:
                    raise ValueError(f"{call.name} takes {many} bytes at {place.offset}")


def _params(kernel: Module) -> Sequence[Any]:
    """The parameters of a kernel."""
    return kernel.artifact.signatures[0].params


def _range(low: Any, high: Any, step: Any = 1) -> Dynamic:  # older packages have no steps
    are_integers = type(low) is type(high) is type(step) is int
    if not (are_integers and 1 <= low < high < _MOST and step >= 1 and (high - low) % step == 0):
        raise ValueError(f"{low!r:.40} to {high!r:.40} by {step!r:.40} is no range of sizes")
    return Dynamic(low, high, step)


def _renamed(extent: Extent, words: Mapping[str, str]) -> Extent:
    """An extent with other names of its symbols."""
    if isinstance(extent, Operation):
        return Operation(extent.op, _renamed(extent.a, words), _renamed(extent.b, words))
    return Symbol(words[extent.name]) if isinstance(extent, Symbol) else extent


def _check(
    function: Module,
    ranges: Mapping[str, Dynamic],
    shapes: Mapping[str, Shape],
    values: list[Value],
    memory: tuple[int, int],
) -> None:
    """Compare what the data says with what the code checks in each call."""
    signature = function.artifact.signatures[0]
    said = {range_text(name, r) for name, r in ranges.items()}
    if said != set(signature.asserts):
        raise ValueError(f"its code is for {signature.asserts}, its description says {said}"[:300])
    _check_greatest(ranges, shapes, values)
    for point in (widest(ranges), {name: r.low for name, r in ranges.items()}):
        words = {f"s{k}": n for k, n in enumerate(point.values())}
        wanted = [
            *((v.dtype, tuple(evaluate(d, point) for d in shapes[v.name])) for v in values),
            *(("uint8", (max(size, 1),)) for size in memory),
        ]
        found = []
        for p in signature.params:
            assert isinstance(p, BufferParam) and all(
                symbols_of(d) <= words.keys() for d in p.shape
            )
            found.append((p.dtype, tuple(evaluate(d, words) for d in p.shape)))
        if wanted != found:
            raise ValueError(f"its code takes {found}, its description says {wanted}"[:300])


def _check_greatest(
    ranges: Mapping[str, Dynamic], shapes: Mapping[str, Shape], values: Sequence[Value]
) -> None:
    """Check that arrays are of the greatest sizes."""
    top = widest(ranges)
    if any(v.shape != tuple(evaluate(d, top) for d in shapes[v.name]) for v in values):
        raise ValueError("its arrays are not of the greatest sizes")


def _shape(data: Any, words: Mapping[str, str]) -> Shape:
    return tuple(_renamed(d, words) for d in from_data(data))


def _of_shape(shape: Shape, words: Mapping[str, str]) -> list[Any]:
    return to_data([_renamed(d, words) for d in shape])


def _of_step(step: SizedStep | RowStep, words: Mapping[str, str]) -> Json:
    if isinstance(step, SizedStep):
        numbers = _of_shape(step.numbers, words)
        return {**_of_kernel(step), "numbers": numbers}
    blocks = [{**_of_kernel(b), "rows": b.rows, "strides": list(b.strides)} for b in step.blocks]
    return {"rows": _of_shape((step.rows,), words), "blocks": blocks}


def _of_kernel(one: SizedStep | Block) -> Json:
    places = [[p.argument, p.offset] for p in one.places]
    return {"kernel": one.kernel, "places": places, "flop": one.flop}


def _step(data: Json, words: Mapping[str, str]) -> SizedStep | RowStep:
    if "blocks" not in data:
        kernel, places, flop = _kernel(data)
        return SizedStep(kernel, places, _shape(data["numbers"], words), flop)
    (rows,) = _shape(data["rows"], words)
    blocks = []
    for one in data["blocks"]:
        kernel, places, flop = _kernel(one)
        blocks.append(
            Block(int(one["rows"]), kernel, places, tuple(map(int, one["strides"])), flop)
        )
    if not blocks or min(b.rows for b in blocks) < 1:
        raise ValueError("its rows have no blocks")
    return RowStep(rows, tuple(blocks))


def _kernel(data: Json) -> tuple[str, tuple[Place, ...], int]:
    places = tuple(Place(str(argument), int(offset)) for argument, offset in data["places"])
    return str(data["kernel"]), places, int(data["flop"])


def _of_group(g: SymbolicCall, words: Mapping[str, str]) -> Json:
    return {
        "name": g.name,
        "kernels": list(g.kernels),
        "origins": list(g.origins),
        "outputs": list(g.outputs),
        "how": g.how,
        "tuned_by": [by.to_json() for by in g.tuned_by],
        "is_tunable": g.is_tunable,
        "shapes": [_of_shape(shape, words) for shape in g.shapes],
    }


def _group(data: Json, words: Mapping[str, str]) -> SymbolicCall:
    kernels, origins, outputs = (
        tuple(map(str, data[key])) for key in ("kernels", "origins", "outputs")
    )
    by = tuple(map(TunedBy.from_json, data["tuned_by"]))
    return SymbolicCall(
        str(data["name"]), kernels, origins, outputs, str(data["how"]), by,
        bool(data["is_tunable"]), tuple(_shape(s, words) for s in data["shapes"]),
    )  # fmt: skip
