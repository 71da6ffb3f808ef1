"""Samplers: what proposes the next config. Each is an Optuna sampler; `base` states the contract.

Importing this module does not import Optuna; making a sampler does.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.autotune.samplers.contract.base import Features, SpaceSampler
    from whet.autotune.search.transfer import Prior
    from whet.search_spaces import ConfigSpace

SAMPLERS = {
    "random": ("whet.autotune.samplers.random", "RandomSampler"),
    "grid": ("whet.autotune.samplers.grid", "GridSampler"),
    "qmc": ("whet.autotune.samplers.qmc", "QMCSampler"),
    "tpe": ("whet.autotune.samplers.tpe", "TPE"),
    "gp": ("whet.autotune.samplers.gp", "GPSampler"),
    "cmaes": ("whet.autotune.samplers.cmaes", "CMAESSampler"),
    "genetic": ("whet.autotune.samplers.genetic", "GeneticSampler"),
    "xgb": ("whet.autotune.samplers.xgb", "XGBSampler"),
}
"""Where each sampler lives, by its name."""

EXHAUSTIVE = ("GridSampler", "BruteForceSampler")
"""Optuna's samplers that cannot be asked twice for one trial."""

NEEDS = {"CmaEsSampler": ("cmaes", "cmaes"), "GPSampler": ("torch", "gp")}
"""The package that a sampler of Optuna's needs, and the name of ours that does without."""


def check_sampler(sampler: Any) -> str:
    """The name of ``sampler``, for the log.

    Args:
        sampler: a name of :data:`SAMPLERS` or an instance of an Optuna sampler.

    Raises:
        ArgumentError: it is neither.
    """
    if isinstance(sampler, str) and sampler in SAMPLERS:
        return sampler
    if isinstance(sampler, str) or not hasattr(sampler, "sample_relative"):
        stranger = f"a {type(sampler).__name__} is not a sampler"
        raise ArgumentError(
            f"sampler={sampler!r}",
            "no sampler has this name" if isinstance(sampler, str) else stranger,
            f"samplers: {', '.join(SAMPLERS)}, or any optuna.samplers.BaseSampler instance",
        )
    if isinstance(sampler, type):
        raise ArgumentError(
            f"sampler={sampler.__name__}",
            "this is a class, not a sampler",
            f"make an instance: {sampler.__name__}()",
        )
    name = type(sampler).__name__
    if type(sampler).__module__.startswith("optuna."):
        _check_optunas(name)
    return name


def _check_optunas(name: str) -> None:
    """Refuse one of Optuna's own samplers that cannot work here."""
    from importlib.util import find_spec

    if name in EXHAUSTIVE:
        raise ArgumentError(
            f"sampler={name}(...)",
            "it counts through its own list of trials, which a search cannot follow",
            'sampler="grid" counts through the space',
        )
    package, ours = NEEDS.get(name, ("", ""))
    if package and find_spec(package) is None:
        raise ArgumentError(
            f"sampler={name}(...)",
            f"it needs the package {package!r}, which is not installed",
            f'pip install {package}, or sampler="{ours}", which does without',
        )


def load_ahead(sampler: Any) -> None:
    """Load the libraries of a sampler, while others do what has to be done before it proposes.

    Args:
        sampler: as of :func:`check_sampler`.
    """
    import threading

    def load() -> None:
        with suppress(Exception):  # who needs them says what is wrong with them
            from whet.autotune.samplers.model.cost_model import load_libraries

            load_libraries()

    if sampler == "xgb":
        threading.Thread(target=load, name="whet imports", daemon=True).start()


def has_opinion(sampler: Any) -> bool:
    """True if a sampler says what it expects of the next trials.

    Args:
        sampler: as of :func:`check_sampler`.
    """
    import importlib

    from whet.autotune.samplers.contract.base import SpaceSampler

    kind = type(sampler)
    if isinstance(sampler, str):
        module, name = SAMPLERS[sampler]
        kind = getattr(importlib.import_module(module), name)
    return issubclass(kind, SpaceSampler) and kind.expected_gain is not SpaceSampler.expected_gain


def make_sampler(
    sampler: Any,
    space: ConfigSpace,
    seed: int = 0,
    features: Features | None = None,
    prior: Prior | None = None,
) -> SpaceSampler:
    """The sampler over ``space`` that keeps the contract.

    Args:
        sampler: a name of :data:`SAMPLERS`, or an Optuna sampler, which is wrapped.
        space: the space to sample from.
        seed: any integer from 0 on; an Optuna sampler that was passed in keeps its own.
        features: loop features of the space's points; ``xgb`` learns from them where given.
        prior: what is known from other tasks; samplers that learn begin with its seeds, and
            ``xgb`` with its rows.

    Raises:
        ArgumentError: an unknown name, not a sampler, or one that was made for another space.
    """
    import importlib

    check_sampler(sampler)
    if isinstance(sampler, str):
        module, name = SAMPLERS[sampler]
        return getattr(importlib.import_module(module), name)(space, seed, features, prior)
    from whet.autotune.samplers.contract.base import SpaceSampler
    from whet.autotune.samplers.foreign import ForeignSampler

    if not isinstance(sampler, SpaceSampler):
        return ForeignSampler(space, sampler, seed)
    if sampler.space.fingerprint != space.fingerprint:
        raise ArgumentError(
            f"sampler={type(sampler).__name__}(...)",
            f"it was made for {sampler.space!r}, and is asked about {space!r}",
            "make it from task.config_space, or give its name",
        )
    return sampler


__all__ = ["SAMPLERS", "check_sampler", "make_sampler"]
