"""Knobs of one group of a graph under names of its own: ``conv.tile`` for ``tile``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from whet.search_spaces.knobs.constraint_source import words


@dataclass(frozen=True)
class _Prefixed:
    """A constraint that reads knobs by the names that their own template gives them."""

    prefix: str
    judge: Callable[[Any], Any]

    def __call__(self, view: Any) -> Any:
        return self.judge(_View(self.prefix, view))

    def __repr__(self) -> str:
        return f"of {self.prefix}: {words(self.judge)}"


@dataclass(frozen=True)
class _View:
    prefix: str
    view: Any

    def __getitem__(self, name: str) -> Any:
        return self.view[self.prefix + name]


class Prefixed:
    """The knobs of one group of a graph, defined and read under a prefix.

    Args:
        cfg: of the template; defines knobs and has the entity of each by its name.
        prefix: of the knobs' names; may be empty.
    """

    def __init__(self, cfg: Any, prefix: str = "") -> None:
        self._cfg = cfg
        self._prefix = prefix

    def define_knob(self, name: str, candidates: Iterable[Any], default: Any = None) -> None:
        """As a config's."""
        self._cfg.define_knob(self._prefix + name, candidates, default)

    def choose(self, name: str, candidates: Iterable[Any], default: Any) -> Any:
        """Define a knob; the value that the config in force gives it."""
        self.define_knob(name, list(candidates), default)
        return self[name].val

    def multi_filter(self, filter: Callable[[Any], Any]) -> None:
        """As a config's."""
        self._cfg.multi_filter(_Prefixed(self._prefix, filter) if self._prefix else filter)

    def __getitem__(self, name: str) -> Any:
        return self._cfg[self._prefix + name]
