"""The transposed convolution for CPUs, NCHW: a plain convolution for each phase of the strides."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.operators.cpu.arguments import (
    canonical_arguments,
    padding_each,
    stored_dtype,
    summed_dtype,
)
from whet.search_spaces.operators.cpu.conv import direct_nchw
from whet.search_spaces.operators.cpu.conv.transposed_phases import Phases
from whet.search_spaces.operators.cpu.gemm.plan import define_threads
from whet.search_spaces.template import template

_ARGUMENTS = "N CI H W CO KH KW strides padding output_padding dtype epilogue packed"
_canonical = canonical_arguments(
    "conv2d_transpose_nchw",
    _ARGUMENTS,
    rank=2,
    padding=padding_each,
    output_padding=padding_each,
    dtype=stored_dtype,
)


@template("conv2d_transpose_nchw", version=1, canonical=_canonical)
def conv2d_transpose_nchw(
    N: int,
    CI: int,
    H: int,
    W: int,
    CO: int,
    KH: int,
    KW: int,
    strides: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dtype: str = "float32",
    epilogue: tuple = (),
    packed: bool = False,
) -> tuple[Schedule, list[Tensor]]:
    """The transposed convolution of data (N, CI, H, W) with weights (CI, CO, KH, KW).

    The result is (N, CO, OH, OW) with OH = (H - 1) * stride - 2 * padding + KH + output padding.

    Args:
        strides: how far the windows of two neighbouring pixels are apart: an int, or (vertical,
            horizontal); the workload holds pairs.
        padding: what is cut off on each side: an int, or (vertical, horizontal).
        output_padding: rows and columns added at the bottom and the right, fewer than the strides.
        dtype: of data, weights and sums: float32 or float64. On GPUs also float16, which is summed
            up in float32, and int8 and uint8, whose results are int32.
        epilogue: what is done to each element before it is stored (``Epilogue.of``).
        packed: pack the weights ahead of the kernel's calls (``Module.pack_weights``).

    Raises:
        ArgumentError: negative padding, padding that leaves no result, output padding as large as
            the strides, another dtype, an unknown epilogue.
    """
    phases = Phases.of(N, CI, H, W, CO, KH, KW, strides, padding, output_padding, dtype)
    shape = phases.shape
    summed_dtype(shape.asked, dtype)
    cfg = get_config()
    target = Target.current() or Target("llvm")
    cfg.add_flop(phases.flop)
    direct_nchw.define(cfg, shape, target)
    define_threads(cfg, target, shape.flop // 2)
    data = te.placeholder((N, CI, H, W), dtype, name="data")
    weight = te.placeholder((CI, CO, KH, KW), dtype, name="weight")
    seen = phases.seen(data)
    schedule, args = direct_nchw.schedule(
        cfg, shape, seen, weight, epilogue, packed, phases.weight(weight), phases.result
    )
    if seen is data:
        return schedule, args
    schedule[seen].compute_inline()
    return schedule, [data, *args[1:]]
