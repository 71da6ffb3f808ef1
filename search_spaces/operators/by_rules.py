"""Schedules of ``topi.<kind>.schedule_<operator>``: what the rules make of a graph, untuned.

A user builds with the tensors that they have, so a stage that a rule has rewritten keeps the name
of the operation that it stands for.
"""

from __future__ import annotations

from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Tensor
from whet.compiler.topi.schedules import cuda_reduce, x86_reduce
from whet.search_spaces.graph.validate_outputs import template_of


def x86(outs: list[Tensor]) -> Schedule:
    """The rules' default schedule for the processor in force; of open sizes a plain one."""
    made = _by_rules(outs, "llvm")
    return x86_reduce(outs) if made is None else made


def cuda(outs: list[Tensor]) -> Schedule:
    """The rules' default schedule for the GPU in force; of open sizes a plain one."""
    made = _by_rules(outs, "cuda")
    return cuda_reduce(outs) if made is None else made


def _by_rules(outs: list[Tensor], kind: str) -> Schedule | None:
    """The schedule with the default config; None where the rules schedule no such graph."""
    current = Target.current(allow_none=True)
    fits = current is not None and str(current.kind) == kind
    target = (current if current is not None and fits else Target(kind)).canonical()
    try:
        template, workload = template_of(outs)
    except ArgumentError:  # an extent is a symbol
        return None
    with target:
        s, args = template.instantiate(workload, template.space(workload, "full").default)
    for given, made in zip(outs, args[len(args) - len(outs) :]):
        if made != given and any(made in stage.op.input_tensors for stage in s.stages):
            return None  # another output reads it by its new name
        stage = s.stage_map[made.op]
        stage.origin_op = given.op
        s.stage_map[given.op] = stage
    return s
