"""The works that are compared, by group: matmuls, layers of ResNet-50, MobileNet-v2 and BERT."""

from __future__ import annotations

from collections.abc import Iterator

from layers import MOBILENET_V2, RESNET50, RESNET50_V15, Work

FLOAT = ("float32", (), True)
"""The last arguments of an operator whose weights are packed ahead."""


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
