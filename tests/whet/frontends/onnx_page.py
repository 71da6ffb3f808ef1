"""The page of ONNX's operators: what the importer's tables say, and the node tests that fit."""

from collections import Counter
from pathlib import Path

from onnx_cases import cases, refusals

PAGE = Path(__file__).parents[3] / "docs" / "onnx_operators.md"

HEAD = """# ONNX operators

Written by `scripts/onnx_operators` from the tables of the importer and the node tests of `onnx`
{version} (opset {opset}). Of these {all}, {fits} fit compiled models: numbers, shapes that are
known, an opset of at most 26. {imported} of them are imported.

What depends on known values only is computed at import, by the reference implementation of
`onnx`: shapes above all, and operators that are refused otherwise. *Versions*: those that changed
the operator. *Node tests*: imported, of those that fit, whose last node it is; most are of the
newest version.

| operator | versions | becomes | node tests |
| --- | --- | --- | --- |
{rows}

## Refused

A model with one of these is refused with an error that names the node, unless all it reads is
known, and it is not random.

| operator | why |
| --- | --- |
{refused}

Training modes (`BatchNormalization`, `Dropout`), element types below eight bits, 8-bit floats,
complex numbers and strings are refused, too, as are `Loop`s whose number of turns depends on data,
and models whose inputs or outputs are sequences of tensors.

Of NaN, `Relu`, `Clip`, `Max` and `Min` make NaN, as ONNX and numpy do; `ReduceMax`, `ReduceMin`,
`MaxPool`, `ArgMax` and `ArgMin` pass over it or not, by its place. Sorts (`TopK`) take it for the
largest of all numbers.
"""


def becomes(name, schema):
    """An operator's fate in words; None for one that is refused."""
    from whet.frontends.onnx.control import CONTROL, SEQUENCES
    from whet.frontends.onnx.operators import TABLE
    from whet.frontends.onnx.operators.refused import KNOWN, REFUSED

    if name in TABLE:
        return "nodes of a graph"
    if name in CONTROL:
        return "its body, unrolled" if name != "If" else "a branch, or a selection from both"
    if name in SEQUENCES:
        return "nothing: sequences are known at import"
    if name in ("Shape", "Size") or name in KNOWN:
        return "a constant"
    if name in REFUSED:
        return None
    if schema.has_function or schema.has_context_dependent_function:
        return "the nodes of its definition"
    raise AssertionError(f"{name} is neither imported nor refused with a reason")


def schemas():
    """Name -> the last schema and the versions of each operator of ai.onnx."""
    from onnx import defs

    last, versions = {}, {}
    for s in defs.get_all_schemas():
        if not s.domain:
            last[s.name] = s
    for s in defs.get_all_schemas_with_history():
        if not s.domain:
            versions.setdefault(s.name, set()).add(s.since_version)
    return last, versions


def page():
    """The text."""
    import onnx

    last, versions = schemas()
    fits, kinds = cases()
    refused = refusals()
    tried, good = Counter(), Counter()
    for name, case in fits.items():
        operator = case.model.graph.node[-1].op_type
        tried[operator] += 1
        good[operator] += name not in refused
    from whet.frontends.onnx.operators.refused import REFUSED

    rows, without = [], []
    for name, schema in sorted(last.items()):
        how = becomes(name, schema)
        if how is None:
            without.append(f"| {name} | {REFUSED[name]} |")
            continue
        count = f"{good[name]} of {tried[name]}" if tried[name] else ""
        since = ", ".join(map(str, sorted(versions[name])))
        rows.append(f"| {name} | {since} | {how} | {count} |")
    return HEAD.format(
        version=onnx.__version__,
        opset=onnx.defs.onnx_opset_version(),
        all=f"{sum(kinds.values()):,}",
        fits=f"{len(fits):,}",
        imported=f"{len(fits) - len(refused):,}",
        rows="\n".join(rows),
        refused="\n".join(without),
    )
