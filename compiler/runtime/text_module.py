"""Modules of LLVM text and bitcode: compiled here, for this machine, when they are loaded.

What ``Module.save("x.ll")`` wrote tells its functions' arguments, and its module is as before. Of
another text, such as clang's, each function ``i32 name(DLTensor **, i32)`` is there: it takes
arrays, and says by a result that is not 0 that it failed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.layout import DL_CPU, SCALARS, DLTensor
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.errors import ArgumentError, ArtifactError, CodegenError, KernelError
from whet.compiler.jit.compile import compile_text, from_bitcode
from whet.compiler.jit.loader import load_object
from whet.compiler.runtime.arrays.ndarray import as_numpy
from whet.compiler.runtime.described import artifact_of
from whet.compiler.runtime.library.llvm_text import description, packed_functions
from whet.compiler.runtime.module import Function, Module


class PackedFunction(Function):
    """A function of which only its name is known: ``f(*arrays)`` hands it their DLTensors."""

    def _made(self) -> Callable[..., None]:
        return self._packed

    def _packed(self, *args: object, **named: object) -> None:
        """Call it with arrays on the CPU.

        Raises:
            ArgumentError: an argument is no array, or has elements that kernels do not have.
            KernelError: the function returned a number that is not 0.
        """
        if named:
            raise ArgumentError(f"{self.name}({', '.join(named)}=...)", "arguments have no names")
        tensors = [self._tensor(i, a) for i, a in enumerate(args)]
        count = len(tensors)
        pointers = (ctypes.POINTER(DLTensor) * max(count, 1))(*map(ctypes.pointer, tensors))
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)
        code = kind(self._module.address_of(self.name))(ctypes.addressof(pointers), count)
        if code:
            raise KernelError(f"{self.name}()", f"it returned {code}")

    def _tensor(self, i: int, given: object) -> DLTensor:
        held = as_numpy(given)
        if held is None or str(held.dtype) not in SCALARS:
            raise ArgumentError(
                f"{self.name}(), argument {i}", f"a {type(given).__name__} is no array of numbers"
            )
        kind, size = SCALARS[str(held.dtype)], held.itemsize
        return DLTensor(
            data=held.__array_interface__["data"][0],
            device_type=DL_CPU,
            ndim=held.ndim,
            code=kind.code,
            bits=kind.bits,
            lanes=1,
            shape=(ctypes.c_int64 * held.ndim)(*held.shape),
            strides=(ctypes.c_int64 * held.ndim)(*(s // size for s in held.strides)),
        )


class TextModule(Module):
    """Functions of LLVM text that says nothing of their arguments.

    Args:
        artifact: the text, its object code, a signature without parameters for each function.
    """

    def __init__(self, artifact: Artifact) -> None:
        code = load_object(artifact.object)
        self._hold(artifact, code, [PackedFunction(s, self) for s in artifact.signatures])


def load_text(request: str, file: Path, kind: str) -> Module:
    """The module of a file with LLVM text (``"ll"``) or bitcode (``"bc"``).

    Raises:
        ArtifactError: LLVM does not read it, or it has no function that can be called.
    """
    from whet.compiler.target import Target
    from whet.compiler.target.llvm_machine import machine_of

    try:
        data = file.read_bytes()
        text = data.decode() if kind == "ll" else from_bitcode(data)
        said, text = description(text)
        if said is None:
            names = packed_functions(text)
            target = Target("llvm").canonical().to_json()
            made = Artifact(b"", tuple(KernelSignature(n, ()) for n in names), target, text)
        else:
            made = replace(artifact_of(said), source=text)
        if not made.signatures:
            way_out = "it needs functions `i32 name(ptr, i32)`: of DLTensors, and how many"
            raise ArtifactError(request, "it has no function that can be called", way_out)
        made = replace(made, object=compile_text(text, machine_of(Target(made.target))))
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, CodegenError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(request, f"it is no LLVM code that is known here: {error}") from None
    return TextModule(made) if said is None else Module(made)
