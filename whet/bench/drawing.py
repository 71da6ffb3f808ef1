"""A chart as a file: SVG by our own hand, PNG by matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whet.autotune.report.markup import Markup, tag
from whet.autotune.report.plot import Plot
from whet.autotune.report.scales import Logarithmic
from whet.bench.roofline import Chart, Point
from whet.compiler.errors import ArgumentError
from whet.compiler.installed import install_extra

WIDTH, HEIGHT = 860, 480
TOP = 30.0
"""Units above the plot, for a title of one line."""
APART = 14.0
"""Units between the words of two marks, and between the lines of a title."""
TITLE = 100
"""Characters of a line of the title."""
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #57606a; }
.label, .ours { fill: #1b1f24; } .label { text-anchor: middle; } .ours { font-weight: 600; }
.x { text-anchor: middle; } .y { text-anchor: end; }
.axis { stroke: #57606a; fill: none; } .grid { stroke: #d0d7de; fill: none; stroke-width: 0.6; }
.roof { stroke: #999999; fill: none; stroke-width: 1.2; stroke-dasharray: 5 4; }
.roof.exact { stroke: #1b1f24; stroke-width: 2; stroke-dasharray: none; }
.note { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
.marker { fill: #0072b2; } .marker.best { fill: #d55e00; }
"""
KINDS = (".svg", ".png")
UNITS = 100
"""Units of the drawing in an inch of a PNG."""
POINT = 72 / UNITS
"""Points that one unit is there."""


def check_file(path: str) -> None:
    """Refuse a file that could not be drawn, before anything is measured.

    Raises:
        ArgumentError: its name ends neither in .svg nor in .png; PNG is asked for without
            matplotlib; or its folder is not there.
    """
    kind = Path(path).suffix.lower()
    request = f"a drawing in {path!r}"
    if not path or Path(path).is_dir():
        why = "it is a folder" if path else "that is no name of a file"
        raise ArgumentError(request, why, "name a file that ends in .svg or .png: roofline.svg")
    if kind not in KINDS:
        why = f"{kind} is not a format that is drawn" if kind else "its name has no ending"
        raise ArgumentError(request, why, "name it .svg or .png")
    if not Path(path).resolve().parent.is_dir():
        raise ArgumentError(request, "there is no such folder", "make it first")
    if kind == ".png" and find_spec("matplotlib") is None:
        raise ArgumentError(
            request,
            "PNG is drawn by matplotlib, which is not installed",
            f"{install_extra('bench')}, or name the file .svg, which needs nothing",
        )


def draw(chart: Chart, path: str) -> None:
    """Draw a chart into a file: SVG or PNG, by the file's ending.

    Raises:
        ArgumentError: as :func:`check_file`.
    """
    check_file(path)
    if Path(path).suffix.lower() == ".svg":
        Path(path).write_text(svg(chart) + "\n")
    else:
        figure(chart).savefig(path, dpi=150)


def svg(chart: Chart) -> Markup:
    """A chart as an SVG document that stands by itself."""
    plot = Plot(
        Logarithmic(*chart.x_range), Logarithmic(*chart.y_range), chart.x_label, chart.y_label,
        chart.title, WIDTH, HEIGHT,
    )  # fmt: skip
    title = title_lines(chart)
    plot.top = TOP + APART * (len(title) - 1)
    for line in chart.lines:
        plot.line(line.points, "roof exact" if line.exact else "roof")
    begins = [plot.down(line.points[0][1]) for line in chart.lines]
    for line, lower in zip(chart.lines, lowered(begins, -8)):
        plot.note(line.points[0], line.name, 4, lower)
    places = [plot.down(mark.at[1]) for mark in chart.marks]
    for mark, lower in zip(chart.marks, lowered(places)):
        plot.tooltip(mark.at, mark.name, "marker best" if mark.ours else "marker")
        plot.note(mark.at, mark.name, 9, lower, "note ours" if mark.ours else "note")
    return plot.markup(
        tag("style", Markup(STYLE)),
        tag("rect", width="100%", height="100%", fill="#ffffff"),
        *[
            tag("text", said, x=WIDTH / 2, y=18 + APART * k, class_="label")
            for k, said in enumerate(title)
        ],
        xmlns="http://www.w3.org/2000/svg",
        width=plot.width,
        height=plot.height,
    )


def title_lines(chart: Chart) -> list[str]:
    """A chart's title, in as many lines as it takes."""
    return textwrap.wrap(chart.title, TITLE) or [""]


def lowered(places: Sequence[float], shift: float = 0.0) -> list[float]:
    """How much lower the words at each place stand, so that no two run into each other.

    Args:
        places: units from the top of the drawing.
        shift: how much lower they stand where nothing is in the way.
    """
    found, last = [0.0] * len(places), float("-inf")
    for k in sorted(range(len(places)), key=lambda k: places[k]):
        last = max(places[k] + shift, last + APART)
        found[k] = last - places[k]
    return found


def figure(chart: Chart) -> Any:
    """A chart as a figure of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = Figure(figsize=(WIDTH / UNITS, HEIGHT / UNITS))
    FigureCanvasAgg(found)
    axes = found.add_subplot()
    for line in chart.lines:
        xs, ys = zip(*line.points)
        axes.plot(xs, ys, color="black" if line.exact else "0.6", ls="-" if line.exact else "--")
    for mark in chart.marks:
        axes.plot(*mark.at, "o", color="#d55e00" if mark.ours else "#0072b2", markersize=5)
    for axis, label, ends in (
        ("x", chart.x_label, chart.x_range),
        ("y", chart.y_label, chart.y_range),
    ):
        scale = Logarithmic(*ends)
        places, words = zip(*scale.ticks())
        ticks = [scale.low * (scale.high / scale.low) ** place for place in places]
        axes.set(**{f"{axis}scale": "log", f"{axis}lim": (scale.low, scale.high)})
        axes.set(**{f"{axis}label": label, f"{axis}ticks": ticks, f"{axis}ticklabels": words})
    axes.minorticks_off()
    axes.tick_params(labelsize=8)
    axes.set_title("\n".join(title_lines(chart)), fontsize=9)
    found.tight_layout()  # where words stand is known once the axes have their final place
    _note(axes, [(line.points[0], line.name, 4.0, "normal") for line in chart.lines], -8)
    weights = ["bold" if mark.ours else "normal" for mark in chart.marks]
    _note(axes, [(m.at, m.name, 9.0, weight) for m, weight in zip(chart.marks, weights)])
    return found


def _note(axes: Any, words: Sequence[tuple[Point, str, float, str]], shift: float = 0.0) -> None:
    """Write words (where, what, how far aside, how bold) into a drawing of matplotlib."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    scale = UNITS / axes.figure.dpi
    places = [-axes.transData.transform(at)[1] * scale for at, *_ in words]
    for (at, said, aside, weight), lower in zip(words, lowered(places, shift)):
        offset = (aside * POINT, -lower * POINT)
        axes.annotate(
            said, at, offset, textcoords="offset points", va="center", fontsize=8, weight=weight,
            path_effects=halo,
        )  # fmt: skip
