"""``autotvm.tuner``: AutoTVM's tuners as thin fronts of :func:`whet.tune`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from whet.autotune import tune
from whet.autotune.results.result import TuneResult
from whet.autotune.tasks.task import Task
from whet.compiler.errors import ArgumentError, MissingName
from whet.search_spaces import Config
from whet.tvm.absent import ABSENT
from whet.tvm.autotvm.ask import Asked
from whet.tvm.autotvm.batches import tune_by_batches
from whet.tvm.autotvm.callback import LogToFile, ProgressBar
from whet.tvm.autotvm.options import MeasureOption
from whet.tvm.autotvm.record import Record, encode
from whet.tvm.autotvm.values import MeasureInput, MeasureResult, theirs

__all__ = ["GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner"]


class Tuner:
    """A search of one task; the subclasses say which sampler proposes.

    A subclass of your own may write :meth:`next_batch`, :meth:`update` and :meth:`has_next`; then
    :meth:`tune` asks it for what to measure.

    Args:
        task: what to tune.
        seed: any integer from 0 on; AutoTVM has none. The same seed and costs give the same trials.

    Attributes:
        result: what the last :meth:`tune` returned; None before.
        best_config, best_flops, best_measure_pair: of a subclass's search: the fastest so far.
    """

    sampler = "random"

    def __init__(self, task: Task, *, seed: int = 0) -> None:
        self.task = task
        self.seed = seed
        self.result: TuneResult | None = None
        self.reset()

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if (way_out := ABSENT["autotvm.tuner"].get(name)) is not None:
            raise MissingName(f"{kind}.{name}", "Whet has no such method", way_out)
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    def reset(self) -> None:
        """Forget what was proposed, told and loaded."""
        self.best_config: Config | None = None
        self.best_flops = 0.0
        self.best_measure_pair: Record | None = None
        self._asked = Asked(self.task, self.sampler, self.seed)
        self._past: list[Record] = []

    def has_next(self) -> bool:
        """Whether a config is left that was not proposed."""
        return self._asked.has_next()

    def next_batch(self, batch_size: int) -> list[Config]:
        """The next configs to measure, none twice; fewer where the space ends.

        Args:
            batch_size: how many.
        """
        return self._asked.next_batch(batch_size)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Tell the sampler how candidates ended, whoever proposed them."""
        self._asked.update(inputs, results)

    def load_history(self, data_set: Iterable[Record], min_seed_records: int = 500) -> None:
        """Tell the sampler of earlier trials; those of this task are not measured again.

        Args:
            data_set: ``(MeasureInput, MeasureResult)`` pairs.
            min_seed_records: AutoTVM's; taken and not used.
        """
        del min_seed_records
        mine = [(MeasureInput(*i), MeasureResult(*r)) for i, r in data_set]
        mine = [one for one in mine if one[0].task.workload == self.task.workload]
        self._past += mine
        self._asked.update([i for i, _ in mine], [r for _, r in mine])

    def tune(
        self,
        n_trial: int,
        measure_option: MeasureOption | None = None,
        early_stopping: int | None = None,
        callbacks: Sequence[Any] = (),
        si_prefix: str = "G",
    ) -> TuneResult | None:
        """Search for the fastest config; every trial goes to a log.

        Args:
            n_trial: trials that the log shall hold in the end; where no log is a database, those
                of this call.
            measure_option: from ``autotvm.measure_option``; None: its defaults.
            early_stopping: trials without improvement that end the search; None: never.
            callbacks: ``autotvm.callback.log_to_file(...)`` (without it, the log is ``whet.db``),
                ``progress_bar(...)``, and functions of ``(tuner, inputs, results)``.
            si_prefix: ``"G"``; speeds are shown in GFLOP/s.

        Returns:
            the result; None where a subclass proposes: its ``best_config`` has it.

        Raises:
            ArgumentError: a callback that cannot be called, or as :func:`whet.tune`, whose other
                errors are raised, too.
        """
        logs = self._logs(callbacks, si_prefix)
        how = measure_option or MeasureOption()
        if type(self).next_batch is not Tuner.next_batch:
            tune_by_batches(self, n_trial, how, early_stopping, callbacks)
            return None
        with tempfile.TemporaryDirectory(prefix="whet-autotvm-") as folder:
            lines = any(isinstance(c, LogToFile) and not c.is_database for c in callbacks)
            log = "whet.db" if not lines else str(Path(folder) / "whet.db")
            log = logs[0] if logs else log
            known = self._remember(log, how, Path(folder)) if self._past else 0
            self.result = tune(
                self.task,
                trials=n_trial + known,
                log=log,
                sampler=self.sampler,
                workers=how.workers(self.task),
                seed=self.seed,
                progress=any(isinstance(c, ProgressBar) for c in callbacks),
                options=how.options,
                device=how.runner.device,
                early_stop=False if early_stopping is None else early_stopping,
                **self._telling(callbacks),
            )
        return self.result

    def _logs(self, callbacks: Sequence[Any], si_prefix: str) -> list[str]:
        """The log among the callbacks, which are checked."""
        request = f"{type(self).__name__}.tune"
        if si_prefix != "G":
            raise ArgumentError(request, f"si_prefix={si_prefix!r}", "speeds are shown in GFLOP/s")
        logs = [c.file_out for c in callbacks if isinstance(c, LogToFile) and c.is_database]
        unknown = [c for c in callbacks if not callable(c)]
        if unknown or len(logs) > 1:
            raise ArgumentError(
                request,
                f"callbacks={list(callbacks)!r}: "
                + ("only one log is written" if not unknown else f"{unknown[0]!r} is not one of"),
                "callbacks: autotvm.callback.log_to_file, autotvm.callback.progress_bar, functions "
                "of (tuner, inputs, results)",
            )
        return logs

    def _telling(self, callbacks: Sequence[Any]) -> dict[str, Any]:
        """``callbacks=`` of :func:`whet.tune` where there are functions to call."""
        functions = [
            c
            for c in callbacks
            if not isinstance(c, ProgressBar) and not (isinstance(c, LogToFile) and c.is_database)
        ]

        def tell(task: Task, trial: Any) -> None:
            inputs = [MeasureInput(task.target, task, trial.config)]
            for function in functions:
                function(self, inputs, [theirs(trial.result)])

        return {"callbacks": [tell]} if functions else {}

    def _remember(self, log: str, how: MeasureOption, folder: Path) -> int:
        """Write the loaded history to the log; how many trials are new in it."""
        from whet.db import TuningLog
        from whet.db.exchange import import_log

        lines = folder / "history.log"
        lines.write_text("".join(encode(*one) + "\n" for one in self._past))
        device = how.runner.device or ("cuda" if self.task.target.kind.name == "cuda" else "cpu")
        with TuningLog(log) as opened:
            return import_log(opened, lines, device=device).applied


