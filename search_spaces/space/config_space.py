"""ConfigSpace: a template's knobs and constraints, counted and indexed without enumerating them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from whet.compiler.errors import SpaceError
from whet.search_spaces.config_features import SeenByModels
from whet.search_spaces.counted import counted
from whet.search_spaces.fallback import Fallback
from whet.search_spaces.knobs.entities import VirtualAxis
from whet.search_spaces.knobs.knob import Definition, Knob
from whet.search_spaces.plain import Choice, plain_text
from whet.search_spaces.space.constraints import KnobConstraint, constraint_of
from whet.search_spaces.space.define import DefineKnobs
from whet.search_spaces.space.indexing import IndexedSpace
from whet.search_spaces.space.moves import PointMoves
from whet.search_spaces.space.valid_points import ValidPoints
from whet.search_spaces.values import Config

LEVELS = ("full", "quick")


class ConfigSpace(PointMoves, SeenByModels, IndexedSpace, Fallback, DefineKnobs):
    """Every config that a template admits for one workload.

    A template fills it through ``define_*`` and ``multi_filter``; ``space[name]`` then gives the
    entity of the knob's default, so that the template can run on. A *point* is one position per
    knob, in the order of definition. The *range* is all of them: configs have an index in
    ``range(space.range_length)``, in which the last knob runs fastest. A point is *valid* where the
    constraints admit it; ``size`` counts those, and everything that searches the space keeps to
    them.

    Args:
        template: name of the template, for the fingerprint.
        version: the template's explicit version, for the fingerprint.
        start: choices that take the place of the knobs' defaults, by the knobs' names.

    Attributes:
        knobs: the knobs by name, in order of definition.
        constraints: what ``multi_filter`` was given.
        flop: arithmetic operations of one call as the template counted them; 0: it did not.
        level: ``"full"``, or ``"quick"``: some choices of each knob, and the same fingerprint.
    """

    _fingerprint: str | None
    _valid: ValidPoints | None
    _default: Config | None

    def __init__(
        self, template: str = "", version: int = 1, start: Mapping[str, Choice] | None = None
    ) -> None:
        self.template = template
        self.version = version
        self.knobs: dict[str, Knob] = {}
        self.constraints: list[KnobConstraint] = []
        self.flop = 0
        self.errors: list[str] = []
        self._graph = ""
        self._by_source = False
        self._sealed = False
        self._pairs: tuple[list[list[tuple[str, Choice]]], tuple[str, ...]] | None = None
        self._chosen: dict[str, Choice] = dict(start or {})
        self._changed()

    # -- definition: what a template calls

    def _define(
        self, definition: Definition, default: Any, quick: Sequence[Any] | None
    ) -> list[VirtualAxis]:
        asked = f"define_{definition.kind}({definition.name!r})"
        self._open(asked)
        if definition.name in self.knobs:
            raise SpaceError(
                asked,
                "the space has a knob of this name already",
                f"knobs: {', '.join(self.knobs)}",
            )
        self.knobs[definition.name] = Knob.of(definition, default, quick)
        self._changed()
        return definition.axes()

    def multi_filter(self, filter: Callable[[Any], Any]) -> None:
        constraint = constraint_of(filter)
        self._open(f"multi_filter({constraint})")
        self.constraints.append(constraint)
        self._changed()

    multi_filter.__doc__ = DefineKnobs.multi_filter.__doc__

    def _open(self, asked: str) -> None:
        if self._sealed:
            raise SpaceError(
                asked, "the space is complete", "knobs are defined while the template runs"
            )

    def _add_flop(self, flop: int) -> None:
        self.flop += flop

    def seal(self, graph: str = "", by_source: bool = False) -> None:
        """Say that the template has run to its end.

        Args:
            graph: text of the compute graph, for the fingerprint.
            by_source: whether every process that runs the template can read its source, so that
                the fingerprint holds the constraints' texts; else it holds their byte code.
        """
        self._graph = graph
        self._by_source = by_source
        self._sealed = True
        self._changed()

    def _defined(self) -> Mapping[str, Knob]:
        return self.knobs

    def _choose(self, choices: Mapping[str, Choice]) -> None:
        self._chosen.update(choices)
        self._default = None
        self._chosen = self.default.as_dict()

    def _changed(self) -> None:
        self._fingerprint = None
        self._pairs = None
        self._valid = None
        self._default = None

    @property
    def valid_points(self) -> ValidPoints:
        """What the constraints admit; nothing is evaluated before it is asked."""
        if self._valid is None:
            named = f"space of template {self.template!r}" if self.template else "the space"
            self._valid = ValidPoints(named, list(self.knobs.values()), self.constraints)
        return self._valid

    def at_level(self, level: str) -> ConfigSpace:
        """This space, or with ``"quick"`` the part of it that a quick search looks at.

        A quick space has the same knobs and fingerprint, so that its records are the full space's,
        and fewer choices: those that ``quick=`` of ``define_*`` names, else the default's nearest
        (``Knob.kept_when_quick``). The default is the same; the constraints hold as before.

        Raises:
            SpaceError: no such level, or this is a quick space already.
        """
        if level not in LEVELS:
            raise SpaceError(f"level {level!r}", "unknown level", f"levels: {', '.join(LEVELS)}")
        if level == self.level:
            return self
        if level == "full":
            raise SpaceError("at_level('full')", "a quick space does not know what it left out")
        quick = ConfigSpace(self.template, self.version)
        for (name, knob), default in zip(self.knobs.items(), self.encode(self.default)):
            quick.knobs[name] = knob.subset(knob.kept_when_quick(default), default)
        quick.constraints = [KnobConstraint(c.function) for c in self.constraints]
        quick.flop, quick.level = self.flop, "quick"
        quick.seal(self._graph, self._by_source)
        quick._fingerprint = self.fingerprint
        return quick

    # -- size and index

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """The number of choices of each knob."""
        return tuple(len(knob) for knob in self.knobs.values())

    @property
    def size(self) -> int:
        """The number of valid configs, 1 without knobs; see :attr:`size_is_exact`.

        Raises:
            SpaceError: none is valid, or a constraint raises.
        """
        return self.valid_points.count.value

    @property
    def size_is_exact(self) -> bool:
        """Whether :attr:`size` was counted; else it is an estimate from a sample."""
        return not self.valid_points.count.error

    @property
    def size_error(self) -> float:
        """The relative standard error of :attr:`size`: 0 where it is exact, infinity for a guess
        (valid points are so rare that the sample met hardly any)."""
        return self.valid_points.count.error

    def __len__(self) -> int:
        """The number of valid configs; ``size`` where it does not fit Python's ``len``."""
        if self.size > sys.maxsize:
            raise SpaceError("len(space)", f"{self.size} does not fit a length", "use space.size")
        return self.size

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        """``space[name]``: the entity of that knob's default. ``space[i]``: :meth:`at`."""
        if not isinstance(key, str):
            return self.at(key)
        knob = self._knob(key)
        if key in self._chosen:
            return knob.entity(knob.position(self._chosen[key]))
        return knob.entity(knob.default)

    def decode(self, point: Sequence[int] | np.ndarray) -> Config:
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
        """Raise the SpaceError that says why ``config`` is not a valid one of this space, if so."""
        self._admitted(config, self.encode(config))

    def _admitted(self, config: Config, point: tuple[int, ...]) -> None:
        for constraint in self.constraints:
            if not constraint.admits(self.valid_points.knobs, point):
                raise SpaceError(
                    f"config {config}",
                    f"a constraint does not admit it: {constraint}",
                    "space.repair(point) gives the nearest valid point",
                )

    def is_valid(self, point: Sequence[int] | np.ndarray) -> bool:
        """Whether the constraints admit a point."""
        return self.valid_points.admits(tuple(int(position) for position in point))

    def valid(self, points: np.ndarray | None = None) -> Any:
        """Which points the constraints admit: bool of shape (n,) for int64 of shape (n, knobs).

        Without points: whether the template has met no error; see :meth:`raise_error`.
        """
        if points is None:
            return super().valid()
        return self.valid_points.check(self._table(points))

    def __contains__(self, item: object) -> bool:
        """Whether a config is a valid one of this space, or a name is one of its knobs'."""
        if isinstance(item, str):
            return item in self.knobs
        try:
            self.check(item)  # type: ignore[arg-type]
        except SpaceError:
            return False
        return True

    def from_choices(self, choices: Mapping[str, Any]) -> Config:
        """The config with these choices, whatever fingerprint they came from.

        Args:
            choices: a legal choice for each knob.

        Raises:
            SpaceError: a knob is unknown or missing, a choice is not legal, or a constraint does
                not admit them together.
        """
        config = Config(tuple(choices.items()))
        point = self._positions(config.as_dict())
        self._admitted(config, point)
        return self._config(point)

    def nearest(self, choices: Config | Mapping[str, Any]) -> Config:
        """The valid config that is nearest to choices made elsewhere, e.g. for another shape.

        Each knob takes the same choice where it has it, else the one most alike (inner sizes of
        splits and numbers by powers of two), and its default where there is none; knobs that this
        space does not have are passed over. What the constraints then forbid is repaired.

        Args:
            choices: a config, or choices by the knobs' names.

        Raises:
            SpaceError: no point is valid, or a constraint raises.
        """
        given = choices.as_dict() if isinstance(choices, Config) else choices
        start = self.encode(self.default)
        point = [
            knob.similar(given[name]) if name in given else position
            for (name, knob), position in zip(self.knobs.items(), start)
        ]
        return self.decode(self.repair(point))

    @property
    def default(self) -> Config:
        """The config in force outside a search: the knobs' defaults, or the nearest valid config.

        Raises:
            SpaceError: no config is valid, or a constraint raises.
        """
        if self._default is None:
            self._default = self.decode(
                self.repair(
                    [
                        knob.position(self._chosen[name]) if name in self._chosen else knob.default
                        for name, knob in self.knobs.items()
                    ]
                )
            )
        return self._default

    # -- identity

    @property
    def fingerprint(self) -> str:
        """Hex digits that tell this space from every other: of the template's name and version, the
        compute graph, each knob's kind, name and whole candidate list, and the constraints."""
        if self._fingerprint is None:
            knobs = tuple((knob.kind, knob.name, knob.choices) for knob in self.knobs.values())
            facts: tuple = (self.template, self.version, self._graph, knobs)
            if self.constraints:  # a space without any keeps the fingerprint that it always had
                facts += (tuple(c.meaning(self._by_source) for c in self.constraints),)
            text = plain_text(facts)
            self._fingerprint = hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._fingerprint

    def __str__(self) -> str:
        from whet.search_spaces.space.table import table

        return table(self)

    def __repr__(self) -> str:
        level = "" if self.level == "full" else f", {self.level}"
        size = counted(self.range_length, "config")
        if self.constraints:
            size = f"{counted(len(self.constraints), 'constraint')} on {size}"
        return f"ConfigSpace({self.template!r}, {counted(len(self.knobs), 'knob')}, {size}{level})"

    def _config(self, point: tuple[int, ...]) -> Config:
        pairs, kinds = self._named_choices
        choices = tuple(of[p] for of, p in zip(pairs, point, strict=True))
        return Config.of_plain(choices, self.fingerprint, kinds)

    @property
    def _named_choices(self) -> tuple[list[list[tuple[str, Choice]]], tuple[str, ...]]:
        """For each knob its name with each choice, and the knobs' kinds: shared by all configs."""
        if self._pairs is None:
            knobs = self.knobs.values()
            pairs = [[(knob.name, choice) for choice in knob.choices] for knob in knobs]
            self._pairs = pairs, tuple(knob.kind for knob in knobs)
        return self._pairs

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
