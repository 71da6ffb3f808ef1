"""The parts of the loop IR that TVM has in ``tvm.ir``."""

from whet.compiler import instrument, transform
from whet.compiler.tir.expr import PrimExpr, Range
from whet.compiler.tir.function import GlobalVar, IRModule

__all__ = ["GlobalVar", "IRModule", "PrimExpr", "Range", "instrument", "transform"]
