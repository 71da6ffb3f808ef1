"""A schedule as a picture: its stages, their loops, and where each is attached."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whet.compiler.arith import Analyzer
from whet.compiler.errors import ScheduleError, WhetError
from whet.compiler.te.bounds.extents import AffineSizes, axis_extents
from whet.compiler.te.lang.relations import AHEAD, AT, INLINE, IterVarAttr
from whet.compiler.te.lang.scan import ScanOp
from whet.compiler.te.lang.tensor import ComputeOp, PlaceholderOp
from whet.compiler.te.show.drawing import Box, Loop, clean, svg
from whet.compiler.tir.expr import COMM_REDUCE
from whet.compiler.tir.printer import Printer, expr_text

if TYPE_CHECKING:
    from whet.compiler.te.schedule import Schedule
    from whet.compiler.te.stage import Stage

_LONGEST = 90  # characters of a formula

REMARKS: tuple[Callable[[Stage], str], ...] = (
    lambda stage: "double buffered" if stage.double_buffered else "",
    lambda stage: "computed ahead of the calls" if stage.attach_type == AHEAD else "",
    lambda stage: "a rolling buffer" if stage.rolls else "",
    lambda stage: f"in {stage.group.op.name}" if stage.group is not None else "",
    lambda stage: (
        "laid out by " + ", ".join(map(str, stage.layout_transforms)) if stage.layout else ""
    ),
    lambda stage: "stored past the caches" if stage.nontemporal else "",
    lambda stage: (
        "in threads " + ", ".join(t.thread_tag for t in stage.launch_threads)
        if stage.launch_threads
        else ""
    ),
)
"""The words about a stage that its primitives ask for; empty where they do not."""


@dataclass(frozen=True)
class Picture:
    """A drawing; notebooks show it.

    Attributes:
        svg: as an SVG image.
        html: as a page of its own, which needs neither network nor scripts.
    """

    svg: str
    title: str

    @staticmethod
    def of(schedule: Schedule) -> Picture:
        """The drawing of a schedule as it stands."""
        title = clean(f"Schedule of {', '.join(op.name for op in schedule.outputs)}")
        return Picture(svg(_Boxes(schedule).all(), title), title)

    @property
    def html(self) -> str:
        """The page."""
        return (
            "<!DOCTYPE html>\n"
            '<html lang="en"><head><meta charset="utf-8"/>'
            '<meta name="viewport" content="width=device-width"/>'
            f"<title>{html.escape(self.title)}</title>"
            "<style>body { margin: 1em; font-family: sans-serif } svg { max-width: 100% }</style>"
            f"</head><body>{self.svg}</body></html>\n"
        )

    def save(self, path: str | Path) -> None:
        """Write the picture to a file, ``.html`` or ``.svg``.

        Raises:
            ScheduleError: for another ending, or a file that cannot be written.
        """
        texts = {".svg": self.svg, ".html": self.html}
        ending = Path(path).suffix
        if ending not in texts:
            raise ScheduleError(
                f"show({str(path)!r})",
                "a picture is an .html or an .svg file",
                "show('loops.html')",
            )
        try:
            Path(path).write_text(texts[ending], encoding="utf-8")
        except OSError as error:
            raise ScheduleError(f"show({str(path)!r})", str(error)) from error

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}</div>"


class _Boxes:
    """The boxes of a schedule's stages."""

    def __init__(self, schedule: Schedule) -> None:
        from whet.compiler.te.bounds.infer_bound import Bounds

        self.schedule = schedule
        try:
            self.bounds: Bounds | None = Bounds(schedule)
        except WhetError:  # a schedule that cannot be lowered (yet) is drawn all the same
            self.bounds = None

    def all(self) -> list[Box]:
        """The boxes at the root, in the order of computation; attached ones are inside them."""
        boxes = {s: self.box(s) for s in self.schedule.stages}
        roots = []
        for s, b in boxes.items():
            parent = s.attach_stage if s.attach_type == AT else None
            place = -1
            if parent is not None:
                leaves = parent.leaf_iter_vars
                place = next((k for k, a in enumerate(leaves) if a is s.attach_ivar), -1)
            if parent is None or place < 0:
                roots.append(b)
            else:
                boxes[parent].loops[place].inside.append(b)
        return roots

    def box(self, stage: Stage) -> Box:
        """One stage."""
        op = stage.op
        tensor = op.output(0)
        shape = ", ".join(expr_text(d) for d in tensor.shape)
        facts = [f"{tensor.dtype}[{shape}]"]
        if isinstance(op, PlaceholderOp):
            return Box(op.name, "input", f"input · {facts[0]}", "")
        if stage.attach_type == INLINE:
            return Box(op.name, "inlined", f"inlined in its readers · {facts[0]}", _formula(stage))
        facts += self._kept(stage)
        readers = ", ".join(t.name for t in op.input_tensors)
        if readers:
            facts.append(f"reads {readers}")
        kind, at = "root", None
        if stage.attach_stage is not None and stage.attach_ivar is not None:
            kind, at = "attached", (stage.attach_stage.op.name, stage.attach_ivar.var.name)
            facts.append(f"at {at[0]}, loop {at[1]}")
        kind += " output" if stage.is_output else ""
        return Box(op.name, kind, " · ".join(facts), _formula(stage), self._loops(stage), at)

    def _kept(self, stage: Stage) -> list[str]:
        from whet.compiler.te.bounds.threads import scope_of

        out = []
        scope = stage.scope if self.bounds is None else scope_of(stage)
        if scope not in ("", "global"):
            out.append(scope)
        return out + [text for remark in REMARKS if (text := remark(stage))]

    def _loops(self, stage: Stage) -> list[Loop]:
        b = self.bounds.stages.get(stage) if self.bounds is not None else None
        extents = axis_extents(stage, AffineSizes(Analyzer())) if b is None else b.extents
        out = []
        for leaf in stage.leaf_iter_vars:
            attr = stage.attr(leaf)
            out.append(
                Loop(
                    leaf.var.name,
                    expr_text(extents[leaf].to_expr()),
                    attr.kind,
                    attr.thread_tag,
                    leaf.iter_type == COMM_REDUCE,
                    " · ".join((*attr.pragma_keys, *_prefetched(attr))),
                )
            )
        return out


def _prefetched(attr: IterVarAttr) -> Iterator[str]:
    """The words for what a loop prefetches, and for what computes it."""
    if attr.tensor_intrin is not None:
        yield f"tensorized by {attr.tensor_intrin.name}"
    asked = zip(attr.prefetch_data, attr.prefetch_offset, attr.prefetch_spread, strict=True)
    for tensor, offset, spread in asked:
        yield f"prefetches {tensor.name} {offset} ahead{', spread' if spread else ''}"


def _formula(stage: Stage) -> str:
    """The computation of one step, shortened."""
    op = stage.op
    if isinstance(op, ScanOp):
        return f"{op.name}: step by step, each from those before"
    if not isinstance(op, ComputeOp):
        return "a statement as a whole"
    printer = Printer()
    target = ", ".join(printer.name(a.var) for a in op.axis)
    text = f"{op.name}[{target}] = {printer.expr(op.body[0])}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
