"""VerifyGPUCode: kernels that ask for more than a block of the target has are refused.

    with thread_extent(threadIdx.x, 2048):  # refused: a block has at most 1024 threads
        B[threadIdx.x] = A[threadIdx.x]

The error is a ``PrunedError``: a search counts such a candidate apart from those that fail.
"""

from __future__ import annotations

import math

from whet.compiler.errors import PrunedError
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import IntImm, int_value
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import ops
from whet.compiler.tir.stmt import UNROLLED, Allocate, BufferStore, For, Stmt
from whet.compiler.tir.visit.rewrite import statements_of

# "Technical Specifications per Compute Capability", CUDA C++ Programming Guide.
_MOST_THREADS = {"threadIdx.x": 1024, "threadIdx.y": 1024, "threadIdx.z": 64}
_LOCAL_BYTES = 512 * 1024
# NVIDIA's compiler takes about a millisecond for two of them, and minutes for very many.
MOST_STATEMENTS = 32768
"""Stores of a kernel, its unrolled loops fully expanded."""


def verify_module(mod: IRModule, target: Target) -> IRModule:
    """The module itself.

    Raises:
        PrunedError: a kernel has too many threads, too much shared or local memory, or too many
            statements.
    """
    limits = target.canonical()
    for func in mod.functions.values():
        if "thread_extent" in func.attrs:
            verify_gpu_code(func, limits)
    return mod


def verify_gpu_code(func: PrimFunc, target: Target) -> None:
    """Hold one kernel against a canonical target.

    Raises:
        PrunedError: as :func:`verify_module`.
    """
    request = f"a kernel for {target.arch or target.kind}: {func.name}"
    _check_threads(request, func, target)
    shared = int_value(func.attrs.get("shared_bytes", ops.const(0))) or 0
    most = target.attrs.get("max_shared_memory_per_block")
    use = _Use()
    use.visit(func.body, 1)
    limits = (
        (
            (shared, shared if most is None else int(most)),
            f"a block would have {shared} bytes of shared memory, and the target has {most}",
            "share smaller tiles, or compute the shared stages further in",
            "shared memory",
        ),
        (
            (use.most, _LOCAL_BYTES),
            f"a thread would have {use.most} bytes of local memory, and there are {_LOCAL_BYTES}",
            "compute its stages further in, or in smaller tiles",
            "local memory",
        ),
        (
            (use.statements, MOST_STATEMENTS),
            f"its unrolled loops would make {use.statements} stores, and a compiler that takes "
            f"more than {MOST_STATEMENTS} takes minutes",
            "unroll fewer or shorter loops, or have fewer virtual threads",
            "statements",
        ),
    )
    for (needed, available), *error in limits:
        if needed > available:
            raise PrunedError(request, *error)


def unrolled_stores(body: Stmt) -> int:
    """How many stores a body has when its unrolled loops are fully expanded."""
    use = _Use()
    use.visit(body, 1)
    return use.statements


def _check_threads(request: str, func: PrimFunc, target: Target) -> None:
    extents = {
        tag: extent.value
        for tag, extent in func.attrs["thread_extent"].items()
        if tag.startswith("threadIdx") and isinstance(extent, IntImm)
    }
    out = "split the loops that are bound to threadIdx by smaller factors"
    for tag, count in extents.items():
        most = int(target.attrs.get(f"max_block_size_{tag[-1]}", _MOST_THREADS[tag]))
        if count > most:
            why = f"a block would have {count} threads along {tag}, and at most {most} go"
            raise PrunedError(request, why, out, "threads")
    count, most = math.prod(extents.values()), target.max_num_threads
    if count > most:
        why = f"a block would have {count} threads, and the target has at most {most}"
        raise PrunedError(request, why, out, "threads")


class _Use:
    """The local memory of a thread and the stores of a kernel with its loops unrolled."""

    def __init__(self) -> None:
        self.now = self.most = self.statements = 0

    def visit(self, n: Stmt, times: int) -> None:
        """Count a statement that is written ``times`` times."""
        if isinstance(n, BufferStore):
            self.statements += times
        if isinstance(n, For) and n.kind == UNROLLED and isinstance(n.extent, IntImm):
            times *= n.extent.value
        size = _local_bytes(n)
        self.now += size
        self.most = max(self.most, self.now)
        for x in statements_of(n):
            self.visit(x, times)
        self.now -= size


def _local_bytes(n: Stmt) -> int:
    if not isinstance(n, Allocate) or n.buffer.storage_scope.startswith("shared"):
        return 0
    sizes = [d.value for d in n.buffer.shape if isinstance(d, IntImm)]
    return dt.itemsize(n.buffer.dtype) * math.prod(sizes)
