"""Signs in the machine's load that others used it while it measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whet.measure.stage.timing import spread
from whet.measure.values import is_number
from whet.search_spaces.values.counted import counted

BUSY, BUSY_AND_SHAKEN = 2.0, 1.0
"""Load a core from which others must be using the machine: twice what a search makes; and where
the rounds of the last measurement differ as well."""
QUIET = 1.5
"""Load a core below which a machine is called quiet: a search itself makes about 1."""
ROUNDS, SHAKEN = 6, 0.1
"""Rounds differ where at least so many have this relative spread (interquartile over median)."""


UPPER = "measured times are upper bounds"
"""The meaning of a busy machine for its times."""


def is_busy(environment: Mapping[str, Any], rounds: Sequence[float] = ()) -> bool | None:
    """True if others used the machine while it measured; None: nothing says so or not.

    What a search itself runs is a load of about 1 a core, also when it ended just before.

    Args:
        environment: of :func:`~whet.measure.stage.machine.environment`; its ``load``
            and ``cpus`` count.
        rounds: seconds a call, of the rounds of one measurement.
    """
    load, cpus = environment.get("load"), environment.get("cpus")
    if not is_number(load) or type(cpus) is not int or cpus < 1:
        return None
    shaken = len(rounds) >= ROUNDS and (spread(rounds) or 0.0) >= SHAKEN
    return load >= (BUSY_AND_SHAKEN if shaken else BUSY) * cpus


def quiet_words(environment: Mapping[str, Any]) -> str:
    """The load of a machine that was not busy; a quiet one is called so.

    Args:
        environment: with ``load`` and ``cpus``.
    """
    load, cpus = environment["load"], environment["cpus"]
    return "quiet machine" if load < QUIET * cpus else f"load {load:.1f} on {counted(cpus, 'core')}"


def busy_words(environment: Mapping[str, Any], rounds: Sequence[float] = ()) -> str:
    """A sentence that others used the machine, with its load; "" where they did not.

    Args:
        environment, rounds: as of :func:`is_busy`.
    """
    if not is_busy(environment, rounds):
        return ""
    cores = counted(environment["cpus"], "core")
    return f"the machine was busy (load {environment['load']:.1f} on {cores})"
