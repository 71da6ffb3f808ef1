"""Weights that a GPU's kernel reads as they are, packed ahead all the same: a copy of them.

Whether an algorithm packs is its config's affair; ``f(x, f.pack_weights(w), y)`` is right for all.
"""

from __future__ import annotations

from collections.abc import Callable

from whet.compiler import te
from whet.compiler.te import Tensor
from whet.search_spaces.operators.gpu.results import Scheduled
from whet.search_spaces.rules.gpu.hardware.threads import bind_fused


def with_copied_weights(
    weight: Tensor, packed: bool, schedule: Callable[[Tensor], Scheduled]
) -> Scheduled:
    """A schedule that reads weights, or the copy of them that is made ahead of its calls.

    Args:
        weight: an input.
        packed: whether the kernel takes what ``pack_weights`` returns.
        schedule: makes a schedule, and the kernel's arguments, that reads what it is given.
    """
    if not packed:
        return schedule(weight)
    copy = te.compute(weight.shape, lambda *index: weight(*index), name="packed")
    s, arguments = schedule(copy)
    bind_fused(s[copy])
    s[copy].compute_ahead()
    return s, [weight if t is copy else t for t in arguments]
