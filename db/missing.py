"""The reason why a log has no config for a workload, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whet.db.values.identity import device_key, device_name, distance, target_difference
from whet.measure.device.identity import device_of
from whet.measure.device.names import NO_GPU, AnyDevice, Device
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.db.log import TuningLog
    from whet.db.store.reading import Reader
    from whet.db.values.records import RunRecord
    from whet.search_spaces import Workload

DIFFERENT = 8.0
"""The doublings of a size that count like one word that differs, for the nearest record."""
SHOWN = 12
"""Workloads of a log that are named, the nearest first."""


def explain(
    log: TuningLog,
    workload: Workload,
    target: Target,
    fingerprint: str,
    device: AnyDevice | None,
    tune: str,
) -> tuple[str, str]:
    """Why a log has no config for a workload, and the way out.

    Args:
        log: an open log.
        workload: what was looked for.
        target: the canonical target that it was looked for.
        fingerprint: of its space.
        device: whose records count; None: this machine's.
        tune: the call that tunes it.
    """
    from whet.db.store import queries  # which loads SQLAlchemy

    whose, wanted = device_of(target, device), target.to_json()

    def read(reader: Reader) -> tuple[list[RunRecord], queries.Tried]:
        where = queries.conditions(reader.connection, workload, target, whose, fingerprint)
        return queries.runs_of(reader, workload), queries.tried_in_vain(reader, where)

    runs, found = log.read_records("look for a workload", read)
    on_target = [run for run in runs if run.target == wanted]
    here = [run for run in on_target if device_key(run.device) == device_key(whose)]
    tried, broken = found.readable, found.broken
    if found.withdrawn:
        return f"its records were withdrawn ({found.withdrawn})", f"tune it again: {tune}"
    if tried:
        lost = f", and {broken} cannot be read: restore a copy of the log" if broken else ""
        return (
            f"none of its {tried} trials worked{lost}",
            f"see the errors: whet best {log.location} --errors; or tune it: {tune}",
        )
    if broken:
        why = "its only record is" if broken == 1 else f"all {broken} of its records are"
        return f"{why} broken", f"restore a copy of the log, or tune it into another: {tune}"
    if any(run.fingerprint == fingerprint for run in here):
        return "a search of it began, and no trial was recorded", f"tune it: {tune}"
    if here:
        was = ", ".join(sorted({run.fingerprint[:8] for run in here}))
        return (
            "it was tuned with another version of its space: other knobs, or another computation "
            f"(now {fingerprint[:8]}, records of {was})",
            f"tune it again: {tune}",
        )
    if on_target:
        return _elsewhere([run.device for run in on_target], whose, tune)
    if runs:
        return (
            f"it was tuned for other targets only ({target_difference(runs[-1].target, wanted)})",
            f"tune it for this one: {tune}",
        )
    passed = f" ({counted(log.broken, 'broken row')} passed over)" if log.broken else ""
    return (
        f"it was never tuned there{passed}",
        f"tune it: {tune}; the log holds: {_held(log, workload)}",
    )


def _elsewhere(devices: list[Device], whose: Device, tune: str) -> tuple[str, str]:
    """The reason and the way out where a workload was tuned on other devices only."""
    others = {device_key(device): device_name(device) for device in devices}
    machines = ", ".join(others.values())
    if whose == NO_GPU:
        return (
            f"it was tuned on other devices only ({machines}), and this machine has no GPU",
            "name the device whose records shall count: device='cuda-emulator', or a "
            "fingerprint; on the command line --device cuda-emulator",
        )
    return (
        f"it was tuned on other machines only ({machines}; this is {device_name(whose)})",
        f"tune it here: {tune}; or accept their records: device={list(others)[-1]!r}",
    )


def _held(log: TuningLog, workload: Workload) -> str:
    """The workloads of a log, the nearest first: those of the same template and similar sizes."""
    known = sorted(
        log.workloads(),
        key=lambda w: (w.template != workload.template, distance(w.args, workload.args, DIFFERENT)),
    )
    more = f", and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return (", ".join(map(str, known[:SHOWN])) or "(nothing)") + more
