"""The choice of devices for a search: the meaning of ``tune(device=...)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whet.compiler.errors import ArgumentError, TargetError
from whet.compiler.runtime.arrays.device import Device as RuntimeDevice
from whet.compiler.target import Target
from whet.measure.device import identity
from whet.measure.device.names import (
    CPU,
    CUDA,
    EMULATOR,
    EVERY_GPU,
    Device,
    fingerprint_of,
    is_device_key,
    is_misspelt,
    is_model,
    nearest_name,
    parse_name,
    this_device,
)
from whet.measure.values import Json

_WAYS = (
    "None is this machine's device for the target; whet.cuda(1) or 'cuda:1' another GPU of it, "
    "['cuda:0', 'cuda:1'] several, 'cuda:*' all; 'cuda-emulator' a model of one; another machine "
    "is named by what host.fingerprint() says there, e.g. 'cpu-0123456789ab'; ['cpu', 'cuda'] "
    "searches for several kinds at once"
)


@dataclass(frozen=True)
class Selection:
    """The devices on which a search measures.

    Attributes:
        identity: the device of the log's records; None: this machine's processor.
        device: the device of the pool: ``"cpu"``, ``"cuda:0"``, ``"cuda:0,cuda:1"``,
            ``"cuda-emulator"``; on a cluster a processor's fingerprint.
        targets: by kind (``"llvm"``) the canonical targets of the machine that measures, where
            that is not this one.
        kind: its name in ``MeasureInput.device`` where a search has several kinds, which is its
            fingerprint; else "".
        home: of several kinds, what it runs: ``"cpu"`` or ``"cuda"``.
    """

    identity: Device | None = None
    device: str = CPU
    targets: Mapping[str, Json] = field(default_factory=dict)
    kind: str = ""
    home: str = ""

    def target_of(self, target: Target) -> Target:
        """The target of a task where it is measured: one that says no more than "this machine"
        is for that machine.

        Args:
            target: a task's, canonical here.

        Raises:
            ArgumentError: it asks for features that the machine that measures does not have, or,
                of several kinds, it is for another one.
        """
        if self.home:
            target = _at_home(target, self.home)
        there = self.targets.get(str(target.kind))
        if there is None or target.to_json() == there:
            return target
        if target == Target(str(target.kind)).canonical():
            return Target(there)
        same = target.attrs.get("mtriple") == there.get("mtriple")
        lacks = _features(target.to_json()) - _features(there) if same else ()
        if lacks:
            raise ArgumentError(
                f"tune(target={target.short!r}) on {fingerprint_of(self.identity or '')}",
                f"that processor lacks {', '.join(sorted(lacks))}",
                "leave the target out, and it is made for the machine that measures",
            )
        return target


def select_device(
    device: Any,
    workload: str,
    targets: Sequence[Target],
    workers: Any,
    remote_gpu: Callable[[str], Device],
    remote_cpu: Callable[[Any, str, Sequence[str]], Json] | None = None,
) -> Selection:
    """The devices on which a search measures.

    Args:
        device: ``device=`` of :func:`whet.tune`.
        workload: the first task's, for errors.
        targets: of all tasks, which one device measures.
        workers: ``workers=`` of :func:`whet.tune`.
        remote_gpu: the description of the GPUs of a Ray cluster, by ``workers``.
        remote_cpu: the description of its processors, by ``workers``, a kind of them ("cpu": the
            only one) and the kinds of targets; None: they are taken for this machine's.

    Raises:
        ArgumentError: there is no such device, or it does not run code of the tasks' targets.
        TargetError: this machine has no such GPU, or none of the architecture is modelled, or the
            emulator has no C++ compiler.
        MeasureError: Ray has no such device, or several kinds of them.
    """
    if isinstance(device, list | tuple) and len(device) == 1:
        (device,) = device
    named = _named_devices(device)
    on_gpu = _run_on_gpu(targets)
    kind = named[0].type if named else _kind_of_key(device)
    if kind and (kind != CPU) != on_gpu:
        raise ArgumentError(
            f"tune({workload}, device={_name_of(named) if named else device!r})",
            f"it does not run code for target {str(targets[0].kind)!r}",
            "create_task(..., target='cuda') is for GPUs and their emulator, 'llvm' for the CPU",
        )
    if not on_gpu:
        return _processor(None if named else device, targets, workers, remote_cpu)
    if not named and device is not None:
        modelled = is_model(fingerprint_of(device) or "")
        return Selection(device, EMULATOR if modelled else f"{CUDA}:0")
    local = workers is None or isinstance(workers, int) or workers == "local"
    if named and named[0].type == EMULATOR:
        if local:
            from whet.compiler.emulator.compile import compiler_command

            compiler_command()  # without one, each candidate would end in the same error
        return Selection(_modelled_gpu(named[0], targets), EMULATOR)
    if isinstance(workers, str) and not local:
        if len(named) > 1 or any(one.index for one in named):
            raise ArgumentError(
                f"tune(device={_name_of(named)!r}, workers={workers!r})",
                "the GPUs of a cluster have no numbers here",
                "leave device out: every GPU that the cluster offers and nobody holds measures",
            )
        return Selection(remote_gpu(workers), CUDA)
    if device == EVERY_GPU or (local and not named):
        gpus = _local_gpus(workload, targets[0])
        named = gpus if device == EVERY_GPU else gpus[:1]
    return Selection(_description(named, targets[0]), _name_of(named or (RuntimeDevice(CUDA),)))


def select_devices(
    device: Device | RuntimeDevice | Sequence[RuntimeDevice | str] | None,
    workload: str,
    targets: Sequence[Target],
    workers: Any,
    remote_gpu: Callable[[str], Device],
    remote_cpu: Callable[[Any, str, Sequence[str]], Json] | None = None,
) -> list[Selection]:
    """The kinds of devices on which a search measures, each as :func:`select_device` gives it.

    Of several kinds each measures every task, for its own target.

    Raises:
        ArgumentError: a kind is named twice, or a task's target is for one of them only; and as
            :func:`select_device`.
        TargetError, MeasureError: as :func:`select_device`.
    """
    groups = _groups(device)
    rest = workers, remote_gpu, remote_cpu
    if len(groups) < 2:
        return [select_device(device, workload, targets, *rest)]
    chosen: list[Selection] = []
    for group in groups:
        named = _named_devices(group)
        home = (named[0].type if named else _kind_of_key(group)) or CPU
        home = CPU if home == CPU else CUDA
        there = [_at_home(target, home) for target in targets]
        one = select_device(group, workload, there, *rest)
        kind = this_device() if one.identity is None else fingerprint_of(one.identity) or ""
        if not kind or kind in [other.kind for other in chosen]:
            raise ArgumentError(
                f"tune({workload}, device={device!r})",
                f"{group!r} is {kind}, which is named twice" if kind else f"{group!r} has no name",
                "name each kind of device once: ['cpu', 'cuda']",
            )
        chosen.append(replace(one, kind=kind, home=home))
    return chosen


def _groups(device: Any) -> list[Any]:
    """The kinds that are named, each as for one kind: this machine's GPUs are one."""
    if isinstance(device, list | tuple):
        words = list(device)
    elif isinstance(device, str) and "," in device:
        words = [word.strip() for word in device.split(",")]
    else:
        return [device]
    gpus = [word for word in words if _is_gpu(word)]
    if len(gpus) == len(words):
        return [device]
    groups: list[Any] = []
    for word in words:
        if not _is_gpu(word):
            groups.append(word)
        elif word is gpus[0]:
            groups.append(gpus if len(gpus) > 1 else word)
    return groups


