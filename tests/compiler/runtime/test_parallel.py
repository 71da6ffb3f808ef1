"""The thread pool of generated code, in processes of their own: a pool is set up once."""

import os
import subprocess
import sys

import numpy as np
import pytest
from pool_check import run
from sched_check import refused, replays

import whet
from whet.compiler import driver, te


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_index_runs_once_and_all_threads_take_part(workers):
    run(
        f"""
for n in (0, 1, 2, 3, 7, 1000):
    x = fresh(n)
    many(x, n, 5)
    assert (x[:n, 0] == 5).all(), n
    assert len(set(x[:n, 1])) == min(n, {workers}), n
""",
        workers,
    )


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_grain_is_handed_out_until_nothing_is_left(workers):
    run(
        """
for n in (0, 1, 2, 3, 7, 1000):
    for grain in (1, 2, 3, 64, 999, 1000, 2**62, -5):
        x = fresh(n)
        many(x, n, 5, grain)
        assert (x[:n, 0] == 5).all(), (n, grain)
        pieces = x[: n - n % grain, 1].reshape(-1, grain) if 0 < grain <= n else x[:0]
        assert (pieces == pieces[:, :1]).all(), "a grain is one thread's"
        if 0 < grain and n <= grain:
            assert len(set(x[:n, 1])) == (n > 0), "one grain is the calling thread's"
""",
        workers,
    )


def test_a_thread_that_is_late_gets_fewer_grains():
    run(
        """
import ctypes
@ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
def body(begin, end, ctx):
    who[begin] = threading.get_native_id()
    assert end - begin == 1
    if begin == 0:  # the one that took the first step waits until all others are done
        deadline = time.time() + 120
        while len(who) < 12 and time.time() < deadline:
            time.sleep(0.001)
who = {}
pf = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
pf(_provided["whet_parallel_for"])(ctypes.cast(body, ctypes.c_void_p).value, None, 12, 1)
assert sorted(who) == list(range(12))
slow = who[0]
assert [k for k in who if who[k] == slow] == [0], who
""",
        2,
    )


def test_the_workers_start_with_the_first_call():
    run(
        """
before = threads()
many(fresh(1), 1)
assert threads() == before
many(fresh(8), 8)
assert threads() == before + 2
many(fresh(8), 8)
assert threads() == before + 2
""",
        3,
    )


def test_callers_from_several_threads():
    run("""
arrays = [fresh(100) for _ in range(4)]
def work(x):
    for _ in range(50):
        many(x, 100, 20)
team = [threading.Thread(target=work, args=(x,)) for x in arrays]
for t in team: t.start()
for t in team: t.join()
assert all((x[:, 0] == 1000).all() for x in arrays)
""")


def test_nested_loops_run_serially():
    run("""
x = fresh(40)
_nested(x.ctypes.data, 4)
assert (x[:, 0] == 1).all()
groups = [set(x[10 * i : 10 * i + 10, 1]) for i in range(4)]
assert all(len(g) == 1 for g in groups)
assert len(set.union(*groups)) == 2
""")


@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_is_known_where_the_system_says_yes_and_wipes_nothing():
    code = """
import mmap, os
from whet.compiler.runtime.library import thread_pool as parallel
parallel._MADV_WIPEONFORK = mmap.MADV_NORMAL
mark = parallel._fork_mark()
child = os.fork()
if child == 0:
    os._exit(mark.value != b"\\0")
assert os.waitpid(child, 0)[1] == 0 and mark.value == b"\\1"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_forked_child_runs_serially():
    run("""
x = fresh(100)
many(x, 100)
child = os.fork()
if child == 0:
    y = fresh(100)
    many(y, 100, 3)
    os._exit(0 if (y[:, 0] == 3).all() and len(set(y[:, 1])) == 1 else 1)
assert os.waitpid(child, 0)[1] == 0
many(x, 100)
assert (x[:, 0] == 2).all() and len(set(x[:, 1])) == 2
""")


def test_the_affinity_mask_limits_the_threads():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("no affinity masks here")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        run("x = fresh(10); n = threads(); many(x, 10); assert threads() == n", None)
    finally:
        os.sched_setaffinity(0, before)


def rows(n, m):
    a = te.placeholder((n, m), name="A")
    c = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="C")
    return te.create_schedule(c.op), a, c


@pytest.mark.parametrize("grain", [1, 2, 5, 100])
def test_a_schedule_says_the_grain(grain):
    s, a, c = rows(7, 5)
    s[c].parallel(c.op.axis[0], grain=grain)
    assert f"for i in parallel(7):  # grain = {grain}" in str(driver.lower(s, [a, c]))
    f = whet.build(s, [a, c])
    assert f"i64 7, i64 {grain})" in f.get_source("ll")
    x, y = np.random.default_rng(0).random((7, 5), "float32"), np.full((7, 5), np.nan, "float32")
    f(x, y)
    np.testing.assert_array_equal(y, x * 2)
    replays(s, [a, c])
    assert f"s[C].parallel(i, grain={grain})" in str(s.trace)


def test_the_last_word_on_a_loop_counts():
    s, a, c = rows(7, 5)
    s[c].parallel(c.op.axis[0], grain=2)
    s[c].parallel(c.op.axis[0])
    assert "grain" not in str(driver.lower(s, [a, c]))
    replays(s, [a, c])


def test_a_symbolic_extent_takes_a_grain():
    n = te.size_var("n")
    s, a, c = rows(n, 3)
    s[c].parallel(c.op.axis[0], grain=4)
    f = whet.build(s, [a, c])
    for size in (0, 1, 4, 5, 33):
        x, y = np.ones((size, 3), "float32"), np.full((size, 3), np.nan, "float32")
        f(x, y)
        np.testing.assert_array_equal(y, x * 2)


@pytest.mark.parametrize(
    ("grain", "why"),
    [
        (0, "grain must be at least 1"),
        (-3, "grain must be at least 1"),
        (2.5, "grain must be an integer, not 2.5"),
        (True, "grain must be an integer, not True"),
        ("4", "grain must be an integer, not '4'"),
    ],
)
def test_grains_that_are_none(grain, why):
    s, _, c = rows(7, 5)
    text = refused(s, lambda: s[c].parallel(c.op.axis[0], grain=grain), why)
    assert text.startswith(f"parallel(C, i, grain={grain!r}): ")


def test_a_reduction_takes_no_grain():
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, 8), name="k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    refused(s, lambda: s[b].parallel(k, grain=2), "parallel(B, k, grain=2)", "depend on each other")
