"""A model's groups as a drawing: SVG by our own hand, coloured by the kind of their loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.autotune.models.summary import GroupRow, shares
from whet.autotune.report.markup import Markup, tag
from whet.bench.layers import Point, layered
from whet.compiler.graph.ir import Graph, Value
from whet.compiler.graph.kinds import Kind

WIDE, HIGH = 236.0, 84.0
"""Units from box to box across and down."""
BOX_WIDTH, BOX_HEIGHT = 212.0, 58.0
MARGIN, HEAD = 24.0, 66.0
"""Units around the drawing, and above it for the title and the legend."""
LETTERS = 30
"""Characters of a line in a box."""
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #1b1f24; text-anchor: middle; }
.title { font-size: 14px; font-weight: 600; text-anchor: start; }
.key { text-anchor: start; } .name { font-weight: 600; } .quiet { fill: #57606a; }
.edge { stroke: #8c959f; fill: none; stroke-width: 1.2; }
.box { stroke: #57606a; stroke-width: 0.8; } .tuned { stroke: #1b1f24; stroke-width: 2; }
.share { fill: #d55e00; }
"""
COLOURS = {
    Kind.CONTRACTION: ("#b6d4f2", "contraction"),
    Kind.REDUCTION: ("#f9dcb0", "reduction"),
    Kind.INJECTIVE: ("#dfe3e8", "moves elements"),
    Kind.BROADCAST: ("#c9e7cf", "elementwise"),
    Kind.ELEMENTWISE: ("#c9e7cf", "elementwise"),
    Kind.OPAQUE: ("#eadcf2", "other"),
}
OUTSIDE = ("#ffffff", "input or output")


def graph_svg(graph: Graph, rows: Sequence[GroupRow], title: str) -> Markup:
    """The drawing of a model.

    Args:
        graph: of the groups.
        rows: its groups, in order.
        title: what stands above.
    """
    given, outputs = list(graph.inputs), list(graph.outputs)
    first = len(given)
    maker: dict[Value, int] = {v: k for k, v in enumerate(given)}
    maker.update({v: first + k for k, row in enumerate(rows) for v in row.outputs})
    edges = [
        (maker[v], first + k)
        for k, row in enumerate(rows)
        for v in dict.fromkeys(row.inputs)
        if v in maker
    ]
    last = first + len(rows)
    edges += [(maker[s], last + k) for k, v in enumerate(outputs) if (s := _made(graph, v, maker))]
    plan = layered(last + len(outputs), edges)

    def at(point: Point) -> Point:
        return MARGIN + point[0] * WIDE, HEAD + MARGIN + (point[1] + 0.5) * HIGH

    part = shares(rows)
    longest = max(part or [0.0]) or 1.0
    drawn = [_path([at(p) for p in path]) for path in plan.paths]
    for k, centre in enumerate(plan.centres):
        x, y = at(centre)
        if first <= k < last:
            share = None if part is None else part[k - first]
            drawn.append(_group(rows[k - first], share, longest, x, y))
        else:
            drawn.append(_outside(given[k] if k < first else outputs[k - last], x, y))
    width = max(plan.width * WIDE, 560.0) + 2 * MARGIN
    height = HEAD + plan.height * HIGH + 2 * MARGIN
    return tag(
        "svg",
        tag("style", Markup(STYLE)),
        tag("rect", width="100%", height="100%", fill="#ffffff"),
        tag("text", title, x=MARGIN, y=26, class_="title"),
        *_legend(rows, part is not None),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
    )


def _made(graph: Graph, v: Value, maker: dict[Value, int]) -> Value | None:
    """The group's value that an output is, reshaped or not; None: there is none."""
    while v not in maker and v in graph.producers:
        v = graph.producers[v].reads[0]
    return v if v in maker else None


