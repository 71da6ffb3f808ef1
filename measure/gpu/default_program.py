"""What a template's default config makes: its author's own choice, which no static check blames."""

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
    """What the default config's program has, for a candidate's template, workload and target.

    Args:
        inp: the candidate.
        look: what is asked of the program, lowered, and the target; found once for all candidates.

    Returns:
        Its answer; None where the program cannot be made.
    """
    return _of_default(look, inp.template, inp.workload, json.dumps(inp.target, sort_keys=True))


@functools.lru_cache(maxsize=32)
def _of_default(
    look: Callable[[IRModule, Target], T], template: TemplateRef, workload: Workload, target: str
) -> T | None:
    from whet.compiler import driver
    from whet.compiler.target import Target
    from whet.search_spaces import resolve

    there, found = Target(json.loads(target)), resolve(template)
    try:
        with there:
            default = found.space(workload).default
            module = driver.lower(*found.instantiate(workload, default))
        return look(module, there)
    except WhetError:
        return None
