"""Fallback configs: the choices that a template may make for itself where nobody has chosen.

Methods of what a template talks to, for templates in which ``cfg.is_fallback`` is true. They change
what ``cfg[name]`` gives, for this run of the template only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from math import inf, log2, prod
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError
from whet.search_spaces.knobs.entities import Entity, SplitEntity, entity_of
from whet.search_spaces.knobs.plain import Choice
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.search_spaces.space.define import DefineKnobs


def fallback_split(cfg: DefineKnobs, name: str, constraints: Sequence[int]) -> None:
    """Choose the split of the largest sizes within bounds, the innermost first.

    Sizes without a tail are preferred: ``[-1, 8, 4]`` makes ``(4, 8, 4)`` of an extent of 128
    and ``(7, 7, 1)`` of one of 49.

    Args:
        name: a split knob.
        constraints: the largest size of each loop, outermost first; -1: any.

    Raises:
        SpaceError: the config in force was chosen, the knob is not a split, another number of
            bounds, or no legal sizes keep them.
    """
    request = f"fallback_split({name!r}, {list(constraints)})"
    _must_be_fallback(cfg, request)
    knob = cfg.knobs.get(name)
    if knob is None or knob.kind != "split":
        splits = ", ".join(n for n, k in cfg.knobs.items() if k.kind == "split")
        raise SpaceError(request, f"no split is called {name!r}", f"splits: {splits or '(none)'}")
    sizes: Any = knob.choices
    if len(constraints) != len(sizes[0]):
        raise SpaceError(request, f"the split has {len(sizes[0])} loops, not {len(constraints)}")
    bounds = [inf if bound == -1 else bound for bound in constraints]
    legal = [s for s in sizes if all(f <= bound for f, bound in zip(s, bounds))]
    if not legal:
        raise SpaceError(
            request,
            f"none of the knob's {len(sizes)} choices keeps these bounds",
            "raise them; -1 stands for no bound",
        )
    extent = min(prod(size) for size in sizes)
    cfg._choose({name: min(legal, key=lambda s: (prod(s) != extent, [-f for f in s[::-1]]))})


def fallback_with_reference_log(cfg: DefineKnobs, ref_log: Iterable[Any]) -> None:
    """Choose what was fastest where the splits were most alike.

    Alike are records whose splits have nearly the extents of this template's, in powers of
    two; among equals the fastest counts. Its choices are fitted as ``space.nearest`` does.
    Where no record has a knob of this template, nothing changes.

    Args:
        ref_log: records with ``config`` and ``cost`` (``log.trials()``), or tuples
            ``(workload, config, cost)`` with the cost in seconds; failures are passed over.

    Raises:
        SpaceError: the config in force was chosen, or something that is not such a record.
    """
    request = "fallback_with_reference_log"
    _must_be_fallback(cfg, request)
    best: tuple[float, float] | None = None
    chosen: Mapping[str, Choice] = {}
    for record in ref_log:
        config, cost = _record(record, request)
        choices = config.as_dict()
        common = [knob for name, knob in cfg.knobs.items() if name in choices]
        if not common or not 0 < cost < inf:
            continue
        rank = (_unlike(cfg, choices), cost)
        if best is None or rank < best:
            best, chosen = rank, choices
    known = cfg.knobs
    fitted = {n: known[n].choices[known[n].similar(chosen[n])] for n in known if n in chosen}
    if fitted:
        cfg._choose(fitted)


def give_entity(cfg: DefineKnobs, name: str, entity: Entity) -> None:
    """``cfg[name] = SplitEntity([-1, 8])``: the choice of the template itself.

    It holds for this run of the template, whatever the knob's list and the constraints admit, and
    whether the knob is defined before or after. A first size of -1 is what the others leave.

    Args:
        name: a knob's.
        entity: of the knob's kind.

    Raises:
        SpaceError: the config in force was chosen, ``entity`` is none, or of another kind or
            number of parts than the knob that is defined.
    """
    request = f"cfg[{name!r}] = {entity!r}"
    _must_be_fallback(cfg, request)
    if not isinstance(entity, Entity):
        raise SpaceError(request, "no entity", "SplitEntity, ReorderEntity, AnnotateEntity, ...")
    knob = cfg.knobs.get(name)
    if knob is not None:
        ours = entity_of(knob.kind, knob.choices[0])
        if type(ours) is not type(entity):
            raise SpaceError(request, f"the knob is a {knob.kind}", repr(ours))
        have, given = _parts(ours), _parts(entity)
        if knob.kind != "knob" and len(have) != len(given):
            raise SpaceError(request, f"the knob has {len(have)} parts, not {len(given)}")
    cfg.given[name] = entity


def given_entity(cfg: DefineKnobs, name: str) -> Entity:
    """What :func:`give_entity` was given; the outermost size of a split is filled in."""
    entity, knob = cfg.given[name], cfg.knobs.get(name)
    if not isinstance(entity, SplitEntity) or entity.size[:1] != (-1,) or knob is None:
        return entity
    sizes: Any = knob.choices
    extent = min(prod(size) for size in sizes)
    return SplitEntity((-(-extent // prod(entity.size[1:])), *entity.size[1:]))


def _parts(entity: Entity) -> Any:
    return getattr(entity, fields(entity)[0].name)


def _unlike(cfg: DefineKnobs, choices: Mapping[str, Choice]) -> float:
    """How far the extents of a record's splits are from those of this template's."""
    total = 0.0
    for name, knob in cfg.knobs.items():
        if knob.kind != "split":
            continue
        ours: Any = knob.choices[0]
        theirs: Any = choices.get(name)
        if not isinstance(theirs, tuple) or len(theirs) != len(ours):
            total += 64.0  # as much as no two extents differ
        else:
            total += abs(log2(prod(ours)) - log2(max(1, abs(prod(theirs)))))
    return total


def _must_be_fallback(cfg: DefineKnobs, request: str) -> None:
    if not cfg.is_fallback:
        raise SpaceError(
            request,
            "the config in force was chosen by a search or by the caller",
            "write `if cfg.is_fallback:` before it",
        )


def _record(record: Any, request: str) -> tuple[Config, float]:
    if isinstance(record, tuple | list) and len(record) == 3:
        _, config, cost = record
    else:
        config, cost = getattr(record, "config", None), getattr(record, "cost", None)
    if not isinstance(config, Config) or isinstance(cost, bool):
        config = None
    if config is None or not isinstance(cost, int | float):
        raise SpaceError(
            request,
            f"a {type(record).__name__} is not a record",
            "give trials of a log, or (workload, config, seconds)",
        )
    return config, float(cost)
