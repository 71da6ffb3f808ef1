"""Named operators as ONNX models, for the runtimes that read these; those that ONNX has.

A function takes the words of `in_onnx`, the template's arguments and the names of the inputs.
Images have the channels first, as PyTorch's ways have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace as Args
from typing import Any

from whet.bench.operators.convolutions import sides
from whet.bench.operators.in_onnx import InOnnx

Model = Callable[..., str]
_STEPS = {"relu": InOnnx.relu, "gelu": InOnnx.gelu, "silu": InOnnx.silu, "sigmoid": InOnnx.sigmoid}


def _after(n: InOnnx, a: Args, x: str, brought: Sequence[str], rank: int) -> str:
    """``x`` after an epilogue; a bias belongs to axis 1 of images, to the last one else."""
    rest = iter(brought)
    for step in getattr(a, "epilogue", ()) or ():
        name, *arguments = (step,) if isinstance(step, str) else step
        if name == "bias":
            bias = next(rest)
            x = n.add(x, n.reshape(bias, (1, -1, *[1] * rank)) if rank else bias)
        elif name == "residual":
            x = n.add(x, next(rest))
        elif name == "clip" and None not in arguments:
            x = n.clip(x, *map(float, arguments))
        elif name in _STEPS:
            x = _STEPS[name](n, x)
        else:
            raise ValueError(f"the epilogue {step} has no operator of ONNX")
    return x


def _matmul(n: InOnnx, a: Args, x: str, y: str, *brought: str) -> str:
    axes = (0, 2, 1) if len(n.shape(x)) == 3 else (1, 0)
    x = n.transpose(x, axes) if a.transpose_a else x
    y = n.transpose(y, axes) if a.transpose_b else y
    return _after(n, a, n.matmul(x, y), brought, 0)


def _ends(padding: Any, rank: int) -> list[int]:
    pairs = sides(padding, rank)
    return [before for before, _ in pairs] + [after for _, after in pairs]


def _numbers(value: Any, rank: int) -> list[int]:
    return [value] * rank if isinstance(value, int) else list(value)


def _conv(rank: int) -> Model:
    def model(n: InOnnx, a: Args, x: str, w: str, *brought: str) -> str:
        result = n.node(
            "Conv", x, w, strides=_numbers(a.strides, rank), pads=_ends(a.padding, rank),
            dilations=_numbers(a.dilation, rank), group=n.shape(x)[1] // n.shape(w)[1],
        )  # fmt: skip
        return _after(n, a, result, brought, rank)

    return model


def _transposed(n: InOnnx, a: Args, x: str, w: str, *brought: str) -> str:
    result = n.node(
        "ConvTranspose", x, w, strides=_numbers(a.strides, 2), pads=_ends(a.padding, 2),
        output_padding=_numbers(a.output_padding, 2),
    )  # fmt: skip
    return _after(n, a, result, brought, 2)


def _softmax(kind: str) -> Model:
    return lambda n, a, x: n.node(kind, x, axis=a.axis)


def _last(a: Args, rank: int) -> int:
    """The first of the axes that are normalised, which are the last ones.

    Raises:
        ValueError: they are others.
    """
    axes = [axis % rank for axis in a.axes]
    if axes != list(range(rank - len(axes), rank)):
        raise ValueError(f"ONNX normalises the last axes, not {tuple(a.axes)}")
    return axes[0]


def _layer_norm(n: InOnnx, a: Args, x: str, gamma: str, beta: str) -> str:
    axis = _last(a, len(n.shape(x)))
    return n.node("LayerNormalization", x, gamma, beta, axis=axis, epsilon=a.epsilon)


def _rms_norm(n: InOnnx, a: Args, x: str, gamma: str) -> str:
    rank = len(n.shape(x))
    axes = tuple(range(_last(a, rank), rank))
    squares = n.mean(n.multiply(x, x), axes, True)
    return n.multiply(n.divide(x, n.sqrt(n.add(squares, a.epsilon))), gamma)


def _batch_norm(n: InOnnx, a: Args, x: str, *numbers: str) -> str:
    if a.axis % len(n.shape(x)) != 1:
        raise ValueError(f"ONNX has the channels at axis 1, not at {a.axis}")
    return n.node("BatchNormalization", x, *numbers, epsilon=a.epsilon)


def _reduced(kind: str) -> Model:
    def model(n: InOnnx, a: Args, x: str) -> str:
        axes = range(len(n.shape(x))) if a.axes is None else a.axes
        return n.reduced(kind, x, axes)

    return model


def _pool(kind: str) -> Model:
    def model(n: InOnnx, a: Args, x: str) -> str:
        more = (
            {"dilations": _numbers(a.dilation, 2)}
            if kind == "MaxPool"
            else {"count_include_pad": int(a.count_include_pad)}
        )
        return n.node(
            kind, x, kernel_shape=_numbers(a.kernel, 2), strides=_numbers(a.strides, 2),
            pads=_ends(a.padding, 2), **more,
        )  # fmt: skip

    return model


def _pad(n: InOnnx, a: Args, x: str) -> str:
    after = a.before if a.after is None else a.after
    if a.mode != "constant":
        raise ValueError(f"mode={a.mode!r} is not compared")
    return n.pad(x, a.before, after, a.value)


def _resize(n: InOnnx, a: Args, x: str) -> str:
    if (a.method, a.coordinates) != ("linear", "half_pixel"):
        raise ValueError(f"method={a.method!r} with {a.coordinates!r} is not compared")
    sizes = n.integers(*n.shape(x)[:2], *_numbers(a.size, 2))
    return n.node("Resize", x, "", "", sizes, mode="linear")


MODELS: dict[str, Model] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "dense": lambda n, a, x, w, *brought: _after(n, a, n.dense(x, w), brought, 0),
    "matvec": lambda n, a, x, y, *brought: _after(n, a, n.matmul(x, y), brought, 0),
    "conv1d_ncw": _conv(1),
    "conv2d_nchw": _conv(2),
    "conv2d_nhwc": _conv(2),
    "conv3d_ncdhw": _conv(3),
    "conv2d_transpose_nchw": _transposed,
    "depthwise_conv2d_nchw": _conv(2),
    "depthwise_conv2d_nhwc": _conv(2),
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "bias_gelu": lambda n, a, x, bias: n.gelu(n.add(x, bias)),
    "add": lambda n, a, x, y: n.add(x, y),
    "sum": _reduced("Sum"),
    "mean": _reduced("Mean"),
    "max": _reduced("Max"),
    "min": _reduced("Min"),
    "argmax": lambda n, a, x: n.index_of("Max", x, a.axis),
    "argmin": lambda n, a, x: n.index_of("Min", x, a.axis),
    "cumsum": lambda n, a, x: n.cumsum(x, a.axis),
    "max_pool2d": _pool("MaxPool"),
    "avg_pool2d": _pool("AveragePool"),
    "global_avg_pool2d": lambda n, a, x: n.node("GlobalAveragePool", x),
    "transpose": lambda n, a, x: n.transpose(x, a.axes or range(len(n.shape(x)))[::-1]),
    "concatenate": lambda n, a, *parts: n.concatenate(parts, a.axis),
    "take": lambda n, a, x, places: n.node("Gather", x, places, axis=a.axis),
    "gather": lambda n, a, x, places: n.node("GatherElements", x, places, axis=a.axis),
    "pad": _pad,
    "resize2d": _resize,
}
