"""Whether others used the machine while it measured, by its load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whet.measure.timing import spread
from whet.search_spaces.counted import counted

BUSY, BUSY_AND_SHAKEN = 2.0, 1.0
"""Load a core from which others must be using the machine: twice what a search makes; and where
the rounds of the last measurement differ as well."""
ROUNDS, SHAKEN = 6, 0.1
"""Rounds differ where at least so many have this relative spread (interquartile over median)."""


def busy_words(environment: Mapping[str, Any], rounds: Sequence[float] = ()) -> str:
    """That others used the machine, with the load that says so; "" where nothing does.

    What a search itself runs is a load of about 1 a core, also when it ended just before.

    Args:
        environment: of a measurement (:func:`whet.measure.machine.environment`); its ``load`` and
            ``cpus`` count.
        rounds: seconds a call, of the rounds of one measurement.
    """
    load, cpus = environment.get("load"), environment.get("cpus")
    if not isinstance(load, int | float) or not isinstance(cpus, int) or cpus < 1:
        return ""
    shaken = len(rounds) >= ROUNDS and spread(list(rounds)) >= SHAKEN
    if load < (BUSY_AND_SHAKEN if shaken else BUSY) * cpus:
        return ""
    return f"the machine was busy (load {load:.1f} on {counted(cpus, 'core')})"
