"""The thread pool of generated code, in processes of their own: a pool is set up once."""

import os
import subprocess
import sys

import numpy as np
import pytest
from sched_check import refused, replays

import whet
from whet.compiler import driver, te

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
    env = {k: v for k, v in os.environ.items() if k != "WHET_NUM_THREADS"}
    if workers is not None:
        env["WHET_NUM_THREADS"] = str(workers)
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + body], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


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


def test_sleeping_workers_wake_up():
    run("""
x = fresh(100)
for _ in range(30):
    many(x, 100, 3)
    time.sleep(0.003)
assert (x[:, 0] == 90).all()
""")


def test_threads_on_one_core_take_turns_and_then_sleep():
    """Who waits gives its turn away, to the thread that it waits for, and sleeps in the end."""
    run(
        """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
many(fresh(8), 8)  # the workers are on that core, too
switched = lambda: sum(
    int(line.split()[1])
    for t in os.listdir("/proc/self/task")
    for line in open(f"/proc/self/task/{t}/status")
    if "ctxt_switches" in line
)
before = switched()
x = fresh(100)
many(x, 100, 200)
assert (x[:, 0] == 200).all() and len(set(x[:, 1])) == 3
assert switched() - before >= 200, "each call waits for two threads on the same core"
time.sleep(0.5)
idle = time.process_time()
time.sleep(1.0)
assert time.process_time() - idle < 0.5, "they sleep"
many(x, 100)
assert (x[:, 0] == 201).all()
""",
        3,
    )


def test_a_worker_leaves_its_callers_core_while_it_sleeps():
    """It wakes elsewhere, has its affinity back then, and keeps what someone else has set."""
    run(
        """
import sys
allowed = os.sched_getaffinity(0)
if len(allowed) < 2:
    sys.exit()
before = set(os.listdir("/proc/self/task"))
x = fresh(100)
many(x, 100)
workers = [int(t) for t in set(os.listdir("/proc/self/task")) - before]
assert len(workers) == 2
def until(holds):
    deadline = time.time() + 60
    while not holds() and time.time() < deadline:
        time.sleep(0.01)
    assert holds(), [os.sched_getaffinity(w) for w in workers]
asleep = lambda: all(len(os.sched_getaffinity(w)) == len(allowed) - 1 for w in workers)
until(asleep)
calls = 1
def awake():
    global calls
    calls += 1
    many(x, 100)  # a worker has it back before it takes its part, and may sleep again 3 ms later
    return all(os.sched_getaffinity(w) == allowed for w in workers)
until(awake)
until(asleep)
(core,) = list(allowed - os.sched_getaffinity(workers[0]))
os.sched_setaffinity(workers[0], {core})
many(x, 100)
assert os.sched_getaffinity(workers[0]) == {core}, "what someone set stays"
assert os.sched_getaffinity(0) == allowed, "the caller's is its own"
many(x, 100, 20)
assert (x[:, 0] == calls + 21).all()
""",
        3,
    )


def test_a_worker_sleeps_soon_beside_a_busy_process():
    """Patience is time, not turns that were given away: each takes a busy process's slice."""
    run(
        """
import subprocess, sys
core = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {core})
before = set(os.listdir("/proc/self/task"))
many(fresh(8), 8)
(worker,) = set(os.listdir("/proc/self/task")) - before
busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
time.sleep(0.5)
def switches():
    with open(f"/proc/self/task/{worker}/status") as status:
        return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
many(fresh(8), 8)
first = switches()
time.sleep(3.0)
busy.kill()
assert switches() - first < 100, "it gave its turn away for long"
""",
        2,
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
