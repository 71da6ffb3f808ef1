"""Functions for workers to call in tests: each dies, hangs, lies or behaves, in its own way."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.measure import MeasureInput, MeasureOptions
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import RUNNER, Kernel, RunReport
from whet.search_spaces import Config, TemplateRef, Workload


def echo(value: object) -> object:
    return value


def raise_error() -> None:
    print("about to fail", file=sys.stderr)
    raise ValueError("no such tile")


def segfault() -> None:
    print("last words before the fault", file=sys.stderr)
    ctypes.string_at(0)


def abort() -> None:
    os.abort()


def leave() -> None:
    os._exit(3)


def hang() -> None:
    """An endless native loop that holds the GIL: no signal handler of Python can run.

    A file in the folder that ``WHET_TEST_HANGING`` names says that this process has come here.
    """
    print("entering the loop", file=sys.stderr)
    if folder := os.environ.get("WHET_TEST_HANGING"):
        Path(folder, str(os.getpid())).touch()
    _endless_loop()()


def _endless_loop() -> object:
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly("define void @spin() {\n  br label %l\nl:\n  br label %l\n}")
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    keep.extend((module, machine, engine))
    return ctypes.PYFUNCTYPE(None)(engine.get_function_address("spin"))


keep: list[object] = []


def hog() -> int:
    return np.empty(1 << 40, np.uint8).size


def creeping_hog() -> None:
    """Eats memory in small pieces, then dies by itself, as native code does when malloc fails."""
    blocks = []
    try:
        while True:
            blocks.append(bytearray(b"x") * (1 << 20))
    except MemoryError:
        os.abort()


def grandchild(seconds: str) -> None:
    with subprocess.Popen(["sleep", seconds]):
        print("it sleeps", file=sys.stderr)


def unpicklable() -> object:
    return lambda: None


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def chatter() -> str:
    print("x" * 100_000)
    return "done"


def pid() -> int:
    return os.getpid()


def main_module() -> list[str]:
    """The user's script as the worker knows it."""
    return [str(getattr(sys.modules["__main__"], "__file__", None)), *sys.argv]


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


# --- builds and kernels that misbehave as their config says ------------------------------------


def candidate(behaviour: str, number: int = 0) -> MeasureInput:
    """A candidate whose build and run do what ``behaviour`` says; ``number`` tells it apart."""
    config = Config((("behaviour", behaviour), ("number", number)), "fake", ("other", "other"))
    return MeasureInput(
        Workload("fake", ()), {"kind": "llvm"}, config, TemplateRef("fake", 1, "00")
    )


SIGNATURE = KernelSignature(
    "fake",
    (
        BufferParam("A", "float32", (40, 25)),
        BufferParam("B", "float32", (40, 25)),
        BufferParam("C", "float32", (40, 25), written=True),
    ),
)


def fake_build(inp: MeasureInput) -> Built:
    """Stands for the builder: config ``build_X`` does X, any other is built."""
    behaviour, number = str(inp.config.choice("behaviour")), inp.config.choice("number")
    if behaviour == "lower_error":
        return Built("lower_error", error="LowerError: no such axis", timings={"lower_s": 0.0})
    if behaviour.startswith("build_"):
        globals()[behaviour.removeprefix("build_")]()
    marker = b"whet_parallel_for" if behaviour == "parallel" else b""
    artifact = Artifact(marker, (SIGNATURE,), inp.target, f"{behaviour} {number}")
    timings = {"lower_s": 0.001, "build_s": 0.002}
    return Built("ok", artifact, f"hash of {behaviour} {number}", timings=timings)


def fake_prepare(key: str, artifact: Artifact, options: MeasureOptions) -> tuple[str, ...]:
    return RUNNER.prepare(key, _kernel(artifact), options)


def fake_run(
    artifact: Artifact, options: MeasureOptions, reference: str | None, best_cost: float | None
) -> RunReport:
    return RUNNER.measure(_kernel(artifact), options, reference, best_cost)


def _kernel(artifact: Artifact) -> Kernel:
    behaviour = artifact.source.split()[0]

    def bind(values: tuple) -> Callable[[int], None]:
        a, b, c = values

        def run(number: int) -> None:
            for _ in range(number):
                _behave(behaviour, a, b, c)

        return run

    return Kernel(artifact.signatures[0], bind)


def _behave(behaviour: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    if behaviour == "unwritten":
        return
    np.add(a, b, out=c)
    if behaviour == "wrong":
        c[3, 4] += 1e-2
    elif behaviour == "nearly":
        c += 1e-7
    elif behaviour == "slow":
        time.sleep(0.02)
    elif behaviour == "overrun":  # the page behind the output does not exist
        ctypes.memset(c.ctypes.data + c.nbytes + 64, 0, 1)
    elif behaviour == "padding":  # a few bytes behind the output's end, before that page
        ctypes.memset(c.ctypes.data + c.nbytes, 0, 1)
    elif behaviour == "underrun":
        ctypes.memset(c.ctypes.data - 4, 0, 4)
    elif behaviour == "scribble":  # on an input
        ctypes.memset(a.ctypes.data, 0, 4)
    elif behaviour in ("segfault", "abort", "hang", "hog", "raise_error", "leave"):
        globals()[behaviour]()


# --- kernels in machine code, run by the real runner -------------------------------------------

LOOP = """
define i32 @"vadd__raw"(ptr %a, ptr %b, ptr %c) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %pa
  %y = load float, ptr %pb
  %z = fadd float %x, %y
  store float %z, ptr %pc
  %j = add i64 %i, STEP
  %more = icmp slt i64 %j, END
  br i1 %more, label %loop, label %done
done:
  ret i32 STATUS
}
"""
NATIVE = {
    "good": {"STEP": "1", "END": "100000"},
    "short": {"STEP": "1", "END": "99999"},
    "beyond": {"STEP": "1", "END": "100017"},
    "endless": {"STEP": "0", "END": "100000"},
    "no_memory": {"STEP": "1", "END": "100000", "STATUS": "1"},
}


def native_build(inp: MeasureInput) -> Built:
    """A vector addition of 100000 floats in LLVM text, right or wrong as the config says."""
    from whet.compiler.codegen.llvm.kernel import entry_text
    from whet.compiler.jit.compile import compile_text
    from whet.compiler.target import Target
    from whet.compiler.target.llvm_machine import machine_of

    behaviour = str(inp.config.choice("behaviour"))
    text = LOOP
    for word, value in ({"STATUS": "0"} | NATIVE[behaviour]).items():
        text = text.replace(word, value)
    params = tuple(BufferParam(n, "float32", (1000, 100), n == "C") for n in "ABC")
    signature = KernelSignature("vadd", params)
    target = Target("llvm").canonical()
    text += entry_text(signature, signature.name)
    artifact = Artifact(
        compile_text(text, machine_of(target)), (signature,), target.to_json(), text
    )
    return Built("ok", artifact, program_hash=inp.config.key)


def shout(size: int) -> None:
    """Raise an exception with a very long text."""
    raise ValueError(f"the first word {'x' * size} the last word")
