"""Saying which records of a log were passed over: a Python warning, whoever reads the log."""

from __future__ import annotations

import sys
import warnings


class IgnoredRecordsWarning(UserWarning):
    """Records of a log were passed over: they are broken, or of another space."""


def warn_of_ignored(text: str) -> None:
    """Say, at the line outside of Whet that asked for it, what was passed over."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, IgnoredRecordsWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "contextlib" or module.startswith("whet.")
