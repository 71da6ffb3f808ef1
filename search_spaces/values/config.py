"""A config: one point of a space, and the forms in which it is written down."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError
from whet.search_spaces.knobs.entities import WORDS, entity_of
from whet.search_spaces.knobs.plain import Choice, jsonable, plain, plain_text

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class Config:
    """One point of a space: what was chosen for each knob.

    Args:
        choices: ``(knob's name, choice)`` pairs in the space's order. A choice is the split's sizes
            outer to inner, the reorder's permutation, the annotations, or the knob's value.
        fingerprint: the fingerprint of the space that the choices were taken from.
        kinds: each knob's kind in the order of ``choices``; spaces fill it in, so that
            ``config[name]`` knows which entity to make. It takes no part in equality.

    Two configs are equal when their :attr:`key` is.

    Raises:
        SpaceError: a choice that JSON cannot hold, or a knob named twice.
    """

    choices: tuple[tuple[str, Choice], ...] = ()
    fingerprint: str = ""
    kinds: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        pairs = tuple((name, plain(choice, "Config", name)) for name, choice in self.choices)
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise SpaceError("Config", f"knobs are named twice: {', '.join(twice)}")
        if self.kinds and len(self.kinds) != len(pairs):
            raise SpaceError(
                "Config", f"{len(self.kinds)} kinds were given for {len(pairs)} choices"
            )
        object.__setattr__(self, "choices", pairs)
        object.__setattr__(self, "kinds", tuple(self.kinds))

    @staticmethod
    def of_plain(
        choices: tuple[tuple[str, Choice], ...], fingerprint: str, kinds: tuple[str, ...]
    ) -> Config:
        """A config from choices that a space already holds; checks nothing (searches make many)."""
        config = object.__new__(Config)
        config.__dict__.update(choices=choices, fingerprint=fingerprint, kinds=kinds)
        return config

    @cached_property
    def key(self) -> str:
        """The canonical JSON text of fingerprint and choices; independent of the knobs' order."""
        return plain_text((self.fingerprint, tuple(sorted(self.choices, key=lambda c: c[0]))))

    @property
    def index(self) -> int | None:
        """Its number in the range of the space that made it, as ``space.index``; None: none did."""
        if (made := self.__dict__.get("_point")) is None:
            return None
        number = 0
        for position, count in zip(*made):
            number = number * count + position
        return number

    @cached_property
    def _choice_of(self) -> dict[str, Choice]:
        return dict(self.choices)

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Config) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __contains__(self, name: object) -> bool:
        return name in self._choice_of

    def choice(self, name: str) -> Choice:
        """The choice made for the knob ``name``.

        Raises:
            SpaceError: the config has no such knob.
        """
        try:
            return self._choice_of[name]
        except KeyError:
            raise SpaceError(
                f"config[{name!r}]",
                "the config has no such knob",
                f"knobs: {', '.join(self._choice_of) or '(none)'}",
            ) from None

    def __getitem__(self, name: str) -> Any:
        """The entity (``.apply``, ``.size``, ``.val`` ...) of the knob ``name``."""
        choice = self.choice(name)
        if not self.kinds:
            raise SpaceError(
                f"config[{name!r}]",
                "the config was made without a space, so the knob's kind is not known",
                "take configs from a space, e.g. space.from_choices(config.as_dict())",
            )
        kind = self.kinds[next(i for i, pair in enumerate(self.choices) if pair[0] == name)]
        return entity_of(kind, choice)

    def as_dict(self) -> dict[str, Choice]:
        """Choices by the knobs' names."""
        return dict(self.choices)

    def __str__(self) -> str:
        return " ".join(f"{name}={_readable(choice)}" for name, choice in self.choices) or "(empty)"

    def to_json(self) -> dict:
        """The config as JSON-able data."""
        kinds: Iterable[str] = self.kinds or ("",) * len(self.choices)
        return {
            "fingerprint": self.fingerprint,
            "choices": [[n, kind, jsonable(c)] for (n, c), kind in zip(self.choices, kinds)],
        }

    def get_flatten_feature(self) -> np.ndarray:
        """AutoTVM's features of a config, one after the other: float32 of shape (n,).

        Sizes, permutations and numbers as they are; 1 or 0 for each annotation; a text as a number
        in [0, 1) made of it, where AutoTVM fails. ``space.features`` is what a model should see.

        Raises:
            SpaceError: the config was made without a space.
        """
        import numpy as np

        if self.choices and not self.kinds:
            raise SpaceError(
                "get_flatten_feature()",
                "the config was made without a space, so the knobs' kinds are not known",
                "take configs from a space, e.g. space.from_choices(config.as_dict())",
            )
        columns = [c for (_, v), kind in zip(self.choices, self.kinds) for c in _flat(kind, v)]
        return np.array(columns, dtype=np.float32)

    def to_json_dict(self) -> dict:
        """The config in the form of AutoTVM's records; ``code_hash`` is the fingerprint."""
        choices = self.to_json()["choices"]
        entity = [[name, _TVM_KINDS.get(kind, "ot"), choice] for name, kind, choice in choices]
        return {"index": self.index, "code_hash": self.fingerprint or None, "entity": entity}

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> Config:
        """The config that :meth:`to_json_dict` described, or one of AutoTVM's records.

        AutoTVM writes -1 for the first size of a split: ``space.nearest(config)`` gives the config
        of a space.

        Raises:
            SpaceError: the data is not of that form.
        """
        try:
            entity = [(name, kind, value) for name, kind, value in json_dict["entity"]]
            kinds = tuple(_OUR_KINDS[kind] for _, kind, _ in entity)
        except (KeyError, TypeError, ValueError) as error:
            raise SpaceError(
                f"Config.from_json_dict({_short(json_dict)})",
                "'entity' ([name, 'sp' | 're' | 'an' | 'ot', value] each) is needed",
            ) from error
        pairs = tuple((name, value) for name, _, value in entity)
        return Config(pairs, str(json_dict.get("code_hash") or ""), kinds)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Config:
        """The config that :meth:`to_json` described; a space's ``check`` says whether it is legal.

        Raises:
            SpaceError: the data is not a config.
        """
        try:
            fingerprint = data["fingerprint"]
            triples = [(name, kind, choice) for name, kind, choice in data["choices"]]
        except (KeyError, TypeError, ValueError) as error:
            raise SpaceError(
                f"Config.from_json({_short(data)})",
                "'fingerprint' and 'choices' ([name, kind, choice] each) are needed",
            ) from error
        if not isinstance(fingerprint, str) or not all(
            isinstance(n, str) and isinstance(k, str) for n, k, _ in triples
        ):
            raise SpaceError(
                f"Config.from_json({_short(data)})", "fingerprint, names and kinds must be strings"
            )
        kinds = tuple(kind for _, kind, _ in triples)
        return Config(
            tuple((name, choice) for name, _, choice in triples),
            fingerprint,
            kinds if all(kinds) else (),
        )


_TVM_KINDS = {"split": "sp", "reorder": "re", "annotate": "an", "knob": "ot"}
_OUR_KINDS = {theirs: ours for ours, theirs in _TVM_KINDS.items()}


def _flat(kind: str, value: Choice) -> Iterator[float]:
    """One choice's columns of :meth:`Config.get_flatten_feature`."""
    if isinstance(value, tuple):
        for item in value:
            yield from _flat(kind, item)
    elif kind == "annotate" and isinstance(value, str):
        yield from (float(value == word) for word in WORDS)
    elif isinstance(value, str):
        yield zlib.crc32(value.encode()) / 2**32
    else:
        yield float(value or 0)


def _readable(choice: Choice) -> str:
    return f"({','.join(map(str, choice))})" if isinstance(choice, tuple) else str(choice)


def _short(data: object) -> str:
    text = data if isinstance(data, str) else json.dumps(data, default=repr)
    return text if len(text) <= 120 else text[:117] + "..."
