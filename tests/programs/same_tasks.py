"""The digest of a task: its names, its space, programs of some configs, features, costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from same_entry import CUDA, Texts, attempted, data, internal, named, program, rows

SEED = 20240607


def task_texts(task: Any, target: str, others: int = 2, features: int = 8) -> Texts:
    """The texts of a task.

    Args:
        task: whose texts.
        target: as the corpus writes it.
        others: so many random configs have their programs digested beside the default one.
        features: so many random configs have their feature rows digested.
    """
    where = named(target)
    space = task.config_space
    drawn = [int(i) for i in space.sample_ints(min(features, space.size), seed=SEED)]
    configs = {"default": space.default, **{f"config {i}": space.at(i) for i in drawn[:others]}}
    yield from attempted(f"{where}/task", lambda: [("", _described(task))])
    yield from attempted(f"{where}/space", lambda: [("", _space(space, drawn))])
    yield from attempted(f"{where}/space table", lambda: [("", str(space))])
    yield from attempted(
        f"{where}/quick space", lambda: [("", _space(space.at_level("quick"), []))]
    )
    for name, config in configs.items():
        schedule, args = task.instantiate(config)
        kernel = task.name if task.name.isidentifier() else "kernel"
        yield from program(schedule, args, target, f"{name}/", name=kernel)
        yield from attempted(f"{name}/{where}/trace", lambda s=schedule: [("", str(s.trace))])
    encoded = [space.encode(c) for c in (space.default, *map(space.at, drawn))]
    points = np.array(encoded, np.int64).reshape(len(encoded), len(space.knobs))
    yield from attempted(f"{where}/features", lambda: [("", _features(task, points))])
    yield from attempted(f"{where}/knobs", lambda: [("", rows(space.features_of_points(points)))])
    if target in CUDA.values():
        yield from attempted(f"{where}/predicted", lambda: [("", _predicted(task))])


def _described(task: Any) -> str:
    return data(
        {
            "name": task.name,
            "workload": task.workload.key,
            "workload as JSON": task.workload.to_json(),
            "target": task.target.to_json(),
            "key": task.key,
            "shown": str(task),
            "flop": task.flop,
            "bytes": task.bytes,
            "arguments": [str(a) for a in task.kernel_args],
        }
    )


def _space(space: Any, drawn: list[int]) -> str:
    return data(
        {
            "fingerprint": space.fingerprint,
            "size": space.size,
            "exact": space.size_is_exact,
            "range": space.range_length,
            "knobs": list(space.knobs),
            "choices": list(space.cardinalities),
            "default": space.default.to_json(),
            "drawn": {i: space.at(i).to_json() for i in drawn},
        }
    )


def _features(task: Any, points: np.ndarray) -> str:
    return rows(internal("LoopFeatures")(task).of_points(points))


def _predicted(task: Any) -> str:
    """The static model's estimate of the default config, without a compiler's word on registers."""
    import whet

    schedule, args = task.instantiate(None)
    with task.target:
        module = whet.lower(schedule, args)
    artifact = whet.driver.compile_module(module, task.target)
    return data(internal("predicted")(module, task.target, artifact, {}))
