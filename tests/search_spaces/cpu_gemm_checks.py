"""Builds of matrix products under drawn configs, compared with numpy in float64."""

from __future__ import annotations

import math
from typing import Any

import aarch64
import numpy as np

import whet
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.template import instantiate
from whet.search_spaces.values import Config

ONE, TWO = "llvm -num-threads=1", "llvm -num-threads=2"


def drawn(task: Any, count: int, seed: int = 0) -> list[Config]:
    """The default config and ``count`` others."""
    space = task.config_space
    points = space.valid_points.sample(np.random.default_rng(seed), count)
    return [space.default, *(space.decode(p) for p in points)]


def built(task: Any, config: Config) -> tuple[Any, list[Any]]:
    """A kernel under a config, and the tensors that the schedule takes."""
    with task.target:
        s, args = instantiate(task.workload, config)
    return aarch64.callable_here(whet.build(s, args, task.target)), args


def after(steps: Any, product: np.ndarray, extras: list[np.ndarray]) -> np.ndarray:
    """A GEMM's result after an epilogue, in float64; a bias along the last axis."""
    x, given = product.astype(np.float64), list(extras)
    for step in Epilogue.of(steps).steps:
        if step in ("bias", "residual"):
            x = x + given.pop(0)
        elif step == "relu":
            x = np.maximum(x, 0)
        elif step == "gelu":
            x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        elif step == "silu":
            x = x / (1 + np.exp(-x))
        elif step == "sigmoid":
            x = 1 / (1 + np.exp(-x))
        elif step[0] == "clip":
            x = np.clip(x, step[1], step[2])
    assert not given
    return x


def check(
    name: str,
    args: tuple,
    product: Any,
    *,
    epilogue: tuple = (),
    packed: bool = False,
    target: str = ONE,
    count: int = 4,
    seed: int = 0,
) -> None:
    """Compare a template's kernels with ``product`` of its first two inputs."""
    if aarch64.chosen_instead_of(target):
        more = {"epilogue": epilogue, "packed": packed, "count": 1, "seed": seed}
        check(name, args, product, target=aarch64.TARGET, **more)
    task = whet.create_task(name, args=args, target=target)
    for number, config in enumerate(drawn(task, count, seed)):
        f, tensors = built(task, config)
        rng = np.random.default_rng(100 + number)
        shapes = [tuple(int(d) for d in t.shape) for t in tensors]
        given = [
            rng.standard_normal(shape).astype(t.dtype) for shape, t in zip(shapes[:-1], tensors)
        ]
        right = after(epilogue, product(*(x.astype(np.float64) for x in given[:2])), given[2:])
        out = np.full(shapes[-1], np.nan, tensors[-1].dtype)
        if packed:
            given[1] = f.pack_weights(given[1])
        f(*given, out)
        near = 2e-3 if tensors[-1].dtype == "float16" else 2e-5
        np.testing.assert_allclose(
            out,
            right,
            rtol=near,
            atol=near * max(1.0, np.abs(right).max(initial=0)),
            err_msg=str(config),
        )
