"""The canonical form of a template's arguments: several spellings, one workload."""

from __future__ import annotations

from collections.abc import Callable

from whet.compiler.errors import SpaceError, WhetError
from whet.search_spaces.knobs.plain import said
from whet.search_spaces.values import Workload

Canonical = Callable[[tuple], tuple]
"""From a template's arguments, defaults filled in, to the same arguments in canonical form."""


def canonical_form(function: Canonical, workload: Workload, usage: str) -> Workload:
    """The workload with its arguments as ``function`` writes them.

    Args:
        function: the ``canonical=`` of the workload's template.
        workload: with all arguments of the signature.
        usage: the template's name and signature, for the error's text.

    Raises:
        SpaceError: the function fails, returns no tuple of as many arguments that JSON can hold,
            or changes what is in canonical form already. Its WhetErrors are passed on.
    """
    made = _apply(function, workload, usage)
    if _apply(function, made, usage) != made:
        raise SpaceError(
            f"workload {workload}",
            f"canonical= made {made} of it, and something else of that",
            "what is in canonical form already must come back as it is",
        )
    return made


def _apply(function: Canonical, workload: Workload, usage: str) -> Workload:
    request = f"canonical= of template {workload.template!r} for {workload.args}"
    way_out = f"it takes and returns the tuple of arguments of {usage}"
    try:
        args = function(workload.args)
    except WhetError:
        raise
    except Exception as error:
        raise SpaceError(request, f"it raised {said(error)}", way_out) from error
    if not isinstance(args, tuple):
        raise SpaceError(request, f"it returned a {type(args).__name__}", way_out)
    if len(args) != len(workload.args):
        why = f"it returned {len(args)} arguments for {len(workload.args)}"
        raise SpaceError(request, why, way_out)
    return Workload(workload.template, args)
