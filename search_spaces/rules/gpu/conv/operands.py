"""The operands of a convolution as a GPU's blocks copy them: the order of weights in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler import te
from whet.compiler.te import ComputeOp, PlaceholderOp, Tensor
from whet.compiler.tir.expr import ProducerLoad, Var
from whet.compiler.tir.visit.rewrite import substitute, variables
from whet.compiler.topi.half_precision import summed_in
from whet.search_spaces.forms.conv import ConvOperands, without_zeros
from whet.search_spaces.forms.conv_layout import weight_index
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.graph.access import affine
from whet.search_spaces.graph.stages import is_ahead


@dataclass(frozen=True, eq=False)
class GpuConv:
    """A convolution and its operands.

    Attributes:
        given: the operands.
        name, dtype: of the result.
    """

    given: ConvOperands
    name: str
    dtype: str

    @property
    def shape(self) -> ConvShape:
        """The sizes."""
        return self.given.form.shape

    @property
    def kind(self) -> str:
        """The type that it is summed up in."""
        return summed_in(self.shape.dtype)

    @property
    def data(self) -> Tensor:
        """The image without the zeros around it."""
        return self.given.data

    def weight(self, o: Any, c: Any, *window: Any) -> Any:
        """The weight of an output channel, an input channel of its group and a place."""
        return self.given.weight(o, c, *window)

    @property
    def is_packed(self) -> bool:
        """True if the weights are a copy that is made ahead of the kernel's calls."""
        return is_ahead(self.given.load.producer.op)

    def before_packing(self) -> GpuConv:
        """The convolution of the weights that are copied ahead of the calls."""
        load = self.given.load
        op = load.producer.op
        if not self.is_packed or not isinstance(op, ComputeOp):
            return self
        read = substitute(op.body[0], dict(zip((a.var for a in op.axis), load.indices)))
        assert isinstance(read, ProducerLoad)
        return replace(self, given=replace(self.given, load=read))

    def copied(self) -> tuple[GpuConv, Tensor]:
        """The convolution of a copy of the weights that is called what it is; and that copy."""
        load = self.given.load
        op = load.producer.op
        assert isinstance(op, ComputeOp)
        own = [axis.var for axis in op.axis]
        (value,) = op.body
        copy = te.compute(
            load.producer.shape,
            lambda *index: substitute(value, dict(zip(own, index, strict=True))),
            name="packed",
        )
        read = copy(*load.indices)
        assert isinstance(read, ProducerLoad)
        return replace(self, given=replace(self.given, load=read)), copy

    def strides(self) -> tuple[int | None, ...]:
        """Elements between neighbouring weights along (o, c, ry, rx); None: nobody knows."""
        form, read = self.given.form, _as_stored(self.given.load)
        steps: dict[Var, int | None] = {}
        width = 1
        for index, extent in zip(reversed(read.indices), reversed(read.producer.shape)):
            found = affine(index)
            for v in variables(index):
                before = steps.get(v, 0)
                if found is None or before is None:
                    steps[v] = None
                else:
                    steps[v] = before + width * found.coefficient(v)
            width *= int(extent)
        return tuple(None if v is None else steps.get(v) for v in (*form.channels, *form.steps))

    def in_memory(self, parts: Sequence[Any]) -> tuple[Any, ...]:
        """What is given for (o, c, ry, rx) in the order in which weights lie in memory."""
        o, c, ry, rx = range(4)
        order = weight_index(self.shape, o, c, ry, rx)
        strides = [abs(n) for n in self.strides() if n is not None]
        if len(strides) == len(order):
            order = tuple(sorted(order, key=lambda k: -strides[k]))
        return tuple(parts[k] for k in order)

    @property
    def channels_inside(self) -> bool:
        """True if output channels are nearer to each other in memory than input channels are."""
        o, c, *_ = (n if n is None else abs(n) for n in self.strides())
        if o is None and c is not None:
            return c > 1
        return self.shape.channels_last if o is None or c is None or o == c else o < c

    @property
    def is_oihw(self) -> bool:
        """True if the weights are an input of the kernel, read as [o, c, ry, rx]."""
        form, load = self.given.form, self.given.load
        plain = isinstance(load.producer.op, PlaceholderOp) and isinstance(load, ProducerLoad)
        wanted = (*form.channels, *form.steps)
        same = len(wanted) == len(load.indices)
        return plain and same and all(i is v for i, v in zip(load.indices, wanted))


def _as_stored(load: ProducerLoad) -> ProducerLoad:
    """A read of what a stage makes as one of what it only puts elsewhere, zeros between or not."""
    while isinstance(load.producer.op, ComputeOp) and not is_ahead(load.producer.op):
        op = load.producer.op
        value = without_zeros(op.body[0])
        if op.reduce_axis or len(op.body) > 1 or type(value) is not ProducerLoad:
            break
        load = substitute(value, dict(zip((a.var for a in op.axis), load.indices)))
    return load
