"""Threads must not share a byte of an array that holds two elements a byte.

To store half a byte is to read the byte and to write it back: where one thread stores its lower
half and another its upper half at the same time, one of the two is lost. Of an index

    even multiples of loop variables  +  j  +  an even number

the bytes of two threads are apart where the elements are, if ``j``, the loop that goes through both
halves, is one of a thread's own. So they are where all multiples are even, and each thread stores
to the same half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whet.compiler.arith import Affine, Analyzer
from whet.compiler.errors import LowerError
from whet.compiler.tir.expr import IntImm, PrimExpr, Var
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import PARALLEL, THREAD_BINDING, AttrStmt, BufferStore, For, Stmt
from whet.compiler.tir.visit.rewrite import statements_of, variables


@dataclass(frozen=True, slots=True)
class Index:
    """What is known of the lowest bit of an index.

    Attributes:
        odd: the atoms of which it has an odd multiple.
        single: it has one of that atom.
        const: its constant part.
    """

    odd: tuple[PrimExpr, ...]
    single: bool
    const: int

    @staticmethod
    def of(form: Affine) -> Index:
        """That of an index as an affine form."""
        odd = [(atom, c) for atom, c in form.terms.values() if c % 2]
        return Index(tuple(a for a, _ in odd), all(c == 1 for _, c in odd), form.const)

    @property
    def is_even(self) -> bool:
        """The index is an even number."""
        return not self.odd and self.const % 2 == 0


@dataclass(frozen=True, slots=True)
class _Around:
    """The loops around a store: variables of threads, and the first value of each serial one."""

    threads: tuple[Var, ...] = ()
    begins: tuple[tuple[Var, PrimExpr], ...] = ()


def check_apart(body: Stmt, packed: set[Var]) -> None:
    """Refuse stores of threads to the two halves of a byte.

    Args:
        body: statements over flat buffers.
        packed: the memory that holds two elements a byte.

    Raises:
        LowerError: it is not certain that no two threads store to one byte.
    """
    analyzer = Analyzer()
    halves: dict[Var, int] = {}
    for store, around in _stores(body, _Around(), packed, analyzer):
        if not around.threads:
            continue
        index = store.indices[0]
        base = getattr(index, "base", index)
        half = _half(analyzer.affine(base), around) if getattr(index, "stride", 1) == 1 else None
        if half is None or halves.setdefault(store.buffer.data, half) != half:
            _refuse(store, base, around)


def _stores(
    n: Stmt, around: _Around, packed: set[Var], analyzer: Analyzer
) -> Iterator[tuple[BufferStore, _Around]]:
    """The stores to packed memory, with the loops around them."""
    if isinstance(n, BufferStore) and n.buffer.data in packed:
        yield n, around
    elif isinstance(n, For):
        bound = n.kind == THREAD_BINDING and n.thread not in ("vthread", "cthread")
        inside = _inside(around, n.var, None if bound or n.kind == PARALLEL else n.min)
        with analyzer.inside(n.var, n.min, n.extent):
            yield from _stores(n.body, inside, packed, analyzer)
    else:
        if isinstance(n, AttrStmt) and n.key == "thread_extent":
            around = _inside(around, getattr(n.node, "var", n.node), None)
        for p in statements_of(n):
            yield from _stores(p, around, packed, analyzer)


def _inside(around: _Around, var: Var, begin: PrimExpr | None) -> _Around:
    if begin is None:
        return _Around((*around.threads, var), around.begins)
    return _Around(around.threads, (*around.begins, (var, begin)))


def _half(form: Affine, around: _Around) -> int | None:
    """The half of its bytes that a thread stores first; None where threads may share a byte."""
    known = {v for v, _ in around.begins} | set(around.threads)
    if any(not isinstance(a, Var) and variables(a) & known for a, _ in form.terms.values()):
        return None
    index = Index.of(form)
    if not index.odd:
        return index.const % 2
    begins: dict[Any, PrimExpr] = dict(around.begins)
    if len(index.odd) > 1 or not index.single or index.odd[0] not in begins:
        return None
    begin = begins[index.odd[0]]
    first = begin.value if isinstance(begin, IntImm) else 1
    return None if (first + index.const) % 2 else 0


def _refuse(store: BufferStore, index: PrimExpr, around: _Around) -> None:
    names = ", ".join(v.name for v in around.threads)
    name, kind = store.buffer.name, store.buffer.dtype
    raise LowerError(
        f"{name}[{expr_text(index)}] of {kind} is stored by the threads of {names}",
        f"two elements of {kind} are one byte, and two threads may store to one: one of the two "
        "elements would be lost",
        "split an axis by an even factor and leave the inner loop to one thread, so that each "
        f"stores whole bytes; rows of an odd length: fuse the axes of {name} first",
    )
