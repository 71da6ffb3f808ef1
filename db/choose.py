"""The config that logs have for a workload: its own record, else one that may stand in for it.

Step by step, and each step through all logs before the next: the best record of the workload for
this target and device; that of another device; that for another target, where the caller names one;
that of a near workload of the same template; the default config. How far to go is each log's own to
say, by its ``fallback``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.errors import ArgumentError, SpaceError, nearest
from whet.db.values.identity import device_key, device_name, distance, target_difference
from whet.measure.device.identity import device_of
from whet.measure.device.names import AnyDevice, Device, is_model
from whet.search_spaces.values.counted import counted

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.db.kin import Kin
    from whet.db.log import TuningLog
    from whet.db.values.records import TrialRecord
    from whet.search_spaces import Config, ConfigSpace, Workload

FALLBACKS = ("none", "device", "shape")
"""How far to go for a config, each with those before it."""
NEAREST = 4
"""Near workloads whose configs are tried, the nearest first."""


@dataclass(frozen=True)
class Estimated:
    """A model's view of a config that nobody measured for this workload.

    Attributes:
        seconds: of a call, estimated.
        default: of a call of the default config, by the same model.
        refusal: why the config cannot be built here, or nothing can be said of it; "": it can.
    """

    seconds: float = math.nan
    default: float = math.nan
    refusal: str = ""


Estimate = Callable[["Workload", "Target", "Config"], Estimated]


@dataclass(frozen=True)
class Source:
    """Logs that are asked together.

    Attributes:
        logs: open, in the order in which they are asked.
        device: whose records are its own; None: this machine's.
        fallback: one of :data:`FALLBACKS`.
        estimate: of a near workload's config.
    """

    logs: tuple[TuningLog, ...]
    device: AnyDevice | None
    fallback: str
    estimate: Estimate | None

    def goes_to(self, step: str) -> bool:
        """True where its records may be taken for a step, one of :data:`FALLBACKS`."""
        return FALLBACKS.index(self.fallback) >= FALLBACKS.index(step)


@dataclass(frozen=True)
class Choice:
    """A config and where it comes from.

    Attributes:
        workload: what is built.
        config: None: the default one.
        tuned_by: which record, and why it.
        way_out: where no record applies: what to do.
        record: the one that ``config`` is of, or was fitted from; None: no record applies.
    """

    workload: Workload
    config: Config | None
    tuned_by: TunedBy
    way_out: str = ""
    record: TrialRecord | None = None


@dataclass(frozen=True)
class Elsewhere:
    """Another target of the same workload, whose records may be fitted.

    Attributes:
        target: canonical.
        space: the workload's for that target.
    """

    target: Target
    space: ConfigSpace


def check_fallback(fallback: object, request: str = "apply_best") -> str:
    """Refuse what is none of :data:`FALLBACKS`.

    Args:
        fallback: what was given.
        request: the function that it was given to.

    Raises:
        ArgumentError: it is none.
    """
    if not isinstance(fallback, str) or fallback not in FALLBACKS:
        names = ", ".join(map(repr, FALLBACKS))
        raise ArgumentError(
            f"{request}(fallback={fallback!r})",
            "there is no such fallback",
            f"{nearest(fallback, FALLBACKS) if isinstance(fallback, str) else ''}fallbacks: "
            f'{names}; "device" takes other machines\' records of the same target, "shape" also '
            "a near workload's",
        )
    return fallback


def choose(
    sources: Sequence[Source],
    workload: Workload,
    target: Target,
    space: ConfigSpace,
    elsewhere: Elsewhere | None = None,
    tune: str = "as the next line says",
) -> Choice:
    """The config for a workload.

    Args:
        sources: the innermost first.
        workload: what is built.
        target: canonical.
        space: the workload's, as it is today.
        elsewhere: another target, whose records are fitted to ``space`` where this one has none.
        tune: how it is tuned, for ``way_out``.

    Raises:
        LogError: a log cannot be read, or was altered.
    """
    asked = _Asked(workload, target, space)
    if choice := _recorded(sources, asked):
        return choice
    if elsewhere is not None and (choice := _of_another_target(sources, asked, elsewhere)):
        return choice
    refused: list[str] = []
    for source in sources:
        if source.goes_to("shape") and (choice := _of_another_shape(asked, source, refused)):
            return choice
    why, way_out = _explained(asked, sources, tune)
    why = "; ".join([why, *refused])
    first = sources[0].logs[0].location
    tuned_by = TunedBy("default", str(workload), str(target), log=first, why=why)
    return Choice(workload, None, tuned_by, way_out)


def _recorded(sources: Sequence[Source], asked: _Asked) -> Choice | None:
    """The config of a record of the workload and target: of this device, else of another."""
    for source in sources:
        for log in source.logs:
            record = log.best_in(asked.space, asked.workload, asked.target, source.device)
            if record is not None:
                return asked.taken("exact", log, record, "its best record for this target and here")
    for source in sources:
        if source.goes_to("device") and (choice := _of_another_device(asked, source)):
            return choice
    return None


@dataclass(frozen=True)
class _Asked:
    """The task that is built."""

    workload: Workload
    target: Target
    space: ConfigSpace

    def taken(
        self, how: str, log: TuningLog, record: TrialRecord, why: str, config: Config | None = None
    ) -> Choice:
        """The choice of a record; ``config``: as it was fitted to the space."""
        tuned_by = TunedBy(
            how,
            str(record.workload),
            str(self.target),
            device_key(record.device),
            record.cost,
            (record.run_id, record.number),
            log.location,
            why,
        )
        return Choice(self.workload, config or record.config, tuned_by, record=record)

    def device_of(self, source: Source) -> Device:
        """The device whose records are a source's own."""
        return device_of(self.target, source.device)


