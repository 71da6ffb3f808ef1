"""Knobs as a log knows them: the choices that were tried, without the space they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whet.search_spaces.knobs.plain import Choice, tagged
from whet.search_spaces.values import Config

WORDS_KEPT = 64
"""Columns that one knob of many words gets at most; the commonest are kept."""


@dataclass(frozen=True)
class Dimension:
    """One thing that differs between configs: a knob, or one part of its choice.

    Attributes:
        knob: the knob's name.
        name: the knob's name, with the part's position where it is a part: ``tile_i[1]``.
        values: what each config has there.
        shown: whether a plot of it says something that no other does.
    """

    knob: str
    name: str
    values: list[Choice]
    shown: bool = True

    @cached_property
    def numeric(self) -> bool:
        """True if every value is a number (True and False are words)."""
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)

    @cached_property
    def distinct(self) -> list[Choice]:
        """The values that occur: numbers rising, words in the order of their text."""
        once = list({tagged(v): v for v in self.values}.values())
        if self.numeric:
            return sorted(once, key=lambda v: (float(v), str(type(v))))  # type: ignore[arg-type]
        return sorted(once, key=words)

    @cached_property
    def slots(self) -> np.ndarray:
        """For each config, which of the distinct values it has; int64 (n,)."""
        place = {tagged(v): i for i, v in enumerate(self.distinct)}
        return np.asarray([place[tagged(v)] for v in self.values], dtype=np.int64)


def dimensions(configs: Sequence[Config]) -> list[Dimension]:
    """The dimensions of configs of one space, in the order of their knobs.

    A split's sizes, outer to inner, are dimensions of their own; the outermost follows from the
    others and is not shown. So are the parts of an annotation and of a knob of equally long tuples.
    """
    if not configs:
        return []
    kinds = dict(zip((name for name, _ in configs[0].choices), configs[0].kinds))
    every = []
    columns = [config.as_dict() for config in configs]
    for knob in columns[0]:
        values = [column.get(knob) for column in columns]
        every += _parts(knob, kinds.get(knob, ""), values)
    return every


def _parts(knob: str, kind: str, values: list[Choice]) -> list[Dimension]:
    lengths = {len(v) if isinstance(v, tuple) else 0 for v in values}
    if kind == "reorder" or len(lengths) != 1 or min(lengths) < 2:
        return [Dimension(knob, knob, values)]
    parts = list(zip(*values))
    return [
        Dimension(knob, f"{knob}[{k}]", list(part), shown=kind != "split" or k > 0)
        for k, part in enumerate(parts)
    ]


def encode(dimensions: Sequence[Dimension]) -> tuple[list[str], np.ndarray]:
    """The config features of a cost model.

    Returns:
        The knob that each column belongs to, and float32 of shape ``(n, columns)``: signed
        log2(1 + |value|) of numbers, 0 or 1 for each word, the place of each reordered axis.
    """
    owners: list[str] = []
    columns: list[np.ndarray] = []
    for dimension in dimensions:
        table = _columns(dimension)
        owners += [dimension.knob] * table.shape[1]
        columns.append(table)
    if not columns:
        return [], np.zeros((0, 0), dtype=np.float32)
    return owners, np.concatenate(columns, axis=1).astype(np.float32)


def _columns(dimension: Dimension) -> np.ndarray:
    if dimension.numeric:
        values = np.asarray(dimension.values, dtype=np.float64)
        return (np.sign(values) * np.log2(1 + np.abs(values))).reshape(-1, 1)
    if _orders(dimension.values):
        return np.argsort(np.asarray(dimension.values), axis=1)
    often = np.argsort(-np.bincount(dimension.slots), kind="stable")[:WORDS_KEPT]
    return dimension.slots[:, None] == often


def _orders(values: list[Choice]) -> bool:
    """True if all values are orders of the same axes."""
    first = values[0]
    if not isinstance(first, tuple) or not all(type(v) is int for v in first):
        return False
    axes = set(range(len(first)))
    return all(isinstance(v, tuple) and len(v) == len(first) and set(v) == axes for v in values)


def words(choice: Choice) -> str:
    """A choice for people: ``(4,16)``, ``True``, ``ikj``."""
    return f"({','.join(map(words, choice))})" if isinstance(choice, tuple) else str(choice)
