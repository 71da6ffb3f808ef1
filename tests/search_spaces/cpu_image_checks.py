"""Convolution templates of images under drawn configs, compared with numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aarch64
import numpy as np
from cpu_gemm_checks import after, built, drawn

import whet

Reference = Callable[[np.ndarray, np.ndarray], np.ndarray]


def check(
    task: Any,
    reference: Reference,
    channels_last: bool,
    *,
    epilogue: tuple = (),
    packed: bool = False,
    count: int = 6,
    seed: int = 0,
    near: float = 2e-5,
) -> None:
    """Compare kernels with ``reference`` of data and weights, both in the template's layout.

    Args:
        near: the largest error, as a share of the largest result.
    """
    if aarch64.chosen_instead_of(task.target):
        there = whet.create_task(task.template, args=task.workload.args, target=aarch64.TARGET)
        more = {"epilogue": epilogue, "packed": packed, "count": 1, "seed": seed, "near": near}
        check(there, reference, channels_last, **more)
    for number, config in enumerate(drawn(task, count, seed)):
        f, tensors = built(task, config)
        rng = np.random.default_rng(100 + number)
        shapes = [tuple(int(d) for d in t.shape) for t in tensors]
        given = [
            rng.standard_normal(shape).astype(t.dtype) for shape, t in zip(shapes[:-1], tensors)
        ]
        exact = [x.astype(np.float64) for x in given]
        product, extras = reference(exact[0], exact[1]), exact[2:]
        if not channels_last:
            product = np.moveaxis(product, 1, -1)
            extras = [np.moveaxis(x, 1, -1) if x.ndim == 4 else x for x in extras]
        right = after(epilogue, product, extras)
        if not channels_last:
            right = np.moveaxis(right, -1, 1)
        if packed:
            given[1] = f.pack_weights(given[1])
        out = np.full(shapes[-1], np.nan, tensors[-1].dtype)
        f(*given, out)
        np.testing.assert_allclose(
            out, right, rtol=0, atol=near * max(1.0, np.abs(right).max(initial=0.0)),
            err_msg=str(config),
        )  # fmt: skip
