"""The process's one thread pool, as LLVM text: `whet_parallel_for(fn, ctx, n, grain)` for kernels.

``fn`` is ``void(i64 begin, i64 end, ptr ctx)``. Where ``grain`` is 0 the range 0..n is split evenly
over the threads, and the caller takes the first part; else each thread takes ``grain`` steps, and
the next ``grain`` when it has done those. Handing over costs well under a microsecond while the
workers are awake: a worker spins for some tens of microseconds before it sleeps on a futex.

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

from whet.compiler.codegen.llvm import jit
from whet.compiler.target import Target
from whet.compiler.target.machine import host

# A pause takes 25 to 45 ns on current CPUs, so that this is 25 to 45 microseconds.
_SPINS = 1000
_MADV_WIPEONFORK = 18

# architecture -> (number of the futex system call, LLVM's pause)
_FUTEX = {
    "x86_64": (202, "@llvm.x86.sse2.pause()"),
    "aarch64": (98, "@llvm.aarch64.hint(i32 1)"),
}

_lock = threading.Lock()
_installed: list[object] = []  # code that workers run: never freed


def install() -> None:
    """Make ``whet_parallel_for`` known to objects that are loaded from now on.

    The number of threads is fixed here: ``WHET_NUM_THREADS``, else the physical cores within the
    affinity mask. The workers start with the first parallel call.
    """
    with _lock:
        if _installed:
            return
        threads = host.num_threads()
        if threads > 1 and sys.platform == "linux" and host.architecture() in _FUTEX:
            mark = _fork_mark()
            text = pool_text(threads, ctypes.addressof(mark))
        else:
            mark, text = None, serial_text()
        code = jit.LoadedCode(jit.compile_text(text, Target("llvm").canonical()), pool=False)
        _installed.extend([code, mark])
        jit.provide_symbol("whet_parallel_for", code.address_of("whet_parallel_for"))


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
    limit = "  %limit = load i64, ptr @whet_pool_threads\n" if threads is None else ""
    page = "  %page = load ptr, ptr @whet_pool_mark\n" if fork_mark is None else ""
    at = "%page" if fork_mark is None else f"inttoptr (i64 {fork_mark} to ptr)"
    pause_type = "" if pause.endswith("()") else "i32"
    words = ("epoch", "pending", "sleepers", "waiting", "busy", "workers", "started")
    globals_ = "\n".join(f"@{w} = internal global i32 0, align 64" for w in words)
    return f"""
{globals_}
@job_next = internal global i64 0, align 64
@job_n = internal global i64 0, align 64
@job_grain = internal global i64 0
@job_fn = internal global ptr null
@job_ctx = internal global ptr null
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare void {pause.split("(")[0]}({pause_type})

; op 128: sleep while *word is value; op 129: wake up to value sleepers (both process-private)
define internal i64 @futex(ptr %word, i32 %op, i32 %value) {{
  %r = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 %op, i32 %value,
                                    ptr null, ptr null, i32 0)
  ret i64 %r
}}

define internal void @part(i64 %me) {{
  %n = load i64, ptr @job_n
  %fn = load ptr, ptr @job_fn
  %ctx = load ptr, ptr @job_ctx
  %grain = load i64, ptr @job_grain
  %asked = icmp sgt i64 %grain, 0
  br i1 %asked, label %take, label %share
take:
  %first = atomicrmw add ptr @job_next, i64 %grain monotonic
  %more = icmp slt i64 %first, %n
  br i1 %more, label %grains, label %done
grains:
  %last = add i64 %first, %grain
  %inside = icmp slt i64 %last, %n
  %stop = select i1 %inside, i64 %last, i64 %n
  call void %fn(i64 %first, i64 %stop, ptr %ctx)
  br label %take
share:
  %workers = load i32, ptr @workers
  %wide = zext i32 %workers to i64
  %threads = add i64 %wide, 1
  %each = udiv i64 %n, %threads
  %left = urem i64 %n, %threads
  %b0 = mul i64 %each, %me
  %early = icmp ult i64 %me, %left
  %b1 = select i1 %early, i64 %me, i64 %left
  %begin = add i64 %b0, %b1
  %one = zext i1 %early to i64
  %e0 = add i64 %begin, %each
  %end = add i64 %e0, %one
  %some = icmp ult i64 %begin, %end
  br i1 %some, label %run, label %done
run:
  call void %fn(i64 %begin, i64 %end, ptr %ctx)
  ret void
done:
  ret void
}}

