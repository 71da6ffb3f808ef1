"""Faults of a launch, in words."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from whet.compiler.emulator.compile import FILE
from whet.compiler.emulator.handwritten.macros import own_lines
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
_STATIC = 2  # the reason of a launch that is refused for its static shared memory
_NOT_READ = (
    "read only lanes of the mask that come by; a width helps: __shfl_down_sync(mask, v, 8, 16)"
)
# A fault, and what `Report.reason` says of it (None: anything else) -> why, and the way out, by the
# fields of the report and the names of `_why`. The reasons of lanes are `LaneFault` in `fibers.h`.
_WORDS: dict[tuple[str, int | None], tuple[str, str]] = {
    ("out of bounds", None): (
        "it {does} {at}, out of bounds: there are {count} elements of {element} bytes",
        "guard the access, or clamp the index",
    ),
    ("unwritten memory", None): (
        "it reads {at}, which nothing has written",
        "write it first{first}",
    ),
    ("misaligned", None): (
        "it {does} {element} bytes of {where} at byte {index}, whose address is no multiple of "
        "{count}",
        "move vectors from aligned indices only",
    ),
    ("trap", None): ("it ended itself: {text}", ""),
    ("bad launch", 1): (
        "its block has {index} threads, and __launch_bounds__({count}) allows {count}",
        "launch smaller blocks, or raise the bound: a GPU refuses the launch",
    ),
    ("bad launch", _STATIC): (
        "its __shared__ variables take {index} bytes by here, and {count} is the most: ptxas "
        "refuses the kernel",
        "declare extern __shared__ float s[]; and launch with so many bytes of dynamic shared "
        "memory (cudaFuncSetAttribute allows more than 48 KB)",
    ),
    ("bad launch", None): (
        "its grid or its block is empty or too large",
        "a block has 1 to 1024 threads",
    ),
    ("undefined arithmetic", 0): (
        "it shifts {count}, of type {text} with {element} bits, by {index}: undefined behaviour in "
        "C++ and CUDA C",
        "shift by 0 to {last}, or test the count: PTX's shl and shr give 0 beyond (of a negative "
        "number shr gives -1), but the compiler may assume that it does not happen",
    ),
    ("undefined arithmetic", 2): (
        "it divides an integer by 0, or the lowest one by -1: there is no quotient",
        "test the divisor first",
    ),
    ("undefined arithmetic", None): (
        "it divides {count} by 0, of type {text}",
        "test the divisor first",
    ),
    ("crash", 1): ("it came to __builtin_trap() or where no code is", ""),
    ("crash", None): (
        "it uses the address {address:#x}, where no memory is, through a pointer that is not "
        "looked at",
        "an index out of bounds, or a pointer that was never set",
    ),
    ("missing lane", 0): (
        "it is lane {index}, and comes by {text} with the mask {mask}, which does not name it",
        "let only the lanes of the mask come by, or name this one, too",
    ),
    ("missing lane", 1): (
        "its {text} reads lane {index}, which the mask {mask} does not name: it gives no value",
        _NOT_READ,
    ),
    ("missing lane", 2): (
        "its {text} reads lane {index}, which is not there: the block ends before it: it gives no "
        "value",
        _NOT_READ,
    ),
    ("missing lane", 3): (
        "its {text} reads lane {index}, thread {other_thread}, which has ended: it gives no value",
        _NOT_READ,
    ),
    ("missing lane", 4): (
        "its {text} has the mask {mask}, and lane {index}, thread {other_thread}, which that "
        "names, is at {other_text} at line {other_line}",
        "all lanes of a mask come by the same call: take it out of the branch or the loop, or "
        "name only those lanes that are there (__ballot_sync before the branch)",
    ),
    ("missing lane", 5): (
        "its {text} has the mask {mask}, and lane {index}, thread {other_thread}, which that "
        "names, has come by this call before, and has ended",
        "let all lanes of the mask come by as often, with it, or name only those that do",
    ),
    ("missing lane", 6): ("{text} with the width {index}", "a width is 1, 2, 4, 8, 16 or 32"),
}


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
        report: of a launch.
        library: the library, whose debugging information tells lines.
        source: the CUDA C text.
    """
    r = SimpleNamespace(**{name: _plain(getattr(report, name)) for name, *_ in report._fields_})
    line = r.line or _line_of(library, r.place)
    lines = own_lines(source)
    shown = f"line {line}: {lines[line - 1].strip()}" if 0 < line <= len(lines) else ""
    fault, scope = FAULTS[r.fault], _SCOPES[r.scope]
    why, way_out = _why(r, fault, scope)
    subject = f"emulating {r.kernel}" + (f": block {r.block}, thread {r.thread}" * bool(r.kernel))
    if fault == "bad launch" and r.reason != _STATIC:
        subject = f"launching {r.kernel}"
    error = EmulatorError(subject, why, "\n".join(x for x in (shown, way_out) if x))
    error.fault, error.kernel, error.line, error.index = fault, r.kernel, line, r.index
    error.buffer, error.scope = r.buffer, scope if r.buffer else ""
    error.block, error.thread = r.block, r.thread
    if r.has_other or fault == "race":
        error.other_block = r.other_block
    if r.has_other:
        error.other_thread = r.other_thread
    return error


def _plain(value: Any) -> Any:
    """A field of a report: text, a number, or three numbers."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, int) else tuple(value)


def _why(r: SimpleNamespace, fault: str, scope: str) -> tuple[str, str]:
    """Why it cannot be, and the way out."""
    single = r.index == 0 and r.count == 1 and scope == "shared"  # a variable, or as good as one
    where = f"{scope} {r.buffer}"
    at = where if single else f"{where}[{r.index}]"
    does = "writes" if r.write else "reads"
    if fault == "race":
        return _race(r, f"it {does} {at}")
    if "barrier" in fault:
        return _barrier(r, fault)
    before = {"shared": ", in this block, and set a barrier between", "local": ""}
    names = vars(r) | {
        "at": at,
        "where": where,
        "does": does,
        "first": before.get(scope, ": by an earlier kernel or a copy"),
        "text": r.text.strip("'") if fault == "undefined arithmetic" else r.text,
        "last": r.element - 1,
        "address": r.index & 0xFFFFFFFFFFFFFFFF,
        "mask": f"0x{r.count & 0xFFFFFFFF:08x}",
    }
    why, way_out = _WORDS.get((fault, r.reason)) or _WORDS[fault, None]
    return why.format(**names), way_out.format(**names)


def _race(r: SimpleNamespace, access: str) -> tuple[str, str]:
    same_block = r.block == r.other_block
    other = f"thread {r.other_thread}" if r.has_other else "another thread"
    if not same_block:
        other = f"block {r.other_block}, {other}"
    did = "has written" if r.other_wrote else "has read"
    why = f"a race: {access}, which {other} {did} with no barrier between"
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


def _barrier(r: SimpleNamespace, fault: str) -> tuple[str, str]:
    here = f"the barrier at line {r.line}"
    way_out = "let all threads of a block come by each __syncthreads(), or none"
    if r.write:
        here = f"the warp's barrier at line {r.line}" + f" ({r.text})" * bool(r.text)
        way_out = (
            f"let all lanes of its mask, 0x{r.count & 0xFFFFFFFF:08x}, come by with that mask, or "
            "name only those that do"
        )
    other = f"thread {r.other_thread}"
    if not r.has_other:
        return f"it waits at {here} for threads that never come", way_out
    if fault == "divergent barrier":
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
    line = re.search(rf"{re.escape(FILE)}:(\d+)", done.stdout.decode(errors="replace"))
    return int(line[1]) if line else 0