def _legend(rows: Sequence[GroupRow], timed: bool) -> list[Markup]:
    """The legend of the colours."""
    used = dict.fromkeys([*(COLOURS[row.kind] for row in rows), OUTSIDE])
    drawn, x = [], MARGIN
    for colour, word in used:
        drawn.append(tag("rect", x=x, y=40, width=14, height=14, rx=3, fill=colour, class_="box"))
        drawn.append(tag("text", word, x=x + 20, y=51, class_="key"))
        x += 40 + 6.2 * len(word)
    words = ["bold frame: tuned"] if any(row.is_tuned for row in rows) else []
    words += ["bar: time beside the longest"] if timed else []
    drawn.append(tag("text", "; ".join(words), x=x, y=51, class_="key quiet"))
    return drawn


def _group(row: GroupRow, share: float | None, longest: float, x: float, y: float) -> Markup:
    """A group's box, with a bar for its part of the time beside the longest one's."""
    left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
    work = amount(row.flop, "FLOP") if row.flop else f"{amount(row.moved, 'B')} moved"
    time = "" if share is None else f"{amount(row.seconds or 0, 's')} ({share:.1%}), "
    lines = [
        (" + ".join(row.operators), "name"),
        (f"{shape_of(row.outputs[0])}, {work}", ""),
        (f"{time}{row.source}", "quiet"),
    ]
    whole = [*(said for said, _ in lines), *row.origins]
    bar = []
    if share is not None:
        place: dict[str, Any] = {"x": _n(left), "y": _n(top + BOX_HEIGHT - 4), "height": 4}
        bar = [tag("rect", width=_n(BOX_WIDTH * share / longest), class_="share", **place)]
    return tag(
        "g",
        tag("title", "\n".join(whole)),
        _box(left, top, COLOURS[row.kind][0], "box tuned" if row.is_tuned else "box", 6),
        *bar,
        *[
            tag("text", _short(said), x=_n(x), y=_n(top + 15 + 15 * k), class_=kind or None)
            for k, (said, kind) in enumerate(lines)
        ],
    )


def _outside(v: Value, x: float, y: float) -> Markup:
    """The box of an input or an output."""
    left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
    return tag(
        "g",
        _box(left, top, OUTSIDE[0], "box", BOX_HEIGHT / 2),
        tag("text", _short(v.name), x=_n(x), y=_n(y - 3), class_="name"),
        tag("text", _short(f"{v.dtype} {shape_of(v)}"), x=_n(x), y=_n(y + 13)),
    )


def _box(left: float, top: float, fill: str, class_: str, rx: float) -> Markup:
    return tag(
        "rect", x=_n(left), y=_n(top), width=BOX_WIDTH, height=BOX_HEIGHT, rx=rx, fill=fill,
        class_=class_,
    )  # fmt: skip


def _path(points: Sequence[Point]) -> Markup:
    """An edge: from the lower edge of a box to the upper one of another, upright in between."""
    (x, y), half = points[0], BOX_HEIGHT / 2
    said = f"M{_n(x)} {_n(y + half)}"
    y += half
    for k, (to, down) in enumerate(points[1:], 2):
        top = down - half
        bend = (y + top) / 2
        said += f"C{_n(x)} {_n(bend)} {_n(to)} {_n(bend)} {_n(to)} {_n(top)}"
        x, y = to, top
        if k < len(points):
            y = down + half
            said += f"V{_n(y)}"
    return tag("path", d=said, class_="edge")


def shape_of(v: Value) -> str:
    """A value's shape, for people."""
    return "×".join(map(str, v.shape)) or "scalar"


_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"))


def amount(number: float, unit: str) -> str:
    """A number of three digits, with a prefix to its unit."""
    scale, prefix = next((u for u in _UNITS if number >= u[0]), _UNITS[-1] if number else (1.0, ""))
    return f"{number / scale:.3g} {prefix}{unit}"


def _short(said: str) -> str:
    return said if len(said) <= LETTERS else f"{said[: LETTERS - 1]}…"


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
