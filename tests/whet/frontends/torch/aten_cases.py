"""A call of each operator of the table, with small arrays of odd sizes, drawn anew."""

import torch

from whet.frontends.torch.operators import TABLE

F64, I64 = torch.float64, torch.int64


class Draw:
    """Arrays from one generator."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def any(self, *shape):
        return torch.randn(shape, generator=self.generator, dtype=F64)

    def above(self, low, *shape):
        return low + torch.rand(shape, generator=self.generator, dtype=F64)

    def whole(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.generator)

    def bool(self, *shape):
        return self.whole(0, 2, *shape).bool()


def _elements(d):
    x = d.any(3, 5)
    for name in (
        "asinh", "atan", "cos", "cosh", "erf", "exp", "expm1", "relu", "sigmoid", "sin", "sinh",
        "tan", "tanh", "mish", "abs", "sign", "ceil", "floor", "round", "trunc", "gelu",
        "hardsigmoid", "hardswish", "hardtanh", "isinf", "isnan", "leaky_relu", "neg", "ones_like",
        "relu6", "silu", "softplus", "zeros_like", "elu", "logical_not", "clone", "alias",
        "detach", "contiguous", "lift_fresh_copy",
    ):  # fmt: skip
        yield f"{name}.default", (4 * x,)
    yield "elu.default", (x, 1.5, 1.2, 0.7)
    yield "elu.default", (x, 1.5, 1.2)
    yield "softplus.default", (x, 2.0)
    yield "softplus.default", (9 * x,)
    yield "gelu.default", (x,), {"approximate": "tanh"}
    yield "isinf.default", (torch.tensor([1.0, -torch.inf, torch.nan], dtype=F64),)
    yield "isnan.default", (torch.tensor([1.0, -torch.inf, torch.nan], dtype=F64),)
    for name in ("acosh", "log", "log1p", "log2", "log10", "rsqrt", "sqrt", "reciprocal"):
        yield f"{name}.default", (d.above(1.1, 7),)
    for name in ("acos", "asin", "atanh"):
        yield f"{name}.default", (d.above(-0.4, 7),)
    yield "sqrt.default", (d.whole(1, 9, 5),)
    yield "bitwise_not.default", (d.whole(-9, 9, 5),)
    yield "bitwise_not.default", (d.bool(5),)
    yield "full_like.default", (x, 2.5)
    yield "full.default", ([2, 3], 1.5), {"dtype": F64}
    yield "fill.Scalar", (x, 3.0)
    yield "_to_copy.default", (4 * x,), {"dtype": torch.int32}
    yield "_to_copy.default", (d.bool(3),), {"dtype": torch.float32}
    yield "clamp.default", (x, -0.3, 0.4)
    yield "clamp.Tensor", (x, d.any(5), None)
    yield "clamp_min.default", (x, 0.1)
    yield "clamp_max.default", (x, 0.1)
    yield "masked_fill.Scalar", (x, d.bool(5), 2.0)
    yield "masked_fill.Tensor", (x, d.bool(3, 1), d.any())
    yield "where.self", (d.bool(3, 1), x, d.any(5))


def _pairs(d):
    x, y = d.any(3, 1, 5), d.any(4, 1)
    low = d.above(0.5, 5)
    for name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "rsub"):
        yield f"{name}.Tensor", (x, y)
        yield f"{name}.Scalar", (x, 0.5)
    yield "add.Tensor", (d.whole(0, 9, 3), d.any(3)), {"alpha": 2}
    yield "rsub.Scalar", (x, 2, 3)
    yield "mul.Tensor", (d.bool(5), d.bool(5))
    yield "eq.Tensor", (d.bool(9), d.bool(9))
    for name in ("div", "remainder", "fmod"):
        yield f"{name}.Tensor", (x, low)
        yield f"{name}.Scalar", (x, -0.7)
        yield f"{name}.Tensor", (d.whole(-9, 9, 7), d.whole(1, 5, 7))
    for mode in ("floor", "trunc"):
        yield "div.Tensor_mode", (3 * x, low), {"rounding_mode": mode}
        yield "div.Tensor_mode", (d.whole(-9, 9, 7), -d.whole(1, 5, 7)), {"rounding_mode": mode}
        yield "div.Scalar_mode", (3 * x, -0.7), {"rounding_mode": mode}
    for name in ("maximum", "minimum"):
        yield f"{name}.default", (x, y)
    for name in ("and", "or", "xor"):
        yield f"logical_{name}.default", (d.whole(0, 2, 9), d.bool(9))
        yield f"bitwise_{name}.Tensor", (d.whole(-9, 9, 9), d.whole(-9, 9, 9))
        yield f"bitwise_{name}.Tensor", (d.bool(9), d.bool(9))
        yield f"bitwise_{name}.Scalar", (d.whole(-9, 9, 9), 5)
    for exponent in (2, 3, 4, 0.5, -1, 2.3):
        yield "pow.Tensor_Scalar", (d.above(0.5, 5), exponent)
    yield "pow.Tensor_Scalar", (d.whole(-9, 9, 5), 3)
    yield "pow.Tensor_Tensor", (low, d.any(3, 5))
    yield "pow.Scalar", (1.7, x)
    yield "exp2.default", (x,)
    yield "atan2.default", (x, y)
    for way in ("left", "right"):
        name, some = f"__{way[0]}shift__", d.whole(-99, 99, 7)
        yield f"{name}.Scalar", (some, 3)
        yield f"{name}.Tensor", (some, d.whole(0, 5, 7))
        yield f"bitwise_{way}_shift.Tensor", (some, d.whole(0, 5, 7))
        yield f"bitwise_{way}_shift.Tensor_Scalar", (some, 2)


def _moves(d):
    x = d.any(3, 4, 5)
    yield "view.default", (x, [12, 5])
    yield "_unsafe_view.default", (x, [3, -1])
    yield "reshape.default", (x, [5, 12])
    yield "squeeze.default", (d.any(1, 3, 1),)
    yield "squeeze.dim", (d.any(1, 3, 1), 2)
    yield "squeeze.dims", (d.any(1, 3, 1), [0, 2])
    yield "unsqueeze.default", (x, -1)
    yield "flatten.using_ints", (x, 1)
    yield "unflatten.int", (x, 1, [2, -1])
    yield "permute.default", (x, [2, 0, -2])
    yield "transpose.int", (x, 0, -1)
    yield "t.default", (d.any(3, 5),)
    yield "expand.default", (d.any(3, 1), [2, -1, 4])
    yield "slice.Tensor", (x, 1, 1, 9223372036854775807, 2)
    yield "slice.Tensor", (x, 2, -3, -1)
    yield "select.int", (x, 1, -2)
    yield "select_scatter.default", (x, d.any(3, 5), 1, 2)
    yield "slice_scatter.default", (x, d.any(3, 2, 5), 1, 1, 3)
    yield "cat.default", ([x, d.any(3, 1, 5), d.any(3, 2, 5).float()], -2)
    yield "split_with_sizes.default", (x, [1, 3], 1)
    yield "split.Tensor", (x, 3, 2)
    yield "unbind.int", (x, 1)
    yield "flip.default", (x, [0, 2])
    yield "repeat.default", (d.any(3, 2), [2, 1, 3])
    for shifts, dims in (([2, -1], [0, -1]), ([7], [1]), ([-9], [2]), ([0], [0]), ([5], [])):
        yield "roll.default", (x, shifts, dims)
    yield "constant_pad_nd.default", (x, [1, 2, 0, 1], 0.5)
    yield "constant_pad_nd.default", (x, [-1, 2])
    for k in (1, 2, 3):
        yield f"reflection_pad{k}d.default", (d.any(1, 2, *(3, 4, 5)[:k]), [1, 2] * k)
        yield f"replication_pad{k}d.default", (d.any(1, 2, *(3, 4, 5)[:k]), [2, 1] * k)
    yield "embedding.default", (d.any(7, 3), d.whole(0, 7, 2, 5))
    yield "index_select.default", (x, 1, d.whole(0, 4, 6))
    yield "index.Tensor", (x, [None, d.whole(-4, 4, 2, 3)])
    yield "index.Tensor", (x, [d.whole(0, 3, 2, 1), d.whole(0, 4, 3)])
    yield "gather.default", (x, 1, d.whole(0, 4, 3, 2, 5))
    index = torch.stack([torch.randperm(4, generator=d.generator)[:2] for _ in range(2)], 1)
    yield "scatter.src", (d.any(4, 3), 0, index, d.any(3, 3))
    yield "scatter.value", (d.any(4, 3), 0, index, 7.0)
    yield "scatter_add.default", (d.any(4, 3), 1, d.whole(0, 3, 3, 5), d.any(4, 5))
    yield "scatter_reduce.two", (d.any(4, 3), 1, d.whole(0, 3, 3, 5), d.any(4, 5), "amax")
    yield "tril.default", (d.any(2, 4, 5), 1)
    yield "triu.default", (d.any(2, 4, 5), -1)


def _places(d):
    x, i, j = d.any(3, 4, 5, 6), d.whole(-4, 4, 2, 1), d.whole(0, 5, 3)
    for places, new in (
        ([None, i, j], d.any(3, 1)),
        ([None, None, j, d.whole(0, 6, 3)], d.any(4, 1)),
        ([j % 3, None, j], d.any(3, 1, 6)),
    ):
        yield "index.Tensor", (x, places)
        yield "index_put.default", (x, places, new, True)
    yield "index_put.default", (x, [torch.tensor([2, 0])], d.any(2, 1, 5, 6))
    yield "index_put.default", (x, [None, None, torch.tensor([4, 1])], d.any(3, 4, 2, 1))
    yield "index_put.default", (x, [d.bool(3, 4)], d.any(5, 6))
    yield "index_put.default", (x, [None, d.bool(4, 5)], d.any(), True)
    yield "masked_scatter.default", (x, d.bool(5, 6), d.any(400))
    table, index = d.any(7, 5), d.whole(0, 7, 9)
    for mode in (0, 1, 2):
        for name in ("_embedding_bag", "_embedding_bag_forward_only"):
            bags = table, index, torch.tensor([0, 2, 2, 5]), False, mode
            yield f"{name}.default", bags
            yield f"{name}.default", (*bags, False, None, False, int(index[2]))
    ends = torch.tensor([0, 4, 9])
    yield "_embedding_bag.default", (table, index, ends, False, 0, False, d.any(9), True)
    along = 1, d.whole(0, 3, 3, 4), d.any(3, 5)
    for how in ("sum", "prod", "amax", "amin", "mean"):
        yield "scatter_reduce.two", (d.any(4, 3), *along, how), {"include_self": False}
    yield "scatter_reduce.two", (d.any(4, 3), *along, "mean")
    whole = d.whole(0, 4, 3, 2), d.whole(-9, 9, 3, 3)
    more = {"include_self": False}
    yield "scatter_reduce.two", (d.whole(-9, 9, 4, 3), 0, *whole, "amin"), more
    yield "scatter.reduce", (d.any(4, 3), *along), {"reduce": "multiply"}
    yield "scatter.value_reduce", (d.any(4, 3), *along[:2], 2.5), {"reduce": "add"}
    yield "copy.default", (d.any(3, 5), d.any(5).float())
    yield "slice_scatter.default", (d.any(3, 7), d.any(3, 2), 1, 1, 6, 3)
    yield "diagonal.default", (x, -1, 3, 1)
    yield "diagonal.default", (x, 2)
    yield "unfold.default", (x, -2, 2, 3)
    yield "as_strided.default", (x, [3, 2, 4], [2, 7, 3], 5)


def _rows(d):
    x = d.any(3, 4, 5)
    for order in (2, 1, 0, torch.inf, -torch.inf, 3, 0.5):
        yield "linalg_vector_norm.default", (x, order, [0, -1], True)
    yield "linalg_vector_norm.default", (x,)
    yield "var_mean.correction", (x, [0, 2]), {"correction": 1}
    for order in (2.0, 1.0, torch.inf, 2.5):
        yield "_cdist_forward.default", (d.any(2, 3, 5), d.any(2, 4, 5), order, None)
    for name in ("amax", "amin"):
        yield f"{name}.default", (x, [0, -1], True)
    for name in ("max", "min", "mean", "sum", "prod"):
        yield f"{name}.default", (x,)
    yield "sum.dim_IntList", (d.bool(3, 4), [1])
    yield "sum.dim_IntList", (x, [0, 2], True)
    yield "mean.dim", (x, [-1, 0])
    yield "prod.dim_int", (x, 1)
    for name in ("any", "all"):
        yield f"{name}.default", (d.bool(3),)
        yield f"{name}.dim", (d.whole(0, 3, 4, 5), 1, True)
        yield f"{name}.dims", (d.bool(3, 2, 4), [0, 2])
    yield "var.correction", (x, [0, 2]), {"correction": 2, "keepdim": True}
    yield "var.dim", (x, [1], False)
    for name in ("argmax", "argmin"):
        yield f"{name}.default", (x, 1)
        yield f"{name}.default", (x,)
    for name in ("max", "min"):
        yield f"{name}.dim", (x, 1, True)
    yield "cumsum.default", (d.whole(-5, 5, 3, 4), 1)
    yield "cumprod.default", (x, -1)
    yield "sort.default", (x, 1, True)
    yield "topk.default", (x, 3, 2, False)
    rows, one = d.any(2, 7).sort(1)[0], d.any(6).sort()[0]
    yield "searchsorted.Tensor", (rows, torch.cat([rows[:, 2:4], d.any(2, 3)], 1)), {"right": True}
    yield "searchsorted.Tensor", (one, d.any(2, 3)), {"out_int32": True}
    yield "bucketize.Tensor", (d.any(3, 2), one)


def _networks(d):
    x, image = d.any(3, 7), d.any(2, 4, 6, 8)
    for name in ("_softmax.default", "_log_softmax.default"):
        yield name, (x, 0, False)
    for name in ("softmax.int", "log_softmax.int"):
        yield name, (x, -1)
    yield "addmm.default", (d.any(5), x, d.any(7, 5)), {"beta": 0.5, "alpha": 2}
    yield "mm.default", (x, d.any(7, 5))
    yield "bmm.default", (d.any(2, 3, 7), d.any(2, 7, 5))
    yield "matmul.default", (d.any(4, 1, 3, 7), d.any(2, 7, 5))
    yield "mv.default", (x, d.any(7))
    yield "dot.default", (d.any(7), d.any(7))
    yield "linear.default", (d.any(2, 3, 7), d.any(5, 7), d.any(5))
    w = d.any(6, 2, 3, 3)
    yield "convolution.default", (image, w, d.any(6), [2, 1], [1, 2], [1, 2], False, [0, 0], 2)
    w = d.any(4, 3, 3, 2)
    yield "convolution.default", (image, w, d.any(6), [2, 3], [1, 0], [1, 1], True, [1, 0], 2)
    scale = d.any(4), d.any(4)
    known = *scale, d.any(4), d.above(0.5, 4)
    name = "_native_batch_norm_legit_no_training.default"
    yield name, (image, *known, 0.1, 1e-5)
    yield name, (image, None, None, *known[2:], 0.1, 1e-5)
    yield "_native_batch_norm_legit.no_stats", (image[:1], *scale, True, 0.1, 1e-5)
    rows = d.any(6, 8), None
    yield "native_layer_norm.default", (image, [6, 8], *rows, 1e-5)
    yield "layer_norm.default", (image, [8], d.any(8), d.any(8))
    yield "native_group_norm.default", (image, *scale, 2, 4, 48, 2, 1e-5)
    yield "group_norm.default", (image, 2, *scale)
    q, k = d.any(2, 2, 3, 4), d.any(2, 2, 5, 4)
    mask = d.bool(1, 1, 3, 5)
    mask[..., 0, :] = False
    attention = "scaled_dot_product_attention.default"
    yield attention, (q, k, d.any(2, 2, 5, 4), mask)
    yield attention, (q, k, d.any(2, 2, 5, 4)), {"is_causal": True, "scale": 0.3}
    flash = "_scaled_dot_product_flash_attention_for_cpu.default"
    yield flash, (q, k, d.any(2, 2, 5, 4)), {"attn_mask": d.any(3, 5)}
    shared = d.any(2, 2, 5, 4), d.any(2, 2, 5, 6)
    more = {"enable_gqa": True}
    yield attention, (d.any(2, 6, 3, 4), *shared), more
    yield attention, (d.any(2, 6, 3, 4), *shared, d.any(3, 5)), more
    yield "dropout.default", (x, 0.5, False)
    yield "native_dropout.default", (x, 0.5, False)
    for rank in (1, 2, 3):
        some = d.any(2, 3, *(7, 9, 6)[:rank])
        yield f"adaptive_avg_pool{rank}d.default", (some, [1] * rank)
        yield f"adaptive_avg_pool{rank}d.default", (some, [3, 4, 5][:rank])
        yield f"adaptive_max_pool{rank}d.default", (some, [5, 3, 4][:rank])
        yield f"avg_pool{rank}d.default", (some, [3] * rank, [2] * rank, [1] * rank, True, False)
        yield f"max_pool{rank}d.default", (some, [2] * rank, [], [0] * rank, [2] * rank)
        if rank > 1:
            yield f"_adaptive_avg_pool{rank}d.default", (some, [1] * rank)
            yield (
                f"max_pool{rank}d_with_indices.default",
                (some, [3] * rank, [2] * rank, [1] * rank),
            )
    yield "_adaptive_avg_pool2d.default", (image, [3, 2])
    yield "adaptive_max_pool2d.default", (image[0], [1, 1])
    yield "avg_pool2d.default", (image[0], [3], [], [1])


def _resized(d):
    image = d.any(1, 3, 6, 10)
    for kind in ("bilinear", "bicubic"):
        yield f"_upsample_{kind}2d_aa.default", (image, [4, 3], False)
        yield f"_upsample_{kind}2d_aa.default", (image, [4, 13], True)
        yield f"_upsample_{kind}2d_aa.vec", (image, None, False, [0.4, 1.3])
    for mode in (0, 1, 2):
        for padding in (0, 1, 2):
            corners = (mode + padding) % 2 == 0
            yield "grid_sampler_2d.default", (image, d.any(1, 4, 5, 2), mode, padding, corners)
    volume, grid = d.any(2, 3, 4, 5, 6), d.any(2, 3, 2, 4, 3)
    yield "grid_sampler_3d.default", (volume, grid, 0, 0, False)
    yield "upsample_nearest2d.default", (image, [9, 12])
    yield "upsample_nearest2d.vec", (image, None, [2.0, 2.0])
    yield "upsample_bilinear2d.default", (image, [9, 5], True)
    yield "upsample_bilinear2d.vec", (image, [12, 20], False, None)
    yield "upsample_bicubic2d.default", (image, [9, 5], True)
    yield "upsample_bicubic2d.vec", (image, None, False, [1.7, 0.6])
    yield "upsample_bilinear2d.vec", (image.double(), None, False, [1.7, 0.6])
    for rank, linear in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
        some = d.any(2, 3, *(7, 9, 6)[:rank])
        yield f"upsample_{linear}.default", (some, [5, 12, 4][:rank], False)
        yield f"upsample_{linear}.vec", (some, None, True, [2.0] * rank)
        yield f"upsample_{linear}.vec", (some, None, False, [0.5, 1.5, 1.0][:rank])
        for kind in ("upsample_nearest", "_upsample_nearest_exact"):
            yield f"{kind}{rank}d.default", (some, [5, 18, 4][:rank])
            yield f"{kind}{rank}d.vec", (some, None, [0.5, 1.75, 3.0][:rank])


def cases(seed):
    """(operator, arguments, arguments by name) of each case."""
    d = Draw(seed)
    found = []
    for kind in (_elements, _pairs, _moves, _places, _rows, _networks, _resized):
        for name, args, *more in kind(d):
            found.append((f"aten.{name}", args, more[0] if more else {}))
    return found


def missing(found):
    """Operators of the table that no case calls."""
    return set(TABLE) - {name for name, *_ in found}


def odd_cases():
    """Roundings, thresholds and infinities; never left out."""
    x = torch.linspace(-25, 25, 17, dtype=F64)
    yield "aten.softplus.default", (x, 2.0, 3.0), {}
    yield "aten.softplus.default", (x, 1.0, 0.25), {}
    yield "aten.softplus.default", (x,), {}
    yield "aten.softplus.default", (x.float(), 1.0, 1.0), {}
    odd = torch.tensor([0, -0.0, 1, -1, 5, -5, 7.5, torch.inf, -torch.inf, torch.nan], dtype=F64)
    a, b = odd.repeat_interleave(len(odd)), odd.repeat(len(odd))
    yield "aten.div.Tensor_mode", (a, b), {"rounding_mode": "floor"}
    for number in (0.0, -torch.inf, 2.5):
        yield "aten.div.Scalar_mode", (odd, number), {"rounding_mode": "floor"}
