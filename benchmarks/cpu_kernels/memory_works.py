"""Memory-bound works, each with a small size that the first cache holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from graphs import Graph, Shape
from layers import Work

PACKED = ("float32", (), True)


def _template(name: str, template: str, args: tuple, small: tuple) -> Work:
    return Work(name, template, args, small=small)


def _graph(
    name: str,
    inputs: tuple[Shape, ...],
    small: tuple[Shape, ...],
    work: Callable[..., Any],
    **more: Any,
) -> Work:
    word = name.split()[0].replace("-", "_").replace("+", "_")
    return Work(name, graph=Graph(word, inputs, work, **more), small=small)


def _pools() -> Iterator[Work]:
    for kind, c, size, window, stride, pad in (
        ("max", 64, 112, 3, 2, 1),
        ("max", 64, 111, 2, 2, 0),
        ("max", 256, 13, 5, 1, 2),
        ("avg", 128, 56, 2, 2, 0),
    ):
        rest = ((window, window), (stride, stride), (pad, pad))
        lines = min(size, 28)
        few = (1, int(7600 / (lines * size * (1 + stride**-2))), lines, size)
        yield _template(
            f"{kind}_pool {window}x{window} {c}x{size}x{size} /{stride}",
            f"{kind}_pool2d",
            ((1, c, size, size), *rest),
            (few, *rest),
        )
    yield _template("global_avg_pool 8x512x14x14", "global_avg_pool2d",
                    ((8, 512, 14, 14),), ((1, 32, 14, 14),))  # fmt: skip
    yield _graph(
        "max-pool nhwc 3x3 112x112x64 /2", ((1, 112, 112, 64),), ((1, 7, 14, 64),),
        lambda n, x: n.max_pool(x, 3, 2, 1, channels_last=True),
    )  # fmt: skip
    yield _graph(
        "avg-pool nhwc 3x3 35x35x192", ((1, 35, 35, 192),), ((1, 5, 5, 160),),
        lambda n, x: n.avg_pool(x, 3, 1, 1, channels_last=True),
    )  # fmt: skip


def _depthwise() -> Iterator[Work]:
    for layout, c, size, window, stride, pad, dilation in (
        ("nchw", 32, 112, 3, 1, 1, 1),
        ("nchw", 128, 56, 3, 2, 1, 1),
        ("nchw", 120, 28, 5, 1, 2, 1),
        ("nchw", 96, 56, 7, 1, 3, 1),
        ("nhwc", 144, 56, 3, 1, 1, 1),
        ("nhwc", 192, 28, 3, 2, 1, 1),
        ("nhwc", 240, 29, 5, 2, 2, 1),
        ("nhwc", 96, 56, 7, 1, 3, 1),
        ("nhwc", 64, 57, 3, 1, 2, 2),
    ):
        # at least two channels: of a single one it is no depthwise convolution, but another program
        lines = min(size, 3500 // size // 2 // 4 * 4)
        few: tuple[int, ...] = (1, 3500 // size // lines, lines, size)
        few_pad: int | tuple[int, ...] = pad
        if layout == "nhwc":
            # 28 pixels or so in a row, and no row of padding: taps in padding are skipped, and a
            # size of which they are a large share sets a limit that no real one can reach
            few = (1, 16, dilation * (window - 1) + 3, size if size < 30 else size // 2)
            few_pad = (0, pad, 0, pad)
        rest = (window, window, stride, pad, dilation, 1, *PACKED)
        more = f" dilated {dilation}" if dilation > 1 else ""
        more += f" /{stride}" if stride > 1 else ""
        yield _template(
            f"depthwise {window}x{window} {c} {size}x{size} {layout}{more}",
            f"depthwise_conv2d_{layout}",
            (1, c, size, size, *rest),
            (*few, window, window, stride, few_pad, dilation, 1, *PACKED),
        )


def _normalisations() -> Iterator[Work]:
    yield _template("softmax 1024x1024", "softmax", ((1024, 1024),), ((4, 1024),))
    yield _template("softmax 64x50257", "softmax", ((64, 50257),), ((1, 4096),))
    yield _template("softmax 333x512 axis 0", "softmax", ((333, 512), 0), ((31, 128), 0))
    yield _template("log_softmax 256x10003", "log_softmax", ((256, 10003),), ((1, 4099),))
    yield _template("layer_norm 4096x1024", "layer_norm", ((4096, 1024),), ((2, 1024),))
    yield _template("layer_norm 197x768", "layer_norm", ((197, 768),), ((3, 768),))
    yield _template("rms_norm 512x4096", "rms_norm", ((512, 4096),), ((1, 2800),))
    yield _template("batch_norm 64x112x112", "batch_norm", ((1, 64, 112, 112),),
                    ((1, 1, 28, 112),))  # fmt: skip
    few = ((1, 8, 16, 28), (8,), (8,))
    for groups, c, size in ((32, 128, 56), (64, 64, 65)):
        kind = "group-norm" if groups < c else "instance-norm"
        each = c // groups
        yield _graph(
            f"{kind} {c}x{size}x{size}", ((1, c, size, size), (c,), (c,)), few,
            lambda n, x, g, b, each=each: n.group_norm(x, _channels(n, x) // each, g, b),
            images=True, weights=(1, 2),
        )  # fmt: skip
    yield _graph(
        "add+layer-norm 512x768", ((512, 768), (512, 768), (768,), (768,)),
        ((2, 768), (2, 768), (768,), (768,)),
        lambda n, x, y, g, b: n.layer_norm(n.add(x, y), g, b), weights=(2, 3),
    )  # fmt: skip


def _reductions() -> Iterator[Work]:
    yield _template("sum 4096x1024 axis 0", "sum", ((4096, 1024), (0,)), ((16, 256), (0,)))
    yield _template("sum 2048x2048 axis 1", "sum", ((2048, 2048), (1,)), ((2, 2048), (1,)))
    yield _template("sum 4194304", "sum", ((1 << 22,), (0,)), ((4096,), (0,)))
    yield _template("max 4096x1000 axis 1", "max", ((4096, 1000), (1,)), ((6, 1000), (1,)))
    yield _template("min 1001x3001 axis 0", "min", ((1001, 3001), (0,)), ((16, 301), (0,)))
    for kind, shape, axis, few in (
        ("argmax", (256, 1000), 1, (4, 1000)),
        ("argmax", (64, 50257), 1, (1, 8193)),
        ("argmax", (21, 129, 129), 0, (21, 3, 129)),
        ("argmin", (1000, 513), 0, (15, 513)),
    ):
        yield _template(f"{kind} {_text(shape)} axis {axis}", kind, (shape, axis), (few, axis))
    for shape, axis, few in (
        ((1000, 1000), 1, (4, 1000)),
        ((512, 2048), 0, (16, 256)),
        ((1 << 20,), 0, (4096,)),
    ):
        yield _template(f"cumsum {_text(shape)} axis {axis}", "cumsum", (shape, axis), (few, axis))


def _moves() -> Iterator[Work]:
    for shape, axes, few in (
        ((2048, 2048), (1, 0), (64, 64)),
        ((1001, 777), (1, 0), (64, 63)),
        ((1, 64, 56, 56), (0, 2, 3, 1), (1, 64, 1, 56)),
        ((128, 12, 64), (1, 0, 2), (8, 8, 64)),
    ):
        name = f"transpose {_text(shape)} to {' '.join(map(str, axes))}"
        yield _template(name, "transpose", (shape, axes), (few, axes))
    for shape, places, axis, few in (
        ((30522, 768), (512,), 0, ((5, 768), (3,), 0)),
        ((5000, 256), (8, 64), 0, ((8, 256), (2, 4), 0)),
    ):
        name = f"take {_text(places)} of {_text(shape)} axis {axis}"
        yield _template(name, "take", (shape, places, axis), few)
    yield _template("gather 500x512 of 1000x512 axis 0", "gather",
                    ((1000, 512), (500, 512), 0), ((8, 512), (4, 512), 0))  # fmt: skip
    yield _template("pad 64x56x56 by 1", "pad", ((1, 64, 56, 56), (0, 0, 1, 1)),
                    ((1, 1, 56, 56), (0, 0, 1, 1)))  # fmt: skip
    yield _template("pad 1000x1001 by 3 5", "pad", ((1000, 1001), (3, 0), (0, 5)),
                    ((3, 1001), (1, 0), (0, 5)))  # fmt: skip
    yield _template("concatenate 64+32x56x56", "concatenate",
                    (((1, 64, 56, 56), (1, 32, 56, 56)), 1),
                    (((1, 1, 28, 56), (1, 1, 28, 56)), 1))  # fmt: skip
    yield _template("concatenate 512x100+157", "concatenate",
                    (((512, 100), (512, 157)), 1), (((16, 100), (16, 157)), 1))  # fmt: skip


def _one_row() -> Iterator[Work]:
    """A row times a matrix, which is read once."""
    yield _template("matmul 1x1024x1024", "matmul", (1, 1024, 1024), (1, 64, 96))


def _elementwise() -> Iterator[Work]:
    yield _template("bias_gelu 512x3072", "bias_gelu", ((512, 3072),), ((1, 2816),))
    yield _template("add 2048x2048", "add", ((2048, 2048), (2048, 2048)),
                    ((2, 1024), (2, 1024)))  # fmt: skip
    for name, shape in (
        ("exp", (1024, 1024)),
        ("tanh", (1000, 333)),
        ("silu", (256, 4864)),
    ):
        yield _graph(
            f"{name} {_text(shape)}", (shape,), ((4, 1024),),
            lambda n, x, name=name: getattr(n, name)(x),
        )  # fmt: skip
    yield _graph(
        "bias+relu 128x28x28", ((1, 128, 28, 28), (128,)), ((1, 4, 28, 28), (4,)),
        lambda n, x, b: n.relu(n.add(x, n.per_channel(x, b))), images=True, weights=(1,),
    )  # fmt: skip
    yield _graph(
        "add-chain of four 1024x1024", ((1024, 1024),) * 4, ((2, 768),) * 4,
        lambda n, a, b, c, d: n.add(n.add(n.add(a, b), c), d),
    )  # fmt: skip
    yield _graph(
        "swiglu 256x2816", ((256, 2816),) * 2, ((1, 2816),) * 2,
        lambda n, x, y: n.multiply(n.silu(x), y),
    )  # fmt: skip
    yield _graph(
        "hard-swish 96x56x56", ((1, 96, 56, 56),), ((1, 1, 56, 56),),
        lambda n, x: n.multiply(x, n.multiply(n.clip(n.add(x, 3.0), 0.0, 6.0), 1 / 6)),
    )  # fmt: skip


def _channels(n: Any, x: Any) -> int:
    """The channels of an image; a tensor of an ONNX model is a name."""
    return int(n.shape(x)[1] if isinstance(x, str) else x.shape[1])


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))


MEMORY = (
    *_pools(),
    *_depthwise(),
    *_normalisations(),
    *_reductions(),
    *_moves(),
    *_elementwise(),
    *_one_row(),
)
