"""The assertions of a lowered function, numbered: what a kernel returns when one does not hold."""

from __future__ import annotations

from dataclasses import replace

from whet.compiler.abi.signature import KernelSignature
from whet.compiler.errors import CodegenError
from whet.compiler.tir.function import PrimFunc
from whet.compiler.tir.stmt import AssertStmt
from whet.compiler.tir.visit.rewrite import nodes_of


def complete_signature(func: PrimFunc) -> KernelSignature:
    """The signature of a lowered function with the messages of its assertions.

    Raises:
        CodegenError: if the function is not lowered.
    """
    signature = func.attrs.get("signature")
    if not isinstance(signature, KernelSignature):
        raise CodegenError(
            f"build {func.attrs.get('global_symbol', 'a function')}",
            "it has not been lowered",
            "call whet.lower first, or give whet.build the schedule",
        )
    messages = tuple(dict.fromkeys(n.message for n in nodes_of(func.body, AssertStmt)))
    return replace(signature, asserts=messages) if messages else signature
