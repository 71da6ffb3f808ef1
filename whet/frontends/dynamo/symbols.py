"""Sizes that dynamo leaves open: their symbols and their ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd
from typing import Any

import torch

from whet.compiler.graph.symbolic.sizes import Dynamic
from whet.frontends.torch.sizes import Symbol

_LEAST_HIGH = 64  # of a range whose end nobody says
_PERIOD = 64  # the longest step that is looked for
_MOST_HIGH = 1 << 16  # beyond it an end is none: memory is for the greatest size


def places_of(metas: Sequence[Any]) -> dict[Symbol, tuple[int, int | None]]:
    """Symbol -> the argument, and its dimension, None: itself, that is this number."""
    found: dict[Symbol, tuple[int, int | None]] = {}
    for k, meta in enumerate(metas):
        each: Iterator[tuple[int | None, Any]] = iter([(None, meta)])
        if isinstance(meta, torch.Tensor):
            each = iter(enumerate(meta.shape))
        for d, size in each:
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                found.setdefault(size.node.expr, (k, d))
    return found


def sizes_in(
    places: Mapping[Symbol, tuple[int, int | None]], args: Sequence[Any]
) -> dict[Symbol, int]:
    """The numbers of symbols in a call."""
    return {s: int(args[k]) if d is None else int(args[k].shape[d]) for s, (k, d) in places.items()}


class Ranges:
    """The ranges of a graph's symbols.

    Args:
        env: PyTorch's ``ShapeEnv``, which has what the trace found out about them.
        sizes: of the first call.
        of_inputs: the symbols that are sizes of inputs.

    Attributes:
        names: symbol -> the name that errors and reports have.
    """

    def __init__(
        self, env: Any, sizes: Mapping[Symbol, int], of_inputs: Collection[Symbol]
    ) -> None:
        self._env = env
        self._first = {s: n for s, n in sizes.items() if s in of_inputs}
        self.names = {s: _name(env, s) for s in sizes}
        self._steps = {s: _step(env, s, n) for s, n in self._first.items()}
        self._highs = {s: self._end(s, n) for s, n in self._first.items()}

    def of(self, symbols: Collection[Symbol]) -> dict[Symbol, Dynamic]:
        """The ranges of some symbols; the same object for the same symbol."""
        return {
            s: Dynamic(self._low(s), self._highs[s], self._steps[s])
            for s in self._first
            if s in symbols
        }

    def outside(self, sizes: Mapping[Symbol, int]) -> bool:
        """True where a call's sizes are beyond the ranges."""
        return any(sizes[s] not in r for s, r in self.of(sizes).items())

    def grow(self, sizes: Mapping[Symbol, int]) -> bool:
        """Let the ranges have a call's sizes; False where they cannot."""
        for s, r in self.of(sizes).items():
            if sizes[s] > r.high:
                self._highs[s] = self._end(s, sizes[s])
        return not self.outside(sizes)

    def text(self, symbols: Collection[Symbol]) -> str:
        """Ranges in words: ``x.size()[0] from 2 to 64``."""
        each = self.of(symbols).items()
        return ", ".join(f"{self.names[s]} from {r}" for s, r in each)

    def _low(self, s: Symbol) -> int:
        lower = str(self._env.var_to_range[s].lower)
        low = max(int(lower), 1) if lower.isdigit() else 1
        step, first = self._steps[s], self._first[s]
        if step > 1:  # halved so often that a pixel is left, a size is another model
            low = max(low, min(2 * step, first))
        return low + (first - low) % step

    def _end(self, s: Symbol, n: int) -> int:
        """The end of a symbol's range that has a size; known, or 2**k from twice that size on."""
        upper = str(self._env.var_to_range[s].upper)
        is_known = upper.isdigit() and int(upper) <= _MOST_HIGH
        high = int(upper) if is_known else max(_LEAST_HIGH, 1 << (2 * n - 1).bit_length())
        return max(high - (high - n) % self._steps[s], n)


def _name(env: Any, s: Symbol) -> str:
    """The name that a symbol's source has: ``x.size()[0]``."""
    (source, *_) = env.var_to_sources.get(s, ()) or (None,)
    name = getattr(source, "name", None)
    text = name() if callable(name) else name
    if not isinstance(text, str):
        return str(s)
    return text.removeprefix("L['").replace("']", "", 1) if text.startswith("L['") else text


def _step(env: Any, s: Symbol, first: int) -> int:
    """The step from one size to the next that the trace's guards allow: of halved images.

    Args:
        env: PyTorch's ``ShapeEnv``. s: the symbol. first: its number in the first call.
    """
    own = [g.expr for g in env.guards if g.expr.free_symbols == {s}]
    near = range(max(first - _PERIOD, 1), first + _PERIOD + 1)
    allowed = [n for n in near if all(bool(guard.subs({s: n})) for guard in own)]
    return gcd(*(n - first for n in allowed)) or 1
