"""AutoTVM's logs, version 0.2: one JSON object a trial, read as runs of the sampler ``"autotvm"``.

Where a template is registered under the task's name, takes its arguments and has the same knobs, a
trial is one of the template's space, and ``build`` can take its config. Otherwise it is kept as
history, under a fingerprint that no space has. The costs are those of TVM's code, on a machine that
the log does not name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError, TargetError
from whet.db.values.identity import digest
from whet.db.values.records import RunRecord, TrialEntry
from whet.measure.device.identity import device_of
from whet.measure.device.names import AnyDevice, Device
from whet.measure.values import Json, MeasureResult, is_number, is_time
from whet.search_spaces.knobs.plain import plain
from whet.search_spaces.values import Config, Workload
from whet.search_spaces.values.registry import registered

if TYPE_CHECKING:
    from whet.db.exchange.write import Writer
    from whet.search_spaces.space.config_space import ConfigSpace

SAMPLER = "autotvm"
VERSION = 0.2
ELSEWHERE: Device = {"name": "the machine of an AutoTVM log"}
"""The device of trials whose machine nobody named."""
FOREIGN = "autotvm:"
"""The beginning of the fingerprints that no space has."""
ERRORS = {
    1: "lower_error",
    2: "build_error",
    3: "build_error",
    4: "run_error",
    5: "wrong_answer",
    6: "build_timeout",
    7: "run_timeout",
    8: "run_error",
}
"""Our status for each of AutoTVM's error numbers."""
STAGES = {"lower": "build", "build": "build", "run": "run", "wrong": "check"}
KINDS = {"sp": "split", "re": "reorder", "an": "annotate", "ot": "knob"}
IGNORED = ("keys", "link-params", "libs", "system-lib", "runtime", "executor", "host", "model")
"""Options of TVM's targets that change nothing in a kernel's code."""


def is_record(value: Any) -> bool:
    """True for a trial of AutoTVM, of any version of its log."""
    if not isinstance(value, dict):
        return False
    return {"input", "config", "result"} <= value.keys() or {"i", "r", "v"} <= value.keys()


@dataclass(frozen=True)
class RecordedTask:
    """A task of AutoTVM as this process sees it.

    Attributes:
        workload: the template's name and arguments.
        target: canonical where it is a target here.
        space: of the template; None where there is none, or it does not take these arguments.
        why: there is none, in words.
    """

    workload: Workload
    target: Json
    space: ConfigSpace | None
    why: str = ""


@dataclass
class _Run:
    """A run that was begun: its uid, how many trials it has, and when the last of them ended."""

    uid: str
    trials: int
    last: float


@dataclass(frozen=True)
class Recorded:
    """A trial of AutoTVM's.

    Attributes:
        text: its target, in TVM's words.
        key: tells its task from others of the file.
        task: its task as this process sees it.
        config: of the task's space, or one that no space has.
        result: how it ended.
        why: the config is of no space here, in words; "" where it is of one.
    """

    text: str
    key: str
    task: RecordedTask
    config: Config
    result: MeasureResult
    why: str


def recorded(data: Json, tasks: dict[str, RecordedTask]) -> Recorded:
    """The trial of one line.

    Args:
        data: the line.
        tasks: those that were met before, by their keys; a new one is added.

    Raises:
        ValueError, SpaceError: it is no trial.
    """
    text, name, args = _input_of(data)
    key = digest([text, name, args])
    task = tasks.get(key)
    if task is None:
        task = tasks[key] = _task_of(text, name, args)
    result = _result_of(data)
    config, why = _config_of(task, data["config"])
    return Recorded(text, key, task, config, result, why)


