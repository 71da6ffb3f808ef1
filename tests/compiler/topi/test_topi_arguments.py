"""The arguments of operators: TVM's names in TVM's order, and what each of them means."""

import inspect

import numpy as np
import pytest
from topi_check import drawn, holds, topi

from whet.compiler import te
from whet.compiler.errors import ArgumentError

# Of each operator the arguments that TVM's has, in its order; those of layout rewrites left out.
ARGUMENTS = {
    "adv_index": "data indices",
    "argsort": "data valid_count axis is_ascend dtype",
    "argwhere": "output_shape condition",
    "dft": "re_data im_data inverse",
    "sliding_window": "data axis window_shape strides",
    "sparse_fill_empty_rows": "sparse_indices sparse_values dense_shape default_value"
    " new_sparse_indices_shape new_sparse_values_shape empty_row_indicator_shape",
    "sparse_reshape": "sparse_indices prev_shape new_shape new_sparse_indices_shape"
    " new_shape_shape",
    "sparse_to_dense": "sparse_indices output_shape sparse_values default_value",
    "stft": "data n_fft hop_length win_length window normalized onesided output_shape",
    "unique": "data is_sorted return_counts",
    "vision.non_max_suppression": "data valid_count indices max_output_size iou_threshold"
    " force_suppress top_k coord_start score_index id_index return_indices invalid_to_bottom",
    "vision.proposal": "cls_prob bbox_pred im_info scales ratios feature_stride threshold"
    " rpn_pre_nms_top_n rpn_post_nms_top_n rpn_min_size iou_loss",
    "vision.roi_align_nchw": "data rois pooled_size spatial_scale mode sample_ratio",
    "nn.correlation_nchw": "data1 data2 kernel_size max_displacement stride1 stride2 padding"
    " is_multiply",
    "nn.matmul": "tensor_a tensor_b bias out_dtype transpose_a transpose_b",
    "nn.nll_loss": "predictions targets weights reduction ignore_index",
    "argmax": "data axis keepdims select_last_index",
    "argmin": "data axis keepdims select_last_index",
    "broadcast_to": "data shape",
    "cast": "x dtype",
    "clip": "x a_min a_max",
    "concatenate": "a_tuple axis",
    "cumprod": "data axis dtype exclusive",
    "cumsum": "data axis dtype exclusive",
    "elemwise_sum": "xs",
    "expand_dims": "a axis num_newaxis",
    "flip": "a axis",
    "full": "shape dtype fill_value",
    "full_like": "x fill_value",
    "gather": "data axis indices",
    "gather_nd": "a indices batch_dims",
    "image.resize2d": "data roi size layout method coordinate_transformation_mode rounding_method"
    " bicubic_alpha bicubic_exclude extrapolation_value out_dtype",
    "layout_transform": "array src_layout dst_layout",
    "matmul": "a b transp_a transp_b",
    "nn.adaptive_pool": "data output_size pool_type layout",
    "nn.batch_matmul": "tensor_a tensor_b oshape out_dtype transpose_a transpose_b",
    "nn.batch_norm": "data gamma beta moving_mean moving_var axis epsilon center scale training"
    " momentum",
    "nn.bias_add": "data bias axis",
    "nn.conv1d_ncw": "data kernel strides padding dilation out_dtype",
    "nn.conv2d": "input filter strides padding dilation data_layout kernel_layout out_dtype",
    "nn.conv2d_nchw": "Input Filter stride padding dilation out_dtype",
    "nn.conv2d_nhwc": "Input Filter stride padding dilation out_dtype",
    "nn.conv2d_transpose_nchw": "Input Filter strides padding out_dtype output_padding",
    "nn.conv3d_ncdhw": "Input Filter stride padding dilation groups out_dtype",
    "nn.dense": "data weight bias out_dtype",
    "nn.depthwise_conv2d_nchw": "Input Filter stride padding dilation out_dtype",
    "nn.dilate": "data strides dilation_value name",
    "nn.flatten": "data",
    "nn.global_pool": "data pool_type layout",
    "nn.group_conv2d_nchw": "Input Filter stride padding dilation groups out_dtype",
    "nn.layer_norm": "data gamma beta axis epsilon",
    "nn.leaky_relu": "x alpha",
    "nn.log_softmax": "x axis",
    "nn.mirror_pad": "data pad_before pad_after mode name",
    "nn.pad": "data pad_before pad_after pad_value name attrs",
    "nn.pool2d": "data kernel stride dilation padding pool_type ceil_mode layout count_include_pad",
    "nn.prelu": "x slope axis",
    "nn.relu": "x",
    "nn.rms_norm": "data weight axis epsilon",
    "nn.scale_shift_nchw": "Input Scale Shift",
    "nn.softmax": "x axis",
    "repeat": "a repeats axis",
    "reshape": "a newshape",
    "split": "ary indices_or_sections axis",
    "squeeze": "a axis",
    "stack": "tensors axis",
    "strided_slice": "a begin end strides axes slice_mode assume_inbound",
    "sum": "data axis keepdims",
    "take": "a indices axis batch_dims mode",
    "tile": "a reps",
    "transpose": "a axes",
    "where": "condition x y",
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_names_in_order(name):
    function = topi
    for part in name.split("."):
        function = getattr(function, part)
    wanted = ARGUMENTS[name].split()
    assert list(inspect.signature(function).parameters)[: len(wanted)] == wanted


def _pooled(x, window, stride, dilation, sides, kind, whole, ceil):
    """Numpy's pool of (N, C, H, W), one window after the other."""
    (kh, kw), (top, left, bottom, right), (n, c, h, w) = window, sides, x.shape
    reach = [(k - 1) * dilation + 1 for k in window]
    sizes = [
        -(-(size - r) // stride) + 1 if ceil else (size - r) // stride + 1
        for size, r in zip((h + top + bottom, w + left + right), reach)
    ]
    made = np.empty((n, c, *sizes))
    for i, j in np.ndindex(*sizes):
        rows = [i * stride - top + k * dilation for k in range(kh)]
        columns = [j * stride - left + k * dilation for k in range(kw)]
        inside = x[:, :, [r for r in rows if 0 <= r < h]][..., [q for q in columns if 0 <= q < w]]
        if kind == "max":
            made[:, :, i, j] = inside.max((2, 3))
        else:
            ends = [size + sides[2 + k] for k, size in enumerate((h, w))]
            many = sum(r < ends[0] for r in rows) * sum(q < ends[1] for q in columns)
            many = many if whole else inside.shape[2] * inside.shape[3]
            made[:, :, i, j] = inside.sum((2, 3)) / many
    return made


@pytest.mark.parametrize(
    ("layout", "stride", "dilation", "sides", "ceil"),
    [
        ("NHWC", 3, 1, (0, 1, 1, 0), True),
        ("NCHW2c", 2, 1, (1, 0, 0, 1), False),
        ("HWCN", 1, 2, (1, 1, 1, 1), False),
    ],
)
def test_pools_of_other_layouts(layout, stride, dilation, sides, ceil):
    x = drawn(1, 4, 8, 9)

    def moved(a):
        if layout == "NCHW2c":
            return a.reshape(1, 2, 2, *a.shape[2:]).transpose(0, 1, 3, 4, 2)
        return a.transpose(["NCHW".index(letter) for letter in layout])

    given = np.ascontiguousarray(moved(x))
    for kind, whole in (("max", True), ("avg", True), ("avg", False)):
        wanted = _pooled(x, (3, 2), stride, dilation, sides, kind, whole, ceil)
        made = ((3, 2), stride, dilation, sides, kind, ceil, layout, whole)
        holds(lambda t, m=made: topi.nn.pool2d(t, *m), moved(wanted), given, tolerance=1e-6)
    wanted = moved(x.max((2, 3), keepdims=True))
    holds(lambda t: topi.nn.global_pool(t, "max", layout), wanted, given)
    cells = [x[:, :, i : i + 4, j : j + 3] for i in (0, 4) for j in (0, 3, 6)]
    wanted = np.stack([c.astype("f8").mean((2, 3)) for c in cells], 2).reshape(1, 4, 2, 3)
    made = ((2, 3), "avg", layout)
    holds(lambda t: topi.nn.adaptive_pool(t, *made), moved(wanted), given, tolerance=1e-6)


def test_a_window_behind_the_end_is_refused():
    x = te.placeholder((1, 1, 3, 3), name="x")
    for kind in ("max", "avg"):
        with pytest.raises(ArgumentError, match="takes 3 of 3 pixels, which is padding only"):
            topi.nn.pool2d(x, 1, 3, 1, 0, kind, True)


def test_pads_by_name():
    x = drawn(3, 4)
    given = {"pad_before": (1, 0), "pad_after": (0, 2), "pad_value": te.const(2, "int32")}
    wanted = np.pad(x, ((1, 0), (0, 2)), constant_values=2)
    for pad in (topi.pad, topi.nn.pad):
        holds(lambda t, f=pad: f(t, **given), wanted, x)
    made = topi.nn.pad(te.placeholder((3,)), (1,), None, 0.5, "padded", {"by": "hand"})
    assert (made.op.name, dict(made.op.attrs)) == ("padded", {"by": "hand"})


def test_takes_and_gathers_of_a_batch():
    x, i = drawn(3, 5, 4), drawn(3, 2, dtype="int32", seed=1) % 5
    wanted = np.stack([x[b][i[b]] for b in range(3)])
    for mode in ("clip", "wrap", "fast"):
        holds(lambda a, k, m=mode: topi.take(a, k, 1, 1, m), wanted, x, i)
    holds(lambda a, k: topi.take(a, k, 1, -1), wanted, x, i)
    pairs = np.stack([i, i % 4])
    wanted = np.stack([x[b, i[b], i[b] % 4] for b in range(3)])
    holds(lambda a, k: topi.gather_nd(a, k, 1), wanted, x, pairs)
    holds(lambda a, k: topi.gather_nd(a, k), x[pairs[0] % 3, pairs[1]], x, pairs % [[[3]], [[5]]])


def test_places_of_equals():
    x = drawn(4, 9, dtype="int32") // 5
    backwards = x[:, ::-1]
    holds(lambda t: topi.argmax(t, 1, False, True), 8 - backwards.argmax(1), x)
    holds(lambda t: topi.argmin(t, 1, False, True), 8 - backwards.argmin(1), x)
    holds(lambda t: topi.argmax(t, 1, False), x.argmax(1), x)


def test_slices_by_their_size():
    x = drawn(5, 7)
    holds(lambda t: topi.strided_slice(t, [1, -3], [3, -1], slice_mode="size"), x[1:4, -3:], x)
    holds(lambda t: topi.strided_slice(t, [2], [2], None, [1], "size"), x[:, 2:4], x)


def test_defaults_of_normalisation_and_resizing():
    x, own = drawn(2, 3, 4, 4), np.abs(drawn(3, seed=1)) + 1
    by = own[:, None, None]
    wanted = (x - by) / np.sqrt(by + 1e-5) * by + by
    none = [None] * 6
    holds(lambda t, w: topi.nn.batch_norm(t, w, w, w, w, *none)[0], wanted, x, own, tolerance=1e-5)
    whole = drawn(1, 1, 4, 4, dtype="int32")
    holds(
        lambda t: topi.image.resize2d(
            t, None, (2, 2), "NCHW", "nearest_neighbor", "asymmetric", out_dtype="float32"
        ),
        whole[:, :, ::2, ::2], whole,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: topi.nn.pool2d(x, 2, layout="NCHW2h"), "images are .N, C, H, W, 2h., and"),
        (lambda x: topi.nn.pool2d(x, 2, layout="NCWD"), "does not have each of H and W"),
        (lambda x: topi.nn.pool2d(x, 2, 2, 1, 0, "max", "NHWC"), "ceil_mode is 'NHWC', no bool"),
        (
            lambda x: topi.take(x, te.placeholder((4,), "int32"), 1, "wrap"),
            "batch_dims is 'wrap', no int\n  name it: mode='wrap'",
        ),
        (lambda x: topi.nn.global_pool(x, "sum"), "a pool is 'max' or 'avg'"),
        (
            lambda x: topi.nn.conv2d(x, x, kernel_layout="HWIO"),
            "weights of NCHW data are OIHW\n  leave",
        ),
        (lambda x: topi.take(x, te.placeholder((4,), "int32"), 1, 1), "has 2 elements and 4"),
        (lambda x: topi.take(x, te.placeholder((4,), "int32"), 0, 1), "1 dimensions in common"),
        (lambda x: topi.take(x, te.placeholder((4,), "int32"), mode="nan"), "and 'fast'"),
        (lambda x: topi.strided_slice(x, [0], [1], slice_mode="all"), "no slice_mode 'all'"),
        (
            lambda x: topi.strided_slice(x, [1], [1], [2], slice_mode="size"),
            "strides of 1\n  slice_mode='end'",
        ),
        (lambda x: topi.strided_slice(x, [1], [-2], slice_mode="size"), "sizes are at least -1"),
        (lambda x: topi.gather_nd(x, te.placeholder((1, 3), "int32"), 2), "2 dimensions in common"),
        (lambda x: topi.gather_nd(x, te.placeholder((1, 3), "int32"), 1), "2 elements and 3"),
    ],
)
def test_what_does_not_fit(make, message):
    with pytest.raises(ArgumentError, match=message):
        make(te.placeholder((2, 3, 5, 7)))
