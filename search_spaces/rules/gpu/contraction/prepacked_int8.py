"""Prepacked int8: bytes that are not contiguous, packed as int8x4 by a kernel before a GEMM.

    W[n, w, y, x] = the bytes X[n, 4*w .. 4*w + 3, y, x]

A GEMM loads each byte of an image for every place of its window and for every tile of its result.
Of contiguous bytes four are one load; of these, each is one. W has the padding of X in it, so that
the GEMM's loads need no guard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from whet.compiler import te
from whet.compiler.codegen.cuda.dot_product import PACK, value_or_zero
from whet.compiler.te import Tensor
from whet.compiler.tir.expr import Call, PrimExpr, ProducerLoad, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import variables
from whet.search_spaces.forms.contraction import Axis, Contraction, extent_of
from whet.search_spaces.graph.access import Access, affine
from whet.search_spaces.rules.gpu.contraction.gemm_plan import KERNEL, moving

_BYTES = 4
# Cycles of a multiprocessor's 128 lanes to pack a word of four bytes, beyond those to copy
# one: three loads, which a quarter of the lanes can do at a time, and moves.
_PACKING = 15
_LANES = 128
# Rows and columns of a tile, for the estimate.
_TILE = 64


@dataclass(frozen=True, eq=False)
class ScatteredBytes:
    """An operand whose four elements along K are not contiguous.

    Attributes:
        load: the read of them in the operand.
        dimension: of the tensor that is read, the one of K.
    """

    load: ProducerLoad
    dimension: int

    def prepacked(
        self, operand: PrimExpr, axis: Axis, word: Axis, kind: str
    ) -> tuple[PrimExpr, Tensor]:
        """The operand with a read of a word in the place of the byte's, and the words.

        Args:
            operand: the one of this read.
            axis: of K. word: four of its elements at a time.
            kind: the type of a word.
        """
        words = _words(self.load.producer, self.dimension, kind)
        (place,) = (i for i in self.load.indices if axis.var in variables(i))
        rest = affine(place)
        assert rest is not None
        at: PrimExpr = word.var
        for v, step in rest.terms.values():
            if v is not axis.var:
                at = at + v * (step // _BYTES)
        index = list(self.load.indices)
        index[self.dimension] = at + rest.const // _BYTES
        whole = words(*index)
        if operand is self.load:
            return whole, words
        choice = value_or_zero(operand)
        assert choice is not None
        return te.if_then_else(choice[0], whole, te.const(0, kind)), words


def scattered_bytes_of(operand: PrimExpr, axis: Axis) -> ScatteredBytes | None:
    """The reads of an operand whose bytes of a word are not contiguous; None: they are, or unknown.

    Args:
        operand: bytes, or bytes or 0 by a condition that all four have in common.
        axis: of K.
    """
    value = operand
    if not isinstance(value, ProducerLoad):
        choice = value_or_zero(operand)
        if choice is None or axis.var in variables(choice[0]):
            return None
        value = choice[1]
    if not isinstance(value, ProducerLoad):
        return None
    forms = [affine(i) for i in value.indices]
    along = [k for k, i in enumerate(value.indices) if axis.var in variables(i)]
    if len(along) != 1 or forms[along[0]] is None:
        return None
    form, extent = forms[along[0]], int(value.producer.shape[along[0]])
    assert form is not None
    steps = [form.const, *(c for v, c in form.terms.values() if v is not axis.var)]
    if form.coefficient(axis.var) != 1 or any(c % _BYTES for c in steps):
        return None
    if axis.extent % _BYTES and axis.extent != extent:
        return None  # a last word would have bytes of others
    if Access(value.producer, tuple(forms)).stride(axis.var) == 1:
        return None
    return ScatteredBytes(value, along[0])


def gain(
    c: Contraction, places: Sequence[Axis], others: Sequence[Axis], found: ScatteredBytes, many: int
) -> float:
    """Cycles that a GEMM saves, roughly, where a kernel before it packs an operand.

    Args:
        c: the contraction, of packed int8x4.
        places: the axes of M or N that the operand has. others: those that it has not.
        found: the operand.
        many: the GPU's multiprocessors.
    """
    tiles = extent_of(c.lead) * -(-extent_of(others) // _TILE)
    copied = -(-extent_of(places) // _TILE) * _TILE * extent_of(c.steps) * tiles
    size = prod(int(d) for d in found.load.producer.shape)
    return copied * _PACKING / (_LANES * many) - KERNEL - moving(2 * size, many)


def _words(tensor: Tensor, dimension: int, kind: str) -> Tensor:
    """The packed int8x4 of a tensor along one of its dimensions; 0 beyond its end."""
    extent = int(tensor.shape[dimension])
    shape = list(tensor.shape)
    shape[dimension] = ops.const(-(-extent // _BYTES))

    def element(*index: Var) -> PrimExpr:
        front, word, behind = index[:dimension], index[dimension], index[dimension + 1 :]
        return packed_word(word, extent, lambda k: tensor(*front, k, *behind), tensor.dtype, kind)

    return te.compute(tuple(shape), element, name=f"{tensor.op.name}.words")


def packed_word(
    word: PrimExpr,
    extent: int,
    byte: Callable[[PrimExpr], PrimExpr],
    dtype: str,
    kind: str,
) -> PrimExpr:
    """Four int8 along an axis as one packed int8x4; 0 beyond the end of the axis.

    Args:
        word: the number of the word along the axis.
        extent: of the axis.
        byte: of an index along the axis, the element.
        dtype: of the elements.
        kind: the type of the word.
    """
    parts = []
    for k in range(_BYTES):
        index = word * _BYTES + k
        value = byte(index)
        if extent % _BYTES:
            value = te.if_then_else(index < extent, value, te.const(0, dtype))
        parts.append(value)
    return Call(kind, PACK, tuple(parts))
