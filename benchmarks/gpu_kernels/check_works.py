"""Compiles the works of the benchmark without a GPU; says what each kernel takes of one.

    python benchmarks/gpu_kernels/check_works.py [--arch sm_80 sm_90] [--only GROUP_OR_WORK ...]

Default configs, by NVRTC: registers, shared memory and spills are known before anything runs. What
a call costs is the prediction of the static model, and no measurement.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import argparse
from dataclasses import dataclass
from typing import Any

from gpu_works import GROUPS, SHORT
from layers import Work, chosen

import whet
from whet.compiler import driver
from whet.compiler.abi.artifact import Resources
from whet.compiler.codegen.cuda.nvrtc import compile_cubin
from whet.measure.gpu.cost.predicted import predicted
from whet.measure.gpu.pruning import block_threads, check_resources
from whet.measure.device.specs import spec_of

ARCHITECTURES = ("sm_80", "sm_90")


@dataclass(frozen=True)
class Compiled:
    """A work's kernels for one architecture.

    Attributes:
        threads: of a block, by kernel.
        resources: what each kernel takes.
        model: what the static model says of a call.
        rate: its share of the limit, of arithmetic or of moving the bytes, by the model.
    """

    threads: dict[str, int]
    resources: dict[str, Resources]
    model: dict[str, Any]
    rate: float

    @property
    def spilled(self) -> int:
        """Bytes of registers that do not fit."""
        return sum(r.spill_stores for r in self.resources.values())

    def __str__(self) -> str:
        parts = [
            f"{self.threads[name]} threads of {r.registers} registers"
            + (f", {r.spill_stores} bytes spilled" if r.spill_stores else "")
            for name, r in self.resources.items()
        ]
        seconds, model = self.model["seconds"], self.model
        parts.append(
            f"model: {seconds * 1e6:.1f} us, {self.rate:.2f} of the limit, occupancy "
            f"{model['occupancy']:.2f}, bound by {model['limited_by']}"
        )
        return "; ".join(parts)


def compiled(work: Work, arch: str) -> Compiled:
    """Compile a work's default config.

    Args:
        work: which.
        arch: e.g. ``"sm_90"``.

    Raises:
        WhetError: it cannot be compiled, or could not be launched.
    """
    task = whet.create_task(work.template, args=work.args, target=f"cuda -arch={arch}")
    with task.target:
        schedule, tensors = task.instantiate()
        module = driver.lower(schedule, tensors)
    artifact = driver.compile_module(module, task.target)
    resources = dict(compile_cubin(artifact.source, arch).resources)
    check_resources(artifact, resources)
    model = predicted(module, task.target, artifact, resources)
    spec = spec_of(task.target)
    peak = 2 * spec.limits.fma32 * spec.multiprocessors * spec.hertz
    limit = max(task.flop / peak, task.bytes / spec.memory_bytes_s)
    return Compiled(block_threads(artifact), resources, model, limit / model["seconds"])


def main() -> int:
    """Compile what the command line names; 1 where something does not compile."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", nargs="+", default=list(ARCHITECTURES))
    parser.add_argument("--only", nargs="+", default=list(SHORT), metavar="NAME")
    options = parser.parse_args()
    failed = spilling = count = 0
    for _, work in chosen(GROUPS, options.only):
        for arch in options.arch:
            count += 1
            try:
                found = compiled(work, arch)
            except whet.WhetError as error:
                failed += 1
                print(f"{work.name:32s} {arch}  FAILED: {error}", flush=True)
                continue
            spilling += found.spilled > 0
            print(f"{work.name:32s} {arch}  {found}", flush=True)
    print(f"{count - failed} of {count} compiled, {spilling} of them spill registers")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
