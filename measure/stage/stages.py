"""The two stages of a measurement, each a supervised worker: build and run.

The same classes serve a thread of the local pool and a Ray actor on another machine.
"""

from __future__ import annotations

import contextlib
import math
import platform
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from whet.compiler.abi.signature import BufferParam
from whet.measure.stage import machine
from whet.measure.stage.arguments import COLD
from whet.measure.stage.builder import Built
from whet.measure.stage.retry import Retry
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.values import OK, MeasureInput, MeasureOptions
from whet.measure.worker.supervisor import Outcome, Supervisor

BUILD = "whet.measure.stage.builder:build_candidate"
RUN = "whet.measure.stage.runner:run_candidate"
PREPARE = "whet.measure.stage.runner:prepare_reference"
ALLOWANCE = 1.0  # seconds for loading a kernel, checking its numbers, and a busy machine
SLOWEST_FILL = 100e6  # bytes of inputs made in a second, at least
RECYCLE = 400  # builds after which a builder is replaced: LLVM keeps some memory of each
# The imports of a worker before its first candidate: no candidate pays for them, and changes there
# are seen.
_BUILDS = [
    "whet.compiler.driver",
    "whet.compiler.runtime",
    "whet.compiler.topi",
    "whet.search_spaces.graph.template",
    "whet.search_spaces.rules.cpu.table",
]
_BUILDS_LLVM = [
    "llvmlite.binding",
    "whet.compiler.codegen.llvm.generate",
    "whet.compiler.jit.loader",
    "whet.compiler.jit.compile",
]
PRELOAD = {
    BUILD: [*_BUILDS, *_BUILDS_LLVM],
    "whet.measure.gpu.builder:build_for_gpu": _BUILDS,
    "whet.measure.gpu.builder:build_for_emulator": _BUILDS,
    RUN: ["whet.compiler.runtime", "llvmlite.binding"],
}


class _Stage:
    """A stage over supervised workers, the first of which is started first."""

    def __init__(self, *workers: Supervisor) -> None:
        self._workers = workers
        self._closed = False
        self._retry = Retry()

    def start(self) -> str:
        """Start the worker in the background; the name of the machine it is on."""
        self._workers[0].start()
        return platform.node()

    def close(self) -> None:
        """Kill the workers and what they started."""
        self._closed = True
        for worker in self._workers:
            worker.close()


class BuildStage(_Stage):
    """Builds candidates in a worker kept off the measuring core.

    Args:
        options: budgets and limits.
        function: import path of the function that builds; or by the device that a candidate names,
            that of each.
        path: the driver's ``sys.path``; None: this process's.
        measurers: how many measure beside it, on the last cores.
        apart: other cores of its machine that measure.
    """

    def __init__(
        self,
        options: MeasureOptions,
        function: str | Mapping[str, str] = BUILD,
        path: Sequence[str] | None = None,
        measurers: int = 1,
        apart: Sequence[int] = (),
    ) -> None:
        limit = options.memory_limit or machine.memory_bytes() // 2
        functions = (
            [function] if isinstance(function, str) else list(dict.fromkeys(function.values()))
        )
        worker = Supervisor(
            memory_limit=limit,
            cpus=machine.builder_cores(measurers, apart),
            preload=[name for one in sorted(functions) for name in preload(one)],
            max_calls=RECYCLE,
            path=path,
            room=limit // 4,
        )
        super().__init__(worker)
        self._options, self._function = options, function

    def build(self, inp: MeasureInput) -> Built:
        """Build one candidate; whatever it does, the answer is a :class:`Built`.

        Raises:
            MeasureError: no worker can be had.
        """
        (worker,) = self._workers
        function = self._function if isinstance(self._function, str) else self._function[inp.device]

        def attempt() -> tuple[Outcome, Built]:
            outcome = worker.call(function, inp, timeout=self._options.build_timeout)
            if outcome.kind == "ok":
                return outcome, outcome.value
            timings = {"build_s": outcome.seconds}
            return outcome, Built(_status("build", outcome), error=outcome.error, timings=timings)

        return self._retry.call(worker, attempt)


