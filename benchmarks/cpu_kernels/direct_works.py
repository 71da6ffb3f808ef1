"""Compute-bound works: contractions and convolutions, directly and by Winograd's algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from layers import Work

BIAS_RELU = ("bias", "relu")


def _matmul(name: str, *sizes: int, turned: str = "", more: tuple = ()) -> Work:
    """A GEMM of N, K, M; ``turned``: the operands that are stored transposed."""
    text = "x".join(map(str, sizes))
    args = (*sizes, "A" in turned, "B" in turned, *more)
    return Work(f"{name} {text}", "batch_matmul" if len(sizes) == 4 else "matmul", args)


def conv(
    layout: str,
    ci: int,
    size: int,
    co: int,
    window: int | tuple[int, int],
    stride: int = 1,
    pad: int | tuple[int, int] = 0,
    dilation: int = 1,
    groups: int = 1,
    batch: int = 1,
    epilogue: tuple = (),
) -> Work:
    """A convolution of square images, its weights packed ahead."""
    kh, kw = (window, window) if isinstance(window, int) else window
    words = [f"{kh}x{kw}", f"{ci}->{co}", f"{size}x{size}", layout]
    words += [f"/{stride}"] if stride > 1 else []
    words += [f"dilated {dilation}"] if dilation > 1 else []
    words += [f"groups {groups}"] if groups > 1 else []
    words += [f"batch {batch}"] if batch > 1 else []
    words += ["+".join(epilogue)] if epilogue else []
    args = (batch, ci, size, size, co, kh, kw, stride, pad, dilation, groups)
    return Work(" ".join(words), f"conv2d_{layout}", (*args, "float32", epilogue, True))


def _contractions() -> Iterator[Work]:
    yield _matmul("matmul", 1024, 1024, 1024)
    yield _matmul("matmul", 777, 1111, 555)
    yield _matmul("matmul A transposed", 513, 257, 129, turned="A")
    yield _matmul("matmul B transposed", 100, 3000, 300, turned="B")
    yield _matmul("matmul packed", 384, 768, 3072, more=("float32", (), True))
    yield Work(
        "dense packed bias+gelu 256x1152x320",
        "dense",
        (256, 1152, 320, "float32", ("bias", "gelu"), True),
    )
    # few rows
    yield _matmul("matmul", 17, 4096, 4096)
    yield _matmul("matmul", 32, 1024, 4096)
    yield _matmul("matmul", 24, 768, 768)
    yield _matmul("matmul", 8, 768, 768)
    yield _matmul("matmul", 4, 512, 256)
    # few steps, few columns
    yield _matmul("matmul", 1024, 17, 1024)
    yield _matmul("matmul", 1000, 9, 300)
    yield _matmul("matmul", 600, 512, 7)
    # small
    yield _matmul("matmul", 47, 45, 43)
    yield _matmul("matmul", 31, 33, 35)
    yield _matmul("matmul", 16, 16, 16)
    yield _matmul("batch_matmul", 12, 128, 64, 128)
    yield _matmul("batch_matmul", 64, 31, 64, 33)
    yield _matmul("batch_matmul B transposed", 96, 49, 32, 49, turned="B")


def _convolutions() -> Iterator[Work]:
    yield conv("nchw", 3, 224, 64, 7, 2, 3)
    yield conv("nchw", 64, 56, 128, 3, 2, 1)
    yield conv("nchw", 256, 14, 1024, 1)
    yield conv("nchw", 256, 56, 128, 1, 2)
    yield conv("nchw", 96, 27, 256, 5, 1, 2)
    yield conv("nchw", 64, 33, 64, 3, 1, 2, dilation=2)
    yield conv("nchw", 128, 28, 128, 3, 1, 1, groups=32)
    yield conv("nchw", 128, 17, 128, (1, 7), 1, (0, 3), epilogue=BIAS_RELU)
    yield conv("nchw", 48, 35, 80, 3, 2)
    yield conv("nhwc", 3, 224, 64, 7, 2, 3)
    yield conv("nhwc", 64, 56, 256, 1)
    yield conv("nhwc", 128, 57, 128, 3, 2, 1)
    yield conv("nhwc", 1024, 14, 256, 1, epilogue=BIAS_RELU)
    yield conv("nhwc", 32, 28, 64, 5, 1, 2)
    yield conv("nhwc", 96, 41, 96, 3, 1, 4, dilation=4)
    yield conv("nhwc", 96, 28, 192, 3, 2, 1, groups=8)
    packed: tuple[Any, ...] = ("float32", (), True)
    yield Work("conv1d 5 80->256 399", "conv1d_ncw", (1, 80, 399, 256, 5, 1, 2, 1, 1, *packed))
    yield Work(
        "conv3d 3x3x3 16->32 8x28x28",
        "conv3d_ncdhw",
        (1, 16, 8, 28, 28, 32, 3, 3, 3, 1, 1, 1, 1, *packed),
    )
    for ci, size, co, window in ((64, 28, 32, 4), (96, 17, 48, 3)):
        name = f"transposed {window}x{window} {ci}->{co} {size}x{size} /2"
        args = (1, ci, size, size, co, window, window, 2, 1, 0, *packed)
        yield Work(name, "conv2d_transpose_nchw", args)


def _winograd() -> Iterator[Work]:
    def conv3(layout: str, ci: int, size: int, co: int, pad: int = 1, **more: Any) -> Work:
        return conv(layout, ci, size, co, 3, 1, pad, **more)

    for ci, size, co in ((64, 56, 64), (128, 28, 128), (256, 14, 256), (512, 7, 512)):
        yield conv3("nchw", ci, size, co)
        yield conv3("nhwc", ci, size, co)
    yield conv3("nchw", 64, 112, 128, epilogue=BIAS_RELU)
    yield conv3("nchw", 96, 31, 96)
    yield conv3("nchw", 32, 57, 32)
    yield conv3("nchw", 16, 63, 24)
    yield conv3("nchw", 192, 17, 192, pad=0)
    yield conv3("nchw", 160, 13, 224)
    yield conv3("nhwc", 3, 128, 64)
    yield conv3("nhwc", 24, 45, 40)
    yield conv3("nhwc", 128, 33, 64, epilogue=BIAS_RELU)
    yield conv3("nhwc", 320, 9, 320)
    yield conv3("nhwc", 64, 55, 128, pad=0)
    yield conv3("nhwc", 64, 28, 64, batch=4)


DIRECT = (*_contractions(), *_convolutions())
WINOGRAD = tuple(_winograd())
