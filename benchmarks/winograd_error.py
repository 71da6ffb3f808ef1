"""Rounding errors of Winograd's convolutions, and of the direct one, on ResNet-50's 3x3 shapes.

    python benchmarks/winograd_error.py [--save]

For each shape and algorithm: the largest error against float64, as a share of the largest result,
of the results' root mean square, and of what a measurement admits beside exact numbers (1 is too
much). Data and weights are drawn as a measurement draws them, in [-1, 1].
"""

from __future__ import annotations

import harness

from typing import Any

import numpy as np

import whet
from whet.compiler.topi.algebra.winograd_matrices import winograd_matrices
from whet.measure.stage.reference import RTOL
from whet.search_spaces.rules.cpu.conv.winograd import VARIANTS

SHAPES = ((56, 64), (28, 128), (14, 256), (7, 512))


def kernel(size: int, channels: int, m: int) -> Any:
    """A square image's 3x3 convolution by F(m x m, 3 x 3), channels last."""
    args = (1, channels, size, size, channels, 3, 3, 1, 1)
    task = whet.create_task("conv2d_nhwc", args=args, target="llvm")
    wanted = {**task.config_space.default.as_dict(), "algorithm": f"winograd{m}"}
    return whet.build(*task.instantiate(task.config_space.nearest(wanted)), task.target)


def modelled(x: np.ndarray, w: np.ndarray, m: int) -> np.ndarray:
    """The same by numpy in the dtype of its arguments, for sizes that are not among the kernels."""
    exact = winograd_matrices(m)
    a, b, g = (np.array(t, dtype=float).astype(x.dtype) for t in (exact.at, exact.bt, exact.g))
    size, alpha = x.shape[1], m + 2
    count = -(-size // m)
    behind = count * m - size + 1
    padded = np.pad(x, ((0, 0), (1, behind), (1, behind), (0, 0)))
    filters = np.einsum("ui,ijco,vj->uvco", g, w, g)
    out = np.empty((1, count * m, count * m, w.shape[3]), x.dtype)
    for ty in range(count):
        for tx in range(count):
            patch = padded[0, ty * m : ty * m + alpha, tx * m : tx * m + alpha]
            pixels = np.einsum("ui,ijc,vj->uvc", b, patch, b)
            products = (pixels[:, :, None, :] @ filters)[:, :, 0]
            done = np.einsum("yu,uvo,xv->yxo", a, products, a)
            out[0, ty * m : (ty + 1) * m, tx * m : (tx + 1) * m] = done
    return out[:, :size, :size]


def errors(got: np.ndarray, right: np.ndarray) -> tuple[float, float, float]:
    """The largest error as shares: of the largest result, of the rms, of what is admitted."""
    error, rms = np.abs(got - right), float(np.sqrt(np.mean(right**2)))
    admitted = RTOL["float32"] * (np.abs(right) + rms)
    largest = float(error.max())
    return largest / float(np.abs(right).max()), largest / rms, float((error / admitted).max())


def direct(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution in the dtype of its arguments, by nine products of matrices."""
    size = x.shape[1]
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [p[:, i : i + size, j : j + size] @ w[i, j] for i in range(3) for j in range(3)]
    return sum(parts[1:], parts[0])


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    lines, rows = [], {}
    for size, channels in SHAPES:
        x = rng.uniform(-1, 1, (1, size, size, channels)).astype("float32")
        w = rng.uniform(-1, 1, (3, 3, channels, channels)).astype("float32")
        right = direct(x.astype("float64"), w.astype("float64"))
        found = {"direct": errors(direct(x, w), right)}
        for m in (2, 4, 6):
            out = np.full(right.shape, np.nan, "float32")
            if m in VARIANTS:
                kernel(size, channels, m)(x, w, out)
            else:
                out = modelled(x, w, m)
            found[f"F({m}x{m})"] = errors(out, right)
        for name, (largest, rms, admitted) in found.items():
            rows[f"{channels}@{size} {name}"] = [largest, rms, admitted]
            lines.append(
                f"{channels:3d}@{size:<2d} {name:7s} {largest:.1e} of the largest result, "
                f"{rms:.1e} of the rms, {admitted:.3f} of what is admitted"
            )
    harness.report("winograd_error", lines, {"rows": rows})


if __name__ == "__main__":
    main()