def _is_gpu(word: Any) -> bool:
    """True for a GPU by its number."""
    if isinstance(word, RuntimeDevice):
        return word.type == CUDA
    named = parse_name(word) if isinstance(word, str) else None
    return word == EVERY_GPU or (named is not None and named[0] == CUDA)


def _at_home(target: Target, home: str) -> Target:
    """A target, or the plain one of a kind of device where the target says only "this machine".

    Raises:
        ArgumentError: it says more, and does not run there.
    """
    if target.kind.row.device == home:
        return target
    if target != Target(str(target.kind)).canonical():
        raise ArgumentError(
            f"tune(device=...) of several kinds, with target {target.short!r}",
            f"that target does not run on {home!r}",
            "leave the target out: each kind of device has its own; or tune for this one alone",
        )
    return Target("llvm" if home == CPU else CUDA).canonical()


def _processor(
    device: Device | None,
    targets: Sequence[Target],
    workers: Any,
    remote_cpu: Callable[[Any, str, Sequence[str]], Json] | None,
) -> Selection:
    """This machine's processor, or the one of a cluster that measures."""
    elsewhere = workers != "local" if isinstance(workers, str) else hasattr(workers, "describe")
    if remote_cpu is None or not elsewhere:
        return Selection(device)
    asked = CPU if device is None else fingerprint_of(device) or CPU
    described = remote_cpu(workers, asked, sorted({str(target.kind) for target in targets}))
    there = described.pop("targets")
    return Selection(described, str(described["fingerprint"]), there)


