"""Kernels that take sizes as numbers: for groups that no fixed blocks of rows compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from whet.autotune.models.kernels import packed_of
from whet.autotune.models.open_schedules import OF_PANELS, PANELS, padded_panel, scheduled
from whet.compiler import driver, te
from whet.compiler.abi import extent
from whet.compiler.abi.extent import Extent, Shape, Symbol, evaluate, symbols_of
from whet.compiler.abi.extent_expr import from_expr, to_expr
from whet.compiler.errors import ArgumentError, WhetError
from whet.compiler.graph.fusion import Fused
from whet.compiler.graph.ir import Node, Value
from whet.compiler.graph.kinds import tensors_of
from whet.compiler.graph.symbolic.advice import buckets_of
from whet.compiler.graph.symbolic.family import SymbolicGraph, integers
from whet.compiler.graph.symbolic.rows import sized
from whet.compiler.graph.symbolic.sizes import Dynamic, Sizes, divides, is_open
from whet.compiler.graph.symbolic.strides import more_points
from whet.compiler.runtime.module import Module
from whet.compiler.target import Target
from whet.compiler.te import Tensor
from whet.compiler.tir.expr import PrimExpr
from whet.compiler.topi.shapes import quotient_of

_PRODUCTS = ("gemm", "matmul")


class NeedsNumbers(ArgumentError):
    """Groups of a model have no kernel for any size.

    Attributes:
        values: the names of what they make.
    """

    values: tuple[str, ...] = ()


def symbols_in(sizes: SymbolicGraph, group: Fused) -> tuple[str, ...]:
    """The symbols in a group's sizes, in the order of their ranges."""
    found: set[str] = set()
    for v in (*group.inputs, *(v for n in group.nodes for v in n.outputs)):
        found |= {s for d in sizes.shapes[v] for s in symbols_of(d)}
    for n in group.nodes:
        found |= {s for d in integers(sizes.attrs[n]) for s in symbols_of(d)}
    return tuple(s for s in sizes.ranges if s in found)


def numbers_of(sizes: SymbolicGraph, group: Fused) -> Shape:
    """The numbers that a group's kernel takes behind its arrays: steps above a range's least."""
    return tuple(_steps(Symbol(s), sizes.ranges[s]) for s in symbols_in(sizes, group))


def _steps(size: Extent, r: Dynamic) -> Extent:
    above = extent.Operation("-", size, r.low)
    return above if r.step == 1 else extent.Operation("//", above, r.step)


def open_kernel(
    sizes: SymbolicGraph, group: Fused, points: Sequence[Sizes], target: Target, name: str
) -> Module:
    """The kernel of a group; it takes the arrays, then int64 numbers, as of :func:`numbers_of`.

    Args:
        sizes: of the group's graph.
        group: one of its groups.
        points: sizes at which the kernel's own shapes are compared with the group's.
        target: canonical.
        name: its symbol.

    Raises:
        NeedsNumbers: an operator of the group needs sizes that are numbers.
    """
    symbols = symbols_in(sizes, group)
    more = {s: te.size_var(f"s{k}", "int64") for k, s in enumerate(symbols)}
    try:
        # of a size that is known not to be 0, reads are clamped where they would need guards
        by_name = {s: own * r.step + r.low for s, own in more.items() for r in [sizes.ranges[s]]}
        tensors, outputs = _computed(sizes, group, by_name, target)
        _check(sizes, group, outputs, {v: s for s, v in more.items()}, points)
        with target:
            tops = {v: sizes.ranges[s].count - 1 for s, v in more.items()}
            schedule = scheduled(outputs, target, tops)
            args: list[Any] = [*tensors, *outputs, *more.values()]
            return driver.build(schedule, args, target, name=name)
    except (WhetError, TypeError, ValueError, AttributeError) as error:
        origins = ", ".join(n.origin or n.operator for n in group.nodes)
        (why, *_) = str(error).splitlines() or [type(error).__name__]
        refused = NeedsNumbers(
            f"a kernel for any {', '.join(symbols)} of: {origins}",
            f"an operator needs sizes that are numbers: {why}",
            buckets_of({s: sizes.ranges[s] for s in symbols}),
        )
        refused.values = tuple(v.name for n in group.nodes for v in n.outputs)
        raise refused from error


