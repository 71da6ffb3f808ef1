"""CudaModule: functions whose kernels run on GPUs or in the emulator, loaded where called."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from whet.compiler.abi.artifact import Artifact
from whet.compiler.errors import ArtifactError, TargetError
from whet.compiler.runtime.gpu.driver.interface import Context, Kernel
from whet.compiler.runtime.gpu.function import CudaFunction
from whet.compiler.runtime.gpu.launching import ReadyPlan
from whet.compiler.runtime.module import Module
from whet.compiler.runtime.unloaded import code_of_a_gpu


class CudaModule(Module):
    """Functions for GPUs. Nothing is compiled, loaded or asked of a device before the first call.

    The kernels run on the device that the arguments are on. They are compiled for its architecture
    unless the artifact holds a cubin that fits; where nothing can compile them, a later GPU's
    driver takes the artifact's PTX.

    Args:
        artifact: source, plans and kernels.

    Raises:
        ArtifactError: it has no plans.
    """

    def __init__(self, artifact: Artifact) -> None:
        if not artifact.plans:
            raise ArtifactError(
                "loading code for a GPU",
                "it holds kernels without the functions that launch them",
                "build the schedule, not its kernels",
            )
        plans = {plan.function: plan for plan in artifact.plans}
        self._kernels = {k.name: k for k in artifact.kernels}
        functions = [CudaFunction(s, plans[s.name], self) for s in artifact.signatures]
        self._hold(artifact, code_of_a_gpu(), functions)
        self._loaded: dict[Context, dict[str, Kernel]] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: object, **named: object) -> None:
        self._entry(*args, **named)

    __call__.__doc__ = CudaFunction.__call__.__doc__

    @property
    def is_dso_exportable(self) -> bool:
        """Never: there is no machine code of a CPU."""
        return False

    def ready(
        self, function: CudaFunction, context: Context, values: Mapping[str, int]
    ) -> ReadyPlan:
        """A function's plan, ready for a device.

        Args:
            function: of this module.
            context: of the device.
            values: what symbols and whole scalars are.

        Raises:
            CodegenError: the kernels cannot be compiled for the device.
            ArtifactError: the device does not take the code.
            KernelError: a launch is beyond the device's limits.
        """
        load = self._load(context).__getitem__
        return ReadyPlan(function.plan, function.signature, self._kernels, load, context, values)

    def _load(self, context: Context) -> dict[str, Kernel]:
        with self._lock:
            found = self._loaded.get(context)
            if found is None:
                image = context.load(self._image(context)) if self._kernels else None
                found = {name: image.kernel(name) for name in self._kernels} if image else {}
                self._loaded[context] = found
            return found

    def _image(self, context: Context) -> bytes:
        artifact, driver = self.artifact, context.driver
        arch, made = context.properties.arch, str(artifact.target.get("arch", ""))
        if artifact.object and driver.loads_cubins and _runs_on(made, arch):
            return artifact.object
        # sm_90a has what sm_90 has and more, and both name the same device.
        wanted = made if _without_letter(made) == arch else arch
        try:
            return driver.compile(artifact.source, wanted)
        except TargetError:  # there is no compiler here
            if not (artifact.ptx and driver.loads_cubins and _is_later(arch, made)):
                raise
            return artifact.ptx.encode() + b"\0"


def _runs_on(made: str, arch: str) -> bool:
    """True where a cubin runs on an architecture: of the same major, and no newer minor number."""
    if _without_letter(made) == arch:
        return True
    have, runs = made.removeprefix("sm_"), arch.removeprefix("sm_")
    return have.isdecimal() and runs.isdecimal() and have[:-1] == runs[:-1] and have < runs


def _without_letter(arch: str) -> str:
    return arch.rstrip("af")


def _is_later(arch: str, made: str) -> bool:
    """True where the driver of an architecture takes PTX that was made for another."""
    runs, have = (_without_letter(x).removeprefix("sm_") for x in (arch, made))
    return runs.isdecimal() and have.isdecimal() and int(runs) >= int(have)
