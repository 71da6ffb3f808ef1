"""Trials as a pandas DataFrame: one row a trial, one column a knob."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whet.autotune.results.failures import last_line
from whet.compiler.errors import ArgumentError
from whet.compiler.installed import install_extra
from whet.measure.stage.timing import spread

if TYPE_CHECKING:
    import pandas

    from whet.autotune.results.trial import Trial

COLUMNS = (
    "number", "status", "cost_s", "gflops", "repeats", "spread",
    "lower_s", "build_s", "run_s", "total_s", "timestamp", "error",
)  # fmt: skip
"""The columns beside the knobs', which stand between ``gflops`` and ``repeats``."""
TIMINGS = ("lower_s", "build_s", "run_s", "total_s")


def trials_dataframe(trials: Sequence[Trial]) -> pandas.DataFrame:
    """Trials as a table.

    Args:
        trials: of one space.

    Returns:
        A row for each trial, in their order: ``number``; ``status``; ``cost_s``, seconds per call,
        NaN for a failure; ``gflops``, NaN where unknown; each knob under its name, a split as the
        tuple of its sizes (a knob with the name of another column is ``knob:name``); ``repeats``
        and ``spread`` of the measurement (interquartile range over median; NaN for one repeat);
        seconds of its stages; ``timestamp`` in UTC; and the last line of a failure's ``error``.

    Raises:
        ArgumentError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ArgumentError(
            "trials_dataframe()",
            "pandas is not installed",
            f"{install_extra('plots')}; the trials themselves are in result.trials",
        ) from error
    knobs = list(dict.fromkeys(name for t in trials for name, _ in t.config.choices))
    columns = {knob: f"knob:{knob}" if knob in COLUMNS else knob for knob in knobs}
    rows = []
    for trial in trials:
        choices = trial.config.as_dict()
        rows.append(_facts(trial) | {name: choices.get(knob) for knob, name in columns.items()})
    names = (*COLUMNS[:4], *columns.values(), *COLUMNS[4:])
    frame = pandas.DataFrame({name: [row[name] for row in rows] for name in names})
    frame["timestamp"] = pandas.to_datetime(frame["timestamp"], unit="s", utc=True)
    return frame


def _facts(trial: Trial) -> dict[str, Any]:
    result = trial.result
    unknown = float("nan")
    return {
        "number": trial.number,
        "status": result.status,
        "cost_s": result.cost if result.ok else unknown,
        "gflops": trial.gflops or unknown,
        "repeats": len(result.costs),
        "spread": unknown if (known := spread(result.costs)) is None else known,
        **{name: result.timings.get(name, unknown) for name in TIMINGS},
        "timestamp": result.timestamp,
        "error": last_line(result.error),
    }
