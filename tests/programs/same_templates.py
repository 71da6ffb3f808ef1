"""The built-in templates in the corpus: arguments, element types, targets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from same_entry import ARM, CUDA, LLVM, C, Entry, Texts, named, told
from same_tasks import task_texts

EPILOGUES = ((), ("bias",), ("bias", "relu"), ("bias", "gelu"), ("residual",))

PRODUCTS: dict[str, list[tuple]] = {
    "matmul": [
        (64, 64, 64),
        (67, 45, 83, False, False, "float32", ("bias", "gelu")),
        (40, 33, 65, True, True),
        (64, 48, 40, True, False, "float32", ("residual",)),
        (1, 70, 36),
        (35, 40, 1),
        (3, 0, 4, False, False, "float32", ("bias",)),
        (48, 40, 64, False, False, "float16", ("bias",)),
        (48, 40, 64, False, False, "bfloat16"),
        (32, 130, 24, False, True, "float64"),
        (32, 64, 48, False, False, "int8"),
        (33, 128, 47, False, True, "float32", ("bias",), True),
    ],
    "dense": [
        (64, 128, 256),
        (33, 64, 40, "float32", ("bias", "gelu")),
        (17, 19, 23, "float16"),
        (20, 24, 30, "float64"),
        (9, 1100, 20, "float32", ("relu",)),
        (16, 256, 64, "float32", ("bias",), True),
        (16, 256, 64, "bfloat16", (), True),
    ],
    "batch_matmul": [
        (3, 20, 40, 35),
        (2, 24, 16, 40, False, True, "float16"),
        (5, 33, 17, 64, True, False, "float32", ("relu",)),
    ],
    "matvec": [
        (300, 257),
        (64, 1000, "float32", ("bias",)),
        (128, 96, "float16"),
        (70, 90, "float64"),
    ],
}
CONVOLUTIONS: dict[str, list[tuple]] = {
    "conv2d_nchw": [
        (1, 16, 14, 14, 32, 3, 3, 1, 1),
        (1, 3, 15, 40, 6, 3, 3, (1, 2), 1),
        (1, 2, 9, 50, 4, 3, 5, 3, (1, 0), (1, 2)),
        (2, 8, 10, 11, 12, 3, 3, 1, 1, 1, 4, "float32", ("bias", "relu")),
        (1, 24, 7, 7, 17, 1, 1),
        (1, 16, 12, 12, 16, 3, 3, 1, 1, 1, 1, "float32", ("bias",), True),
        (1, 16, 12, 12, 16, 3, 3, 1, 1, 1, 1, "float16"),
        (1, 3, 9, 9, 4, 5, 5, 1, 2, 1, 1, "float64"),
    ],
    "conv2d_nhwc": [
        (1, 16, 14, 14, 32, 3, 3, 1, 1),
        (1, 5, 9, 11, 12, 3, 3, 2, 1, 1, 1, "float32", ("bias", "relu"), True),
        (1, 8, 10, 12, 20, 1, 1, 1, 0, 1, 1, "float16"),
    ],
    "conv2d_nchwc": [
        (1, 32, 9, 11, 32, 3, 3, 1, 1),
        (1, 16, 8, 8, 24, 3, 3, 1, 1, 1, 1, "float32", (), False, 8),
    ],
    "conv2d_transpose_nchw": [(1, 4, 5, 6, 7, 3, 3, 2), (1, 8, 6, 6, 5, 4, 4, 2, 1)],
    "conv3d_ncdhw": [(1, 3, 6, 7, 12, 5, 3, 3, 3), (1, 4, 5, 5, 5, 8, 3, 3, 3, 1, 1)],
    "conv1d_ncw": [(2, 6, 40, 9, 5, 2), (1, 8, 33, 16, 3, 1, 1)],
    "depthwise_conv2d_nchw": [
        (1, 16, 14, 14, 3, 3, 1, 1),
        (1, 4, 15, 15, 5, 5, 2, 2, 1, 2, "float32", ("bias",)),
        (1, 8, 11, 9, 3, 3, 1, 1, 1, 1, "float16"),
    ],
    "depthwise_conv2d_nhwc": [(1, 16, 14, 14, 3, 3, 1, 1), (1, 13, 9, 10, 3, 3, 2, 1)],
}
ROWS: dict[str, list[tuple]] = {
    "softmax": [((13, 77),), ((33, 21), 0), ((5, 1),), ((7, 64), -1, "float16")],
    "log_softmax": [((7, 130),), ((20, 40), 1, "float64")],
    "layer_norm": [
        ((9, 101),),
        ((4, 6, 17), (1, 2)),
        ((40, 19), (0,)),
        ((8, 64), (1,), 1e-5, "float16"),
    ],
    "rms_norm": [((11, 67),)],
    "batch_norm": [((2, 5, 6, 7),)],
    "bias_gelu": [((9, 37),)],
    "add": [((5, 1, 9), (7, 1)), ((64, 64), (64,), "int8"), ((33, 5), (5,), "bfloat16")],
    "transpose": [((45, 70),), ((64, 32),), ((5, 33, 18), (1, 2, 0)), ((24, 40), None, "float64")],
    "sum": [
        ((130, 45), 0),
        ((45, 130), 1),
        ((37, 61),),
        ((9, 20, 31), (0, 2)),
        ((40, 100), 1, "int32"),
    ],
    "mean": [((20, 33), -1)],
    "max": [((7, 90), 1)],
    "min": [((90, 33), 0)],
    "argmax": [((11, 70),)],
    "argmin": [((70, 11), 0)],
    "cumsum": [((5, 67),), ((21, 35), 0)],
    "max_pool2d": [((2, 3, 13, 15), 3, 2, 1)],
    "avg_pool2d": [((1, 4, 12, 11), 2, 2), ((1, 2, 9, 9), 3, 1, 1)],
    "global_avg_pool2d": [((2, 9, 7, 7),)],
    "adaptive_avg_pool2d": [((1, 3, 8, 8), 2)],
    "gather": [((6, 9), (4, 9))],
    "take": [((6, 33), (4, 3))],
    "concatenate": [(((4, 9), (4, 17), (4, 1)), 1)],
    "pad": [((6, 9), (1, 2)), ((6, 9), (1, 2), (0, 3), "reflect")],
    "resize2d": [((1, 2, 5, 9), (11, 6))],
    "layout_transform": [((1, 16, 5, 6), "NCHW", "NCHW8c")],
}
TEMPLATES = {**PRODUCTS, **CONVOLUTIONS, **ROWS}


def shown(value: Any) -> str:
    """An argument in a key: sizes are joined by x, as in ``64x128``."""
    if isinstance(value, tuple):
        return "(" + ",".join(map(shown, value)) + ")"
    return str(value)


def key_of(name: str, args: tuple) -> str:
    """``dense/64x128x256 float16``."""
    head = 0
    while head < len(args) and type(args[head]) is int:
        head += 1
    sizes = "x".join(map(str, args[:head]))
    return f"template/{name}/" + " ".join(filter(None, [sizes, *map(shown, args[head:])]))


def texts(name: str, args: tuple, targets: tuple[str, ...], others: int) -> Texts:
    """The texts of one template's task for some targets; random configs for the first alone."""
    import whet

    for target in targets:
        try:
            task = whet.create_task(name, args=args, target=target)
        except whet.WhetError as error:
            yield f"{named(target)}/{told(error)[0]}", told(error)[1]
        else:
            yield from task_texts(task, target, others if target == targets[0] else 0)


