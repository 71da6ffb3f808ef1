"""AutoTVM's names for what Whet has by the same meaning; the others say what to call instead."""

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
from whet.tvm.autotvm import callback, dispatcher, measure, record, task, tuner
from whet.tvm.autotvm.batches import create_measure_batch
from whet.tvm.autotvm.dispatcher import ApplyConfig, ApplyHistoryBest, apply_history_best
from whet.tvm.autotvm.measure import LocalBuilder, LocalRunner
from whet.tvm.autotvm.options import measure_option
from whet.tvm.autotvm.values import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from whet.tvm.names import explained

__all__ = [
    "AnnotateEntity",
    "ApplyConfig",
    "ApplyHistoryBest",
    "BuildResult",
    "ConfigEntity",
    "ConfigSpace",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "apply_history_best",
    "callback",
    "create_measure_batch",
    "dispatcher",
    "get_config",
    "measure",
    "measure_option",
    "record",
    "task",
    "template",
    "tuner",
]


__getattr__ = explained(__name__, "autotvm", "autotvm", "name")
