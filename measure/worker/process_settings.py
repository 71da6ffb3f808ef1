"""Settings of a process and its interpreter that a candidate can change, and their restoration."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import io
import itertools
import locale
import os
import platform
import random
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import setitem
from typing import Any

from whet.measure.worker import descendants

_libc = ctypes.CDLL(None, use_errno=True)
_libm = ctypes.CDLL("libm.so.6")
_FLAGS = {"x86_64": ((0, 2, 0xFFFF), (28, 4, 0xFFC0)), "aarch64": ((0, 4, 0xFFFFFFFF),)}
"""The modes in a floating-point environment: offset, bytes and bits; the rest are events."""
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_STREAMS = ("stdin", "stdout", "stderr")
_SET_THP_DISABLE, _GET_THP_DISABLE = 41, 42  # <linux/prctl.h>


ABSENT = "a module that is not imported"
"""The value of a setting of a module that nobody has imported yet."""


@dataclass(frozen=True)
class Setting:
    """Something that a candidate can change, and that can be set again.

    Attributes:
        name: its name in reports.
        read: its value, by which it is compared.
        write: sets it.
        usual: a template may well change it and mean no harm.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    usual: bool = False


def settings() -> list[Setting]:
    """All of them, with the streams, lists and environment that they refer to now."""
    return [
        # first: in another mode other settings that are read are other numbers
        Setting("floating-point mode", _float_mode, _set_float_mode),
        _streams(),
        _lists(),
        _environment(),
        *(Setting(*row, usual=True) for row in _USUAL),
        *(Setting(*row) for row in _HARMFUL),
    ]


def seed() -> None:
    """Begin with the same random numbers in each worker, numpy's too where that is imported."""
    random.seed(0)
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed(0)


def _streams() -> Setting:
    streams = {name: getattr(sys, name) for name in _STREAMS}

    def read() -> list[bool]:
        now = [getattr(sys, name) for name in _STREAMS]
        return [one is streams[name] and not _closed(one) for name, one in zip(_STREAMS, now)]

    def write(_: Any) -> None:
        for number, name in enumerate(_STREAMS):
            if _closed(streams[name]):
                streams[name] = _opened(number)
            setattr(sys, name, streams[name])

    return Setting("standard streams", read, write)


def _closed(stream: Any) -> bool:
    return stream is not None and stream.closed


def _opened(number: int) -> Any:
    raw = open(number, "wb" if number else "rb", buffering=0, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)


def _lists() -> Setting:
    names = ("path", "argv", "meta_path", "path_hooks")
    lists = [getattr(sys, name) for name in names]
    values = [list(one) for one in lists]

    def read() -> list[list]:
        now = [getattr(sys, name) for name in names]
        return [[one if isinstance(one, str) else id(one) for one in value] for value in now]

    def write(_: Any) -> None:
        for name, one, value in zip(names, lists, values):
            one[:] = value
            setattr(sys, name, one)

    return Setting("search paths", read, write, usual=True)


def _environment() -> Setting:
    environ: Any = os.environ

    def read() -> tuple:
        return os.environ is environ, dict(environ._data), _c_environment()

    def write(value: tuple) -> None:
        os.environ = environ  # noqa: B003
        for name in set(_c_environment()) - set(value[2]):
            os.unsetenv(name)
        for name, text in value[2].items():
            os.putenv(name, text)
        environ._data.clear()
        environ._data.update(value[1])
        time.tzset()

    return Setting("environment", read, write, usual=True)


def _refuse(_: Any) -> None:
    raise OSError("this cannot be put back")


def _c_environment() -> dict[bytes, bytes]:
    """The environment as C code and child processes see it."""
    entries: Any = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ")
    environment = {}
    for entry in itertools.takewhile(bool, entries) if entries else ():
        name, _, value = entry.partition(b"=")
        environment[name] = value
    return environment


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


def _numpy_random(module: Any) -> Any:
    kind, keys, *rest = module.get_state(legacy=True)
    return kind, keys.tobytes(), *rest


def _set_numpy_random(value: Any) -> None:
    import numpy as np

    kind, keys, *rest = value
    np.random.set_state((kind, np.frombuffer(keys, np.uint32), *rest))


def _imported(name: str, read: Callable[[Any], Any]) -> Callable[[], Any]:
    """Reads a setting of a module; :data:`ABSENT` where nobody has imported it."""
    return lambda: read(sys.modules[name]) if name in sys.modules else ABSENT


def _set_filters(value: list) -> None:
    module: Any = warnings
    module.filters[:] = value
    module._filters_mutated()


