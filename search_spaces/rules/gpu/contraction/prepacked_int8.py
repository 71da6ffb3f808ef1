"""Words of bytes that lie apart in memory, put together once by a kernel of their own.

    W[n, w, y, x] = the bytes X[n, 4*w .. 4*w + 3, y, x]

A product copies each byte of an image for every place of its window and for every tile of its
result. Of bytes that lie side by side four are one load; of these, each is one. W has the padding
of X in it, so that the product's copies ask for no edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler import te
from whet.compiler.codegen.cuda.dot_product import PACK
from whet.compiler.te import Tensor
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import variables
from whet.search_spaces.graph.access import Access, affine
from whet.search_spaces.rules.gpu.contraction.axes import Axis, Contraction, extent_of
from whet.search_spaces.rules.gpu.contraction.gemm_plan import KERNEL, moving

_BYTES = 4
# Cycles of a multiprocessor's 128 lanes to put a word of four bytes together, beyond those to copy
# one: three loads, which a quarter of the lanes can do at a time, and moves.
_APART = 15
_LANES = 128
# Rows and columns of a tile, for the estimate.
_TILE = 64


@dataclass(frozen=True, eq=False)
class Apart:
    """A factor whose four steps are bytes apart.

    Attributes:
        load: the read of them in the factor.
        dimension: of the tensor that is read, the one along which the steps are.
    """

    load: e.ProducerLoad
    dimension: int

    def stored(
        self, factor: e.PrimExpr, axis: Axis, word: Axis, kind: str
    ) -> tuple[e.PrimExpr, Tensor]:
        """The factor with a read of a word in the place of the byte's, and the words.

        Args:
            factor: which this is of.
            axis: the steps. word: four of them at a time.
            kind: the type of a word.
        """
        words = _words(self.load.producer, self.dimension, kind)
        (place,) = (i for i in self.load.indices if axis.var in variables(i))
        rest = affine(place)
        assert rest is not None
        at: e.PrimExpr = word.var
        for v, step in rest.terms:
            if v is not axis.var:
                at = at + v * (step // _BYTES)
        index = list(self.load.indices)
        index[self.dimension] = at + rest.constant // _BYTES
        whole = words(*index)
        if factor is self.load:
            return whole, words
        condition, _, _ = _chosen(factor)
        return te.if_then_else(condition, whole, te.const(0, kind)), words


def apart_of(factor: e.PrimExpr, axis: Axis) -> Apart | None:
    """Where a factor reads four steps as bytes apart; None: it does something else.

    Args:
        factor: bytes, or bytes or 0 by a condition that all four have in common.
        axis: the steps of the sum.
    """
    value = factor
    if not isinstance(value, e.ProducerLoad):
        condition, value, zero = _chosen(factor)
        plain = isinstance(zero, e.IntImm) and zero.value == 0
        if condition is None or not plain or axis.var in variables(condition):
            return None
    if not isinstance(value, e.ProducerLoad):
        return None
    forms = [affine(i) for i in value.indices]
    along = [k for k, i in enumerate(value.indices) if axis.var in variables(i)]
    if len(along) != 1 or forms[along[0]] is None:
        return None
    form, extent = forms[along[0]], int(value.producer.shape[along[0]])
    assert form is not None
    steps = [form.constant, *(c for v, c in form.terms if v is not axis.var)]
    if form.coefficient(axis.var) != 1 or any(c % _BYTES for c in steps):
        return None
    if axis.extent % _BYTES and axis.extent != extent:
        return None  # a last word would have bytes of others
    if Access(value.producer, tuple(forms)).stride(axis.var) == 1:
        return None
    return Apart(value, along[0])


def gain(
    c: Contraction, places: Sequence[Axis], others: Sequence[Axis], found: Apart, many: int
) -> float:
    """Cycles that a product saves, roughly, where a kernel before it stores a factor's words.

    Args:
        c: the product, of words.
        places: of the result that the factor has. others: that it has not.
        found: the factor.
        many: the GPU's multiprocessors.
    """
    tiles = extent_of(c.lead) * -(-extent_of(others) // _TILE)
    copied = -(-extent_of(places) // _TILE) * _TILE * extent_of(c.steps) * tiles
    size = prod(int(d) for d in found.load.producer.shape)
    return copied * _APART / (_LANES * many) - KERNEL - moving(2 * size, many)


def _words(tensor: Tensor, dimension: int, kind: str) -> Tensor:
    """The words of a tensor's bytes along one of its dimensions; what is beyond its end is 0."""
    extent = int(tensor.shape[dimension])
    shape = list(tensor.shape)
    shape[dimension] = ops.const(-(-extent // _BYTES))

    def element(*index: e.Var) -> e.PrimExpr:
        parts = []
        for k in range(_BYTES):
            step = index[dimension] * _BYTES + k
            byte: e.PrimExpr = tensor(*index[:dimension], step, *index[dimension + 1 :])
            if extent % _BYTES:
                byte = te.if_then_else(step < extent, byte, te.const(0, tensor.dtype))
            parts.append(byte)
        return e.Call(kind, PACK, tuple(parts))

    return te.compute(tuple(shape), element, name=f"{tensor.op.name}.words")


def _chosen(n: e.PrimExpr) -> tuple:
    """The condition and both values of a choice; three times None: it is none."""
    if isinstance(n, e.Select):
        return n.condition, n.true_value, n.false_value
    if isinstance(n, e.Call) and n.op.removeprefix("tir.") == "if_then_else":
        return n.args
    return None, None, None
