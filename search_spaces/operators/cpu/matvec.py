"""The template of matrix times vector: some rows at once, lanes along the row.

    for io:                                            # a few rows
        for ko:
            T[ii, v] += A[i, ko * width + v] * x[...]  # registers; v: lanes of some vectors
        y[i] = sum over v of T[ii, v], and what is left of the row

A matrix is read once, so that memory sets the pace: rows at once are streams for the prefetcher.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

from whet.compiler import te
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.operators.arguments import operator, summed_dtype
from whet.search_spaces.operators.cpu.gemm.plan import define_threads
from whet.search_spaces.operators.cpu.gemm.stages import empty_gemm, with_epilogue
from whet.search_spaces.rules.vectors import lanes_of, vector_registers
from whet.search_spaces.space.define import DefineKnobs
from whet.search_spaces.template.config_scope import get_config


@operator("N K dtype epilogue")
def matvec(N: int, K: int, dtype: str, epilogue: Any) -> tuple[Schedule, list]:
    """``y = A @ x`` for ``A`` (N, K) and ``x`` (K,).

    Args:
        dtype: of ``A``, ``x`` and what is summed up. On GPUs also float16, which is summed up in
            float32, and int8 and uint8, whose results are int32.
        epilogue: steps of :class:`~whet.compiler.topi.nn.epilogue.Epilogue`; a bias has N numbers.
    """
    summed_dtype(f"matvec({N}, {K}, {dtype!r}) on a CPU", dtype)
    cfg = get_config()
    cfg.add_flop(2 * N * K)
    A = te.placeholder((N, K), dtype, name="A")
    x = te.placeholder((K,), dtype, name="x")
    steps = Epilogue.of(epilogue)
    if not N * K:
        return empty_gemm(A, x, (N,), lambda x, i, k: A(*i, k) * x[k], K, steps, 0, "y")
    s, out, extras = dot_products(A, x, (N,), 0, steps, 0, "y")
    return s, [A, x, *extras, out]


def dot_products(
    A: Tensor,
    x: Tensor,
    shape: tuple[int, ...],
    axis: int,
    epilogue: Epilogue,
    channel_axis: int,
    name: str,
) -> tuple[Schedule, Tensor, list[Tensor]]:
    """Each row of a matrix times a vector, under knobs that this function defines.

    Args:
        A: (N, K). x: K elements, in one or two dimensions.
        shape: of the result: N along ``axis``, else 1.
        epilogue, channel_axis: as for ``Epilogue.apply``.
        name: of the result.

    Returns:
        The schedule, the result, and what the epilogue reads.
    """
    cfg, target = get_config(), Target.current() or Target("llvm")
    N, K = (int(d) for d in A.shape)
    lanes = _lanes(target, A.dtype, K)
    _define(cfg, target, N, K, lanes)
    parallel, grain = define_threads(cfg, target, N * K)
    vectors, r, unroll = (cfg[knob].val for knob in ("vectors", "rows", "unroll_k"))
    width = vectors * lanes
    whole = K // width * width

    def vector(k: Any) -> Any:
        return x(*[k if int(d) == K else 0 for d in x.shape]) if K > 1 else x(*[0] * x.ndim)

    ko = te.reduce_axis((0, K // width), name="ko")
    T = te.compute(
        (N, width),
        lambda i, v: te.sum(A[i, ko * width + v] * vector(ko * width + v), axis=ko),
        name="T",
    )
    kv = te.reduce_axis((0, vectors), name="kv")
    V = te.compute((N, lanes), lambda i, v: te.sum(T[i, kv * lanes + v], axis=kv), name="V")
    left = None
    if whole < K:
        kt = te.reduce_axis((0, K - whole), name="kt")
        left = te.compute(
            (N,), lambda i: te.sum(A[i, whole + kt] * vector(whole + kt), axis=kt), name="left"
        )
    y = te.compute(shape, lambda *i: _total(V, left, i[axis], lanes), name=name)
    s, out, extras = with_epilogue(y, epilogue, channel_axis)
    io, ii = s[out].split(out.op.axis[axis], factor=r)
    s[out].reorder(*(a for k, a in enumerate(out.op.axis) if k != axis), io, ii)
    s[out].unroll(ii)
    for stage in (T, V, left):
        if stage is not None:
            s[stage].set_scope("local")
            s[stage].compute_at(s[out], io)
            _summed(s[stage], unroll if stage is T else 1)
    s[V].unroll(kv)
    if parallel:
        s[out].parallel(io, grain or None)
    return s, out, extras


def _define(cfg: DefineKnobs, target: Target, N: int, K: int, lanes: int) -> None:
    rows = [r for r in (1, 2, 4, 8) if r <= N]
    many = [v for v in (1, 2, 4, 8) if v == 1 or v * lanes <= K]
    cfg.define_knob("rows", rows, default=rows[-1])
    cfg.define_knob("vectors", many, default=1 if rows[-1] == 8 else min(4, many[-1]))
    cfg.define_knob("unroll_k", [1, 2, 4], default=4)
    cfg.multi_filter(partial(_fits, registers=vector_registers(target)))


def _summed(stage: Stage, unroll: int) -> None:
    """The loops of a sum: over k, with some steps unrolled, rows, and lanes."""
    i, *lane = stage.op.axis
    steps = list(stage.op.reduce_axis)
    if unroll > 1:
        steps = list(stage.split(steps[0], factor=unroll))
        stage.unroll(steps[1])
    stage.reorder(*steps, i, *lane)
    stage.unroll(i)
    if lane:
        stage.vectorize(*lane)


def _lanes(target: Target, dtype: str, K: int) -> int:
    """Lanes of a vector, a power of two that is no longer than a row."""
    lanes = lanes_of(target, dtype)
    while lanes > K:
        lanes //= 2
    return lanes


def _fits(c: Any, registers: int) -> bool:
    """Accumulators, and a vector of x for each, find registers."""
    rows, vectors = c["rows"].val, c["vectors"].val
    return rows * vectors + min(vectors, 2) + 1 <= registers


def _total(V: Tensor, left: Tensor | None, i: Any, lanes: int) -> Any:
    """The sum over a row, pair by pair."""
    parts = [V[i, v] for v in range(lanes)] + ([] if left is None else [left[i]])
    while len(parts) > 1:
        parts = [reduce(lambda a, b: a + b, parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return parts[0]
