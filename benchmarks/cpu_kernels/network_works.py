"""Parts of real networks as graphs without a template, each written once for all libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphs import Graph, Shape
from layers import Work

N = Any
"""The words of a library (`whet.bench.operators.in_numpy` says which there are)."""
T = Any
"""A tensor of that library."""


def _work(
    name: str,
    inputs: tuple[Shape, ...],
    work: Callable[..., Any],
    data: int = 1,
    images: bool = False,
) -> Work:
    """A part of a network; its first inputs are data, the rest are weights."""
    weights = tuple(range(data, len(inputs)))
    return Work(
        name, graph=Graph("_".join(name.split()[:-1]), inputs, work, weights, images=images)
    )


def _normal(n: N, x: T, scale: T, shift: T) -> T:
    """A batch normalisation, as it is in inference."""
    return n.add(n.multiply(x, n.per_channel(x, scale)), n.per_channel(x, shift))


def _relu6(n: N, x: T) -> T:
    return n.clip(x, 0.0, 6.0)


def _hard_swish(n: N, x: T) -> T:
    return n.multiply(x, n.multiply(n.clip(n.add(x, 3.0), 0.0, 6.0), 1 / 6))


def _linear(n: N, x: T, w: T, b: T) -> T:
    return n.add(n.dense(x, w), b)


def _basic(n: N, x: T, w1: T, s1: T, b1: T, w2: T, s2: T, b2: T) -> T:
    y = n.relu(_normal(n, n.conv2d(x, w1, 1, 1), s1, b1))
    return n.relu(n.add(_normal(n, n.conv2d(y, w2, 1, 1), s2, b2), x))


def _bottleneck(groups: int) -> Callable[..., T]:
    def work(n: N, x: T, w1: T, s1: T, b1: T, w2: T, s2: T, b2: T, w3: T, s3: T, b3: T) -> T:
        y = n.relu(_normal(n, n.conv2d(x, w1), s1, b1))
        y = n.relu(_normal(n, n.conv2d(y, w2, 1, 1, groups=groups), s2, b2))
        return n.relu(n.add(_normal(n, n.conv2d(y, w3), s3, b3), x))

    return work


def _downsample(n: N, x: T, w1: T, b1: T, w2: T, b2: T, w3: T, b3: T) -> T:
    y = n.conv2d(x, w1, 2, 1)
    y = n.relu(n.add(y, n.per_channel(y, b1)))
    y = n.conv2d(y, w2, 1, 1)
    short = n.conv2d(x, w3, 2)
    short = n.add(short, n.per_channel(short, b3))
    return n.relu(n.add(n.add(y, n.per_channel(y, b2)), short))


def _inverted(n: N, x: T, w1: T, b1: T, w2: T, b2: T, w3: T, b3: T) -> T:
    y = n.conv2d(x, w1)
    y = _relu6(n, n.add(y, n.per_channel(y, b1)))
    y = n.conv2d(y, w2, 1, 1, groups=192)
    y = _relu6(n, n.add(y, n.per_channel(y, b2)))
    y = n.conv2d(y, w3)
    return n.add(n.add(y, n.per_channel(y, b3)), x)


def _gate(n: N, x: T, channels: int, w1: T, b1: T, w2: T, b2: T) -> T:
    """Squeeze and excite: channels times what their means say of them."""
    means = n.reshape(n.mean(x, (2, 3)), (1, channels))
    gate = n.sigmoid(_linear(n, n.relu(_linear(n, means, w1, b1)), w2, b2))
    return n.multiply(x, n.reshape(gate, (1, channels, 1, 1)))


def _mobile_v3(
    n: N, x: T, w1: T, b1: T, w2: T, b2: T, g1: T, c1: T, g2: T, c2: T, w3: T, b3: T
) -> T:
    y = n.conv2d(x, w1)
    y = _hard_swish(n, n.add(y, n.per_channel(y, b1)))
    y = n.conv2d(y, w2, 1, 2, groups=240)
    y = _hard_swish(n, n.add(y, n.per_channel(y, b2)))
    y = n.conv2d(_gate(n, y, 240, g1, c1, g2, c2), w3)
    return n.add(n.add(y, n.per_channel(y, b3)), x)


def _convnext(n: N, x: T, w: T, b: T, g: T, c: T, w1: T, b1: T, w2: T, b2: T, s: T) -> T:
    y = n.conv2d(x, w, 1, 3, groups=96)
    y = n.transpose(n.add(y, n.per_channel(y, b)), (0, 2, 3, 1))
    y = n.reshape(n.layer_norm(y, g, c), (784, 96))
    y = _linear(n, n.gelu(_linear(n, y, w1, b1)), w2, b2)
    y = n.transpose(n.reshape(n.multiply(y, s), (1, 28, 28, 96)), (0, 3, 1, 2))
    return n.add(x, y)


def _unet_up(n: N, x: T, skip: T, w: T, b: T) -> T:
    y = n.conv2d(n.concatenate((n.upsample(x, 2), skip), 1), w, 1, 1)
    return n.relu(n.add(y, n.per_channel(y, b)))


def _heads(n: N, x: T, rows: int, heads: int, depth: int) -> T:
    return n.transpose(n.reshape(x, (1, rows, heads, depth)), (0, 2, 1, 3))


def _self_attention(rows: int, heads: int, depth: int) -> Callable[..., T]:
    def work(n: N, x: T, wq: T, wk: T, wv: T, wo: T) -> T:
        q, k, v = (_heads(n, n.dense(x, w), rows, heads, depth) for w in (wq, wk, wv))
        y = n.transpose(n.attention(q, k, v, depth), (0, 2, 1, 3))
        return n.dense(n.reshape(y, (rows, heads * depth)), wo)

    return work


def _mlp(n: N, x: T, w1: T, b1: T, w2: T, b2: T) -> T:
    return _linear(n, n.gelu(_linear(n, x, w1, b1)), w2, b2)


def _encoder(
    n: N, x: T, wq: T, wk: T, wv: T, wo: T, g1: T, c1: T, w1: T, b1: T, w2: T, b2: T, g2: T, c2: T
) -> T:
    x = n.layer_norm(n.add(x, _self_attention(64, 4, 64)(n, x, wq, wk, wv, wo)), g1, c1)
    return n.layer_norm(n.add(x, _mlp(n, x, w1, b1, w2, b2)), g2, c2)


def _swiglu(n: N, x: T, g: T, w1: T, w3: T, w2: T) -> T:
    y = n.rms_norm(x, g)
    y = n.multiply(n.silu(n.dense(y, w1)), n.dense(y, w3))
    return n.add(x, n.dense(y, w2))


def _lstm(n: N, x: T, h: T, c: T, wx: T, wh: T, b: T) -> tuple[T, T]:
    gates = n.add(n.add(n.dense(x, wx), n.dense(h, wh)), b)
    i, f, g, o = (n.cut(gates, 1, 256 * k, 256 * (k + 1)) for k in range(4))
    c = n.add(n.multiply(n.sigmoid(f), c), n.multiply(n.sigmoid(i), n.tanh(g)))
    return n.multiply(n.sigmoid(o), n.tanh(c)), c


def _dense_layer(n: N, x: T, s1: T, b1: T, w1: T, s2: T, b2: T, w2: T) -> T:
    y = n.conv2d(n.relu(_normal(n, x, s1, b1)), w1)
    return n.concatenate((x, n.conv2d(n.relu(_normal(n, y, s2, b2)), w2, 1, 1)), 1)


def _inception(n: N, x: T, w1: T, w2: T, w3: T, w4: T, w5: T, w6: T) -> T:
    a = n.relu(n.conv2d(x, w1))
    b = n.relu(n.conv2d(n.relu(n.conv2d(x, w2)), w3, 1, 1))
    c = n.relu(n.conv2d(n.relu(n.conv2d(x, w4)), w5, 1, 2))
    d = n.relu(n.conv2d(n.max_pool(x, 3, 1, 1), w6))
    return n.concatenate((a, b, c, d), 1)


def _patches(n: N, x: T, w: T, b: T, g: T, c: T) -> T:
    y = n.transpose(n.reshape(n.conv2d(x, w, 16), (1, 384, 196)), (0, 2, 1))
    return n.layer_norm(n.add(y, b), g, c)


def _classifier(n: N, x: T, w: T, b: T) -> T:
    return n.softmax(_linear(n, n.reshape(n.mean(x, (2, 3)), (4, 512)), w, b))


def _mixer(n: N, x: T, g: T, c: T, w1: T, b1: T, w2: T, b2: T) -> T:
    """The half of an MLP-Mixer's block that mixes tokens."""
    y = n.transpose(n.layer_norm(x, g, c), (1, 0))
    return n.add(x, n.transpose(_mlp(n, y, w1, b1, w2, b2), (1, 0)))


