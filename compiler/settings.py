"""Every environment variable that Whet reads, with its default.

Nothing else looks at the environment.

| variable | default | meaning |
| --- | --- | --- |
| ``WHET_NUM_THREADS`` | physical cores this process may use | threads of a parallel loop |
| ``CC`` | ``cc`` | the C compiler that links exported libraries and compiles target ``c`` |
| ``WHET_TUTORIAL_EXEC_PATTERN`` | all | lessons that building the documentation executes |
"""

from __future__ import annotations

import os
import re

from whet.compiler.errors import ArgumentError, TargetError


def num_threads() -> int | None:
    """``WHET_NUM_THREADS`` as a number, or None when it is not set.

    Raises:
        TargetError: it is set to something that is not a whole number of at least 1.
    """
    text = os.environ.get("WHET_NUM_THREADS", "").strip()
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise TargetError(
            f"WHET_NUM_THREADS={text}",
            "the number of threads must be a whole number of at least 1",
            "unset it to use one thread a physical core",
        )
    return int(text)


def c_compiler() -> str:
    """``CC``, or ``cc``: the command that starts the C compiler, with options it may have."""
    return os.environ.get("CC", "").strip() or "cc"


def tutorial_exec_pattern() -> str:
    """``WHET_TUTORIAL_EXEC_PATTERN``: a regular expression that is searched in lessons' paths.

    ``none`` executes no lesson; unset or empty executes all. ``docs/conf.py`` asks.

    Raises:
        ArgumentError: it is not a regular expression.
    """
    text = os.environ.get("WHET_TUTORIAL_EXEC_PATTERN", "").strip()
    if text == "none":
        return "(?!)"  # matches nothing, whatever the folders are called
    try:
        re.compile(text)
    except re.error as error:
        raise ArgumentError(
            f"WHET_TUTORIAL_EXEC_PATTERN={text}",
            f"it is not a regular expression: {error}",
            "'vector_add|schedule' executes two lessons, 'none' none; unset it to execute all",
        ) from error
    return text or "."
