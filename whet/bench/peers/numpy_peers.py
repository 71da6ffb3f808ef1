"""numpy as a peer: the operators that it has, into outputs that exist already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace as Args
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import by_name

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.bench.peers.libraries import Call, Peers

Array = Any


def add_numpy(found: Peers, task: Task, inputs: Sequence[np.ndarray]) -> None:
    """Add numpy's way, where it has one.

    Args:
        found: what is added to.
        task: whose work it is.
        inputs: the kernel's inputs.
    """
    make, a = WAYS.get(task.name), by_name(task)
    if make is not None and not getattr(a, "epilogue", ()):
        found.add("numpy", lambda: make(a, *inputs))


def _into(work: Callable[..., Array], *inputs: Array, **more: Any) -> Call:
    """Work that takes ``out=``."""
    out = work(*inputs, **more)
    return lambda: work(*inputs, out=out, **more)


def _matmul(a: Args, x: Array, y: Array) -> Call:
    import numpy as np

    left = x.swapaxes(-1, -2) if a.transpose_a else x
    right = y.swapaxes(-1, -2) if a.transpose_b else y
    return _into(np.matmul, left, right)


def _dense(a: Args, x: Array, w: Array) -> Call:
    import numpy as np

    return _into(np.matmul, x, w.T)


def _matvec(a: Args, x: Array, y: Array) -> Call:
    import numpy as np

    return _into(np.matmul, x, y)


def _softmax(a: Args, x: Array) -> Call:
    import numpy as np

    out = np.empty_like(x)

    def run() -> Array:
        np.subtract(x, x.max(axis=a.axis, keepdims=True), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(axis=a.axis, keepdims=True), out=out)

    return run


def _layer_norm(a: Args, x: Array, gamma: Array, beta: Array) -> Call:
    import numpy as np

    axes, out = tuple(a.axes), np.empty_like(x)
    shape = [n if k in axes else 1 for k, n in enumerate(x.shape)]
    scale, shift = gamma.reshape(shape), beta.reshape(shape)

    def run() -> Array:
        mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
        np.subtract(x, mean, out=out)
        np.multiply(out, 1 / np.sqrt(variance + np.float32(a.epsilon)), out=out)
        np.multiply(out, scale, out=out)
        return np.add(out, shift, out=out)

    return run


def _transpose(a: Args, x: Array) -> Call:
    import numpy as np

    turned = x.transpose(a.axes)
    out = np.empty(turned.shape, x.dtype)

    def run() -> Array:
        np.copyto(out, turned)
        return out

    return run


def _reduced(name: str) -> Callable[..., Call]:
    def make(a: Args, x: Array) -> Call:
        import numpy as np

        axes = a.axes if hasattr(a, "axes") else a.axis
        return _into(getattr(np, name), x, axis=tuple(axes) if isinstance(axes, list) else axes)

    return make


def _concatenate(a: Args, *parts: Array) -> Call:
    import numpy as np

    out = np.concatenate(parts, a.axis)
    return lambda: np.concatenate(parts, a.axis, out=out)


def _add(a: Args, x: Array, y: Array) -> Call:
    import numpy as np

    return _into(np.add, x, y)


WAYS: dict[str, Callable[..., Call]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "dense": _dense,
    "matvec": _matvec,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "transpose": _transpose,
    "add": _add,
    "concatenate": _concatenate,
    **{
        name: _reduced(name) for name in ("sum", "mean", "max", "min", "argmax", "argmin", "cumsum")
    },
}
