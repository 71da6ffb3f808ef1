"""Workloads as people read them: ``matmul(64, 64, 64, transpose_b=True)``, ``softmax(512, 1000)``.

What a template's defaults say is left out. A workload's identity is its key, never this text.
"""

from __future__ import annotations

import re
from inspect import Parameter
from typing import TYPE_CHECKING, Any

from whet.search_spaces.values.registry import registered

if TYPE_CHECKING:
    from whet.search_spaces.template import Template
    from whet.search_spaces.values.workload import Workload

_DERIVED = re.compile(r"graph/(?:T_)?(.+)/[0-9a-f]{12}")
# Outputs whose names say a step of the operator, and not the operator.
_OPERATORS = {"softmax_norm": "softmax"}


def shown(workload: Workload) -> str:
    """The workload in the form of a call, with only what differs from the template's defaults.

    A derived graph shows the name of its outputs and its numbers, without ones at the end. A
    template that this process does not know shows all of its arguments.
    """
    derived = _DERIVED.fullmatch(workload.template)
    if derived is not None:
        name, numbers = derived[1], list(workload.args)
        while len(numbers) > 1 and numbers[-1] == 1:
            numbers.pop()
        return _call(_OPERATORS.get(name, name), map(str, numbers))
    template = registered(workload.template)
    words = None if template is None else _differing(template, workload.args)
    return _call(workload.template, map(str, workload.args) if words is None else words)


def name_of(workload: Workload) -> str:
    """The operator's name in :func:`shown`."""
    return shown(workload).partition("(")[0]


def in_full(workload: Workload) -> str:
    """The template's name with all arguments: what ``--op`` and ``--args`` take."""
    return _call(workload.template, map(str, workload.args))


def _call(name: str, words: Any) -> str:
    return f"{name}({', '.join(words)})"


def _differing(template: Template, args: tuple) -> list[str] | None:
    """The arguments to show; None where they are not the template's."""
    parameters = list(template.signature.parameters.values())
    if len(parameters) != len(args) or any(p.kind is Parameter.VAR_POSITIONAL for p in parameters):
        return None
    words: list[str] = []
    named = False  # once one is left out, those behind it need their names
    for place, (parameter, value) in enumerate(zip(parameters, args)):
        if parameter.default is not Parameter.empty and _is_default(template, args, place):
            named = True
        else:
            words.append(f"{parameter.name}={value}" if named else str(value))
    return words


def _is_default(template: Template, args: tuple, place: int) -> bool:
    """True if an argument is what its default becomes beside the other ones."""
    default = list(template.signature.parameters.values())[place].default
    given = (*args[:place], default, *args[place + 1 :])
    try:
        canonical = given if template.canonical is None else template.canonical(given)
        return repr(canonical[place]) == repr(args[place])
    except Exception:  # a user's function; errors about these arguments show them, too
        return False
