"""The tensor-expression language and its schedules, with TVM's names and meaning."""

from typing import TYPE_CHECKING

from whet.compiler.absent import missing
from whet.compiler.homes import imported
from whet.compiler.te.flop import count_flop
from whet.compiler.te.lang import tag, tensor  # noqa: F401  (modules of TVM: te.tensor.Tensor)
from whet.compiler.te.lang.axes import reduce_axis, size_var, thread_axis, var
from whet.compiler.te.lang.compute import compute, placeholder
from whet.compiler.te.lang.extern import extern, extern_primfunc
from whet.compiler.te.lang.scan import ScanOp, scan
from whet.compiler.te.lang.tag import tag_scope
from whet.compiler.te.lang.tensor import (
    ComputeOp,
    ExternOp,
    HybridOp,
    Operation,
    PlaceholderOp,
    Tensor,
    TensorComputeOp,
    TensorSlice,
)
from whet.compiler.te.lang.tensor_intrin import TensorIntrin, decl_tensor_intrin
from whet.compiler.te.schedule import Schedule, Trace, create_schedule
from whet.compiler.te.show.graph_text import graph_text
from whet.compiler.te.stage import Stage
from whet.compiler.tir.layouts.index_map import IndexMap
from whet.compiler.tir.ops import mathematics, ops, reducers
from whet.compiler.tir.ops.bits import infinity
from whet.compiler.tir.ops.mathematics import *  # noqa: F403
from whet.compiler.tir.ops.ops import *  # noqa: F403
from whet.compiler.tir.ops.ops import select
from whet.compiler.tir.ops.reducers import *  # noqa: F403

if TYPE_CHECKING:
    from whet.compiler.te import hybrid
    from whet.compiler.te.blocks.create import create_prim_func
    from whet.compiler.te.reverse_mode.reverse import gradient

_HOMES = {
    "create_prim_func": f"{__name__}.blocks.create:create_prim_func",
    "gradient": f"{__name__}.reverse_mode.reverse:gradient",
    "hybrid": f"{__name__}.hybrid",
}
"""Names whose modules are loaded when they are first used."""

all = ops.all_of
any = ops.any_of
AXIS_SEPARATOR = IndexMap.AXIS_SEPARATOR

__all__ = [
    "AXIS_SEPARATOR",
    *mathematics.__all__,
    *ops.__all__,
    *reducers.__all__,
    "ComputeOp",
    "ExternOp",
    "HybridOp",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "Schedule",
    "Stage",
    "Tensor",
    "TensorComputeOp",
    "TensorIntrin",
    "TensorSlice",
    "Trace",
    "all",
    "any",
    "compute",
    "count_flop",
    "create_prim_func",
    "create_schedule",
    "decl_tensor_intrin",
    "extern",
    "extern_primfunc",
    "gradient",
    "graph_text",
    "hybrid",
    "infinity",
    "placeholder",
    "reduce_axis",
    "scan",
    "select",
    "size_var",
    "tag_scope",
    "thread_axis",
    "var",
]


if not TYPE_CHECKING:  # type checkers know the names that are there

    def __getattr__(name: str) -> object:
        """A name that is loaded late, or an error that says where one of TVM's went."""
        if name in _HOMES:
            found = globals()[name] = imported(_HOMES[name])
            return found
        raise missing(__name__, "te", name)
