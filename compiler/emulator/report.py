"""What the emulator found, in words."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

from whet.compiler.emulator.compile import FILE
from whet.compiler.emulator.handwritten.macros import own_lines
from whet.compiler.emulator.lanes import lanes_in_words
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
    "missing lane",
    "undefined arithmetic",
    "crash",
)
_SCOPES = ("global", "shared", "local", "constant")
_Three = ctypes.c_uint32 * 3
# What `Report.reason` says: of a launch that is refused, of arithmetic, of a signal.
_BOUNDS, _STATIC = 1, 2
_SHIFT, _NO_QUOTIENT = 0, 2
_INSTRUCTION = 1


class Report(ctypes.Structure):
    """As ``Report`` in ``faults.h``."""

    _fields_ = [
        *((n, ctypes.c_int) for n in ("fault", "scope", "write", "line", "other_line")),
        *((n, ctypes.c_int) for n in ("has_other", "other_wrote", "element", "reason")),
        *((n, ctypes.c_int64) for n in ("index", "count")),
        *((n, _Three) for n in ("block", "thread", "other_block", "other_thread")),
        ("place", ctypes.c_uint64),
        ("other_count", ctypes.c_uint64),
        ("kernel", ctypes.c_char * 128),
        ("buffer", ctypes.c_char * 128),
        ("text", ctypes.c_char * 256),
        ("other_text", ctypes.c_char * 64),
    ]


class EmulatorError(KernelError):
    """A kernel did in the emulator what it must not do on a GPU.

    Attributes:
        fault: one of ``"out of bounds"``, ``"unwritten memory"``, ``"race"``, ``"divergent
            barrier"``, ``"missing threads at a barrier"``, ``"trap"``, ``"misaligned"``, ``"bad
            launch"``, ``"missing lane"``, ``"undefined arithmetic"``, ``"crash"``.
        kernel: its name.
        buffer: the buffer's name; empty where no memory is concerned.
        scope: of that buffer: ``"global"``, ``"shared"``, ``"local"`` or ``"constant"``.
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
    if FAULTS[report.fault] == "bad launch" and report.reason != _STATIC:
        asked = f"launching {kernel}"
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
    single = r.index == 0 and r.count == 1 and scope == "shared"  # a variable, or as good as one
    place = f"{scope} {r.buffer.decode(errors='replace')}" + ("" if single else f"[{r.index}]")
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
    if fault == "missing lane":
        return lanes_in_words(r)
    if fault == "undefined arithmetic":
        return _arithmetic(r)
    if fault == "crash":
        return _crash(r)
    return _launch(r)


def _launch(r: Report) -> tuple[str, str]:
    if r.reason == _BOUNDS:
        return (
            f"its block has {r.index} threads, and __launch_bounds__({r.count}) allows {r.count}",
            "launch smaller blocks, or raise the bound: a GPU refuses the launch",
        )
    if r.reason == _STATIC:
        return (
            f"its __shared__ variables take {r.index} bytes by here, and {r.count} is the most: "
            "ptxas refuses the kernel",
            "declare extern __shared__ float s[]; and launch with so many bytes of dynamic shared "
            "memory (cudaFuncSetAttribute allows more than 48 KB)",
        )
    return "its grid or its block is empty or too large", "a block has 1 to 1024 threads"


def _arithmetic(r: Report) -> tuple[str, str]:
    kind = r.text.decode(errors="replace").strip("'")
    if r.reason == _NO_QUOTIENT:
        return "it divides an integer by 0, or the lowest one by -1: there is no quotient", (
            "test the divisor first"
        )
    if r.reason != _SHIFT:
        return f"it divides {r.count} by 0, of type {kind}", "test the divisor first"
    return (
        f"it shifts {r.count}, of type {kind} with {r.element} bits, by {r.index}: undefined "
        "behaviour in C++ and CUDA C",
        f"shift by 0 to {r.element - 1}, or test the count: PTX's shl and shr give 0 beyond (of "
        "a negative number shr gives -1), but the compiler may assume that it does not happen",
    )


def _crash(r: Report) -> tuple[str, str]:
    if r.reason == _INSTRUCTION:
        return "it came to __builtin_trap() or where no code is", ""
    return (
        f"it uses the address {r.index & 0xFFFFFFFFFFFFFFFF:#x}, where no memory is, through a "
        "pointer that is not looked at",
        "an index out of bounds, or a pointer that was never set",
    )


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
    if same_block and r.reason:
        return why, (
            "set a barrier: __syncwarp() between the two accesses, which are of one warp (lanes "
            "do not run in step); __syncthreads() where other warps use that memory, too"
        )
    if same_block:
        return why, "set a barrier: __syncthreads() between the two accesses"
    return why, (
        "no barrier orders blocks: use two kernels, let one block do both, or hand it over by "
        "__threadfence() and an atomic counter that both come by"
    )


def _barrier(r: Report, lines: list[str]) -> tuple[str, str]:
    kind = "warp's barrier" if r.write else "barrier"
    named = f" ({r.text.decode(errors='replace')})" if r.write and r.text else ""
    here = f"the {kind} at line {r.line}{named}"
    way_out = "let all threads of a block come by each __syncthreads(), or none"
    if r.write:
        way_out = (
            f"let all lanes of its mask, 0x{r.count & 0xFFFFFFFF:08x}, come by with that mask, or "
            "name only those that do"
        )
    if not r.has_other:
        return f"it waits at {here} for threads that never come", way_out
    other = f"thread {tuple(r.other_thread)}"
    if FAULTS[r.fault] == "divergent barrier":
        one = f"the one at line {r.other_line}" if r.other_line != r.line else "another one there"
        return f"it is at {here} while {other} is at {one}", way_out
    if r.other_wrote:
        return f"it waits at {here}, and {other} has ended without coming by", way_out
    if r.write and r.reason and r.other_count != r.count:
        other = f"{other}, whose mask is 0x{r.other_count & 0xFFFFFFFF:08x},"
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
