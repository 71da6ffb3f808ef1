"""The works that are compared, by group: matmuls, layers of ResNet-50, MobileNet-v2 and BERT."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

FLOAT = ("float32", (), True)
"""The last arguments of an operator whose weights are packed ahead."""


@dataclass(frozen=True)
class Work:
    """One operator at one size.

    Attributes:
        name: short, for the command line and the lines of the result.
        template: Whet's template.
        args: its arguments.
    """

    name: str
    template: str
    args: tuple[Any, ...]


def _matmuls(packed: bool) -> Iterator[Work]:
    for n, k, m in (
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (512, 512, 512),
        (1000, 1000, 1000),
        (384, 768, 3072),
        (64, 64, 64),
    ):
        more = (False, False, *FLOAT) if packed else ()
        yield Work(f"{n}x{k}x{m}" + (" packed" if packed else ""), "matmul", (n, k, m, *more))


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


def _convs(table: tuple) -> Iterator[Work]:
    for size, ci, co, window, stride in table:
        name = f"{window}x{window} {ci}->{co} {size}x{size}" + (" /2" if stride == 2 else "")
        sizes = (1, ci, size, size, co, window, window, stride, window // 2)
        yield Work(name, "conv2d_nhwc", (*sizes, 1, 1, *FLOAT))


def _depthwise() -> Iterator[Work]:
    for size, channels, stride in MOBILENET_V2:
        name = f"depthwise {channels} {size}x{size}" + (" /2" if stride == 2 else "")
        args = (1, channels, size, size, 3, 3, stride, 1)
        yield Work(name, "depthwise_conv2d_nhwc", (*args, 1, 1, *FLOAT))


GROUPS: dict[str, tuple[Work, ...]] = {
    "matmul": tuple(_matmuls(packed=False)),
    "matmul_packed": tuple(_matmuls(packed=True)),
    "resnet50": tuple(_convs(RESNET50)),
    "resnet50_v15": tuple(_convs(RESNET50_V15)),
    "mobilenet_v2": tuple(_depthwise()),
    "memory": (
        Work("softmax 1024x1024", "softmax", ((1024, 1024),)),
        Work("layer_norm 4096x1024", "layer_norm", ((4096, 1024),)),
        Work("bias_gelu 4096x4096", "bias_gelu", ((4096, 4096),)),
        Work("transpose 4096x4096", "transpose", ((4096, 4096),)),
        Work("sum 4096x4096 axis 0", "sum", ((4096, 4096), (0,))),
        Work("sum 4096x4096 axis 1", "sum", ((4096, 4096), (1,))),
    ),
    "batch_matmul": (
        Work("batch_matmul 12x128x64x128", "batch_matmul", (12, 128, 64, 128)),
        Work("matvec 4096x4096", "matvec", (4096, 4096)),
    ),
}
THREADED = (
    Work("1024x1024x1024", "matmul", (1024, 1024, 1024)),
    Work("2048x2048x2048", "matmul", (2048, 2048, 2048)),
    next(w for w in GROUPS["resnet50"] if w.name.startswith("3x3 64->64")),
    next(w for w in GROUPS["resnet50"] if w.name.startswith("1x1 256->1024")),
    next(w for w in GROUPS["resnet50"] if w.name.startswith("3x3 256->256")),
)
"""Works that arithmetic bounds, for the comparison of two threads with one."""


def chosen(names: list[str]) -> list[tuple[str, Work]]:
    """The works of the groups and the works that are named; all of them if none is.

    Raises:
        SystemExit: a name is neither a group's nor a work's.
    """
    every = [(group, work) for group, works in GROUPS.items() for work in works]
    if not names:
        return every
    known = {*GROUPS, *(work.name for _, work in every)}
    strange = [name for name in names if name not in known]
    if strange:
        works = "\n".join(f"  {group}: {work.name}" for group, work in every)
        raise SystemExit(f"there is no group or work {strange[0]!r}; these are:\n{works}")
    return [(group, work) for group, work in every if {group, work.name} & set(names)]
