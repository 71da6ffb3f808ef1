"""Tasks whose loop features are tested: templates that come with Whet, and plain ones."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import whet
from whet import te, topi


@whet.template("test/features_readme")
def readme(N: int, K: int, M: int) -> tuple:
    """The matmul of README.md."""
    A = te.placeholder((N, K), "float32", name="A")
    B = te.placeholder((K, M), "float32", name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    tile = s.cache_write(C, "local")
    i, j = s[C].op.axis
    cfg = whet.get_config()
    cfg.define_split("tile_i", i, num_outputs=2, filter=lambda e: e.size[-1] <= 8)
    cfg.define_split("tile_j", j, num_outputs=2, filter=lambda e: 8 <= e.size[-1] <= 64)
    cfg.define_knob("unroll", [False, True])
    io, ii = cfg["tile_i"].apply(s, C, i)
    jo, ji = cfg["tile_j"].apply(s, C, j)
    s[C].reorder(io, jo, ii, ji)
    s[C].vectorize(ji)
    s[tile].compute_at(s[C], jo)
    ti, tj = s[tile].op.axis
    (tk,) = s[tile].op.reduce_axis
    s[tile].reorder(tk, ti, tj)
    s[tile].vectorize(tj)
    if cfg["unroll"].val:
        s[C].unroll(ii)
        s[tile].unroll(ti)
    return s, [A, B, C]


@whet.template("test/features_fused")
def fused(N: int, M: int) -> tuple:
    """A blur and its sum: fused and parallel loops, an inlined stage, all kinds of guards."""
    A = te.placeholder((N + 2, M), "float32", name="A")
    T = te.compute((N + 2, M), lambda i, j: A[i, j] * 2.0, name="T")
    U = te.compute((N, M), lambda i, j: T[i, j] + T[i + 1, j] + T[i + 2, j], name="U")
    O = te.compute((N, M), lambda i, j: U[i, j] * 0.5, name="O")
    cfg = whet.get_config()
    cfg.define_knob("rows", [1, 2, 3, 5, 8])
    cfg.define_knob("columns", [1, 4, 6, 16])
    cfg.define_knob("chunk", [0, 1, 3, 4])
    cfg.define_knob("place", ["inline", "row", "tile"])
    s = te.create_schedule(O.op)
    i, j = s[O].op.axis
    io, ii = s[O].split(i, factor=cfg["rows"].val)
    jo, ji = s[O].split(j, factor=cfg["columns"].val)
    s[O].reorder(io, jo, ii, ji)
    outer = s[O].fuse(io, jo)
    if cfg["chunk"].val:
        _, outer = s[O].split(outer, factor=cfg["chunk"].val)
    s[O].parallel(s[O].leaf_iter_vars[0])
    s[U].compute_at(s[O], outer)
    for _ in range(cfg["rows"].val):  # asks for the number itself
        pass
    if cfg["place"].val == "inline":
        s[T].compute_inline()
    elif cfg["place"].val == "row":
        s[T].compute_at(s[U], s[U].op.axis[0])
    else:
        s[T].compute_at(s[O], outer)
    return s, [A, O]


@cache
def recorded() -> Any:
    """The module of the recorded spaces."""
    path = Path(__file__).parents[2] / "benchmarks" / "search" / "spaces.py"
    spec = importlib.util.spec_from_file_location("recorded_spaces", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tasks() -> dict[str, tuple[Any, tuple]]:
    """Name -> template and arguments, odd sizes among them."""
    return {
        "readme": ("test/features_readme", (30, 17, 64)),
        "fused": ("test/features_fused", (21, 40)),
        "matmul": ("matmul", (100, 130, 77)),
        "matmul_even": ("matmul", (64, 64, 64)),
        "conv2d": ("conv2d_nchw", (1, 8, 15, 14, 12, 3, 3, 1, 1)),
        "conv2d_stride": ("conv2d_nchw", (1, 6, 16, 16, 10, 3, 3, 2, 1)),
        "recorded_matmul": ("recorded/matmul", (33, 40, 53)),
        "recorded_conv2d": ("recorded/conv2d", (8, 14, 15, 10, 3, 3)),
        "recorded_conv2d_1x1": ("recorded/conv2d", (16, 7, 7, 16, 1, 1)),
        "recorded_depthwise": ("recorded/depthwise", (6, 17, 28, 3)),
        "recorded_softmax": ("recorded/softmax", (48, 100)),
        "derived_matmul": (product, (100, 140, 77)),
        "derived_matmul_even": (product, (64, 256, 64)),
        "derived_conv2d": (convolution, (6, 15, 14, 12)),
        "derived_softmax": (topi.nn.softmax, ((48, 100),)),
    }


def product(n: int, k: int, m: int, dtype: str = "float32") -> te.Tensor:
    """A matmul."""
    A, B = te.placeholder((n, k), dtype, name="A"), te.placeholder((k, m), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    return te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")


def convolution(c: int, h: int, w: int, o: int) -> te.Tensor:
    """A convolution with a window of 3, padded."""
    data, kernel = te.placeholder((1, c, h, w)), te.placeholder((o, c, 3, 3))
    return topi.nn.conv2d_nchw(data, kernel, 1, 1, 1)


@cache
def task(name: str) -> Any:
    """The task of a name."""
    template, args = tasks()[name]
    if template is topi.nn.softmax:
        return whet.create_task(outputs=[template(te.placeholder(*args))], target="llvm")
    if not isinstance(template, str):
        return whet.create_task(outputs=[template(*args)], target="llvm")
    if template.startswith("recorded/"):
        recorded()
    return whet.create_task(template, args=args, target="llvm")
