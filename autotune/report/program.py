"""The best config's loops, where this process knows the template that the log names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.autotune.results.recorded import TaskTrials

LINES = 400
"""Lines of a program that are shown."""


def best_program(data: TaskTrials) -> tuple[str, str]:
    """The loops of the best config.

    A log keeps choices, not programs: the template has to be here, in the version that was tuned.
    A derived graph is in the log.

    Returns:
        The loops and "", or "" and why there are none.
    """
    from whet.autotune.results.recorded import known_here
    from whet.search_spaces.knobs.plain import said

    workload = data.task.workload
    if data.best is None:
        return "", "nothing worked"
    if not known_here(workload, data.task.runs):
        return "", _not_here(workload.template)
    try:
        return _loops(data), ""
    except Exception as error:  # a template is anyone's code
        return "", f"the template cannot be run here: {said(error)}"


def _not_here(template: str) -> str:
    from whet.search_spaces.graph.family import PREFIX

    if template.startswith(PREFIX):
        return (
            "this task was derived from a compute graph, which this log does not hold: import the "
            "module that makes the task before the report is made (whet report --module "
            "FILE_OR_MODULE)"
        )
    return (
        f"a log keeps configs, not programs, and the template {template!r} is not known here: "
        "import the module that defines it before the report is made (whet report --module "
        "FILE_OR_MODULE)"
    )


def _loops(data: TaskTrials) -> str:
    from whet.autotune.deploy import kernel_name
    from whet.autotune.tasks.task import create_task
    from whet.compiler import driver
    from whet.compiler.errors import SpaceError

    assert data.best is not None
    task = create_task(data.task.workload.template, data.task.workload.args, data.task.target)
    if task.config_space.fingerprint != data.task.fingerprint:
        raise SpaceError(
            f"the space of {data.task.workload}",
            "the template makes other programs now than when this was tuned",
            "tune it again",
        )
    config = task.config_space.from_choices(data.best.config.as_dict())
    schedule, args = task.instantiate(config)
    with task.target:
        text = str(driver.lower(schedule, args, kernel_name(task), simple_mode=True))
    lines = text.splitlines()
    if len(lines) > LINES:
        lines[LINES:] = [f"... {len(lines) - LINES} more lines ..."]
    return "\n".join(lines)
