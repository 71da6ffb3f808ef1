"""Kernels for aarch64: cross-compiled, linked with Debian's compiler, run by qemu-user.

Tests of numbers on this machine try a sample of their kernels there, too, drawn by the names of the
tests; ``--aarch64`` tries all of them.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import struct
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import whet
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.runtime.library import export, weights
from whet.compiler.target.machine import host
from whet.compiler.tir import dtype as dtypes

TARGET = "llvm -mtriple=aarch64-linux-gnu -num-threads=2"
PREFIX = "aarch64-linux-gnu-"
SYSROOT = "/usr/aarch64-linux-gnu"
PACKAGES = "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
SHARE = 12
"""Of so many tests of numbers, one runs its kernels here, too; --aarch64: all."""
SECONDS = 300
chosen = False  # whether the test that runs now does; the root's conftest.py sets it for each test

_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_ABOUT = 200


@functools.cache
def missing() -> str:
    """The missing tools and where to get them; empty where kernels can be run."""
    if host.architecture() == "aarch64":
        return "this machine is an aarch64 itself"
    if not (shutil.which(PREFIX + "gcc") and qemu() and Path(SYSROOT).is_dir()):
        return f"there is no cross compiler and no qemu for aarch64; on Debian: {PACKAGES}"
    return ""


def qemu() -> str | None:
    """The program that runs programs for aarch64."""
    return shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")


def choose(test: str, everything: bool) -> None:
    """Say whether the test of that name runs its kernels here, too."""
    global chosen
    drawn = everything or zlib.crc32(test.encode()[::-1]) % SHARE == 0
    chosen = drawn and not missing()


def run(*command: str | Path, folder: Path | None = None, stdin: bytes = b"", **env: str) -> Any:
    """Run a program for aarch64 to its end."""
    start = [qemu(), "-L", SYSROOT, *(x for k, v in env.items() for x in ("-E", f"{k}={v}"))]
    return subprocess.run(
        [*start, *command], input=stdin, cwd=folder, capture_output=True, timeout=SECONDS
    )


def compile_c(*arguments: str | Path, folder: Path) -> None:
    """Call the C compiler for aarch64."""
    done = subprocess.run(
        [PREFIX + "gcc", "-O1", f"-I{export.include_dir()}", *arguments],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@functools.cache
def _tools() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """A folder with the driver, and with what an exported library holds beside its kernels."""
    kept = tempfile.TemporaryDirectory(prefix="whet-aarch64-")
    folder = Path(kept.name)
    source = Path(__file__).with_name("aarch64_driver.c")
    strict = ("-std=gnu99", "-Wall", "-Wextra", "-Werror")
    compile_c(*strict, source, "-o", "driver", "-Wl,--no-as-needed", "-lm", "-ldl", "-pthread",
              folder=folder)  # fmt: skip
    for name, parallel in (("serial", False), ("parallel", True)):
        (folder / f"{name}.c").write_text(export.library_source("{}", parallel))
        compile_c("-std=gnu99", "-fPIC", "-c", f"{name}.c", "-o", f"{name}.o", folder=folder)
    return kept, folder


def _link(output: str, files: list[str]) -> None:
    """The compiler's part of export_library, with the C file compiled already."""
    pool = any(f.endswith("pool.o") for f in files)
    rest = _tools()[1] / ("parallel.o" if pool else "serial.o")
    objects = [f for f in files if f.endswith(".o")]
    shared = ("-shared", "-Wl,-Bsymbolic-functions", "-Wl,-z,nodelete", "-pthread")
    compile_c(*shared, *objects, rest, "-lm", "-o", output, folder=_tools()[1])


