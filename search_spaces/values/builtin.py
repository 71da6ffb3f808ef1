"""The tables of what comes with Whet and is imported on demand: templates and rules, by name.

A home is ``"module:attribute"``; :func:`whet.compiler.homes.imported` imports it when it is
needed, so that ``import whet`` stays quick.
"""

from __future__ import annotations

_ROOM = "whet.search_spaces.operators"
_HOMES = {
    "matmul": "named.matmul:matmul",
    "dense": "named.matmul:dense",
    "batch_matmul": "named.matmul:batch_matmul",
    "matvec": "named.matmul:matvec",
    "conv2d_nchw": "named.convolutions:conv2d_nchw",
    "conv2d_nhwc": "named.convolutions:conv2d_nhwc",
    "conv2d_transpose_nchw": "named.convolutions:conv2d_transpose_nchw",
    "conv3d_ncdhw": "named.convolutions:conv3d_ncdhw",
    "conv1d_ncw": "named.convolutions:conv1d_ncw",
    "conv2d_nchwc": "named.convolutions:conv2d_nchwc",
    "depthwise_conv2d_nchw": "named.convolutions:depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc": "named.convolutions:depthwise_conv2d_nhwc",
    # memory-bound, scheduled by the rules of derived spaces
    "softmax": "named.rows:softmax",
    "log_softmax": "named.rows:log_softmax",
    "layer_norm": "named.rows:layer_norm",
    "rms_norm": "named.rows:rms_norm",
    "batch_norm": "named.rows:batch_norm",
    "sum": "named.reductions:sum_",
    "mean": "named.reductions:mean",
    "max": "named.reductions:max_",
    "min": "named.reductions:min_",
    "argmax": "named.reductions:argmax",
    "argmin": "named.reductions:argmin",
    "cumsum": "named.reductions:cumsum",
    "add": "named.elementwise:add",
    "bias_gelu": "named.elementwise:bias_gelu",
    "max_pool2d": "named.pooling:max_pool2d",
    "avg_pool2d": "named.pooling:avg_pool2d",
    "global_avg_pool2d": "named.pooling:global_avg_pool2d",
    "adaptive_avg_pool2d": "named.pooling:adaptive_avg_pool2d",
    "transpose": "named.shapes:transpose",
    "layout_transform": "named.shapes:layout_transform",
    "concatenate": "named.shapes:concatenate",
    "gather": "named.shapes:gather",
    "take": "named.shapes:take",
    "pad": "named.shapes:pad",
    "resize2d": "named.shapes:resize2d",
}

#: template's name -> home
BUILTIN: dict[str, str] = {name: f"{_ROOM}.{home}" for name, home in _HOMES.items()}

#: kind of target -> home of the rules that schedule compute graphs for it, in their order
RULES_OF_KIND = {"cuda": "whet.search_spaces.rules.gpu.table:RULES"}
RULES = "whet.search_spaces.rules.cpu.table:RULES"
"""Home of the rules for every other kind of target."""

RULES_BY_INSTRUCTION = {"llvm": "whet.search_spaces.rules.cpu.table:by_instruction"}
"""Kind of target -> home of what says whether a declared instruction schedules a group."""

ONLY_FOR_OF_KIND = {RULES: "whet.search_spaces.rules.cpu.table:ONLY_FOR"}
"""Home of rules -> home of those among them that are loaded for some groups only."""

RIVALS_OF_KIND = {RULES: "whet.search_spaces.rules.cpu.table:RIVALS"}
"""Home of rules -> home of those among them that compete with rules before them."""
