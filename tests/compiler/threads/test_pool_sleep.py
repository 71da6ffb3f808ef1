"""How the thread pool of generated code waits and sleeps, and on which cores it wakes."""

from pool_check import run


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
    while not holds():  # once: beside busy processes it may not hold a moment later
        assert time.time() < deadline, [os.sched_getaffinity(w) for w in workers]
        time.sleep(0.01)
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


def test_a_worker_wakes_apart_from_a_caller_that_has_moved():
    run(
        """
import sys
allowed = sorted(os.sched_getaffinity(0))
if len(allowed) < 2:
    sys.exit()
os.sched_setaffinity(0, set(allowed[:2]))
core_of_this = ctypes.CDLL(None).sched_getcpu
@ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
def body(begin, end, ctx):
    cores[begin] = core_of_this()
pf = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
call = pf(_provided["whet_parallel_for"])
fn = ctypes.cast(body, ctypes.c_void_p).value
before = set(os.listdir("/proc/self/task"))
cores = {}
call(fn, None, 2, 0)
(worker,) = [int(t) for t in set(os.listdir("/proc/self/task")) - before]
for turn in range(8):
    here, there = allowed[turn % 2], allowed[1 - turn % 2]
    deadline = time.time() + 60
    while len(os.sched_getaffinity(worker)) > 1 and time.time() < deadline:
        time.sleep(0.01)
    assert len(os.sched_getaffinity(worker)) == 1, "it sleeps"
    os.sched_setaffinity(0, {here})  # where the worker would have to wake, every other time
    cores = {}
    call(fn, None, 2, 0)
    assert cores == {0: here, 1: there}, (turn, cores)
""",
        2,
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
