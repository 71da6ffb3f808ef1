"""A template explained to who typed its name: arguments, what it computes, a call of it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import SpaceError
from whet.search_spaces import get_template

_IMAGES = '"(1, 64, 56, 56)"'
_CONVOLUTION = "1 64 56 56 64 3 3"
EXAMPLES = {
    "matmul": "1024 1024 1024",
    "dense": "64 1024 4096",
    "batch_matmul": "12 128 64 128",
    "matvec": "4096 4096",
    **dict.fromkeys(
        ("conv2d_nchw", "conv2d_nhwc", "conv2d_nchwc", "conv2d_transpose_nchw"), _CONVOLUTION
    ),
    "conv1d_ncw": "1 64 256 64 3",
    "conv3d_ncdhw": "1 16 8 28 28 32 3 3 3",
    **dict.fromkeys(("depthwise_conv2d_nchw", "depthwise_conv2d_nhwc"), "1 32 56 56 3 3"),
    "batch_norm": _IMAGES,
    "add": '"(1024, 1024)" "(1024,)"',
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), f"{_IMAGES} 2 2"),
    "global_avg_pool2d": _IMAGES,
    "adaptive_avg_pool2d": f"{_IMAGES} 7",
    "layout_transform": f"{_IMAGES} NCHW NCHW8c",
    "concatenate": '"((64, 32), (96, 32))"',
    "gather": '"(1024, 64)" "(128, 64)"',
    "take": '"(1024, 64)" "(128,)"',
    "pad": '"(56, 56)" "(1, 1)"',
    "resize2d": f'{_IMAGES} "(112, 112)"',
}
"""Arguments that a template can be called with; of one that is not here, the next."""
OF_A_SHAPE = '"(1024, 1024)"'


def check_arguments(op: str, values: Sequence[Any]) -> None:
    """Refuse a call with too few or too many arguments.

    Raises:
        SpaceError: so it is; says what the template takes, and how it is called.
    """
    signature = inspect.signature(get_template(op).func)
    try:
        signature.bind(*values)
    except TypeError as error:
        given = f"{len(values)} argument{'' if len(values) == 1 else 's'}"
        were = "was" if len(values) == 1 else "were"
        why = f"{error} ({given} {were} given)"
        raise SpaceError(f"template {op!r}", why, usage_of(op)) from None


def usage_of(op: str) -> str:
    """A template's arguments with their defaults, what it computes, and a call of it."""
    template = get_template(op)
    parameters = inspect.signature(template.func).parameters.values()
    words = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    lines = [f"it takes {op}({', '.join(words)})"]
    said = (template.func.__doc__ or "").strip().partition("\n")[0]
    if said:
        lines.append(said.replace("``", ""))
    required = [p.name for p in parameters if p.default is p.empty]
    example = EXAMPLES.get(op) or (OF_A_SHAPE if required == ["shape"] else "")
    if example:
        lines.append(f"e.g. whet bench {op} {example}")
    return "\n".join(lines)
