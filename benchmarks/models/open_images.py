"""Networks for images of any size beside the same for one size, and beside PyTorch's own call.

    python benchmarks/models/open_images.py [resnet50 mobilenet_v2 unet] [--threads 1] [--rounds 9]

A UNet has sizes in steps. All take turns at each size; times are the least, in ms, errors parts of
PyTorch's largest number.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

import whet
from whet.bench.networks import network

LOW, HIGH = 96, 288
SIZES = ((224, 224), (256, 192), (97, 101))
STEPS = {"unet": 16}
"""From one size to the next: the nearest smaller ones of these are taken."""


def least(calls: dict[str, Any], rounds: int) -> dict[str, float]:
    """The least seconds of each call, in turns."""
    found = dict.fromkeys(calls, float("inf"))
    for k in range(rounds + 1):  # the first one warms up
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            took = time.perf_counter() - begin
            found[name] = min(found[name], took) if k else found[name]
    return found


def main() -> None:
    """Print a line for each network and size."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=["resnet50", "mobilenet_v2", "unet"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    target = f"llvm -num_threads={options.threads}"
    for name in options.networks:
        module = network(name, batch=1).module
        auto = torch.export.Dim.AUTO
        program = torch.export.export(
            module, (torch.randn(1, 3, 224, 256),), dynamic_shapes=({2: auto, 3: auto},)
        )
        step = STEPS.get(name, 1)
        size = [whet.dynamic(LOW, HIGH, step) for _ in "hw"]
        (given,) = program.graph_signature.user_inputs
        any_size = whet.compile(program, {given: (1, 3, *size)}, target)
        for h, w in SIZES:
            h, w = h - h % step, w - w % step
            x = torch.randn(1, 3, h, w)
            fixed = whet.compile(torch.export.export(module, (x,)), target=target)
            wanted = module(x).detach().numpy()
            error = np.abs(any_size(x.numpy()) - wanted).max() / np.abs(wanted).max()
            calls = {
                "any size": lambda x=x, any_size=any_size: any_size(x.numpy()),
                "fixed": lambda x=x, fixed=fixed: fixed(x.numpy()),
                "eager": lambda x=x, module=module: module(x),
            }
            took = ", ".join(f"{n} {1e3 * s:.2f}" for n, s in least(calls, options.rounds).items())
            print(f"{name} {h}x{w}: {took} ms; error {error:.1e}", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