class Histories:
    """The runs of AutoTVM's trials in one file: one for each task and set of knobs.

    Args:
        device: the machine that measured; None: not known.
    """

    def __init__(self, device: AnyDevice | None = None) -> None:
        self._device = device
        self._tasks: dict[str, RecordedTask] = {}
        self._runs: dict[tuple[str, str], _Run] = {}

    def add(self, writer: Writer, number: int, data: Json) -> None:
        """Write a trial, and first the run that it is the first of.

        Args:
            writer: of the log.
            number: of its line.
            data: the line.

        Raises:
            ValueError, SpaceError: it is no trial.
        """
        one = recorded(data, self._tasks)
        key, task, config, result = one.key, one.task, one.config, one.result
        applied = not one.why
        run = self._runs.get((key, config.fingerprint))
        if run is None:
            # A file to which AutoTVM adds keeps its first trial, and so the name of the run.
            about = {"target": one.text, "applied": applied, "why": one.why}
            record = self._record(task, config, result, digest([data, self._device_of(task)]))
            run = self._runs[key, config.fingerprint] = _Run(record.uid, 0, result.timestamp)
            writer.run(replace(record, options={SAMPLER: about}, versions=_versions(data)))
        # From 1 on: number 0 is the default config's, and AutoTVM has none.
        run.trials, run.last = run.trials + 1, max(run.last, result.timestamp)
        flop = float(task.space.flop or 0) if task.space is not None else 0.0
        entry = TrialEntry(0, run.trials, config, result, flop)
        writer.trial(run.uid, entry, line=number)
        writer.taken.applied += applied
        writer.taken.history += not applied

    def finish(self, writer: Writer) -> None:
        """Write when the runs ended."""
        for run in self._runs.values():
            writer.finish(run.uid, run.last)

    def _device_of(self, task: RecordedTask) -> Device:
        return ELSEWHERE if self._device is None else device_of(task.target, self._device)

    def _record(
        self, task: RecordedTask, config: Config, first: MeasureResult, uid: str
    ) -> RunRecord:
        return RunRecord(
            id=0,
            uid=uid[:32],
            workload=task.workload,
            target=task.target,
            device=self._device_of(task),
            fingerprint=config.fingerprint,
            sampler=SAMPLER,
            seed=None,
            options={},
            versions={},
            state="finished",
            started_at=first.timestamp,
            finished_at=first.timestamp,
        )


def _input_of(data: Json) -> tuple[str, str, list[Any]]:
    """The target, the task's name and its arguments."""
    if "input" not in data or data.get("version") != VERSION:
        version = data.get("version", data.get("v"))
        raise ValueError(
            f"AutoTVM's log of version {version!r}: {VERSION} is read; older ones hold pickled "
            "data, which is refused unread"
        )
    given = data["input"]
    if not isinstance(given, list) or len(given) != 4:
        raise ValueError("'input' of an AutoTVM record is [target, task, args, kwargs]")
    text, name, args, _ = given
    if not isinstance(text, str) or not isinstance(name, str) or not isinstance(args, list):
        raise ValueError("'input' of an AutoTVM record is [text, text, list, {}]")
    if "\x00" in name or "\x00" in text:
        raise ValueError("'input' of an AutoTVM record cannot hold a NUL")
    return text, name, args


def _versions(data: Json) -> Json:
    return {"tvm": str(data.get("tvm_version", ""))}


def _result_of(data: Json) -> MeasureResult:
    """The result of a trial; its times are in seconds."""
    given = data["result"]
    if not isinstance(given, list) or len(given) != 4:
        raise ValueError("'result' of an AutoTVM record is [costs, error, seconds, time]")
    costs, error, spent, when = given
    if type(error) is not int or not 0 <= error <= max(ERRORS):
        raise ValueError(f"AutoTVM has no error {str(error)[:40]}")
    if not is_number(spent) or spent < 0 or not is_number(when):
        raise ValueError("times of an AutoTVM record are finite numbers")
    timings = {"total_s": float(spent)}
    if error:
        status = ERRORS[error]
        said = f"AutoTVM's error {error}; its log has no text of it"
        stage = STAGES[status.partition("_")[0]]
        return MeasureResult(status, (), said, stage, "", timings, timestamp=float(when))
    if not isinstance(costs, list) or not costs or not all(map(is_time, costs)):
        raise ValueError("costs of an AutoTVM record are seconds, finite and above 0")
    return MeasureResult("ok", tuple(map(float, costs)), timings=timings, timestamp=float(when))


