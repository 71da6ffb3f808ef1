"""Homes: texts ``"module:attribute"`` for what is imported when it is first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def imported(home: str) -> Any:
    """The attribute that a home names, or the module of one without; its module is imported.

    ``pkgutil.resolve_name`` keeps a compiled pattern at its first call, which a measuring worker
    takes for a candidate's change to another module.
    """
    module, _, attribute = home.partition(":")
    return getattr(import_module(module), attribute) if attribute else import_module(module)
