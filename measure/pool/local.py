"""The pool of one machine: killable builders, one measurer on its own core, or one for each GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from whet.compiler.errors import MeasureError
from whet.compiler.runtime.arrays.device import Device
from whet.measure.device.identity import ONE_KIND, check_alike, measured_devices
from whet.measure.device.names import CPU, CUDA, EMULATOR, this_device
from whet.measure.pool.base import check_count
from whet.measure.pool.engine import StagedPool
from whet.measure.pool.protocol import Known
from whet.measure.stage import machine, stages
from whet.measure.values import MeasureInput, MeasureOptions


class LocalPool(StagedPool):
    """Builds on all cores but the last, measures on the last; or on a GPU, or in the emulator.

    With the emulator, whose costs are a model's, builders have all cores.

    Args:
        workers: number of builders; None: one for each core that they may use, at most 8 for each
            device.
        options: how to measure.
        reference: a default config, whose numbers are taken for right; see
            :meth:`~whet.measure.pool.protocol.Pool.compare_with`.
        known: asked with a program's hash between build and run, from the pool's threads.
        device: measures the candidates: ``"cpu"``, ``"cuda:0"``, ``"cuda-emulator"``;
            several GPUs of one kind, ``"cuda:0,cuda:1"``, or all, ``"cuda:*"``, each by a worker of
            its own; another word is a processor's, too, with a lock of that name. Or several kinds,
            each by the name that candidates have for it in ``MeasureInput.device``.
        build_function: import path of the function that builds; replaced in tests.
        run_function: import path of the function that runs; replaced in tests.
        prepare_function: import path of the function that runs the reference.

    Raises:
        MeasureError: ``workers`` is below 1, the GPUs are of different kinds, or a kind is not of
            this machine.
        TargetError: ``"cuda:*"``, and there is no GPU.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        options: MeasureOptions | None = None,
        reference: MeasureInput | None = None,
        known: Known | None = None,
        device: str | Mapping[str, str] = "cpu",
        build_function: str | None = None,
        run_function: str | None = None,
        prepare_function: str | None = None,
    ) -> None:
        check_count(workers)
        chosen = options or MeasureOptions()
        several = _here(device) if isinstance(device, Mapping) else {"": device}
        on = {kind: measured_devices(name) for kind, name in several.items()}
        # The emulator's measurers have no cores of their own.
        beside = sum(len(of) for of in on.values() if of[0].type != EMULATOR)
        each = sum(map(len, on.values()))
        count = workers or min(len(machine.builder_cores(beside)), 8 * each)
        builds = {kind: build_function or build_function_of(of[0]) for kind, of in on.items()}
        functions = run_function, prepare_function
        measurers: list[Any] = []
        for kind, of in on.items():
            lock = several[kind]
            # A processor's measurer has the last core.
            first = 0 if len(on) < 2 or of[0].type != CUDA else this_device() in on
            stages_of = [
                measuring_stage(
                    one, lock, chosen, functions, place=first + k, beside=len(on) > 1 and beside
                )()
                for k, one in enumerate(of)
            ]
            measurers += stages_of
            for one in stages_of:
                one.kind = kind
            if len(of) > 1:
                _check_alike(lock, stages_of, measurers)
        build = builds if len(on) > 1 else next(iter(builds.values()))
        super().__init__(
            [stages.BuildStage(chosen, build, measurers=beside) for _ in range(count)],
            measurers,
            chosen,
            reference,
            known,
        )
        self._on = None if len(on) > 1 else next(iter(on.values()))[0]

    @property
    def devices(self) -> dict[str, int]:
        """The devices that measure, counted by kind: the processor's fingerprint, else a name."""
        if self._on is None:
            return super().devices
        return dict.fromkeys(self.other_names() or (self._on.type,), sum(super().devices.values()))

    def other_names(self) -> tuple[str, ...]:
        """The fingerprint of this machine's processor, where that is all that measures."""
        return (this_device(),) if self._on is not None and self._on.type == CPU else ()


def _here(kinds: Mapping[str, str]) -> dict[str, str]:
    """Several kinds of devices, if this machine has them.

    Raises:
        MeasureError: one is another machine's processor.
    """
    here = this_device()
    for kind, name in kinds.items():
        if name in (CPU, kind) and kind.startswith(f"{CPU}-") and kind != here:
            raise MeasureError(
                f"measurement on {kind!r} by workers of this machine",
                f"the processor of this machine is {here}",
                "workers='ray://host:port' measures on a cluster's; or leave it out",
            )
    return dict(kinds)


def _check_alike(name: str, stages_of: Sequence[Any], opened: Sequence[Any]) -> None:
    """Refuse GPUs of different kinds that are one for the log; ends all stages then."""
    try:
        for one in stages_of:
            one.start()
        described = [one.describe({}) for one in stages_of]
        check_alike(f"measurement on {name!r}", described, ONE_KIND)
    except BaseException:
        for one in opened:
            one.close()
        raise


def build_function_of(device: Device) -> str:
    """The import path of the function that builds for a device."""
    if device.type == CPU:
        return stages.BUILD
    from whet.measure.gpu import stage

    return stage.BUILD_CUDA if device.type == CUDA else stage.BUILD_EMULATED


def measuring_stage(
    device: Device,
    lock: str,
    options: MeasureOptions,
    functions: tuple[str | None, str | None] = (None, None),
    path: Sequence[str] | None = None,
    place: int | None = None,
    cores: Sequence[int] | None = None,
    beside: int = 0,
) -> partial[Any]:
    """A measuring stage, to be made here or on another machine.

    Args:
        device: measures the candidates.
        lock: names the lock of a processor.
        options: budgets and limits.
        functions: import paths of those that run a candidate and the reference; None: the stage's.
        path: the driver's ``sys.path``; None: this process's.
        place: the number of a measurer of this machine.
        cores: of a processor, those that nobody else uses.
        beside: measurers of other kinds on this machine that have cores of their own.
    """
    if device.type == CPU:
        return partial(stages.RunStage, options, lock, *functions, path, cores)
    from whet.measure.gpu.stage import DeviceStage

    return partial(DeviceStage, options, device, *functions, path, place, beside)
