"""The words of a graph as nodes of an ONNX model, which other runtimes read (`in_numpy`).

A tensor is its name in the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from whet.bench.operators.operator import Array

OPSET = 21


def _word(kind: str) -> Callable[..., str]:
    """The word that is one node of its inputs."""
    return lambda model, *inputs: model.node(kind, *inputs)


def _reduction(kind: str) -> Callable[..., str]:
    """The word of a reduction over axes."""

    def word(model: InOnnx, x: str, axes: Sequence[int], keepdims: bool = False) -> str:
        return model.reduced(kind, x, axes, keepdims)

    return word


class InOnnx:
    """A model that grows word by word.

    Args:
        inputs: name -> an array of the shape and the dtype of an input.
        constants: name -> an array that is part of the model, as weights are.
    """

    add, subtract, multiply, divide = map(_word, ("Add", "Sub", "Mul", "Div"))
    maximum, exp, tanh, sqrt = map(_word, ("Max", "Exp", "Tanh", "Sqrt"))
    erf, sigmoid, relu, gelu = map(_word, ("Erf", "Sigmoid", "Relu", "Gelu"))
    clip, matmul = map(_word, ("Clip", "MatMul"))
    sum, mean, max = map(_reduction, ("Sum", "Mean", "Max"))

    def __init__(self, inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._numpy = helper, numpy_helper
        self._shapes = {name: x.shape for name, x in (*inputs.items(), *constants.items())}
        self._nodes: list[Any] = []
        self._constants = [numpy_helper.from_array(v, n) for n, v in constants.items()]
        self._inputs = [self._info(n, str(x.dtype), x.shape) for n, x in inputs.items()]

    def _info(self, name: str, dtype: str, shape: Sequence[int] | None) -> Any:
        return self._helper.make_tensor_value_info(name, self._kind(dtype), shape)

    def _kind(self, dtype: str) -> int:
        return int(self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def model(self, outputs: Sequence[str], dtypes: Sequence[str]) -> bytes:
        """The model as bytes; its results are named ``"out0"``, ``"out1"``, ...

        Args:
            outputs: names of the results.
            dtypes: theirs.
        """
        names = [f"out{k}" for k in range(len(outputs))]
        for name, value in zip(names, outputs):
            self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        infos = [self._info(name, dtype, None) for name, dtype in zip(names, dtypes)]
        graph = self._helper.make_graph(self._nodes, "work", self._inputs, infos, self._constants)
        opsets = [self._helper.make_opsetid("", OPSET)]
        model = self._helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return bytes(model.SerializeToString())

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an input, or of a constant that the model began with."""
        return self._shapes[name]

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """An operator of ONNX; numbers among the inputs become constants of float32."""
        name = f"v{len(self._nodes)}"
        given = [self._number(x) if isinstance(x, float | int) else x for x in inputs]
        self._nodes.append(self._helper.make_node(kind, given, [name], **attributes))
        return name

    def _number(self, x: float) -> str:
        return self.constant(np.array(x, np.float32))

    def constant(self, array: Array) -> str:
        """An array as a part of the model."""
        name = f"c{len(self._constants)}"
        self._constants.append(self._numpy.from_array(array, name))
        return name

    def integers(self, *numbers: int) -> str:
        """A vector of int64, as shapes and axes are."""
        return self.constant(np.array(numbers, np.int64))

    def silu(self, x: str) -> str:
        """``x`` times its sigmoid."""
        return self.multiply(x, self.sigmoid(x))

    def transpose(self, x: str, axes: Sequence[int]) -> str:
        """Axes in another order."""
        return self.node("Transpose", x, perm=list(axes))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """The same elements in another shape."""
        return self.node("Reshape", x, self.integers(*shape))

    def concatenate(self, parts: Sequence[str], axis: int = 0) -> str:
        """Parts behind each other."""
        return self.node("Concat", *parts, axis=axis)

    def cut(self, x: str, axis: int, begin: int, end: int) -> str:
        """The elements from ``begin`` to ``end`` of an axis."""
        return self.node("Slice", x, *(self.integers(n) for n in (begin, end, axis)))

    def pad(self, x: str, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> str:
        """A number around."""
        return self.node("Pad", x, self.integers(*before, *after), float(value))

    def reduced(self, kind: str, x: str, axes: Sequence[int], keepdims: bool = False) -> str:
        """A reduction of ONNX by the end of its name."""
        return self.node(f"Reduce{kind}", x, self.integers(*axes), keepdims=int(keepdims))

    def cumsum(self, x: str, axis: int) -> str:
        """Sums so far along an axis."""
        return self.node("CumSum", x, self.constant(np.array(axis, np.int64)))

    def argmax(self, x: str, axis: int) -> str:
        """The index of the first largest one along an axis, as int32."""
        return self.index_of("Max", x, axis)

    def index_of(self, kind: str, x: str, axis: int) -> str:
        """The index of an ``ArgMax`` or ``ArgMin``, as int32."""
        found = self.node(f"Arg{kind}", x, axis=axis, keepdims=0)
        return self.node("Cast", found, to=self._kind("int32"))

    def dense(self, x: str, w: str) -> str:
        """``x @ w.T``."""
        return self.node("MatMul", x, self.node("Transpose", w, perm=[1, 0]))

    def conv2d(
        self,
        x: str,
        w: str,
        strides: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> str:
        """A convolution."""
        pads = [padding] * 4
        return self.node(
            "Conv", x, w, strides=[strides] * 2, pads=pads, dilations=[dilation] * 2, group=groups
        )

    def conv_transpose2d(self, x: str, w: str, strides: int = 1, padding: int = 0) -> str:
        """A transposed convolution; weights (ci, co, kh, kw)."""
        return self.node("ConvTranspose", x, w, strides=[strides] * 2, pads=[padding] * 4)

    def max_pool(
        self, x: str, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
    ) -> str:
        """The largest one of each window."""
        return self._pool("MaxPool", x, kernel, strides, padding, channels_last)

    def avg_pool(
        self, x: str, kernel: int, strides: int, padding: int = 0, channels_last: bool = False
    ) -> str:
        """The mean of each window, zeros of the padding included."""
        return self._pool(
            "AveragePool", x, kernel, strides, padding, channels_last, count_include_pad=1
        )

    def _pool(
        self,
        kind: str,
        x: str,
        kernel: int,
        strides: int,
        padding: int,
        last: bool,
        **more: int,
    ) -> str:
        x = self.transpose(x, (0, 3, 1, 2)) if last else x
        sizes = {"kernel_shape": [kernel] * 2, "strides": [strides] * 2, "pads": [padding] * 4}
        found = self.node(kind, x, **sizes, **more)
        return self.transpose(found, (0, 2, 3, 1)) if last else found

    def softmax(self, x: str, axis: int = -1) -> str:
        """Shares of the exponentials."""
        return self.node("Softmax", x, axis=axis)

    def layer_norm(self, x: str, gamma: str, beta: str, epsilon: float = 1e-5) -> str:
        """Rows of the last axis with mean 0 and variance 1, scaled and shifted."""
        return self.node("LayerNormalization", x, gamma, beta, epsilon=epsilon, axis=-1)

    def rms_norm(self, x: str, gamma: str, epsilon: float = 1e-5) -> str:
        """Rows of the last axis over their root mean square, scaled."""
        squares = self.mean(self.node("Mul", x, x), (-1,), True)
        return self.multiply(self.divide(x, self.sqrt(self.add(squares, epsilon))), gamma)

    def group_norm(self, x: str, groups: int, gamma: str, beta: str, epsilon: float = 1e-5) -> str:
        """Groups of channels with mean 0 and variance 1, scaled and shifted channel by channel."""
        return self.node("GroupNormalization", x, gamma, beta, num_groups=groups, epsilon=epsilon)

    def attention(self, q: str, k: str, v: str, depth: int) -> str:
        """``softmax(q @ k.T / sqrt(depth)) @ v`` of each head; all (b, h, n, depth)."""
        scores = self.matmul(q, self.transpose(k, (0, 1, 3, 2)))
        return self.matmul(self.softmax(self.multiply(scores, 1 / math.sqrt(depth))), v)

    def upsample(self, x: str, factor: int) -> str:
        """Each pixel as often along both dimensions of the image."""
        scales = self.constant(np.array([1, 1, factor, factor], np.float32))
        return self.node("Resize", x, "", scales, mode="nearest", nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric")  # fmt: skip

    def per_channel(self, x: str, vector: str) -> str:
        """A number for each channel of an image of two dimensions."""
        return self.reshape(vector, (1, -1, 1, 1))
