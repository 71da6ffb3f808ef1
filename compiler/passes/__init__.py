"""The lowering passes, one a file; :mod:`pipeline` lists them in order."""

from whet.compiler.passes.authoring import (
    Pass,
    Sequential,
    lowering_pass,
    module_pass,
    prim_func_pass,
)
from whet.compiler.passes.build_passes import BUILD_PASSES, run_build_passes
from whet.compiler.passes.context import PassContext
from whet.compiler.passes.names import PassInfo
from whet.compiler.passes.options import OPTIONS
from whet.compiler.passes.pipeline import (
    PASSES,
    Step,
    run_passes,
)

__all__ = [
    "BUILD_PASSES",
    "OPTIONS",
    "PASSES",
    "Pass",
    "PassContext",
    "PassInfo",
    "Sequential",
    "Step",
    "lowering_pass",
    "module_pass",
    "prim_func_pass",
    "run_build_passes",
    "run_passes",
]
