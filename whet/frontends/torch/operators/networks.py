"""Operators of neural networks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from whet.compiler.graph import Value
from whet.frontends.onnx.operators.networks import transposed_convolution
from whet.frontends.torch.operators.node import AtenNode, Translate


def _convolution(n: AtenNode) -> Value:
    x, w, bias = n.value("input"), n.value("weight"), n.optional("bias")
    rank = len(w.shape) - 2
    strides, dilation, sides, extra = (
        n.ints(name, rank) for name in ("stride", "dilation", "padding", "output_padding")
    )
    groups = int(n["groups"])
    image = x
    if len(x.shape) == rank + 1:  # one image
        image = n.reshaped(x, (1, *x.shape))
    if not n["transposed"]:
        made = n.add(
            "conv", [image, w, bias], strides=strides, padding=[*sides, *sides],
            dilation=dilation, groups=groups,
        )  # fmt: skip
        return n.reshaped(made, n.shape)
    both = [*sides, *sides]
    return n.reshaped(
        transposed_convolution(n, image, w, bias, strides, groups, both, extra, dilation), n.shape
    )


def _batch_norm(n: AtenNode) -> list[Value | None]:
    x = n.value("input")
    given = [n.optional(name) for name in ("weight", "bias", "running_mean", "running_var")]
    for k, usual in enumerate((1, 0, 0, 1)):
        if given[k] is None:
            given[k] = n.constant(np.full(x.shape[1], usual), x.dtype)
    made = n.add("batch_norm", [x, *given], epsilon=float(n["eps"]))
    return [made, None, None]


def _own_norm(n: AtenNode) -> list[Value | None]:
    """Each channel by its own statistics, not by known ones: instance norms are computed so."""
    x = n.value("input")
    if x.shape[0] != 1 or not n["training"]:
        raise n.refused("it normalises by the statistics of a batch")
    scale, bias = (n.optional(name) for name in ("weight", "bias"))
    scale = scale or n.constant(np.ones(x.shape[1]), x.dtype)
    bias = bias or n.constant(np.zeros(x.shape[1]), x.dtype)
    return [n.add("instance_norm", [x, scale, bias], epsilon=float(n["eps"])), None, None]


def _layer_norm(n: AtenNode) -> list[Value | None]:
    x, scale, bias = n.value("input"), n.optional("weight"), n.optional("bias")
    axes = tuple(range(len(x.shape) - len(n.ints("normalized_shape")), len(x.shape)))
    return [n.add("layer_norm", [x, scale, bias], axes=axes, epsilon=float(n["eps"])), None, None]


def _group_norm(n: AtenNode) -> list[Value | None]:
    x = n.value("input")
    scale, bias = n.optional("weight"), n.optional("bias")
    scale = scale or n.constant(np.ones(x.shape[1]), x.dtype)
    bias = bias or n.constant(np.zeros(x.shape[1]), x.dtype)
    groups = int(n.get("group", n.get("num_groups")))
    made = n.add("group_norm", [x, scale, bias], groups=groups, epsilon=float(n["eps"]))
    return [made, None, None]


def _first(of: Translate) -> Translate:
    """Of several results the first alone: some operators have both forms."""

    def translate(n: AtenNode) -> Value:
        made = of(n)
        first = made if isinstance(made, Value) else made[0]
        assert first is not None
        return first

    return translate


def _softmax(operator: str) -> Translate:
    def translate(n: AtenNode) -> Value:
        x = n.value("self", n.dtype)
        if not x.shape:
            return n.constant(1 if operator == "softmax" else 0, x.dtype)
        return n.add(operator, [x], axis=n.axis(n["dim"], len(x.shape)))

    return translate


def _addmm(n: AtenNode) -> Value:
    beta, alpha = float(n.get("beta", 1)), float(n.get("alpha", 1))
    given = [n.value("mat1"), n.value("mat2"), n.value("self", n.dtype)]
    return n.add("gemm", given, alpha=alpha, beta=beta)


def _matmul(left: str, right: str) -> Translate:
    return lambda n: n.add("matmul", [n.value(left), n.value(right)])


def _linear(n: AtenNode) -> Value:
    x, w, bias = n.value("input"), n.value("weight"), n.optional("bias")
    rows = n.reshaped(x, (prod(x.shape[:-1]), x.shape[-1]))
    return n.reshaped(n.add("gemm", [rows, w, bias], transpose_b=True), n.shape)


def _images(n: AtenNode, rank: int) -> Value:
    """The operand with a batch axis."""
    x = n.value("self")
    return x if len(x.shape) == rank + 2 else n.reshaped(x, (1, *x.shape))


def _pool(kind: str, rank: int) -> Translate:
    def translate(n: AtenNode) -> list[Value | None]:
        window = n.ints("kernel_size", rank)
        strides = n.ints("stride", rank) if n.get("stride") else window
        sides = n.ints("padding", rank)
        if n.get("divisor_override") is not None:
            raise n.refused("it divides by a number of its own")
        x, more = _images(n, rank), {
            "window": window, "strides": strides, "padding": [*sides, *sides],
            "dilation": n.ints("dilation", rank) if "dilation" in n.args else [1] * rank,
            "ceil_mode": bool(n.get("ceil_mode", False)),
        }  # fmt: skip
        include = bool(n.get("count_include_pad", kind == "avg"))
        made = n.add("pool", [x], kind=kind, count_include_pad=include, **more)
        if len(n.results) == 1:
            return [n.reshaped(made, n.shape)]
        places = n.add("pool_places", [x], **more)
        return [n.reshaped(made, n.shape), n.reshaped(places, n.shape)]

    return translate


def _adaptive(kind: str, rank: int) -> Translate:
    """The maxima or the averages of so many windows; places of maxima are not there."""

    def translate(n: AtenNode) -> list[Value | None]:
        x, wanted = _images(n, rank), n.ints("output_size", rank)
        if all(d == 1 for d in wanted):
            made = n.add("global_pool", [x], kind=kind)
        else:
            made = n.add("adaptive_pool", [x], kind=kind, size=tuple(wanted))
        return [n.reshaped(made, n.shape), None]

    return translate


def _attention(n: AtenNode) -> list[Value | None]:
    """Attention; a row of which all is masked gives 0."""
    q, k, v = (n.value(name) for name in ("query", "key", "value"))
    if float(n.get("dropout_p", 0)):
        raise n.refused("it drops elements")
    scale = n.get("scale")
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    scores = _by_heads(n, q, k, transpose_b=True)
    scores = n.add("multiply", [scores, n.constant(scale, q.dtype)])
    mask = n.optional("attn_mask")
    if n.get("is_causal"):
        mask = n.constant(np.tri(q.shape[-2], k.shape[-2], dtype=bool))
    hidden = None
    low = n.constant(-np.inf, q.dtype)
    if mask is not None and mask.dtype == "bool":
        scores = n.add("where", [mask, scores, low])
        hidden = n.add("logical_not", [mask])
    elif mask is not None:
        scores = n.add("add", [scores, mask])
        hidden = n.add("equal", [mask, low])
    weights = n.add("softmax", [scores], axis=len(scores.shape) - 1)
    if hidden is not None and not n.get("is_causal"):
        weights = n.add("where", [hidden, n.constant(0, q.dtype), weights])
    return [_by_heads(n, weights, v), None]


def _by_heads(n: AtenNode, x: Value, keys: Value, **attrs: bool) -> Value:
    """A product of each head; rows of heads that share keys stand one behind the other."""
    shared = keys.shape[-3] if n.get("enable_gqa") else 0
    if not shared or x.shape[-3] == shared:
        return n.add("matmul", [x, keys], **attrs)
    outer, (heads, rows, width) = x.shape[:-3], x.shape[-3:]
    many = n.reshaped(x, (*outer, shared, heads // shared * rows, width))
    made = n.add("matmul", [many, keys], **attrs)
    return n.reshaped(made, (*outer, heads, rows, made.shape[-1]))


def _operand_alone(n: AtenNode) -> Value:
    if n.get("train"):
        raise n.refused("it is in training mode, and drops elements at random", "module.eval()")
    return n.value("input")


def _pools(ranks: Sequence[int]) -> dict[str, Translate]:
    made: dict[str, Translate] = {}
    for rank in ranks:
        made[f"aten.adaptive_avg_pool{rank}d.default"] = _first(_adaptive("avg", rank))
        made[f"aten.adaptive_max_pool{rank}d.default"] = _adaptive("max", rank)
        made[f"aten.avg_pool{rank}d.default"] = _first(_pool("avg", rank))
        made[f"aten.max_pool{rank}d.default"] = _first(_pool("max", rank))
        if rank > 1:
            made[f"aten._adaptive_avg_pool{rank}d.default"] = _first(_adaptive("avg", rank))
            made[f"aten.max_pool{rank}d_with_indices.default"] = _pool("max", rank)
    return made


TABLE: dict[str, Translate] = {
    **_pools((1, 2, 3)),
    "aten._log_softmax.default": _softmax("log_softmax"),
    "aten._native_batch_norm_legit.no_stats": _own_norm,
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": _attention,
    "aten._softmax.default": _softmax("softmax"),
    "aten.addmm.default": _addmm,
    "aten.bmm.default": _matmul("self", "mat2"),
    "aten.convolution.default": _convolution,
    "aten.dot.default": _matmul("self", "tensor"),
    "aten.dropout.default": _operand_alone,
    "aten.group_norm.default": _first(_group_norm),
    "aten.layer_norm.default": _first(_layer_norm),
    "aten.linear.default": _linear,
    "aten.log_softmax.int": _softmax("log_softmax"),
    "aten.matmul.default": _matmul("self", "other"),
    "aten.mm.default": _matmul("self", "mat2"),
    "aten.mv.default": _matmul("self", "vec"),
    "aten.native_dropout.default": _operand_alone,
    "aten.native_group_norm.default": _group_norm,
    "aten.native_layer_norm.default": _layer_norm,
    "aten.scaled_dot_product_attention.default": _first(_attention),
    "aten.softmax.int": _softmax("softmax"),
}
