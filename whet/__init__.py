"""Whet: an autotuning-first optimisation framework for tensor kernels.

Write what to compute with :mod:`whet.te`, say which programs are worth trying in a
:func:`template`, let :func:`tune` find the fastest, and :func:`build` it from the log ever after.

Importing this package loads none of the heavy libraries: each has one home, which loads it when it
is first needed.
"""

from whet import autotune
from whet.autotune import Task, TuneResult, create_task, tune
from whet.compiler import passes as transform
from whet.compiler import runtime, target, te, tir, topi
from whet.compiler.driver import lower
from whet.compiler.errors import (
    ArgumentError,
    ArtifactError,
    CodegenError,
    LogError,
    LowerError,
    MeasureError,
    ScheduleError,
    SpaceError,
    TargetError,
    TVMError,
    WhetError,
)
from whet.compiler.runtime import nd
from whet.compiler.runtime.device import cpu, device
from whet.compiler.target import Target
from whet.db import TuningLog, apply_best
from whet.front import build
from whet.measure import MeasureOptions
from whet.search_spaces import Config, ConfigSpace, get_config, list_templates, template

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CodegenError",
    "Config",
    "ConfigSpace",
    "LogError",
    "LowerError",
    "MeasureError",
    "MeasureOptions",
    "ScheduleError",
    "SpaceError",
    "TVMError",
    "Target",
    "TargetError",
    "Task",
    "TuneResult",
    "TuningLog",
    "WhetError",
    "apply_best",
    "autotune",
    "build",
    "cpu",
    "create_task",
    "device",
    "get_config",
    "list_templates",
    "lower",
    "nd",
    "runtime",
    "target",
    "te",
    "template",
    "tir",
    "topi",
    "transform",
    "tune",
]
