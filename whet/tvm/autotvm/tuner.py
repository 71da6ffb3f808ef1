"""``autotvm.tuner``: AutoTVM's tuners as thin fronts of :func:`whet.tune`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.autotune import tune
from whet.autotune.results.result import TuneResult
from whet.autotune.tasks.task import Task
from whet.compiler.errors import ArgumentError, MissingName
from whet.tvm.absent import ABSENT
from whet.tvm.autotvm.callback import LogToFile, ProgressBar
from whet.tvm.autotvm.options import MeasureOption

__all__ = ["GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner"]


class Tuner:
    """A search of one task; the subclasses say which sampler proposes.

    Args:
        task: what to tune.
        seed: any integer from 0 on; AutoTVM has none. The same seed and costs give the same trials.

    Attributes:
        result: what the last :meth:`tune` returned; None before.
    """

    sampler = "random"

    def __init__(self, task: Task, *, seed: int = 0) -> None:
        self.task = task
        self.seed = seed
        self.result: TuneResult | None = None

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if (way_out := ABSENT["autotvm.tuner"].get(name)) is not None:
            raise MissingName(f"{kind}.{name}", "Whet has no such method", way_out)
        raise AttributeError(f"{kind!r} object has no attribute {name!r}")

    def tune(
        self,
        n_trial: int,
        measure_option: MeasureOption | None = None,
        early_stopping: int | None = None,
        callbacks: Sequence[Any] = (),
        si_prefix: str = "G",
    ) -> TuneResult:
        """Search for the fastest config; every trial goes to a log.

        Args:
            n_trial: trials that the log shall hold in the end.
            measure_option: from ``autotvm.measure_option``; None: its defaults.
            early_stopping: trials without improvement that end the search; None: never.
            callbacks: ``autotvm.callback.log_to_file(...)`` (without it, the log is ``whet.db``)
                and ``progress_bar(...)``.
            si_prefix: ``"G"``; speeds are shown in GFLOP/s.

        Raises:
            ArgumentError: a callback of another kind, or as :func:`whet.tune`, whose other errors
                are raised, too.
        """
        request = f"{type(self).__name__}.tune"
        if si_prefix != "G":
            raise ArgumentError(request, f"si_prefix={si_prefix!r}", "speeds are shown in GFLOP/s")
        logs = [c.file_out for c in callbacks if isinstance(c, LogToFile)]
        unknown = [c for c in callbacks if not isinstance(c, LogToFile | ProgressBar)]
        if unknown or len(logs) > 1:
            raise ArgumentError(
                request,
                f"callbacks={list(callbacks)!r}: "
                + ("only one log is written" if not unknown else f"{unknown[0]!r} is not one of"),
                "callbacks: autotvm.callback.log_to_file, autotvm.callback.progress_bar; "
                "each trial is in the log: whet.TuningLog(...).trials()",
            )
        how = measure_option or MeasureOption()
        self.result = tune(
            self.task,
            trials=n_trial,
            log=logs[0] if logs else "whet.db",
            sampler=self.sampler,
            workers=how.workers,
            seed=self.seed,
            progress=any(isinstance(c, ProgressBar) for c in callbacks),
            options=how.options,
            device=how.runner.device,
            early_stop=False if early_stopping is None else early_stopping,
        )
        return self.result


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
