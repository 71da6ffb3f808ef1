"""Targets as people read them: ``llvm x86-64-v4, 512 bits, 2 threads``, ``cuda sm_80``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from whet.compiler.target.machine import host

if TYPE_CHECKING:
    from whet.compiler.target.target import Target

# What follows from the processor or the architecture, or is said in words of its own.
_FOLLOWS = (
    *("mtriple", "mcpu", "mattr", "vector_bytes", "num_threads", "arch", "max_num_threads"),
    *("max_shared_memory_per_block", "max_threads_per_block", "registers_per_block"),
    "thread_warp_size",
)


def short_form(target: Target) -> str:
    """Kind, processor, vector width and threads of a target; other options as they are written.

    The text is for people: several targets may share it, and it is not parsed.
    """
    attrs = target.attrs
    triple = str(attrs.get("mtriple") or "")
    foreign = triple if triple and triple != host.triple() else ""
    words = [str(target.kind), foreign, str(attrs.get("mcpu") or ""), str(attrs.get("arch") or "")]
    parts = [" ".join(word for word in words if word)]
    if attrs.get("vector_bytes"):
        parts.append(f"{int(attrs['vector_bytes']) * 8} bits")
    if attrs.get("num_threads"):
        threads = int(attrs["num_threads"])
        parts.append("1 thread" if threads == 1 else f"{threads} threads")
    parts += [f"-{k}={shlex.quote(str(v))}" for k, v in attrs.items() if k not in _FOLLOWS]
    return ", ".join(parts)
