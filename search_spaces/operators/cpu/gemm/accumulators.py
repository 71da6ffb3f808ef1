"""Where a register tile is summed up: in local memory, below the stage that stores it."""

from __future__ import annotations

from whet.compiler.te import Schedule, Tensor


def accumulators(s: Schedule, product: Tensor, stored: Tensor) -> Tensor:
    """The stage that sums ``product`` up in registers; attach it to the tile's loop of ``stored``.

    Args:
        s: the schedule; nothing of ``product`` is scheduled yet.
        product: the reduction.
        stored: what is made of it (``Epilogue.apply``'s result): ``product`` itself, or a stage
            that reads it.
    """
    if stored.op is product.op:
        return s.cache_write(product, "local")
    s[product].set_scope("local")
    return product
