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
from whet.compiler import te
from whet.compiler.target import Target
from whet.measure.stage.reference import RTOL
from whet.search_spaces.template.config_scope import get_config
from whet.search_spaces.rules.cpu.conv import winograd
from whet.search_spaces.operators.conv_arguments import conv_shape
from whet.search_spaces.template import template

SHAPES = ((56, 64), (28, 128), (14, 256), (7, 512))


@template("winograd_error", version=1)
def convolution(size: int, channels: int, m: int) -> tuple[Any, list]:
    """A square image's 3x3 convolution by F(m x m, 3 x 3), channels last."""
    shape = conv_shape("winograd_error", "NHWC", 1, channels, (size, size), channels, (3, 3), 1, 1)
    cfg = get_config()
    cfg.define_knob("algorithm", [f"winograd{m}"])
    winograd.define(cfg, shape, Target.current())
    data = te.placeholder(shape.data_shape, name="data")
    weight = te.placeholder(shape.weight_shape, name="weight")
    return winograd.schedule(cfg, shape, data, weight, (), False)


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
            task = whet.create_task(convolution, args=(size, channels, m), target="llvm")
            out = np.full(right.shape, np.nan, "float32")
            whet.build(task)(x, w, out)
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
