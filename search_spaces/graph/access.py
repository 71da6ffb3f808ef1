"""The reads of a stage: each index as an affine form of the stage's axes, if it is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whet.compiler.te.lang.tensor import ComputeOp, Tensor, nodes
from whet.compiler.tir import expr as e


@dataclass(frozen=True)
class Affine:
    """``constant + sum(coefficient * variable)``.

    Attributes:
        terms: the variables (of axes) with their coefficients, which are never 0.
        constant: what is added.
    """

    terms: tuple[tuple[e.Var, int], ...] = ()
    constant: int = 0

    @property
    def variables(self) -> tuple[e.Var, ...]:
        """The variables that it depends on."""
        return tuple(v for v, _ in self.terms)

    @property
    def variable(self) -> e.Var | None:
        """The variable that it is, without factor or offset; None if it is anything else."""
        plain = len(self.terms) == 1 and self.terms[0][1] == 1 and self.constant == 0
        return self.terms[0][0] if plain else None

    def coefficient(self, variable: e.Var) -> int:
        """The step of the index when ``variable`` grows by one."""
        return next((c for v, c in self.terms if v is variable), 0)

    def __add__(self, other: Affine) -> Affine:
        total = dict(self.terms)
        for v, c in other.terms:
            total[v] = total.get(v, 0) + c
        terms = tuple((v, c) for v, c in total.items() if c)
        return Affine(terms, self.constant + other.constant)

    def times(self, factor: int) -> Affine:
        """The form with everything multiplied by a number."""
        if factor == 0:
            return Affine()
        return Affine(tuple((v, c * factor) for v, c in self.terms), self.constant * factor)


@dataclass(frozen=True)
class Access:
    """One read of a tensor.

    Attributes:
        tensor: what is read.
        indices: for each dimension the affine form of its index; None: it is not affine (a
            quotient, a remainder, an element of another tensor).
    """

    tensor: Tensor
    indices: tuple[Affine | None, ...]

    @property
    def variables(self) -> frozenset[e.Var]:
        """The variables that the affine indices depend on."""
        return frozenset(v for i in self.indices if i is not None for v in i.variables)

    @property
    def is_affine(self) -> bool:
        """True if every index is an affine form."""
        return None not in self.indices

    def stride(self, variable: e.Var) -> int | None:
        """Elements between the reads of neighbouring ``variable``; None where nobody knows."""
        step, width = 0, 1
        for index, extent in zip(reversed(self.indices), reversed(self.tensor.shape)):
            if index is None:
                return None
            step += width * index.coefficient(variable)
            width *= int(extent)
        return step


def accesses(op: ComputeOp) -> tuple[Access, ...]:
    """Every different read of an operation, in the order of its first use."""
    found: dict[tuple, Access] = {}
    for n in nodes(op.body):
        if type(n) is e.ProducerLoad:
            access = Access(n.producer, tuple(affine(i) for i in n.indices))
            key = access if access.is_affine else (access.tensor, id(n))
            found.setdefault((key,), access)
    return tuple(found.values())


def affine(n: e.PrimExpr) -> Affine | None:
    """An index as an affine form of the variables in it; None if it is not one."""
    if isinstance(n, e.Var):
        return Affine(((n, 1),))
    if isinstance(n, e.IntImm):
        return Affine((), n.value)
    if isinstance(n, e.Cast):
        return affine(n.value)
    if not isinstance(n, e.Add | e.Sub | e.Mul):
        return None
    a, b = affine(n.a), affine(n.b)
    if a is None or b is None:
        return None
    if isinstance(n, e.Add):
        return a + b
    if isinstance(n, e.Sub):
        return a + b.times(-1)
    if a.terms and b.terms:
        return None
    return a.times(b.constant) if not b.terms else b.times(a.constant)


def composed(index: Affine | None, values: Mapping[e.Var, Affine | None]) -> Affine | None:
    """An index with forms put in for its variables; None where one of those is not affine."""
    if index is None:
        return None
    total = Affine((), index.constant)
    for v, c in index.terms:
        form = values.get(v, Affine(((v, 1),)))
        if form is None:
            return None
        total = total + form.times(c)
    return total
