"""``autotvm.task``: tasks and templates by AutoTVM's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet import search_spaces as space
from whet.autotune.tasks.task import Task, create_task
from whet.search_spaces import get_config, template
from whet.tvm.names import explained

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.search_spaces import Template

__all__ = ["Task", "create", "get_config", "space", "template"]


def create(
    task_name: str | Template,
    args: Sequence[Any],
    target: Target | str | dict | None,
    target_host: Target | str | None = None,
) -> Task:
    """:func:`whet.create_task` by AutoTVM's name.

    Args:
        task_name: the name of a template, or the template.
        args: its arguments.
        target: what to compile for.
        target_host: an older way to give ``Target(target, host=...)``.

    Raises:
        ArgumentError, SpaceError, TargetError: as ``create_task`` does.
    """
    if target_host is not None:
        from whet.compiler.target import Target

        target = Target(target if target is not None else "llvm", host=target_host)
    return create_task(task_name, args, target)


__getattr__ = explained(__name__, "autotvm.task", "autotvm.task", "name")
