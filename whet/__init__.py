"""Whet: an autotuning-first optimisation framework for tensor kernels.

Write what to compute with :mod:`whet.te`, say which programs are worth trying in a
:func:`template`, let :func:`tune` find the fastest, and :func:`build` it from the log ever after.

Importing this package loads no room of it: each name is fetched from its home when it is first
used, and each heavy library is loaded by its one home when it is first needed.

    >>> import numpy, whet
    >>> task = whet.create_task("matmul", args=(5, 6, 7), target="llvm")
    >>> task.flop
    420
    >>> f = whet.build(task)  # with log="whet.db": the best config that whet.tune found
    >>> a, b, c = (numpy.ones(shape, "float32") for shape in ((5, 6), (6, 7), (5, 7)))
    >>> f(a, b, c)
    >>> float(c.min()), float(c.max())
    (6.0, 6.0)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whet import autotune, compiler, db, measure, search_spaces
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

_ERRORS = "whet.compiler.errors"
_HOMES = {
    "ArgumentError": _ERRORS,
    "ArtifactError": _ERRORS,
    "CodegenError": _ERRORS,
    "Config": "whet.search_spaces",
    "ConfigSpace": "whet.search_spaces",
    "LogError": _ERRORS,
    "LowerError": _ERRORS,
    "MeasureError": _ERRORS,
    "MeasureOptions": "whet.measure",
    "ScheduleError": _ERRORS,
    "SpaceError": _ERRORS,
    "TVMError": _ERRORS,
    "Target": "whet.compiler.target",
    "TargetError": _ERRORS,
    "Task": "whet.autotune",
    "TuneResult": "whet.autotune",
    "TuningLog": "whet.db",
    "WhetError": _ERRORS,
    "apply_best": "whet.db",
    "build": "whet.front",
    "cpu": "whet.compiler.runtime.device",
    "create_task": "whet.autotune",
    "device": "whet.compiler.runtime.device",
    "get_config": "whet.search_spaces",
    "list_templates": "whet.search_spaces",
    "lower": "whet.compiler.driver",
    "template": "whet.search_spaces",
    "tune": "whet.autotune",
}
"""Where each public name lives; type checkers read the same from the imports above."""

_MODULES = {
    "autotune": "whet.autotune",
    "compiler": "whet.compiler",
    "db": "whet.db",
    "measure": "whet.measure",
    "nd": "whet.compiler.runtime.nd",
    "runtime": "whet.compiler.runtime",
    "search_spaces": "whet.search_spaces",
    "target": "whet.compiler.target",
    "te": "whet.compiler.te",
    "tir": "whet.compiler.tir",
    "topi": "whet.compiler.topi",
    "transform": "whet.compiler.passes",
}
"""Public names that are modules."""

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
    "compiler",
    "cpu",
    "create_task",
    "db",
    "device",
    "get_config",
    "list_templates",
    "lower",
    "measure",
    "nd",
    "runtime",
    "search_spaces",
    "target",
    "te",
    "template",
    "tir",
    "topi",
    "transform",
    "tune",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        found: Any = import_module(_MODULES[name])
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
