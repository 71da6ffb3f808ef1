"""GEMMs that are drawn, and those that were slow: `matmul` and `batch_matmul` with arguments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Gemm = tuple[str, tuple]
"""A template, and its arguments."""

NAMED: dict[str, Gemm] = {
    "17 rows of 4096x4096": ("matmul", (17, 4096, 4096)),
    "7 columns": ("matmul", (600, 512, 7)),
    "batch of 49x32x49": ("batch_matmul", (64, 49, 32, 49)),
    "47^3": ("matmul", (47, 47, 47)),
    "129x600x77": ("matmul", (129, 600, 77)),
    "pointwise convolution, 256 to 1024 at 14^2": ("conv2d_nchw", (1, 256, 14, 14, 1024, 1, 1)),
    "patches of an image transformer": ("conv2d_nchw", (1, 3, 224, 224, 768, 16, 16, 16)),
    "one row, 1000 classes of 2048": ("matmul", (1, 2048, 1000, False, True)),
    "32 rows, 1000 classes of 2048": ("matmul", (32, 2048, 1000, False, True)),
    "8 rows, 1000 classes of 2048": ("matmul", (8, 2048, 1000)),
}
"""Works that defaults were once far from the best for."""


def drawn(count: int, seed: int = 0) -> dict[str, Gemm]:
    """So many GEMMs, each kind in turn, by name.

    Args:
        count: how many. seed: what they are drawn from.
    """
    rng = np.random.default_rng(seed)

    def size(low: int, high: int) -> int:
        return int(np.exp(rng.uniform(np.log(low), np.log(high + 1))))

    def turned() -> tuple[bool, bool]:
        return bool(rng.integers(2)), bool(rng.integers(2))

    kinds: dict[str, Callable[[], Gemm]] = {
        "few rows": lambda: ("matmul", (size(1, 32), size(512, 4096), size(512, 4096))),
        "few columns": lambda: ("matmul", (size(100, 1000), size(64, 1024), size(2, 32))),
        "small": lambda: ("matmul", (size(7, 64), size(7, 64), size(7, 64))),
        "batch": lambda: ("batch_matmul", (size(8, 64), size(8, 128), size(16, 128), size(8, 128))),
        "ragged": lambda: ("matmul", (size(65, 300), size(65, 600), size(65, 300))),
        "turned": lambda: ("matmul", (size(5, 400), size(32, 700), size(5, 400), *turned())),
        "large": lambda: ("matmul", (size(200, 700), size(200, 1000), size(200, 700))),
        "few rows, turned": lambda: (
            "matmul", (size(2, 32), size(256, 2048), size(256, 2048), *turned())
        ),
    }  # fmt: skip
    found: dict[str, Gemm] = {}
    for number in range(count):
        kind = list(kinds)[number % len(kinds)]
        template, args = kinds[kind]()
        found[f"{kind} {number}: {'x'.join(str(int(a)) for a in args)}"] = template, args
    return found
