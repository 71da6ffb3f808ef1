"""Templates whose spaces were recorded whole: plain ones, with good and bad programs alike.

They belong to the recordings in `recorded/` and must not change: a recording is replayed only over
the space that it was made of. They are written as a user would write a first template, and know
nothing of what is fast; the templates in `search_spaces/` do.
"""

from __future__ import annotations

from typing import Any

import whet
from whet import te

Sizes = tuple[int, ...]


def _splits(cfg: Any, name: str, axis: Any, inner: Sizes, middle: Sizes) -> None:
    """A split in three: ``inner`` and ``middle`` are the sizes that are tried."""
    extent = int(axis.dom.extent)
    kept = sorted({(-1, m, i) for m in middle for i in inner if m * i <= max(extent, i)})
    cfg.define_split(name, axis, policy="candidate", num_outputs=3, candidate=kept)


@whet.template("recorded/matmul", version=1)
def matmul(N: int, K: int, M: int) -> tuple:
    """``C = A @ B`` in float32: three splits, three orders, where k runs, B as it is or packed."""
    A = te.placeholder((N, K), "float32", name="A")
    B = te.placeholder((K, M), "float32", name="B")
    k = te.reduce_axis((0, K), name="k")
    cfg = whet.get_config()
    cfg.define_knob("tile_i", [(m, i) for m in (1, 4) for i in (1, 2, 4, 6, 8) if m * i <= N])
    cfg.define_knob("tile_j", [(m, j) for m in (1, 4) for j in (1, 8, 16, 32, 64)])
    cfg.define_knob("order", ["ij", "ji", "inner"])
    cfg.define_knob("k", ["outside", "inside"])
    cfg.define_knob("pack", [False, True])
    cfg.define_knob("unroll", [False, True])
    cfg.define_knob("vectorize", [False, True])
    mi, nr = cfg["tile_i"].val
    mj, nc = cfg["tile_j"].val
    P = None
    if cfg["pack"].val:
        P = te.compute(
            (-(-M // nc), K, nc), lambda p, kk, c: B[kk, te.min(p * nc + c, M - 1)], name="P"
        )
    C = te.compute(
        (N, M),
        lambda i, j: te.sum(
            A[i, k] * (P[j // nc, k, j % nc] if P is not None else B[k, j]), axis=k
        ),
        name="C",
    )
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    i, j = s[C].op.axis
    (kk,) = s[acc].op.reduce_axis
    io, ib = s[C].split(i, factor=mi * nr)
    im, ii = s[C].split(ib, factor=nr)
    jo, jb = s[C].split(j, factor=mj * nc)
    jm, ji = s[C].split(jb, factor=nc)
    order = cfg["order"].val
    if order == "ij":
        s[C].reorder(io, jo, im, jm, ii, ji)
    elif order == "ji":
        s[C].reorder(jo, io, jm, im, ii, ji)
    else:
        s[C].reorder(io, im, jo, jm, ii, ji)
    s[acc].compute_at(s[C], im if order == "ji" else jm)
    ai, aj = s[acc].op.axis
    if cfg["k"].val == "outside":
        s[acc].reorder(kk, ai, aj)
    else:
        s[acc].reorder(ai, kk, aj)
    if cfg["vectorize"].val:
        s[acc].vectorize(aj)
        s[C].vectorize(ji)
    if cfg["unroll"].val:
        s[acc].unroll(ai)
        s[C].unroll(ii)
    return s, [A, B, C]


@whet.template("recorded/conv2d", version=1)
def conv2d(CI: int, H: int, W: int, CO: int, KH: int, KW: int) -> tuple:
    """A convolution, NCHW, stride 1, "same" padding, batch 1, float32; weights may be packed."""
    D = te.placeholder((1, CI, H, W), "float32", name="D")
    Wt = te.placeholder((CO, CI, KH, KW), "float32", name="W")
    cfg = whet.get_config()
    cfg.define_knob("tile_c", [(m, c) for m in (1, 4) for c in (1, 2, 4, 8, 16) if m * c <= CO])
    cfg.define_knob("tile_y", [1, 2, 4])
    cfg.define_knob("tile_x", [x for x in (1, 4, 8, 16, 32) if x <= W])
    cfg.define_knob("pack", [False, True])
    cfg.define_knob("pad", ["inline", "root", "block"] if KH * KW > 1 else ["none"])
    cfg.define_knob("order", ["cyx", "yxc", "kyx"] if KH * KW == 1 else ["cyx", "kyx"])
    cfg.define_knob("vectorize", [False, True])
    cfg.define_knob("unroll", [False, True])
    padded, C = _convolution(D, Wt, cfg["tile_c"].val[1] if cfg["pack"].val else 0)
    s = te.create_schedule(C.op)
    outer = _tiled_convolution(cfg, s, C)
    if padded is not D:
        if cfg["pad"].val == "inline":
            s[padded].compute_inline()
        elif cfg["pad"].val == "block":
            s[padded].compute_at(s[C], outer)
    return s, [D, Wt, C]


def _convolution(D: Any, Wt: Any, block: int) -> tuple:
    """The padded data and the convolution; weights packed in blocks of channels, 0: as they are."""
    (_, CI, H, W), (CO, _, KH, KW) = D.shape, Wt.shape
    ph, pw = KH // 2, KW // 2
    padded = D
    if ph or pw:
        padded = te.compute(
            (1, CI, H + 2 * ph, W + 2 * pw),
            lambda n, c, y, x: te.if_then_else(
                te.all(y >= ph, y < H + ph, x >= pw, x < W + pw), D[n, c, y - ph, x - pw], 0.0
            ),
            name="padded",
        )
    rc = te.reduce_axis((0, CI), name="rc")
    ry = te.reduce_axis((0, KH), name="ry")
    rx = te.reduce_axis((0, KW), name="rx")
    P = None
    if block:
        P = te.compute(
            (-(-CO // block), CI, KH, KW, block),
            lambda o, c, y, x, i: Wt[te.min(o * block + i, CO - 1), c, y, x],
            name="P",
        )
    return padded, te.compute(
        (1, CO, H, W),
        lambda n, o, y, x: te.sum(
            padded[n, rc, y + ry, x + rx]
            * (P[o // block, rc, ry, rx, o % block] if P is not None else Wt[o, rc, ry, rx]),
            axis=[rc, ry, rx],
        ),
        name="C",
    )


def _tiled_convolution(cfg: Any, s: Any, C: Any) -> Any:
    """The convolution's tiles as the config says; the loop at which a block's padding is made."""
    cm, cr = cfg["tile_c"].val
    acc = s.cache_write(C, "local")
    _, o, y, x = s[C].op.axis
    oo, ob = s[C].split(o, factor=cm * cr)
    om, oi = s[C].split(ob, factor=cr)
    yo, yi = s[C].split(y, factor=cfg["tile_y"].val)
    xo, xi = s[C].split(x, factor=cfg["tile_x"].val)
    order = cfg["order"].val
    if order == "yxc":
        s[C].reorder(yo, xo, oo, om, oi, yi, xi)
        outer = xo
    else:
        s[C].reorder(oo, yo, xo, om, oi, yi, xi)
        outer = yo
    s[acc].compute_at(s[C], om)
    _, ao, ay, ax = s[acc].op.axis
    c, ky, kx = s[acc].op.reduce_axis
    if order == "kyx":
        s[acc].reorder(ky, kx, c, ao, ay, ax)
    else:
        s[acc].reorder(c, ky, kx, ao, ay, ax)
    if cfg["vectorize"].val:
        s[acc].vectorize(ax)
        s[C].vectorize(xi)
    if cfg["unroll"].val:
        for axis in (ao, ay):
            s[acc].unroll(axis)
        s[C].unroll(oi)
        s[C].unroll(yi)
    return outer


@whet.template("recorded/depthwise", version=1)
def depthwise(C: int, H: int, W: int, K: int) -> tuple:
    """A depthwise convolution, NCHW, stride 1, "same" padding, batch 1, float32."""
    p = K // 2
    D = te.placeholder((1, C, H, W), "float32", name="D")
    F = te.placeholder((C, K, K), "float32", name="F")
    padded = te.compute(
        (1, C, H + 2 * p, W + 2 * p),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= p, y < H + p, x >= p, x < W + p), D[n, c, y - p, x - p], 0.0
        ),
        name="padded",
    )
    ry = te.reduce_axis((0, K), name="ry")
    rx = te.reduce_axis((0, K), name="rx")
    O = te.compute(
        (1, C, H, W),
        lambda n, c, y, x: te.sum(padded[n, c, y + ry, x + rx] * F[c, ry, rx], axis=[ry, rx]),
        name="O",
    )
    s = te.create_schedule(O.op)
    cfg = whet.get_config()
    _, c, y, x = s[O].op.axis
    cfg.define_knob("tile_c", [1, 4])
    _splits(cfg, "tile_y", y, (1, 2, 4, 7), (1, 4))
    cfg.define_knob("tile_x", [v for v in (1, 7, 8, 14, 16, 28, 56) if v <= W])
    cfg.define_knob("pad", ["inline", "root", "plane", "tile"])
    cfg.define_knob("window", ["outer", "inner"])
    cfg.define_knob("vectorize", [False, True])
    cfg.define_knob("unroll", ["none", "window", "all"])
    acc = s.cache_write(O, "local")
    _, c, y, x = s[O].op.axis
    co, ci = s[O].split(c, factor=cfg["tile_c"].val)
    yo, ym, yi = cfg["tile_y"].apply(s, O, y)
    xo, xi = s[O].split(x, factor=cfg["tile_x"].val)
    s[O].reorder(co, yo, ci, ym, xo, yi, xi)
    s[acc].compute_at(s[O], xo)
    _, ac, ay, ax = s[acc].op.axis
    ky, kx = s[acc].op.reduce_axis
    if cfg["window"].val == "outer":
        s[acc].reorder(ky, kx, ac, ay, ax)
    else:
        s[acc].reorder(ac, ay, ky, kx, ax)
    if cfg["vectorize"].val:
        s[acc].vectorize(ax)
        s[O].vectorize(xi)
    if cfg["unroll"].val != "none":
        s[acc].unroll(ky)
        s[acc].unroll(kx)
    if cfg["unroll"].val == "all":
        s[acc].unroll(ay)
        s[O].unroll(yi)
    pad = cfg["pad"].val
    if pad == "inline":
        s[padded].compute_inline()
    elif pad != "root":
        s[padded].compute_at(s[O], {"plane": co, "tile": xo}[pad])
        if cfg["vectorize"].val:
            s[padded].vectorize(s[padded].op.axis[3])
    return s, [D, F, O]


@whet.template("recorded/softmax", version=1)
def softmax(N: int, M: int) -> tuple:
    """Softmax over rows, float32: four stages, placed and vectorised in many ways."""
    A = te.placeholder((N, M), "float32", name="A")
    k = te.reduce_axis((0, M), name="k")
    k2 = te.reduce_axis((0, M), name="k2")
    top = te.compute((N,), lambda i: te.max(A[i, k], axis=k), name="top")
    E = te.compute((N, M), lambda i, j: te.exp(A[i, j] - top[i]), name="E")
    total = te.compute((N,), lambda i: te.sum(E[i, k2], axis=k2), name="total")
    O = te.compute((N, M), lambda i, j: E[i, j] / total[i], name="O")
    s = te.create_schedule(O.op)
    cfg = whet.get_config()
    cfg.define_knob("rows", [1, 4, 16])
    cfg.define_knob("lanes_max", [1, 8, 16, 32])
    cfg.define_knob("lanes_sum", [1, 8, 16, 32])
    cfg.define_knob("lanes_out", [1, 8, 32])
    cfg.define_knob("exp", ["inline", "root", "block", "row"])
    cfg.define_knob("at", ["root", "block", "row"])
    cfg.define_knob("unroll", [1, 4])

    def lanes(tensor: Any, axis: Any, count: int) -> Any:
        """A reduction in ``count`` partial results side by side."""
        if count == 1:
            return None
        _, inner = s[tensor].split(axis, factor=count)
        part = s.rfactor(tensor, inner)
        return part[0] if isinstance(part, list) else part

    i, j = s[O].op.axis
    io, ii = s[O].split(i, factor=cfg["rows"].val)
    part_sum = lanes(total, s[total].op.reduce_axis[0], cfg["lanes_sum"].val)
    part_top = lanes(top, s[top].op.reduce_axis[0], cfg["lanes_max"].val)
    if cfg["lanes_out"].val > 1:
        _, ji = s[O].split(j, factor=cfg["lanes_out"].val)
        s[O].vectorize(ji)
    at = {"root": None, "block": io, "row": ii}[cfg["at"].val]
    for whole, part in ((total, part_sum), (top, part_top)):
        if part is not None:
            lane, row = s[part].op.axis
            (ko,) = s[part].op.reduce_axis[:1]
            s[part].reorder(row, ko, lane)
            if cfg["unroll"].val > 1:
                _, ku = s[part].split(ko, factor=cfg["unroll"].val)
                s[part].reorder(row, _, ku, lane)
                s[part].unroll(ku)
            s[part].vectorize(lane)
            if at is not None:
                s[part].compute_at(s[O], at)
        if at is not None:
            s[whole].compute_at(s[O], at)
    where = cfg["exp"].val
    if where == "inline":
        s[E].compute_inline()
    else:
        _, ej = s[E].op.axis
        if cfg["lanes_out"].val > 1:
            _, ei = s[E].split(ej, factor=cfg["lanes_out"].val)
            s[E].vectorize(ei)
        if where != "root" and at is not None:
            s[E].compute_at(s[O], io if where == "block" and cfg["at"].val == "row" else at)
    return s, [A, O]


SPACES: dict[str, tuple[str, tuple]] = {
    "matmul_square": ("recorded/matmul", (256, 256, 256)),
    "matmul_skinny": ("recorded/matmul", (16, 1024, 512)),
    "matmul_odd": ("recorded/matmul", (251, 257, 253)),
    "conv2d_3x3": ("recorded/conv2d", (64, 28, 28, 64, 3, 3)),
    "conv2d_1x1": ("recorded/conv2d", (256, 14, 14, 256, 1, 1)),
    "depthwise_3x3": ("recorded/depthwise", (64, 56, 56, 3)),
    "softmax": ("recorded/softmax", (512, 1000)),
}
"""Name of a recording -> its template and arguments."""
