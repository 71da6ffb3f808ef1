"""The error for a name of TVM's that is not here: it says what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.tvm.absent import ABSENT


def explained(module: str, key: str, shown: str, what: str) -> Callable[[str], Any]:
    """A module's ``__getattr__``, which knows the names of :data:`whet.tvm.absent.ABSENT`.

    Args:
        module: the module's full name.
        key: its row of the table.
        shown: its name in the error's text.
        what: it lacks: a ``"name"``, a ``"module"``, an ``"error"``, a ``"method"``.
    """

    def getattr_(name: str) -> Any:
        if (way_out := ABSENT[key].get(name)) is not None:
            from whet.compiler.errors import MissingName

            raise MissingName(f"{shown}.{name}", f"Whet has no such {what}", way_out)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getattr_