class Kernel:
    """A function of a module for aarch64, called with numpy's arrays and numbers.

    Args:
        module: what ``build`` made for :data:`TARGET`.
        name: of the function; the entry function by default.
    """

    def __init__(self, module: Any, name: str = "") -> None:
        self.module = module
        self.signature: KernelSignature = module[name].signature if name else (
            module.entry_func.signature
        )  # fmt: skip
        self._folder = tempfile.TemporaryDirectory(prefix="whet-aarch64-")
        self._library = Path(self._folder.name) / "kernel.so"
        module.export_library(self._library, fcompile=_link)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.name

    def __call__(self, *args: Any) -> None:
        """Run it; arrays that it writes hold its results then."""
        request = [_text(str(self._library)), _text(self.name), _numbers(len(args))]
        params = self.signature.params
        assert len(args) == len(params)
        given = [_array(a) if isinstance(p, BufferParam) else a for p, a in zip(params, args)]
        for p, a in zip(params, given):
            request.append(_sent(p, a) if isinstance(p, BufferParam) else _scalar(p, a))
        done = run(_tools()[1] / "driver", stdin=b"".join(request), WHET_NUM_THREADS="2")
        said = done.stderr.decode(errors="replace").strip()
        assert done.returncode == 0, f"{self.name}: ended with {done.returncode}: {said}"
        code = struct.unpack_from("<q", done.stdout)[0]
        assert code == 0, done.stdout[8 : 8 + _ABOUT].rstrip(b"\0").decode()
        at = 8 + _ABOUT
        for p, a in zip(params, given):
            if isinstance(p, BufferParam):
                at += _taken_back(p, a, done.stdout[at:])
        assert at == len(done.stdout)

    def repeater(self, args: tuple[Any, ...]) -> Any:
        """As a function of a module has it."""
        return lambda number: self(*args)

    def pack_weights(self, *given: Any) -> Any:
        """As a module has it, packed by the function for aarch64."""
        packs = Kernel(self.module, self.signature.ahead.function)
        return weights.pack(self, packs, given)


def build(*args: Any, **named: Any) -> Kernel:
    """``whet.build`` for aarch64."""
    return Kernel(whet.build(*args, target=TARGET, **named))


def chosen_instead_of(target: Any) -> bool:
    """True if the running test tries for aarch64 what it tries for a target."""
    return chosen and "mtriple=aarch64" not in str(whet.Target(target))


def callable_here(module: Any) -> Any:
    """A module that can be called: one for aarch64 by qemu, another one as it is."""
    made_for = str(module.artifact.target.get("mtriple", ""))
    foreign = made_for.startswith("aarch64") and host.architecture() != "aarch64"
    return Kernel(module) if foreign else module


def too(s: Any, args: Any, arrays: Any, result: Any, rtol: float = 1e-5) -> None:
    """An aarch64 computes what this machine has computed, too: in a sample of all tests.

    Args:
        s: the schedule.
        args: its arguments, the output last.
        arrays: the inputs.
        result: the output of this machine.
    """
    if not chosen:
        return
    wanted = np.asarray(result).astype("float64")
    out = np.full(wanted.shape, np.nan if "float" in str(result.dtype) else 77, result.dtype)
    build(s, args)(*arrays, out)
    scale = max(1.0, float(np.max(np.abs(wanted), initial=0, where=np.isfinite(wanted))))
    np.testing.assert_allclose(out.astype("float64"), wanted, rtol=rtol, atol=rtol * scale)


def is_built_here(f: Any) -> bool:
    """True for a module that ``build`` made for this machine and that calls no Python."""
    loops = getattr(f, "ir_module_by_target", {})
    own = len(loops) == 1 and all(t.kind == "llvm" for t in loops)
    return own and b"whet_call_packed" not in f.artifact.object


def built_again(module: Any) -> Kernel:
    """The loops of a module as a kernel for aarch64."""
    (loops,) = module.ir_module_by_target.values()
    return Kernel(whet.build(loops, target=TARGET))


def _text(text: str) -> bytes:
    return _numbers(len(text.encode())) + text.encode()


def _numbers(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def _array(a: Any) -> np.ndarray:
    return a.numpy() if hasattr(a, "numpy") else np.asarray(a)


def _scalar(p: ScalarParam, value: Any) -> bytes:
    return _numbers(0) + np.asarray(value, p.dtype).tobytes().ljust(8, b"\0")


def _span(a: np.ndarray) -> tuple[int, int]:
    """Where an array's memory begins and how long it is, in bytes; steps backwards included."""
    if a.size == 0:
        return a.__array_interface__["data"][0], 0
    begin, end = np.lib.array_utils.byte_bounds(a)
    return begin, end - begin


def _sent(p: BufferParam, a: np.ndarray) -> bytes:
    name, lanes = dtypes.split(p.dtype)
    word = name.rstrip("0123456789")
    bits = int(name[len(word) :] or 8)
    begin, size = _span(a)
    size_of_element = max(1, bits // 8)
    strides = [s // size_of_element for s in a.strides]
    first = a.__array_interface__["data"][0] - begin
    head = (1, int(p.written), _CODES[word], bits, lanes, a.ndim, *a.shape, *strides, first, size)
    return _numbers(*head) + _memory(begin, size)


def _memory(begin: int, size: int) -> bytes:
    return ctypes.string_at(begin, size)


def _taken_back(p: BufferParam, a: np.ndarray, data: bytes) -> int:
    begin, size = _span(a)
    if p.written:
        ctypes.memmove(begin, data[:size], size)
    return size
