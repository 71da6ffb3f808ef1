"""The algorithms of a convolution that compete in one space: the knob that says which.

A rule defines the same knobs whatever the algorithm is. Those that the one in force does not
read are pinned to their first choices, so that no program is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv import (
    channels_last,
    converted,
    direct_nchw,
    im2col_nchw,
    winograd,
)
from whet.search_spaces.rules.cpu.conv.estimate import direct
from whet.search_spaces.rules.cpu.conv.estimate import winograd as estimates
from whet.search_spaces.rules.cpu.conv.estimate.costs import Work, costs_of
from whet.search_spaces.rules.cpu.conv.estimate.space import Cost, Space
from whet.search_spaces.rules.vectors import lanes_of, vector_registers

#: what threads must make of the time of one, so that busy cores cost little
_SAVED = 1.25

LAST = "channels_last"
"""The algorithm that computes with the channels last what has them first."""

Stages = (
    channels_last.ChannelsLast
    | im2col_nchw.Columns
    | direct_nchw.Direct
    | winograd.Winograd
    | converted.Converted
)
"""The stages of an algorithm."""


class KnobsOf:
    """The knobs of an algorithm, which other algorithms do not read.

    Args:
        cfg: where knobs are defined.
        readers: the algorithms that read the knobs.
        default: the algorithm that is the default one.
    """

    def __init__(self, cfg: Any, readers: tuple[str, ...], default: str) -> None:
        self._cfg = cfg
        self._readers = readers
        self._in_default = default in readers

    def define_knob(self, name: str, candidates: Iterable[Any], default: Any = None) -> None:
        """As a config's; where the default algorithm does not read it, the default is the first."""
        values = list(candidates)
        self._cfg.define_knob(name, values, default if self._in_default else values[0])
        pinned = _Pinned(_pinned, name=name, first=values[0], readers=self._readers)
        self._cfg.multi_filter(pinned)

    def multi_filter(self, filter: Callable[[Any], Any]) -> None:
        """As a config's."""
        self._cfg.multi_filter(filter)

    def __getitem__(self, name: str) -> Any:
        return self._cfg[name]


def stages_of(cfg: Prefixed, given: ConvOperands, name: str, target: Target) -> Stages:
    """The stages of the algorithm in force.

    Args:
        cfg: has the knobs of :func:`define_algorithm`.
        given: the operands.
        name: of the result.
        target: whose vectors.
    """
    chosen, shape = cfg["algorithm"].val, given.form.shape
    if chosen.startswith("winograd"):
        return winograd.Winograd.of(cfg, given, name, target)
    if shape.channels_last or given.form.block:
        return channels_last.ChannelsLast.of(cfg, given, name, chosen == "im2col")
    if chosen == LAST:
        return converted.Converted.of(cfg, given, name)
    kind = im2col_nchw.Columns if chosen == "im2col" else direct_nchw.Direct
    return kind.of(cfg, given, name)


def define_algorithm(
    cfg: Any, shape: ConvShape, target: Target, block: int = 0, ahead: bool = False
) -> bool:
    """Define the knob ``algorithm``, and the knobs of each algorithm.

    The default is what the estimate thinks best, of all of them.

    Args:
        block: channels of a block of NCHWc; else 0.
        ahead: whether the weights are packed ahead of the kernel's calls.

    Returns:
        True if the estimate says that the target's threads are worth waking.
    """
    spaces, default, best, parallel, _ = _estimated(shape, target, block, ahead)
    cfg.define_knob("algorithm", [name for names in spaces for name in names], default)
    for names, space in spaces.items():
        own = KnobsOf(cfg, names, default) if len(spaces) > 1 else cfg
        space.define(own, best if default in names else space.first)
    return parallel


def least_cycles(shape: ConvShape, target: Target, ahead: bool) -> float:
    """The estimated cycles of the default config.

    Args:
        shape, target, ahead: as of :func:`define_algorithm`.
    """
    return _estimated(shape, target, 0, ahead)[-1]


@lru_cache(maxsize=1024)
def _estimated(
    shape: ConvShape, target: Target, block: int, ahead: bool
) -> tuple[dict[tuple[str, ...], Space], str, dict[str, Any], bool, float]:
    """The knobs by algorithm; the best algorithm, its choices, whether parallel, its cycles."""
    spaces = _spaces(shape, target, block)
    lanes, registers = lanes_of(target, shape.dtype), vector_registers(target)
    found: list[tuple[float, str, dict[str, Any], bool]] = []
    for threads in dict.fromkeys((1, target.num_threads)):
        work = Work(shape, lanes, ahead, registers, threads, costs_of(target))
        for names, space in spaces.items():
            for name in names:
                chosen, cycles = space.first, 0.0
                if not shape.is_empty:
                    chosen, cycles = space.best(cost_of(name, work, block))
                worth = cycles * (_SAVED if threads > 1 else 1.0)
                found.append((worth, name, chosen, threads > 1))
    cycles, name, chosen, parallel = min(found, key=lambda one: one[0])
    return spaces, name, chosen, parallel, cycles


def cost_of(name: str, work: Work, block: int = 0) -> Cost:
    """The cycles of an algorithm by its knobs.

    Args:
        name: of the algorithm. work: the convolution. block: of NCHWc.
    """
    if name.startswith("winograd"):
        return partial(estimates.cycles, work, m=int(name.removeprefix("winograd")))
    if work.shape.channels_last or block:
        return partial(direct.pixels_by_channels, work, im2col=name == "im2col", block=block)
    if name == LAST:
        inner = replace(work, shape=converted.shape_last(work.shape))
        return partial(direct.converted, work, inner)
    return partial(direct.columns if name == "im2col" else direct.planes, work)


def _spaces(shape: ConvShape, target: Target, block: int) -> dict[tuple[str, ...], Space]:
    """The knobs by the algorithms that read them."""
    found: dict[tuple[str, ...], Space] = {}
    if shape.channels_last or block:
        names = ("direct", "im2col") if shape.groups == 1 else ("direct",)
        found[names] = channels_last.space(shape, target, block)
    else:
        found[("direct",)] = direct_nchw.space(shape, target)
        if shape.groups == 1:
            found[("im2col",)] = im2col_nchw.space(shape, target)
        if converted.fits(shape):
            found[(LAST,)] = converted.space(shape, target)
    variants = tuple(f"winograd{m}" for m in winograd.variants(shape))
    if variants:
        found[variants] = winograd.space(shape, target)
    return found


class _Pinned(partial[bool]):
    """A partial ``_pinned`` that says what it means."""

    def __repr__(self) -> str:
        name, readers = (self.keywords[key] for key in ("name", "readers"))
        return f"{name} varies only with algorithm={' or '.join(readers)}"


def _pinned(c: Any, name: str, first: Any, readers: tuple[str, ...]) -> bool:
    return c["algorithm"].val in readers or c[name].val == first
