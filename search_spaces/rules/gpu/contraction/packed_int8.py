"""Products of bytes on a GPU as products of words: four steps of the sum by one instruction.

    C[i, j] = sum over k of int32(A[i, k]) * int32(B[j, k])
            = sum over w of dp4a(A[i, 4*w .. 4*w + 3], B[j, 4*w .. 4*w + 3])

Shared memory and registers then hold words, in the tiles of any other product. A sum whose steps
four does not divide goes on with zeros.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from whet.compiler import te
from whet.compiler.codegen.cuda.dot_product import DP4A, PACK
from whet.compiler.te import Tensor
from whet.compiler.te.lang.tensor import nodes
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops
from whet.compiler.tir.visit.rewrite import substitute, variables
from whet.search_spaces.graph.access import Access, affine
from whet.search_spaces.rules.gpu.contraction.axes import Axis, Contraction
from whet.search_spaces.rules.gpu.contraction.prepacked_int8 import Apart, apart_of

_WORDS = {"int8": "int32", "uint8": "uint32"}
_BYTES = 4
# Of fewer steps too many would be zeros.
_LEAST = 3

WORDS = 4
"""Words that a thread copies at once."""


@dataclass(frozen=True, eq=False)
class Words:
    """A product of bytes as one of words.

    Attributes:
        product: of words that are put together where they are read.
        kind: the type of a word.
        axis: the steps that become words. word: four of them at a time.
        bytes: the factors before.
        apart: of each factor whether, and where, it reads the bytes of a word apart.
    """

    product: Contraction
    kind: str
    axis: Axis
    word: Axis
    bytes: tuple[e.PrimExpr, e.PrimExpr]
    apart: tuple[Apart | None, Apart | None]

    def stored(self, sides: Collection[int]) -> tuple[Contraction, list[Tensor]]:
        """The product with the words of some factors stored before it, and these words."""
        made, words = [self.product.left, self.product.right], []
        for k in sides:
            found = self.apart[k]
            assert found is not None
            made[k], own = found.stored(self.bytes[k], self.axis, self.word, self.kind)
            words.append(own)
        return replace(self.product, left=made[0], right=made[1]), words


def in_words(c: Contraction) -> Words | None:
    """A product of bytes as one of words; None: it is none of bytes of one kind.

    Args:
        c: a sum of products.
    """
    left, right = (x.value if isinstance(x, e.Cast) else x for x in (c.left, c.right))
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
    word = Axis(e.Var(f"{axis.var.name}.word", axis.var.dtype), -(-axis.extent // _BYTES))
    steps = tuple(word if x is axis else x for x in c.steps)
    made = [_packed(x, axis, word, kind) for x in (left, right)]
    product = replace(c, left=made[0], right=made[1], steps=steps, term=_multiplied)
    apart = apart_of(left, axis), apart_of(right, axis)
    return Words(product, kind, axis, word, (left, right), apart)


def _multiplied(a: e.PrimExpr, b: e.PrimExpr) -> e.PrimExpr:
    """The sum of the products of the bytes of two words."""
    return e.Call("int32", DP4A, (a, b, ops.const(0, "int32")))


def _best(axes: Sequence[Axis], factors: Sequence[e.PrimExpr]) -> Axis | None:
    """The axis along which the most is read as words; of equal ones the longest.

    Of an axis that no factor has, nothing would be 0 beyond the end.
    """
    read = {v for factor in factors for v in variables(factor)}
    many = [x for x in axes if x.extent >= _LEAST and x.var in read]
    if not many:
        return None
    reads = [
        Access(n.producer, tuple(affine(i) for i in n.indices))
        for factor in factors
        for n in nodes((factor,))
        if type(n) is e.ProducerLoad
    ]
    return max(many, key=lambda x: (sum(r.stride(x.var) == 1 for r in reads), x.extent))


def _packed(factor: e.PrimExpr, axis: Axis, word: Axis, kind: str) -> e.PrimExpr:
    """Four steps of a factor as a word."""
    if axis.var not in variables(factor):
        return e.Call(kind, PACK, (factor,) * _BYTES)
    parts = []
    for k in range(_BYTES):
        step = word.var * _BYTES + k
        byte = substitute(factor, {axis.var: step})
        if axis.extent % _BYTES:
            byte = te.if_then_else(step < axis.extent, byte, te.const(0, factor.dtype))
        parts.append(byte)
    return e.Call(kind, PACK, tuple(parts))
