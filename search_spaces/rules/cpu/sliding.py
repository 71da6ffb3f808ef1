"""Windows that slide over an image: one reduction, and where it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whet.compiler.te import const
from whet.compiler.tir import IterVar
from whet.compiler.tir.expr import Add, Max, Min, PrimExpr, ProducerLoad, Reduce
from whet.compiler.tir.visit.rewrite import Rewriter, nodes, variables
from whet.search_spaces.forms.widened_sum import operation_of, plain_reduction
from whet.search_spaces.graph.access import affine
from whet.search_spaces.graph.stages import INJECTIVE, REDUCTION, Group, extent_of


@dataclass(frozen=True)
class Form:
    """Windows of a tensor, which one reduction goes through.

    Attributes:
        reduce: the reduction. load: its one read of the image, or of the padded image.
        along: places of the reduction's axes that move along the lanes' dimension.
        dimension: of ``load``, in which the lanes are neighbours.
        stride: elements between neighbouring lanes of the result.
        axis: of the result, along which the windows slide: that of the lanes, or of pixels.
    """

    reduce: Reduce
    load: ProducerLoad
    along: tuple[int, ...]
    dimension: int
    stride: int
    axis: int = -1

    @property
    def overlaps(self) -> bool:
        """True where neighbouring windows have an element along ``axis`` in common."""
        place = affine(self.load.indices[self.dimension])
        assert place is not None
        steps = [self.reduce.axis[k] for k in self.along]
        reach = sum((extent_of(a) - 1) * place.coefficient(a.var) for a in steps)
        return reach >= self.stride

    @property
    def is_worth_passes(self) -> bool:
        """True where two passes load less; a vector across a stride is two loads and a shuffle."""
        across = 1 if self.stride == 1 else 2
        extents = [extent_of(a) for a in self.reduce.axis]
        rows = prod(extents[k] for k in self.along)
        columns = prod(extents) // rows
        return columns * self.stride + 1 + rows * across < rows * columns * across


def form_of(group: Group) -> Form | None:
    """The windows of a group: a sum, maximum or minimum of one read; None for another group."""
    node = group.anchor
    is_image = node.role == REDUCTION and len(node.extents) > 1
    reduce = plain_reduction(node.op) if is_image else None
    padded = [n.op for n in group.members]
    if reduce is None or operation_of(reduce) not in (Add, Max, Min) or len(padded) > 1:
        return None
    if any(n.role != INJECTIVE or not n.is_guarded or n.is_output for n in group.members):
        return None
    loads = [n for n in nodes(reduce.source) if type(n) is ProducerLoad]
    if len(loads) != 1 or (padded and loads[0].producer.op is not padded[0]):
        return None
    zero = const(0, loads[0].dtype)
    if variables(put(reduce.source[0], loads[0], zero)) or variables(reduce.condition):
        return None  # a weight or a test of the place, which would have to move, too
    return _form(node.op.axis, reduce, loads[0])


def _form(axes: Any, reduce: Reduce, load: ProducerLoad) -> Form | None:
    """The form of a reduction by the indices of its read."""
    indices = [affine(i) for i in load.indices]
    last, steps = axes[-1].var, [a.var for a in reduce.axis]
    if None in indices or len(steps) < 2:
        return None
    forms = [i for i in indices if i is not None]
    own = [k for k, i in enumerate(forms) if last in i.atoms]
    if own != [len(forms) - 1]:
        return None
    place = forms[-1]
    others = [i for k, i in enumerate(forms) if k != own[0]]
    along = tuple(k for k, v in enumerate(steps) if v in place.atoms)
    data = {a.var for a in axes}
    slides = any(data & set(i.atoms) and set(steps) & set(i.atoms) for i in others)
    apart = not any(steps[k] in i.atoms for k in along for i in others)
    known = {last, *(steps[k] for k in along)}
    if not slides or not apart or set(place.atoms) != known or len(along) == len(steps):
        return None
    stride = place.coefficient(last)
    whole = stride >= 1 and all(place.coefficient(v) >= 1 for v in known)
    if not whole or (not along and stride != 1):
        return None
    return Form(reduce, load, along, own[0], stride)


def pixels_of(form: Form, axes: Sequence[IterVar]) -> Form | None:
    """The same windows by their pixels, where lanes lie along another axis; None: one column.

    Args:
        axes: of the result.
    """
    reduce = form.reduce
    if len(axes) < 3:
        return None
    var, indices = axes[-2].var, [affine(i) for i in form.load.indices]
    own = [k for k, i in enumerate(indices) if i is not None and var in i.atoms]
    if len(own) != 1:
        return None
    place = indices[own[0]]
    assert place is not None
    along = tuple(k for k, a in enumerate(reduce.axis) if a.var in place.atoms)
    steps = {reduce.axis[k].var for k in along}
    others = [i for k, i in enumerate(indices) if k != own[0] and i is not None]
    if set(place.atoms) != {var, *steps} or any(steps & set(i.atoms) for i in others):
        return None
    slides = (
        0 < len(along) < len(reduce.axis) and prod(extent_of(reduce.axis[k]) for k in along) > 1
    )
    if not slides or any(place.coefficient(v) < 1 for v in place.atoms):
        return None
    return Form(reduce, form.load, along, own[0], place.coefficient(var), -2)


def put(source: PrimExpr, load: ProducerLoad, value: PrimExpr) -> PrimExpr:
    """The reduction's source with a value in the place of its read."""
    return Rewriter({ProducerLoad: lambda n: value if n is load else n})(source)
