"""The one table of operators' schedules, what ``topi.<kind>.schedule_*`` looks up, and defaults.

A kind's row wins over ``generic``'s. Operators with sums are scheduled by the rules of
``search_spaces``, untuned; statements of plain loops as they are. Rows name a function as
``"module:function"``, which is imported when it is first asked for, or are the function itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.homes import imported
from whet.compiler.target import Target
from whet.compiler.te import ComputeOp, Schedule, Tensor, create_schedule, thread_axis
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.tir import IntImm
from whet.compiler.tir import dtype as dt

Make = Callable[[list[Tensor]], Schedule]

PARALLEL_FROM = 1 << 16
"""Elements from which on the threads of a CPU are worth waking."""


def _inlined(outs: list[Tensor]) -> Schedule:
    """A schedule in which element-wise operations are computed where they are read."""
    s = create_schedule([t.op for t in outs])
    for stage in s.stages:
        op = stage.op
        plain = isinstance(op, ComputeOp) and not op.reduce_axis and op.num_outputs == 1
        if plain and not stage.is_output:
            stage.compute_inline()
    return s


def x86_injective(outs: list[Tensor]) -> Schedule:
    """The innermost loop in vectors; the outer ones in threads where there is much to do."""
    s = _inlined(outs)
    for t in outs:
        _vectorize(s, t)
    return s


def x86_reduce(outs: list[Tensor]) -> Schedule:
    """The outer loop over data in threads where there is much to do."""
    s = _inlined(outs)
    for t in outs:
        if not s[t].op.reduce_axis:
            _vectorize(s, t)
        elif t.ndim and _many(t):
            s[t].parallel(s[t].op.axis[0])
    return s


def cuda_injective(outs: list[Tensor]) -> Schedule:
    """All loops fused, an element a thread."""
    s = _inlined(outs)
    for t in outs:
        _bind(s, t)
    return s


def cuda_reduce(outs: list[Tensor]) -> Schedule:
    """A result a thread, which sums it up alone."""
    s = _inlined(outs)
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and stage.attach_type == ROOT:
            _bind(s, stage.op.output(0))
    return s


def _vectorize(s: Schedule, t: Tensor) -> None:
    axes = list(s[t].op.axis)
    if not axes:
        return
    target = Target.current() or Target("llvm")
    lanes = max(1, target.vector_bytes // dt.itemsize(t.dtype))
    _, inner = s[t].split(axes[-1], factor=lanes)
    s[t].vectorize(inner)
    if len(axes) > 1 and _many(t):
        s[t].parallel(s[t].fuse(*axes[:-1]))


def _many(t: Tensor) -> bool:
    return prod(d.value if isinstance(d, IntImm) else 0 for d in t.shape) >= PARALLEL_FROM


def _bind(s: Schedule, t: Tensor) -> None:
    axes = list(s[t].op.axis)
    target = Target.current() or Target("cuda")
    threads = target.max_num_threads if target.device == "cuda" else 1024
    fused = s[t].fuse(*axes)
    threads = min(threads, 256) if s[t].op.reduce_axis else threads
    outer, inner = s[t].split(fused, factor=threads)
    s[t].bind(outer, thread_axis("blockIdx.x"))
    s[t].bind(inner, thread_axis("threadIdx.x"))


def _plain(outs: list[Tensor]) -> Schedule:
    """Every stage by itself."""
    return create_schedule([t.op for t in outs])


_INJECTIVE = ("injective", "elemwise", "broadcast", "concatenate")
_OPERATORS = (
    *("softmax", "fast_softmax", "lrn", "pool", "adaptive_pool", "correlation_nchw"),
    *("dense", "matmul", "batch_matmul", "einsum", "conv1d_ncw", "conv1d_nwc", "conv2d_nchw"),
    *("conv2d_nhwc", "conv2d_hwcn", "conv2d_NCHWc", "conv3d_ncdhw", "conv3d_ndhwc"),
    *("conv1d_transpose_ncw", "conv2d_transpose_nchw", "conv3d_transpose_ncdhw"),
    *("depthwise_conv2d_nchw", "depthwise_conv2d_nhwc", "depthwise_conv2d_NCHWc"),
    *("group_conv1d_ncw", "group_conv1d_nwc", "group_conv2d_nchw", "group_conv2d_nhwc"),
    *("deformable_conv2d_nchw", "dilation2d_nchw", "dilation2d_nhwc"),
)
_STATEMENTS = (
    *("extern", "sort", "argsort", "topk", "searchsorted", "argwhere", "unique", "scan"),
    *("scatter", "scatter_nd", "scatter_elements", "sparse_dense", "sparse_transpose"),
    *("nms", "get_valid_counts", "multibox_prior", "multibox_transform_loc"),
    *("multibox_detection", "proposal", "roi_align", "roi_pool", "stft"),
)
_RULES = "whet.search_spaces.operators.by_rules"
SCHEDULES: dict[str, dict[str, str | Make]] = {
    "generic": {
        **dict.fromkeys((*_INJECTIVE, "reduce", *_OPERATORS), _inlined),
        **dict.fromkeys(_STATEMENTS, _plain),
    },
    "x86": {
        **dict.fromkeys(_INJECTIVE, x86_injective),
        "reduce": x86_reduce,
        **dict.fromkeys(_OPERATORS, f"{_RULES}:x86"),
    },
    "cuda": {
        **dict.fromkeys(_INJECTIVE, cuda_injective),
        "reduce": cuda_reduce,
        **dict.fromkeys(_OPERATORS, f"{_RULES}:cuda"),
    },
}
"""Kind (``generic``, ``x86``, ``cuda``, ...) -> operator -> what makes its schedule."""


def register_schedule(kind: str, name: str, make: str | Make, override: bool = False) -> None:
    """Add a row.

    Args:
        kind: ``"generic"``, ``"x86"``, ``"cuda"`` or a new one.
        name: the operator, e.g. ``"conv2d_nchw"``.
        make: ``"module:function"`` or a function from the output tensors to a schedule.
        override: replace a row that is there.

    Raises:
        ArgumentError: there is one.
    """
    rows = SCHEDULES.setdefault(kind, {})
    if name in rows and not override:
        raise ArgumentError(
            f"register_schedule({kind!r}, {name!r})", "there is one", "give override=True"
        )
    rows[name] = make


def rows_of(kind: str) -> dict[str, str | Make]:
    """The rows of a kind and, where it has none of its own, those for any."""
    return SCHEDULES["generic"] | SCHEDULES.get(kind, {})


def find_schedule(kind: str, name: str) -> Make:
    """The function that makes the schedule of an operator for a kind, or for any.

    Raises:
        ArgumentError: nobody has registered one.
    """
    rows = rows_of(kind)
    if name not in rows:
        raise ArgumentError(
            f"topi.{kind}.schedule_{name}",
            "there is no such schedule",
            f"schedules: {', '.join(sorted(rows))}; or te.create_schedule",
        )
    row = rows[name]
    if isinstance(row, str):
        row = imported(row)
    return row


def scheduler(kind: str, name: str) -> Callable[..., Schedule]:
    """The function ``topi.<kind>.schedule_<name>``.

    It takes ``(outs)``, or as TVM's documentation has it ``(target, outs)``: a tensor or a list of
    them; or ``(outs, layout)``, of which the layout is known.
    """

    def schedule(*args: Any) -> Schedule:
        if len(args) == 2 and isinstance(args[0], (Tensor, list, tuple)):
            args = args[:1]
        outs = _outputs(args, f"topi.{kind}.schedule_{name}")
        make = find_schedule(kind, name)
        if len(args) == 2:
            with Target(args[0]):
                return make(outs)
        return make(outs)

    schedule.__name__ = f"schedule_{name}"
    schedule.__doc__ = f"The schedule of {name} for {kind}: ``(outs)`` or ``(target, outs)``."
    return schedule


def _outputs(args: Sequence[Any], request: str) -> list[Tensor]:
    if len(args) not in (1, 2):
        raise ArgumentError(f"{request}({len(args)} arguments)", "give (outs) or (target, outs)")
    given = args[-1]
    outs = list(given) if isinstance(given, (list, tuple)) else [given]
    if not outs or not all(isinstance(t, Tensor) for t in outs):
        raise ArgumentError(f"{request}({given!r})", "the outputs are tensors", "[C]")
    return outs


def face(kind: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module ``topi.<kind>``, which finds ``schedule_*`` in the table."""

    def get(attribute: str) -> Any:
        name, rows = attribute.removeprefix("schedule_"), rows_of(kind)
        if name == attribute or name not in rows:
            raise AttributeError(
                f"topi.{kind} has no attribute {attribute!r}\n  it has schedule_injective, "
                f"schedule_reduce and {len(rows) - 2} others; {nearest(name, rows)}what an "
                "operator computes is in topi and topi.nn, and whet.create_task(outputs=[C], "
                "target=...) makes and tunes its schedule"
            )
        return scheduler(kind, name)

    return get
