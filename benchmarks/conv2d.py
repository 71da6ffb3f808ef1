"""A ResNet-50 convolution (56x56, 64 to 64 channels, 3x3): default and tuned against PyTorch.

PyTorch, where it is installed, is timed in both of its layouts, and with weights prepacked by
mkldnn; ours packs weights and pads the image inside the call.

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
from whet.compiler.target import host

ARGS = (1, 64, 56, 56, 64, 3, 3, 1, 1)


def torch_contestants(x: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    """PyTorch's convolutions on one thread; none where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    conv = torch.nn.functional.conv2d
    plain = torch.from_numpy(x), torch.from_numpy(w)
    last = tuple(t.contiguous(memory_format=torch.channels_last) for t in plain)
    out: dict[str, Any] = {
        "torch NCHW": lambda: conv(*plain, padding=1),
        "torch channels_last": lambda: conv(*last, padding=1),
    }
    module = torch.nn.Conv2d(w.shape[1], w.shape[0], 3, padding=1, bias=False)
    module.weight.copy_(plain[1])
    try:
        frozen = torch.jit.optimize_for_inference(torch.jit.script(module.eval()))
        for _ in range(3):
            frozen(plain[0])
        out["torch frozen"] = lambda: frozen(plain[0])
        for _ in range(3):
            frozen(last[0])
        out["torch frozen, channels_last"] = lambda: frozen(last[0])
    except RuntimeError as error:
        print(f"torch frozen: not timed: {error}")
    return out


def main() -> None:
    """Tune, compare, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--log")
    parser.add_argument("--rounds", type=int, default=41)
    options, _ = parser.parse_known_args()
    log = options.log or tempfile.mkdtemp() + "/bench.db"
    task = whet.create_task("conv2d_nchw", args=ARGS, target="llvm")
    start = time.perf_counter()
    result = whet.tune(task, trials=options.trials, log=log, seed=0)
    spent = time.perf_counter() - start
    print(result, flush=True)
    harness.pin()
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 64, 56, 56), dtype=np.float32)
    w = rng.standard_normal((64, 64, 3, 3), dtype=np.float32)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    right = np.einsum("nchwyx,ocyx->nohw", windows, w.astype(np.float64), optimize=True)
    y = np.empty(right.shape, np.float32)
    contestants: dict[str, Any] = {}
    for name, f in {"default": whet.build(task), "tuned": whet.build(task, log=log)}.items():
        y[:] = np.nan
        f(x, w, y)
        error = float(np.abs(y - right).max())
        if not error < 1e-3:
            raise SystemExit(f"{name}: wrong by {error}")
        contestants[name] = lambda f=f: f(x, w, y)
    contestants |= torch_contestants(x, w)
    peaks: list[float] = []
    contestants["peak"] = lambda: peaks.append(host.fma_peak(seconds=0.02))
    samples = harness.interleaved(contestants, options.rounds)
    peak, flop = float(np.median(peaks)), task.flop
    peers = {n: s for n, s in samples.items() if n.startswith("torch")}
    rows = {}
    lines = [f"FMA peak {peak / 1e9:.1f} GFLOP/s"]
    for name, s in samples.items():
        if name == "peak":
            continue
        rows[name] = {"best_ms": s.best * 1e3, "median_ms": s.median * 1e3}
        lines.append(
            f"{name:28s} {s.best * 1e3:.3f} ms best, {s.median * 1e3:.3f} median, "
            f"{flop / s.best / peak:.3f} of peak; tuned is {s.best / samples['tuned'].best:.2f} x "
            f"as fast ({s.median / samples['tuned'].median:.2f} by medians)"
        )
    if not peers:
        lines.append("PyTorch is not installed: no peer")
    lines.append(
        f"tuning: {options.trials} trials in {spent:.1f} s; best config {result.best.config}"
    )
    harness.report("conv2d", lines, {"rows": rows, "peak_gflops": peak / 1e9})


if __name__ == "__main__":
    main()
