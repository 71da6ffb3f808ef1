"""The drawing of a schedule as SVG: boxes of stages, bars of loops, and what is inside what.

Every stage and loop is a group with data attributes, nested as it is computed: a stage that is
attached at a loop is inside the group of that loop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree import ElementTree

PAD, INDENT, ROW, GAP, HEAD = 12, 20, 26, 6, 46
_CHAR = 7.3  # the width of a character of the loops' font, a little more than it is
_SMALL = 6.8

_STYLE = """
.sheet { fill: #ffffff } .ink { fill: #1f2430 } .faint { fill: #66708a }
.box { fill: #f6f7fa; stroke: #b9c0d0 } .box.attached { fill: #eef3ff; stroke: #7d9be0 }
.box.input { fill: #fbf7ea; stroke: #d8c58c } .box.inlined { fill: none; stroke-dasharray: 5 4 }
.box.output { stroke: #2f9e62; stroke-width: 2 }
.bar { stroke: none } .serial { fill: #dfe3ec } .parallel { fill: #bcd7ff }
.vectorized { fill: #bdebcf } .unrolled { fill: #ffe2ad } .thread_binding { fill: #e0cfff }
.stripe { fill: #d9534f }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
text.name { font-weight: 700; font-size: 14px } text.small { font-size: 11px }
@media (prefers-color-scheme: dark) {
.sheet { fill: #171a21 } .ink { fill: #e8ebf2 } .faint { fill: #98a2ba }
.box { fill: #20242e; stroke: #4b556b } .box.attached { fill: #1e2a45; stroke: #5676c0 }
.box.input { fill: #2c2819; stroke: #7a6a35 } .serial { fill: #39404f }
.parallel { fill: #24497d } .vectorized { fill: #1f5a3a } .unrolled { fill: #6b4d15 }
.thread_binding { fill: #4b3479 }
}
"""


@dataclass
class Loop:
    """A loop as it is drawn.

    Attributes:
        axis: its name; ``extent`` as text; ``kind`` as in the loop IR; ``thread``: a tag or "".
        reduces: whether it is a loop of a reduction; ``notes``: pragmas and the like.
        inside: the stages attached to it.
    """

    axis: str
    extent: str
    kind: str
    thread: str
    reduces: bool
    notes: str = ""
    inside: list[Box] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What stands on its bar."""
        how = self.thread or ("" if self.kind == "serial" else self.kind)
        said = " · ".join(x for x in (how, "reduction" if self.reduces else "", self.notes) if x)
        return f"for {self.axis} in {self.extent}" + (f"   {said}" if said else "")


@dataclass
class Box:
    """A stage as it is drawn: its name, its facts, its loops and what it computes."""

    name: str
    kind: str  # "input", "inlined", "root" or "attached", with "output" where it is one
    facts: str
    formula: str
    loops: list[Loop] = field(default_factory=list)
    at: tuple[str, str] | None = None  # the stage and the loop that it is attached to

    @property
    def height(self) -> float:
        """In pixels."""
        rows = sum(ROW + sum(b.height + GAP for b in loop.inside) for loop in self.loops)
        return HEAD + rows + (ROW if self.formula else 0) + (PAD if rows or self.formula else 0)

    @property
    def width(self) -> float:
        """The least width that holds everything, in pixels."""
        head = max(len(self.name) * 9.0, len(self.facts) * _SMALL)
        found = [head + 2 * PAD, len(self.formula) * _SMALL + len(self.loops) * INDENT + 2 * PAD]
        for k, loop in enumerate(self.loops):
            found.append(len(loop.text) * _CHAR + k * INDENT + 3 * PAD)
            found += [b.width + (k + 1) * INDENT + 2 * PAD for b in loop.inside]
        return max(found)


def svg(boxes: list[Box], title: str) -> str:
    """The boxes below each other, as one SVG image."""
    width = max([b.width for b in boxes] + [420.0]) + 2 * PAD
    height = PAD + sum(b.height + PAD for b in boxes) + ROW
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "width": f"{width:.0f}",
            "height": f"{height:.0f}",
            "role": "img",
            "aria-label": clean(title),
        },
    )
    ElementTree.SubElement(root, "title").text = clean(title)
    ElementTree.SubElement(root, "style").text = _STYLE
    _rect(root, 0, 0, width, height, "sheet")
    y = float(PAD)
    for b in boxes:
        _stage(root, b, PAD, y, width - 2 * PAD)
        y += b.height + PAD
    _legend(root, PAD, y)
    return ElementTree.tostring(root, encoding="unicode")


def _stage(parent: ElementTree.Element, b: Box, x: float, y: float, width: float) -> None:
    data = {"class": "stage", "data-stage": b.name, "data-kind": b.kind.split()[0]}
    if b.at is not None:
        data["data-attached-to"], data["data-attached-at"] = b.at
    group = _group(parent, data)
    _rect(group, x, y, width, b.height, f"box {b.kind}", radius=8)
    _text(group, x + PAD, y + 20, b.name, "ink name")
    _text(group, x + PAD, y + 37, b.facts, "faint small")
    y += HEAD
    holder = group
    for k, loop in enumerate(b.loops):
        left = x + PAD + k * INDENT
        holder = _loop(holder, loop, left, y, x + width - PAD - left)
        y += ROW
        for inside in loop.inside:
            _stage(holder, inside, left + INDENT, y, x + width - PAD - left - INDENT)
            y += inside.height + GAP
    if b.formula:
        _text(holder, x + PAD + len(b.loops) * INDENT, y + 16, b.formula, "ink small")


def _loop(
    parent: ElementTree.Element, loop: Loop, x: float, y: float, width: float
) -> ElementTree.Element:
    group = _group(
        parent,
        {
            "class": "loop",
            "data-axis": loop.axis,
            "data-extent": loop.extent,
            "data-kind": loop.kind,
            "data-thread": loop.thread,
        },
    )
    _rect(group, x, y, width, ROW - 4, f"bar {loop.kind}", radius=4)
    if loop.reduces:
        _rect(group, x, y, 4, ROW - 4, "stripe")
    _text(group, x + 10, y + 15, loop.text, "ink")
    return group


def _legend(parent: ElementTree.Element, x: float, y: float) -> None:
    group = _group(parent, {"class": "legend"})
    for kind, name in (
        ("serial", "serial"), ("parallel", "parallel"), ("vectorized", "vectorized"),
        ("unrolled", "unrolled"), ("thread_binding", "thread"), ("stripe", "reduction"),
    ):  # fmt: skip
        _rect(group, x, y + 2, 12, 12, f"bar {kind}" if kind != "stripe" else kind)
        _text(group, x + 17, y + 12, name, "faint small")
        x += 17 + len(name) * _SMALL + 14


def _group(parent: ElementTree.Element, attributes: dict[str, str]) -> ElementTree.Element:
    escaped = {k: clean(v) for k, v in attributes.items()}
    return ElementTree.SubElement(parent, "g", escaped)


def _rect(
    parent: ElementTree.Element,
    x: float,
    y: float,
    width: float,
    height: float,
    kind: str,
    radius: float = 0,
) -> None:
    place = {"x": x, "y": y, "width": width, "height": height, "rx": radius}
    ElementTree.SubElement(
        parent, "rect", {**{k: f"{v:.1f}" for k, v in place.items()}, "class": kind}
    )


def _text(parent: ElementTree.Element, x: float, y: float, text: str, kind: str) -> None:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "class": kind}
    ElementTree.SubElement(parent, "text", {**place, "xml:space": "preserve"}).text = clean(text)


def clean(text: str) -> str:
    """The text without characters that no XML document may hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
