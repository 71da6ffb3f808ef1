"""The tensor-expression language and its schedules, with TVM's names and meaning."""

from whet.compiler.te.build import (
    compute,
    max,
    min,
    placeholder,
    reduce_axis,
    size_var,
    sum,
    var,
)
from whet.compiler.te.flop import count_flop
from whet.compiler.te.graph_text import graph_text
from whet.compiler.te.schedule import Schedule, create_schedule
from whet.compiler.te.stage import Stage
from whet.compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice
from whet.compiler.te.trace import Trace
from whet.compiler.tir.ops import (
    abs,
    acos,
    all_of,
    any_of,
    asin,
    atan,
    cast,
    ceil,
    ceildiv,
    const,
    cos,
    cosh,
    erf,
    exp,
    floor,
    floordiv,
    floormod,
    fmod,
    if_then_else,
    indexdiv,
    indexmod,
    isnan,
    log,
    log2,
    log10,
    max_value,
    min_value,
    nearbyint,
    power,
    round,
    rsqrt,
    select,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)

all = all_of
any = any_of

__all__ = [name for name in dir() if not name.startswith("_")]
