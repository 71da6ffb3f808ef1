"""The table of built-in templates: their names, and where each is found when it is asked for."""

from __future__ import annotations

# name -> "module:attribute"; imported by get_template, so that `import whet` stays quick.
BUILTIN: dict[str, str] = {
    "matmul": "whet.search_spaces.cpu.matmul:matmul",
    "dense": "whet.search_spaces.cpu.dense:dense",
    "batch_matmul": "whet.search_spaces.cpu.batch_matmul:batch_matmul",
    "matvec": "whet.search_spaces.cpu.matvec:matvec",
    "conv2d_nchw": "whet.search_spaces.cpu.conv2d_nchw:conv2d_nchw",
    "conv2d_nhwc": "whet.search_spaces.cpu.conv2d_nhwc:conv2d_nhwc",
    "conv2d_transpose_nchw": "whet.search_spaces.cpu.conv2d_transpose_nchw:conv2d_transpose_nchw",
    "conv3d_ncdhw": "whet.search_spaces.cpu.conv3d_ncdhw:conv3d_ncdhw",
    "conv1d_ncw": "whet.search_spaces.cpu.conv1d_ncw:conv1d_ncw",
    "conv2d_nchwc": "whet.search_spaces.cpu.conv2d_nchwc:conv2d_nchwc",
    "depthwise_conv2d_nchw": "whet.search_spaces.cpu.depthwise_nchw:depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc": "whet.search_spaces.cpu.depthwise_nhwc:depthwise_conv2d_nhwc",
    # memory-bound, scheduled by the rules of derived spaces
    "softmax": "whet.search_spaces.cpu.rows:softmax",
    "log_softmax": "whet.search_spaces.cpu.rows:log_softmax",
    "layer_norm": "whet.search_spaces.cpu.rows:layer_norm",
    "rms_norm": "whet.search_spaces.cpu.rows:rms_norm",
    "batch_norm": "whet.search_spaces.cpu.rows:batch_norm",
    "sum": "whet.search_spaces.cpu.reductions:sum_",
    "mean": "whet.search_spaces.cpu.reductions:mean",
    "max": "whet.search_spaces.cpu.reductions:max_",
    "min": "whet.search_spaces.cpu.reductions:min_",
    "argmax": "whet.search_spaces.cpu.reductions:argmax",
    "argmin": "whet.search_spaces.cpu.reductions:argmin",
    "cumsum": "whet.search_spaces.cpu.reductions:cumsum",
    "add": "whet.search_spaces.cpu.elementwise:add",
    "bias_gelu": "whet.search_spaces.cpu.elementwise:bias_gelu",
    "max_pool2d": "whet.search_spaces.cpu.pooling:max_pool2d",
    "avg_pool2d": "whet.search_spaces.cpu.pooling:avg_pool2d",
    "global_avg_pool2d": "whet.search_spaces.cpu.pooling:global_avg_pool2d",
    "adaptive_avg_pool2d": "whet.search_spaces.cpu.pooling:adaptive_avg_pool2d",
    "transpose": "whet.search_spaces.cpu.shapes:transpose",
    "layout_transform": "whet.search_spaces.cpu.shapes:layout_transform",
    "concatenate": "whet.search_spaces.cpu.shapes:concatenate",
    "gather": "whet.search_spaces.cpu.shapes:gather",
    "take": "whet.search_spaces.cpu.shapes:take",
    "pad": "whet.search_spaces.cpu.shapes:pad",
    "resize2d": "whet.search_spaces.cpu.shapes:resize2d",
}

# kind of target -> name -> "module:function" of the same arguments, run in the place of the one
# above where that target is in force. A name that is not here has one function for all kinds.
OF_KIND: dict[str, dict[str, str]] = {
    "cuda": {
        "matmul": "whet.search_spaces.gpu.matmul:matmul",
        "dense": "whet.search_spaces.gpu.matmul:dense",
        "matvec": "whet.search_spaces.gpu.matvec:matvec",
        "batch_matmul": "whet.search_spaces.gpu.matmul:batch_matmul",
        "conv2d_nchw": "whet.search_spaces.gpu.conv2d:conv2d_nchw",
        "conv2d_nhwc": "whet.search_spaces.gpu.conv2d:conv2d_nhwc",
        "conv1d_ncw": "whet.search_spaces.gpu.conv_graph:conv1d_ncw",
        "conv3d_ncdhw": "whet.search_spaces.gpu.conv_graph:conv3d_ncdhw",
        "conv2d_nchwc": "whet.search_spaces.gpu.conv_graph:conv2d_nchwc",
        "conv2d_transpose_nchw": "whet.search_spaces.gpu.conv_graph:conv2d_transpose_nchw",
        "depthwise_conv2d_nchw": "whet.search_spaces.gpu.depthwise:depthwise_conv2d_nchw",
        "depthwise_conv2d_nhwc": "whet.search_spaces.gpu.depthwise:depthwise_conv2d_nhwc",
    }
}
