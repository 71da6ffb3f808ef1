"""Convolution templates of any layout and rank under drawn configs, against numpy in float64."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import aarch64
import numpy as np
from cpu_gemm_checks import after, built, drawn

import whet
from whet.search_spaces.operators.arguments import each

RANK = {"conv1d_ncw": 1, "conv2d_nchw": 2, "conv2d_nhwc": 2, "conv2d_nchwc": 2, "conv3d_ncdhw": 3}
NEAR = {"float32": 2e-5, "float64": 1e-11, "float16": 2e-3}
"""How near a result must be, relative to the largest."""


def convolved(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    sides: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """The convolution of (N, C, ...) with (O, C / groups, ...)."""
    x = np.pad(x, [(0, 0), (0, 0), *sides])
    (co, per), window = w.shape[:2], w.shape[2:]
    out = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], window, dilation, strides)
    ]
    y = np.zeros((len(x), co, *out))
    for place in product(*map(range, window)):
        cut = [
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, dilation, out, strides)
        ]
        part, at = x[(slice(None), slice(None), *cut)], w[(slice(None), slice(None), *place)]
        for g in range(groups):
            o = slice(g * co // groups, (g + 1) * co // groups)
            y[:, o] += np.einsum("nc...,oc->no...", part[:, g * per : (g + 1) * per], at[o])
    return y


def check(
    operator: str,
    args: tuple,
    *,
    epilogue: tuple = (),
    packed: bool = False,
    block: int = 0,
    target: Any = "llvm -num-threads=1",
    dtype: str = "float32",
    count: int = 6,
    algorithm: str = "",
    skip: Any = None,
) -> None:
    """Compare the kernels of the default config and ``count`` others with numpy.

    Args:
        args: N, CI, the image, CO, the window, then strides, padding, dilation, groups.
        block: of NCHWc.
        algorithm: where given, the only one that is drawn.
        skip: where given, what each config skips, the default, too.
    """
    if aarch64.chosen_instead_of(target):
        more = {"epilogue": epilogue, "packed": packed, "block": block, "dtype": dtype, "count": 1}
        check(operator, args, algorithm=algorithm, skip=skip, target=aarch64.TARGET, **more)
    rank = RANK[operator]
    strides, padding, dilation, groups = [
        *args[3 + 2 * rank :],
        *(1, 0, 1, 1)[len(args) - 3 - 2 * rank :],
    ]
    wide = isinstance(padding, tuple) and len(padding) == 2 * rank
    both = padding if wide else each("", "padding", padding, rank, 0) * 2
    full = (*args[: 3 + 2 * rank], strides, padding, dilation, groups, dtype, epilogue, packed)
    task = whet.create_task(operator, args=(*full, block) if block else full, target=target)
    configs = _drawn(task, count, algorithm, skip)
    for number, config in enumerate(configs):
        f, tensors = built(task, config)
        rng = np.random.default_rng(100 + number)
        given = [rng.standard_normal(shape(t)).astype(t.dtype) for t in tensors[:-1]]
        exact = [x.astype(np.float64) for x in given]
        plain = convolved(
            _first(operator, exact[0]),
            np.moveaxis(exact[1], (3, 2), (0, 1)) if operator == "conv2d_nhwc" else exact[1],
            each("", "strides", strides, rank, 1),
            [(both[k], both[rank + k]) for k in range(rank)],
            each("", "dilation", dilation, rank, 1),
            groups,
        )
        extras = [x if x.ndim == 1 else np.moveaxis(_first(operator, x), 1, -1) for x in exact[2:]]
        right = np.moveaxis(after(epilogue, np.moveaxis(plain, 1, -1), extras), -1, 1)
        out = np.full(shape(tensors[-1]), np.nan, tensors[-1].dtype)
        f(given[0], f.pack_weights(given[1]) if packed else given[1], *given[2:], out)
        near = NEAR[tensors[-1].dtype]
        near *= 20 if "algorithm" in config and "winograd" in config["algorithm"].val else 1
        np.testing.assert_allclose(
            _first(operator, out), right, rtol=near,
            atol=near * max(1.0, np.abs(right).max(initial=0.0)), err_msg=f"{args} {config}",
        )  # fmt: skip


def _drawn(task: Any, count: int, algorithm: str, skip: Any) -> list[Any]:
    configs = drawn(task, count)
    if algorithm:
        configs = [c for c in drawn(task, 100 * count) if c["algorithm"].val == algorithm][:count]
        assert configs, algorithm
    return configs if skip is None else [skipping(task, c, skip) for c in configs]


def skipping(task: Any, config: Any, skip: Any) -> Any:
    """The config, with what its algorithm skips."""
    name = "last.skip" if config["algorithm"].val == "channels_last" else "skip"
    return task.config_space.from_choices({**config.as_dict(), name: skip})


def shape(tensor: Any) -> tuple[int, ...]:
    """The extents of a tensor of fixed shape."""
    return tuple(int(d) for d in tensor.shape)


def _first(operator: str, x: np.ndarray) -> np.ndarray:
    """Data or a result with the channels first."""
    if operator == "conv2d_nhwc":
        return np.moveaxis(x, 3, 1)
    if operator == "conv2d_nchwc":
        n, blocks, h, w, block = x.shape
        return np.moveaxis(x, 4, 2).reshape(n, blocks * block, h, w)
    return x
