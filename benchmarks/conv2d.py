"""A ResNet-50 convolution (56x56, 64 to 64 channels, 3x3): each algorithm, tuned, against PyTorch.

NHWC with weights packed ahead on both sides: PyTorch's are in mkldnn's own layout, its images in
channels_last. Each algorithm of the space has the best of its trials; rates are those of the direct
algorithm's operations, Winograd's too.

    python benchmarks/conv2d.py [--save] [--trials 200] [--log bench.db]
"""

from __future__ import annotations

import harness

import argparse
import tempfile
import time
from typing import Any

import numpy as np

import whet
from whet.compiler.target.machine import host

SIZES = (1, 64, 56, 56, 64, 3, 3, 1, 1)
ARGS = (*SIZES, 1, 1, "float32", (), True)


def torch_contestants(x: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    """PyTorch's convolutions on one thread; none where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    conv, mkldnn = torch.nn.functional.conv2d, torch.ops.mkldnn
    image = torch.from_numpy(x).permute(0, 3, 1, 2)  # channels_last
    weights = torch.from_numpy(np.ascontiguousarray(w.transpose(3, 2, 0, 1)))
    last = weights.contiguous(memory_format=torch.channels_last)
    window = [1, 1], [1, 1], [1, 1], 1
    packed = mkldnn._reorder_convolution_weight(weights, *window, list(image.shape))

    def prepacked() -> Any:
        return mkldnn._convolution_pointwise(image, packed, None, *window, "none", [], "")

    return {
        "torch channels_last": lambda: conv(image, last, padding=1),
        "torch prepacked": prepacked,
    }


def best_of_each(result: whet.TuneResult) -> dict[str, Any]:
    """The best config of each algorithm that was tried."""
    found: dict[str, Any] = {}
    for trial in result.trials:
        name = trial.config.choice("algorithm")
        if trial.result.ok and (name not in found or trial.cost < found[name].cost):
            found[name] = trial
    return {name: found[name].config for name in sorted(found)}


def checked(f: Any, x: np.ndarray, w: np.ndarray, right: np.ndarray) -> tuple[Any, float]:
    """A call of a kernel with packed weights, and its largest error as a share of the largest."""
    packed, y = f.pack_weights(w), np.full(right.shape, np.nan, np.float32)
    f(x, packed, y)
    error = float(np.abs(y - right).max() / np.abs(right).max())
    if not error < 1e-4:
        raise SystemExit(f"wrong by {error}")
    return lambda: f(x, packed, y), error


def main() -> None:
    """Tune, compare, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--log")
    parser.add_argument("--rounds", type=int, default=41)
    options, _ = parser.parse_known_args()
    log = options.log or tempfile.mkdtemp() + "/bench.db"
    task = whet.create_task("conv2d_nhwc", args=ARGS, target="llvm -num-threads=1")
    start = time.perf_counter()
    result = whet.tune(task, trials=options.trials, log=log, seed=0)
    spent = time.perf_counter() - start
    print(result, flush=True)
    harness.pin()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 56, 56, 64), dtype=np.float32)
    w = rng.standard_normal((3, 3, 64, 64), dtype=np.float32)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    right = np.einsum("nhwcyx,yxco->nhwo", windows, w.astype(np.float64), optimize=True)
    kernels = {"default": whet.build(task), "tuned": whet.build(task, log=log)}
    for name, config in best_of_each(result).items():
        with task.target:
            kernels[name] = whet.build(*task.instantiate(config), task.target)
    contestants: dict[str, Any] = {}
    errors = {}
    for name, f in kernels.items():
        contestants[name], errors[name] = checked(f, x, w, right)
    contestants |= torch_contestants(x, w)
    peaks: list[float] = []
    contestants["peak"] = lambda: peaks.append(host.fma_peak(seconds=0.02))
    samples = harness.interleaved(contestants, options.rounds)
    peak, flop = float(np.median(peaks)), task.flop
    rows = {}
    lines = [f"FMA peak {peak / 1e9:.1f} GFLOP/s"]
    for name, s in samples.items():
        if name == "peak":
            continue
        rows[name] = {"best_ms": s.best * 1e3, "median_ms": s.median * 1e3}
        error = f", error {errors[name]:.0e}" if name in errors else ""
        lines.append(
            f"{name:20s} {s.best * 1e3:.3f} ms best, {s.median * 1e3:.3f} median, "
            f"{flop / s.best / peak:.3f} of peak; tuned is {s.best / samples['tuned'].best:.2f} x "
            f"as fast ({s.median / samples['tuned'].median:.2f} by medians){error}"
        )
    if not any(name.startswith("torch") for name in samples):
        lines.append("PyTorch is not installed: no peer")
    lines.append(
        f"tuning: {options.trials} trials in {spent:.1f} s; best config {result.best.config}"
    )
    harness.report("conv2d", lines, {"rows": rows, "peak_gflops": peak / 1e9})


if __name__ == "__main__":
    main()
