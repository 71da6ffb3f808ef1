"""A template with a knob of each kind, and what it saw."""

from whet.compiler import te
from whet.search_spaces import get_config, template

seen = []


@template("tests/matmul")
def matmul(N, K, M, dtype="float32"):
    """A matmul to tune."""
    A = te.placeholder((N, K), dtype, name="A")
    B = te.placeholder((K, M), dtype, name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    cfg = get_config()
    i, j = s[C].op.axis
    cfg.define_split("tile_i", i, num_outputs=2)
    cfg.define_split("tile_j", j, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_reorder("order", ["ii", "ji"], "all")
    cfg.define_annotate("ann", ["ii", "ji"], "try_unroll_vec")
    cfg.define_knob("unroll", [False, True])
    cfg.add_flop(2 * N * K * M)
    io, ii = cfg["tile_i"].apply(s, C, i)
    jo, ji = cfg["tile_j"].apply(s, C, j)
    s[C].reorder(io, jo, k, ii, ji)
    cfg["ann"].apply(s, C, cfg["order"].apply(s, C, [ii, ji]))
    seen.append((cfg["tile_i"].size, cfg["unroll"].val))
    return s, [A, B, C]
