"""The tables of what comes with Whet and is imported on demand: templates and rules, by name.

A home is ``"module:attribute"``; :func:`whet.compiler.homes.imported` imports it when it is
needed, so that ``import whet`` stays quick.
"""

from __future__ import annotations

_ROOM = "whet.search_spaces.operators"
_HOMES = {
    "matmul": "cpu.matmul:matmul",
    "dense": "cpu.matmul:dense",
    "batch_matmul": "cpu.matmul:batch_matmul",
    "matvec": "cpu.matmul:matvec",
    "conv2d_nchw": "cpu.convolutions:conv2d_nchw",
    "conv2d_nhwc": "cpu.convolutions:conv2d_nhwc",
    "conv2d_transpose_nchw": "cpu.convolutions:conv2d_transpose_nchw",
    "conv3d_ncdhw": "cpu.convolutions:conv3d_ncdhw",
    "conv1d_ncw": "cpu.convolutions:conv1d_ncw",
    "conv2d_nchwc": "cpu.convolutions:conv2d_nchwc",
    "depthwise_conv2d_nchw": "cpu.convolutions:depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc": "cpu.convolutions:depthwise_conv2d_nhwc",
    # memory-bound, scheduled by the rules of derived spaces
    "softmax": "cpu.rows:softmax",
    "log_softmax": "cpu.rows:log_softmax",
    "layer_norm": "cpu.rows:layer_norm",
    "rms_norm": "cpu.rows:rms_norm",
    "batch_norm": "cpu.rows:batch_norm",
    "sum": "cpu.reductions:sum_",
    "mean": "cpu.reductions:mean",
    "max": "cpu.reductions:max_",
    "min": "cpu.reductions:min_",
    "argmax": "cpu.reductions:argmax",
    "argmin": "cpu.reductions:argmin",
    "cumsum": "cpu.reductions:cumsum",
    "add": "cpu.elementwise:add",
    "bias_gelu": "cpu.elementwise:bias_gelu",
    "max_pool2d": "cpu.pooling:max_pool2d",
    "avg_pool2d": "cpu.pooling:avg_pool2d",
    "global_avg_pool2d": "cpu.pooling:global_avg_pool2d",
    "adaptive_avg_pool2d": "cpu.pooling:adaptive_avg_pool2d",
    "transpose": "cpu.shapes:transpose",
    "layout_transform": "cpu.shapes:layout_transform",
    "concatenate": "cpu.shapes:concatenate",
    "gather": "cpu.shapes:gather",
    "take": "cpu.shapes:take",
    "pad": "cpu.shapes:pad",
    "resize2d": "cpu.shapes:resize2d",
}

#: template's name -> home
BUILTIN: dict[str, str] = {name: f"{_ROOM}.{home}" for name, home in _HOMES.items()}

#: kind of target -> home of the rules that schedule compute graphs for it, in their order
RULES_OF_KIND = {"cuda": "whet.search_spaces.rules.gpu.table:RULES"}
RULES = "whet.search_spaces.rules.cpu.table:RULES"
"""Home of the rules for every other kind of target."""
