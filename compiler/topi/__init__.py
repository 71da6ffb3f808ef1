"""Operators: what they compute, whatever the schedule, and the table of their schedules."""

from whet.compiler.topi import cuda, elementwise, generic, image, nn, tag, utils, x86
from whet.compiler.topi.elementwise import *  # noqa: F403
from whet.compiler.topi.gather import (
    gather,
    gather_nd,
)
from whet.compiler.topi.layout import (
    layout_transform,
)
from whet.compiler.topi.nn.dense import matmul
from whet.compiler.topi.nn.pad import (
    pad,
)
from whet.compiler.topi.reduction import (
    all,
    any,
    argmax,
    argmin,
    max,
    min,
    prod,
    sum,
)
from whet.compiler.topi.scan import (
    cumprod,
    cumsum,
)
from whet.compiler.topi.schedules import (
    SCHEDULES,
    find_schedule,
    register_schedule,
)
from whet.compiler.topi.transform import (
    concatenate,
    expand_dims,
    flip,
    repeat,
    reshape,
    split,
    squeeze,
    stack,
    strided_slice,
    take,
    tile,
    transpose,
    where,
)

__all__ = [
    *elementwise.__all__,
    "SCHEDULES",
    "all",
    "any",
    "argmax",
    "argmin",
    "concatenate",
    "cuda",
    "cumprod",
    "cumsum",
    "expand_dims",
    "find_schedule",
    "flip",
    "gather",
    "gather_nd",
    "generic",
    "image",
    "layout_transform",
    "matmul",
    "max",
    "min",
    "nn",
    "pad",
    "prod",
    "register_schedule",
    "repeat",
    "reshape",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "sum",
    "tag",
    "take",
    "tile",
    "transpose",
    "utils",
    "where",
    "x86",
]


def __getattr__(name: str) -> object:
    from whet.compiler.absent import missing

    raise missing(__name__, "topi", name)