def _computed(
    sizes: SymbolicGraph, group: Fused, symbols: Mapping[str, PrimExpr], target: Target
) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs and outputs of a group as tensors of symbolic extents."""
    extents = {d for v in sizes.shapes for d in sizes.shapes[v] if is_open(d)}
    extents |= {d for n in group.nodes for d in integers(sizes.attrs[n]) if is_open(d)}
    known: dict[Extent, Any] = {}
    for d in extents:
        if symbols_of(d) <= symbols.keys():
            known[d] = quotient_of(to_expr(d, symbols), 0, 1)  # as windows are counted
    own, _ = sized(sizes, group, known)
    tensors = [te.placeholder(v.shape, v.dtype, f"p{k}") for k, v in enumerate(own.inputs)]
    packed = _packed(sizes, group, target)
    given = {
        v: _in_panels(t, target) if whole in packed else t
        for v, whole, t in zip(own.inputs, group.inputs, tensors)
    }
    made = tensors_of(_with_copies(own.nodes), given)
    return tensors, [made[v] for v in own.outputs]


def _packed(sizes: SymbolicGraph, group: Fused, target: Target) -> set[Value]:
    """The weights of which kernels take panels: their columns are those of tiles.

    These are the columns of what is made, whose rows are open.
    """
    if target.kind.row.has_threads:
        return set()
    found = packed_of(sizes.graph, group)
    for n in group.nodes:
        if n.operator == "conv":
            fits = n.attrs.get("channels_last") and n.attrs.get("groups", 1) == 1
        else:
            fits = n.operator in _PRODUCTS and not n.attrs.get("transpose_b")
        shape = sizes.shapes[n.outputs[0]]
        fits = fits and not is_open(shape[-1]) and any(map(is_open, shape[:-1]))
        found -= {v for k, v in enumerate(n.inputs) if v in found and not (fits and k == 1)}
    return found


def _in_panels(weights: Tensor, target: Target) -> Tensor:
    """Weights that lie in panels as wide as a tile, which are made ahead of the kernel's calls.

    Where columns are no whole vectors, zeros are behind the last one.
    """
    *_, columns = (int(d) for d in weights.shape)
    lanes, vectors = padded_panel(columns, weights.dtype, target)
    wide = lanes * vectors

    def element(panel: Any, *i: Any) -> Any:
        column = panel * wide + i[-1]
        own = weights(*i[:-1], column)
        if columns % wide == 0:
            return own
        return te.if_then_else(column < columns, own, te.const(0, weights.dtype))

    shape = (-(-columns // wide), *weights.shape[:-1], wide)
    panels = te.compute(shape, element, f"{weights.name}.packed", attrs={PANELS: (lanes, vectors)})
    return te.compute(
        weights.shape,
        lambda *i: panels(i[-1] // wide, *i[:-1], i[-1] % wide),
        weights.name,
        attrs={OF_PANELS: (lanes, vectors)},
    )


def _with_copies(given: Sequence[Node]) -> list[Node]:
    """Nodes whose products read no operand along the rows of what they make.

    ``a @ b.T`` reads both along memory: elements beside each other are sums of their own, without
    vectors. A transposed copy of ``b`` costs next to nothing beside that.
    """
    found: list[Node] = []
    for n in given:
        b = n.inputs[1] if n.attrs.get("transpose_b") else None
        if b is None:
            found.append(n)
            continue
        axes = [*range(len(b.shape) - 2), len(b.shape) - 1, len(b.shape) - 2]
        turned = Value(f"{b.name}.transposed", tuple(b.shape[k] for k in axes), b.dtype)
        found.append(Node("transpose", (b,), (turned,), {"axes": tuple(axes)}))
        inputs = (n.inputs[0], turned, *n.inputs[2:])
        found.append(replace(n, inputs=inputs, attrs={**n.attrs, "transpose_b": False}))
    return found


def _check(
    sizes: SymbolicGraph, group: Fused, made: Sequence[Tensor], names: Mapping[Any, str],
    points: Sequence[Sizes],
) -> None:  # fmt: skip
    """Compare the shapes that operators give with those of the model."""
    shapes = [d for v in (*group.inputs, *group.outputs) for d in sizes.shapes[v]]
    if any(map(divides, shapes)):
        points = [*points, *more_points(sizes.ranges)]
    steps = {name: _steps(Symbol(name), r) for name, r in sizes.ranges.items()}
    for v, t in zip(group.outputs, made):
        found = [from_expr(d, lambda x: names[x]) for d in t.shape]
        for point in points:
            wanted = tuple(evaluate(d, point) for d in sizes.shapes[v])
            above = {name: evaluate(steps[name], point) for name in point}
            own = tuple(evaluate(d, above) for d in found)
            if own != wanted:
                raise ArgumentError(f"{v}", f"at {dict(point)} it is {own}, not {wanted}")
