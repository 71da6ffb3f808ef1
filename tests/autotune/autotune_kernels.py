"""Real kernels for tests of whole searches: small matmuls with a few knobs."""

from __future__ import annotations

from whet.compiler import te
from whet.search_spaces import get_config, template


def _matmul(n, k, m):
    a = te.placeholder((n, k), "float32", name="A")
    b = te.placeholder((k, m), "float32", name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_schedule(c.op), a, b, c


@template("test/matmul")
def matmul(n, k, m):
    """Two tiles, and whether the inner one is vectorized."""
    s, a, b, c = _matmul(n, k, m)
    cfg = get_config()
    i, j = s[c].op.axis
    (r,) = s[c].op.reduce_axis
    cfg.define_split("tile_i", i, num_outputs=2, default=(n, 1))
    cfg.define_split("tile_j", j, num_outputs=2, filter=lambda e: e.size[-1] <= 32, default=(m, 1))
    cfg.define_knob("vectorize", [False, True])
    io, ii = cfg["tile_i"].apply(s, c, i)
    jo, ji = cfg["tile_j"].apply(s, c, j)
    s[c].reorder(io, jo, r, ii, ji)
    if cfg["vectorize"].val:
        s[c].vectorize(ji)
    return s, [a, b, c]


@template("test/twins")
def twins(n):
    """Two programs in sixteen configs: one knob does nothing."""
    s, a, b, c = _matmul(n, n, n)
    cfg = get_config()
    i, j = s[c].op.axis
    (r,) = s[c].op.reduce_axis
    cfg.define_knob("order", ["ijk", "ikj"])
    cfg.define_knob("nothing", list(range(8)))
    if cfg["order"].val == "ikj":
        s[c].reorder(i, r, j)
    return s, [a, b, c]


@template("test/sometimes")
def sometimes(n):
    """One config in two raises."""
    s, a, b, c = _matmul(n, n, n)
    cfg = get_config()
    i, j = s[c].op.axis
    cfg.define_split("tile", j, num_outputs=2)
    cfg.define_knob("broken", [False, True])
    if cfg["broken"].val:
        s[c].reorder(i, s[a].op)
    cfg["tile"].apply(s, c, j)
    return s, [a, b, c]


@template("test/never")
def never(n):
    """Reads far out of its input, whatever the config."""
    a = te.placeholder((n,), "float32", name="A")
    at = te.placeholder((n,), "int64", name="at")
    b = te.compute((n,), lambda i: a[i + (1 << 40) * at[i]], name="B")
    s = te.create_schedule(b.op)
    cfg = get_config()
    cfg.define_split("tile", s[b].op.axis[0], num_outputs=2, max_factor=4)
    cfg["tile"].apply(s, b, s[b].op.axis[0])
    return s, [a, at, b]


@template("test/panels")
def panels(n, k, m, ahead=(False, True)):
    """B in panels, which are made in each call or ahead of all."""
    cfg = get_config()
    cfg.define_knob("nr", [4, 8, 16])
    cfg.define_knob("ahead", list(ahead))
    nr = cfg["nr"].val
    a = te.placeholder((n, k), "float32", name="A")
    b = te.placeholder((k, m), "float32", name="B")
    p = te.compute(
        ((m + nr - 1) // nr, k, nr),
        lambda o, r, i: te.if_then_else(o * nr + i < m, b[r, o * nr + i], 0.0),
        name="P",
    )
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * p[j // nr, r, j % nr], axis=r), name="C")
    s = te.create_schedule(c.op)
    _, ji = s[c].split(s[c].op.axis[1], factor=nr)
    s[c].reorder(*s[c].op.reduce_axis, ji)
    s[c].vectorize(ji)
    if cfg["ahead"].val:
        s[p].compute_ahead()
    return s, [a, b, c]
