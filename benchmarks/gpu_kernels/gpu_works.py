"""The works that are compared on a GPU, by group: GEMMs, layers of models, rows and tables.

The memory-bound ones move some hundred megabytes, several times what an L2 cache holds.
"""

from __future__ import annotations

from collections.abc import Iterator

from layers import MOBILENET_V2, RESNET50, Work

BATCH = 16
ROWS = (16384, 8192)
"""A table of 512 MiB in float32: 16384 rows."""


def _matmuls(dtype: str) -> Iterator[Work]:
    for n, k, m in (
        (4096, 4096, 4096),
        (2048, 2048, 2048),
        (1024, 1024, 1024),
        (1000, 1000, 1000),
        (512, 768, 3072),
        (8192, 1024, 8192),
    ):
        mark = "" if dtype == "float32" else " half"
        yield Work(f"{n}x{k}x{m}{mark}", "matmul", (n, k, m, False, False, dtype))


def _convs(layout: str) -> Iterator[Work]:
    for size, ci, co, window, stride in RESNET50:
        name = f"{window}x{window} {ci}->{co} {size}x{size}" + (" /2" if stride == 2 else "")
        sizes = (BATCH, ci, size, size, co, window, window, stride, window // 2)
        yield Work(f"{name} {layout.upper()}", f"conv2d_{layout}", sizes)


def _depthwise() -> Iterator[Work]:
    for size, channels, stride in MOBILENET_V2:
        name = f"depthwise {channels} {size}x{size}" + (" /2" if stride == 2 else "")
        yield Work(name, "depthwise_conv2d_nchw", (BATCH, channels, size, size, 3, 3, stride, 1))


def _memory(dtype: str) -> Iterator[Work]:
    mark = "" if dtype == "float32" else " half"
    size = f"{ROWS[0]}x{ROWS[1]}{mark}"
    square = (8192, 8192)
    yield Work(f"softmax {size}", "softmax", (ROWS, -1, dtype))
    yield Work(f"softmax 65536x1024{mark}", "softmax", ((65536, 1024), -1, dtype))
    yield Work(f"layer_norm {size}", "layer_norm", (ROWS, (-1,), 1e-5, dtype))
    yield Work(f"rms_norm {size}", "rms_norm", (ROWS, (-1,), 1e-5, dtype))
    yield Work(f"sum {size} axis 1", "sum", (ROWS, (1,), dtype))
    yield Work(f"sum {size} axis 0", "sum", (ROWS, (0,), dtype))
    yield Work(f"max {size} axis 1", "max", (ROWS, (1,), dtype))
    yield Work(f"add {size}", "add", (ROWS, ROWS, dtype))
    yield Work(f"bias_gelu {size}", "bias_gelu", (ROWS, dtype))
    yield Work(f"transpose 8192x8192{mark}", "transpose", (square, None, dtype))


GROUPS: dict[str, tuple[Work, ...]] = {
    "matmul": tuple(_matmuls("float32")),
    "memory": tuple(_memory("float32")),
    "resnet50": tuple(_convs("nchw")),
    "resnet50_nhwc": tuple(_convs("nhwc")),
    "memory_half": tuple(_memory("float16")),
    "batch_matmul": (
        Work("batch_matmul 192x128x64x128", "batch_matmul", (192, 128, 64, 128)),
        Work("batch_matmul 16x1024x1024x1024", "batch_matmul", (16, 1024, 1024, 1024)),
        Work("dense 2048x1024x4096", "dense", (2048, 1024, 4096)),
    ),
    "mobilenet_v2": tuple(_depthwise()),
}

SHORT = (
    "4096x4096x4096",
    "resnet50",
    f"softmax {ROWS[0]}x{ROWS[1]}",
    f"layer_norm {ROWS[0]}x{ROWS[1]}",
    f"sum {ROWS[0]}x{ROWS[1]} axis 1",
    f"sum {ROWS[0]}x{ROWS[1]} axis 0",
    f"add {ROWS[0]}x{ROWS[1]}",
    f"bias_gelu {ROWS[0]}x{ROWS[1]}",
    "transpose 8192x8192",
)
"""The works that have goals, for a run of a few minutes."""
