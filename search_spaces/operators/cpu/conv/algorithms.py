"""The algorithms of a convolution that compete in one space: the knob that says which.

A template defines the same knobs whatever the algorithm is. Those that the one in force does not
read are pinned to their first choices, so that no program is tried twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.search_spaces.operators.arguments import summed_dtype
from whet.search_spaces.operators.cpu.conv import channels_last, direct_nchw, im2col_nchw, winograd
from whet.search_spaces.operators.cpu.conv.shape import ConvShape
from whet.search_spaces.operators.cpu.gemm.plan import define_threads
from whet.search_spaces.template.config_scope import get_config

#: with fewer channels than this, Winograd's transforms cost more than its products save
_LEAST_CHANNELS = 16
#: with this many output channels, im2col's copy is worth whole vectors at the ends of rows
_COPIED = 128

Define = Callable[[Any, ConvShape, Target], None]
_SCHEDULES: dict[str, dict[str, Callable[..., tuple[Schedule, list[Tensor]]]]] = {
    "NHWC": {"direct": channels_last.schedule, "im2col": channels_last.schedule},
    "": {"direct": direct_nchw.schedule, "im2col": im2col_nchw.schedule},
}
"""By layout and algorithm, the second row for the channels first; the others are Winograd's."""


class KnobsOf:
    """The knobs of an algorithm, which other algorithms do not read.

    Args:
        cfg: what the template talks to.
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


def convolution(shape: ConvShape, epilogue: tuple, packed: bool) -> tuple[Schedule, list[Tensor]]:
    """A template's work: knobs, and the schedule of the algorithm in force.

    Args:
        shape: NHWC, or with the channels first (NCW, NCHW, NCDHW).
        epilogue: what is done to each element before it is stored.
        packed: pack the weights ahead of the kernel's calls.
    """
    summed_dtype(shape.request, shape.dtype)
    cfg = get_config()
    target = Target.current() or Target("llvm")
    cfg.add_flop(shape.flop)
    chosen = _define_algorithm(cfg, shape, target)
    define_threads(cfg, target, shape.flop // 2)
    data = te.placeholder(shape.data_shape, shape.dtype, name="data")
    weight = te.placeholder(shape.weight_shape, shape.dtype, name="weight")
    ways = _SCHEDULES["NHWC" if shape.channels_last else ""]
    schedule = ways.get(chosen, winograd.schedule)
    return schedule(cfg, shape, data, weight, epilogue, packed)


def _define_algorithm(cfg: Any, shape: ConvShape, target: Target) -> str:
    """Define the knob ``algorithm``, and the knobs of each algorithm; returns the one in force."""
    ways = _ways(shape)
    others = [name for names in ways for name in names]
    default = others[0]
    variants = tuple(f"winograd{m}" for m in winograd.variants(shape))
    if variants and min(shape.ci, shape.co) >= _LEAST_CHANNELS:
        default = f"winograd{winograd.best_variant(shape)}"
    cfg.define_knob("algorithm", [*others, *variants], default)
    every = {**ways, variants: winograd.define} if variants else ways
    for names, define in every.items():
        define(KnobsOf(cfg, names, default) if len(every) > 1 else cfg, shape, target)
    return cfg["algorithm"].val


def _ways(shape: ConvShape) -> Mapping[tuple[str, ...], Define]:
    """The functions that define the knobs of algorithms beside Winograd's, the better guess first.

    With the channels first, rows that vectors do not fit are numbered through by im2col.
    """
    if shape.channels_last:
        names = ("direct", "im2col") if shape.groups == 1 else ("direct",)
        return {names: channels_last.define}
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
