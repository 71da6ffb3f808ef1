"""A model with symbols as data: what a package and the cache hold of it beside its code.

Symbols are written as the parameters of its function have them, ``s0``, ``s1``: a name such as
``x[0]`` is no word of an extent.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from whet.compiler.abi.signature import BufferParam
from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.graph.image import Json, description_of
from whet.compiler.graph.ir import Value
from whet.compiler.graph.symbolic.model import SymbolicCall, SymbolicModel
from whet.compiler.graph.symbolic.sizes import Dynamic, range_text, widest

if TYPE_CHECKING:
    from whet.compiler.runtime.module import Module

_MOST = 1 << 62  # of a size


def described(model: SymbolicModel) -> Json:
    """The ranges, the shapes and the groups of a model, as JSON-able data."""
    words = {name: f"s{k}" for k, name in enumerate(model.ranges)}
    shapes = [
        [name, to_data([_renamed(d, words) for d in shape])] for name, shape in model.shapes.items()
    ]
    return {
        "ranges": [[name, r.low, r.high] for name, r in model.ranges.items()],
        "shapes": shapes,
        "groups": [_of_group(g) for g in model.groups],
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
    ranges = {str(name): _range(low, high) for name, low, high in data["ranges"]}
    words = {f"s{k}": name for k, name in enumerate(ranges)}
    shapes: dict[str, Shape] = {}
    for name, extents in data["shapes"]:
        shapes[name] = tuple(_renamed(d, words) for d in from_data(extents))
    groups = [_group(g) for g in data["groups"]]
    for group in groups:
        for kernel in group.kernels:
            if kernel not in kernels:
                raise ValueError(f"it calls {kernel}, which it does not have")
    _check(function, ranges, shapes, [*inputs, *outputs], (constants.size, arena.size))
    return SymbolicModel(
        ranges, shapes, inputs, outputs, function, kernels, constants, arena, groups
    )


def _range(low: Any, high: Any) -> Dynamic:
    if not (type(low) is type(high) is int and 1 <= low < high < _MOST):
        raise ValueError(f"{low!r:.40} to {high!r:.40} is no range of sizes")
    return Dynamic(low, high)


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
    top = widest(ranges)
    if any(v.shape != tuple(evaluate(d, top) for d in shapes[v.name]) for v in values):
        raise ValueError("its arrays are not of the greatest sizes")
    for point in (top, {name: r.low for name, r in ranges.items()}):
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


def _of_group(g: SymbolicCall) -> Json:
    return {
        "name": g.name,
        "kernels": list(g.kernels),
        "origins": list(g.origins),
        "outputs": list(g.outputs),
        "how": g.how,
        "tuned_by": [by.to_json() for by in g.tuned_by],
        "is_tunable": g.is_tunable,
    }


def _group(data: Json) -> SymbolicCall:
    kernels, origins, outputs = (
        tuple(map(str, data[key])) for key in ("kernels", "origins", "outputs")
    )
    by = tuple(map(TunedBy.from_json, data["tuned_by"]))
    return SymbolicCall(
        str(data["name"]), kernels, origins, outputs, str(data["how"]), by,
        bool(data["is_tunable"]),
    )  # fmt: skip
