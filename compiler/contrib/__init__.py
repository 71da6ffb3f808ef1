"""TVM's ``contrib``: folders for a test, the C compiler, PyTorch's tensors, matmul by a library."""

from typing import Any

from whet.compiler.contrib import cblas, cc, dlpack
from whet.compiler.contrib import folder as utils
from whet.compiler.errors import MissingName

__all__ = ["cblas", "cc", "dlpack", "utils"]

_PACKED = "te.extern with tir.call_packed calls any function given to whet.register_func"
NOT_HERE = {
    "clang": "register_func and tir.call_packed, or call_extern with a C function that is linked",
    "cublas": _PACKED,
    "cudnn": _PACKED,
    "graph_executor": "there is no Relay: whet.build makes a module of functions",
    "miopen": _PACKED,
    "mkl": f"whet.contrib.cblas.matmul, or {_PACKED}",
    "ndk": "export_library(path, cc='aarch64-linux-android33-clang')",
    "nnpack": _PACKED,
    "nvcc": "target kind 'cuda' makes CUDA C text: module.imported_modules[0].get_source()",
    "random": f"numpy fills arrays; in a kernel, {_PACKED}",
    "rocblas": _PACKED,
    "rpc": "whet.tune(task, workers='ray://host:port') measures on other machines",
    "sort": _PACKED,
    "tar": "module.export_library('name.tar')",
    "xcode": "there is no generator for Metal",
}
"""TVM's modules that are not here -> what to use instead."""


def __getattr__(name: str) -> Any:
    if name in NOT_HERE:
        raise MissingName(f"whet.contrib.{name}", "Whet has no such module", NOT_HERE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
