"""Sizes that dynamo leaves open: their symbols, their ranges, and a graph at numbers for them.

AOT autograd traces such a graph once, with symbols of sympy in the sizes of its tensors. What it is
for given numbers follows without another trace: each size is an expression of the symbols.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd
from typing import Any

import torch

from whet.compiler.graph.symbolic.sizes import Dynamic

Symbol = Any
"""A symbol of sympy."""

_LEAST_HIGH = 64  # of a range whose end nobody says
_PERIOD = 64  # the longest step that is looked for
_MOST_HIGH = 1 << 16  # beyond it an end is none: memory is for the greatest size


def at_sizes(graph: Any, numbers: Mapping[Symbol, int]) -> tuple[Any, dict[Any, Any]]:
    """A graph of ATen operators with numbers in the place of symbols.

    Args:
        graph: an FX graph whose nodes have ``meta["val"]``.
        numbers: of all its symbols.

    Returns:
        The graph, whose tensors have no data, and what each node became: a node, or a number.
    """
    made = torch.fx.Graph()
    became: dict[Any, Any] = {}
    for node in graph.nodes:
        meta = node.meta.get("val")
        if isinstance(meta, torch.SymInt):
            became[node] = number(meta, numbers)
            continue
        copy = made.node_copy(node, became.__getitem__)
        given: Any = torch.fx.node.map_aggregate(
            (copy.args, copy.kwargs), lambda a: number(a, numbers)
        )
        copy.args, copy.kwargs = given
        copy.meta = {"val": torch.fx.node.map_aggregate(meta, lambda m: without_data(m, numbers))}
        became[node] = copy
    return made, became


def number(x: Any, numbers: Mapping[Symbol, int]) -> Any:
    """The number that a size is; anything else as it is."""
    return int(x.node.expr.xreplace(numbers)) if isinstance(x, torch.SymInt) else x


def without_data(meta: Any, numbers: Mapping[Symbol, int]) -> Any:
    """A tensor of given sizes on no device; what is no tensor as it is."""
    if not isinstance(meta, torch.Tensor):
        return number(meta, numbers)
    if meta.device.type not in ("cpu", "meta"):
        return meta  # which says so
    shape, strides = (tuple(number(d, numbers) for d in x) for x in (meta.shape, meta.stride()))
    return torch.empty_strided(shape, strides, dtype=meta.dtype, device="meta")


def symbols_of(metas: Any) -> set[Symbol]:
    """The symbols in sizes: of tensors, of numbers, of lists of them."""
    if isinstance(metas, (list, tuple)):
        return set().union(*map(symbols_of, metas)) if metas else set()
    if isinstance(metas, torch.SymInt):
        return set(metas.node.expr.free_symbols)
    return symbols_of([*metas.shape, *metas.stride()]) if isinstance(metas, torch.Tensor) else set()


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
