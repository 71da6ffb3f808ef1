"""ConfigSpace: a template's knobs and constraints, counted and indexed without enumerating them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.definition import Definition
from whet.search_spaces.knobs.entities import VirtualAxis
from whet.search_spaces.knobs.knob import Knob
from whet.search_spaces.knobs.plain import Choice, plain_text
from whet.search_spaces.space import encoding, features, indexing, moves
from whet.search_spaces.space.constraints import KnobConstraint, constraint_of
from whet.search_spaces.space.define import DefineKnobs, not_defined
from whet.search_spaces.space.fallback import given_entity
from whet.search_spaces.space.table import table
from whet.search_spaces.space.valid_points import ValidPoints
from whet.search_spaces.values import Config
from whet.search_spaces.values.counted import counted

LEVELS = ("full", "quick")


class ConfigSpace(DefineKnobs):
    """Every config that a template admits for one workload.

    A template fills it through ``define_*`` and ``multi_filter``; ``space[name]`` then gives the
    entity of the knob's default, so that the template can run on. A *point* is one position per
    knob, in the order of definition. The *range* is all of them: configs have an index in
    ``range(space.range_length)``, in which the last knob runs fastest. A point is *valid* where the
    constraints admit it; ``size`` counts those, and everything that searches the space keeps to
    them. The constraints are judged by :attr:`valid_points`; what only reads the space (indices,
    moves, features) is a function of it in a file of its own.

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
    _reference: Config | None

    def __init__(
        self, template: str = "", version: int = 1, start: Mapping[str, Choice] | None = None
    ) -> None:
        self.template = template
        self.version = version
        self.knobs: dict[str, Knob] = {}
        self.constraints: list[KnobConstraint] = []
        self.errors: list[str] = []
        self.suggested: list[dict[str, Choice]] = []
        self.trusted: dict[str, Choice] = {}
        self.given = {}
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
        request = definition.request
        self._open(request)
        if (known := self.knobs.get(definition.name)) is not None:
            if known.definition.same_as(definition):
                return definition.axes()  # templates call what defines a knob more than once
            raise SpaceError(
                request,
                "the space has a knob of this name already, and it is another one",
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

    def _open(self, request: str) -> None:
        if self._sealed:
            raise SpaceError(
                request, "the space is complete", "knobs are defined while the template runs"
            )

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

    def _choose(self, choices: Mapping[str, Choice]) -> None:
        self._chosen.update(choices)
        self._default = None
        self._chosen = self.default.as_dict()

    def _changed(self) -> None:
        self._fingerprint = None
        self._pairs = None
        self._valid = None
        self._default = None
        self._reference = None

    @property
    def valid_points(self) -> ValidPoints:
        """The points that the constraints admit; nothing is evaluated before it is needed."""
        if self._valid is None:
            owner = f"space of template {self.template!r}" if self.template else "the space"
            self._valid = ValidPoints(owner, list(self.knobs.values()), self.constraints)
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
        quick.flop, quick.level, quick.suggested = self.flop, "quick", self.suggested
        quick.seal(self._graph, self._by_source)
        quick._fingerprint, quick._reference = self.fingerprint, self.reference
        return quick

    # -- size and index

    @property
    def size(self) -> int:
        """The number of valid configs, 1 without knobs; see :attr:`size_is_exact`.

        Raises:
            SpaceError: none is valid, or a constraint raises.
        """
        return self.valid_points.count.value

    @property
    def size_is_exact(self) -> bool:
        """True if :attr:`size` was counted; else it is an estimate from a sample."""
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

    def __iter__(self) -> Iterator[Config]:
        """The valid configs in the order of their indices."""
        return map(self.config_of, indexing.points_in_order(self))

    def __getitem__(self, key: Any) -> Any:
        """``space[name]``: the entity of that knob's default. ``space[i]``: :meth:`at`."""
        if not isinstance(key, str):
            return self.at(key)
        if key in self.given:
            return given_entity(self, key)
        if key not in self.knobs:
            raise not_defined(key, self.knobs)
        knob = self.knobs[key]
        if key in self._chosen:
            return knob.entity(knob.position(self._chosen[key]))
        return knob.entity(knob.default)

    def is_valid(self, point: Sequence[int] | np.ndarray) -> bool:
        """True if the constraints admit a point."""
        return self.valid_points.admits(tuple(int(position) for position in point))

    def valid(self, points: np.ndarray | None = None) -> Any:
        """The mask of valid points: bool of shape (n,) for int64 of shape (n, knobs).

        Without points: whether the template has met no error; see :meth:`raise_error`.
        """
        if points is None:
            return super().valid()
        return self.valid_points.check(moves.point_table(self, points))

    def __contains__(self, item: object) -> bool:
        """True if a config is a valid one of this space, or a name is one of its knobs'."""
        if isinstance(item, str):
            return item in self.knobs
        try:
            self.check(item)  # type: ignore[arg-type]
        except SpaceError:
            return False
        return True

    @property
    def default(self) -> Config:
        """The config in force outside a search: the knobs' defaults, or the nearest valid config.

        Raises:
            SpaceError: no config is valid, or a constraint raises.
        """
        if self._default is None:
            point = [
                knob.position(self._chosen[name]) if name in self._chosen else knob.default
                for name, knob in self.knobs.items()
            ]
            # what is valid as it is needs no search, and no numpy
            admitted = self.valid_points.admits(point)
            self._default = self.decode(point if admitted else self.repair(point))
        return self._default

    @property
    def reference(self) -> Config:
        """The config by whose numbers all are checked: the default, unless :meth:`check_by` named
        another, e.g. of a rule that uses no declared instruction. Of a quick space: the full one's.
        """
        if self._reference is None:
            self._reference = self.nearest(self.trusted) if self.trusted else self.default
        return self._reference

    # -- configs and points

    config_of = encoding.config_of
    decode = encoding.decode
    encode = encoding.encode
    check = encoding.check
    from_choices = encoding.from_choices
    nearest = encoding.nearest

    @property
    def space_map(self) -> dict[str, Knob]:
        """The knobs by name, AutoTVM's word: ``len(knob)``, ``knob[i]``, ``knob.entities``."""
        return dict(self.knobs)

    # -- the range of indices, and AutoTVM's methods on it

    dims = property(indexing.dims)
    cardinalities = dims
    range_length = property(indexing.range_length)
    at = indexing.at
    get = indexing.get
    index = indexing.index
    point2knob = indexing.point2knob
    knob2point = indexing.knob2point
    is_index_valid = indexing.is_index_valid
    get_rand_index = indexing.get_rand_index
    sample_ints = indexing.sample_ints
    random_walk = indexing.random_walk
    get_next_index = indexing.get_next_index
    subrange_length = indexing.subrange_length

    # -- moves, and distances

    sample = moves.sample
    sample_points = moves.sample_points
    mutate = moves.mutate
    mutate_points = moves.mutate_points
    cross_points = moves.cross_points
    repair = moves.repair
    neighbours = moves.neighbours
    coordinates = moves.coordinates
    distance = moves.distance
    distances = moves.distances

    # -- config features, for cost models

    feature_names = property(features.feature_names)
    features_of_points = features.features_of_points
    features = features.features

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
        return table(self)

    def __repr__(self) -> str:
        level = "" if self.level == "full" else f", {self.level}"
        size = counted(self.range_length, "config")
        if self.constraints:
            size = f"{counted(len(self.constraints), 'constraint')} on {size}"
        return f"ConfigSpace({self.template!r}, {counted(len(self.knobs), 'knob')}, {size}{level})"

    @property
    def named_choices(self) -> tuple[list[list[tuple[str, Choice]]], tuple[str, ...]]:
        """For each knob its name with each choice, and the knobs' kinds: shared by all configs."""
        if self._pairs is None:
            knobs = self.knobs.values()
            pairs = [[(knob.name, choice) for choice in knob.choices] for knob in knobs]
            self._pairs = pairs, tuple(knob.kind for knob in knobs)
        return self._pairs
