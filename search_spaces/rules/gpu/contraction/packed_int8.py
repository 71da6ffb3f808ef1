"""Contractions of int8 on a GPU as contractions of packed int8x4: four K iterations a dp4a.

    C[i, j] = sum over k of int32(A[i, k]) * int32(B[j, k])
            = sum over w of dp4a(A[i, 4*w .. 4*w + 3], B[j, 4*w .. 4*w + 3])

Shared memory and registers then hold words, in the tiles of any other GEMM. A K that four does not
divide goes on with zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from whet.compiler.codegen.cuda.dot_product import DP4A, PACK
from whet.compiler.te import Tensor
from whet.compiler.tir.expr import Call, Cast, PrimExpr, ProducerLoad, Var
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import nodes, substitute, variables
from whet.search_spaces.forms.contraction import Axis, Contraction
from whet.search_spaces.graph.access import Access, affine
from whet.search_spaces.rules.gpu.contraction.prepacked_int8 import (
    ScatteredBytes,
    packed_word,
    scattered_bytes_of,
)

_WORDS = {"int8": "int32", "uint8": "uint32"}
_BYTES = 4
# Of a shorter K too much would be zeros.
_LEAST = 3

WORDS = 4
"""Words that a thread copies at once."""


@dataclass(frozen=True, eq=False)
class PackedInt8:
    """A contraction of int8 as one of packed int8x4.

    Attributes:
        contraction: of words that are packed where they are read.
        kind: the type of a word.
        axis: of K, whose elements become words. word: four of them at a time.
        bytes: the operands before.
        scattered: of each operand the reads of a word's bytes, where these are not contiguous.
    """

    contraction: Contraction
    kind: str
    axis: Axis
    word: Axis
    bytes: tuple[PrimExpr, PrimExpr]
    scattered: tuple[ScatteredBytes | None, ScatteredBytes | None]

    def prepacked(self, sides: Collection[int]) -> tuple[Contraction, list[Tensor]]:
        """The contraction with the words of some operands packed before it, and these words."""
        made, words = [self.contraction.left, self.contraction.right], []
        for k in sides:
            found = self.scattered[k]
            assert found is not None
            made[k], own = found.prepacked(self.bytes[k], self.axis, self.word, self.kind)
            words.append(own)
        return replace(self.contraction, left=made[0], right=made[1]), words


def as_packed_int8(c: Contraction) -> PackedInt8 | None:
    """A contraction of int8 as one of packed int8x4; None: it is none of int8 or uint8 alone.

    Args:
        c: the contraction.
    """
    left, right = (x.value if isinstance(x, Cast) else x for x in (c.left, c.right))
    kind = _WORDS.get(left.dtype)
    if (
        not c.is_product
        or kind is None
        or right.dtype != left.dtype
        or c.dtype not in _WORDS.values()
    ):
        return None
    axis = _best([x for x in c.steps if x not in c.windows], (left, right))
    if axis is None:
        return None
    word = Axis(Var(f"{axis.var.name}.word", axis.var.dtype), -(-axis.extent // _BYTES))
    steps = tuple(word if x is axis else x for x in c.steps)
    made = [_packed(x, axis, word, kind) for x in (left, right)]
    contraction = replace(c, left=made[0], right=made[1], steps=steps, term=_multiplied)
    scattered = scattered_bytes_of(left, axis), scattered_bytes_of(right, axis)
    return PackedInt8(contraction, kind, axis, word, (left, right), scattered)


def _multiplied(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The dp4a of two words."""
    return Call("int32", DP4A, (a, b, ops.const(0, "int32")))


def _best(axes: Sequence[Axis], operands: Sequence[PrimExpr]) -> Axis | None:
    """The axis along which the most is read as words; of equal ones the longest.

    Of an axis that no operand has, nothing would be 0 beyond the end.
    """
    read = {v for operand in operands for v in variables(operand)}
    many = [x for x in axes if x.extent >= _LEAST and x.var in read]
    if not many:
        return None
    reads = [
        Access(n.producer, tuple(affine(i) for i in n.indices))
        for operand in operands
        for n in nodes((operand,))
        if type(n) is ProducerLoad
    ]
    return max(many, key=lambda x: (sum(r.stride(x.var) == 1 for r in reads), x.extent))


def _packed(operand: PrimExpr, axis: Axis, word: Axis, kind: str) -> PrimExpr:
    """Four elements of an operand along an axis as a word."""
    if axis.var not in variables(operand):
        return Call(kind, PACK, (operand,) * _BYTES)

    return packed_word(
        word.var, axis.extent, lambda k: substitute(operand, {axis.var: k}), operand.dtype, kind
    )
