"""The parts of the loop IR that TVM has in ``tvm.ir``."""

from typing import Any

from whet.compiler import instrument, transform
from whet.compiler.tir.absent import missing
from whet.compiler.tir.analysis import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from whet.compiler.tir.expr import PrimExpr, Range
from whet.compiler.tir.function import GlobalVar, IRModule
from whet.compiler.tir.ops.intrinsics import register_intrin_lowering, register_op_attr
from whet.compiler.tir.ops.op_name import OpName as Op

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

#: names of TVM's that are not here, and what to use instead
NOT_HERE = {
    "save_json": "loop IR is not stored; a schedule is stored as its trace (schedule.trace), a "
    "compiled module with export_library",
    "load_json": "loop IR is not stored; a schedule is replayed from its trace, a compiled module "
    "read with runtime.load_module",
    "Array": "lists and tuples of Python take its place",
    "Map": "dictionaries of Python take its place",
    "PointerType": 'an address is a variable: tir.Var(name, "handle"); a buffer knows its dtype',
    "PrimType": 'a type is its name, e.g. "float32"',
    "TupleType": "functions return nothing",
    "FuncType": "functions have parameters, and no type besides",
    "Node": "nodes are instances of tir.PrimExpr and tir.Stmt",
    "make_node": "nodes are made by their classes in tir",
    "Span": "nodes know no place in a source text",
    "SourceName": "nodes know no place in a source text",
    "TVMError": "it is whet.TVMError",
    "BaseFunc": "functions are tir.PrimFunc",
    "RelayExpr": "there is no Relay",
    "register_op": "an intrinsic needs no registration: tir.call_intrin names it",
}


def __getattr__(name: str) -> Any:
    """An error that says what to use instead of a name of TVM's."""
    raise missing(__name__, "ir", name, NOT_HERE)