class Measuring(_Stage):
    """A measuring stage: checks numbers by a reference, then times.

    Args:
        workers: its supervisors, the first of which is started first.
        lock: names the lock between unrelated runs; "": there is nothing to hold alone.
        function: import path of the function that runs.
        prepare: import path of the function that runs the reference.
        device_arguments: the last arguments of both: the device.
    """

    loading_s = 0.0
    """Seconds for loading a kernel, on top of the allowance for all."""

    def __init__(
        self,
        workers: Sequence[Supervisor],
        lock: str,
        function: str,
        prepare: str,
        device_arguments: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(*workers)
        self._lock, self._device_arguments = lock, device_arguments
        self._function, self._prepare = function, prepare
        self._one_at_a_time = threading.Lock()
        # The references that each worker has, and the start of the worker that has them.
        self._prepared: dict[Supervisor, tuple[int, tuple[str, ...]]] = {}
        self._unfit: dict[str, str] = {}

    def overlaps_builds(self) -> bool:
        """True if builders share this stage's core, so that they must take turns."""
        return machine.cores_overlap()

    def run(self, measurement: Measurement) -> RunReport:
        """Check and time one candidate; whatever it does, the answer is a :class:`RunReport`.

        Raises:
            MeasureError: no worker can be had, or the stage is closed.
            DeviceLostError: the stage's device does not answer.
        """
        worker = self._workers[-1 if measurement.built.parallel else 0]
        alone: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._lock:
            alone = machine.exclusive(self._lock, lambda: self._closed)
        with self._one_at_a_time, alone:
            return self._retry.call(worker, lambda: self._attempt(worker, measurement))

    def _attempt(
        self, supervisor: Supervisor, measurement: Measurement
    ) -> tuple[Outcome, RunReport]:
        built, options, best_cost = measurement.built, measurement.options, measurement.best_cost
        self._wake(supervisor)
        key, why_not = None, "switched off"
        if measurement.reference is not None and options.check:
            key, why_not = self._reference(supervisor, measurement.reference, options)
        budget = min(options.run_timeout, self.loading_s + run_budget(measurement))
        more = 0.0 if key is not None else inputs_s(built)
        arguments = built.artifact, options, key, best_cost, *self._device_arguments
        outcome = supervisor.call(self._function, *arguments, timeout=budget + more)
        self._look_after(supervisor, outcome)
        if outcome.kind != "ok":
            error = outcome.error
            if outcome.kind == "timeout" and budget < options.run_timeout:
                error = f"hopeless: the best so far takes {best_cost:.3g} s per call; {error}"
            status = _status("run", outcome)
            return outcome, RunReport(status, (), error, seconds=outcome.seconds)
        report: RunReport = replace(outcome.value, seconds=outcome.seconds)
        if report.status == OK and key is None:
            report.environment["unchecked"] = why_not
        return outcome, report

    def _wake(self, supervisor: Supervisor) -> None:
        """Prepare a fresh worker outside of any candidate's time."""

    def _look_after(self, supervisor: Supervisor, outcome: Outcome) -> None:
        """Replace a worker that answers but is of no more use."""

    def _reference(
        self, supervisor: Supervisor, reference: Built, options: MeasureOptions
    ) -> tuple[str | None, str]:
        """Have the reference's outputs in this very worker; a crash here is not the candidate's."""
        key = f"{reference.program_hash} {options.seed}"
        if key in self._unfit:
            return None, self._unfit[key]
        if reference.status != OK:
            return None, f"the default config could not be built: {reference.error}"
        supervisor.start()

        def prepare() -> Outcome:
            timeout = options.run_timeout + inputs_s(reference)
            arguments = key, reference.artifact, options, *self._device_arguments
            outcome = supervisor.call(self._prepare, *arguments, timeout=timeout)
            self._look_after(supervisor, outcome)
            return outcome

        starts, kept = self._prepared.get(supervisor, (0, ()))
        if starts != supervisor.starts or key not in kept:
            outcome = prepare()
            if outcome.kind != "ok" and outcome.earlier:  # a candidate before it may be the reason
                supervisor.renew()
                self._wake(supervisor)
                outcome = prepare()
            if outcome.kind != "ok":
                self._unfit[key] = f"the default config could not be run: {outcome.error}"
                return None, self._unfit[key]
            self._prepared[supervisor] = supervisor.starts, outcome.value
        return key, ""


class RunStage(Measuring):
    """Measures candidates alone on its device: pinned, or on all cores for parallel kernels.

    Args:
        options: budgets and limits.
        device: names the lock between unrelated runs.
        function: import path of the function that runs; replaced in tests.
        prepare: import path of the function that runs the reference.
        path: the driver's ``sys.path``; None: this process's.
        cores: that nobody else uses, for parallel kernels, too; single-threaded ones have the last
            of them. None: all of this process's, of which builders use all but the last.
    """

    def __init__(
        self,
        options: MeasureOptions,
        device: str = "cpu",
        function: str | None = None,
        prepare: str | None = None,
        path: Sequence[str] | None = None,
        cores: Sequence[int] | None = None,
    ) -> None:
        function = function or RUN
        self._apart = cores is not None
        if cores:  # another set of this machine is measured on at the same time
            device = f"{device}-{'-'.join(map(str, sorted(cores)))}"
            pinned, every = [max(cores)], sorted(cores)
        else:
            pinned, every = [machine.measuring_core()], None
        # Two workers, used in turn: a worker that once ran threads keeps them, and the pinned one
        # must have none. The second is started by the first parallel kernel.
        workers = [
            Supervisor(
                memory_limit=options.memory_limit or machine.memory_bytes() // 2,
                cpus=cpus,
                preload=preload(function),
                path=path,
                grows=k == 1,  # the threads of its pool stay
            )
            for k, cpus in enumerate((pinned, every))
        ]
        super().__init__(workers, device, function, prepare or PREPARE)

    def overlaps_builds(self) -> bool:
        """As :meth:`Measuring.overlaps_builds`; cores of its own overlap with nothing."""
        return not self._apart and super().overlaps_builds()


def run_budget(measurement: Measurement) -> float:
    """Seconds a candidate may run before it is killed.

    Without this, the worst candidates of a space cost more time than all others together: a plain
    matmul of 1024 has schedules from 0.02 s to 8 s. The allowance for all but the kernel itself is
    generous, so that a busy machine kills nothing good.
    """
    built, options, best_cost = measurement.built, measurement.options, measurement.best_cost
    if best_cost is None or built.artifact is None:
        return options.run_timeout
    own = options.max_measure_s + options.hopeless_factor * best_cost
    return min(options.run_timeout, ALLOWANCE + inputs_s(built) + own)


def inputs_s(built: Built) -> float:
    """Seconds in which a worker has made and compared a kernel's arrays, if it has none yet."""
    if built.artifact is None:
        return 0.0
    signatures = built.artifact.signatures
    # weights are packed, too
    shapes = [p.shape for s in signatures for p in s.params if isinstance(p, BufferParam)]
    numbers = sum(math.prod(dim for dim in shape if isinstance(dim, int)) for shape in shapes)
    turns = COLD if any(s.ahead for s in signatures) else 0
    return (8 * numbers + turns) / SLOWEST_FILL


def _status(stage: str, outcome: Outcome) -> str:
    return outcome.kind if outcome.kind == "out_of_memory" else f"{stage}_{outcome.kind}"


def preload(function: str) -> list[str]:
    """The imports of a worker before its first call of a function."""
    return [function.partition(":")[0], *PRELOAD.get(function, [])]
