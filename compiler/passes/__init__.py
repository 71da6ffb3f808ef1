"""The lowering passes, one a file; :mod:`pipeline` lists them in order."""

from whet.compiler.passes.context import KEYS, PassContext
from whet.compiler.passes.pipeline import PASSES, Pass, run_passes

__all__ = ["KEYS", "PASSES", "Pass", "PassContext", "run_passes"]
