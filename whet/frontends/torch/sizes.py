"""A graph of ATen operators at numbers for the symbols that PyTorch left in its sizes.

A trace with open sizes has symbols of sympy in the sizes of its tensors. What it is for given
numbers follows without another trace: each size is an expression of the symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from whet.frontends.torch.translation import CHECKS

Symbol = Any
"""A symbol of sympy."""

_KINDS = {"SymInt": int, "SymFloat": float, "SymBool": bool}


def at_sizes(graph: Any, numbers: Mapping[Symbol, int]) -> tuple[Any, dict[Any, Any]]:
    """A graph of ATen operators with numbers in the place of symbols.

    Args:
        graph: an FX graph whose nodes have ``meta["val"]``.
        numbers: of all its symbols.

    Returns:
        The graph, whose tensors have no data, and what each node became: a node, or a number;
        without nodes that check sizes alone.
    """
    import torch

    made = torch.fx.Graph()
    became: dict[Any, Any] = {}
    for node in graph.nodes:
        if str(node.target) in CHECKS:
            continue
        meta = node.meta.get("val")
        size = number(meta, numbers)
        if _is_symbolic(meta) and not _is_symbolic(size):
            became[node] = size
            continue
        copy = made.node_copy(node, became.__getitem__)
        copy.name = node.name  # which FX changes where it is Python's own, as input
        given: Any = torch.fx.node.map_aggregate(
            (copy.args, copy.kwargs), lambda a: number(a, numbers)
        )
        copy.args, copy.kwargs = given
        copy.meta = {"val": torch.fx.node.map_aggregate(meta, lambda m: without_data(m, numbers))}
        became[node] = copy
    return made, became


def number(x: Any, numbers: Mapping[Symbol, int]) -> Any:
    """The number that a size is; anything else, and what depends on data, as it is."""
    kind = _KINDS.get(type(x).__name__)
    if kind is None:
        return x
    found = x.node.expr.xreplace(numbers)
    return x if getattr(found, "free_symbols", None) else kind(found)


def without_data(meta: Any, numbers: Mapping[Symbol, int]) -> Any:
    """A tensor of given sizes on no device; what has no symbols, or depends on data, as it is."""
    import torch

    if not isinstance(meta, torch.Tensor):
        return number(meta, numbers)
    sizes = [*meta.shape, *meta.stride(), meta.storage_offset()]
    if meta.device.type not in ("cpu", "meta") or not any(map(_is_symbolic, sizes)):
        return meta
    sizes = [number(d, numbers) for d in sizes]
    if any(map(_is_symbolic, sizes)):
        return meta
    rank, offset = len(meta.shape), sizes.pop()
    shape, strides = sizes[:rank], sizes[rank:]
    if not offset:
        return torch.empty_strided(shape, strides, dtype=meta.dtype, device="meta")
    whole = offset + 1 + sum(max(d - 1, 0) * step for d, step in zip(shape, strides))
    return torch.empty(whole, dtype=meta.dtype, device="meta").as_strided(shape, strides, offset)


def symbols_of(metas: Any) -> set[Symbol]:
    """The symbols in sizes: of tensors, of numbers, of lists of them."""
    if isinstance(metas, (list, tuple)):
        return set().union(*map(symbols_of, metas)) if metas else set()
    import torch

    if _is_symbolic(metas):
        return set(metas.node.expr.free_symbols)
    return symbols_of([*metas.shape, *metas.stride()]) if isinstance(metas, torch.Tensor) else set()


def numbers_of(dims: Iterable[tuple[Any, int]]) -> dict[Symbol, int]:
    """The numbers of symbols, from dimensions that are symbols, or some steps of one.

    Args:
        dims: dimensions of inputs as the trace has them, and their sizes.
    """
    found: dict[Symbol, int] = {}
    symbolic = [(d.node.expr, size) for d, size in dims if _is_symbolic(d)]
    for whole, size in sorted(symbolic, key=lambda one: not one[0].is_Symbol):
        left = whole.free_symbols - found.keys()
        if len(left) == 1:
            (s,) = left
            first, step = steps_of(whole.xreplace(found), s) or (0, 1)
            found[s] = (size - first) // step
    return found


def steps_of(expr: Any, s: Symbol) -> tuple[int, int] | None:
    """The size at ``s = 0``, and its step from one number to the next; None: it is no line.

    Args:
        expr: an expression of the symbol.
        s: the symbol.
    """
    first, second = (expr.subs({s: n}) for n in (0, 1))
    if not (first.is_Integer and second.is_Integer and second > first):
        return None
    first, step = int(first), int(second - first)
    return (first, step) if (first + step * s - expr).expand() == 0 else None


def name_of(size: Any, s: Any) -> str:
    """The name that its ``Dim`` has, else the one that PyTorch gave."""
    named: Mapping[str, str] = getattr(size.node.shape_env, "source_name_to_debug_name", {})
    sources = getattr(size.node.shape_env, "var_to_sources", {}).get(s, ())
    found = (named.get(source.name if isinstance(source.name, str) else source.name())
             for source in sources)  # fmt: skip
    return next((name for name in found if name), str(s))


def _is_symbolic(x: Any) -> bool:
    return type(x).__name__ in _KINDS
