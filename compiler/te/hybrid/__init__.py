"""Hybrid script, as TVM's ``te.hybrid``: loops in a subset of Python.

A script that is called with tensors makes an operation of them; with arrays it runs as Python.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te.hybrid.module import HybridModule
from whet.compiler.te.hybrid.print_source import printed
from whet.compiler.te.hybrid.program import outside
from whet.compiler.te.hybrid.read import is_symbolic, operation
from whet.compiler.te.hybrid.runtime import as_python
from whet.compiler.te.hybrid.source import ScriptError, source_of

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule

__all__ = ["HybridModule", "ScriptError", "build", "script"]


def script(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of a function that is written in the subset of Python.

    Called with tensors, variables (``te.var``), numbers and lists of them, it is read from its
    source and returns tensors; called with arrays and numbers, it runs as Python. There outputs
    begin with zeros; in a kernel elements that no path writes are not initialised.

    ``vectorize`` and ``parallel`` of a loop are taken at the user's word, unless all steps store
    one element: reads of what other steps store, and stores at indices that are read, are not
    checked.

    >>> @te.hybrid.script
    ... def outer(a, b):
    ...     c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    ...     for i in range(a.shape[0]):
    ...         for j in range(b.shape[0]):
    ...             c[i, j] = a[i] * b[j]
    ...     return c
    >>> a, b = te.placeholder((4,), name="a"), te.placeholder((8,), name="b")
    >>> c = outer(a, b)
    >>> s = te.create_schedule(c.op)
    >>> i, j = c.op.axis
    >>> jo, ji = s[c].split(j, 4)
    >>> s[c].reorder(jo, i, ji)
    >>> s[c].vectorize(ji)
    >>> print(lower(s, [a, b, c]))
    def main(a: float32[4], b: float32[8], outer: float32[32]):
        for j_outer in range(2):
            for i in range(4):
                outer[ramp(i * 8 + j_outer * 4, 1, 4)] = broadcast(a[i], 4) * b[ramp(j_outer * 4, 1, 4)]

    Raises:
        ArgumentError: for what is no function.
    """  # noqa: E501
    if not inspect.isfunction(pyfunc):
        raise ArgumentError(f"te.hybrid.script({pyfunc!r})", "a script is a function")
    kept: list[Any] = []

    @wraps(pyfunc)
    def call(*args: Any, **options: Any) -> Any:
        if not is_symbolic(*args, *options.values()):
            return as_python(pyfunc)(*args, **options)
        if not kept:
            kept.append(source_of(pyfunc))
        return operation(kept[0], inspect.signature(pyfunc), outside(pyfunc), args, options)

    call.__whet_script__ = pyfunc  # type: ignore[attr-defined]
    return call


def build(
    sch: Schedule, inputs: Sequence[Any], outputs: Any, name: str = "hybrid_func"
) -> HybridModule:
    """The loops of a schedule as a script, which can be read, stored, and called.

    Args:
        sch: the schedule.
        inputs: tensors and variables, the script's arguments in order.
        outputs: the tensors that it returns.
        name: of the function.

    Raises:
        ArgumentError: for what is no schedule, and for names that a script cannot have.
        LowerError: for what cannot be lowered, or be written as a script.
    """
    return HybridModule(printed(sch, inputs, outputs, name), name)
