"""The launches of a model's run, as its kernels' plans have them: nothing is compiled for that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whet.compiler.abi.extent import Extent, evaluate
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam
from whet.compiler.graph.model import Call, numbers_of
from whet.compiler.runtime.gpu.driver.properties import Extents
from whet.compiler.runtime.gpu.function import CudaFunction
from whet.compiler.runtime.module import Module


@dataclass(frozen=True)
class ModelLaunch:
    """One launch.

    Attributes:
        call: of the model's call that it is a part of.
        kernel: its symbol.
        grid: blocks along x, y and z.
        block: threads of a block along x, y and z.
        shared_bytes: dynamic shared memory of a block.
        moved: bytes of the arrays that it is given.
    """

    call: Call
    kernel: str
    grid: Extents
    block: Extents
    shared_bytes: int
    moved: int


def launches_of(calls: Sequence[Call], kernels: Mapping[str, Module]) -> tuple[ModelLaunch, ...]:
    """The launches of some calls, in order.

    Args:
        calls: of a model.
        kernels: symbol -> the kernel's module.
    """
    return tuple(x for call in calls for x in _of_call(call, functions_of(kernels[call.kernel])[0]))


def functions_of(module: Module) -> list[CudaFunction]:
    """The functions of a module for GPUs, the entry function first."""
    found = [f for f in module._functions.values() if isinstance(f, CudaFunction)]
    return sorted(found, key=lambda f: f.name != module.entry_name)


def _of_call(call: Call, function: CudaFunction) -> list[ModelLaunch]:
    plan, known = function.plan, numbers_of(call, function.signature.params)
    arrays = [p for p in function.signature.params if isinstance(p, BufferParam)]
    sizes = {a.name: _bytes(a.shape, a.dtype, known) for a in arrays}
    sizes |= {t.name: _bytes(t.shape, t.dtype, known) for t in plan.temporaries}
    found = []
    for x in plan.launches:
        grid, block = _three(x.grid, known), _three(x.block, known)
        if 0 in (*grid, *block):
            continue
        given = {a for a in x.arguments if isinstance(a, str) and a in sizes}
        moved = sum(sizes[a] for a in given)
        shared = evaluate(x.shared_bytes, known)
        found.append(ModelLaunch(call, x.kernel, grid, block, shared, moved))
    return found


def _bytes(shape: Sequence[Extent], dtype: str, known: Mapping[str, int]) -> int:
    return math.prod(evaluate(d, known) for d in shape) * numpy_dtype(dtype).itemsize


def _three(extents: Sequence[Extent], known: Mapping[str, int]) -> Extents:
    x, y, z = (evaluate(n, known) for n in extents)
    return x, y, z
