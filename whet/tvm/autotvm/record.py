"""``autotvm.record``: trials as lines of AutoTVM's logs, version 0.2."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import whet
from whet.autotune.tasks.task import Task
from whet.compiler.errors import ArgumentError, LogError, SpaceError
from whet.compiler.target import Target
from whet.search_spaces import get_template
from whet.tvm.autotvm.values import MeasureInput, MeasureResult

if TYPE_CHECKING:
    from whet.db.exchange.autotvm import RecordedTask

Record = tuple[MeasureInput, MeasureResult]
AUTOTVM_LOG_VERSION = 0.2
_FAILED = 1e9
"""What AutoTVM writes for the cost of a failure."""


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """A text that is the same for equal candidates, or for all of one task."""
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{config}"


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line of a trial.

    Raises:
        ArgumentError: another protocol than ``"json"``.
    """
    _only_json("encode", protocol)
    config = inp.config.to_json_dict()
    entity = [
        [name, kind, [-1, *value[1:]] if kind == "sp" else value]
        for name, kind, value in config["entity"]
    ]
    failed = result.error_no != 0
    costs = [_FAILED] if failed else list(result.costs)
    line = {
        "input": [str(inp.target), inp.task.name, inp.task.args, {}],
        "config": config | {"entity": entity},
        "result": [costs, int(result.error_no), result.all_cost, result.timestamp],
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": f"whet {whet.__version__}",
    }
    return json.dumps(line)


def decode(row: str, protocol: str = "json") -> Record | None:
    """The trial of a line; None where it is of another version.

    Where no template is registered under the task's name, ``inp.task`` has a name, arguments and a
    workload, and no space.

    Raises:
        ArgumentError: another protocol than ``"json"``.
        LogError: the line is no trial.
    """
    from whet.db.exchange.autotvm import is_record, recorded  # it loads the database

    _only_json("decode", protocol)
    request = f"decode({row[:60]!r})"
    try:
        data = json.loads(row)
        if not is_record(data):
            raise ValueError("it is no record of AutoTVM")
        if data.get("version") != AUTOTVM_LOG_VERSION:
            return None
        one = recorded(data, {})
        costs, error, spent, when = data["result"]
    except (ValueError, SpaceError) as error_:
        raise LogError(request, str(error_), "a line that encode() wrote, or TVM 0.11") from error_
    result = MeasureResult(tuple(costs), error, spent, when)
    task: Any = _RecordedTask(one.task, one.text)
    if one.task.space is not None:
        target = Target(one.task.target)
        task = Task(one.task.workload, target, get_template(one.task.workload.template))
    return MeasureInput(task.target, task, one.config), result


class _RecordedTask:
    """A task of which no template is registered here."""

    def __init__(self, task: RecordedTask, target: str) -> None:
        self.workload = task.workload
        self.target = target

    @property
    def name(self) -> str:
        return self.workload.template

    @property
    def args(self) -> tuple[Any, ...]:
        return self.workload.args


def load_from_file(filename: str | os.PathLike[str]) -> Iterator[Record]:
    """The trials of a file of lines; comments and lines of other versions are passed over.

    Raises:
        LogError: a line is no trial.
    """
    with open(filename, encoding="utf-8") as file:
        for row in file:
            if row.strip() and not row.startswith("#"):
                found = decode(row)
                if found is not None:
                    yield found


def pick_best(in_file: str | os.PathLike[str], out_file: str | os.PathLike[str]) -> None:
    """Write the fastest trial of each task of one file to another."""
    best: dict[str, Record] = {}
    for inp, result in load_from_file(in_file):
        key = measure_str_key(inp, include_config=False)
        if result.error_no == 0 and (key not in best or mean(result) < mean(best[key][1])):
            best[key] = inp, result
    with open(out_file, "w", encoding="utf-8") as file:
        file.writelines(encode(inp, result) + "\n" for inp, result in best.values())


def mean(result: MeasureResult) -> float:
    """Seconds per call as AutoTVM compares them; infinity for a failure."""
    return sum(result.costs) / len(result.costs) if result.error_no == 0 else float("inf")


def _only_json(name: str, protocol: str) -> None:
    if protocol != "json":
        raise ArgumentError(
            f"{name}(protocol={protocol!r})", "a record is data, and never a pickle", '"json"'
        )