def _features(target: Json) -> frozenset[str]:
    """The features of the processor that a canonical target is for: ``{"avx2", ...}``."""
    from whet.compiler.target.machine.processor_features import features_of

    return features_of(*(str(target.get(word, "")) for word in ("mtriple", "mcpu", "mattr")))


def _named_devices(device: Any) -> tuple[RuntimeDevice, ...]:
    """The devices that a user named; none for a fingerprint, or for None."""
    if device is None:
        return ()
    if device == EVERY_GPU:
        return (RuntimeDevice(CUDA),)  # they are counted once it is known on which machine
    if isinstance(device, list | tuple) or (isinstance(device, str) and "," in device):
        return _several(device)
    if isinstance(device, str) and (named := identity.named_device(device)) is not None:
        return (named,)
    if isinstance(device, RuntimeDevice):
        known = device.type in (CUDA, EMULATOR) or device == RuntimeDevice(CPU)
        if known:
            return (device,)
    elif not isinstance(device, str | dict):
        kind = type(device).__name__
        raise ArgumentError(f"tune(device={device!r})", f"a {kind} does not name a machine", _WAYS)
    elif isinstance(device, dict) or not is_misspelt(device):
        key = fingerprint_of(device)
        if key is None or is_device_key(key):
            return ()
    nearest = nearest_name(device) if isinstance(device, str) else ""
    raise ArgumentError(f"tune(device={device!r})", "there is no such device", nearest + _WAYS)


def _several(devices: Any) -> tuple[RuntimeDevice, ...]:
    """Several GPUs: their names, one after the other or in one text, or devices."""
    each = [devices] if isinstance(devices, str) else devices
    if not each:
        raise ArgumentError(f"tune(device={devices!r})", "it names no device", _WAYS)
    names = [identity.text_of(x) if isinstance(x, RuntimeDevice) else str(x) for x in each]
    return identity.measured_devices(",".join(names))


def _name_of(devices: Sequence[RuntimeDevice]) -> str:
    return ",".join(map(identity.text_of, devices))


def _kind_of_key(device: Device | None) -> str:
    """The kind at the start of a device's key; "" where it does not say."""
    kind = ("" if device is None else fingerprint_of(device) or "").partition("-")[0]
    return kind if kind in (CPU, CUDA) else ""


def _run_on_gpu(targets: Sequence[Target]) -> bool:
    """True for targets of GPUs; all have to be for the same kind of device."""
    kinds = {str(target.kind): target.kind.row.device for target in targets}
    if len(set(kinds.values())) > 1:
        raise ArgumentError(
            f"tune([{len(targets)} tasks])",
            f"their targets run on different devices: {', '.join(sorted(kinds))}",
            "tune those for the CPU and those for GPUs in a call each; they may share a log",
        )
    return set(kinds.values()) == {CUDA}


def _local_gpus(workload: str, target: Target) -> tuple[RuntimeDevice, ...]:
    """This machine's GPUs.

    Raises:
        TargetError: it has none; the text says what is missing, and what can be done without.
    """
    try:
        if gpus := identity.every_gpu():
            return gpus
        why = "this machine has no GPU"
    except TargetError as error:
        why = f"no GPU can be used here: {error}"
    raise TargetError(
        f"tune({workload}) for target {str(target.kind)!r}",
        why,
        "device='cuda-emulator' checks the numbers on the CPU and predicts costs by a model; "
        "workers='ray://host:port' measures on a cluster's GPUs",
    )


def _modelled_gpu(emulator: RuntimeDevice, targets: Sequence[Target]) -> Device:
    """The GPU that the emulator models for all targets: there is one in a call."""
    models = {
        description["fingerprint"]: description
        for description in (identity.describe(emulator, target.to_json()) for target in targets)
    }
    if len(models) > 1:
        raise ArgumentError(
            f"tune([{len(targets)} tasks], device={EMULATOR!r})",
            f"their targets are modelled by different GPUs: {', '.join(sorted(models))}",
            "tune those of one architecture in a call; they may share a log",
        )
    return next(iter(models.values()))


def _description(named: Sequence[RuntimeDevice], target: Target) -> Device:
    """The description of a search's devices: those of one kind are one device for the log."""
    if len(named) < 2:
        return identity.device_of(target, named[0] if named else None)
    each = [identity.describe(one, target.to_json()) for one in named]
    identity.check_alike(f"tune(device={_name_of(named)!r})", each, identity.ONE_KIND)
    return each[0]
