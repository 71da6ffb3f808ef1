"""A trace's records as Python text that does the same to a new schedule ``s``."""

from __future__ import annotations

import json
from typing import Any

from whet.compiler.te.trace.records import Record

_OPERATORS = ("+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=")
_FUNCTIONS = {
    "min": "te.min",
    "max": "te.max",
    "and": "te.all",
    "or": "te.any",
    "truncmod": "te.truncmod",
    "select": "te.select",
    "if_then_else": "te.if_then_else",
}


def python_text(data: list[Record]) -> str:
    """The text, a line a record."""
    return "\n".join(_line(r) for r in data) if data else "# no steps"


def _line(r: Record) -> str:
    names = r.get("names", [])
    text = _definition(r) if "define" in r else _call(r)
    if not names:
        return text if r.get("primitive") != "normalize" else f"s = {text}"
    several = r.get("define") in ("axis", "reduce_axis") or _gives_a_list(r)
    comma = "," if len(names) == 1 and several else ""
    return f"{', '.join(names)}{comma} = {text}"


def _gives_a_list(r: Record) -> bool:
    """cache_write of a list of tensors gives a list, of one tensor, too."""
    args = r.get("args", [])
    return r.get("primitive") == "cache_write" and args[0][0] == "list"


def _definition(r: Record) -> str:
    kind = r["define"]
    if kind == "output":
        return f"s.outputs[{r['number']}].output(0)"
    if kind == "input":
        return f"{r['of']}.op.input_tensors[{r['number']}]"
    if kind == "tensor":
        return f"{r['of']}.op.output({r['number']})"
    if kind == "leaf":
        return f"s[{r['of']}].leaf_iter_vars[{r['number']}]"
    if kind == "dimension":
        return f"{r['of']}.shape[{r['number']}]"
    if kind == "var":
        return f"te.var({_text(r['name'])}, {_text(r['dtype'])})"
    if kind == "thread":
        dom = f"({_text(r['dom'][0])}, {_text(r['dom'][1])}), " if "dom" in r else ""
        name = "" if r["name"] == r["tag"] else f", name={_text(r['name'])}"
        return f"te.thread_axis({dom}{_text(r['tag'])}{name})"
    return f"s[{r['of']}].op.{kind}"


def _call(r: Record) -> str:
    head = f"s[{r['stage']}]" if "stage" in r else "s"
    args = [_text(a) for a in r["args"]]
    args += [f"{k}={_text(v)}" for k, v in r.get("options", {}).items()]
    return f"{head}.{r['primitive']}({', '.join(args)})"


def _text(v: Any) -> str:
    if isinstance(v, str):
        return json.dumps(v)
    if not isinstance(v, list):
        return repr(v)
    word, *rest = v
    if word == "name":
        return str(rest[0])
    if word == "var":
        return f"{rest[0]}.var"
    if word == "stage":
        return f"s[{rest[0]}]"
    if word == "list":
        return "[" + ", ".join(_text(x) for x in rest) + "]"
    if word == "const":
        return f"te.const({rest[0]!r}, {_text(rest[1])})"
    if word == "cast":
        return f"te.cast({_text(rest[0])}, {_text(rest[1])})"
    if word == "not":
        return f"~({_text(rest[0])})"
    if word in _OPERATORS:
        a, b = (f"({_text(x)})" if isinstance(x, list) and len(x) > 2 else _text(x) for x in rest)
        return f"{a} {word} {b}"
    return f"{_FUNCTIONS[word]}({', '.join(_text(x) for x in rest)})"
