"""Blocks as nodes: made by hand, visited, compared, taken away."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import matmul_relu, run

import whet
from whet import te, tir


def row_sums(reduced=tir.IterVar.CommReduce):
    """A function of a block that sums rows, with its row under a name of its own."""
    a, b = tir.decl_buffer((4, 6), name="A"), tir.decl_buffer((4,), name="B")
    row = tir.decl_buffer((6,), name="row")
    i, k = tir.Var("i", "int32"), tir.Var("k", "int32")
    vi = tir.IterVar((0, 4), tir.Var("vi", "int32"), tir.IterVar.DataPar)
    vk = tir.IterVar((0, 6), tir.Var("vk", "int32"), reduced)

    def at(*indices):
        return [tir.Range(6) if x is None else tir.Range.from_min_extent(x, 1) for x in indices]

    source = tir.BufferRegion(a, at(vi.var, None))
    block = tir.Block(
        [vi, vk],
        [source],
        [tir.BufferRegion(b, at(vi.var))],
        "sums",
        tir.BufferStore(b, b.vload(vi.var) + row.vload(vk.var), [vi.var]),
        init=tir.BufferStore(b, 1.0, [vi.var]),
        match_buffers=[tir.MatchBufferRegion(row, source)],
        annotations={"hint": 3},
    )
    body = tir.BlockRealize([i, k], k < 5, block)
    loops = tir.For(i, 0, 4, "serial", tir.For(k, 0, 6, "serial", body))
    return tir.PrimFunc([a, b], loops)


def test_a_block_by_hand_prints_and_runs():
    func = row_sums()
    assert (
        str(func.body)
        == """\
for i, k in T.grid(4, 6):
    with T.block("sums"):
        vi, vk = T.axis.remap("SR", [i, k])
        T.where(k < 5)
        T.reads(A[vi, 0:6])
        T.writes(B[vi])
        T.block_attr({"hint": 3})
        row = T.match_buffer(A[vi, 0:6], (6,), "float32")
        with T.init():
            B[vi] = T.float32(1)
        B[vi] = B[vi] + row[vk]"""
    )
    given = np.random.default_rng().standard_normal((4, 6)).astype("float32")
    want = given[:, :5].astype("float64").sum(axis=1) + 1
    np.testing.assert_allclose(run(func, [given], (4,)), want, 1e-5, 1e-5)
    np.testing.assert_allclose(
        run(tir.stmt_functor.renew_defs(func), [given], (4,)), want, 1e-5, 1e-5
    )


def test_blocks_are_compared_by_structure():
    equal = whet.ir.structural_equal
    assert equal(row_sums(), row_sums())
    assert not equal(row_sums(), row_sums(tir.IterVar.DataPar))
    func = te.create_prim_func(matmul_relu())
    other = te.create_prim_func(matmul_relu())
    assert equal(func, other)
    assert equal(func, tir.stmt_functor.renew_defs(func))
    assert not equal(func, te.create_prim_func(matmul_relu(16)))
    hashed = whet.ir.structural_hash
    assert hashed(func) == hashed(other) != hashed(row_sums())


def test_visitors_see_blocks():
    func = te.create_prim_func(matmul_relu())
    seen = []
    tir.stmt_functor.post_order_visit(
        func.body, lambda n: seen.append(n.name_hint) if isinstance(n, tir.Block) else None
    )
    assert seen == ["Y", "E", "C", "root"]

    def triple(n):
        return tir.FloatImm("float32", 3.0)

    changed = func.with_body(
        tir.stmt_functor.ir_transform(func.body, None, triple, ["tir.FloatImm"])
    )
    given = [np.zeros(s, "float32") for s in ((17, 9), (9, 13), (13,))]
    assert (run(changed, given, (17, 13)) == 3.0).all()  # the init and the bound are both 3 now


def test_sizes_that_become_known_reach_blocks():
    n = te.var("n")
    a = te.placeholder((n, 3), name="A")
    func = te.create_prim_func([a, te.compute((n, 3), lambda i, j: a[i, j] + 1.0, name="B")])
    special = func.specialize({n: 5})
    assert "for i, j in T.grid(5, 3):" in str(special)
    given = np.random.default_rng().standard_normal((5, 3)).astype("float32")
    for f in (func, special):
        np.testing.assert_array_equal(run(f, [given], (5, 3)), given + np.float32(1))


def test_the_anchor_is_the_largest_reduction():
    a = te.placeholder((8, 9), name="A")
    k, r = te.reduce_axis((0, 9), name="k"), te.reduce_axis((0, 8), name="r")
    small = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="small")
    p = te.reduce_axis((0, 9), name="p")
    large = te.compute((8, 8), lambda i, j: te.sum(a[i, p] * a[j, p] * small[i], axis=p), name="L")
    last = te.compute((1,), lambda i: te.sum(large[r, i], axis=r), name="last")
    mod = whet.IRModule({"main": te.create_prim_func([a, last])})
    assert tir.analysis.find_anchor_block(mod).name_hint == "L"
    copy = te.create_prim_func([a, te.compute((8, 9), lambda i, j: a[i, j], name="B")])
    assert tir.analysis.find_anchor_block(copy) is None
    assert tir.analysis.find_anchor_block(whet.lower(mod)) is None


def test_passes_and_checks_see_loops():
    func = te.create_prim_func(matmul_relu(4, 4, 4))
    mod = whet.IRModule({"main": func})
    simple = tir.transform.Simplify()(mod)
    assert "T.block" not in simple.script()
    assert "for k in range(4):" in simple.script()
    assert tir.analysis.estimate_flops(mod) == 4 * 4 * 4 * 2 + 2 * 16
    assert tir.analysis.verify_well_formed(func)
    assert tir.analysis.verify_ssa(func)
    assert tir.analysis.calculate_allocated_bytes(func) == {"global": 2 * 64}
    assert tir.analysis.undefined_vars(func) == []

    @tir.transform.prim_func_pass
    def blocks_as_they_are(f, mod, ctx):
        assert "T.block" in str(f)
        return f

    assert blocks_as_they_are(mod) is mod


def test_a_function_of_blocks_is_a_stage():
    args = matmul_relu(4, 5, 3)
    given = [te.placeholder(t.shape, name=f"in{k}") for k, t in enumerate(args[:-1])]
    out = te.extern_primfunc(given, te.create_prim_func(args), name="out")
    rng = np.random.default_rng()
    arrays = [rng.standard_normal(s).astype("float32") for s in ((4, 3), (3, 5), (5,))]
    made = np.full((4, 5), np.nan, "float32")
    schedule = te.create_schedule(out.op)
    whet.build(schedule, [*given, out], "llvm -num_threads=2")(*arrays, made)
    a, b, bias = (x.astype("float64") for x in arrays)
    np.testing.assert_allclose(made, np.maximum(a @ b + bias, 0), 1e-4, 1e-4)


def test_blocks_that_do_not_fit_are_refused():
    block = row_sums().body.body.body.block
    with pytest.raises(whet.ArgumentError, match="the block has 2 axes"):
        tir.BlockRealize([0], True, block)
    a, b = row_sums().params
    with pytest.raises(whet.LowerError, match="its axes have no values"):
        whet.lower(tir.PrimFunc([a, b], block))
