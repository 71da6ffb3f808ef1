"""Replay: a trace's records applied to a schedule of an equal computation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.primitives.compute_at import Placed
from whet.compiler.te.trace.records import Record
from whet.compiler.te.trace.steps import ON_SCHEDULE, ON_STAGE
from whet.compiler.tir import expr as e
from whet.compiler.tir.ops import ops

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule

_DEFINITIONS = {
    "output": ("number",),
    "input": ("of", "number"),
    "tensor": ("of", "number"),
    "leaf": ("of", "number"),
    "dimension": ("of", "number"),
    "axis": ("of",),
    "reduce_axis": ("of",),
    "thread": ("tag", "name"),
    "var": ("name", "dtype"),
}
_BUILD: dict[str, Any] = {
    **{k.symbol: (lambda a, b, k=k: ops.compare(k, a, b)) for k in e.CmpOp.__subclasses__()},
    "+": ops.add,
    "-": ops.subtract,
    "*": ops.multiply,
    "/": ops.divide,
    "truncmod": ops.truncmod,
    "//": ops.floordiv,
    "%": ops.floormod,
    "min": ops.minimum,
    "max": ops.maximum,
    "and": ops.logical_and,
    "or": ops.logical_or,
    "not": ops.logical_not,
    "select": ops.select,
    "if_then_else": ops.if_then_else,
}


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
        return r["define"] in _DEFINITIONS and all(f in r for f in _DEFINITIONS[r["define"]])
    known = ON_STAGE if "stage" in r else ON_SCHEDULE
    return (
        r.get("primitive") in known
        and isinstance(r.get("args"), list)
        and isinstance(r.get("options", {}), dict)
    )


def replay(data: list[Record], schedule: Schedule, symbols: Mapping[str, e.Var]) -> Schedule:
    """Apply records to a schedule.

    Args:
        symbols: the variables to use where the records only name them.

    Raises:
        ScheduleError: if something has already been applied, or a record does not fit.
    """
    from whet.compiler.te.schedule import Schedule

    if not isinstance(schedule, Schedule):
        raise ScheduleError("replay a trace", f"a {type(schedule).__name__} is not a schedule")
    if len(schedule.trace):
        raise ScheduleError(
            "replay a trace",
            f"{len(schedule.trace)} steps were applied to this schedule before",
            "te.create_schedule(outputs) makes a new one",
        )
    check_data(data)
    player = _Player(schedule, symbols)
    for k, r in enumerate(data):
        try:
            player.play(r)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            what = r.get("primitive") or f"definition of {', '.join(r['names'])}"
            raise ScheduleError(
                f"replay record {k}, {what}",
                f"it does not fit this computation ({type(error).__name__}: {error})",
                "a trace replays on the computation that it was recorded on",
            ) from error
    return player.schedule


class _Player:
    def __init__(self, schedule: Schedule, symbols: Mapping[str, e.Var]) -> None:
        self.schedule = schedule
        self.symbols = symbols
        self.known: dict[str, Any] = {}

    def play(self, r: Record) -> None:
        """Run one record and keep what it gives by name."""
        names = r.get("names", [])
        out = self._define(r) if "define" in r else self._apply(r)
        results = list(out) if isinstance(out, (list, tuple)) else [out]
        if names and len(results) != len(names):
            what = r.get("define") or r["primitive"]
            raise ScheduleError(
                f"replay {what} of {r.get('of') or r.get('stage')}",
                f"it gives {len(results)} things, {len(names)} were recorded: {', '.join(names)}",
                "a trace replays on the computation that it was recorded on",
            )
        self.known.update(zip(names, results))

    def _define(self, r: Record) -> Any:
        kind = r["define"]
        if kind == "output":
            return self.schedule.outputs[r["number"]].output(0)
        if kind == "thread":
            dom = [self.value(x) for x in r["dom"]] if "dom" in r else None
            domain = (
                None if dom is None else e.Range.from_min_extent(*[ops.convert(x) for x in dom])
            )
            dtype = "int32" if domain is None else domain.extent.dtype
            return e.IterVar(domain, e.Var(r["name"], dtype), e.THREAD_INDEX, r["tag"])
        if kind == "var":
            given = self.symbols.get(r["names"][0])
            return given if given is not None else e.Var(r["name"], r["dtype"])
        of: Tensor = self.known[r["of"]]
        if kind == "input":
            return of.op.input_tensors[r["number"]]
        if kind == "tensor":
            return of.op.output(r["number"])
        if kind == "leaf":
            return self.schedule[of].leaf_iter_vars[r["number"]]
        if kind == "dimension":
            return of.shape[r["number"]]
        return list(getattr(self.schedule[of].op, kind))

    def _apply(self, r: Record) -> Any:
        args = [self.value(a) for a in r["args"]]
        options = {k: self.value(v) for k, v in r.get("options", {}).items()}
        on: Schedule | Placed = self.schedule
        if "stage" in r:
            on = self.schedule[self.known[r["stage"]]]
        out = getattr(on, r["primitive"])(*args, **options)
        if r["primitive"] == "normalize":
            self.schedule = out
        return out

    def value(self, v: Any) -> Any:
        """An argument from plain data."""
        if not isinstance(v, list):
            return v
        word, rest = v[0], v[1:]
        if word == "name":
            return self.known[rest[0]]
        if word == "var":
            return self.known[rest[0]].var
        if word == "stage":
            return self.schedule[self.known[rest[0]]]
        if word == "list":
            return [self.value(x) for x in rest]
        if word == "const":
            return ops.const(rest[0], rest[1])
        if word == "cast":
            return ops.cast(rest[0], self.value(rest[1]))
        return _BUILD[word](*[self.value(x) for x in rest])
