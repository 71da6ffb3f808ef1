"""A chart as a file: SVG by our own hand, PNG by matplotlib."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from whet.autotune.report.markup import Markup, tag
from whet.autotune.report.plot import Plot
from whet.autotune.report.scales import Logarithmic
from whet.bench.roofline import Chart, Point
from whet.compiler.errors import ArgumentError

WIDTH, HEIGHT = 860, 480
TOP = 30.0
"""Units above the plot, for its title."""
APART = 14.0
"""Units between the words of two marks."""
STYLE = """
text { font: 11px system-ui, sans-serif; fill: #57606a; }
.label, .ours { fill: #1b1f24; } .label { text-anchor: middle; } .ours { font-weight: 600; }
.x { text-anchor: middle; } .y { text-anchor: end; }
.axis { stroke: #57606a; fill: none; } .grid { stroke: #d0d7de; fill: none; stroke-width: 0.6; }
.roof { stroke: #999999; fill: none; stroke-width: 1.2; stroke-dasharray: 5 4; }
.roof.exact { stroke: #1b1f24; stroke-width: 2; stroke-dasharray: none; }
.told { fill: #0072b2; } .told.best { fill: #d55e00; }
"""
KINDS = (".svg", ".png")


def check_file(path: str) -> None:
    """Refuse a file that could not be drawn, before anything is measured.

    Raises:
        ArgumentError: its name ends neither in .svg nor in .png; PNG is asked for without
            matplotlib; or its folder is not there.
    """
    kind = Path(path).suffix.lower()
    asked = f"a drawing in {path}"
    if kind not in KINDS:
        raise ArgumentError(asked, f"{kind or 'no ending'} is not drawn", "name it .svg or .png")
    if not Path(path).resolve().parent.is_dir():
        raise ArgumentError(asked, "there is no such folder", "make it first")
    if kind == ".png" and find_spec("matplotlib") is None:
        raise ArgumentError(
            asked,
            "PNG is drawn by matplotlib, which is not installed",
            "pip install matplotlib, or name the file .svg, which needs nothing",
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
        _png(chart, path)


def svg(chart: Chart) -> Markup:
    """A chart as an SVG document that stands by itself."""
    plot = Plot(
        Logarithmic(*chart.x_range), Logarithmic(*chart.y_range), chart.x_label, chart.y_label,
        chart.title, WIDTH, HEIGHT,
    )  # fmt: skip
    plot.top = TOP
    for line in chart.lines:
        plot.line(line.points, "roof exact" if line.exact else "roof")
    begins = [line.points[0] for line in chart.lines]
    for line, lower in zip(chart.lines, _lowered(plot, begins, -8)):
        plot.note(line.points[0], line.name, 4, lower)
    for mark, lower in zip(chart.marks, _lowered(plot, [mark.at for mark in chart.marks])):
        plot.told(mark.at, mark.name, "told best" if mark.ours else "told")
        plot.note(mark.at, mark.name, 9, lower, "note ours" if mark.ours else "note")
    return plot.markup(
        tag("style", Markup(STYLE)),
        tag("rect", width="100%", height="100%", fill="#ffffff"),
        tag("text", chart.title, x=WIDTH / 2, y=18, class_="label"),
        xmlns="http://www.w3.org/2000/svg",
        width=plot.width,
        height=plot.height,
    )


def _lowered(plot: Plot, points: list[Point], shift: float = 0.0) -> list[float]:
    """How much lower the words at each point stand, so that no two run into each other."""
    found, last = [0.0] * len(points), float("-inf")
    for k in sorted(range(len(points)), key=lambda k: plot.down(points[k][1])):
        at = plot.down(points[k][1])
        last = max(at + shift, last + APART)
        found[k] = last - at
    return found


def _png(chart: Chart, path: str) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100))
    for line in chart.lines:
        xs, ys = zip(*line.points)
        axes.plot(xs, ys, color="black" if line.exact else "0.6", ls="-" if line.exact else "--")
        axes.annotate(line.name, line.points[0], (4, 5), textcoords="offset points", fontsize=8)
    for mark in chart.marks:
        colour = "#d55e00" if mark.ours else "#0072b2"
        axes.plot(*mark.at, "o", color=colour, label=mark.name)
    axes.set(
        xscale="log", yscale="log", xlabel=chart.x_label, ylabel=chart.y_label, title=chart.title
    )
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
