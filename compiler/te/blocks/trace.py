"""The trace of a ``tir.Schedule``: its primitives in order, as data and as Python."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, ScheduleError
from whet.compiler.te.blocks.handles import BlockRV, ExprRV, LoopRV
from whet.compiler.tir.layouts.index_map import IndexMap

if TYPE_CHECKING:
    from whet.compiler.te.blocks.schedule import Schedule

_LETTERS = {BlockRV: "b", LoopRV: "l", ExprRV: "v"}
_HANDLES = tuple(_LETTERS)


@dataclass(frozen=True, eq=False)
class Instruction:
    """One primitive: its name, its arguments by name, what it gave.

    Attributes:
        decision: what was drawn, of the primitives that draw.
    """

    kind: str
    arguments: dict[str, Any]
    outputs: tuple[Any, ...]
    many: bool = False
    decision: Any = None

    def again(self) -> dict[str, Any]:
        """The arguments that give the same again."""
        if self.decision is None:
            return self.arguments
        return {**self.arguments, "decision": self.decision}


@dataclass(eq=False)
class Trace:
    """The primitives that were applied to a ``tir.Schedule``; ``print(trace)`` shows them."""

    insts: list[Instruction] = field(default_factory=list)

    def append(self, step: Instruction) -> None:
        """Add a primitive."""
        self.insts.append(step)

    def __len__(self) -> int:
        return len(self.insts)

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """The numbers drawn, by the primitives that draw."""
        return {s: s.decision for s in self.insts if s.decision is not None}

    def as_python(self) -> list[str]:
        """A line of Python for each primitive, on a schedule ``sch``."""
        names = _Names()
        lines = []
        for s in self.insts:
            given = [f"{k}={names.text(v)}" for k, v in s.again().items()]
            if s.kind in ("fuse", "reorder"):
                loops = [names.text(x) for x in s.arguments["loops"]]
                given = [*loops, *(t for t in given if not t.startswith("loops="))]
            out = ", ".join(names.new(x) for x in s.outputs)
            comma = "," if s.many and len(s.outputs) == 1 else ""
            lines.append(f"{out}{comma} = " * bool(out) + f"sch.{s.kind}({', '.join(given)})")
        return lines

    def as_json(self) -> list[list[Any]]:
        """The primitives as plain lists: name, arguments, names of what they gave.

        Raises:
            ScheduleError: for an argument that no data holds, such as a tensor intrinsic.
        """
        names = _Names()
        out: list[list[Any]] = []
        for s in self.insts:
            given = {k: names.data(v, s.kind) for k, v in s.again().items()}
            out.append([s.kind, given, [names.new(x) for x in s.outputs]])
        return out

    @staticmethod
    def apply_json_to_schedule(json_obj: Sequence[Any], sch: Schedule) -> None:
        """Apply the primitives of :meth:`as_json` to a schedule of the same computation."""
        known: dict[str, Any] = {}

        def value(x: Any) -> Any:
            if isinstance(x, list) and len(x) == 2 and x[0] == "rv":
                return known[x[1]]
            return [value(y) for y in x] if isinstance(x, list) else x

        for kind, given, names in json_obj:
            out = _apply(sch, kind, {k: value(v) for k, v in given.items()})
            known.update(zip(names, out))

    def apply_to_schedule(self, sch: Schedule, remove_postproc: bool = False) -> None:
        """Apply the primitives to a schedule of the same computation, with the same draws."""
        known: dict[int, Any] = {}

        def value(x: Any) -> Any:
            if isinstance(x, (list, tuple)):
                return [value(y) for y in x]
            return known.get(id(x), x) if isinstance(x, _HANDLES) else x

        for s in self.insts:
            out = _apply(sch, s.kind, {k: value(v) for k, v in s.again().items()})
            known.update(zip(map(id, s.outputs), out))

    def __str__(self) -> str:
        lines = self.as_python() or ["pass"]
        head = ["# from whet import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        return "\n".join([*head, *(f"  {line}" for line in lines)])


def _apply(sch: Schedule, kind: str, given: dict[str, Any]) -> list[Any]:
    """Apply one primitive; what it gave as a list."""
    loops = given.pop("loops", ()) if kind in ("fuse", "reorder") else ()
    out = getattr(sch, kind)(*loops, **given)
    return list(out) if isinstance(out, list) else [out]


def _map_text(given: Any) -> str:
    """A map of indices as Python; a function of ``*indices`` only by its name."""
    if not isinstance(given, IndexMap):
        try:
            given = IndexMap.from_func_with_separators(given)[0]
        except ArgumentError:
            return str(given.__name__)
    return repr(given).removeprefix("IndexMap(").removesuffix(")")


class _Names:
    """The names of blocks, loops and numbers in the order in which they came."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}

    def new(self, x: Any) -> str:
        """A new name."""
        name = self.known[id(x)] = f"{_LETTERS[type(x)]}{len(self.known)}"
        return name

    def text(self, x: Any) -> str:
        """An argument as Python."""
        if isinstance(x, (list, tuple)):
            return f"[{', '.join(map(self.text, x))}]"
        if isinstance(x, _HANDLES):
            return self.known.get(id(x)) or str(x)
        if isinstance(x, IndexMap) or inspect.isfunction(x):
            return _map_text(x)
        return json.dumps(x) if isinstance(x, str) else getattr(x, "name", None) or repr(x)

    def data(self, x: Any, kind: str) -> Any:
        """An argument as plain data."""
        if isinstance(x, (list, tuple)):
            return [self.data(y, kind) for y in x]
        if isinstance(x, _HANDLES) and id(x) in self.known:
            return ["rv", self.known[id(x)]]
        if isinstance(x, ExprRV):
            return int(x)
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        raise ScheduleError(
            f"the trace of {kind}", f"a {type(x).__name__} is no data", "leave it to the program"
        )
