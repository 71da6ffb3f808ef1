"""The template of a compute graph: its rules, one a group, under the config in force."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from whet.compiler.homes import imported
from whet.compiler.target import Target
from whet.compiler.te.lang.relations import ROOT
from whet.compiler.te.lang.tensor import ComputeOp, ExternOp, Operation, Tensor
from whet.compiler.te.schedule import Schedule, create_schedule
from whet.compiler.tir.expr import ProducerLoad
from whet.compiler.tir.visit.rewrite import Rewriter
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.rule import Chosen, choose_rules
from whet.search_spaces.graph.stages import INLINE, TILED, Group, is_ahead
from whet.search_spaces.template.config_scope import get_config
from whet.search_spaces.values.builtin import RULES_BY_INSTRUCTION

VERSION = 8
INSTRUCTIONS = 9
"""The version of the rules for graphs in which a declared instruction has a rule of its own."""
OTHERS, CONTRACTIONS, OPERATORS = "others", "contractions", "operators"
_OF_KIND = {"cuda": {OTHERS: 5, CONTRACTIONS: 6, OPERATORS: 0}}
"""Raise them when a change of a rule should retire the records made before it; of a kind of target
whose rules change at other times, its own numbers: of graphs with a contraction, of templates of
GEMMs and convolutions, and of all others. On GPUs those templates had functions of their own, whose
versions were all there was, before rules made the same programs: these records apply."""


def rules_version(part: str = OTHERS) -> int:
    """The version of the rules for the target in force.

    Args:
        part: what they schedule.
    """
    target = Target.current(allow_none=True)
    of_kind = {} if target is None else _OF_KIND.get(str(target.kind), {})
    return of_kind.get(part, VERSION)


def uses_instructions(graph: ComputeGraph) -> bool:
    """True if a declared instruction has a rule for a group of a graph, for the target in force."""
    target = Target.current(allow_none=True) or Target("llvm")
    home = RULES_BY_INSTRUCTION.get(str(target.kind))
    if home is None:
        return False
    known: dict[str, Any] = {"target": target, "instructions": graph.instructions}
    tiled = (g for g in graph.groups if g.role == TILED)
    return any(imported(home)(replace(g, **known)) for g in tiled)


def schedule_graph(graph: ComputeGraph) -> tuple[Schedule, list[Tensor]]:
    """The schedule of a graph under the config in force, and the tensors that the kernel takes."""
    target = Target.current(allow_none=True) or Target("llvm")
    # the rules for GPUs know no rows of several steps of an axis
    whole = graph.groups if str(target.kind) == "cuda" else graph.groups_in_blocks
    cfg, known = get_config(), graph.instructions
    given = [replace(g, notes={}, cfg=cfg, target=target, instructions=known) for g in whole]
    return _scheduled(graph, choose_rules(given, target, partial(_scheduled, graph)))


def _scheduled(graph: ComputeGraph, chosen: Chosen) -> tuple[Schedule, list[Tensor]]:
    """The schedule of a graph by a rule for each of its groups."""
    groups, ops = _rewritten(graph, chosen)
    outputs = [_now(t, ops) for t in graph.outputs]
    s = create_schedule(list(dict.fromkeys(t.op for t in outputs)))
    inner = {node.index for group in groups for node in group.consumers[:-1]}
    for node in graph.nodes:
        if node.role != INLINE and node.index not in inner:
            continue
        if ops[node.op] in s.stage_map:  # a rewrite may have put it into its reader already
            s[ops[node.op]].compute_inline()
    for group, (_, rule) in zip(groups, chosen):
        rule.schedule(s, group)
    for node in graph.nodes:
        stage = s.stage_map.get(ops[node.op])
        if is_ahead(node.op) and stage is not None and stage.attach_type == ROOT:
            stage.compute_ahead()
    return s, [_now(t, ops) for t in graph.args]


def _rewritten(
    graph: ComputeGraph, chosen: Chosen
) -> tuple[list[Group], dict[Operation, Operation]]:
    """The groups as their rules rewrite them; and each operation as it is computed then."""
    at = {group.anchor.index: (group, rule) for group, rule in chosen}
    behind = {node.index: group for group, _ in chosen for node in group.consumers}
    ops: dict[Operation, Operation] = {}
    by_index: dict[int, Operation] = {}
    inlined: list[Operation] = []
    for node in graph.nodes:
        op = node.op
        if node.index in behind:
            group = behind[node.index]
            op = _at_own_element(op, {n.op for n in (group.anchor, *group.consumers)})
        op = by_index[node.index] = _reading_now(op, ops)
        if node.index in at:
            group, rule = at[node.index]
            new = rule.rewrite(group.with_ops(by_index, inlined))
            op = by_index[node.index] = op if new is None else new.op
        ops[node.op] = op
        if node.role == INLINE:
            inlined.append(op)
    return [group.with_ops(by_index, inlined) for group, _ in chosen], ops


def _now(t: Tensor, ops: dict[Operation, Operation]) -> Tensor:
    op = ops.get(t.op, t.op)
    return t if op is t.op else Tensor(op, t.value_index)


def _at_own_element(op: Operation, chain: set[Operation]) -> Operation:
    """A consumer that reads those before it at its own indices, also where an axis has one step.

    What is computed for an element is then seen from its index; a 0 would not say whose it is.
    """
    assert isinstance(op, ComputeOp)
    own = tuple(axis.var for axis in op.axis)

    def moved(n: ProducerLoad) -> Any:
        n = rewrite.children(n)
        same = n.producer.op not in chain or all(i is v for i, v in zip(n.indices, own))
        return n if same else ProducerLoad(n.producer, own, n.dtype)

    rewrite = Rewriter({ProducerLoad: moved}, once=True)
    body = tuple(rewrite(b) for b in op.body)
    if all(new is old for new, old in zip(body, op.body)):
        return op
    return ComputeOp(op.name, op.axis, op.reduce_axis, body, op.tag, op.attrs)


def _reading_now(op: Operation, ops: dict[Operation, Operation]) -> Operation:
    """An operation that reads what its producers have become."""
    if all(ops.get(t.op, t.op) is t.op for t in op.input_tensors):
        return op
    if not isinstance(op, ComputeOp):
        assert isinstance(op, ExternOp)
        return replace(op, inputs=tuple(_now(t, ops) for t in op.inputs))

    def redirect(n: ProducerLoad) -> Any:
        n = rewrite.children(n)
        return ProducerLoad(_now(n.producer, ops), n.indices, n.dtype)

    rewrite = Rewriter({ProducerLoad: redirect}, once=True)
    body = tuple(rewrite(b) for b in op.body)
    return ComputeOp(op.name, op.axis, op.reduce_axis, body, op.tag, op.attrs)
