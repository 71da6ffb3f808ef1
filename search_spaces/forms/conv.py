"""The form of a convolution: which axes of a stage are images, channels, pixels and the window.

    O[n, o, y, x] = sum over c, ry, rx of D[n, c, y * sh + ry * dh - ph, x * sw + rx * dw - pw]
                                          * W[o, c, ry, rx]

The channels come first, last, or in blocks; the weights in any order. Zeros around the image may be
a stage of their own, which :class:`ConvForm` sees through, or a condition of the stage itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.arith import Analyzer
from whet.compiler.te.lang.tensor import ComputeOp, Operation, Tensor
from whet.compiler.tir.expr import (
    Add,
    And,
    Call,
    FloatImm,
    IntImm,
    Mul,
    PrimExpr,
    ProducerLoad,
    Select,
    Var,
)
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import substitute, variables
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.forms.widened_sum import (
    DTYPES,
    narrow,
    operation_of,
    plain_reduction,
)
from whet.search_spaces.graph.access import affine
from whet.search_spaces.graph.stages import constant_extents, int_extent

_LAYOUTS = {3: ("NCW",), 4: ("NCHW", "NHWC"), 5: ("NCDHW", "NCHWc")}
"""By the dimensions of the data."""


@dataclass(frozen=True, eq=False)
class ConvForm:
    """A convolution in a stage; what follows from its structure alone.

    Attributes:
        shape: its sizes.
        block: channels of a block of NCHWc; else 0.
        side: which operand of the product the image is, 0 or 1.
        depth: stages of zeros between the stage and the image.
        channels: the variables of the output channel (of NCHWc: of the block, and inside it).
        steps: those of the input channel (of NCHWc two), then of the window; None: it has none.
    """

    shape: ConvShape
    block: int
    side: int
    depth: int
    channels: tuple[Var, ...]
    steps: tuple[Var | None, ...]

    def operands(self, op: Operation) -> ConvOperands:
        """The operands as the stage reads them by now: producers may have been rewritten."""
        body = plain_reduction(op)
        assert body is not None and isinstance(body.source[0], Mul)
        pair = body.source[0].a, body.source[0].b
        image = without_zeros(pair[self.side])
        for _ in range(self.depth):
            assert isinstance(image, ProducerLoad) and isinstance(image.producer.op, ComputeOp)
            image = without_zeros(image.producer.op.body[0])
        weight = narrow(pair[1 - self.side])
        assert isinstance(image, ProducerLoad) and isinstance(weight, ProducerLoad)
        return ConvOperands(self, image.producer, weight)


@dataclass(frozen=True, eq=False)
class ConvOperands:
    """The operands of a convolution.

    Attributes:
        form: the convolution.
        data: the image without the zeros around it, in the form's layout.
        load: the weight as the stage reads it.
    """

    form: ConvForm
    data: Tensor
    load: ProducerLoad

    def weight(self, o: Any, c: Any, *window: Any) -> Any:
        """The weight of an output channel, an input channel of its group and a place."""
        form = self.form
        values: dict[Var, Any] = {}
        if form.block:
            values.update(zip(form.channels, (o // form.block, o % form.block)))
            inner: list[Any] = [c // form.block, c % form.block, *window]
        else:
            values[form.channels[0]] = o
            inner = [c, *window]
        values.update((v, place) for v, place in zip(form.steps, inner) if v is not None)
        return substitute(self.load, {v: ops.convert(x) for v, x in values.items()})


def conv_form(op: Operation, zeros: Collection[Operation], half: bool = False) -> ConvForm | None:
    """The convolution that a stage is; None: it is none.

    Args:
        op: the stage.
        zeros: producers that it may be seen through, where all they do is put zeros around.
        half: whether operands may be of half precision, in a sum of these or in float32.
    """
    body = plain_reduction(op) if isinstance(op, ComputeOp) and constant_extents(op) else None
    if body is None or operation_of(body) is not Add or not isinstance(body.source[0], Mul):
        return None
    if body.dtype not in DTYPES and not (half and summed_in(body.dtype) in DTYPES):
        return None
    pair = body.source[0].a, body.source[0].b
    for side in (0, 1):
        weight = narrow(pair[1 - side]) if half else pair[1 - side]
        if type(weight) is not ProducerLoad:
            continue
        if weight.dtype != body.dtype and not (half and summed_in(weight.dtype) == body.dtype):
            continue
        image = _Image.of(pair[side], zeros, half)
        if image is None or image.load.dtype != weight.dtype:
            continue
        for layout in _LAYOUTS.get(len(image.load.indices), ()):
            found = _Match(op, image, weight, layout).form(side)
            if found is not None:
                return found
    return None


@dataclass(frozen=True, eq=False)
class _Image:
    """The read of an image, seen through the zeros around it.

    Attributes:
        load: of the image, at indices of the stage's own axes.
        tests: what must hold, or a zero is read.
        depth: stages of zeros that were seen through.
    """

    load: ProducerLoad
    tests: tuple[PrimExpr, ...]
    depth: int

    @staticmethod
    def of(read: PrimExpr, zeros: Collection[Operation], half: bool) -> _Image | None:
        tests: list[PrimExpr] = []
        depth = 0
        while True:
            read = narrow(read) if half else read
            inner = _under_zeros(read)
            if inner is not None:
                tests += _conjuncts(_condition(read))
                read = narrow(inner) if half else inner
            if type(read) is not ProducerLoad:
                return None
            pad = read.producer.op
            if all(pad is not z for z in zeros) or not isinstance(pad, ComputeOp):
                break
            value = narrow(pad.body[0]) if half else pad.body[0]
            if len(pad.body) != 1 or pad.reduce_axis or _under_zeros(value) is None:
                break
            read = substitute(pad.body[0], dict(zip((a.var for a in pad.axis), read.indices)))
            depth += 1
        return _Image(read, tuple(tests), depth)


def _under_zeros(n: PrimExpr) -> PrimExpr | None:
    """The value that a choice between it and zero may take; None for anything else."""
    if isinstance(n, Select):
        chosen, other = n.true_value, n.false_value
    elif isinstance(n, Call) and n.op == "if_then_else":
        _, chosen, other = n.args
    else:
        return None
    return chosen if isinstance(other, FloatImm | IntImm) and other.value == 0 else None


def without_zeros(n: PrimExpr) -> PrimExpr:
    """The value of which there may be a zero instead, before it is widened."""
    n = narrow(n)
    inner = _under_zeros(n)
    return n if inner is None else narrow(inner)


def _condition(n: Any) -> PrimExpr:
    return n.condition if isinstance(n, Select) else n.args[0]


def _conjuncts(n: PrimExpr) -> list[PrimExpr]:
    return [*_conjuncts(n.a), *_conjuncts(n.b)] if isinstance(n, And) else [n]


class _Match:
    """A stage beside the convolution of one layout."""

    def __init__(self, op: Operation, image: _Image, weight: ProducerLoad, layout: str) -> None:
        self.op, self.image, self.weight, self.layout = op, image, weight, layout
        self.extent = {a.var: int_extent(a) for a in (*op.axis, *op.reduce_axis)}
        self.reduced = [a.var for a in op.reduce_axis]
        self.of_weight = set(variables(weight))
        self.analyzer = Analyzer()
        for a in (*op.axis, *op.reduce_axis):
            assert a.dom is not None
            self.analyzer.bind_loop(a.var, a.dom.min, a.dom.extent)

    def form(self, side: int) -> ConvForm | None:
        """The convolution; None where anything does not fit."""
        indices = self.image.load.indices
        extents = [int(d) for d in self.image.load.producer.shape]
        axes = [a.var for a in self.op.axis]
        if len(axes) != len(indices):
            return None
        places, channels = self._parted(axes)
        spatial, inner = self._parted(list(range(len(indices))))
        if not self._is(indices[0], axes[0], extents[0]):
            return None
        if self.of_weight & {axes[0], *places}:
            return None
        slides = [self._slide(indices[k], p) for k, p in zip(spatial, places, strict=True)]
        if None in slides:
            return None
        along = [s for s in slides if s is not None]
        steps = self._channels([indices[k] for k in inner], [extents[k] for k in inner], channels)
        if steps is None:
            return None
        window = [s.step for s in along]
        named = [v for v in (*steps, *window) if v is not None]
        if sorted(map(id, named)) != sorted(map(id, self.reduced)):
            return None
        image = [extents[k] for k in spatial]
        sizes = self._sizes(along, places, image)
        if sizes is None or not self._guarded(indices, extents):
            return None
        block = self.extent[channels[1]] if len(channels) == 2 else 0
        ci, co = (extents[inner[0]], self.extent[channels[0]])
        if block:
            ci, co = ci * extents[inner[1]], co * block
        per = 1
        for v in steps:
            per *= 1 if v is None else self.extent[v]
        across, strides, before, after, spread = sizes
        shape = ConvShape(
            self.layout, extents[0], ci, tuple(image), co, across, strides, before, after, spread,
            ci // per, self.weight.dtype, f"convolution {self.op.name}",
        )  # fmt: skip
        ok = not co % shape.groups and shape.out == tuple(self.extent[p] for p in places)
        form = ConvForm(shape, block, side, self.image.depth, tuple(channels), (*steps, *window))
        return form if ok else None

    def _parted(self, dims: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Of the dimensions of data or result the spatial ones, and those of the channels."""
        if self.layout == "NCHWc":
            return [*dims[2:4]], [dims[1], dims[4]]
        return ([*dims[1:-1]], [dims[-1]]) if self.layout == "NHWC" else ([*dims[2:]], [dims[1]])

    def _is(self, index: PrimExpr, axis: Var, extent: int) -> bool:
        """True if an index is an axis that runs over the whole dimension."""
        return self.extent[axis] == extent and self.analyzer.equal(index, axis)

    def _slide(self, index: PrimExpr, place: Var) -> _Slide | None:
        form = affine(index)
        if form is None:
            return None
        rest = {v: form.coefficient(v) for v in form.atoms}
        stride = rest.pop(place, 1 if self.extent[place] == 1 else 0)
        if len(rest) > 1 or stride < 1:
            return None
        step, spread = next(iter(rest.items()), (None, 1))
        if step is not None and (step not in self.reduced or spread < 1):
            return None
        return _Slide(stride, step, spread, -form.const)

    def _channels(
        self, indices: Sequence[PrimExpr], extents: Sequence[int], channels: Sequence[Var]
    ) -> tuple[Var | None, ...] | None:
        """The reduction axes over the channels of a group; None where they do not fit."""
        blocks = len(indices) == 2
        found: list[Var | None] = []
        for index in indices:
            own = [v for v in variables(index) if v in self.reduced]
            if len(own) > 1 or len(set(own)) != len(own):
                return None
            found.append(own[0] if own else None)
        if any(v is not None and v not in self.of_weight and self.extent[v] > 1 for v in found):
            return None
        if not set(channels) & self.of_weight and any(self.extent[c] > 1 for c in channels):
            return None
        outer, step = indices[0], found[0]
        per = 1 if step is None else self.extent[step]
        if blocks and (found[1] is None or not self._is(indices[1], found[1], extents[1])):
            return None
        if extents[0] % per:
            return None
        groups, many = extents[0] // per, self.extent[channels[0]]
        if many % groups:
            return None
        expected: Any = 0 if step is None else step
        if groups > 1:
            expected = (channels[0] // (many // groups)) * per + expected
        if not self.analyzer.equal(outer, ops.convert(expected)):
            return None
        if blocks and self.extent[channels[1]] != extents[1]:
            return None
        return tuple(found)

    def _sizes(
        self, along: Sequence[_Slide], places: Sequence[Var], image: Sequence[int]
    ) -> tuple[tuple[int, ...], ...] | None:
        """Window, strides, zeros in front and behind, dilation."""
        window = tuple(1 if s.step is None else self.extent[s.step] for s in along)
        before = tuple(s.before for s in along)
        if min(before) < 0:
            return None
        after = []
        for s, k, place, n in zip(along, window, places, image):
            reach = (self.extent[place] - 1) * s.stride + (k - 1) * s.spread + 1
            after.append(max(0, reach - n - s.before))
        strides, spread = tuple(s.stride for s in along), tuple(s.spread for s in along)
        return window, strides, before, tuple(after), spread

    def _guarded(self, indices: Sequence[PrimExpr], extents: Sequence[int]) -> bool:
        """True if just the reads outside the image are zeros."""
        wanted: dict[Any, bool] = {}
        for index, extent in zip(indices, extents):
            form = self.analyzer.affine(index)
            for side in (form.scaled(-1), form.shifted(1 - extent)):
                wanted[side.key] = self.analyzer.at_most_zero(side)
        given = set()
        for test in self.image.tests:
            bound = self.analyzer.inequality(test)
            if bound is None or (bound.key not in wanted and not self.analyzer.at_most_zero(bound)):
                return False
            given.add(bound.key)
        return all(sure or key in given for key, sure in wanted.items())


@dataclass(frozen=True)
class _Slide:
    """An index of the image: ``place * stride + step * spread - before``."""

    stride: int
    step: Var | None
    spread: int
    before: int
