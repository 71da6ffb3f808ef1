"""The search: tasks, the loop that proposes and learns, its samplers, and building from a log.

Importing this room loads no part of it: making a task and applying a log need no search. Optuna and
XGBoost are loaded by the first search.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet.autotune.apply import apply_best
    from whet.autotune.deploy import best_from_log, build_from_log, kernel_name
    from whet.autotune.results.result import TuneResult, TuneResults
    from whet.autotune.results.trial import Trial
    from whet.autotune.samplers import SAMPLERS, make_sampler
    from whet.autotune.tasks.task import Task, create_task
    from whet.autotune.tune import tune

_HOMES = {
    "SAMPLERS": "samplers",
    "Task": "tasks.task",
    "Trial": "results.trial",
    "TuneResult": "results.result",
    "TuneResults": "results.result",
    "apply_best": "apply",
    "best_from_log": "deploy",
    "build_from_log": "deploy",
    "create_task": "tasks.task",
    "kernel_name": "deploy",
    "make_sampler": "samplers",
    "tune": "tune",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found  # also where the module has the function's name
    return found


class _Room(ModuleType):
    """Here ``tune`` is the function, also once somebody has imported the module of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "tune" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
