"""A trace's records as Python text that does the same to a new schedule ``s``."""

from __future__ import annotations

from whet.compiler.te.schedule_trace.definitions import DEFINITIONS, Record, text


def python_text(data: list[Record]) -> str:
    """The text, a line a record."""
    return "\n".join(_line(r) for r in data) if data else "# no steps"


def _line(r: Record) -> str:
    names = r.get("names", [])
    right = DEFINITIONS[r["define"]].text(r) if "define" in r else _call(r)
    if not names:
        return right if r.get("primitive") != "normalize" else f"s = {right}"
    several = r.get("define") in ("axis", "reduce_axis") or _gives_a_list(r)
    comma = "," if len(names) == 1 and several else ""
    return f"{', '.join(names)}{comma} = {right}"


def _gives_a_list(r: Record) -> bool:
    """The loops of a layout are a list; cache_write of one tensor in a list gives one, too."""
    args = r.get("args", [])
    if r.get("primitive") == "transform_layout":
        return True
    return r.get("primitive") == "cache_write" and args[0][0] == "list"


def _call(r: Record) -> str:
    head = f"s[{r['stage']}]" if "stage" in r else "s"
    args = [text(a) for a in r["args"]]
    args += [f"{k}={text(v)}" for k, v in r.get("options", {}).items()]
    return f"{head}.{r['primitive']}({', '.join(args)})"
