"""True if kernels stay within a GPU's limits, before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.tir.expr import BufferLoad, IntImm, PrimExpr
from whet.compiler.tir.function import IRModule, PrimFunc, functions_of
from whet.compiler.tir.stmt import THREAD_BINDING, Allocate, AttrStmt, BufferStore, For
from whet.compiler.tir.visit.expect import FUNCTIONS, expect
from whet.compiler.tir.visit.rewrite import statements_of

_KEYS = (
    *("max_shared_memory_per_block", "max_local_memory_per_block", "max_threads_per_block"),
    *("max_thread_x", "max_thread_y", "max_thread_z", "max_vthread", "max_vector_bytes"),
    "max_kernels",
)


def verify_gpu_code(func: PrimFunc | IRModule, constraints: Mapping[str, int]) -> bool:
    """True if every kernel of a function keeps to ``constraints``.

    Args:
        func: lowered, its thread-bound loops still loops or split into kernels.
        constraints: ``max_shared_memory_per_block`` (bytes), ``max_threads_per_block``,
            ``max_thread_x``, ``_y``, ``_z``, ``max_local_memory_per_block`` (bytes a thread),
            ``max_vthread``, ``max_vector_bytes`` and ``max_kernels``; only those given are held.

    Raises:
        ArgumentError: for another constraint, a limit that is no integer, or no function.
    """
    expect(func, FUNCTIONS, "verify_gpu_code(func)")
    expect(constraints, (Mapping,), "verify_gpu_code(constraints)")
    for key, limit in constraints.items():
        if key not in _KEYS:
            raise ArgumentError(
                f"verify_gpu_code({key}=...)", "unknown constraint", "known: " + ", ".join(_KEYS)
            )
        expect(limit, (int, IntImm), f"verify_gpu_code({key}=...)")
    limits = {key: int(limit) for key, limit in constraints.items()}
    kernels: list[dict[str, int]] = []
    for f in functions_of(func):
        _kernels(f.body, kernels)
    if len(kernels) > limits.get("max_kernels", len(kernels)):
        return False
    return all(used.get(key, 0) <= limit for used in kernels for key, limit in limits.items())


def _kernels(n: Any, found: list[dict[str, int]]) -> None:
    """Append the use of each outermost thread-bound region, by the names of the constraints."""
    bound = isinstance(n, For) and n.kind == THREAD_BINDING
    if bound or (isinstance(n, AttrStmt) and n.key == "thread_extent"):
        use = _Use()
        use.visit(n)
        found.append(use.totals())
        return
    for p in statements_of(n):
        _kernels(p, found)


class _Use:
    def __init__(self) -> None:
        self.threads: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.now: dict[str, int] = {}

    def visit(self, n: Any) -> None:
        """Look at a node and all inside it."""
        if isinstance(n, For) and n.thread:
            self._thread(n.thread, n.extent)
        elif isinstance(n, AttrStmt) and n.key == "thread_extent":
            self._thread(getattr(n.node, "thread_tag", "") or n.node.name, n.value)
        if isinstance(n, (BufferLoad, BufferStore)):
            kind = n.value.dtype if isinstance(n, BufferStore) else n.dtype
            size = dt.itemsize(kind) * dt.lanes(kind)
            self.most["vector"] = max(self.most.get("vector", 0), size)
        if not isinstance(n, Allocate):
            for p in n.parts:
                self.visit(p)
            return
        scope, size = n.buffer.storage_scope.split(".")[0], dt.itemsize(n.buffer.dtype)
        for d in n.buffer.shape:
            size *= d.value if isinstance(d, IntImm) else 1
        self.now[scope] = self.now.get(scope, 0) + size
        self.most[scope] = max(self.most.get(scope, 0), self.now[scope])
        self.visit(n.body)
        self.now[scope] -= size

    def _thread(self, tag: str, extent: PrimExpr) -> None:
        value = extent.value if isinstance(extent, IntImm) else 1
        self.threads[tag] = max(self.threads.get(tag, 1), value)

    def totals(self) -> dict[str, int]:
        """The use by the names of the constraints."""
        block = 1
        out: dict[str, int] = {}
        for axis in "xyz":
            extent = self.threads.get(f"threadIdx.{axis}", 1)
            out[f"max_thread_{axis}"] = extent
            block *= extent
        return {
            **out,
            "max_threads_per_block": block,
            "max_vthread": max(
                (v for k, v in self.threads.items() if k.startswith(("vthread", "cthread"))),
                default=1,
            ),
            "max_shared_memory_per_block": self.most.get("shared", 0),
            "max_local_memory_per_block": self.most.get("local", 0),
            "max_vector_bytes": self.most.get("vector", 0),
        }
