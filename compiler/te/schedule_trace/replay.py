"""Replay: a trace's records applied to a schedule of an equal computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.primitives.checks import ON_SCHEDULE, ON_STAGE
from whet.compiler.te.schedule_trace.definitions import DEFINITIONS, Known, Record

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule

_SAME = "a trace replays on the computation that it was recorded on"


def check_data(data: Any) -> None:
    """An error unless these are a trace's records.

    Raises:
        ScheduleError: naming the record.
    """
    if not isinstance(data, list):
        raise ScheduleError("Trace.from_json", f"a {type(data).__name__} is not a list of records")
    for k, r in enumerate(data):
        if not _is_record(r):
            raise ScheduleError(f"Trace.from_json: record {k}", f"{r!r} is no step of a trace")


def _is_record(r: Any) -> bool:
    if not isinstance(r, dict) or not isinstance(r.get("names", []), list):
        return False
    if not all(isinstance(n, str) and n.isidentifier() for n in r.get("names", [])):
        return False
    if "define" in r:
        kind = DEFINITIONS.get(r["define"])
        return kind is not None and all(f in r for f in kind.fields)
    known = ON_STAGE if "stage" in r else ON_SCHEDULE
    return (
        r.get("primitive") in known
        and isinstance(r.get("args"), list)
        and isinstance(r.get("options", {}), dict)
    )


def replay(data: list[Record], schedule: Schedule, symbols: Mapping[str, Any]) -> Schedule:
    """Apply records to a schedule to which nothing was applied yet.

    Args:
        symbols: the variables and tensor intrinsics to use where the records only name them.

    Raises:
        ScheduleError: if a record does not fit.
    """
    check_data(data)
    known = Known(schedule, symbols)
    for k, r in enumerate(data):
        try:
            _play(known, r)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            step = r.get("primitive") or f"definition of {', '.join(r['names'])}"
            raise ScheduleError(
                f"replay record {k}, {step}",
                f"it does not fit this computation ({type(error).__name__}: {error})",
                _SAME,
            ) from error
    return known.schedule


def _play(known: Known, r: Record) -> None:
    """Run one record and keep its results by name."""
    if "define" in r:
        of = known.names[r["of"]] if "of" in r else None
        out = DEFINITIONS[r["define"]].find(known, r, of)
    else:
        out = _apply(known, r)
    names = r.get("names", [])
    results = list(out) if isinstance(out, (list, tuple)) else [out]
    if names and len(results) != len(names):
        raise ScheduleError(
            f"replay {r.get('define') or r['primitive']} of {r.get('of') or r.get('stage')}",
            f"it gives {len(results)} things, {len(names)} were recorded: {', '.join(names)}",
            _SAME,
        )
    known.names.update(zip(names, results))


def _apply(known: Known, r: Record) -> Any:
    args = [known.value(a) for a in r["args"]]
    options = {k: known.value(v) for k, v in r.get("options", {}).items()}
    if "stage" in r:
        stage = known.schedule[known.names[r["stage"]]]
        return ON_STAGE[r["primitive"]](stage, *args, **options)
    out = ON_SCHEDULE[r["primitive"]](known.schedule, *args, **options)
    if r["primitive"] == "normalize":
        known.schedule = out
    return out
