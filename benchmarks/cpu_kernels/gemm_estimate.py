"""How well the estimate of a GEMM ranks configs: the default beside the best that is measured.

    python benchmarks/cpu_kernels/gemm_estimate.py FILE [--gemms 40] [--configs 40]

Of each drawn GEMM (`../trees/gemm_draws.py`) it measures the default and configs near and far from
it in turns on one core, and keeps choices and seconds in FILE; what that has of a run before is not
measured again. Constants of the estimate are fitted to the GEMMs whose numbers three does not
divide, the others are held back. `../two_trees.py REV --only gemms` has defaults of two revisions
in turns. `WHET_CPU=x86-64-v3` measures with vectors of 256 bits.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "benchmarks" / room) for room in (".", "trees"))]

import harness

import argparse
import dataclasses
import json
from contextlib import suppress
from statistics import geometric_mean
from typing import Any

import numpy as np
from gemm_draws import drawn as gemms
from tree_works import ONE_CORE, aligned, best_of

import whet
from whet.compiler.errors import SpaceError
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.rules.cpu.gemm.costs import processor_of
from whet.search_spaces.rules.cpu.gemm.estimate import cycles
from whet.search_spaces.rules.cpu.gemm.plan import Plan
from whet.search_spaces.rules.vectors import vector_widths

ROUNDS = 4


def configs_of(space: Any, size: GemmSize, count: int) -> list[Any]:
    """The default, and a third each of: one to three choices from it, liked, and anywhere."""
    rng = np.random.default_rng(0)
    drawn = map(space.decode, space.valid_points.sample(rng, 20 * count))
    points = list(filter(_by_gemm, drawn))
    points.sort(key=lambda config: estimated(size, config.as_dict()))
    default = space.nearest({"rule": "gemm"})
    found = {str(x): x for x in (default, *points[: count // 3], *points[:: 3 * 20])}
    while len(found) <= count:
        near = default.as_dict()
        other = points[int(rng.integers(len(points)))].as_dict()
        for name in rng.choice(list(near), int(rng.integers(1, 4)), replace=False):
            near[name] = other[name]
        if "vector_bits" in other and rng.random() < 0.3:
            near |= {name: other[name] for name in ("vector_bits", "tile")}
        with suppress(SpaceError):
            config = space.from_choices(near)
            if _by_gemm(config):
                found[str(config)] = config
    return [*found.values()]


def _by_gemm(config: Any) -> bool:
    """True for a config of the rule that is estimated, where others compete."""
    return config.as_dict().get("rule", "gemm") == "gemm"


def estimated(size: GemmSize, choices: dict[str, Any]) -> float:
    """The estimate of a config in cycles."""
    named = {field.name for field in dataclasses.fields(Plan)}
    given = {name: x for name, x in choices.items() if name in named}
    fields = {name: tuple(x) if isinstance(x, list) else x for name, x in given.items()}
    target = whet.Target(ONE_CORE).canonical()
    fields.setdefault("vector_bits", vector_widths(target)[0])
    turned = fields["lanes"] == "rows"
    size, plan = size.turned if turned else size, Plan(**fields)
    return cycles(size, plan, processor_of(target))


def size_of(template: str, args: tuple) -> GemmSize:
    """The GEMM of a template's arguments."""
    batch, rest = (args[0], args[1:]) if template == "batch_matmul" else (1, args)
    return GemmSize(*rest[:3], batch, *rest[3:])


def measured(template: str, args: tuple, count: int) -> list[dict[str, Any]]:
    """The choices of configs of a GEMM, the default first, and their seconds."""
    task = whet.create_task(template, args=args, target=ONE_CORE)
    configs = configs_of(task.config_space, size_of(template, args), count)
    kernels = [whet.build(*task.instantiate(config), task.target) for config in configs]
    arrays = [aligned(tuple(map(int, t.shape)), str(t.dtype)) for t in task.instantiate()[1]]
    seconds = [float("inf")] * len(kernels)
    for _ in range(ROUNDS):
        for number in np.random.permutation(len(kernels)):
            took = best_of(lambda number=number: kernels[number](*arrays))
            seconds[number] = min(seconds[number], took)
    return [
        {"choices": config.as_dict(), "seconds": took} for config, took in zip(configs, seconds)
    ]


def ranked(size: GemmSize, rows: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Of the estimate's favourite, and of the default: its time over the best one; a correlation.

    The correlation is Spearman's, of estimates and seconds.
    """
    estimates = [estimated(size, row["choices"]) for row in rows]
    seconds = [row["seconds"] for row in rows]
    ranks = [np.argsort(np.argsort(x)) for x in (estimates, seconds)]
    liked = seconds[int(np.argmin(estimates))]
    correlation = float(np.corrcoef(*ranks)[0, 1])
    return liked / min(seconds), seconds[0] / min(seconds), correlation


def main() -> None:
    """Measure, keep, and say how the estimate ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path, help="where measurements are kept")
    parser.add_argument("--gemms", type=int, default=40)
    parser.add_argument("--configs", type=int, default=40, help="of each")
    options = parser.parse_args()
    harness.pin()
    kept: dict[str, Any] = {}
    if options.file.exists():
        kept = json.loads(options.file.read_text())
    lines, halves = [], ([], [])
    for number, (name, (template, args)) in enumerate(gemms(options.gemms).items()):
        if name not in kept:
            kept[name] = measured(template, args, options.configs)
            options.file.write_text(json.dumps(kept))
        liked, default, correlation = ranked(size_of(template, args), kept[name])
        halves[number % 3 == 0].append(liked)
        lines.append(
            f"{name}: liked {liked:.2f}, default then {default:.2f} of the best's time, "
            f"ranks {correlation:.2f}"
        )
        print(lines[-1], flush=True)
    for half, found in zip(("fitted", "held back"), halves):
        if found:
            print(f"{half}: geometric mean {geometric_mean(found):.3f}, worst {max(found):.2f}")


if __name__ == "__main__":
    main()
