"""The lowering passes, one a file; :mod:`table` lists them in order."""

from whet.compiler.passes.authoring import Pass, Sequential, module_pass, prim_func_pass
from whet.compiler.passes.context import PassContext
from whet.compiler.passes.names import PassInfo
from whet.compiler.passes.options import OPTIONS
from whet.compiler.passes.pipeline import run_build_passes, run_passes
from whet.compiler.passes.table import BUILD_PASSES, PASSES, Step

__all__ = [
    "BUILD_PASSES",
    "OPTIONS",
    "PASSES",
    "Pass",
    "PassContext",
    "PassInfo",
    "Sequential",
    "Step",
    "module_pass",
    "prim_func_pass",
    "run_build_passes",
    "run_passes",
]
