"""The names that a trace defines before a step uses them, and the words of its expressions.

A row says how a name is written as Python, and how it is found in another schedule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ScheduleError
from whet.compiler.tir.expr import THREAD_INDEX, CmpOp, IterVar, Range, Var
from whet.compiler.tir.layouts.index_map import IndexMap
from whet.compiler.tir.ops import ops

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule

Record = dict[str, Any]
Build = Callable[..., Any]

OPERATORS: dict[str, Build] = {
    **{k.symbol: (lambda a, b, k=k: ops.compare(k, a, b)) for k in CmpOp.__subclasses__()},
    "+": ops.add,
    "-": ops.subtract,
    "*": ops.multiply,
    "/": ops.divide,
    "//": ops.floordiv,
    "%": ops.floormod,
}
"""Words that stand between their operands."""

FUNCTIONS: dict[str, tuple[str, Build]] = {
    "truncmod": ("te.truncmod", ops.truncmod),
    "min": ("te.min", ops.minimum),
    "max": ("te.max", ops.maximum),
    "and": ("te.all", ops.logical_and),
    "or": ("te.any", ops.logical_or),
    "not": ("~", ops.logical_not),
    "select": ("te.select", ops.select),
    "if_then_else": ("te.if_then_else", ops.if_then_else),
    "cast": ("te.cast", ops.cast),
    "const": ("te.const", ops.const),
}
"""Other words: the function's name in Python, and the function."""

BUILD: dict[str, Build] = OPERATORS | {word: build for word, (_, build) in FUNCTIONS.items()}
"""Word -> the function that makes the expression."""


def text(v: Any) -> str:
    """A value of a record as Python."""
    if isinstance(v, str):
        return json.dumps(v)
    if not isinstance(v, list):
        return repr(v)
    word, *rest = v
    if word == "separator":
        return "te.AXIS_SEPARATOR"
    if word == "lambda":
        return f"lambda {', '.join(rest[0])}: [{', '.join(map(text, rest[1]))}]"
    if word in _REFERENCES:
        return _REFERENCES[word].format(rest[0])
    parts = ", ".join(text(x) for x in rest)
    if word == "list":
        return f"[{parts}]"
    if word in OPERATORS:
        a, b = (f"({text(x)})" if isinstance(x, list) and len(x) > 2 else text(x) for x in rest)
        return f"{a} {word} {b}"
    return f"{FUNCTIONS[word][0]}({parts})"


_REFERENCES = {"name": "{}", "param": "{}", "var": "{}.var", "stage": "s[{}]"}


@dataclass
class Known:
    """The state of a replay.

    Attributes:
        schedule: the schedule that the trace is applied to.
        symbols: the variables and tensor intrinsics to use where the records only name them.
        names: tensors, axes and variables by their names in the trace.
        params: those of the index map that is being read.
    """

    schedule: Schedule
    symbols: Mapping[str, Any]
    names: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Var] = field(default_factory=dict)

    def value(self, v: Any) -> Any:
        """An argument from plain data."""
        if not isinstance(v, list):
            return v
        word, rest = v[0], v[1:]
        if word == "lambda":
            return self.function(*rest)
        if word == "separator":
            return IndexMap.AXIS_SEPARATOR
        if word == "param":
            return self.params[rest[0]]
        if word == "name":
            return self.names[rest[0]]
        if word == "var":
            return self.names[rest[0]].var
        if word == "stage":
            return self.schedule[self.names[rest[0]]]
        parts = [self.value(x) for x in rest]
        return parts if word == "list" else BUILD[word](*parts)

    def function(self, names: list[str], places: list[Any]) -> IndexMap:
        """An index map from the names of its parameters and what it gives."""
        self.params = {name: Var(name, "int32") for name in names}
        given = [self.value(x) for x in places]
        out = IndexMap(list(self.params.values()), [x for x in given if not isinstance(x, str)])
        places_of = [k for k, x in enumerate(given) if isinstance(x, str)]
        out.axis_separators = tuple(k - n for n, k in enumerate(places_of))
        return out


@dataclass(frozen=True)
class Definition:
    """One way to define names.

    Attributes:
        fields: the parts of such a record, beside ``"names"``.
        written: from a record to Python; a text stands for its own ``format_map``.
        find: the thing that a record defines, or a list of them. It is given what the replay
            knows, the record, and the tensor that ``"of"`` names.
    """

    fields: tuple[str, ...]
    written: str | Callable[[Record], str]
    find: Callable[[Known, Record, Any], Any]

    def text(self, r: Record) -> str:
        """A record as Python."""
        return self.written.format_map(r) if isinstance(self.written, str) else self.written(r)


def _thread_text(r: Record) -> str:
    dom = f"({text(r['dom'][0])}, {text(r['dom'][1])}), " if "dom" in r else ""
    name = "" if r["name"] == r["tag"] else f", name={text(r['name'])}"
    return f"te.thread_axis({dom}{text(r['tag'])}{name})"


def _thread(k: Known, r: Record, of: None) -> IterVar:
    domain, dtype = None, "int32"
    if "dom" in r:
        domain = Range.from_min_extent(*[ops.convert(k.value(x)) for x in r["dom"]])
        dtype = domain.extent.dtype
    return IterVar(domain, Var(r["name"], dtype), THREAD_INDEX, r["tag"])


def _var_text(r: Record) -> str:
    return f"te.var({text(r['name'])}, {text(r['dtype'])})"


def _var(k: Known, r: Record, of: None) -> Var:
    given = k.symbols.get(r["names"][0])
    return given if given is not None else Var(r["name"], r["dtype"])


def _intrin(k: Known, r: Record, of: None) -> Any:
    given = k.symbols.get(r["names"][0])
    if given is None:
        raise ScheduleError(
            "replay a trace",
            f"it names the tensor intrinsic {r['name']}, which data cannot hold",
            "call tensorize after replaying the other steps, or replay the schedule's own trace",
        )
    return given


_OF = ("of", "number")

DEFINITIONS: dict[str, Definition] = {
    "output": Definition(
        ("number",),
        "s.outputs[{number}].output(0)",
        lambda k, r, of: k.schedule.outputs[r["number"]].output(0),
    ),
    "input": Definition(
        _OF,
        "{of}.op.input_tensors[{number}]",
        lambda k, r, of: of.op.input_tensors[r["number"]],
    ),
    "tensor": Definition(
        _OF, "{of}.op.output({number})", lambda k, r, of: of.op.output(r["number"])
    ),
    "leaf": Definition(
        _OF,
        "s[{of}].leaf_iter_vars[{number}]",
        lambda k, r, of: k.schedule[of].leaf_iter_vars[r["number"]],
    ),
    "dimension": Definition(_OF, "{of}.shape[{number}]", lambda k, r, of: of.shape[r["number"]]),
    "axis": Definition(("of",), "s[{of}].op.axis", lambda k, r, of: list(k.schedule[of].op.axis)),
    "reduce_axis": Definition(
        ("of",), "s[{of}].op.reduce_axis", lambda k, r, of: list(k.schedule[of].op.reduce_axis)
    ),
    "thread": Definition(("tag", "name"), _thread_text, _thread),
    "var": Definition(("name", "dtype"), _var_text, _var),
    "intrin": Definition(("name",), lambda r: f"intrinsics[{text(r['name'])}]", _intrin),
}
"""All kinds of definitions, by the word in a record's ``"define"``."""
