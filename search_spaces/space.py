"""ConfigSpace: the product of a template's knobs, counted and indexed without enumerating it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from whet.compiler.errors import SpaceError
from whet.search_spaces.define import DefineKnobs
from whet.search_spaces.entities import VirtualAxis
from whet.search_spaces.knobs import Definition, Knob
from whet.search_spaces.plain import Choice, plain_text
from whet.search_spaces.values import Config


class ConfigSpace(DefineKnobs):
    """Every config that a template admits for one workload.

    A template fills it through ``define_*``; ``space[name]`` then gives the entity of the knob's
    default, so that the template can run on. Configs have an index in ``range(space.size)``, in
    which the last knob runs fastest, and a *point*: one position per knob, in the order of
    definition.

    Args:
        template: name of the template, for the fingerprint.
        version: the template's explicit version, for the fingerprint.

    Attributes:
        knobs: the knobs by name, in order of definition.
        flop: arithmetic operations of one call as the template counted them; 0: it did not.
    """

    def __init__(self, template: str = "", version: int = 1) -> None:
        self.template = template
        self.version = version
        self.knobs: dict[str, Knob] = {}
        self.flop = 0
        self._graph = ""
        self._sealed = False
        self._fingerprint: str | None = None

    # -- definition: what a template calls

    def _define(self, definition: Definition, default: Any) -> list[VirtualAxis]:
        asked = f"define_{definition.kind}({definition.name!r})"
        if self._sealed:
            raise SpaceError(
                asked, "the space is complete", "knobs are defined while the template runs"
            )
        if definition.name in self.knobs:
            raise SpaceError(
                asked,
                "the space has a knob of this name already",
                f"knobs: {', '.join(self.knobs)}",
            )
        self.knobs[definition.name] = Knob.of(definition, default)
        self._fingerprint = None
        return definition.axes()

    def _add_flop(self, flop: int) -> None:
        self.flop += flop

    def seal(self, graph: str = "") -> None:
        """Say that the template has run to its end.

        Args:
            graph: text of the compute graph, for the fingerprint.
        """
        self._graph = graph
        self._sealed = True
        self._fingerprint = None

    # -- size and index

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of choices of each knob."""
        return tuple(len(knob) for knob in self.knobs.values())

    @property
    def size(self) -> int:
        """The number of configs; 1 without knobs."""
        return prod(self.cardinalities)

    def __len__(self) -> int:
        """The number of configs; ``size`` where it does not fit Python's ``len``."""
        if self.size > sys.maxsize:
            raise SpaceError("len(space)", f"{self.size} does not fit a length", "use space.size")
        return self.size

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Config]:
        index = 0
        while index < self.size:
            yield self.at(index)
            index += 1

    def __getitem__(self, key: Any) -> Any:
        """``space[name]``: the entity of that knob's default. ``space[i]``: the ``i``-th config."""
        return (
            self._knob(key).entity(self._knob(key).default)
            if isinstance(key, str)
            else self.at(key)
        )

    def at(self, index: int) -> Config:
        """The config of an index in ``range(space.size)``.

        Raises:
            SpaceError: an index outside it.
        """
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise SpaceError(f"space[{index!r}]", "an index is an int, a knob's name a string")
        rest = int(index)
        if not 0 <= rest < self.size:
            raise SpaceError(f"space[{index}]", f"the space has {self.size} configs")
        point = []
        for count in reversed(self.cardinalities):
            rest, position = divmod(rest, count)
            point.append(position)
        return self._config(tuple(reversed(point)))

    def get(self, index: int) -> Config:
        """:meth:`at` by AutoTVM's name."""
        return self.at(index)

    def index(self, config: Config) -> int:
        """The index of a config; raises as :meth:`encode` does."""
        index = 0
        for position, count in zip(self.encode(config), self.cardinalities, strict=True):
            index = index * count + position
        return index

    def decode(self, point: Sequence[int]) -> Config:
        """The config of a point: one position per knob.

        Raises:
            SpaceError: another number of positions, or one outside its knob's list.
        """
        positions = tuple(int(position) for position in point)
        if len(positions) != len(self.knobs):
            raise SpaceError(
                f"decode({positions})", f"the space has {len(self.knobs)} knobs", str(self)
            )
        for knob, position in zip(self.knobs.values(), positions, strict=True):
            if not 0 <= position < len(knob):
                raise SpaceError(
                    f"decode({positions})", f"{knob.name!r} has {len(knob)} choices, not {position}"
                )
        return self._config(positions)

    def encode(self, config: Config) -> tuple[int, ...]:
        """The point of a config.

        Raises:
            SpaceError: a knob is unknown or missing, a choice is not legal, or the config was made
                from a space of another fingerprint.
        """
        if not isinstance(config, Config):
            raise SpaceError("encode", f"a Config is needed, not a {type(config).__name__}")
        point = self._positions(config.as_dict())
        if config.fingerprint and config.fingerprint != self.fingerprint:
            raise SpaceError(
                f"config {config}",
                f"it belongs to a space of fingerprint {config.fingerprint}, "
                f"this one's is {self.fingerprint}",
                "the template, its version, its compute or a candidate list has changed since",
            )
        return point

    def check(self, config: Config) -> None:
        """Raise the SpaceError that :meth:`encode` would, if the config is not of this space."""
        self.encode(config)

    def __contains__(self, item: object) -> bool:
        """Whether a config is of this space, or a name is one of its knobs'."""
        if isinstance(item, str):
            return item in self.knobs
        try:
            self.encode(item)  # type: ignore[arg-type]
        except SpaceError:
            return False
        return True

    def from_choices(self, choices: Mapping[str, Any]) -> Config:
        """The config with these choices, whatever fingerprint they came from.

        Args:
            choices: a legal choice for each knob.

        Raises:
            SpaceError: a knob is unknown or missing, or a choice is not legal.
        """
        config = Config(tuple(choices.items()))
        return self._config(self._positions(config.as_dict()))

    @property
    def default(self) -> Config:
        """The config in force outside a search."""
        return self._config(tuple(knob.default for knob in self.knobs.values()))

    # -- moving about in it

    def sample(self, rng: np.random.Generator) -> Config:
        """A config drawn uniformly."""
        return self._config(tuple(int(rng.integers(count)) for count in self.cardinalities))

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """Another config with one or two knobs changed, near values more likely.

        The config itself where the space has no other.
        """
        point = list(self.encode(config))
        free = [i for i, count in enumerate(self.cardinalities) if count > 1]
        if not free:
            return config
        knobs = list(self.knobs.values())
        first = int(rng.integers(len(free)))
        changed = [free[first]]
        if len(free) > 1 and rng.random() < 0.3:
            changed.append(free[(first + int(rng.integers(1, len(free)))) % len(free)])
        for i in changed:
            point[i] = knobs[i].step(point[i], rng)
        return self._config(tuple(point))

    def neighbours(self, config: Config) -> list[Config]:
        """The configs that differ in one knob by one step, in the order of knobs."""
        point = self.encode(config)
        found = []
        for i, knob in enumerate(self.knobs.values()):
            for position in knob.near(point[i]):
                found.append(self._config((*point[:i], position, *point[i + 1 :])))
        return found

    # -- what a cost model sees

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each column of :meth:`features`."""
        return tuple(name for knob in self.knobs.values() for name in knob.feature_table[0])

    def features(self, configs: Iterable[Config]) -> np.ndarray:
        """What a cost model sees of configs.

        Returns:
            float32 of shape ``(len(configs), len(self.feature_names))``: log2 of split sizes, of
            the tiles they make, wasted share and log2 of the extent; places of reordered axes;
            annotations and words as 0 or 1; numbers as signed log2(1 + |value|).
        """
        points = [self.encode(config) for config in configs]
        table = np.asarray(points, dtype=np.int64).reshape(len(points), len(self.knobs))
        return self.features_of_points(table)

    def features_of_points(self, points: np.ndarray) -> np.ndarray:
        """:meth:`features` of points, an int array of shape ``(n, len(self.knobs))``."""
        columns = [
            knob.feature_table[1][points[:, i]] for i, knob in enumerate(self.knobs.values())
        ]
        if not columns:
            return np.zeros((len(points), 0), dtype=np.float32)
        return np.concatenate(columns, axis=1)

    # -- identity

    @property
    def fingerprint(self) -> str:
        """Hex digits that tell this space from every other: of the template's name and version, the
        compute graph, and each knob's kind, name and whole candidate list."""
        if self._fingerprint is None:
            knobs = tuple((knob.kind, knob.name, knob.choices) for knob in self.knobs.values())
            text = plain_text((self.template, self.version, self._graph, knobs))
            self._fingerprint = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._fingerprint

    def __str__(self) -> str:
        from whet.search_spaces.space_table import table

        return table(self)

    def __repr__(self) -> str:
        return f"ConfigSpace({self.template!r}, {len(self.knobs)} knobs, {self.size} configs)"

    def _config(self, point: tuple[int, ...]) -> Config:
        knobs = self.knobs.values()
        choices = tuple((k.name, k.choices[p]) for k, p in zip(knobs, point, strict=True))
        return Config.of_plain(choices, self.fingerprint, tuple(knob.kind for knob in knobs))

    def _positions(self, choices: dict[str, Choice]) -> tuple[int, ...]:
        if choices.keys() != self.knobs.keys():
            unknown = [name for name in choices if name not in self.knobs]
            missing = [name for name in self.knobs if name not in choices]
            parts = [f"unknown knobs: {', '.join(unknown)}"] if unknown else []
            parts += [f"missing knobs: {', '.join(missing)}"] if missing else []
            raise SpaceError(
                "config " + " ".join(f"{n}={c}" for n, c in choices.items()),
                "; ".join(parts),
                f"the space's knobs: {', '.join(self.knobs) or '(none)'}",
            )
        return tuple(knob.position(choices[name]) for name, knob in self.knobs.items())

    def _knob(self, name: str) -> Knob:
        if name not in self.knobs:
            raise SpaceError(
                f"cfg[{name!r}]",
                "no such knob is defined yet",
                f"knobs: {', '.join(self.knobs) or '(none)'}",
            )
        return self.knobs[name]
