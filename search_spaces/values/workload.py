"""A workload: a template's name and the arguments it is instantiated with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from whet.compiler.errors import SpaceError
from whet.search_spaces.knobs.plain import jsonable, plain, plain_text
from whet.search_spaces.values.shown import shown


@dataclass(frozen=True, eq=False)
class Workload:
    """A template's name and the arguments it is instantiated with.

    Args:
        template: the name that the template was registered under.
        args: numbers, strings, bools, None and nested sequences of those; sequences are stored as
            tuples and numpy scalars as Python's.

    Two workloads are equal when their :attr:`key` is, so that ``1``, ``1.0`` and ``True`` differ.

    Raises:
        SpaceError: an argument that JSON cannot hold.
    """

    template: str
    args: tuple = ()

    def __post_init__(self) -> None:
        if not isinstance(self.template, str) or not self.template:
            raise SpaceError(
                f"Workload({self.template!r})", "a template's name must be a non-empty string"
            )
        request = f"workload of template {self.template!r}"
        args = tuple(
            plain(arg, request, f"argument {position}") for position, arg in enumerate(self.args)
        )
        object.__setattr__(self, "args", args)

    @cached_property
    def key(self) -> str:
        """The canonical JSON text: equal for equal workloads, stable between processes."""
        return plain_text((self.template, self.args))

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Workload) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return shown(self)

    def to_json(self) -> dict:
        """The workload as JSON-able data."""
        return {"template": self.template, "args": jsonable(self.args)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Workload:
        """The workload that :meth:`to_json` described.

        Raises:
            SpaceError: the data is not a workload.
        """
        try:
            template, args = data["template"], data["args"]
        except (KeyError, TypeError) as error:
            raise SpaceError(
                f"Workload.from_json({data!r})", "'template' and 'args' are needed"
            ) from error
        if not isinstance(args, list | tuple):
            raise SpaceError(f"Workload.from_json({data!r})", "'args' must be a list")
        return Workload(template, tuple(args))