class GridSearchTuner(Tuner):
    """Every valid config in the order of the indices: sampler ``"grid"``."""

    sampler = "grid"


class RandomTuner(Tuner):
    """Every valid config equally likely, none twice: sampler ``"random"``."""

    sampler = "random"


class GATuner(Tuner):
    """A genetic search: sampler ``"genetic"``.

    Args:
        task: what to tune.
        pop_size, elite_num, mutation_prob: AutoTVM's; taken and not used, as the sampler has no
            generations.
        seed: as for :class:`Tuner`.
    """

    sampler = "genetic"

    def __init__(
        self,
        task: Task,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        *,
        seed: int = 0,
    ) -> None:
        del pop_size, elite_num, mutation_prob
        super().__init__(task, seed=seed)


class XGBTuner(Tuner):
    """A search by a cost model of boosted trees: sampler ``"xgb"``.

    It starts from what the log knows of other shapes, AutoTVM's ``load_history``.

    Args:
        task: what to tune.
        plan_size: AutoTVM's, as are the others; taken and not used: the sampler has one model, of
            the loop nest and the knobs, and plans its batches itself.
        feature_type, loss_type, num_threads, optimizer: the same.
        diversity_filter_ratio, log_interval: the same.
        seed: as for :class:`Tuner`.

    Raises:
        ArgumentError: an unknown ``feature_type`` or ``loss_type``.
    """

    sampler = "xgb"

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
        *,
        seed: int = 0,
    ) -> None:
        del plan_size, num_threads, optimizer, diversity_filter_ratio, log_interval
        for name, word, words in (
            ("feature_type", feature_type, ("itervar", "knob", "curve")),
            ("loss_type", loss_type, ("reg", "rank", "rank-binary")),
        ):
            if word not in words:
                legal = f"{name}: {', '.join(words)}"
                raise ArgumentError(f"XGBTuner({name}={word!r})", "there is no such one", legal)
        super().__init__(task, seed=seed)
