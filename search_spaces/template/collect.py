"""Collecting a space: running a template once to see which knobs and constraints it defines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError, WhetError
from whet.search_spaces.knobs.plain import said
from whet.search_spaces.space.config_space import ConfigSpace
from whet.search_spaces.template.config_scope import talking_to
from whet.search_spaces.template.ref import importable

if TYPE_CHECKING:
    from whet.search_spaces.template.definition import Template
    from whet.search_spaces.values import Workload


def collect(template: Template, workload: Workload) -> ConfigSpace:
    """The space that ``template`` defines for a workload.

    The template runs with each knob's default. Where it cannot, and a constraint forbids those
    defaults together, it runs once more with the nearest config that is valid.

    Raises:
        SpaceError: no config is valid, a constraint raises, or the template raises for its default
            config. WhetErrors of the template are passed on.
    """
    space = ConfigSpace(template.name, template.version_now())
    try:
        args = _run(template, workload, space)
    except WhetError:
        start = _repaired(space)
        if start is None:
            raise
        space = ConfigSpace(template.name, template.version_now(), start)
        args = _run(template, workload, space)
    space.seal(_graph_text(args), by_source=importable(template))
    _ = space.default  # raises where no config is valid
    return space


def _run(template: Template, workload: Workload, space: ConfigSpace) -> list[Any]:
    """Run the template to fill ``space``; returns its tensors."""
    with talking_to(space):
        try:
            _, args = template.run(workload, f"while the space of {workload} was collected")
        except WhetError:
            raise
        except Exception as error:
            way_out = (
                "give another default=, or make the template raise only for configs that a "
                "filter leaves out"
                if space.knobs
                else "no knob was defined yet, so that no other config can help: see the "
                "arguments, or the template"
            )
            raise SpaceError(
                f"space of {workload}",
                f"the template raised {said(error)} for its default config",
                way_out,
            ) from error
    if space.errors:
        raise SpaceError(
            f"space of {workload}",
            f"the template raised an error for its default config: {'; '.join(space.errors)}",
            "give another default=",
        )
    return args


def _repaired(space: ConfigSpace) -> dict[str, Any] | None:
    """The default config of a space whose template ended early; None where no knob moves."""
    try:
        repaired = space.default.as_dict()
    except SpaceError as error:
        if error.__cause__ is None:  # no config is valid, whatever else the template would do
            raise
        return None  # a constraint reads a knob that is not defined yet
    moved = any(repaired[name] != knob.choices[knob.default] for name, knob in space.knobs.items())
    return repaired if moved else None


def _graph_text(args: list[Any]) -> str:
    """The compute graph behind a template's tensors, or nothing where they are not te's."""
    te = sys.modules.get("whet.compiler.te")
    write = getattr(te, "graph_text", None)
    kind = getattr(te, "Tensor", None)
    if write is None or kind is None:
        return ""
    return write([arg for arg in args if isinstance(arg, kind)])
