"""Stages that the schedules of GEMMs and convolutions share: epilogues, accumulators, threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.topi.nn.epilogue import Epilogue


def with_epilogue(
    plain: Tensor, epilogue: Any, channel_axis: int | tuple[int, ...]
) -> tuple[Schedule, Tensor, list[Tensor]]:
    """A schedule that applies the epilogue as the result is stored.

    Args:
        plain: the result without the epilogue, which is inlined.
        epilogue, channel_axis: as for ``Epilogue.of`` and ``Epilogue.apply``.

    Returns:
        The schedule, the result, and the tensors that the epilogue reads.
    """
    out, extras = Epilogue.of(epilogue).apply(plain, channel_axis)
    s = te.create_schedule(out.op)
    if out.op is not plain.op:
        s[plain].compute_inline()
    return s, out, extras


def accumulators(s: Schedule, product: Tensor, stored: Tensor) -> Tensor:
    """The stage that sums ``product`` up in registers; attach it to the tile's loop of ``stored``.

    Args:
        s: the schedule; nothing of ``product`` is scheduled yet.
        product: the reduction.
        stored: ``product`` itself, or the stage that reads it (``Epilogue.apply``'s result).
    """
    if stored.op is product.op:
        return s.cache_write(product, "local")
    s[product].set_scope("local")
    return product


def on_threads(stage: Stage, loop: IterVar, cfg: Any) -> bool:
    """Run a loop on the target's threads where the config in force says so; returns whether."""
    target = Target.current() or Target("llvm")
    if target.num_threads < 2 or not cfg["parallel"].val:
        return False
    stage.parallel(loop, cfg["grain"].val or None)
    return True


def or_zero(value: Any, tests: Sequence[Any]) -> Any:
    """A value where all tests hold, else zero; the value itself without tests."""
    if not tests:
        return value
    return te.if_then_else(te.all(*tests), value, te.const(0, value.dtype))


def within(places: Sequence[Any], shape: Any) -> list[Any]:
    """The tests that places lie in the image of a convolution, where there is padding."""
    tests: list[Any] = []
    for i, n, before, after in zip(places, shape.image, shape.before, shape.after):
        tests += [i >= 0] if before else []
        tests += [i < n] if after else []
    return tests


def empty_gemm(
    a: Tensor,
    b: Tensor,
    shape: tuple[int, ...],
    term: Callable[[Tensor, tuple, Any], Any],
    K: int,
    epilogue: Epilogue,
    channel_axis: int,
    name: str,
    packed: bool = False,
) -> tuple[Schedule, list[Tensor]]:
    """The schedule of ``sum over k of term(b, index, k)``, and its arguments.

    A dimension has extent 0: no tiles and no knobs; a sum of nothing is 0.

    Args:
        a, b: the operands.
        shape: of the result.
        term: what is summed up, of ``b`` or its packed copy, a place of the result, and k.
        K: the terms of a sum.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.
        packed: ``b`` is copied ahead of the calls.
    """
    right = te.compute(b.shape, lambda *i: b(*i), name=f"{b.name}.packed") if packed else b
    k = te.reduce_axis((0, K), name="k")
    sums = te.compute(shape, lambda *index: te.sum(term(right, index, k), axis=k), name=name)
    out, extras = epilogue.apply(sums, channel_axis)
    s = te.create_schedule(out.op)
    if packed:
        s[right].compute_ahead()
    return s, [a, b, *extras, out]
