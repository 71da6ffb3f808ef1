"""The loop IR: expressions, statements, buffers, functions, the printer and the rewriter."""

from importlib import import_module
from typing import Any

from whet.compiler.absent import missing
from whet.compiler.homes import imported
from whet.compiler.tir.buffer import Buffer, decl_buffer
from whet.compiler.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    BufferView,
    Call,
    Cast,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from whet.compiler.tir.function import (
    GlobalVar,
    IRModule,
    PrimFunc,
)
from whet.compiler.tir.layouts.data_layout import BijectiveLayout, Layout, bijective_layout, layout
from whet.compiler.tir.layouts.index_map import IndexMap
from whet.compiler.tir.ops import mathematics, ops, reducers
from whet.compiler.tir.ops.bits import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    infinity,
    likely,
    reinterpret,
    shift_left,
    shift_right,
)
from whet.compiler.tir.ops.calls import (
    call_extern,
    call_intrin,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_pure_extern,
)
from whet.compiler.tir.ops.intrinsics import CallEffectKind
from whet.compiler.tir.ops.mathematics import *  # noqa: F403
from whet.compiler.tir.ops.ops import *  # noqa: F403
from whet.compiler.tir.ops.ops import divide
from whet.compiler.tir.ops.reducers import *  # noqa: F403
from whet.compiler.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    SeqStmt,
    Stmt,
    While,
    stmt_list,
    stmt_seq,
)
from whet.compiler.tir.visit.buffers import replace_buffers
from whet.compiler.tir.visit.renew import renewed
from whet.compiler.tir.visit.rewrite import Rewriter, variables
from whet.compiler.tir.visit.stmt_functor import post_order_visit, substitute

# These modules register operators, rules of dtypes, texts and specialisation with the nodes.
for _module in ("ops.infer_dtype", "ops.operators", "printer", "visit.specialize"):
    import_module(f"{__name__}.{_module}")

all = ops.all_of
any = ops.any_of
pow = mathematics.power

__all__ = [
    *mathematics.__all__,
    *ops.__all__,
    *reducers.__all__,
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "Allocate",
    "BijectiveLayout",
    "Layout",
    "bijective_layout",
    "layout",
    "AllocateConst",
    "And",
    "AssertStmt",
    "AttrStmt",
    "Block",
    "BlockRealize",
    "Broadcast",
    "Buffer",
    "BufferLoad",
    "BufferRegion",
    "BufferStore",
    "BufferView",
    "Call",
    "CallEffectKind",
    "Cast",
    "CommReducer",
    "DeclBuffer",
    "Div",
    "Evaluate",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "For",
    "ForKind",
    "GlobalVar",
    "IRModule",
    "IndexMap",
    "IfThenElse",
    "IntImm",
    "IterVar",
    "Let",
    "LetStmt",
    "MatchBufferRegion",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PrimExpr",
    "PrimFunc",
    "ProducerLoad",
    "Ramp",
    "Range",
    "Reduce",
    "Rewriter",
    "Select",
    "SeqStmt",
    "Shuffle",
    "SizeVar",
    "Stmt",
    "StringImm",
    "Sub",
    "Var",
    "While",
    "all",
    "any",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call_extern",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_intrin",
    "call_packed",
    "call_pure_extern",
    "decl_buffer",
    "divide",
    "infinity",
    "likely",
    "post_order_visit",
    "pow",
    "reinterpret",
    "renewed",
    "replace_buffers",
    "shift_left",
    "shift_right",
    "stmt_list",
    "stmt_seq",
    "substitute",
    "variables",
]


_LATER = ("analysis", "ir_builder", "stmt_functor", "transform")
_HOMES = {
    "Schedule": "whet.compiler.te.blocks.schedule:Schedule",
    "ScheduleError": "whet.compiler.errors:ScheduleError",
}
"""Names that a room above defines, loaded when they are first used."""


def __getattr__(name: str) -> Any:
    """The modules beside the nodes, loaded when they are first asked for by these names."""
    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    if name in _HOMES:
        found = globals()[name] = imported(_HOMES[name])
        return found
    raise missing(__name__, "tir", name)
