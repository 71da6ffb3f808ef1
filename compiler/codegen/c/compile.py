"""C text to object bytes: the system's C compiler."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from whet.compiler.errors import CodegenError, TargetError

#: what the generated code relies on: no contraction to FMA behind its back, no type-based aliasing
FLAGS = ("-std=c99", "-O2", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing")
# a kernel that takes a compiler longer than this is too large
TIMEOUT_SECONDS = 120


def compile_text(text: str, compiler: str = "cc", flags: tuple[str, ...] = ()) -> bytes:
    """Compile C text to a position-independent object file.

    Args:
        text: the source.
        compiler: a command, e.g. ``"cc"`` or ``"gcc-13 -march=native"``.
        flags: more options.

    Raises:
        TargetError: there is no such compiler.
        CodegenError: it refuses the text.
    """
    words = _command(compiler)
    with tempfile.TemporaryDirectory(prefix="whet-c-") as folder:
        source, out = Path(folder, "kernel.c"), Path(folder, "kernel.o")
        source.write_text(text)
        command = [*words, *FLAGS, *flags, "-c", str(source), "-o", str(out)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise CodegenError(
                f"compiling C with {compiler!r}",
                f"it took more than {TIMEOUT_SECONDS} seconds for {len(text.splitlines())} lines",
                "unroll less",
            ) from None
        if done.returncode != 0 or not out.exists():
            raise CodegenError(
                f"compiling C with {compiler!r}",
                f"it ended with {done.returncode}",
                done.stderr.decode(errors="replace").replace(str(source), "kernel.c").strip(),
            )
        return out.read_bytes()


def _command(compiler: str) -> list[str]:
    """A compiler's command in words, the first of which exists."""
    try:
        words = shlex.split(compiler) or ["cc"]
    except ValueError as error:
        raise TargetError(
            f"compiling C with {compiler!r}", f"it cannot be split into words: {error}"
        ) from None
    if shutil.which(words[0]) is None:
        raise TargetError(
            f"compiling C with {compiler!r}",
            f"there is no {words[0]!r} on the PATH",
            "install a C compiler (Debian: apt install gcc), or name one: Target('c -cc=gcc')",
        )
    return words
