"""CUDA C to a library of the host: the system's C++ compiler, kept by content."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path

from whet.compiler import settings
from whet.compiler.content_cache import ContentCache, digest
from whet.compiler.emulator.handwritten.adapt import KernelText, adapt
from whet.compiler.emulator.handwritten.refusals import refused
from whet.compiler.emulator.precompiled import link_precompiled
from whet.compiler.errors import CodegenError, TargetError

HEADER = "prelude.h"  # which includes all others
# No contraction behind the text's back; vectors are read as what they are made of.
FLAGS = (
    "-std=c++20",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    # __activemask() looks at the calls that led to it
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-fno-finite-loops",  # one that waits for ever is to be seen, and not left out
    # what nvcc refuses, too
    "-fno-exceptions",
    "-fno-rtti",
    "-Werror=vla",
    "-Werror=pointer-arith",
    "-Werror=frame-larger-than=229376",  # a thread's stack has 256 KiB
)
# What these find, the prelude reports (traps.h), and no library of the compiler's.
_SANITIZED = ("-fsanitize=integer-divide-by-zero", "-nodefaultlibs")
_LIBRARIES = ("-lstdc++", "-lm", "-lc", "-lgcc")
_WHOLE = "-Wl,--no-undefined"  # what is declared and not defined is told here, not by a loader
TIMEOUT_SECONDS = 300
FILE = "kernel.cu"  # what messages call the text
_BYTES = re.compile(r"\b(?:bool|char|u?char[234]|u?int8_t|u?int8x\d+|boolx\d+)\b")
_SHORTS = re.compile(r"\b(?:u?short[234]?|u?int16\w*|(?:__)?half2?|\w*float16\w*|\w*bfloat16\w*)\b")
_NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")
# of texts, and of headers that were read before
_FOLDERS = re.compile(r"\S*/whet-emulator-\w+/")
_cache = ContentCache("emulated")


def compile_emulated(source: str, checks: bool = False, quick: bool = False) -> Path:
    """Compile CUDA C for the emulator.

    Args:
        source: the text, generated or by hand, without NVIDIA's headers and Whet's prelude.
        checks: whether accesses of memory are looked at.
        quick: whether compiling fast matters more than running fast: half the time to compile, five
            times that to run; code that runs fast is taken where it is kept already.

    Returns:
        A shared library with its kernels and the function that launches them; made once for a text.

    Raises:
        TargetError: there is no C++ compiler.
        CodegenError: it refuses the text, or there is no kernel in it.
    """
    text, granule = _whole(source)
    command = [*compiler_command(), f"-DWHET_EMULATOR_CHECKS={int(checks)}"]
    command.append(f"-DWHET_EMULATOR_GRANULE={granule}")
    if "clang" not in _version(command[0]):
        command.append("-fno-gnu-unique")  # or a library would stay loaded for ever
        # what diverges on a GPU stays apart: __activemask() in two branches is not one call
        command += ["-fno-tree-tail-merge", "-fno-crossjumping"]
    for options in [_options(checks, False), *([_options(checks, True)] if quick else [])]:
        words = " ".join([*command, *options])
        name = digest(text, *_headers().values(), words, _version(command[0]))
        kept = _cache.find(name, ".so")
        if kept is not None:
            return kept
    try:
        made = _compile(source, text, command, options, quick)
    except CodegenError as error:
        # code that is not optimised puts each value on the stack
        if not quick or "frame-larger-than" not in str(error):
            raise
        made = _compile(source, text, command, _options(checks, False), False)
    put = _cache.put(name, made, ".so")
    return put if put is not None else _own_file(name, made)


def _whole(source: str) -> tuple[str, int]:
    """The text that the compiler reads, and how many bytes are watched together."""
    body, kernels, _ = adapt(source)
    head = f'#include "{HEADER}"\n#line 1 "{FILE}"'
    return "\n".join((head, body, '#line 1 "kernels"', _table(kernels, body))), _granule(body)


def _granule(text: str) -> int:
    """Bytes that are watched together: no more than the smallest elements have."""
    text = re.sub(r"\bunsigned char whet_shared\b", "", text)
    return 1 if _BYTES.search(text) else 2 if _SHORTS.search(text) else 4


def _table(kernels: tuple[KernelText, ...], body: str) -> str:
    lines, entries = ["namespace whet_emulator {"], []
    for k in kernels:
        names = "".join(f'"{p}", ' for p in k.parameters)
        lines.append(f"static const char *const {k.name}_names[] = {{{names}nullptr}};")
        names_of = f"whet_emulator::{k.name}_names"
        entries.append(f"    WHET_EMULATED_KERNEL({k.name}, {names_of}, ({k.most_threads})),")
    spaces = dict.fromkeys(_NAMESPACE.findall(body))  # the kernels of which have plain names here
    lines += ["}", *(f"using namespace {space};" for space in spaces)]
    lines += ['extern "C" const whet_emulator::Kernel whet_kernels[] = {', *entries, "};"]
    lines.append(f'extern "C" const int whet_kernel_count = {len(kernels)};')
    return "\n".join(lines) + "\n"


def _options(checks: bool, quick: bool) -> tuple[str, ...]:
    checked = ("-g1", "-fsanitize=shift-exponent") if checks else ()
    return (*FLAGS, *_SANITIZED, "-O0" if quick else "-O2", *checked)


@functools.cache
def _headers() -> dict[str, str]:
    headers = files("whet.compiler.emulator").joinpath("include").iterdir()
    return {file.name: file.read_text() for file in sorted(headers, key=lambda file: file.name)}


@functools.cache
def _version(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True)
    return done.stdout.decode(errors="replace")


def compiler_command() -> list[str]:
    """The C++ compiler's command in words, the first of which exists.

    Raises:
        TargetError: there is none.
    """
    text = settings.cxx_compiler()
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(f"compiling C++ with {text!r}", f"it cannot be read: {error}") from None
    if shutil.which(words[0]) is None:
        raise TargetError(
            f"compiling for the emulator with {text!r}",
            f"there is no {words[0]!r} on the PATH",
            "install a C++ compiler (Debian: apt install g++), or name one in the variable CXX",
        )
    return words


def _compile(
    source: str, text: str, command: list[str], options: tuple[str, ...], quick: bool
) -> bytes:
    with tempfile.TemporaryDirectory(prefix="whet-emulator-") as folder:
        for name, header in _headers().items():
            Path(folder, name).write_text(header)
        whole, out = Path(folder, "whole.cpp"), Path(folder, "kernel.so")
        whole.write_text(text)
        if quick:
            words = [*command, *options]
            link_precompiled(Path(folder), HEADER, _headers(), words, _version(command[0]))
        words = [*command, *options, f"-I{folder}", str(whole), *_LIBRARIES, _WHOLE]
        words += ["-o", str(out)]
        try:
            done = subprocess.run(words, capture_output=True, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise CodegenError(
                "compiling CUDA C for the emulator",
                f"it took more than {TIMEOUT_SECONDS} seconds for {len(text.splitlines())} lines",
                "unroll less",
            ) from None
        if done.returncode != 0 or not out.exists():
            log = _FOLDERS.sub("", done.stderr.decode(errors="replace")).strip()
            raise refused(log, done.returncode, source)
        return out.read_bytes()


@functools.cache
def _own_folder() -> Path:
    """Where libraries of this process stand when nothing is kept."""
    folder = Path(tempfile.mkdtemp(prefix="whet-emulated-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    """Remove a process's folder, at its end and not at that of a child that was forked."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _own_file(name: str, data: bytes) -> Path:
    path = _own_folder() / f"{name}.so"
    if not path.exists():
        beside = path.with_suffix(".part")
        beside.write_bytes(data)
        beside.replace(path)
    return path
