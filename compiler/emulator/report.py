"""What the emulator found, in words."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

from whet.compiler.emulator.compile import FILE
from whet.compiler.emulator.macros import own_lines
from whet.compiler.errors import KernelError

FAULTS = (
    "",
    "out of bounds",
    "unwritten memory",
    "race",
    "divergent barrier",
    "missing threads at a barrier",
    "trap",
    "bad launch",
    "misaligned",
)
_SCOPES = ("global", "shared", "local")
_Three = ctypes.c_uint32 * 3


class Report(ctypes.Structure):
    """As ``Report`` in ``checks.h``."""

    _fields_ = [
        *((n, ctypes.c_int) for n in ("fault", "scope", "write", "line", "other_line")),
        *((n, ctypes.c_int) for n in ("has_other", "other_wrote", "element")),
        *((n, ctypes.c_int64) for n in ("index", "count")),
        *((n, _Three) for n in ("block", "thread", "other_block", "other_thread")),
        ("place", ctypes.c_uint64),
        ("kernel", ctypes.c_char * 128),
        ("buffer", ctypes.c_char * 128),
        ("text", ctypes.c_char * 256),
    ]


class EmulatorError(KernelError):
    """A kernel did in the emulator what it must not do on a GPU.

    Attributes:
        fault: one of ``"out of bounds"``, ``"unwritten memory"``, ``"race"``, ``"divergent
            barrier"``, ``"missing threads at a barrier"``, ``"trap"``, ``"misaligned"``, ``"bad
            launch"``.
        kernel: its name.
        buffer: the buffer's name; empty where no memory is concerned.
        scope: of that buffer: ``"global"``, ``"shared"`` or ``"local"``.
        block, thread: who it was, as (x, y, z).
        other_block, other_thread: the other party of a race or a barrier; None where there is none.
        index: of the element.
        line: in the CUDA C text, from 1; 0 where it is not known.
    """

    fault = ""
    kernel = ""
    buffer = ""
    scope = ""
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    other_block: tuple[int, ...] | None = None
    other_thread: tuple[int, ...] | None = None
    index = 0
    line = 0

    def __reduce__(self) -> tuple:
        made, args = super().__reduce__()
        return made, args, dict(self.__dict__)


def error_of(report: Report, library: Path, source: str) -> EmulatorError:
    """A report as an error.

    Args:
        report: what the library said.
        library: the library, whose debugging information tells lines.
        source: the CUDA C text.
    """
    line = report.line or _line_of(library, report.place)
    lines = own_lines(source)
    shown = f"line {line}: {lines[line - 1].strip()}" if 0 < line <= len(lines) else ""
    why, way_out = _why(report, lines)
    block, thread = tuple(report.block), tuple(report.thread)
    kernel = report.kernel.decode(errors="replace")
    asked = f"emulating {kernel}" + (f": block {block}, thread {thread}" if kernel else "")
    error = EmulatorError(asked, why, "\n".join(x for x in (shown, way_out) if x))
    error.fault, error.kernel, error.line = FAULTS[report.fault], kernel, line
    error.buffer = report.buffer.decode(errors="replace")
    error.scope = _SCOPES[report.scope] if error.buffer else ""
    error.block, error.thread, error.index = block, thread, report.index
    if report.has_other:
        error.other_block, error.other_thread = (
            tuple(report.other_block),
            tuple(report.other_thread),
        )
    elif error.fault == "race":
        error.other_block = tuple(report.other_block)
    return error


def _why(r: Report, lines: list[str]) -> tuple[str, str]:
    """Why it cannot be, and the way out."""
    scope = _SCOPES[r.scope]
    place = f"{scope} {r.buffer.decode(errors='replace')}[{r.index}]"
    does = "writes" if r.write else "reads"
    fault = FAULTS[r.fault]
    if fault == "out of bounds":
        return (
            f"it {does} {place}, out of bounds: there are {r.count} elements of {r.element} bytes",
            "guard the access, or clamp the index",
        )
    if fault == "unwritten memory":
        return (
            f"it reads {place}, which nothing has written",
            "write it first"
            + {"shared": ", in this block, and set a barrier between", "local": ""}.get(
                scope, ": by an earlier kernel or a copy"
            ),
        )
    if fault == "misaligned":
        return (
            f"it {does} {r.element} bytes of {scope} {r.buffer.decode(errors='replace')} at byte "
            f"{r.index}, whose address is no multiple of {r.count}",
            "move vectors from aligned indices only",
        )
    if fault == "race":
        return _race(r, place, does)
    if fault in ("divergent barrier", "missing threads at a barrier"):
        return _barrier(r, lines)
    if fault == "trap":
        return f"it ended itself: {r.text.decode(errors='replace')}", ""
    return "its grid or its block is empty or too large", "a block has 1 to 1024 threads"


def _race(r: Report, place: str, does: str) -> tuple[str, str]:
    same_block = tuple(r.block) == tuple(r.other_block)
    other = f"thread {tuple(r.other_thread)}" if r.has_other else "another thread"
    if not same_block:
        other = f"block {tuple(r.other_block)}, {other}"
    did = "has written" if r.other_wrote else "has read"
    why = f"a race: it {does} {place}, which {other} {did} with no barrier between"
    if r.other_wrote and not r.has_other and not r.write:  # another one's atomic operation
        order = "set a barrier between" if same_block else "hand it over by __threadfence() first"
        return why, f"read it by an atomic operation, too: atomicAdd(p, 0); or {order}"
    if same_block:
        return why, "set a barrier: __syncthreads() between the two accesses"
    return why, (
        "no barrier orders blocks: use two kernels, let one block do both, or hand it over by "
        "__threadfence() and an atomic counter that both come by"
    )


def _barrier(r: Report, lines: list[str]) -> tuple[str, str]:
    kind = "warp's barrier" if r.write else "barrier"
    here = f"the {kind} at line {r.line}"
    way_out = "let all threads of a block come by each __syncthreads(), or none"
    if not r.has_other:
        return f"it waits at {here} for threads that never come", way_out
    other = f"thread {tuple(r.other_thread)}"
    if FAULTS[r.fault] == "divergent barrier":
        return f"it is at {here} while {other} is at the one at line {r.other_line}", way_out
    if r.other_wrote:
        return f"it waits at {here}, and {other} has ended without coming by", way_out
    return f"it waits at {here}, and {other} at the one at line {r.other_line}", way_out


def _line_of(library: Path, place: int) -> int:
    """The line of the text that a place in the code belongs to; 0 where nothing tells."""
    tool = shutil.which("addr2line")
    if tool is None or place == 0:
        return 0
    # the place is where a call returns to; the call is before it
    words = [tool, "-i", "-e", str(library), hex(place - 1)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(rf"{re.escape(FILE)}:(\d+)", done.stdout.decode(errors="replace"))
    return int(found[1]) if found else 0
