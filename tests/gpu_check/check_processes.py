"""Checks that need other processes: an end in order, a kernel that hangs, a forked child.

    python tests/gpu_check/check_processes.py cuda:0

is the process whose kernel hangs: it says so, and waits for its end, which a signal brings.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from check_device import device_of, launched, name_of

import whet
from whet.compiler.errors import TargetError
from whet.compiler.runtime.arrays.device import Device

HUNG = 3.0
"""Seconds after which a kernel that does not end is stopped."""
ENDED = 60
"""Seconds after which a process that went astray ends itself, and by which a killed one is gone."""
LAUNCHING = "launching"
ENDLESS = """
extern "C" __global__ void check(WHET_GLOBAL(int) A, int n) {
    volatile int more = n;
    while (more) {}
    A[threadIdx.x] = n;
}
"""
DOUBLE = """
extern "C" __global__ void check(WHET_GLOBAL(int) A) { A[threadIdx.x] = A[threadIdx.x] * 2; }
"""


def ending(device: Device) -> str:
    """A process that has used the device ends as it should, after an error, too."""
    name = f"{device.type}:{device.index}"
    text = (
        "import numpy as np, whet; x = whet.nd.array(np.ones(8, 'float32'), "
        f"whet.device({name!r}));"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-500:]}"
    done = subprocess.run([sys.executable, "-c", text + " 1 / 0"], capture_output=True, text=True)
    assert done.returncode == 1, f"after an error it ended with {done.returncode}"
    assert "ZeroDivisionError" in done.stderr, done.stderr[-500:]
    return "ends with 0, and with 1 after an error"


def hung(device: Device) -> str:
    """A kernel that does not end goes with its process, and the device works on."""
    works(device)
    words = [sys.executable, str(Path(__file__).resolve()), name_of(device)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = child.stdout.readline().strip()
        assert said == LAUNCHING, "the process with the kernel did not come as far as launching it"
        try:
            code = child.wait(HUNG)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait(ENDED)
    assert code == -signal.SIGKILL, f"an endless kernel ended by itself, its process with {code}"
    works(device)
    return f"killed after {HUNG:g} s, and the device works on"


def hang(name: str) -> None:
    """Launch a kernel that does not end, and wait for it."""
    signal.alarm(ENDED)
    device = device_of(name)
    array = whet.nd.array(np.zeros(32, "int32"), device)
    launched(device, ENDLESS, 32, array, 0)  # it ends, and is compiled
    print(LAUNCHING, flush=True)
    launched(device, ENDLESS, 32, array, 1)


def works(device: Device) -> None:
    """Let a kernel compute something.

    Raises:
        AssertionError: it is wrong.
    """
    array = whet.nd.array(np.arange(32, dtype="int32"), device)
    launched(device, DOUBLE, 32, array)
    np.testing.assert_array_equal(array.numpy(), np.arange(32) * 2)


def forked(device: Device) -> str:
    """A forked child is told that the device is not for it, and ends well; its parent works on."""
    works(device)
    array = whet.nd.array(np.ones(4, "float32"), device)
    asked = (device.sync, array.numpy)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(ENDED)
        os.close(reading)
        os.write(writing, "\n".join(_answer(ask) for ask in asked).encode())
        sys.exit(0)  # with all destructors, as a program ends
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answers = pipe.read().splitlines()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the forked child ended with {code}"
    assert len(answers) == len(asked), answers
    for text in answers:
        told = text.startswith(TargetError.__name__) and "forked" in text
        assert told, f"a forked child was not told so: {text}"
    works(device)
    return answers[0]


def _answer(ask: Callable[[], object]) -> str:
    """The outcome of a call, in a line."""
    try:
        ask()
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())
    return "it worked"


if __name__ == "__main__":
    hang(sys.argv[1])
