"""Elementary functions of float32 on one core: cycles an element by processor and accuracy.

    python benchmarks/cpu_kernels/elementary.py [--save]

An array of 4096 numbers, which the L1 cache holds with its result. The limit is that of two vector
units: half the vector instructions of the loop, moves left out, a division taken as one and a
scaling (vscalefps) as two. numpy writes into an array that is given; where it has no such function,
its way is in ``PEERS``. The clock is measured between the others, by a chain of multiplications
that take three cycles each. Samples are of a millisecond, which other processes rarely interrupt.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import harness

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from whet.bench.turns import HostClock
from whet.compiler import driver, te
from whet.compiler.target.machine import host
from whet.compiler.target.machine.host_machine import loaded

SIZE, LANES = 4096, 64
LEVELS = ("2ulp", "4ulp", "fast")
FUNCTIONS: dict[str, Callable] = {
    "exp": te.exp,
    "tanh": te.tanh,
    "erf": te.erf,
    "sigmoid": te.sigmoid,
}
CHAIN = 8  # multiplications a step
CLOCK = f"""
define i64 @chain(i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x0 = phi i64 [ %n, %entry ], [ %x{CHAIN}, %loop ]
{chr(10).join(f"  %x{k + 1} = mul i64 %x{k}, %x{k}" for k in range(CHAIN))}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i64 %x{CHAIN}
}}
"""
STEPS = 1000


def _sigmoid(x: np.ndarray, out: np.ndarray) -> None:
    np.negative(x, out)
    np.exp(out, out)
    np.add(out, np.float32(1), out)
    np.reciprocal(out, out)


PEERS: dict[str, Callable] = {"exp": np.exp, "tanh": np.tanh, "sigmoid": _sigmoid}


def built(name: str, target: str) -> Any:
    """The kernel of a function, in vectors."""
    a = te.placeholder((SIZE,), "float32", name="A")
    b = te.compute((SIZE,), lambda i: FUNCTIONS[name](a[i]), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], factor=LANES)
    s[b].vectorize(inner)
    return driver.build(s, [a, b], target)


def limit(kernel: Any) -> float:
    """Cycles an element in which two units start the vector instructions of the kernel's loop."""
    body = re.search(r"\.LBB0_1:\n(.*?)\n\s+j\w+\s+\.LBB0_1\n", kernel.get_source("asm"), re.S)
    assert body, "the kernel is one loop"
    words = [line.split()[0] for line in body[1].splitlines() if line.split()]
    moves = ("vmov", "vbroadcast", "vzero")
    work = [w for w in words if w.startswith("v") and not w.startswith(moves)]
    return (len(work) + work.count("vscalefps")) / 2 / LANES


def clock() -> Callable[[], None]:
    """A function that takes ``3 * CHAIN * STEPS`` cycles."""
    code = loaded(CLOCK)
    chain = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address_of("chain"))

    def run(code: Any = code) -> None:  # which keeps the code
        chain(STEPS)

    return run


def main() -> None:
    """Measure and print."""
    x = np.random.default_rng(0).uniform(-5, 5, SIZE).astype("float32")
    out = np.empty_like(x)
    kernels = {
        (name, level, accuracy): built(name, f"llvm -mcpu={level} -math={accuracy}")
        for name in FUNCTIONS
        for level in ("x86-64-v3", "x86-64-v4")
        if level in host.levels()
        for accuracy in LEVELS
    }
    runs: dict[Any, Callable[[], Any]] = {k: (lambda f=f: f(x, out)) for k, f in kernels.items()}
    runs |= {(n, "numpy", ""): (lambda f=f: f(x, out)) for n, f in PEERS.items()}
    samples = harness.interleaved({"clock": clock(), **runs}, 400, HostClock(0.001))
    second = 3 * CHAIN * STEPS / samples["clock"].best
    lines, rows = [f"clock: {second / 1e9:.2f} GHz"], {}
    for key in runs:
        cycles = samples[key].best * second / SIZE
        least = limit(kernels[key]) if key in kernels else None
        rows[" ".join(key).strip()] = [cycles, least]
        more = "" if least is None else f", limit {least:.2f}"
        lines.append(f"{' '.join(key):24s} {cycles:6.2f} cycles an element{more}")
    harness.report("elementary", lines, {"rows": rows, "clock": second})


if __name__ == "__main__":
    main()
