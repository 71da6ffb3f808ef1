"""A script as a user writes it: a template of its own, some of whose configs do harm, and a search.

Run as a program, with the workers, the log and a file that counts its runs as arguments.
"""

import ctypes
import sys
import time

from neighbour import SCALE

import whet
from whet import te

WORKERS, LOG, RUNS = sys.argv[1:]
with open(RUNS, "a") as file:
    file.write("run\n")  # no __main__ guard: a worker that ran this file again would be found out

HARM = ["raise", "hang", "crash", "hog", "far read", "long loop", "large array", "wrong"]


@whet.template("script/faulty")
def faulty(n):
    cfg = whet.get_config()
    cfg.define_knob("how", ["plain", "vector", "parallel", *HARM])
    how = cfg["how"].val
    a = te.placeholder((n,), "float32", name="a")
    at = te.placeholder((n,), "int64", name="at")
    large = n << 30 if how == "large array" else n
    far = 1 << 40 if how == "far read" else 0
    t = te.compute((large,), lambda i: a[i % n] * SCALE, name="t")
    r = te.reduce_axis((0, 1 << 50 if how == "long loop" else 4), name="r")
    more = 1 if how == "wrong" else 0
    b = te.compute((n,), lambda i: te.sum(t[i + far * at[i]] * a[i] + more, axis=r), name="b")
    s = te.create_schedule(b.op)
    if how == "vector":
        outer, inner = s[b].split(b.op.axis[0], factor=8)
        s[b].reorder(outer, r, inner)
        s[b].vectorize(inner)
    elif how == "parallel":
        s[b].parallel(b.op.axis[0])
    elif how == "raise":
        s[b].split(b.op.axis[0], factor=0)
    elif how == "crash":
        ctypes.string_at(0)
    elif how == "hog":
        bytearray(1 << 40)
    while how == "hang":
        time.sleep(0.01)
    return s, [a, at, b]


task = whet.create_task(faulty, (1001,), target="llvm")
options = whet.MeasureOptions(
    build_timeout=1.5, run_timeout=1.5, min_repeat_ms=0.5, max_measure_s=0.02, memory_limit=1 << 31
)
workers = None if WORKERS == "local" else WORKERS
found = whet.tune(task, 100, LOG, "grid", workers, progress=False, options=options)
print(found)
