"""Functions that change the worker they are called in, and :func:`state`, which tells how it is."""

from __future__ import annotations

import builtins
import ctypes
import gc
import importlib
import json
import locale
import logging
import math
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import measure_fakes
import numpy as np

from whet.compiler import te
from whet.compiler.passes import pipeline
from whet.compiler.runtime.call import packed
from whet.measure import MeasureInput
from whet.measure.stage.builder import Built
from whet.measure.worker import descendants

_libc = ctypes.CDLL(None)
_libm = ctypes.CDLL("libm.so.6")
kept: list[object] = []


def state() -> dict[str, object]:
    """The state that the functions below change, as it is in this worker."""
    return {
        "alarm": signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        "handlers": [str(signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGALRM)],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "compute": [te.compute.__name__, "len" in vars(te)],
        "defaults": str(te.compute.__defaults__),
        "operator": "__matmul__" in vars(te.Tensor),
        "module": [sys.modules["json"] is json, "this" in sys.modules],
        "constant": math.pi,
        "built-in": builtins.len is len and "surprise" not in vars(builtins),
        "passes": len(pipeline.PASSES),
        "registered": "whet.test.mischief" in packed._registered,
        "streams": [sys.stdout.closed, sys.stderr.closed, sys.stderr.fileno()],
        "descriptors": [os.path.exists(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)],
        "open": [len(os.listdir("/proc/self/fd")), os.get_blocking(2)],
        "threads": len(os.listdir("/proc/self/task")),
        "children": len(descendants.children()),
        "variables": [os.environ.get("HOME"), "WHET_MISCHIEF" in os.environ],
        "c variables": ctypes.string_at(_libc.getenv(b"WHET_MISCHIEF") or b"none"),
        "folder": os.getcwd(),
        "umask": [os.umask(0o22), os.umask(0o22)][0],
        "limits": [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)],
        "recursion": sys.getrecursionlimit(),
        "path": list(sys.path),
        "finders": len(sys.meta_path),
        "random": [random.random(), np.random.random()],
        "numpy": np.geterr(),
        "warnings": len(warnings.filters),
        "gc": [gc.isenabled(), gc.get_threshold(), len(gc.callbacks)],
        "loading": [sys.getdlopenflags(), _libc.prctl(42, 0, 0, 0, 0)],
        "locale": locale.setlocale(locale.LC_ALL),
        "rounding": _libm.fegetround(),
        "cores": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "log": logging.root.manager.disable,
        "trace": str(sys.gettrace()),
        "death": descendants.death_signal(),
        "data": len(kept) < 2,
    }


def alarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.2)


def handler() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def mask() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGSEGV, signal.SIGALRM})


def compute() -> None:
    te.compute = min


def whole_namespace() -> None:
    for name in list(vars(te)):
        vars(te)[name] = None


def defaults() -> None:
    te.compute.__defaults__ = (1, 2, 3)


def operator() -> None:
    te.Tensor.__matmul__ = lambda self, other: 0


def module() -> None:
    del sys.modules["json"]
    importlib.import_module("json")


def no_module() -> None:
    sys.modules["this"] = None  # type: ignore[assignment]


def constant() -> None:
    math.pi = 3.0


def builtin() -> None:
    builtins.len = lambda thing: 0
    builtins.surprise = 1


def everything_built_in() -> None:
    for name in list(vars(builtins)):
        setattr(builtins, name, None)


def passes() -> None:
    pipeline.PASSES = ()


def register() -> None:
    packed.register_func("whet.test.mischief", lambda *a: 0, override=True)


def close_stderr() -> None:
    sys.stderr.close()


def replace_stdout() -> None:
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def close_descriptors() -> None:
    for fd in (0, 1, 2):
        os.close(fd)


def redirect() -> None:
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)


def shadow() -> None:
    vars(te)["len"] = lambda thing: 0


def non_blocking() -> None:
    os.set_blocking(2, False)


def close_everything_else() -> None:
    os.closerange(3, 5)


def open_file() -> None:
    kept.append(tempfile.TemporaryFile())  # noqa: SIM115


def thread() -> None:
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


def child() -> None:
    kept.append(subprocess.Popen(["sleep", "600"]))


def environment() -> None:
    os.environ.clear()
    os.environ["WHET_MISCHIEF"] = "1"


def environment_of_c() -> None:
    _libc.setenv(b"WHET_MISCHIEF", b"1", 1)


def folder() -> None:
    with tempfile.TemporaryDirectory() as gone:
        os.chdir(gone)


def umask() -> None:
    os.umask(0o777)


def limits() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))


def recursion() -> None:
    sys.setrecursionlimit(60)


def path() -> None:
    sys.path[:] = []
    sys.meta_path = []


def seeds() -> None:
    random.seed(7)
    np.random.seed(7)


def numpy_errors() -> None:
    np.seterr(all="raise")


def warn() -> None:
    warnings.simplefilter("error")


def collect() -> None:
    gc.disable()
    gc.set_threshold(1, 1, 1)


def collected() -> None:
    gc.callbacks.append(lambda *a: None)


def dlopen() -> None:
    sys.setdlopenflags(os.RTLD_LAZY | os.RTLD_GLOBAL)


def huge_pages() -> None:
    _libc.prctl(41, 1, 0, 0, 0)


def set_locale() -> None:
    locale.setlocale(locale.LC_ALL, "C.UTF-8" if state()["locale"] == "C" else "C")


def rounding() -> None:
    _libm.fesetround(0x400 if os.uname().machine == "x86_64" else 0x800000)


def cores() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def nice() -> None:
    os.nice(5)


def logs() -> None:
    logging.disable(logging.CRITICAL)


def trace() -> None:
    sys.settrace(lambda *a: None)


def outlive() -> None:
    descendants.set_death_signal(0)


def fill() -> None:
    kept.append(bytearray(b"x") * (300 << 20))
    kept.append(0)


def daemonise(name: str) -> int:
    """A grandchild in a session of its own, whose parent is gone; its id."""
    reading, writing = os.pipe()
    if not os.fork():
        os.setsid()
        pid = os.fork()
        if not pid:
            os.closerange(0, 64)
            os.execvp("sleep", ["sleep", name])
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.wait()
    pid = int(os.read(reading, 20))
    os.close(reading)
    os.close(writing)
    return pid


def daemonise_and(name: str, file: str, last: str) -> None:
    """A daemon, its id in a file, and then the end that ``last`` names."""
    part = Path(file + ".part")
    part.write_text(str(daemonise(name)))
    part.rename(file)
    {"crash": lambda: ctypes.string_at(0), "hang": lambda: time.sleep(600)}[last]()


def suffer_or_spoil(inp: MeasureInput) -> Built:
    """A builder whose state no worker looks at: a candidate spoils it, others suffer from it."""
    if inp.config.choice("behaviour") == "spoil":
        measure_fakes.keep.append("spoilt")
    elif "spoilt" in measure_fakes.keep:
        raise ValueError("spoilt by another one")
    return measure_fakes.fake_build(inp)
