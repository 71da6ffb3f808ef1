"""The parts of the loop IR that TVM has in ``tvm.ir``."""

from typing import Any

from whet.compiler import instrument
from whet.compiler.absent import missing
from whet.compiler.tir.analysis import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from whet.compiler.tir.expr import PrimExpr, Range
from whet.compiler.tir.function import GlobalVar, IRModule
from whet.compiler.tir.op_name import OpName as Op
from whet.compiler.tir.ops.intrinsics import register_intrin_lowering, register_op_attr
from whet.tvm import transform

__all__ = [
    "GlobalVar",
    "IRModule",
    "Op",
    "PrimExpr",
    "Range",
    "assert_structural_equal",
    "instrument",
    "register_intrin_lowering",
    "register_op_attr",
    "structural_equal",
    "structural_hash",
    "transform",
]


def __getattr__(name: str) -> Any:
    """An error that says what to use instead of a name of TVM's."""
    raise missing(__name__, "ir", name)
