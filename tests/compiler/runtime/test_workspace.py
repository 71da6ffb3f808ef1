"""Intermediate buffers: kept between calls, given back with the module, safe in several threads."""

import gc
import re
import threading
from pathlib import Path

import numpy as np

import whet
from whet import te
from whet.compiler import driver


def doubled_twice(n):
    """A chain with an intermediate buffer of n floats on the heap."""
    A = te.placeholder((n,), name="A")
    T = te.compute((n,), lambda i: A[i] * 2.0, name="T")
    C = te.compute((n,), lambda i: T[n - 1 - i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    return driver.compile_module(driver.lower(s, [A, C], name="f"), whet.Target("llvm"))


def resident_bytes():
    """Of memory without a file: pages of libraries come and go as the system likes."""
    (line,) = re.findall(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) << 10


def test_a_module_gives_its_memory_back():
    n = 4 * 2**20  # a buffer of 16 MiB
    artifact = doubled_twice(n)
    a, c = np.ones(n, "float32"), np.empty(n, "float32")
    whet.runtime.Module.from_artifact(artifact)(a, c)
    gc.collect()
    before = resident_bytes()
    for _ in range(12):
        f = whet.runtime.Module.from_artifact(artifact)
        f(a, c)
        del f
        gc.collect()
    assert resident_bytes() - before < 6 * 4 * n  # twelve buffers would be left


def test_two_threads_have_buffers_of_their_own():
    n = 200_003
    f = whet.runtime.Module.from_artifact(doubled_twice(n))
    wrong = []

    def work(seed):
        a = np.random.default_rng(seed).standard_normal(n).astype("float32")
        c = np.empty(n, "float32")
        for _ in range(50):
            c[:] = np.nan
            f(a, c)
            if not np.array_equal(c, a[::-1] * np.float32(2) + np.float32(1)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
