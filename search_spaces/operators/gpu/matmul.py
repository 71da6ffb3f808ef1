"""Products of matrices on a GPU: ``matmul``, ``dense`` and ``batch_matmul``."""

from __future__ import annotations

from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.te import Schedule, Stage, Tensor
from whet.compiler.tir import IterVar
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.config_scope import get_config
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.template import schedule_graph
from whet.search_spaces.operators.cpu.arguments import BYTES
from whet.search_spaces.operators.cpu.gemm.gemm import Gemm, factors
from whet.search_spaces.operators.gpu.matvec import vector_product
from whet.search_spaces.rules.gpu.contraction.gemm import Factor, Sums, added, sizes_of, sums_of
from whet.search_spaces.rules.gpu.contraction.gemm_loops import (
    Result,
    schedule_parts,
    schedule_sums,
)
from whet.search_spaces.rules.gpu.contraction.gemm_plan import STEPS, Plan, Product, plan_of
from whet.search_spaces.rules.gpu.contraction.unreduced import without_terms
from whet.search_spaces.rules.gpu.lanes import lanes_of, of_products, summed_in


def matmul(
    N: int,
    K: int,
    M: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "float32",
    epilogue: Any = (),
    packed: bool = False,
) -> tuple[Schedule, list]:
    """``C = A @ B``; arguments as the CPU's template of this name takes them."""
    return gemm(Gemm(N, K, M, None, transpose_a, transpose_b, dtype, Epilogue.of(epilogue), packed))


def dense(
    N: int, K: int, M: int, dtype: str = "float32", epilogue: Any = (), packed: bool = False
) -> tuple[Schedule, list]:
    """Data times the transpose of weights; arguments as the CPU's template takes them."""
    names = ("data", "weight", "dense")
    return gemm(Gemm(N, K, M, None, False, True, dtype, Epilogue.of(epilogue), packed, names))


def batch_matmul(
    B: int,
    N: int,
    K: int,
    M: int,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str = "float32",
    epilogue: Any = (),
) -> tuple[Schedule, list]:
    """``C[x] = A[x] @ B[x]``; arguments as the CPU's template takes them."""
    return gemm(Gemm(N, K, M, B, transpose_a, transpose_b, dtype, Epilogue.of(epilogue)))


def gemm(g: Gemm) -> tuple[Schedule, list]:
    """The schedule of a product under the config in force.

    Raises:
        ArgumentError: ``packed``: a GPU's kernel reads its factors as they are.
    """
    refuse_packed(g.names[1], g.packed)
    cfg = get_config()
    cfg.add_flop(g.flop)
    a, b = factors(g)
    summed = summed_in(g.dtype)
    if not g.flop:
        return without_terms(a, b, (*g.lead, g.N, g.M), g.epilogue, len(g.lead) + 1, g.names[2])
    if g.dtype in BYTES:
        return _of_bytes(g, a, b)
    if g.batch is None and min(g.N, g.M) == 1:
        return _with_a_vector(g, a, b)
    target = Target.current() or Target("cuda")
    batch = g.batch or 1
    product = Product(batch, g.N, g.M, g.K, itemsize=dt.itemsize(summed))
    plan = plan_of(cfg, target, product)
    left = _factor(a, g.N, g.K, not g.transpose_a)
    right = _factor(b, g.M, g.K, g.transpose_b)
    sums = sums_of(left, right, g.lead, (), g.K, plan, summed)
    total = added(sums, plan)
    plain = te.compute((*g.lead, g.N, g.M), lambda *i: total(*i), name=g.names[2])
    out, extras = g.epilogue.apply(plain, len(g.lead) + 1, stored=g.dtype)
    s = te.create_schedule(out.op)
    if out.op is not plain.op:
        s[plain].compute_inline()
    store_product(s, sums, plan, total, out)
    return s, [a, b, *extras, out]


def _of_bytes(g: Gemm, a: Tensor, b: Tensor) -> tuple[Schedule, list]:
    """A product of bytes, as a graph: the rules make words of them."""
    kind, stored = of_products(g.dtype)
    k = te.reduce_axis((0, g.K), name="k")

    def element(*index: Any) -> Any:
        left, right = _elements(g, a, b, index, k)
        return te.sum(left.astype(kind) * right.astype(kind), axis=k)

    plain = te.compute((*g.lead, g.N, g.M), element, name=g.names[2])
    out, extras = g.epilogue.apply(plain, len(g.lead) + 1, stored=stored)
    return schedule_graph(ComputeGraph([out], [a, b, *extras, out]))


def _elements(g: Gemm, a: Tensor, b: Tensor, index: tuple, k: Any) -> tuple[Any, Any]:
    """What is multiplied at a step of the sum."""
    *x, i, j = index
    left = a(*x, k, i) if g.transpose_a else a(*x, i, k)
    return left, b(*x, j, k) if g.transpose_b else b(*x, k, j)


def _with_a_vector(g: Gemm, a: Tensor, b: Tensor) -> tuple[Schedule, list]:
    """A product of which one factor is a vector."""

    def factors(index: tuple, k: Any) -> tuple[Any, Any]:
        return _elements(g, a, b, index, k)

    return vector_product(a, b, (g.N, g.M), factors, g.K, g.epilogue, 1, g.names[2])


def refuse_packed(name: str, packed: bool) -> None:
    """An error where weights were to be packed ahead of a GPU's kernel."""
    if packed:
        raise ArgumentError(
            f"packed=True of {name} for a GPU",
            "its kernels copy tiles of a factor into shared memory as they are, packed or not",
            "leave packed out: packed=False",
        )


def _factor(t: Tensor, extent: int, steps: int, along_steps: bool) -> Factor:
    """A factor of which either the steps or the places lie side by side."""
    many = lanes_of(t.dtype, *((steps, STEPS[0]) if along_steps else (extent, 8)))

    def read(x: tuple, outer: tuple, place: Any, step: Any, lane: Any) -> Any:
        return t(*x, place, step * many + lane) if along_steps else t(*x, step, place * many + lane)

    return Factor(t.name, extent, many, along_steps, read)


def _columns(stage: Stage, plan: Plan, columns: int) -> tuple[IterVar, IterVar | None]:
    """The loop over columns, or over vectors of them and the loop of a vector's lanes."""
    if plan.column_run > 1 and columns % plan.column_run == 0:
        whole, lanes = stage.split(stage.op.axis[-1], factor=plan.column_run)
        return whole, lanes
    return stage.op.axis[-1], None


def store_product(s: Schedule, sums: Sums, plan: Plan, total: Tensor, out: Tensor) -> None:
    """Store what ``total`` has of the sums in ``out``, ``[*lead, rows, columns]``."""
    if sums.partial is None:
        store_rows(s, sums, plan, out)
        return
    store_rows(s, sums, plan, sums.partial)
    j, lanes = _columns(s[out], plan, sizes_of(out)[-1])
    schedule_parts(s, total, s[out], (*s[out].op.axis[:-1], j), lanes)


def store_rows(s: Schedule, sums: Sums, plan: Plan, out: Tensor) -> None:
    """Store the sums in ``out``, ``[*lead, rows, columns]``."""
    stage = s[out]
    *lead, i, _ = stage.op.axis
    *counts, rows, columns = sizes_of(out)
    j, lanes = _columns(stage, plan, columns)
    front = list(zip(lead, counts, strict=True))
    schedule_sums(s, sums, plan, Result(stage, front, i, j, lanes, (rows, columns)))
