"""CUDA C made ready for the emulator: declarations of memory become those of checked memory.

Generated text declares its memory with macros (``WHET_GLOBAL``, ``WHET_SHARED_BUFFER``) already;
for CUDA C written by hand, edits at the nodes of its syntax tree make them::

    __global__ void f(const float *A)     __global__ void f(WHET_POINTER(const float) A)
    __shared__ float T[8][9];             WHET_SHARED_ROWS(float, T, 8, 9);
    extern __shared__ float s[];          WHET_SHARED_ARENA(float, s);  (of a file, .._FILE_ARENA)
    *(const float4 *)&A[4 * i]            *(WHET_POINTER(const float4))(A + (long long)(4 * i))
    reinterpret_cast<float4 *>(y)[i]      WHET_SEEN_AS(float4)(y)[i]
    float acc[4];                         WHET_LOCAL(float, acc, 4);
    __constant__ float c[4];              WHET_CONSTANT(float, c, [4], {});
    __shared__ Storage s; f(s);           WHET_SHARED_PLAIN(Storage, s, ); f(s);  (is not looked at)
    p[i].x = 1; float &r = s[i];          WHET_MEMBER(x, p[i]) = 1; WHET_REFERENCE(float) r = s[i];
    c ? s[i] : 0                          c ? whet_emulator::value_of((s[i])) : 0

A pointer that is not recognised stays plain: what goes through it is computed, not looked at.
Lines stay where they are. A syntax tree needs no compiler and no headers, and takes texts that are
no valid C++ before their macros are expanded; names are not resolved, so that one that is a pointer
anywhere in a text counts as one everywhere.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from whet.compiler.emulator.handwritten.declarations import Declarations
from whet.compiler.emulator.handwritten.expressions import rewrite_expressions
from whet.compiler.emulator.handwritten.functions import host_part
from whet.compiler.emulator.handwritten.syntax import Declared, Syntax, declared_by
from whet.compiler.errors import CodegenError

_STANDARD = re.compile(r"[<\"]c?(?:stdint|stddef|math|float|limits)(?:\.h)?[>\"]")


class KernelText(NamedTuple):
    """A kernel of a text: its name, and its parameters' names and types in order.

    Of a pointer the type is its elements' and a star: ``float *``. The most threads of a block
    are an expression of the text, from ``__launch_bounds__``; "0" where nothing bounds them.
    """

    name: str
    parameters: tuple[str, ...]
    types: tuple[str, ...]
    most_threads: str = "0"


class Adapted(NamedTuple):
    """A text for the emulator's compiler.

    Attributes:
        text: with checked memory.
        kernels: in it.
        unwatched: arrays and pointers through which accesses are not looked at, in the order of
            the text: ``("the local array acc", "the pointer p")``.
    """

    text: str
    kernels: tuple[KernelText, ...]
    unwatched: tuple[str, ...]


@functools.lru_cache(maxsize=16)
def adapt(source: str) -> Adapted:
    """A text for the emulator's compiler, and the kernels in it.

    Args:
        source: CUDA C, generated or written by hand.

    Raises:
        CodegenError: there is no kernel in it, or one that cannot be launched by its name.
    """
    syntax = Syntax(host_part(source)[0])
    functions = syntax.declared("function_definition")
    kernels = tuple(_kernel(d) for d in functions if "__global__" in d.words)
    if not kernels:
        raise CodegenError(
            "compiling CUDA C for the emulator",
            "there is no __global__ function in it",
            'a kernel: extern "C" __global__ void name(const float *A, float *B, int n) { .. }',
        )
    for node in syntax.all("preproc_include"):  # CUDA's headers are not there
        if not _STANDARD.search(node.text):
            syntax.replace(node.begin, node.end, "")
    declarations = Declarations(syntax)
    declarations.rewrite()
    rewrite_expressions(syntax, declarations)
    return Adapted(syntax.edited(), kernels, declarations.unwatched())


def _kernel(d: Declared) -> KernelText:
    if d.node.parent.type == "template_declaration":
        raise CodegenError(
            f"emulating the kernel {d.name}",
            "it is a template, and which of its kernels is meant is not known",
            f"name the arguments in the launch, {d.name}<32, float><<<grid, block>>>(...); or "
            'write it for one type: extern "C" __global__ void ...',
        )
    declared = [parameter for node in d.parameters for parameter in declared_by(node)]
    types = (
        re.sub(r"\b(?:const|volatile)\b", "", p.kind) + " *" * bool({*p.shape} & {*"*[)"})
        for p in declared
    )
    bounds = next((child for child in d.node.children if child.type == "launch_bounds"), None)
    return KernelText(
        d.name,
        tuple(p.name for p in declared),
        tuple(" ".join(kind.split()) for kind in types),
        bounds.children[0].text if bounds else "0",
    )
