"""The program of a template's default config: its author's choice, which no static check blames."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from whet.compiler.errors import WhetError

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.compiler.tir.function import IRModule
    from whet.measure.values import MeasureInput
    from whet.search_spaces import TemplateRef, Workload

T = TypeVar("T")


def of_default(inp: MeasureInput, look: Callable[[IRModule, Target], T]) -> T | None:
    """A property of the default config's program, for a candidate's template, workload and target.

    Args:
        inp: the candidate.
        look: computes it from the lowered program and the target, once for all candidates.

    Returns:
        The property; None where the program cannot be made.
    """
    return _of_default(look, inp.template, inp.workload, json.dumps(inp.target, sort_keys=True))


@functools.lru_cache(maxsize=32)
def _of_default(
    look: Callable[[IRModule, Target], T], template: TemplateRef, workload: Workload, target: str
) -> T | None:
    from whet.compiler import driver
    from whet.compiler.target import Target
    from whet.search_spaces import resolve

    made_for, resolved = Target(json.loads(target)), resolve(template)
    try:
        with made_for:
            default = resolved.space(workload).default
            module = driver.lower(*resolved.instantiate(workload, default))
        return look(module, made_for)
    except WhetError:
        return None
