"""The generator of kind ``c``: a lowered module to an Artifact, by way of C99 text."""

from __future__ import annotations

from whet.compiler.abi.artifact import Artifact
from whet.compiler.codegen.asserts import complete_signature
from whet.compiler.codegen.c.compile import compile_text
from whet.compiler.codegen.c.kernel import source
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule


def generate(mod: IRModule, target: Target) -> Artifact:
    """Machine code for a lowered module, made by the C compiler that the option ``cc`` names.

    Raises:
        CodegenError: if the module is not lowered or the compiler refuses its text.
        TargetError: if there is no such compiler.
    """
    target = target.canonical()
    text = source(mod)
    signatures = tuple(complete_signature(f) for f in mod.functions.values())
    data = compile_text(text, str(target.attrs.get("cc", "cc")))
    return Artifact(data, signatures, target.to_json(), text)
