"""AutoTVM's names for what Whet has by the same meaning; the others say what to call instead."""

from typing import Any

from whet.autotune.autotvm import callback, task, tuner
from whet.autotune.autotvm.measure import LocalBuilder, LocalRunner, measure_option
from whet.compiler.errors import MissingName
from whet.search_spaces import (
    AnnotateEntity,
    ConfigSpace,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
    get_config,
    template,
)
from whet.search_spaces import Config as ConfigEntity

__all__ = [
    "AnnotateEntity",
    "ConfigEntity",
    "ConfigSpace",
    "LocalBuilder",
    "LocalRunner",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "callback",
    "get_config",
    "measure_option",
    "task",
    "template",
    "tuner",
]

_TUNE = "whet.tune(task, trials=1000, log='whet.db')"
_OPTIONS = f"{_TUNE[:-1]}, options=whet.MeasureOptions(...)): it builds and runs in processes"
_LOG = "the log is a database: whet.TuningLog('whet.db'), `whet best` on the command line"
_BEST = "with whet.apply_best('whet.db'), whet.Target('llvm'): ..., or whet.build(task, log=...)"
NOT_HERE = {
    "ApplyHistoryBest": _BEST,
    "DispatchContext": _BEST,
    "FallbackConfigEntity": "cfg.is_fallback, cfg.fallback_split(...) inside a template",
    "FallbackContext": "without a record a template gets its default config: cfg.is_fallback",
    "GridSearchTuner": "autotvm.tuner.GridSearchTuner",
    "GATuner": "autotvm.tuner.GATuner",
    "MeasureErrorNo": "a trial's status is a word: 'ok', 'timeout', ...; its error is kept whole",
    "MeasureInput": _OPTIONS,
    "MeasureResult": _OPTIONS,
    "RPCRunner": f"{_TUNE[:-1]}, workers='ray://host:port')",
    "RandomTuner": "autotvm.tuner.RandomTuner",
    "XGBTuner": "autotvm.tuner.XGBTuner",
    "apply_history_best": _BEST,
    "create_measure_batch": _OPTIONS,
    "feature": "task.config_space.features(configs) is what the cost model sees",
    "graph_tuner": "there is no Relay",
    "measure": _OPTIONS,
    "record": _LOG,
    "register_topi_compute": "@whet.template('name') above a function of the whole schedule",
    "register_topi_schedule": "@whet.template('name') above a function of the whole schedule",
    "tophub": "there is no public log; " + _BEST,
}
"""TVM's names that are not here -> what to use instead."""


def __getattr__(name: str) -> Any:
    if name in NOT_HERE:
        raise MissingName(f"autotvm.{name}", "Whet has no such name", NOT_HERE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