def _of_another_device(asked: _Asked, source: Source) -> Choice | None:
    """The best of the device that has tried most: costs of two devices say nothing of each other.

    What a model predicted never stands in for what was measured, nor the other way round.
    """
    from whet.db.kin import kin_of

    here = device_key(asked.device_of(source))
    for log in source.logs:
        kin = log.read_records(
            "read other devices' tasks", lambda r: kin_of(r, asked.target, asked.workload)
        )
        others = [
            k
            for k in kin
            if k.fingerprint == asked.space.fingerprint and _may_stand_in(k.device, here)
        ]
        for k in sorted(others, key=lambda k: (-k.succeeded, device_key(k.device))):
            record = log.best_in(asked.space, asked.workload, asked.target, k.device)
            if record is None:
                continue
            why = f"no record of {here}; {device_name(k.device)} tuned it for the same target, "
            return asked.taken(
                "device", log, record, f"{why}{counted(k.succeeded, 'config')} worked there"
            )
    return None


def _of_another_target(
    sources: Sequence[Source], asked: _Asked, elsewhere: Elsewhere
) -> Choice | None:
    """The choice for another target, fitted to this one's space, which may have other knobs.

    Raises:
        SpaceError: no config of this target's space is valid.
    """
    there = _Asked(asked.workload, elsewhere.target, elsewhere.space)
    found = _recorded(sources, there)
    if found is None or found.record is None:
        return None
    config = _alike(asked.space, found.record.config.as_dict())
    same = config.as_dict() == found.record.config.as_dict()
    why = (
        f"no record for {asked.target.short}; this is the best one for {_other(asked, there)}"
        f"{'' if same else ', fitted to the space of this target'}"
    )
    return replace(found, config=config, tuned_by=replace(found.tuned_by, how="target", why=why))


def _other(asked: _Asked, there: _Asked) -> str:
    """Another target by its short name; by what differs where both have the same."""
    if there.target.short != asked.target.short:
        return there.target.short
    pair = (one.target.canonical().to_json() for one in (there, asked))
    return f"one with {target_difference(*pair)}"


def _may_stand_in(device: Device, here: str) -> bool:
    key = device_key(device)
    return key != here and is_model(key) == is_model(here)


def _of_another_shape(asked: _Asked, source: Source, refused: list[str]) -> Choice | None:
    """The config of the nearest workload that fits this space and is estimated to be no slower.

    Args:
        asked: the task.
        source: whose logs.
        refused: is added why near ones were not taken.
    """
    if source.estimate is None:
        return None
    default = asked.space.default
    for log, kin, apart in _near(asked, source)[:NEAREST]:
        record = log.best(kin.workload, asked.target, kin.device, kin.fingerprint)
        if record is None:
            continue
        name = f"the config of {kin.workload}"
        try:
            config = _fitted(asked.space, record.config)
        except (SpaceError, TypeError, ValueError) as error:  # choices that no template ever made
            refused.append(f"{name} does not fit ({_first_line(error)})")
            continue
        seen = source.estimate(asked.workload, asked.target, config)
        if seen.refusal:
            refused.append(f"{name} cannot be used ({seen.refusal})")
            continue
        if config.key != default.key and not seen.seconds <= seen.default:
            refused.append(
                f"{name} is estimated to be slower ({_us(seen.seconds)}) than the default config "
                f"({_us(seen.default)})"
            )
            continue
        fits = "" if config.as_dict() == record.config.as_dict() else ", fitted to this shape"
        why = (
            f"no record of {asked.workload}; of its template this is the nearest, "
            f"{apart:.3g} doublings away{fits}; estimated {_us(seen.seconds)}, "
            f"the default config {_us(seen.default)}"
        )
        return asked.taken("shape", log, record, why, config)
    return None


def _near(asked: _Asked, source: Source) -> list[tuple[TuningLog, Kin, float]]:
    """Other workloads of the template with a record for the target, the nearest first.

    Of equals one of this device comes first, then the one that was searched most.
    """
    from whet.db.kin import kin_of

    here = device_key(asked.device_of(source))
    template = asked.workload.template
    found = []
    for place, log in enumerate(source.logs):
        kin = log.read_records(
            "read near workloads", lambda r: kin_of(r, asked.target, template=template)
        )
        for k in kin:
            key = device_key(k.device)
            apart = distance(k.workload.args, asked.workload.args)
            if 0 < apart < math.inf and is_model(key) == is_model(here):
                order = (apart, key != here, place, -k.succeeded, k.workload.key, key)
                found.append((order, log, k, apart))
    return [(log, k, apart) for _, log, k, apart in sorted(found, key=lambda f: f[0])]


def _fitted(space: ConfigSpace, config: Config) -> Config:
    """A near workload's config in this space: the same choices, else those most alike.

    Raises:
        SpaceError: it has other knobs, or no point of the space is valid.
    """
    choices = config.as_dict()
    if choices.keys() != space.knobs.keys():
        raise SpaceError(
            "a config of another shape", f"its knobs are {', '.join(choices) or '(none)'}"
        )
    return _alike(space, choices)


def _alike(space: ConfigSpace, choices: Mapping[str, Any]) -> Config:
    try:
        return space.from_choices(choices)
    except SpaceError:
        return space.nearest(choices)


def _explained(asked: _Asked, sources: Sequence[Source], tune: str) -> tuple[str, str]:
    """Why no record applies, from the log that knows most of the workload; and the way out."""
    from whet.db.missing import NEVER, explain

    def each() -> Iterator[tuple[str, str]]:
        for source in sources:
            for log in source.logs:
                task = asked.workload, asked.target, asked.space.fingerprint
                yield explain(log, *task, source.device, tune)

    said = list(each())
    return next((one for one in said if not one[0].startswith(NEVER)), said[0])


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"