def _image(c: int, size: int, batch: int = 1) -> Shape:
    return (batch, c, size, size)


def _conv(co: int, ci: int, window: int) -> Shape:
    return (co, ci, window, window)


def _square(size: int, times: int = 4) -> tuple[Shape, ...]:
    return ((size, size),) * times


NETWORKS = (
    _work("ResNet basic block 64x56x56",
          (_image(64, 56), _conv(64, 64, 3), (64,), (64,), _conv(64, 64, 3), (64,), (64,)),
          _basic, images=True),
    _work("ResNet bottleneck 512x28x28",
          (_image(512, 28), _conv(128, 512, 1), (128,), (128,), _conv(128, 128, 3), (128,),
           (128,), _conv(512, 128, 1), (512,), (512,)),
          _bottleneck(1), images=True),
    _work("ResNeXt bottleneck 256x28x28",
          (_image(256, 28), _conv(128, 256, 1), (128,), (128,), _conv(128, 4, 3), (128,),
           (128,), _conv(256, 128, 1), (256,), (256,)),
          _bottleneck(32), images=True),
    _work("ResNet downsample block 64x56x56",
          (_image(64, 56), _conv(128, 64, 3), (128,), _conv(128, 128, 3), (128,),
           _conv(128, 64, 1), (128,)),
          _downsample, images=True),
    _work("MobileNet-v2 inverted residual 32x28x28",
          (_image(32, 28), _conv(192, 32, 1), (192,), _conv(192, 1, 3), (192,),
           _conv(32, 192, 1), (32,)),
          _inverted, images=True),
    _work("MobileNet-v3 block 40x28x28",
          (_image(40, 28), _conv(240, 40, 1), (240,), _conv(240, 1, 5), (240,), (64, 240), (64,),
           (240, 64), (240,), _conv(40, 240, 1), (40,)),
          _mobile_v3, images=True),
    _work("squeeze and excite 256x28x28",
          (_image(256, 28), (64, 256), (64,), (256, 64), (256,)),
          lambda n, x, *w: _gate(n, x, 256, *w), images=True),
    _work("ConvNeXt block 96x28x28",
          (_image(96, 28), _conv(96, 1, 7), (96,), (96,), (96,), (384, 96), (384,), (96, 384),
           (96,), (96,)),
          _convnext, images=True),
    _work("U-Net up block 128x28x28",
          (_image(128, 28), _image(64, 56), _conv(64, 192, 3), (64,)), _unet_up, 2, images=True),
    _work("DenseNet layer 256x28x28",
          (_image(256, 28), (256,), (256,), _conv(128, 256, 1), (128,), (128,),
           _conv(32, 128, 3)),
          _dense_layer, images=True),
    _work("Inception block 192x28x28",
          (_image(192, 28), _conv(64, 192, 1), _conv(96, 192, 1), _conv(128, 96, 3),
           _conv(16, 192, 1), _conv(32, 16, 5), _conv(32, 192, 1)),
          _inception, images=True),
    _work("ViT patches 3x224x224",
          (_image(3, 224), _conv(384, 3, 16), (384,), (384,), (384,)), _patches, images=True),
    _work("classifier head 4x512x7x7",
          (_image(512, 7, 4), (1000, 512), (1000,)), _classifier, images=True),
    _work("attention heads 12x128x64", ((1, 12, 128, 64),) * 3,
          lambda n, q, k, v: n.attention(q, k, v, 64), 3),
    _work("self-attention 128x384", ((128, 384), *_square(384)), _self_attention(128, 6, 64)),
    _work("transformer MLP 128x768",
          ((128, 768), (3072, 768), (3072,), (768, 3072), (768,)), _mlp),
    _work("transformer encoder layer 64x256",
          ((64, 256), *_square(256), (256,), (256,), (1024, 256), (1024,), (256, 1024), (256,),
           (256,), (256,)),
          _encoder),
    _work("RMSNorm and SwiGLU 64x512",
          ((64, 512), (512,), (1376, 512), (1376, 512), (512, 1376)), _swiglu),
    _work("LSTM cell 16x256",
          ((16, 256), (16, 256), (16, 256), (1024, 256), (1024, 256), (1024,)), _lstm, 3),
    _work("MLP-Mixer tokens 196x384",
          ((196, 384), (384,), (384,), (256, 196), (256,), (196, 256), (196,)), _mixer),
)  # fmt: skip
"""Twenty blocks of models of images and of text."""
