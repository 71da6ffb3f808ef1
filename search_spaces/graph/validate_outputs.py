"""Validation of what ``create_task(outputs=...)`` is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.lang.graph import post_order
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from whet.compiler.tir.expr import IntImm
from whet.compiler.tir.visit.rewrite import variables
from whet.search_spaces.graph.family import derived
from whet.search_spaces.template import Template
from whet.search_spaces.values import Workload

_SHOWN = 3  # operations that a label names
_LABEL = re.compile(r"[A-Za-z0-9_.+-]+")


def template_of(
    outputs: Any, args: Any = None, name: str | None = None
) -> tuple[Template, Workload]:
    """The template that is derived from a compute graph, and the workload of its extents.

    Args:
        outputs: a tensor, or several; each is computed, and of known extents.
        args: the tensors that the kernel takes, all inputs and outputs among them; None: inputs in
            the order in which they are met, then the outputs.
        name: a word for people, part of the template's name; None: the outputs' names.

    Raises:
        ArgumentError: anything else.
    """
    wanted, taken = validate(outputs, args)
    return derived(wanted, taken, _label(name, wanted))


def validate(outputs: Any, args: Any = None) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs of a graph and what its kernel takes, if they can be scheduled by rules.

    Args:
        outputs, args: as in :func:`template_of`.

    Raises:
        ArgumentError: they cannot.
    """
    wanted = _tensors(outputs, "outputs")
    if not wanted:
        raise ArgumentError(
            "create_task(outputs=[])", "there is nothing to compute", "name at least one tensor"
        )
    ops = post_order([t.op for t in wanted])
    for t in wanted:
        if isinstance(t.op, PlaceholderOp):
            raise ArgumentError(
                f"create_task(outputs=[{t.name}])",
                f"{t.name} is an input (a placeholder): nothing computes it",
                "name the tensors that te.compute or te.extern made",
            )
    for op in ops:
        _check_extents(op)
    return wanted, _arguments(args, wanted, ops)


def _tensors(given: Any, which: str) -> list[Tensor]:
    """A list of different tensors."""
    many = [given] if isinstance(given, Tensor) else given
    request = f"create_task({which}=...)"
    if isinstance(many, str | bytes) or not isinstance(many, Sequence):
        raise ArgumentError(
            request,
            f"{which} is a {type(given).__name__}, not a list of tensors",
            f"create_task({which}=[C], ...)",
        )
    for k, t in enumerate(many):
        if not isinstance(t, Tensor):
            raise ArgumentError(
                request,
                f"{which}[{k}] is a {type(t).__name__}, not a tensor",
                "tensors come from te.placeholder, te.compute and te.extern",
            )
        if t in many[:k]:
            raise ArgumentError(
                request, f"{which}[{k}], {t.name}, is named twice", "once is enough"
            )
    return list(many)


def _check_extents(op: Operation) -> None:
    if isinstance(op, ScanOp):
        raise ArgumentError(
            f"create_task(outputs=...): {op.name}",
            "it is a te.scan, for which no space is derived",
            "write a template of it: @whet.template('name')",
        )
    shapes = [d for k in range(op.num_outputs) for d in op.output_shape(k)]
    if isinstance(op, ComputeOp):
        domains = [a.dom for a in op.reduce_axis if a.dom is not None]
        shapes += [x for dom in domains for x in (dom.min, dom.extent)]
    for d in shapes:
        if not isinstance(d, IntImm):
            if isinstance(op, ComputeOp) and not variables(d).isdisjoint(a.var for a in op.axis):
                raise ArgumentError(
                    f"create_task(outputs=...): {op.name}",
                    f"how far it reduces, {d}, depends on the element: a space tiles loops of "
                    "known extents",
                    "reduce over the whole range with a condition, "
                    "te.sum(a[i, k], axis=k, where=k <= i); or tune a template of your own",
                )
            raise ArgumentError(
                f"create_task(outputs=...): {op.name}",
                f"the extent {d} is a symbol: how to tile a loop depends on how long it is",
                "give numbers, one task for each set of extents that matters; or tune a template "
                "of your own, which says how its loops are split",
            )


def _arguments(args: Any, outputs: list[Tensor], ops: list[Operation]) -> list[Tensor]:
    """The kernel's arguments; all inputs and outputs must be among them."""
    inputs = [op.output(0) for op in ops if isinstance(op, PlaceholderOp)]
    # A kernel stores all that an operation makes, whether it is asked for or not.
    made = list(dict.fromkeys(t.op for t in outputs))
    needed = [*inputs, *(op.output(k) for op in made for k in range(op.num_outputs))]
    if args is None:
        outputs += [t for t in needed if t not in outputs and t not in inputs]
        return [*inputs, *outputs]
    taken = _tensors(args, "args")
    request = f"create_task(outputs=..., args=[{', '.join(t.name for t in taken)}])"
    missing = [t for t in needed if t not in taken]
    if missing:
        raise ArgumentError(
            request,
            f"args leaves out {', '.join(t.name for t in missing)}",
            "name every input and every output; without args= the inputs come in the order in "
            "which they are met, then the outputs",
        )
    unknown = [t for t in taken if t not in needed and not isinstance(t.op, PlaceholderOp)]
    if unknown:
        raise ArgumentError(
            request,
            f"{', '.join(t.name for t in unknown)}: neither an input nor an output; how (and "
            "whether) it is stored is up to the space",
            "add it to outputs, or leave it out of args",
        )
    return taken


def _label(name: str | None, outputs: Sequence[Tensor]) -> str:
    if name is None:
        words = [re.sub(r"[^A-Za-z0-9_.]", "_", t.op.name) or "unnamed" for t in outputs]
        words = list(dict.fromkeys(words))
        return "+".join(words[:_SHOWN]) + ("+" if len(words) > _SHOWN else "")
    if not isinstance(name, str) or not _LABEL.fullmatch(name):
        raise ArgumentError(
            f"create_task(outputs=..., name={name!r})",
            "a name is a word of letters, digits, '_', '.', '+' and '-'",
            'name="softmax"',
        )
    return name
