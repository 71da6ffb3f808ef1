"""Where a call of tune() measures, and what the log calls that device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime.device import Device as RuntimeDevice
from whet.measure.gpu.identity import (
    check_alike,
    describe,
    every_gpu,
    measured_devices,
    named_device,
    text_of,
)
from whet.measure.gpu.names import (
    CPU,
    CUDA,
    EMULATOR,
    EVERY_GPU,
    is_misspelt,
    is_model,
    nearest_name,
)

if TYPE_CHECKING:
    from whet.autotune.tasks.task import Task
    from whet.db.values.identity import Device

_WAYS = (
    "None is this machine's device for the target; whet.cuda(1) or 'cuda:1' another GPU of it, "
    "['cuda:0', 'cuda:1'] several, 'cuda:*' all; 'cuda-emulator' a model of one; another machine "
    "is named by what host.fingerprint() says there, e.g. 'cpu-0123456789ab'"
)


@dataclass(frozen=True)
class Place:
    """Where candidates are measured.

    Attributes:
        identity: what the log calls the device; None: this machine's processor.
        device: what a pool is opened for: ``"cpu"``, ``"cuda:0"``, ``"cuda:0,cuda:1"``,
            ``"cuda-emulator"``.
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
        TargetError: this machine has no such GPU, or none of the architecture is modelled, or the
            emulator has no C++ compiler.
        MeasureError: Ray has no GPU, or several GPUs are of different kinds.
    """
    if isinstance(asked, list | tuple) and len(asked) == 1:
        (asked,) = asked
    named = _named(asked)
    on_gpu = _on_gpu(tasks)
    kind = _kind_of(named, asked)
    if kind and (kind != CPU) != on_gpu:
        raise ArgumentError(
            f"tune({tasks[0].workload}, device={_text(named) if named else asked!r})",
            f"it does not run code for target {str(tasks[0].target.kind)!r}",
            "create_task(..., target='cuda') is for GPUs and their emulator, 'llvm' for the CPU",
        )
    if not on_gpu:
        return Place(None if named else asked)
    if not named and asked is not None:
        return Place(asked, _device_of_key(asked))
    ours = isinstance(workers, int | str | None)
    if named and named[0].type == EMULATOR:
        if workers is None or isinstance(workers, int) or workers == "local":
            from whet.compiler.emulator.compile import compiler_command

            compiler_command()  # without one, each candidate would end in the same error
        return Place(_alike(named[0], tasks), EMULATOR)
    if isinstance(workers, str) and workers != "local":
        _check_remote(named, workers)
        return Place(_remote(workers, stack), CUDA)
    if asked == EVERY_GPU or (ours and not named):
        found = _gpus_here(tasks)
        named = found if asked == EVERY_GPU else found[:1]
    return Place(_described(named, tasks), _text(named or (RuntimeDevice(CUDA),)))


def _named(asked: Any) -> tuple[RuntimeDevice, ...]:
    """The devices that were named; none where a fingerprint, or nothing, was given."""
    if asked is None:
        return ()
    if asked == EVERY_GPU:
        return (RuntimeDevice(CUDA),)  # which they are is asked once it is known whose
    if isinstance(asked, list | tuple) or (isinstance(asked, str) and "," in asked):
        return _several(asked)
    if isinstance(asked, str) and (named := named_device(asked)) is not None:
        asked = named
    if isinstance(asked, RuntimeDevice):
        known = asked.type in (CUDA, EMULATOR)
        if known or asked == RuntimeDevice(CPU):
            return (asked,)
    from whet.db.values.identity import device_key, is_device_key

    misspelt = isinstance(asked, str) and is_misspelt(asked)
    if not misspelt and isinstance(asked, str | dict) and is_device_key(device_key(asked)):
        return ()
    if isinstance(asked, str | dict | RuntimeDevice):
        way_out = (nearest_name(asked) if isinstance(asked, str) else "") + _WAYS
        raise ArgumentError(f"tune(device={asked!r})", "there is no such device", way_out)
    raise ArgumentError(
        f"tune(device={asked!r})", f"a {type(asked).__name__} does not name a machine", _WAYS
    )


def _several(asked: Any) -> tuple[RuntimeDevice, ...]:
    """Several GPUs: their names, one after the other or in one text, or devices."""
    each = [asked] if isinstance(asked, str) else asked
    if not each:
        raise ArgumentError(f"tune(device={asked!r})", "it names no device", _WAYS)
    names = [text_of(one) if isinstance(one, RuntimeDevice) else str(one) for one in each]
    return measured_devices(",".join(names))


def _text(named: Sequence[RuntimeDevice]) -> str:
    return ",".join(text_of(one) for one in named)


def _kind_of(named: Sequence[RuntimeDevice], asked: Any) -> str:
    """``"cpu"``, ``"cuda"``, ...: how a device's name or key begins; "" where neither says."""
    from whet.db.values.identity import device_key

    if named or asked is None:
        return named[0].type if named else ""
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
    from whet.db.values.identity import device_key

    return EMULATOR if is_model(device_key(asked)) else f"{CUDA}:0"


def _gpus_here(tasks: Sequence[Task]) -> tuple[RuntimeDevice, ...]:
    """This machine's GPUs.

    Raises:
        TargetError: it has none; the text says what is missing, and what can be done without.
    """
    try:
        if found := every_gpu():
            return found
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
    from whet.measure.pool import ray_cluster
    from whet.measure.pool.ray_pool import describe_remote_gpu

    address = None if workers == "ray" else workers
    return describe_remote_gpu(stack.enter_context(ray_cluster.connected(address)))


def _check_remote(named: Sequence[RuntimeDevice], workers: str) -> None:
    if len(named) > 1 or any(one.index for one in named):
        raise ArgumentError(
            f"tune(device={_text(named)!r}, workers={workers!r})",
            "the GPUs of a cluster have no numbers here",
            "leave device out: every GPU that the cluster offers and nobody holds measures",
        )


def _described(named: Sequence[RuntimeDevice], tasks: Sequence[Task]) -> Device:
    """What a search's devices are: those of one kind are one device for the log."""
    from whet.db.values.identity import device_of

    if len(named) < 2:
        return device_of(tasks[0].target, named[0] if named else None)
    found = [describe(one, tasks[0].target.to_json()) for one in named]
    check_alike(
        f"tune(device={_text(named)!r})",
        found,
        "name those of one kind; the others have searches of their own, in the same log",
    )
    return found[0]
