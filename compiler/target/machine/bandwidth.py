"""The memory bandwidth of one core: loops that only read, fill or copy a working set.

Which limit a kernel has depends on how many bytes it reads and writes: those of a cache's size
stay in it from call to call, larger ones come from memory each time.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from whet.compiler.errors import TargetError

# Vectors of one step; more changed nothing.
_UNROLLED = 8
# A kernel that writes less than this part of what it reads is measured against reading.
_FEW = 8
# Buffers begin with a page of the larger kind, as numpy's large arrays nearly do.
_PAGE = 1 << 21


class BandwidthProbe:
    """Buffers of a kernel's size, and loops over them that only move memory.

    Args:
        read: bytes that the kernel reads.
        written: bytes that it writes.

    Attributes:
        bytes: what one pass of a loop moves.
        loops: name -> a function that runs a loop over the buffers, once or so many times:
            ``"read"``; ``"fill"``; or ``"copy"``. ``"stream fill"`` and ``"stream copy"`` store
            past the caches (non-temporal). Time them in turn with the kernel.

    Raises:
        TargetError: a number is negative, or both are zero.
    """

    def __init__(self, read: int, written: int = 0) -> None:
        if min(read, written) < 0 or not read + written:
            raise TargetError(
                f"bandwidth({read}, {written})",
                "a loop moves some bytes, and not less than none",
                "give the bytes of a kernel's inputs and of its outputs",
            )
        self._code, step = _code()
        kind, moved = _kind(read, written)
        size = -(-moved // step) * step
        self.bytes = 2 * size if kind == "copy" else size
        self._from = _aligned(size if kind != "fill" else step)
        self._to = _aligned(size if kind != "read" else step)
        names = ("read",) if kind == "read" else (kind, f"stream {kind}")
        self.loops: dict[str, Callable[..., None]] = {n: self._loop(n, size) for n in names}

    def _loop(self, name: str, size: int) -> Callable[..., None]:
        made = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        function = made(self._code.address_of(_symbol(name)))
        source, target = self._from.ctypes.data, self._to.ctypes.data

        def run(times: int = 1) -> None:
            function(source, target, size, times)

        return run


def measure_bandwidth(read: int, written: int, seconds: float) -> float:
    """Bytes a second of the fastest loop over a working set: the quickest of its samples."""
    probe = BandwidthProbe(read, written)
    times = max(1, int(1e6 // probe.bytes))  # a call from Python costs a microsecond
    quickest = float("inf")
    end = time.perf_counter() + seconds
    while True:
        for run in probe.loops.values():
            start = time.perf_counter()
            run(times)
            quickest = min(quickest, time.perf_counter() - start)
        if time.perf_counter() >= end:
            return probe.bytes * times / quickest


def _kind(read: int, written: int) -> tuple[str, int]:
    """Which loop resembles a kernel, and the bytes that it reads (or fills)."""
    if written * _FEW < read:
        return "read", read
    if read * _FEW < written:
        return "fill", written
    return "copy", (read + written) // 2


def _aligned(size: int) -> np.ndarray:
    """Bytes that have been written to."""
    whole = np.empty(size + _PAGE, np.uint8)
    whole.fill(1)
    begin = -whole.ctypes.data % _PAGE
    return whole[begin : begin + size]


@lru_cache(1)
def _code() -> tuple[Any, int]:
    """The loaded loops, and how many bytes one step of them takes."""
    from whet.compiler.codegen.llvm import jit
    from whet.compiler.target.target import Target

    target = Target("llvm").canonical()
    names = ("read", "fill", "copy", "stream fill", "stream copy")
    text = "\n".join(_function(name, target.vector_bytes) for name in names) + "\n!0 = !{i32 1}"
    return jit.load_object(jit.compile_text(text, target)), _UNROLLED * target.vector_bytes


def _symbol(name: str) -> str:
    return f"whet_bandwidth_{name.replace(' ', '_')}"


def _function(name: str, width: int) -> str:
    """``void (source, target, size, times)`` as LLVM text; what is only read is summed up."""
    vec = f"<{width // 4} x i32>"
    hint = ", !nontemporal !0" if name.startswith("stream") else ""
    phis, body, sums = [], [], []
    for k in range(_UNROLLED):
        body.append(f"  %at{k} = add i64 %i, {k * width}")
        value = "splat (i32 1)"
        if not name.endswith("fill"):
            value = f"%v{k}"
            body.append(f"  %p{k} = getelementptr i8, ptr %source, i64 %at{k}")
            body.append(f"  %v{k} = load {vec}, ptr %p{k}, align {width}")
        if name == "read":
            phis.append(f"  %a{k} = phi {vec} [ zeroinitializer, %again ], [ %b{k}, %loop ]")
            body.append(f"  %b{k} = add {vec} %a{k}, %v{k}")
            sums.append(f"  %q{k} = getelementptr i8, ptr %target, i64 {k * width}")
            sums.append(f"  store {vec} %b{k}, ptr %q{k}, align {width}")
        else:
            body.append(f"  %q{k} = getelementptr i8, ptr %target, i64 %at{k}")
            body.append(f"  store {vec} {value}, ptr %q{k}, align {width}{hint}")
    lines = [
        f"define void @{_symbol(name)}(ptr %source, ptr %target, i64 %size, i64 %times) {{",
        "entry:",
        "  br label %again",
        "again:",
        "  %pass = phi i64 [ 0, %entry ], [ %done, %end ]",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %again ], [ %next, %loop ]",
        *phis,
        *body,
        f"  %next = add i64 %i, {_UNROLLED * width}",
        "  %more = icmp slt i64 %next, %size",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *sums,
        "  %done = add i64 %pass, 1",
        "  %once_more = icmp slt i64 %done, %times",
        "  br i1 %once_more, label %again, label %return",
        "return:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)
