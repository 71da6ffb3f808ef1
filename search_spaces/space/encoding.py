"""Configs as points of a space and back: decode, encode, check.

Functions of a :class:`~whet.search_spaces.ConfigSpace`, which has the public ones as methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import SpaceError
from whet.compiler.late_numpy import np
from whet.search_spaces.knobs.plain import Choice
from whet.search_spaces.values import Config

if TYPE_CHECKING:
    from whet.search_spaces.space.config_space import ConfigSpace


def decode(space: ConfigSpace, point: Sequence[int] | np.ndarray) -> Config:
    """The config of a point: one position per knob.

    Raises:
        SpaceError: another number of positions, or one outside its knob's list.
    """
    positions = tuple(int(position) for position in point)
    if len(positions) != len(space.knobs):
        raise SpaceError(
            f"decode({positions})", f"the space has {len(space.knobs)} knobs", str(space)
        )
    for knob, position in zip(space.knobs.values(), positions, strict=True):
        if not 0 <= position < len(knob):
            raise SpaceError(
                f"decode({positions})", f"{knob.name!r} has {len(knob)} choices, not {position}"
            )
    return space.config_of(positions)


def encode(space: ConfigSpace, config: Config) -> tuple[int, ...]:
    """The point of a config.

    Raises:
        SpaceError: a knob is unknown or missing, a choice is not legal, or the config was made
            from a space of another fingerprint.
    """
    if not isinstance(config, Config):
        raise SpaceError("encode", f"a Config is needed, not a {type(config).__name__}")
    point = _positions(space, config.as_dict())
    if config.fingerprint and config.fingerprint != space.fingerprint:
        raise SpaceError(
            f"config {config}",
            f"it belongs to a space of fingerprint {config.fingerprint}, "
            f"this one's is {space.fingerprint}",
            "the template, its version, its compute or a candidate list has changed since",
        )
    return point


def check(space: ConfigSpace, config: Config) -> None:
    """Raise the SpaceError that says why ``config`` is not a valid one of this space, if so."""
    _check_point(space, config, space.encode(config))


def _check_point(space: ConfigSpace, config: Config, point: tuple[int, ...]) -> None:
    broken = space.valid_points.broken(point)
    if broken is not None:
        raise SpaceError(
            f"config {config}",
            f"a constraint does not admit it: {broken}",
            "space.repair(point) gives the nearest valid point",
        )


def from_choices(space: ConfigSpace, choices: Mapping[str, Any]) -> Config:
    """The config with these choices, whatever fingerprint they came from.

    Args:
        choices: a legal choice for each knob.

    Raises:
        SpaceError: a knob is unknown or missing, a choice is not legal, or a constraint does
            not admit them together.
    """
    config = Config(tuple(choices.items()))
    point = _positions(space, config.as_dict())
    _check_point(space, config, point)
    return space.config_of(point)


def nearest(space: ConfigSpace, choices: Config | Mapping[str, Any]) -> Config:
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
    start = space.encode(space.default)
    point = [
        knob.similar(given[name]) if name in given else position
        for (name, knob), position in zip(space.knobs.items(), start)
    ]
    return space.decode(space.repair(point))


def config_of(space: ConfigSpace, point: tuple[int, ...]) -> Config:
    """The config of a point, unchecked: one legal position per knob."""
    pairs, kinds = space.named_choices
    choices = tuple(of[p] for of, p in zip(pairs, point, strict=True))
    config = Config.of_plain(choices, space.fingerprint, kinds)
    config.__dict__["_point"] = point, tuple(map(len, pairs))
    return config


def _positions(space: ConfigSpace, choices: dict[str, Choice]) -> tuple[int, ...]:
    if choices.keys() != space.knobs.keys():
        unknown = [name for name in choices if name not in space.knobs]
        missing = [name for name in space.knobs if name not in choices]
        parts = [f"unknown knobs: {', '.join(unknown)}"] if unknown else []
        parts += [f"missing knobs: {', '.join(missing)}"] if missing else []
        raise SpaceError(
            "config " + " ".join(f"{n}={c}" for n, c in choices.items()),
            "; ".join(parts),
            f"the space's knobs: {', '.join(space.knobs) or '(none)'}",
        )
    return tuple(knob.position(choices[name]) for name, knob in space.knobs.items())