def _task_of(text: str, name: str, args: list[Any]) -> RecordedTask:
    """The task of a record, with its space where a template here has it."""
    from whet.compiler.target import Target

    given = Workload(name, tuple(args))
    try:
        target = Target(_known_options(text)).canonical()
        target.kind.row.check_built()
    except TargetError as error:
        raw: Json = {"kind": text.split()[0] if text.split() else "", SAMPLER: text}
        return RecordedTask(given, raw, None, f"its target is none here ({_first_line(error)})")
    data = target.to_json()
    template = registered(name)
    if template is None:
        return RecordedTask(given, data, None, f"no template {name!r} is registered")
    try:
        with target:
            workload = template.workload(*args)
            return RecordedTask(workload, data, template.space(workload))
    except Exception as error:  # a template is a user's function, and may raise anything
        return RecordedTask(
            given, data, None, f"the template does not take it ({_first_line(error)})"
        )


def _known_options(text: str) -> str:
    """The text of TVM's target without the options that change no code."""
    words = text.split()
    kept = [w for w in words if w.lstrip("-").partition("=")[0] not in IGNORED or w in words[:1]]
    return " ".join(kept)


def _config_of(task: RecordedTask, data: Any) -> tuple[Config, str]:
    """The config of a record, and why it is of no space here; "" where it is of one."""
    if not isinstance(data, Mapping) or not isinstance(data.get("entity"), list):
        raise ValueError("'config' of an AutoTVM record needs 'entity'")
    entity = data["entity"]
    for one in entity:
        named = isinstance(one, list) and len(one) == 3 and isinstance(one[0], str)
        if not named or not isinstance(one[1], str) or one[1] not in KINDS:
            raise ValueError("an entity of AutoTVM is [name, 'sp' | 're' | 'an' | 'ot', value]")
        if "\x00" in one[0]:
            raise ValueError("a knob's name cannot hold a NUL")
    why = task.why
    if task.space is not None:
        try:
            return fitted(task.space, entity), ""
        except SpaceError as error:
            why = f"the template's knobs are others ({_first_line(error)})"
    knobs = [[name, kind] for name, kind, _ in entity]
    mark = FOREIGN + digest([task.workload.template, knobs])[:24]
    kinds = tuple(KINDS[kind] for _, kind, _ in entity)
    return Config(tuple((name, value) for name, _, value in entity), mark, kinds), why


def fitted(space: ConfigSpace, entity: list[Any]) -> Config:
    """The config of a space that a record's ``[name, kind, value]`` describe.

    Raises:
        SpaceError: the space has other knobs, or a constraint does not admit it.
    """
    choices = {name: _choice(space, name, KINDS[kind], value) for name, kind, value in entity}
    if missing := space.knobs.keys() - choices.keys():
        raise SpaceError("", f"it has no knob {sorted(missing)[0]!r}")
    return space.from_choices(choices)


def _choice(space: ConfigSpace, name: str, kind: str, value: Any) -> Any:
    """The choice of a knob that a value of AutoTVM is.

    Raises:
        SpaceError: there is no such knob, of this kind and with this choice.
    """
    knob = space.knobs.get(name)
    if knob is None or knob.kind != kind:
        raise SpaceError("", f"there is no {kind} {name!r}")
    wanted = plain(value, "AutoTVM's record", name)
    if kind == "split" and isinstance(wanted, tuple) and wanted and wanted[0] == -1:
        # AutoTVM leaves the outermost size out: the other ones give it.
        fitting = [c for c in knob.choices if isinstance(c, tuple) and c[1:] == wanted[1:]]
        if len(fitting) != 1 or not all(map(_is_size, wanted[1:])):
            raise SpaceError("", f"split {name!r} has no choice {wanted}")
        return fitting[0]
    return knob.choices[knob.position(wanted)]


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < math.inf


def _first_line(error: Exception) -> str:
    return (str(error).strip(": ") or type(error).__name__).splitlines()[0]
