"""Points of configs from their JSON text, by the hundred thousand: no configs are made."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.history import Point
    from whet.search_spaces import ConfigSpace

CUT = '],["'
"""The text between two knobs' choices."""
END = "]]}"
"""The text after the last one."""
FEW = 32
"""Configs that are read one by one, where one of them is not as Whet writes it."""
UNKNOWN = -1
"""Every position of a config that is none of the space."""


class PointReader:
    """Reads the points of configs from their JSON text.

    Args:
        space: of the configs; its constraints are not looked at.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self._fingerprint = space.fingerprint
        self._names = tuple(space.knobs)
        pairs, kinds = space.named_choices
        # by a choice's text: 1, 1.0 and True are three
        self._positions = [{_text(c): at for at, (_, c) in enumerate(of)} for of in pairs]
        begins = [f"{_text(n)},{_text(kind)}," for n, kind in zip(self._names, kinds)]
        self._head = f'{{"fingerprint":{_text(self._fingerprint)},"choices":[['
        # The pieces of configs as Whet writes them, joined and cut by CUT: a piece names its knob,
        # a config's first one has its beginning, the last its end.
        self._pieces = [
            {f"{begin[at > 0 :]}{text}": position for text, position in of.items()}
            for at, (begin, of) in enumerate(zip(begins, self._positions))
        ]
        if begins:
            self._pieces[0] = {f"{self._head}{text}": at for text, at in self._pieces[0].items()}
            self._pieces[-1] = {f"{text}{END}": at for text, at in self._pieces[-1].items()}
        triples = (re.escape(f"[{begin}") + r"(.*?)\]" for begin in begins)
        self._usual = re.compile(re.escape(self._head[:-1]) + ",".join(triples) + r"\]\}")

    def points(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The points of many configs.

        Returns:
            int32 of shape ``(n, knobs)``, and bool ``(n,)``: which of them are of the space.
        """
        table = np.full((len(texts), len(self._names)), UNKNOWN, dtype=np.int32)
        known = np.ones(len(texts), dtype=bool)
        self._read(texts, table, known)
        return table, known

    def _read(self, texts: Sequence[str], table: np.ndarray, known: np.ndarray) -> None:
        """Fill in the points: many at once, where all of them are as Whet writes them."""
        if self._read_usual(texts, table):
            return
        if len(texts) > FEW:
            half = len(texts) // 2
            self._read(texts[:half], table[:half], known[:half])
            self._read(texts[half:], table[half:], known[half:])
            return
        for at, text in enumerate(texts):
            point = self.point(text)
            known[at] = point is not None
            table[at] = UNKNOWN if point is None else point

    def _read_usual(self, texts: Sequence[str], table: np.ndarray) -> bool:
        """Fill in the points of configs as Whet writes them; False: one of them is otherwise."""
        knobs = len(self._names)
        cut = CUT.join(texts).split(CUT)
        # Each piece has to be one of its place: then no cut went through a choice.
        if not knobs or len(cut) != knobs * len(texts):
            return False
        try:
            for at, of in enumerate(self._pieces):
                found = map(of.__getitem__, cut[at::knobs])
                table[:, at] = np.fromiter(found, dtype=np.int32, count=len(texts))
        except KeyError:
            return False
        return True

    def point(self, text: str) -> Point | None:
        """The point of a config; None where it is not one of the space."""
        if (usual := self._usual.fullmatch(text)) is not None:
            found = map(dict.get, self._positions, usual.groups())
        elif (choices := self._choices(text)) is not None:
            found = map(dict.get, self._positions, map(_text, choices))
        else:
            return None
        point = tuple(at for at in found if at is not None)
        return point if len(point) == len(self._names) else None

    def _choices(self, text: str) -> list[Any] | None:
        """The choices of a config that is written otherwise than Whet writes it."""
        try:
            data = json.loads(text)
            choices = {name: choice for name, _, choice in data["choices"]}
            known = data["fingerprint"] == self._fingerprint
        except (KeyError, TypeError, ValueError, RecursionError):
            return None  # broken, or of another program
        if not known or len(data["choices"]) != len(choices) or choices.keys() != set(self._names):
            return None
        return [choices[name] for name in self._names]


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))
