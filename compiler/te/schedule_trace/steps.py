"""One step of a trace: a primitive that was applied to a schedule or to a stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from whet.compiler.te.lang.tensor import Operation
from whet.compiler.te.primitives import annotate, cache, compute_at, loops, normalize, storage
from whet.compiler.te.primitives.rfactor import rfactor


def _by_name(*primitives: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {f.__name__: f for f in primitives}


ON_SCHEDULE = _by_name(cache.cache_read, cache.cache_write, rfactor, normalize.normalize)
"""The primitives of a schedule that a step may name."""

ON_STAGE = _by_name(
    loops.split, loops.fuse, loops.reorder, loops.tile,
    annotate.vectorize, annotate.unroll, annotate.parallel, annotate.bind, annotate.env_threads,
    annotate.pragma,
    compute_at.compute_at, compute_at.compute_inline, compute_at.compute_root,
    compute_at.compute_ahead,
    storage.set_scope, storage.storage_align, storage.double_buffer,
    storage.set_store_predicate, storage.store_nontemporal,
)  # fmt: skip
"""The primitives of a stage that a step may name."""


@dataclass(slots=True, frozen=True, eq=False)
class StageRef:
    """A stage as a step names it: by the operation that it was made for.

    ``op`` is what the stage computed just before the step; it has the axes that the step names.
    """

    origin: Operation
    op: Operation


@dataclass(slots=True, frozen=True, eq=False)
class Step:
    """One primitive: its name, its stage, arguments, options and results."""

    primitive: str
    stage: StageRef | None
    args: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Any, ...]
