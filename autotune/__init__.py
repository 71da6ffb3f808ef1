"""The search: tasks, the loop that proposes and learns, its samplers, and building from a log.

Importing this room loads neither Optuna nor XGBoost; the first search does.
"""

from whet.autotune.apply import apply_best
from whet.autotune.deploy import best_from_log, build_from_log, kernel_name
from whet.autotune.results.result import TuneResult, TuneResults
from whet.autotune.results.trial import Trial
from whet.autotune.samplers import SAMPLERS, make_sampler
from whet.autotune.tasks.task import Task, create_task
from whet.autotune.tune import tune

__all__ = [
    "SAMPLERS",
    "Task",
    "Trial",
    "TuneResult",
    "TuneResults",
    "apply_best",
    "best_from_log",
    "build_from_log",
    "create_task",
    "kernel_name",
    "make_sampler",
    "tune",
]