def entries() -> Iterator[Entry]:
    """Each template: its first arguments for all targets, others for some in turns."""
    levels = [LLVM["v2"], LLVM["v4"], LLVM["v3"]]
    for number, (name, many) in enumerate(TEMPLATES.items()):
        for k, args in enumerate(many):
            turn = number + k
            first = k == 0
            cpus = (
                (*levels[::-1], C)
                if first
                else (levels[turn % 3], *((C,) if turn % 4 == 0 else ()))
            )
            cpus += (ARM,) if first and number % 4 == 0 else ()
            gpus = tuple(CUDA.values())[::-1] if first else (list(CUDA.values())[turn % 2],)
            yield Entry(f"{key_of(name, args)}/cpu", partial(texts, name, args, cpus, 2))
            yield Entry(f"{key_of(name, args)}/gpu", partial(texts, name, args, gpus, 2))
            if first:
                quick = f"quick {key_of(name, args)}"
                yield Entry(
                    quick,
                    partial(texts, name, args, (levels[2], CUDA["sm_90"]), number % 2),
                    quick=True,
                )
    yield Entry("quick templates", _names, quick=True)


def smallest() -> list[Entry]:
    """Small entries that need most of what the others need."""
    targets = (LLVM["v3"], C, CUDA["sm_90"])
    return [Entry("small", partial(texts, "softmax", ((3, 5),), targets, 0))]


def _names() -> Texts:
    import whet

    yield "names", "\n".join(whet.list_templates())
