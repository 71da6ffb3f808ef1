"""The loop IR: expressions, statements, buffers, functions, the printer and the rewriter."""

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
    Call,
    Cast,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
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
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.ops import (
    abs,
    all_of,
    any_of,
    cast,
    ceil,
    const,
    erf,
    exp,
    floor,
    floordiv,
    floormod,
    if_then_else,
    log,
    max_value,
    min_value,
    power,
    round,
    rsqrt,
    sigmoid,
    sqrt,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)
from whet.compiler.tir.rewrite import Rewriter, post_order_visit, substitute, variables
from whet.compiler.tir.stmt import (
    Allocate,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    SeqStmt,
    Stmt,
)

all = all_of
any = any_of

__all__ = [name for name in dir() if not name.startswith("_")]