define internal ptr @worker(ptr %arg) {{
entry:
  %me = ptrtoint ptr %arg to i64
  br label %next
next:
  %seen = phi i32 [ 0, %entry ], [ %now, %finished ], [ %now, %wake ]
  br label %doze
doze:
  br label %spin
spin:
  %k = phi i32 [ 0, %doze ], [ %k1, %idle ]
  %now = load atomic i32, ptr @epoch acquire, align 64
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %job, label %idle
idle:
  call void {pause}
  %k1 = add i32 %k, 1
  %tired = icmp sge i32 %k1, {_SPINS}
  br i1 %tired, label %sleep, label %spin
sleep:
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %s1 = call i64 @futex(ptr @epoch, i32 128, i32 %seen)
  %s2 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %doze
job:
  call void @part(i64 %me)
  %before = atomicrmw sub ptr @pending, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %finished, label %wake
finished:
  %w = load atomic i32, ptr @waiting seq_cst, align 64
  %w0 = icmp eq i32 %w, 0
  br i1 %w0, label %next, label %call
call:
  %s3 = call i64 @futex(ptr @pending, i32 129, i32 1)
  br label %wake
wake:
  br label %next
}}

define internal void @start() {{
entry:
  %all = alloca [32 x i64], align 16
  %old = alloca [32 x i64], align 16
  %thread = alloca i64
  %z0 = call i32 @sigfillset(ptr %all)
  ; signals belong to the threads that Python knows
  %z1 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %loop
loop:
  %i = phi i64 [ 1, %entry ], [ %j, %made ]
{limit}  %more = icmp slt i64 %i, {"%limit" if threads is None else threads}
  br i1 %more, label %make, label %done
make:
  %arg = inttoptr i64 %i to ptr
  %z2 = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %arg)
  %good = icmp eq i32 %z2, 0
  br i1 %good, label %made, label %done
made:
  %j = add i64 %i, 1
  br label %loop
done:
  %z3 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  %count = sub i64 %i, 1
  %small = trunc i64 %count to i32
  store i32 %small, ptr @workers
  store i32 1, ptr @started
  ret void
}}

define void @whet_parallel_for(ptr %fn, ptr %ctx, i64 %n, i64 %grain) {{
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %many, label %out
many:
{page}  %mark = load i8, ptr {at}
  %here = icmp eq i8 %mark, 1
  %least = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %two = icmp sgt i64 %n, %least
  %try = and i1 %here, %two
  br i1 %try, label %take, label %serial
take:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %ours, label %serial
serial:
  call void %fn(i64 0, i64 %n, ptr %ctx)
  ret void
ours:
  %started = load i32, ptr @started
  %new = icmp eq i32 %started, 0
  br i1 %new, label %first, label %go
first:
  call void @start()
  br label %go
go:
  %workers = load i32, ptr @workers
  %alone = icmp eq i32 %workers, 0
  store i64 %n, ptr @job_n
  store i64 %grain, ptr @job_grain
  store i64 0, ptr @job_next
  store ptr %fn, ptr @job_fn
  store ptr %ctx, ptr @job_ctx
  br i1 %alone, label %mypart, label %fork
fork:
  store atomic i32 %workers, ptr @pending seq_cst, align 64
  %e = atomicrmw add ptr @epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 64
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %rouse, label %mypart
rouse:
  %s0 = call i64 @futex(ptr @epoch, i32 129, i32 2147483647)
  br label %mypart
mypart:
  call void @part(i64 0)
  br label %join
join:
  %k = phi i32 [ 0, %mypart ], [ %k1, %idle ]
  %p = load atomic i32, ptr @pending acquire, align 64
  %over = icmp eq i32 %p, 0
  br i1 %over, label %free, label %idle
idle:
  call void {pause}
  %k1 = add i32 %k, 1
  %tired = icmp sge i32 %k1, {_SPINS}
  br i1 %tired, label %sleep, label %join
sleep:
  store atomic i32 1, ptr @waiting seq_cst, align 64
  br label %check
check:
  %q = load atomic i32, ptr @pending seq_cst, align 64
  %q0 = icmp eq i32 %q, 0
  br i1 %q0, label %rested, label %wait
wait:
  %s1 = call i64 @futex(ptr @pending, i32 128, i32 %q)
  br label %check
rested:
  store atomic i32 0, ptr @waiting seq_cst, align 64
  br label %free
free:
  store atomic i32 0, ptr @busy release, align 64
  br label %out
out:
  ret void
}}
"""
