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
from whet.tvm.autotvm import callback, task, tuner
from whet.tvm.autotvm.options import LocalBuilder, LocalRunner, measure_option
from whet.tvm.names import explained

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


__getattr__ = explained(__name__, "autotvm", "autotvm", "name")
