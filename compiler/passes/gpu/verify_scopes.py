"""VerifyScopes: a stage for a GPU is kept in memory that the GPU has.

    T = allocate([8], "float32", "wmma.matrix_a")  # refused: no code for tensor cores is written
    T = allocate([8], "float32", "warp")           # left to PrivatizeShared
    T = allocate([8], "float32", "local.x")   ->   T = allocate([8], "float32", "local")

A tag names a special memory, of which a GPU has none within a block: the scope is what it is
without the tag. A warp has no memory of its own: what each of its threads uses alone becomes
registers (PrivatizeShared), and what is left is refused by :func:`refuse_warps`.
"""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.errors import LowerError
from whet.compiler.target import Target
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.stmt import Allocate
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.rewrite import nodes_of

_TAGGED = ("shared.", "local.", "warp.")
_SCOPES = ("", "global", "shared", "shared.dyn", "local", "warp")
_WAY_OUT = (
    'scopes: "local" (registers of a thread), "shared" (of a block\'s threads), "global" (arrays '
    "between kernels)"
)


def check_scopes(mod: IRModule, target: Target) -> IRModule:
    """The module, its scopes within a block without tags.

    Raises:
        LowerError: a buffer has a scope that kernels for the target have no memory of.
    """
    mod = mod.map(_without_tags)
    for func in mod.functions.values():
        for buffer in _allocated(func):
            if buffer.storage_scope not in _SCOPES:
                raise _refused(func, buffer, _why(buffer.storage_scope))
    return mod


def _without_tags(func: PrimFunc) -> PrimFunc:
    plain = {
        b: replace(b, storage_scope=b.storage_scope.partition(".")[0])
        for b in _allocated(func)
        if b.storage_scope.startswith(_TAGGED) and b.storage_scope != "shared.dyn"
    }
    return func.with_body(replace_buffers(func.body, plain)) if plain else func


def refuse_warps(func: PrimFunc) -> PrimFunc:
    """The kernel itself, of which no memory is a warp's any more.

    Raises:
        LowerError: threads of a warp use elements of others.
    """
    for buffer in _allocated(func):
        if buffer.storage_scope == "warp":
            why = (
                "a warp has no memory of its own: what one thread uses alone becomes registers, "
                "and here its threads use what others store, or it cannot be told that they do not"
            )
            way_out = (
                f's[{buffer.name}].set_scope("shared") lets the block\'s threads share it; sums '
                "over a loop that is bound to threadIdx.x go from thread to thread by shuffles"
            )
            raise _refused(func, buffer, why, way_out)
    return func


def _allocated(func: PrimFunc) -> list[Buffer]:
    return [n.buffer for n in nodes_of(func.body, Allocate)]


def _why(scope: str) -> str:
    if scope.startswith("wmma."):
        return "no code for tensor cores is written"
    return "kernels have no such memory"


def _refused(func: PrimFunc, buffer: Buffer, why: str, way_out: str = _WAY_OUT) -> LowerError:
    request = f"{buffer.name} in the scope {buffer.storage_scope!r}, for a GPU ({func.name})"
    return LowerError(request, why, way_out)
