"""The algorithms of a convolution that compete in one space: the knob that says which.

A rule defines the same knobs whatever the algorithm is. Those that the one in force does not
read are pinned to their first choices, so that no program is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from whet.compiler.target import Target
from whet.search_spaces.forms.conv import ConvOperands
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.knobs.prefixed import Prefixed
from whet.search_spaces.rules.cpu.conv import channels_last, direct_nchw, im2col_nchw, winograd

#: with fewer channels than this, Winograd's transforms cost more than its products save
_LEAST_CHANNELS = 16
#: with this many output channels, im2col's copy is worth whole vectors at the ends of rows
_COPIED = 128

Define = Callable[[Any, ConvShape, Target], None]
Stages = channels_last.ChannelsLast | im2col_nchw.Columns | direct_nchw.Direct | winograd.Winograd
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
        return channels_last.ChannelsLast.of(cfg, given, name)
    kind = im2col_nchw.Columns if chosen == "im2col" else direct_nchw.Direct
    return kind.of(cfg, given, name)


def define_algorithm(cfg: Any, shape: ConvShape, target: Target, block: int = 0) -> None:
    """Define the knob ``algorithm``, and the knobs of each algorithm.

    Args:
        block: channels of a block of NCHWc; else 0.
    """
    ways = _ways(shape, block)
    others = [name for names in ways for name in names]
    default = others[0]
    variants = tuple(f"winograd{m}" for m in winograd.variants(shape))
    if variants and min(shape.ci, shape.co) >= _LEAST_CHANNELS:
        default = f"winograd{winograd.best_variant(shape)}"
    cfg.define_knob("algorithm", [*others, *variants], default)
    every = {**ways, variants: winograd.define} if variants else ways
    for names, define in every.items():
        define(KnobsOf(cfg, names, default) if len(every) > 1 else cfg, shape, target)


def _ways(shape: ConvShape, block: int) -> Mapping[tuple[str, ...], Define]:
    """The functions that define the knobs of algorithms beside Winograd's, the better guess first.

    With the channels first, rows that vectors do not fit are numbered through by im2col.
    """
    if shape.channels_last or block:
        names = ("direct", "im2col") if shape.groups == 1 else ("direct",)
        return {names: partial(channels_last.define, block=block)}
    direct: dict[tuple[str, ...], Define] = {("direct",): direct_nchw.define}
    if shape.groups > 1:
        return direct
    columns: dict[tuple[str, ...], Define] = {("im2col",): im2col_nchw.define}
    if shape.is_pointwise or shape.co >= _COPIED:
        return {**columns, **direct}
    return {**direct, **columns}


class _Pinned(partial[bool]):
    """A partial ``_pinned`` that says what it means."""

    def __repr__(self) -> str:
        name, readers = (self.keywords[key] for key in ("name", "readers"))
        return f"{name} varies only with algorithm={' or '.join(readers)}"


def _pinned(c: Any, name: str, first: Any, readers: tuple[str, ...]) -> bool:
    return c["algorithm"].val in readers or c[name].val == first
