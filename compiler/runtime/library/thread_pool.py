"""The process's one thread pool, as LLVM text: `whet_parallel_for(fn, ctx, n, grain)` for kernels.

``fn`` is ``void(i64 begin, i64 end, ptr ctx)``. Where ``grain`` is 0 the range 0..n is split evenly
over the threads, and the caller takes the first part; else each thread takes ``grain`` steps, and
the next ``grain`` when it has done those. Handing over costs well under a microsecond while the
workers are awake: who waits spins for some tens of microseconds, gives its turn away for some
milliseconds, and sleeps on a futex. A worker that sleeps leaves the core of its last caller to it,
and a caller that has moved since says so first: Linux may wake a thread on its caller's core,
though others are idle.

A range of one grain, a call from inside a parallel part, a call while another thread uses the pool,
and every call in a forked child (which has no workers) runs as a whole in the calling thread.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from string import Template

from whet.compiler.jit.compile import compile_text
from whet.compiler.jit.loader import LoadedCode
from whet.compiler.target.machine import host
from whet.compiler.target.machine.host_machine import host_machine

# A pause takes 25 to 45 ns on current CPUs, so that this is 25 to 45 microseconds.
_SPINS = 1000
# Nanoseconds in which a thread that waits gives its turn away before it sleeps.
_PATIENCE = 3_000_000
_MADV_WIPEONFORK = 18

# architecture -> (number of the futex system call, LLVM's pause)
_FUTEX = {
    "x86_64": (202, "@llvm.x86.sse2.pause()"),
    "aarch64": (98, "@llvm.aarch64.hint(i32 1)"),
}

_TEXT = Path(__file__).with_suffix(".ll")
_lock = threading.Lock()
_installed: list[tuple[LoadedCode, object]] = []  # code that workers run: never freed


def address() -> int:
    """The address of this process's ``whet_parallel_for``.

    The number of threads is fixed here: ``WHET_NUM_THREADS``, else the physical cores within the
    affinity mask. The workers start with the first parallel call.
    """
    with _lock:
        if not _installed:
            _installed.append(_install())
        return _installed[0][0].address_of("whet_parallel_for")


def _install() -> tuple[LoadedCode, object]:
    """The pool's code, and what it refers to."""
    threads = host.num_threads()
    if threads > 1 and sys.platform == "linux" and host.architecture() in _FUTEX:
        mark = _fork_mark()
        text = pool_text(threads, ctypes.addressof(mark))
    else:
        mark, text = None, serial_text()
    return LoadedCode(compile_text(text, host_machine()), provide=False), mark


def _fork_mark() -> ctypes.c_char:
    """A byte that is 1 here and 0 in every forked child, however the fork was made."""
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mark = ctypes.c_char.from_buffer(page)
    with suppress(OSError):  # a kernel before 4.14
        page.madvise(_MADV_WIPEONFORK)

    def wipe() -> None:
        mark.value = b"\0"

    # Forks that Python makes are seen here, too: an emulated kernel may say yes and wipe nothing.
    os.register_at_fork(after_in_child=wipe)
    mark.value = b"\1"
    return mark


def serial_text() -> str:
    """LLVM text of a ``whet_parallel_for`` that runs everything in the calling thread."""
    return """
define void @whet_parallel_for(ptr %fn, ptr %ctx, i64 %n, i64 %grain) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %run, label %done
run:
  call void %fn(i64 0, i64 %n, ptr %ctx)
  ret void
done:
  ret void
}
"""


# In an exported library, C code that is linked with the pool counts threads and maps the mark's
# page; its symbols are weak, as several libraries may become one program.
_LIBRARY = """
@whet_pool_threads = external hidden global i64
@whet_pool_mark = external hidden global ptr
"""


def library_text(architecture: str) -> str:
    """LLVM text of the pool of an exported library; serial where there is no pool for it."""
    if architecture not in _FUTEX:
        return serial_text().replace("define void", "define weak hidden void")
    text = pool_text(None, None, architecture)
    public = "define void @whet_parallel_for"
    return _LIBRARY + text.replace(public, public.replace("define", "define weak hidden"))


def pool_text(threads: int | None, fork_mark: int | None, architecture: str | None = None) -> str:
    """LLVM text of the pool.

    Args:
        threads: how many threads take part, the caller included; None: what is in
            ``@whet_pool_threads``.
        fork_mark: address of the byte that is 0 in a forked child; None: it is in
            ``@whet_pool_mark``.
        architecture: what the code runs on; this machine by default.

    All workers acknowledge every job (those whose part is empty, too), so that no late one can
    take a new job's fields for the old one's. A worker raises ``@sleepers`` before it sleeps and
    the caller raises ``@epoch`` before it looks at ``@sleepers``, both sequentially consistent:
    one of them sees the other, and no wake-up is lost. ``@waiting`` and ``@pending`` work alike.
    """
    futex, pause = _FUTEX[architecture or host.architecture()]
    name, _, argument = pause.partition("(")
    words = ("epoch", "pending", "sleepers", "waiting", "busy", "workers", "started")
    parts = {
        "globals": "\n".join(f"@{w} = internal global i32 0, align 64" for w in words),
        "futex": futex,
        "pause": pause,
        "pause_name": name,
        "pause_type": "" if argument == ")" else "i32",
        "spins": _SPINS,
        "patience": _PATIENCE,
        "limit": "" if threads else "  %limit = load i64, ptr @whet_pool_threads\n",
        "threads": threads or "%limit",
        "page": "" if fork_mark else "  %page = load ptr, ptr @whet_pool_mark\n",
        "mark": f"inttoptr (i64 {fork_mark} to ptr)" if fork_mark else "%page",
    }
    return "\n" + Template(_TEXT.read_text()).substitute(parts)
