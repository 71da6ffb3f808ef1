"""The rule for chains whose rows are too few to keep threads busy: each stage on its own.

A softmax of two rows of 1,000,000 on eight threads, where the rule for rows has work for two:

    m[i] = max(A[i, :])                     chunks of a row on all threads
    e[i, :] = exp(A[i, :] - m[i])           pieces of a row on all threads
    s[i] = sum(e[i, :])
    B[i, :] = e[i, :] / s[i]

Stages between them that cost little are computed where they are read.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import prod
from typing import Any

from whet.compiler.te.schedule import Schedule
from whet.search_spaces.forms.gemm import gemm_form
from whet.search_spaces.graph.rule import Rule
from whet.search_spaces.graph.stages import REDUCTION, Group
from whet.search_spaces.rules.cpu.injective import Injective
from whet.search_spaces.rules.cpu.loops import cycles_of_chain, worth_threads
from whet.search_spaces.rules.cpu.reduction import Reduction
from whet.search_spaces.rules.producers import apart
from whet.search_spaces.rules.vectors import lanes_of

_RULES: tuple[Rule, ...] = (Reduction(), Injective())
_AGAIN = 8  # operations and loads of computing an element anew in all its readers, at most
_ROWS_A_THREAD = 4  # fewer leave threads waiting for the last ones
_STORED = 4.0  # cycles of a vector that is written, and read again by another thread


class Stages(Rule):
    """The reductions of a chain one after the other, each over all rows and on all threads."""

    def applies(self, group: Group) -> bool:
        """A chain of stages over rows."""
        return group.is_chain

    def competes(self, group: Group) -> bool:
        """A chain of few rows for the threads, which is worth them; one with products of rows."""
        threads = group.target.num_threads
        few = threads > 1 and _rows(group) < _ROWS_A_THREAD * threads and worth_threads(group)
        return few or has_products(group)

    def cycles(self, group: Group) -> float | None:
        """The work on all threads, with what is stored between the stages."""
        lanes = lanes_of(group.target, group.last.dtype)
        stored = sum(node.points for node in group.inner) / lanes * _STORED
        return (cycles_of_chain(group) + stored) / group.target.num_threads

    def schedule(self, s: Schedule, group: Group) -> None:
        """Inline what is cheap, and schedule the other stages one by one."""
        for node, after in apart(s, group, _AGAIN):
            prefix = f"{group.prefix}{node.name}."
            memo: dict[Hashable, Any] = group.once((Stages, node.index), dict)
            alone = Group(node, after, prefix=prefix, cfg=group.cfg, target=group.target, memo=memo)
            next(rule for rule in _RULES if rule.applies(alone)).schedule(s, alone)


def has_products(group: Group) -> bool:
    """True where a stage of the chain is a product of rows, as the scores of one query are."""

    def find() -> bool:
        nodes = (*group.members, group.anchor)
        return any(n.role == REDUCTION and gemm_form(n.op) is not None for n in nodes)

    return group.once(has_products, find)


def _rows(group: Group) -> int:
    return prod(group.last.extents[k] for k in group.rows)
