"""The command line that tunes a workload, to be copied from a warning."""

from __future__ import annotations

import ast
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError
from whet.compiler.target import Target
from whet.measure.device.names import names_device
from whet.search_spaces.values.builtin import BUILTIN
from whet.search_spaces.values.registry import registered

if TYPE_CHECKING:
    from whet.search_spaces import Template, Workload

# Together they are this machine's, and each alone is not.
_OF_PROCESSOR = ("mattr", "mcpu", "mtriple", "vector_bytes")


def tune_command(workload: Workload, target: Target, device: Any, log: str) -> str:
    """``whet tune ...`` for a workload, or a call of Python's where no command can name it.

    Args:
        workload: what is to be tuned.
        target: canonical.
        device: what was asked for; its name is passed on.
        log: the path or the URL of the log.
    """
    words = _named(workload)
    if words is None:
        named = f"{workload.template!r}, args={workload.args!r}, target={target_text(target)!r}"
        return f"whet.tune(whet.create_task({named}), log={log!r})"
    if "--args" in words and (text := target_text(target)) != "llvm":  # a task has its own
        words += ["--target", text]
    if isinstance(device, str) and names_device(device):
        words += ["--device", device]
    return shlex.join(["whet", "tune", *words, "--log", log])


def _named(workload: Workload) -> list[str] | None:
    """The words that name a workload; None where a command line has none."""
    from whet.search_spaces.graph.family import PREFIX  # which loads tensor expressions

    template = registered(workload.template)
    values = ["--args", *map(word, _given(template, workload))]
    if workload.template in BUILTIN:
        return ["--op", workload.template, *values]
    place = _task_of_the_script(workload)
    if place is not None:
        return [place]
    if workload.template.startswith(PREFIX):
        return ["FILE.py:TASK"]
    place = None if template is None else _place(template)
    return None if place is None else [place, *values]


def _given(template: Template | None, workload: Workload) -> tuple[Any, ...]:
    """A workload's arguments without those at the end that are the template's defaults."""
    args = workload.args
    if template is None:
        return args
    with suppress(SpaceError):  # one that has no default
        while args and template.workload(*args[:-1]) == workload:
            args = args[:-1]
    return args


def word(value: Any) -> str:
    """A template's argument as a command line takes it: text, or a Python literal."""
    if not isinstance(value, str):
        return repr(value)
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        plain = value not in ("true", "false", "") and not value.startswith("-")
        return value if plain else repr(value)
    return repr(value)


def target_text(target: Target) -> str:
    """The shortest text of a canonical target: without the options that follow from the others."""
    shortest, attrs = target, dict(target.attrs)
    for options in (_OF_PROCESSOR, *((name,) for name in attrs)):
        left = {name: value for name, value in attrs.items() if name not in options}
        plain = target.replaced(left)
        if plain.canonical() == target:
            shortest, attrs = plain, left
    return str(shortest)


def _task_of_the_script(workload: Workload) -> str | None:
    """``script.py:name`` of a task of the script that runs; None where it has none."""
    script = sys.modules.get("__main__")
    file = getattr(script, "__file__", None)
    if file is None:
        return None
    for name, value in list(vars(script).items()):
        # A task, by what it has: its class is made in a room that this one does not know.
        if hasattr(value, "config_space") and getattr(value, "workload", None) == workload:
            return f"{_shown(file)}:{name}"
    return None


def _place(template: Template) -> str | None:
    """``FILE.py:name`` or ``module:name`` of a template that a module has by its name."""
    module = sys.modules.get(template.func.__module__)
    name = getattr(template.func, "__qualname__", "")
    if module is None or getattr(module, name, None) is not template:
        return None
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__" or "." not in module.__name__:
        return None if file is None else f"{_shown(file)}:{name}"
    return f"{module.__name__}:{name}"


def _shown(file: str) -> str:
    """A file's path from the current folder, where it is below that."""
    path = Path(file).resolve()
    here = Path(os.getcwd()).resolve()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
