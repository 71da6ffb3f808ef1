"""Symbols of a signature: which dimension binds which, and which extents are left to check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from whet.compiler.abi.extent import Extent, Symbol, symbols_of
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import CodegenError

Bindings = dict[str, tuple[int, int]]
"""Symbol -> (parameter, dimension), or (parameter, -1) for a scalar. The strides of an array follow
its dimensions: of a matrix, 2 and 3."""


@dataclass(frozen=True, slots=True)
class ExtentCheck:
    """An extent or a stride that an argument must have.

    Attributes:
        kind: ``"shape"`` or ``"strides"``, as the check is called.
        dim: the dimension.
        wanted: the extent.
    """

    kind: str
    dim: int
    wanted: Extent


def bindings(sig: KernelSignature) -> Bindings:
    """Where each symbol gets its value.

    Raises:
        CodegenError: a symbol stands alone in no shape and is no integer scalar.
    """
    places: Bindings = {}
    for i, p in enumerate(sig.params):
        if isinstance(p, ScalarParam) and "int" in p.dtype:
            places.setdefault(p.name, (i, -1))
    buffers = [(i, p) for i, p in enumerate(sig.params) if isinstance(p, BufferParam)]
    shapes = [(i, d, x) for i, p in buffers for d, x in enumerate(p.shape)]
    steps = [(i, d, x) for i, p in buffers for d, x in enumerate(p.strides, len(p.shape))]
    for i, d, extent in (*shapes, *steps):
        if isinstance(extent, Symbol):
            places.setdefault(extent.name, (i, d))
    wanted = set(sig.symbols).union(*(symbols_of(x) for _, _, x in (*shapes, *steps)))
    if missing := sorted(wanted - places.keys()):
        raise CodegenError(
            f"kernel {sig.name!r}",
            f"nothing gives the symbol {missing[0]!r} a value",
            "a symbol must stand alone as a dimension of an argument, or be an integer argument",
        )
    return {name: at for name, at in places.items() if name in wanted}


def extent_checks(sig: KernelSignature, i: int, bound: Bindings) -> Iterator[ExtentCheck]:
    """The extents of an array to check, in order; not those that bind a symbol.

    Args:
        sig: the kernel's parameters.
        i: which parameter.
        bound: what :func:`bindings` gave.
    """
    p = sig.params[i]
    assert isinstance(p, BufferParam)
    for kind, extents, first in (("shape", p.shape, 0), ("strides", p.strides, len(p.shape))):
        for d, extent in enumerate(extents):
            if not (isinstance(extent, Symbol) and bound.get(extent.name) == (i, first + d)):
                yield ExtentCheck(kind, d, extent)
