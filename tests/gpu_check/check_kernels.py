"""Checks the kernels of one template on a device against numpy; says as JSON what it found.

    python tests/gpu_check/check_kernels.py softmax --device cuda:0 --dtype float32

A process of its own: a kernel that takes the device's context down takes this process, and nothing
else. For each shape it checks the default config, and then configs at random until its time is up.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from whet.bench.turns import library_threads

library_threads(1)

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from check_cases import cases
from check_device import device_of

import whet
from whet.bench.arguments import arrays_of
from whet.bench.check import error_of
from whet.bench.contest import run_once
from whet.bench.gpu.place import gpu
from whet.bench.operators.table import expected
from whet.compiler.errors import PrunedError
from whet.compiler.runtime.arrays.device import Device, context_of
from whet.measure.gpu.runner import is_lost

DRAWS = 50
"""Configs at random of a shape that are checked at most."""


Check = Callable[[Any], bool]
"""Checks a config, None for the default one; returns whether the device could run it at all."""


@dataclass
class Found:
    """The outcome of the checks.

    Attributes:
        kernels: how many ran and were right.
        worst: the largest error, as a part of the largest number.
        pruned: configs that no device of this kind could run.
        failed: shape, config and error of what went wrong.
        lost: whether the device can be used no more in this process, so that nothing followed.
    """

    kernels: int = 0
    worst: float = 0.0
    pruned: int = 0
    failed: list[str] = field(default_factory=list)
    lost: bool = False


class Checker:
    """Checks kernels on one device.

    Args:
        device: which.
        target: what they are built for.
        seed: of the configs that are drawn.
    """

    def __init__(self, device: Device, target: str, seed: int = 0) -> None:
        self._device, self._target = device, target
        self._rng = np.random.default_rng(seed)
        self.found = Found()

    def prepare(self, template: str, args: tuple[Any, ...]) -> tuple[Check, Callable[[], Any]]:
        """Two functions: one checks a config of a task, the other draws one at random."""
        task = whet.create_task(template, args=args, target=self._target)
        arrays = arrays_of(task)
        right = expected(task, arrays.inputs)
        assert right is not None, f"{template} has no reference"
        place = gpu(self._device)
        inputs = [place.put(array) for array in arrays.inputs]

        def check(config: Any) -> bool:
            try:
                schedule, tensors = task.instantiate(config)
                kernel = whet.build(schedule, tensors, task.target)
            except PrunedError:
                self.found.pruned += 1
                return False
            _, outputs = run_once(place, arrays, inputs, kernel)
            error = error_of(str(task.workload), outputs, right)
            self.found.worst = max(self.found.worst, error)
            self.found.kernels += 1
            return True

        def draw() -> Any:
            space = task.config_space
            return space.decode(space.valid_points.sample(self._rng, 1)[0])

        return check, draw

    def one(self, what: str, check: Check, config: Any) -> None:
        """Check one config; what goes wrong is kept, and the next one is checked."""
        chosen = "default config" if config is None else str(config)
        try:
            if not check(config) and config is None:
                self.found.failed.append(f"{what}, {chosen}: no device of this kind could run it")
        except Exception as error:  # the driver's, too
            self.found.failed.append(f"{what}, {chosen}: {type(error).__name__}: {error}")
            self.found.lost = is_lost(context_of(self._device))


def checked(
    template: str,
    dtype: str,
    device: Device,
    target: str,
    seconds: float,
    large: bool,
    seed: int,
    say: Callable[[Found], object] = lambda found: None,
    draws: int = DRAWS,
) -> Found:
    """Check a template's kernels of one dtype.

    Args:
        template: its name.
        dtype: of the tensors.
        device: where they run.
        target: what they are built for.
        seconds: after so many no further config is drawn; default configs are all checked.
        large: whether the shapes of models are among the cases.
        seed: of the configs that are drawn.
        say: is told after each kernel what was found so far.
        draws: configs of each shape at most.
    """
    until = time.monotonic() + seconds
    checker = Checker(device, target, seed)
    ready = []
    for args in cases(template, dtype, large):
        check, draw = checker.prepare(template, args)
        checker.one(f"{template}{args}", check, None)
        say(checker.found)
        if checker.found.lost:
            return checker.found
        ready.append((args, check, draw))
    for k in range(draws * len(ready)):
        if time.monotonic() > until or checker.found.lost:
            break
        args, check, draw = ready[k % len(ready)]
        checker.one(f"{template}{args}", check, draw())
        say(checker.found)
    return checker.found


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("template")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--draws", type=int, default=DRAWS, help="configs at random of a shape")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true", help="the shapes of models, too")
    return parser.parse_args(arguments)


def main() -> None:
    """Check what the command line names; what was found so far is a line of JSON each time."""
    asked = parsed()
    found = checked(
        asked.template, asked.dtype, device_of(asked.device), asked.target, asked.seconds,
        asked.large, asked.seed, say, asked.draws,
    )  # fmt: skip
    say(found)


def say(found: Found) -> None:
    """Print what was found: who reads it has it even if this process is lost."""
    print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
