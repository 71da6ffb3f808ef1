"""Where a call of tune() measures, and what the log calls that device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime.device import Device as RuntimeDevice
from whet.measure.gpu.identity import describe, named_device, text_of
from whet.measure.gpu.names import CPU, CUDA, EMULATOR, is_model

if TYPE_CHECKING:
    from whet.autotune.task import Task
    from whet.db.identity import Device

_WAYS = (
    "None is this machine's device for the target; whet.cuda(1) or 'cuda:1' another GPU of it; "
    "'cuda-emulator' a model of one; another machine is named by what host.fingerprint() says "
    "there, e.g. 'cpu-0123456789ab'"
)


@dataclass(frozen=True)
class Place:
    """Where candidates are measured.

    Attributes:
        identity: what the log calls the device; None: this machine's processor.
        device: what a pool is opened for: ``"cpu"``, ``"cuda:0"``, ``"cuda-emulator"``.
    """

    identity: Device | None = None
    device: str = CPU


def place_of(asked: Any, tasks: Sequence[Task], workers: Any, stack: ExitStack) -> Place:
    """Where a call measures.

    Args:
        asked: ``device=`` of :func:`whet.tune`.
        tasks: what is tuned, all of it on one device.
        workers: ``workers=`` of :func:`whet.tune`.
        stack: holds a connection to Ray, where a GPU of its cluster is asked what it is.

    Raises:
        ArgumentError: there is no such device, or it does not run code of the tasks' targets.
        TargetError: this machine has no such GPU, or none of the architecture is modelled.
        MeasureError: Ray has no GPU.
    """
    named = _named(asked)
    on_gpu = _on_gpu(tasks)
    kind = _kind_of(named, asked)
    if kind and (kind != CPU) != on_gpu:
        raise ArgumentError(
            f"tune({tasks[0].workload}, device={text_of(named) if named else asked!r})",
            f"it does not run code for target {str(tasks[0].target.kind)!r}",
            "create_task(..., target='cuda') is for GPUs and their emulator, 'llvm' for the CPU",
        )
    if not on_gpu:
        return Place(None if named is not None else asked)
    if named is None and asked is not None:
        return Place(asked, _device_of_key(asked))
    ours = isinstance(workers, int | str | None)
    remote = isinstance(workers, str) and workers != "local"
    if ours and named is None and not remote:
        named = _gpu_here(tasks)
    if named is not None and named.type == EMULATOR:
        return Place(_alike(named, tasks), EMULATOR)
    if remote:
        return Place(_remote(workers, stack), CUDA)
    return Place(_described(named, tasks), text_of(named or RuntimeDevice(CUDA)))


def _named(asked: Any) -> RuntimeDevice | None:
    """The device that was named; None where a fingerprint, or nothing, was given."""
    if asked is None:
        return None
    if isinstance(asked, str) and (named := named_device(asked)) is not None:
        asked = named
    if isinstance(asked, RuntimeDevice):
        known = asked.type in (CUDA, EMULATOR)
        if known or asked == RuntimeDevice(CPU):
            return asked
    from whet.db.identity import device_key, is_device_key

    if isinstance(asked, str | dict) and is_device_key(device_key(asked)):
        return None
    if isinstance(asked, str | dict | RuntimeDevice):
        raise ArgumentError(f"tune(device={asked!r})", "there is no such device", _WAYS)
    raise ArgumentError(
        f"tune(device={asked!r})", f"a {type(asked).__name__} does not name a machine", _WAYS
    )


def _kind_of(named: RuntimeDevice | None, asked: Any) -> str:
    """``"cpu"``, ``"cuda"``, ...: how a device's name or key begins; "" where neither says."""
    from whet.db.identity import device_key

    if named is not None or asked is None:
        return named.type if named is not None else ""
    kind = device_key(asked).partition("-")[0]
    return kind if kind in (CPU, CUDA) else ""


def _on_gpu(tasks: Sequence[Task]) -> bool:
    """Whether the tasks are for GPUs."""
    kinds = {str(task.target.kind): task.target.kind.row.device for task in tasks}
    if len(set(kinds.values())) > 1:
        raise ArgumentError(
            f"tune([{len(tasks)} tasks])",
            f"their targets run on different devices: {', '.join(sorted(kinds))}",
            "tune those for the CPU and those for GPUs in a call each; they may share a log",
        )
    return set(kinds.values()) == {CUDA}


def _device_of_key(asked: Device) -> str:
    from whet.db.identity import device_key

    return EMULATOR if is_model(device_key(asked)) else f"{CUDA}:0"


def _gpu_here(tasks: Sequence[Task]) -> RuntimeDevice:
    """This machine's first GPU.

    Raises:
        TargetError: it has none; the text says what is missing, and what can be done without.
    """
    from whet.compiler.runtime.gpu.driver import driver_of

    try:
        if driver_of(CUDA).device_count():
            return RuntimeDevice(CUDA)
        why = "this machine has no GPU"
    except TargetError as error:
        why = f"no GPU can be used here: {error}"
    raise TargetError(
        f"tune({tasks[0].workload}) for target {str(tasks[0].target.kind)!r}",
        why,
        "device='cuda-emulator' checks the numbers on the CPU and predicts costs by a model; "
        "workers='ray://host:port' measures on a cluster's GPUs",
    )


def _alike(named: RuntimeDevice, tasks: Sequence[Task]) -> Device:
    """What the emulator is for all tasks: one GPU is modelled in one call."""
    found = {}
    for task in tasks:
        described = describe(named, task.target.to_json())
        found[described["fingerprint"]] = described
    if len(found) > 1:
        raise ArgumentError(
            f"tune([{len(tasks)} tasks], device={EMULATOR!r})",
            f"their targets are modelled by different GPUs: {', '.join(sorted(found))}",
            "tune those of one architecture in a call; they may share a log",
        )
    return next(iter(found.values()))


def _remote(workers: str, stack: ExitStack) -> Device:
    """What the GPUs of a Ray cluster are."""
    from whet.measure import ray_cluster
    from whet.measure.ray_pool import describe_remote_gpu

    address = None if workers == "ray" else workers
    return describe_remote_gpu(stack.enter_context(ray_cluster.connected(address)))


def _described(named: RuntimeDevice | None, tasks: Sequence[Task]) -> Device:
    from whet.db.identity import device_of

    return device_of(tasks[0].target, named)
