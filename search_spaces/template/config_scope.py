"""The config in force: context variables, and the object that a template talks to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from whet.compiler.abi.tuned_by import TunedBy
from whet.compiler.errors import SpaceError
from whet.search_spaces.knobs.definition import Definition
from whet.search_spaces.knobs.entities import VirtualAxis
from whet.search_spaces.knobs.knob import Knob
from whet.search_spaces.knobs.option import OptionDefinition
from whet.search_spaces.knobs.plain import Choice, tagged
from whet.search_spaces.space.config_space import ConfigSpace
from whet.search_spaces.space.constraints import constraint_of
from whet.search_spaces.space.define import DefineKnobs, not_defined
from whet.search_spaces.space.fallback import given_entity
from whet.search_spaces.values import Config, Workload


@dataclass(frozen=True)
class Resolved:
    """A resolver's answer with its reason.

    Attributes:
        config: None: nothing applies; the resolver around is asked, and in the end the default
            config is taken.
        tuned_by: where ``config`` comes from, or why there is none.
    """

    config: Config | None = None
    tuned_by: TunedBy | None = None


Resolver = Callable[[Workload], Config | Resolved | None]

_talking: ContextVar[DefineKnobs | None] = ContextVar("whet_template_talks_to", default=None)
_forced: ContextVar[Config | None] = ContextVar("whet_config_in_force", default=None)
_resolvers: ContextVar[tuple[Resolver, ...]] = ContextVar("whet_config_resolvers", default=())


class ConfigView(DefineKnobs):
    """A config as a template sees it: ``define_*`` checks, ``cfg[name]`` gives the entity chosen.

    Args:
        config: what was chosen.
        space: the space that the template's knobs must agree with; None outside a template, where
            each choice is checked against its own definition only.
        is_fallback: whether ``config`` is the default one for want of another.
    """

    def __init__(
        self, config: Config, space: ConfigSpace | None, is_fallback: bool = False
    ) -> None:
        self.config = config
        self.space = space
        self.is_fallback = is_fallback
        self.defined: dict[str, Knob] = {}
        self.knobs = space.knobs if space else self.defined
        self.errors: list[str] = []
        self.suggested: list[dict[str, Choice]] = []
        self.trusted: dict[str, Choice] = {}
        self.given = {}
        self.constraints = 0

    def _define(
        self, definition: Definition, default: Any, quick: Sequence[Any] | None
    ) -> list[VirtualAxis]:
        name = definition.name
        if (known := self.defined.get(name)) is not None:
            if known.definition.same_as(definition):
                return definition.axes()
            raise SpaceError(
                definition.request,
                "a knob of this name is defined already, and it is another one",
                ", ".join(self.defined),
            )
        knob = self._collected(definition) if self.space else Knob.of(definition, default)
        knob.position(self.config.choice(name))
        self.defined[name] = knob
        return definition.axes()

    def define_knob(
        self,
        name: str,
        candidates: Iterable[Any],
        default: Any = None,
        *,
        quick: Sequence[Any] | None = None,
    ) -> None:
        """See :meth:`DefineKnobs.define_knob`; a list that the space has is not looked at again."""
        knob = self.space.knobs.get(name) if self.space else None
        known = knob.definition if knob is not None else None
        if isinstance(known, OptionDefinition) and known.candidates is candidates:
            self._define(known, default, quick)
        else:
            super().define_knob(name, candidates, default, quick=quick)

    def multi_filter(self, filter: Callable[[Any], Any]) -> None:
        """Take note of a constraint: the space has judged the config by it already."""
        constraint_of(filter)
        self.constraints += 1

    def _choose(self, choices: Mapping[str, Choice]) -> None:
        chosen = {**self.config.as_dict(), **choices}
        if self.space is not None:
            self.config = self.space.nearest(chosen)
        else:
            self.config = replace(self.config, choices=tuple(chosen.items()))

    def _collected(self, definition: Definition) -> Knob:
        """The knob of the space, once the definition is seen to agree with it."""
        assert self.space is not None
        knob = self.space.knobs.get(definition.name)
        if knob is None:
            raise SpaceError(
                definition.request,
                "the template did not define this knob when its space was collected",
                f"the space's knobs: {', '.join(self.space.knobs) or '(none)'}\n"
                "a template must define the same knobs whatever the config is",
            )
        if knob.definition is definition or knob.definition.same_as(definition):
            return knob
        # Written differently, or with a filter that nobody can compare: look at the lists.
        choices = definition.choices()
        if knob.kind != definition.kind or tagged(knob.choices) != tagged(choices):
            raise SpaceError(
                definition.request,
                f"the knob has other choices than when the space was collected: "
                f"{len(choices)} of kind {definition.kind}, then {len(knob)} of kind {knob.kind}",
                lambda: _difference(knob.choices, choices),
            )
        return knob

    def __getitem__(self, name: Any) -> Any:
        if name in self.given:
            return given_entity(self, name)
        if name not in self.defined:
            raise not_defined(name, self.defined)
        knob = self.defined[name]
        return knob.entity(knob.position(self.config.choice(name)))

    def __contains__(self, name: object) -> bool:
        return name in self.defined

    def __str__(self) -> str:
        return str(self.config)


def get_config() -> DefineKnobs:
    """The object through which a template asks for its knobs.

    Inside a template: the space while it is collected, else a view of the config in force. Outside:
    a view of :func:`using_config`'s, or an empty space, in which every knob takes its default.
    """
    talking = _talking.get()
    if talking is not None:
        return talking
    forced = _forced.get()
    if forced is not None:
        return ConfigView(forced, None)
    space = ConfigSpace()
    space.is_fallback = True
    return space


@contextmanager
def using_config(config: Config) -> Iterator[Config]:
    """Templates called inside run under ``config``.

    Raises:
        SpaceError: ``config`` is not a Config; a template that it does not fit raises when called.
    """
    if not isinstance(config, Config):
        raise SpaceError("using_config", f"a Config is needed, not a {type(config).__name__}")
    token = _forced.set(config)
    try:
        yield config
    finally:
        _forced.reset(token)


@contextmanager
def using_resolver(resolver: Resolver) -> Iterator[Resolver]:
    """Templates called inside run under ``resolver(workload)``.

    None means that the resolver around this one is asked, and the default config in the end.
    """
    put_in_force(resolver)
    try:
        yield resolver
    finally:
        take_out_of_force(resolver)


def put_in_force(resolver: Resolver) -> None:
    """Let a resolver be asked first, in this thread, until it is taken out of force."""
    _resolvers.set((resolver, *_resolvers.get()))


def take_out_of_force(resolver: Resolver) -> None:
    """End :func:`put_in_force`, the last one of this resolver."""
    left = list(_resolvers.get())
    left.remove(resolver)
    _resolvers.set(tuple(left))


def resolvers_in_force() -> tuple[Resolver, ...]:
    """The resolvers that are asked in this thread, the innermost first."""
    return _resolvers.get()


def resolved_in_force(workload: Workload) -> Resolved:
    """The config that a template called now runs under, and where it comes from."""
    forced = _forced.get()
    if forced is not None:
        return Resolved(forced)
    nothing = Resolved()
    for resolver in _resolvers.get():
        answer = resolver(workload)
        found = answer if isinstance(answer, Resolved) else Resolved(answer)
        if found.config is not None:
            return found
        nothing = found if nothing.tuned_by is None else nothing
    return nothing


def config_in_force(workload: Workload) -> Config | None:
    """The config that a template called now runs under; None: its default."""
    return resolved_in_force(workload).config


@contextmanager
def talking_to(config: DefineKnobs) -> Iterator[None]:
    """``get_config()`` inside is ``config``; using_config's is not for templates within one."""
    talking, forced = _talking.set(config), _forced.set(None)
    try:
        yield
    finally:
        _forced.reset(forced)
        _talking.reset(talking)


def _difference(then: tuple, now: tuple) -> str:
    ours, theirs = {tagged(c): c for c in then}, {tagged(c): c for c in now}
    gone = [c for t, c in ours.items() if t not in theirs][:4]
    new = [c for t, c in theirs.items() if t not in ours][:4]
    lines = [f"only then: {', '.join(map(repr, gone))}"] if gone else []
    lines += [f"only now: {', '.join(map(repr, new))}"] if new else []
    return "\n".join(lines or ["the same choices in another order"])
