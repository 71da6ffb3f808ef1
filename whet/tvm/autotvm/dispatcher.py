"""``autotvm.apply_history_best``: the best records of AutoTVM's lines, or of a log, in force."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

from whet.autotune import apply_best
from whet.compiler.errors import ArgumentError, SpaceError
from whet.compiler.target import Target
from whet.db.apply import UntunedWarning
from whet.search_spaces import Config, Workload, get_template, using_config
from whet.search_spaces.template.config_scope import put_in_force, take_out_of_force
from whet.tvm.autotvm.callback import is_database
from whet.tvm.autotvm.record import load_from_file, mean
from whet.tvm.autotvm.values import MeasureInput, MeasureResult

ApplyConfig = using_config
"""``with ApplyConfig(config):`` templates called inside run under one config."""


class DispatchContext:
    """What chooses the configs of templates that are called in a ``with`` block."""

    def query(self, target: Any, workload: Workload) -> Config | None:
        """The config for a workload; None: the context around is asked.

        Args:
            target: a target; None: any.
            workload: a template's name and arguments.
        """
        raise NotImplementedError

    def _resolve(self, workload: Workload) -> Config | None:
        return self.query(Target.current(allow_none=True), workload)

    def __enter__(self) -> DispatchContext:
        put_in_force(self._resolve)
        return self

    def __exit__(self, *exception: object) -> None:
        take_out_of_force(self._resolve)


class ApplyHistoryBest(DispatchContext):
    """The fastest records of some lines, for all targets of their kind and on any machine.

    Args:
        records: see :meth:`load`; None: none yet.
    """

    def __init__(self, records: Any = None) -> None:
        self._best: dict[str, list[tuple[str, Workload, Config, float]]] = {}
        self._said: set[str] = set()
        if records is not None:
            self.load(records)

    def load(self, records: Any) -> None:
        """Add records.

        Args:
            records: a file of AutoTVM's lines, several of them, or ``(MeasureInput,
                MeasureResult)`` pairs.

        Raises:
            ArgumentError: something else.
            LogError: a line is no trial.
        """
        if isinstance(records, str | os.PathLike):
            records = load_from_file(records)
        if not isinstance(records, Iterable):
            raise ArgumentError(f"load({records!r})", "a file, files or records are needed")
        for one in records:
            if isinstance(one, str | os.PathLike):
                self.load(one)
                continue
            inp, result = MeasureInput(*one[0]), MeasureResult(*one[1])
            if result.error_no == 0:
                self._add(inp.target, inp.task.workload, inp.config, mean(result))

    def update(self, target: Any, workload: Workload, cfg: Config) -> None:
        """Take ``cfg`` for a workload, whatever the records say."""
        self._add(target, workload, cfg, 0.0)

    def _add(self, target: Any, workload: Workload, config: Config, cost: float) -> None:
        known = self._best.setdefault(workload.template, [])
        known.append((_kind(target), workload, config, cost))
        known.sort(key=lambda one: one[3])

    def query(self, target: Any, workload: Workload) -> Config | None:
        kind = None if target is None else _kind(target)
        known = self._best.get(workload.template, [])
        if not known:
            self._warn(workload, "no record has it")
            return None
        template, why = get_template(workload.template), "no record has it for this target"
        space = template.space(workload)
        for their_kind, theirs, config, _ in known:
            try:
                if kind in (None, their_kind) and template.workload(*theirs.args) == workload:
                    data = config.to_json_dict()["entity"]
                    from whet.db.exchange.autotvm import fitted  # it loads the database

                    return fitted(space, [[n, k, v] for n, k, v in data])
            except SpaceError as error:
                why = f"the template's knobs are others ({str(error).strip(': ')})"
        self._warn(workload, why)
        return None

    def _warn(self, workload: Workload, why: str) -> None:
        if workload.key not in self._said:
            self._said.add(workload.key)
            said = f"{workload} runs with the default config: {why}"
            warnings.warn(said, UntunedWarning, stacklevel=4)


def apply_history_best(records: Any) -> Any:
    """A context in which templates take the best configs of records.

    Args:
        records: a log of :func:`whet.tune`, as :func:`whet.apply_best` takes it; a file of
            AutoTVM's lines, several of them, or ``(MeasureInput, MeasureResult)`` pairs.

    Raises:
        ArgumentError, LogError: it is none of these.
    """
    if isinstance(records, str | os.PathLike) and is_database(os.fspath(records)):
        return apply_best(os.fspath(records))
    return ApplyHistoryBest(records)


def _kind(target: Any) -> str:
    if isinstance(target, Target):
        return str(target.kind.name)
    return str(target).split()[0] if str(target).split() else ""
