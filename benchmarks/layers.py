"""Layers of models as tables, and works that are chosen by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphs import Graph

    from whet.autotune import Task
    from whet.bench.operators.operator import Operator


@dataclass(frozen=True)
class Work:
    """One operator at one size, or one graph.

    Attributes:
        name: short, for the command line and the lines of the result.
        template: Whet's template; "": the work is a graph.
        args: its arguments.
        graph: of a work without a template.
        small: arguments of the template, or shapes of the graph's inputs, of the same work at a
            size that the first cache holds; empty where its instructions are no limit.
    """

    name: str
    template: str = ""
    args: tuple[Any, ...] = ()
    graph: Graph | None = None
    small: tuple[Any, ...] = ()

    def task(self, target: Any) -> Task:
        """The task of the work."""
        import whet

        if self.graph is not None:
            return self.graph.task(target)
        return whet.create_task(self.template, args=self.args, target=target)

    @property
    def few(self) -> Work:
        """The work at the small size."""
        if self.graph is not None:
            return replace(self, graph=replace(self.graph, inputs=self.small), small=())
        return replace(self, args=self.small, small=())

    @property
    def operator(self) -> Operator | None:
        """The graph's row; None for a template, which has its own."""
        return None if self.graph is None else self.graph.operator


# Image, input channels, output channels, window, stride: the table of He et al. 2016 with the
# stride in the first 1x1 convolution of a stage; each is padded to keep the size.
RESNET50 = (
    (224, 3, 64, 7, 2),
    (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1),
    (56, 256, 128, 1, 2), (28, 128, 128, 3, 1), (28, 128, 512, 1, 1), (56, 256, 512, 1, 2),
    (28, 512, 128, 1, 1),
    (28, 512, 256, 1, 2), (14, 256, 256, 3, 1), (14, 256, 1024, 1, 1), (28, 512, 1024, 1, 2),
    (14, 1024, 256, 1, 1),
    (14, 1024, 512, 1, 2), (7, 512, 512, 3, 1), (7, 512, 2048, 1, 1), (14, 1024, 2048, 1, 2),
    (7, 2048, 512, 1, 1),
)  # fmt: skip
# What differs in the variant of PyTorch and others: the stride is in the 3x3 convolutions.
RESNET50_V15 = (
    (56, 256, 128, 1, 1), (56, 128, 128, 3, 2), (28, 512, 256, 1, 1), (28, 256, 256, 3, 2),
    (14, 1024, 512, 1, 1), (14, 512, 512, 3, 2),
)  # fmt: skip
# Image, channels, stride of the 3x3 depthwise convolutions of MobileNet-v2 (Sandler et al. 2018).
MOBILENET_V2 = (
    (112, 32, 1), (112, 96, 2), (56, 144, 1), (56, 144, 2), (28, 192, 1), (28, 192, 2),
    (14, 384, 1), (14, 576, 1), (14, 576, 2), (7, 960, 1),
)  # fmt: skip


def chosen(groups: Mapping[str, tuple[Work, ...]], names: list[str]) -> list[tuple[str, Work]]:
    """The works of the groups and the works that are named; all of them if none is.

    Raises:
        SystemExit: a name is neither a group's nor a work's.
    """
    every = [(group, work) for group, works in groups.items() for work in works]
    if not names:
        return every
    known = {*groups, *(work.name for _, work in every)}
    strange = [name for name in names if name not in known]
    if strange:
        works = "\n".join(f"  {group}: {work.name}" for group, work in every)
        raise SystemExit(f"there is no group or work {strange[0]!r}; these are:\n{works}")
    return [(group, work) for group, work in every if {group, work.name} & set(names)]
