"""The thread pool of generated code in a process of its own: it is set up once in each."""

import os
import subprocess
import sys

PRELUDE = """
import ctypes, os, threading, time
import numpy as np
from whet.compiler.jit.compile import compile_text
from whet.compiler.jit.loader import _provided, load_object
from whet.compiler.target.llvm_machine import machine_of
from whet.compiler.target import Target
LL = '''
declare void @whet_parallel_for(ptr, ptr, i64, i64)
declare i64 @pthread_self()
define void @body(i64 %b, i64 %e, ptr %c) {
entry:
  %me = call i64 @pthread_self()
  br label %loop
loop:
  %i = phi i64 [ %b, %entry ], [ %j, %loop ]
  %p = getelementptr { i64, i64 }, ptr %c, i64 %i
  %q = getelementptr { i64, i64 }, ptr %c, i64 %i, i32 1
  %v = load i64, ptr %p
  %w = add i64 %v, 1
  store i64 %w, ptr %p
  store i64 %me, ptr %q
  %j = add i64 %i, 1
  %m = icmp slt i64 %j, %e
  br i1 %m, label %loop, label %done
done:
  ret void
}
define void @outer(i64 %b, i64 %e, ptr %c) {
entry:
  br label %loop
loop:
  %i = phi i64 [ %b, %entry ], [ %j, %loop ]
  %k = mul i64 %i, 10
  %p = getelementptr { i64, i64 }, ptr %c, i64 %k
  call void @whet_parallel_for(ptr @body, ptr %p, i64 10, i64 0)
  %j = add i64 %i, 1
  %m = icmp slt i64 %j, %e
  br i1 %m, label %loop, label %done
done:
  ret void
}
define void @nested(ptr %c, i64 %n) {
  call void @whet_parallel_for(ptr @outer, ptr %c, i64 %n, i64 0)
  ret void
}
define void @many(ptr %c, i64 %n, i64 %r, i64 %g) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  call void @whet_parallel_for(ptr @body, ptr %c, i64 %n, i64 %g)
  %j = add i64 %i, 1
  %m = icmp slt i64 %j, %r
  br i1 %m, label %loop, label %done
done:
  ret void
}
'''
code = load_object(compile_text(LL, machine_of(Target("llvm"))))
def function(name, count):
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * count)(code.address_of(name))
_many, _nested = function("many", 3), function("nested", 1)
def many(x, n, r=1, grain=0): _many(x.ctypes.data, n, r, grain)
def fresh(n): return np.zeros((max(n, 1), 2), np.int64)
def threads(): return len(os.listdir("/proc/self/task"))
"""


def run(body: str, workers: int | None = 2) -> None:
    """Run lines of Python after the prelude in a process of their own.

    Args:
        workers: threads of its pool, the caller included; None: as many as it likes.
    """
    env = {k: v for k, v in os.environ.items() if k != "WHET_NUM_THREADS"}
    if workers is not None:
        env["WHET_NUM_THREADS"] = str(workers)
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + body], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
