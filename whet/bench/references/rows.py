"""What is right of operators that memory bounds, in numpy and float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace as Args
from typing import Any

Array = Any


def erf(x: Array) -> Array:
    """The error function of each element."""
    import numpy as np

    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))`` of each element."""
    import numpy as np

    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    """``x`` times the share of a normal distribution that lies below it."""
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _softmax(a: Args, x: Array) -> Array:
    import numpy as np

    e = np.exp(x - x.max(axis=a.axis, keepdims=True))
    return e / e.sum(axis=a.axis, keepdims=True)


def _log_softmax(a: Args, x: Array) -> Array:
    import numpy as np

    low = x - x.max(axis=a.axis, keepdims=True)
    return low - np.log(np.exp(low).sum(axis=a.axis, keepdims=True))


def _layer_norm(a: Args, x: Array, gamma: Array, beta: Array) -> Array:
    import numpy as np

    axes = tuple(a.axes)
    mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    shape = [n if k in axes else 1 for k, n in enumerate(x.shape)]
    scaled = (x - mean) / np.sqrt(variance + a.epsilon)
    return scaled * gamma.reshape(shape) + beta.reshape(shape)


def _rms_norm(a: Args, x: Array, gamma: Array) -> Array:
    import numpy as np

    axes = tuple(a.axes)
    shape = [n if k in axes else 1 for k, n in enumerate(x.shape)]
    mean = (x * x).mean(axis=axes, keepdims=True)
    return x / np.sqrt(mean + a.epsilon) * gamma.reshape(shape)


def _batch_norm(a: Args, x: Array, *numbers: Array) -> Array:
    import numpy as np

    shape = [1] * x.ndim
    shape[a.axis] = -1
    gamma, beta, mean, variance = (n.reshape(shape) for n in numbers)
    return (x - mean) / np.sqrt(variance + a.epsilon) * gamma + beta


def _gather(a: Args, x: Array, places: Array) -> Array:
    import numpy as np

    part = tuple(
        slice(None) if k == a.axis % x.ndim else slice(n) for k, n in enumerate(places.shape)
    )
    return np.take_along_axis(x[part], places.astype(np.int64), a.axis)


def _pad(a: Args, x: Array) -> Array:
    import numpy as np

    after = a.before if a.after is None else a.after
    more = {"constant_values": a.value} if a.mode == "constant" else {}
    return np.pad(x, list(zip(a.before, after)), a.mode, **more)


def _concatenate(a: Args, *parts: Array) -> Array:
    import numpy as np

    return np.concatenate(parts, a.axis)


def _axes(a: Args) -> tuple | None:
    return None if a.axes is None else tuple(a.axes)


ROWS: dict[str, Callable[..., Array]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "bias_gelu": lambda a, x, bias: gelu(x + bias),
    "add": lambda a, x, y: x + y,
    "sum": lambda a, x: x.sum(axis=_axes(a)),
    "mean": lambda a, x: x.mean(axis=_axes(a)),
    "max": lambda a, x: x.max(axis=_axes(a)),
    "min": lambda a, x: x.min(axis=_axes(a)),
    "argmax": lambda a, x: x.argmax(axis=a.axis),
    "argmin": lambda a, x: x.argmin(axis=a.axis),
    "cumsum": lambda a, x: x.cumsum(axis=a.axis),
    "transpose": lambda a, x: x.transpose(a.axes),
    "concatenate": _concatenate,
    "gather": _gather,
    "take": lambda a, x, places: x.take(places, a.axis),
    "pad": _pad,
}