def _set_log_level(value: tuple) -> None:
    module = sys.modules["logging"]
    module.root.setLevel(value[0])
    module.disable(value[1])


def _set_handlers(value: list) -> None:
    for number, handler in enumerate(value, 1):
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _timers() -> list[bool]:
    return [any(signal.getitimer(kind)) for kind in _TIMERS]


def _set_timers(value: list[bool]) -> None:
    for kind, runs in zip(_TIMERS, value, strict=True):
        if not runs:
            signal.setitimer(kind, 0)


def _system_timers() -> str:
    try:
        with open("/proc/self/timers") as listed:
            return listed.read()
    except OSError:  # a kernel that does not tell
        return ""


def _float_mode() -> list[int]:
    state = ctypes.create_string_buffer(64)
    _libm.fegetenv(state)
    return [
        int.from_bytes(state.raw[at : at + size], "little") & bits
        for at, size, bits in _FLAGS.get(platform.machine(), ())
    ]


def _set_float_mode(value: list[int]) -> None:
    state = ctypes.create_string_buffer(64)
    _libm.fegetenv(state)
    for (at, size, _), bits in zip(_FLAGS[platform.machine()], value, strict=True):
        ctypes.memmove(ctypes.addressof(state) + at, bits.to_bytes(size, "little"), size)
    _libm.fesetenv(state)


def _identity() -> tuple:
    root = os.stat("/")
    return os.getresuid(), os.getresgid(), root.st_dev, root.st_ino


_locale: Any = partial(locale.setlocale, locale.LC_ALL)
_mask: Any = signal.pthread_sigmask
_OURS = os.PRIO_PROCESS, 0
# A template may well change these and mean no harm.
_USUAL: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("working directory", _folder, os.chdir),
    ("umask", _umask, os.umask),
    ("locale", _locale, _locale),
    ("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    ("switch interval", sys.getswitchinterval, sys.setswitchinterval),
    ("digits of integers", sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    ("random state", random.getstate, random.setstate),
    ("numpy's random state", _imported("numpy.random", _numpy_random), _set_numpy_random),
    (
        "numpy's errors",
        _imported("numpy", lambda module: module.geterr()),
        lambda value: sys.modules["numpy"].seterr(**value),
    ),
    ("filters of warnings", lambda: list(warnings.filters), _set_filters),
    ("garbage collection", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    ("thresholds of collection", gc.get_threshold, lambda value: gc.set_threshold(*value)),
    ("debugging of collection", gc.get_debug, gc.set_debug),
    ("callbacks of collection", gc.callbacks.copy, partial(setitem, gc.callbacks, slice(None))),
    (
        "log level",
        _imported("logging", lambda module: (module.root.level, module.root.manager.disable)),
        _set_log_level,
    ),
    ("time limit of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout),
    ("flags of dlopen", sys.getdlopenflags, sys.setdlopenflags),
)
_HARMFUL: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("tracing", sys.gettrace, sys.settrace),
    ("profiling", sys.getprofile, sys.setprofile),
    ("tracing of threads", threading.gettrace, threading.settrace),
    ("profiling of threads", threading.getprofile, threading.setprofile),
    (
        "signal handlers",
        lambda: [signal.getsignal(number) for number in range(1, signal.NSIG)],
        _set_handlers,
    ),
    ("blocked signals", partial(_mask, signal.SIG_BLOCK, ()), partial(_mask, signal.SIG_SETMASK)),
    ("interval timers", _timers, _set_timers),
    (
        "fault handler",
        faulthandler.is_enabled,
        lambda on: faulthandler.enable(2) if on else faulthandler.disable(),
    ),
    ("processor affinity", partial(os.sched_getaffinity, 0), partial(os.sched_setaffinity, 0)),
    ("priority", partial(os.getpriority, *_OURS), partial(os.setpriority, *_OURS)),
    (
        "scheduling",
        lambda: (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
        lambda value: os.sched_setscheduler(0, value[0], os.sched_param(value[1])),
    ),
    *(
        (
            f"resource limit {number}",
            partial(resource.getrlimit, number),
            partial(resource.setrlimit, number),
        )
        for number in _LIMITS
    ),
    (
        "huge pages",
        partial(_libc.prctl, _GET_THP_DISABLE, 0, 0, 0, 0),
        lambda value: _libc.prctl(_SET_THP_DISABLE, value, 0, 0, 0),
    ),
    ("signal at the parent's end", descendants.death_signal, descendants.set_death_signal),
    ("adoption of orphans", descendants.adopts, lambda _: descendants.adopt()),
    ("user and root folder", _identity, _refuse),
    ("timers of the system", _system_timers, _refuse),
)
