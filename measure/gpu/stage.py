"""The measuring stage of one GPU, or of the emulator: a worker process that owns the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whet.compiler import settings
from whet.compiler.errors import DeviceLostError, MeasureError
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.target.machine.local_gpu import local_uuid
from whet.measure.device.identity import text_of
from whet.measure.device.names import EMULATOR
from whet.measure.gpu.builder import too_much
from whet.measure.stage import machine
from whet.measure.stage.builder import Built
from whet.measure.stage.retry import Retry
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.stage.stages import Measuring, preload
from whet.measure.values import OK, Json, MeasureOptions
from whet.measure.worker.supervisor import Outcome, Supervisor

BUILD_CUDA = "whet.measure.gpu.builder:build_for_gpu"
BUILD_EMULATED = "whet.measure.gpu.builder:build_for_emulator"
RUN = "whet.measure.gpu.runner:run_candidate"
PREPARE = "whet.measure.gpu.runner:prepare_reference"
DESCRIBE = "whet.measure.gpu.runner:describe_device"
WAKE = "whet.measure.gpu.runner:wake"
STARTED = 60.0
"""Seconds in which a worker makes its context."""


class DeviceStage(Measuring):
    """Measures candidates on a GPU, alone; or runs them in the emulator for their numbers.

    After an error that leaves the device's context unusable (an illegal address, a failed launch)
    the worker is replaced: the error costs one trial. A kernel that hangs ends with its worker. A
    device that a new worker cannot use either is lost: a :class:`DeviceLostError`.

    Args:
        options: budgets and limits.
        device: ``Device("cuda", k)``, or the emulator.
        function: import path of the function that runs; replaced in tests.
        prepare: import path of the function that runs the reference.
        path: the driver's ``sys.path``; None: this process's.
        place: its number among the measurers of this machine; each has a core of its own. None:
            the number of the one GPU that this process was given, as Ray gives its actors.
        beside: measurers of other kinds on this machine, whose cores the emulator leaves alone.

    Attributes:
        disturbs: the emulator would disturb who measures beside it.
    """

    loading_s = 3.0
    """Seconds in which code is loaded, and compiled once more where it is for another GPU."""

    def __init__(
        self,
        options: MeasureOptions,
        device: Device,
        function: str | None = None,
        prepare: str | None = None,
        path: Sequence[str] | None = None,
        place: int | None = None,
        beside: int = 0,
    ) -> None:
        function = function or RUN
        self.device, self._name = device, text_of(device)
        self._emulated = device.type == EMULATOR
        self._awake = 0  # the start of the worker that has made its context
        # NVIDIA's driver maps more memory than it uses: only a limit that was asked for is set.
        limit = options.memory_limit or (machine.memory_bytes() // 2 if self._emulated else None)
        if place is None:
            visible = settings.cuda_visible_devices()
            place = int(visible[0]) if len(visible) == 1 and visible[0].isdecimal() else 0
        self.disturbs = self._emulated and beside > 0
        cpus = None if self._emulated else [machine.measuring_core(place)]
        if self.disturbs:
            cpus = machine.builder_cores(beside)
        worker = Supervisor(
            memory_limit=limit, cpus=cpus, preload=preload(function), path=path, grows=True
        )
        lock = "" if self._emulated else lock_of(device)
        super().__init__([worker], lock, function, prepare or PREPARE, (self._name,))
        # A GPU's errors are looked after by themselves, and a new context takes a second.
        self._retry = Retry(kinds=0)

    def overlaps_builds(self) -> bool:
        """False: a GPU's events and a model's costs do not depend on the processor's load."""
        return False

    def describe(self, target: Json) -> Json:
        """The device as a log keeps it.

        Args:
            target: the canonical target as JSON.

        Raises:
            MeasureError: the worker has no such device.
        """
        outcome = self._workers[0].call(DESCRIBE, self._name, target, timeout=STARTED)
        if outcome.kind != "ok":
            raise MeasureError(f"measurement on {self._name}", outcome.error)
        return outcome.value

    def run(self, measurement: Measurement) -> RunReport:
        """As :meth:`Measuring.run`; what is too large for the emulator is predicted only."""
        if not self._emulated:
            return super().run(measurement)
        model = measurement.built.facts.get("model")
        why = _too_large(measurement.built) if measurement.options.check else "switched off"
        if isinstance(model, dict) and why:
            return predicted(model, why)
        report = super().run(replace(measurement, best_cost=None))
        if report.status != OK or not isinstance(model, dict):
            return report
        unchecked = report.environment.get("unchecked", "")
        return predicted(model, unchecked, report)

    def _reference(
        self, supervisor: Supervisor, reference: Built, options: MeasureOptions
    ) -> tuple[str | None, str]:
        """As :meth:`Measuring._reference`; what is too large is not even compiled here."""
        if self._emulated and (why := _too_large(reference)):
            return None, f"the default config is {why}"
        return super()._reference(supervisor, reference, options)

    def _wake(self, supervisor: Supervisor) -> None:
        supervisor.start()
        if self._emulated or self._awake == supervisor.starts:
            return
        outcome = supervisor.call(WAKE, self._name, timeout=STARTED)
        self._look_after(supervisor, outcome)
        if outcome.kind != "ok":
            raise DeviceLostError(
                f"measurement on {self._name}",
                "a new process cannot use the device",
                _raised(outcome.error),
            )
        self._awake = supervisor.starts

    def _look_after(self, supervisor: Supervisor, outcome: Outcome) -> None:
        lost = isinstance(outcome.value, RunReport) and outcome.value.lost
        if lost or outcome.kind == "error":
            supervisor.renew()


def _too_large(built: Built) -> str:
    """The reason why the emulator does not run a program; "" where it does, or without a model."""
    model = built.facts.get("model")
    return too_much(model) if isinstance(model, dict) else ""


def _raised(error: str) -> str:
    """The error at the end of a traceback's text; another text as it is."""
    _, frame, after = error.rpartition('\n  File "')
    lines = after.splitlines()
    # behind the last frame and its lines of code, which are indented
    first = next((k for k, line in enumerate(lines) if k and line[:1].strip()), 0)
    raised = "\n".join(lines[first:]) if frame and first else error
    return raised.removeprefix("whet.compiler.errors.")


def predicted(model: Json, unchecked: str, report: RunReport | None = None) -> RunReport:
    """The model's prediction as a report.

    Args:
        model: the prediction of the build.
        unchecked: why the numbers were not compared; "" where they were.
        report: of the run in the emulator, where there was one.
    """
    report = report or RunReport(OK, environment=machine.environment())
    facts = report.environment | {"cost": "model", "checked": not unchecked}
    if unchecked:
        facts["unchecked"] = unchecked
    return replace(report, costs=(float(model["seconds"]),), environment=facts)


def lock_of(device: Device) -> str:
    """The name of a GPU's lock: the same GPU's, whatever CUDA_VISIBLE_DEVICES calls it."""
    visible = settings.cuda_visible_devices()
    named = visible[device.index] if device.index < len(visible) else str(device.index)
    name = local_uuid(device.index) or named
    return "cuda-" + "".join(c if c.isalnum() else "-" for c in name)
