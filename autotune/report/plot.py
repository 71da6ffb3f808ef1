"""A plot as inline SVG: a frame with two axes, and dots, lines, crosses and bars in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from whet.autotune.report.markup import Markup, tag
from whet.autotune.report.scales import Categories, Scale

CHARACTER = 6.2
"""Width of a character of a tick's words, in the drawing's units (the style sheet's 11 px)."""
LONGEST = 26
"""Characters of a category's name that are shown; the rest is in its tooltip."""
SHAPES = {"dot": (0, "h0"), "cross": (3, "l6 6m0-6l-6 6")}
"""By class: how far left of and above a point its mark begins, and the mark's path."""


@dataclass
class Plot:
    """A drawing that grows mark by mark; coordinates are the axes' own values.

    Args:
        x, y: the axes; ``y`` grows upwards.
        x_label, y_label: what the axes are.
        title: what the plot shows, for those who cannot see it.
        width, height: in the drawing's units; a page scales it to the room that there is.
    """

    x: Scale
    y: Scale
    x_label: str
    y_label: str
    title: str
    width: int = 720
    height: int = 300
    _marks: list[Markup] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._y_ticks, self._x_ticks = self.y.ticks(), self.x.ticks()
        longest = max((len(shortened(said)) for _, said in self._y_ticks), default=0)
        self.left = 30 + CHARACTER * longest
        self.right, self.top = 14.0, 10.0
        widest = max((len(shortened(said)) for _, said in self._x_ticks), default=0)
        # True where the words under the axis would run into each other.
        slot = (self.width - self.left - self.right) / max(len(self._x_ticks), 1)
        self.slanted = isinstance(self.x, Categories) and CHARACTER * widest + 4 > slot
        if not isinstance(self.x, Categories):
            self._x_ticks = self._apart(self._x_ticks)
        self.bottom = 40 + (CHARACTER * 0.72 * widest if self.slanted else 0.0)
        self.height += round(self.bottom) - 40

    def across(self, value: float) -> float:
        """The horizontal coordinate of a value of ``x``."""
        return self.left + self.x.place(value) * (self.width - self.left - self.right)

    def down(self, value: float) -> float:
        """The vertical coordinate of a value of ``y``."""
        return self.height - self.bottom - self.y.place(value) * self._inner_height

    @property
    def _inner_height(self) -> float:
        return self.height - self.bottom - self.top

    def dots(self, points: Iterable[tuple[float, float]], class_: str = "dot") -> None:
        """Many points as one path, of a shape of :data:`SHAPES`; equal pixels are drawn once."""
        back, shape = SHAPES[class_]
        pixels = dict.fromkeys((round(self.across(a)), round(self.down(b))) for a, b in points)
        if pixels:
            path = "".join(f"M{a - back} {b - back}{shape}" for a, b in pixels)
            self._path(path, class_)

    def tooltip(self, point: tuple[float, float], words: str, class_: str = "marker") -> None:
        """A point with a tooltip."""
        x, y = self._place(point)
        self._marks.append(tag("circle", tag("title", words), r=3.5, class_=class_, cx=x, cy=y))

    def line(self, points: Sequence[tuple[float, float]], class_: str = "line") -> None:
        """Points joined by straight lines."""
        self._path("M" + "L".join(map(" ".join, map(self._place, points))), class_)

    def stairs(self, points: Sequence[tuple[float, float]], class_: str = "line") -> None:
        """A value that holds until the next point."""
        (x, y), *rest = map(self._place, points)
        self._path(f"M{x} {y}" + "".join(f"H{x}V{y}" for x, y in rest), class_)

    def bar(
        self, low: tuple[float, float], high: tuple[float, float], words: str, class_: str = "bar"
    ) -> None:
        """A rectangle between two corners, with a tooltip."""
        a, b = sorted((self.across(low[0]), self.across(high[0])))
        c, d = sorted((self.down(low[1]), self.down(high[1])))
        at = {"x": _short(a), "y": _short(c), "width": _short(b - a), "height": _short(d - c)}
        self._marks.append(tag("rect", tag("title", words), class_=class_, **at))

    def note(
        self,
        point: tuple[float, float],
        said: str,
        aside: float = 0.0,
        lower: float = 0.0,
        class_: str = "note",
    ) -> None:
        """Words that begin at a point, moved aside and lower by units of the drawing."""
        x, y = self._place(point, aside, lower)
        self._marks.append(_words(said, x=x, y=y, dy="0.32em", class_=class_))

    def _place(
        self, point: tuple[float, float], aside: float = 0.0, lower: float = 0.0
    ) -> tuple[str, str]:
        return _short(self.across(point[0]) + aside), _short(self.down(point[1]) + lower)

    def _path(self, path: str, class_: str) -> None:
        self._marks.append(tag("path", d=path, class_=class_))

    def markup(self, *behind: Markup, **attributes: object) -> Markup:
        """The whole drawing.

        Args:
            behind: elements that everything else is drawn over.
            attributes: of the drawing's element, beside its own.
        """
        return tag(
            "svg",
            tag("title", self.title),
            behind,
            self._frame(),
            self._marks,
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_label=self.title,
            class_="plot",
            **attributes,
        )

    def _frame(self) -> list[Markup]:
        right, floor = self.width - self.right, self.height - self.bottom
        marks = [
            tag("path", d=f"M{_short(self.left)} {self.top:g}V{_short(floor)}H{right:g}",
                class_="axis"),
            tag("text", self.x_label, x=_short((self.left + right) / 2), y=self.height - 6,
                class_="label"),
            tag("text", self.y_label, class_="label",
                transform=f"translate(12 {_short((self.top + floor) / 2)})rotate(-90)"),
        ]  # fmt: skip
        for place, said in self._y_ticks:
            y = _short(floor - place * self._inner_height)
            marks.append(tag("path", d=f"M{_short(self.left)} {y}H{right:g}", class_="grid"))
            marks.append(_words(said, x=_short(self.left - 5), y=y, dy="0.32em", class_="y"))
        for place, said in self._x_ticks:
            x = _short(self.left + place * (right - self.left))
            marks.append(tag("path", d=f"M{x} {_short(floor)}v4", class_="axis"))
            if self.slanted:
                turned = f"translate({x} {_short(floor + 12)})rotate(-40)"
                marks.append(_words(said, transform=turned, class_="y"))
            else:
                marks.append(_words(said, x=x, y=_short(floor + 16), class_="x"))
        return marks

    def _apart(self, ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """Ticks, without the words that would run into those of the tick before."""
        apart, end = [], float("-inf")
        for place, said in ticks:
            middle = place * (self.width - self.left - self.right)
            half = CHARACTER * len(shortened(said)) / 2
            if said and middle - half < end + CHARACTER:
                said = ""
            end = middle + half if said else end
            apart.append((place, said))
        return apart


def _words(said: str, **attributes: object) -> Markup:
    shown = shortened(said)
    return tag("text", tag("title", said) if shown != said else None, shown, **attributes)


def shortened(said: str) -> str:
    """Words that fit beside an axis."""
    return said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"


def _short(value: float) -> str:
    """A coordinate with a tenth of a unit, which is finer than a screen."""
    return f"{value:.1f}".removesuffix(".0")
