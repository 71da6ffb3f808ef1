"""Recorded spaces as a search sees them: the task, and what each config costs.

A recording belongs to the space that it was made of. Where the template, its sizes or its knobs are
others by now, reading it is an error: replayed over another space it would measure nothing.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent)]

import numpy as np
from spaces import SPACES

import whet
from whet.measure import MeasureResult, ReplayPool

RECORDED = Path(__file__).parent / "recorded"
OTHER_SHAPES: dict[str, tuple[str, tuple]] = {
    "depthwise_other": ("recorded/depthwise", (128, 28, 28, 3)),
    "softmax_other": ("recorded/softmax", (256, 768)),
}
"""More shapes of templates that `SPACES` has in one shape only: what their searches learn from."""
EVERY = SPACES | OTHER_SHAPES
GOAL = 0.95
"""The share of the best known speed that a search has to reach."""


@dataclass(frozen=True)
class Recording:
    """A space that was measured whole.

    Attributes:
        name: of `SPACES` or `OTHER_SHAPES`.
        task: what was measured.
        costs: for each index of the space seconds per call, or a failure's status.
        machine: what it was measured on.
    """

    name: str
    task: Any
    costs: tuple[float | str, ...]
    machine: dict[str, Any]

    @cached_property
    def seconds(self) -> np.ndarray:
        """Seconds per call of each index; infinity for failures."""
        return np.array([c if isinstance(c, float) else np.inf for c in self.costs])

    @property
    def goal(self) -> float:
        """Seconds per call that are 95 % of the best known speed."""
        return float(self.seconds.min()) / GOAL

    @cached_property
    def default(self) -> int:
        """The index of the default config."""
        return int(self.task.config_space.index(self.task.config_space.default))

    @cached_property
    def by_config(self) -> dict[str, Any]:
        """The answers of a replay pool: `config.key` -> seconds, or a failed result."""
        space = self.task.config_space
        return {
            space.at(i).key: cost if isinstance(cost, float) else _failed(cost)
            for i, cost in enumerate(self.costs)
        }

    def pool(self) -> ReplayPool:
        """A pool that answers from the recording."""
        return ReplayPool(self.by_config)

    def facts(self) -> dict[str, Any]:
        """How hard the space is: its size, its failures, its spread, how rare good configs are."""
        ok = self.seconds[np.isfinite(self.seconds)]
        near = int(np.count_nonzero(ok <= 1.05 * ok.min()))
        facts = {
            "configs": len(self.costs),
            "failed": dict(Counter(c for c in self.costs if isinstance(c, str))),
            "best_us": float(ok.min()) * 1e6,
            "default": float(self.seconds[self.default] / ok.min()),
            "spread": float(ok.max() / ok.min()),
            "one_in": len(self.costs) / near,
        }
        return facts | {"wide": facts["spread"] >= 1000, "rare": facts["one_in"] > 200}

    def others(self) -> list[str]:
        """The recordings of the same template in other shapes."""
        template = EVERY[self.name][0]
        return [n for n in recorded() if n != self.name and EVERY[n][0] == template]


def recorded() -> list[str]:
    """The names that there is a recording of, in the order of `SPACES`."""
    return [name for name in EVERY if (RECORDED / f"{name}.json").exists()]


def read(name: str, folder: Path = RECORDED) -> Recording:
    """One recording.

    Raises:
        SystemExit: there is none, or it is of another space than the template has now.
    """
    path = folder / f"{name}.json"
    if name not in EVERY or not path.exists():
        raise SystemExit(f"{path}: there is no such recording; record.py makes one")
    data = json.loads(path.read_text())
    template, args = EVERY[name]
    task = whet.create_task(template, args=args, target="llvm")
    knobs = {k.name: list(k.choices) for k in task.config_space.knobs.values()}
    now = json.loads(json.dumps(knobs))  # tuples are lists there
    was = {"template": data["template"], "args": data["args"], "knobs": data["knobs"]}
    if was != {"template": template, "args": list(args), "knobs": now}:
        raise SystemExit(f"{path}: it is of another space than {template}{args} has now; record it")
    if len(data["costs"]) != task.config_space.size or None in data["costs"]:
        raise SystemExit(f"{path}: it is not whole; record it")
    costs = tuple(c if isinstance(c, str) else float(c) for c in data["costs"])
    return Recording(name, task, costs, data["machine"])


def _failed(status: str) -> MeasureResult:
    return MeasureResult(status, error="failed when the space was recorded", stage="run")
