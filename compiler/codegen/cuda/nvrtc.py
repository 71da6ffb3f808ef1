"""CUDA C compiled by NVRTC, with no GPU and no driver: cubin, PTX and what kernels take.

What was compiled once is kept by the digest of everything that matters to it.
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from whet.compiler.abi.artifact import Resources
from whet.compiler.codegen.cuda import library, prelude
from whet.compiler.codegen.cuda.cubin import resources_of
from whet.compiler.content_cache import ContentCache, digest
from whet.compiler.errors import ArgumentError, CodegenError, TargetError

__all__ = ["Compiled", "NvrtcError", "Resources", "compile_cubin", "compile_ptx"]

_FILE = "kernel.cu"
_VERBOSE = "--ptxas-options=-v"
_cache = ContentCache("nvrtc")


class NvrtcError(CodegenError):
    """NVRTC refuses a text; the error has the compiler's own words."""


@dataclass(frozen=True)
class Compiled:
    """Kernels compiled for one architecture.

    Attributes:
        cubin: machine code, as the driver loads it.
        log: what the compiler said, for each kernel what it takes.
        source: the CUDA C text, without the prelude.
        arch: e.g. ``"sm_90"``.
    """

    cubin: bytes
    log: str
    source: str
    arch: str

    @property
    def resources(self) -> Mapping[str, Resources]:
        """Kernel -> registers, spills, shared memory."""
        return resources_of(self.cubin, self.log)

    @property
    def ptx(self) -> str:
        """The text between CUDA C and machine code, compiled when it is asked for."""
        return compile_ptx(self.source, self.arch)


def compile_cubin(source: str, arch: str) -> Compiled:
    """Machine code of CUDA C for an architecture.

    Args:
        source: the text of kernels, as ``Module.get_source("cuda")`` gives it; the prelude goes in
            front of it.
        arch: e.g. ``"sm_80"``, ``"sm_90a"``.

    Raises:
        NvrtcError: the compiler refuses the text.
        TargetError: there is no NVRTC here, or it does not know the architecture.
        ArgumentError: ``arch`` is no architecture.
    """
    log, cubin = _through_cache(source, arch, "cubin")
    return Compiled(cubin, log, source, arch)


def compile_ptx(source: str, arch: str) -> str:
    """The PTX text of CUDA C for an architecture.

    Raises:
        NvrtcError, TargetError, ArgumentError: as :func:`compile_cubin`.
    """
    return _through_cache(source, arch, "ptx")[1].decode()


# the cache: a line of JSON, then the bytes


def _through_cache(source: str, arch: str, form: str) -> tuple[str, bytes]:
    """The log and the bytes of a form of a program, ``cubin`` or ``ptx``."""
    options = _options(arch, real=form == "cubin")
    version = ".".join(map(str, library.load().version))
    name = digest(version, form, *options, prelude.text(), source)
    kept = _cache.get(name)
    if kept is not None and (read := _unpacked(kept)) is not None:
        return read
    data, log = _compiled(source, arch, form.upper(), options)
    if form == "ptx":
        data = data.rstrip(b"\0")
    _cache.put(name, _packed(log, data))
    return log, data


def _packed(log: str, data: bytes) -> bytes:
    head = json.dumps({"log": log, "sha": digest(data), "bytes": len(data)})
    return head.encode() + b"\n" + data


def _unpacked(kept: bytes) -> tuple[str, bytes] | None:
    """The log and the bytes of a file of the cache; None where it is damaged."""
    head, _, data = kept.partition(b"\n")
    try:
        said = json.loads(head)
    except ValueError:
        return None
    whole = isinstance(said, dict) and said.get("sha") == digest(data)
    return (str(said["log"]), data) if whole else None


# compiling


def _options(arch: str, real: bool) -> tuple[str, ...]:
    found = re.fullmatch(r"sm_(\d+)([af]?)", arch)
    if found is None:
        raise ArgumentError(
            f"compile CUDA C for {arch!r}", "that is no architecture", 'e.g. "sm_80", "sm_90a"'
        )
    known = library.load().architectures
    if int(found[1]) not in known:
        major, minor = library.load().version
        raise TargetError(
            f"compile CUDA C for {arch}",
            f"NVRTC {major}.{minor} does not know it",
            f"it knows {', '.join(f'sm_{n}' for n in known)}: choose one with "
            f'"cuda -arch=..", or install another NVRTC',
        )
    kind = arch if real else arch.replace("sm_", "compute_")
    return (f"--gpu-architecture={kind}", "--std=c++17", *((_VERBOSE,) if real else ()))


@contextmanager
def _program(source: str) -> Iterator[ctypes.c_void_p]:
    nvrtc = library.load()
    text = f'#line 1 "prelude.cuh"\n{prelude.text()}\n#line 1 "{_FILE}"\n{source}'
    program = ctypes.c_void_p()
    create = ctypes.byref(program), text.encode(), _FILE.encode(), 0, None, None
    nvrtc.check("nvrtcCreateProgram", *create)
    try:
        yield program
    finally:
        nvrtc.check("nvrtcDestroyProgram", ctypes.byref(program))


def _compiled(source: str, arch: str, form: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """The result and the log."""
    nvrtc = library.load()
    with _program(source) as program:
        given = (ctypes.c_char_p * len(options))(*(x.encode() for x in options))
        code = nvrtc.call("nvrtcCompileProgram", program, len(options), given)
        log = nvrtc.text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if code == 0:
            return nvrtc.text(program, form), log
    if _VERBOSE in options and not re.search(r"\berror\b", log):
        # beside what kernels take, the assembler's errors are not printed
        without = tuple(x for x in options if x != _VERBOSE)
        return _compiled(source, arch, form, without)
    raise NvrtcError(
        f"compile CUDA C for {arch}",
        f"NVRTC says {nvrtc.meaning(code)}",
        log.strip() or "it gives no reason",
    )


@functools.cache
def available() -> bool:
    """True if CUDA C can be compiled on this machine."""
    try:
        library.load()
    except TargetError:
        return False
    return True
