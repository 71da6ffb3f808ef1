"""The generator of kind ``llvm``: a lowered module to an Artifact with an object file."""

from __future__ import annotations

from whet.compiler.abi.artifact import Artifact
from whet.compiler.codegen.asserts import complete_signature
from whet.compiler.codegen.llvm.jit import compile_text
from whet.compiler.codegen.llvm.kernel import module_text
from whet.compiler.target import Target
from whet.compiler.target.machine.processors import has_entries
from whet.compiler.tir.function import IRModule


def generate(mod: IRModule, target: Target) -> Artifact:
    """Machine code for a lowered module, loaded nowhere.

    Raises:
        CodegenError: if the module is not lowered or LLVM refuses it.
    """
    target = target.canonical()
    text = module_text(mod, target)
    if not has_entries(target):
        text = _with_sizes_of_32_bits(text)
    signatures = tuple(complete_signature(f) for f in mod.functions.values())
    return Artifact(compile_text(text, target), signatures, target.to_json(), text)


_ALIGNED_ALLOC = """define internal ptr @whet.aligned_alloc(i64 %align, i64 %size) {
  %a = trunc i64 %align to i32
  %s = trunc i64 %size to i32
  %p = call ptr @aligned_alloc(i32 %a, i32 %s)
  ret ptr %p
}
declare ptr @aligned_alloc(i32, i32)"""


def _with_sizes_of_32_bits(text: str) -> str:
    """The text for a processor whose C library takes sizes of 32 bits."""
    text = text.replace("call ptr @aligned_alloc(", "call ptr @whet.aligned_alloc(")
    return text.replace("declare ptr @aligned_alloc(i64, i64)", _ALIGNED_ALLOC)
