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

from whet.tvm.modules import install as _install

if TYPE_CHECKING:
    from whet import autotune, compiler, db, measure, search_spaces
    from whet.autotune import Task, TuneResult, TuneResults, apply_best, create_task, tune
    from whet.autotune.packaging import package
    from whet.compiler import arith, driver, instrument, runtime, target, te, tir, topi
    from whet.compiler.driver import lower
    from whet.compiler.emulator import Unwritten, run_kernel
    from whet.compiler.errors import (
        ArgumentError,
        ArtifactError,
        CodegenError,
        KernelError,
        LogError,
        LowerError,
        MeasureError,
        OutOfMemoryError,
        ScheduleError,
        SpaceError,
        TargetError,
        TVMError,
        WhetError,
    )
    from whet.compiler.graph.symbolic.sizes import dynamic
    from whet.compiler.runtime import Device
    from whet.compiler.runtime.arrays import nd
    from whet.compiler.runtime.arrays.device import (
        context,
        cpu,
        cuda,
        device,
        ext_dev,
        gpu,
        metal,
        opencl,
        rocm,
        vulkan,
    )
    from whet.compiler.runtime.call.packed import (
        convert,
        get_global_func,
        list_global_func_names,
        register_func,
        remove_global_func,
    )
    from whet.compiler.runtime.package.load import load
    from whet.compiler.target import Target
    from whet.compiler.tir import IRModule
    from whet.db import TuningLog
    from whet.front import build
    from whet.frontends.compile import compile, model_tasks
    from whet.frontends.onnx import from_onnx
    from whet.frontends.torch import from_torch
    from whet.measure import MeasureOptions
    from whet.search_spaces import (
        Config,
        ConfigSpace,
        get_config,
        list_templates,
        template,
    )
    from whet.search_spaces.values.instructions import tensor_intrin
    from whet.tvm import autotvm, contrib, error, ir, testing, transform

__version__ = "0.1.0"

_ERRORS = "whet.compiler.errors"
_HOMES = {
    "ArgumentError": _ERRORS,
    "ArtifactError": _ERRORS,
    "CodegenError": _ERRORS,
    "Config": "whet.search_spaces",
    "ConfigSpace": "whet.search_spaces",
    "Device": "whet.compiler.runtime",
    "IRModule": "whet.compiler.tir",
    "KernelError": _ERRORS,
    "LogError": _ERRORS,
    "LowerError": _ERRORS,
    "MeasureError": _ERRORS,
    "MeasureOptions": "whet.measure",
    "OutOfMemoryError": _ERRORS,
    "ScheduleError": _ERRORS,
    "SpaceError": _ERRORS,
    "TVMError": _ERRORS,
    "Target": "whet.compiler.target",
    "TargetError": _ERRORS,
    "Task": "whet.autotune",
    "TuneResult": "whet.autotune",
    "TuneResults": "whet.autotune",
    "TuningLog": "whet.db",
    "Unwritten": "whet.compiler.emulator",
    "WhetError": _ERRORS,
    "apply_best": "whet.autotune.apply",
    "build": "whet.front",
    "compile": "whet.frontends.compile",
    "context": "whet.compiler.runtime.arrays.device",
    "convert": "whet.compiler.runtime.call.packed",
    "cpu": "whet.compiler.runtime.arrays.device",
    "create_task": "whet.autotune",
    "cuda": "whet.compiler.runtime.arrays.device",
    "device": "whet.compiler.runtime.arrays.device",
    "dynamic": "whet.compiler.graph.symbolic.sizes",
    "ext_dev": "whet.compiler.runtime.arrays.device",
    "from_onnx": "whet.frontends.onnx",
    "from_torch": "whet.frontends.torch",
    "get_config": "whet.search_spaces",
    "get_global_func": "whet.compiler.runtime.call.packed",
    "gpu": "whet.compiler.runtime.arrays.device",
    "list_global_func_names": "whet.compiler.runtime.call.packed",
    "list_templates": "whet.search_spaces",
    "load": "whet.compiler.runtime.package.load",
    "lower": "whet.compiler.driver",
    "model_tasks": "whet.frontends.compile",
    "metal": "whet.compiler.runtime.arrays.device",
    "opencl": "whet.compiler.runtime.arrays.device",
    "package": "whet.autotune.packaging",
    "register_func": "whet.compiler.runtime.call.packed",
    "remove_global_func": "whet.compiler.runtime.call.packed",
    "rocm": "whet.compiler.runtime.arrays.device",
    "run_kernel": "whet.compiler.emulator",
    "template": "whet.search_spaces",
    "tensor_intrin": "whet.search_spaces.values.instructions",
    "tune": "whet.autotune",
    "vulkan": "whet.compiler.runtime.arrays.device",
}
"""Where each public name lives; type checkers read the same from the imports above."""

_MODULES = {
    "arith": "whet.compiler.arith",
    "autotune": "whet.autotune",
    "autotvm": "whet.tvm.autotvm",
    "compiler": "whet.compiler",
    "contrib": "whet.tvm.contrib",
    "db": "whet.db",
    "driver": "whet.compiler.driver",
    "error": "whet.tvm.error",
    "instrument": "whet.compiler.instrument",
    "ir": "whet.tvm.ir",
    "measure": "whet.measure",
    "nd": "whet.compiler.runtime.arrays.nd",
    "runtime": "whet.compiler.runtime",
    "search_spaces": "whet.search_spaces",
    "target": "whet.compiler.target",
    "te": "whet.compiler.te",
    "testing": "whet.tvm.testing",
    "tir": "whet.compiler.tir",
    "topi": "whet.compiler.topi",
    "transform": "whet.tvm.transform",
}
"""Public names that are modules."""

__all__ = [
    "ArgumentError",
    "ArtifactError",
    "CodegenError",
    "Config",
    "ConfigSpace",
    "Device",
    "IRModule",
    "KernelError",
    "LogError",
    "LowerError",
    "MeasureError",
    "MeasureOptions",
    "OutOfMemoryError",
    "ScheduleError",
    "SpaceError",
    "TVMError",
    "Target",
    "TargetError",
    "Task",
    "TuneResult",
    "TuneResults",
    "TuningLog",
    "Unwritten",
    "WhetError",
    "apply_best",
    "arith",
    "autotune",
    "autotvm",
    "build",
    "compile",
    "compiler",
    "context",
    "contrib",
    "convert",
    "cpu",
    "create_task",
    "cuda",
    "db",
    "device",
    "driver",
    "dynamic",
    "error",
    "ext_dev",
    "from_onnx",
    "from_torch",
    "get_config",
    "get_global_func",
    "gpu",
    "instrument",
    "ir",
    "list_global_func_names",
    "list_templates",
    "load",
    "lower",
    "measure",
    "metal",
    "model_tasks",
    "nd",
    "opencl",
    "package",
    "register_func",
    "remove_global_func",
    "rocm",
    "run_kernel",
    "runtime",
    "search_spaces",
    "target",
    "te",
    "template",
    "tensor_intrin",
    "testing",
    "tir",
    "topi",
    "transform",
    "tune",
    "vulkan",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        found: Any = import_module(_MODULES[name])
    elif name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    else:
        from whet.tvm.names import explained

        return explained(__name__, "", "whet", "module")(name)
    globals()[name] = found
    return found


_install(_MODULES)


# TVM's names of devices for which Whet makes no code: known, so that their use is explained.
_NO_TARGET = {"ext_dev", "metal", "opencl", "rocm", "vulkan"}


def __dir__() -> list[str]:
    shown = {name for name in globals() if name.startswith("__")}
    return sorted(shown | set(__all__) - _NO_TARGET)
