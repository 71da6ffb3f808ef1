"""Functions of blocks as text: what ``te.create_prim_func`` prints."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from block_programs import check, matmul_relu, run

import whet
from whet import te, tir


def test_a_product_prints_as_tvmscript():
    a = te.placeholder((128, 64), name="A")
    b = te.placeholder((64, 32), name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((128, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    text = """\
@T.prim_func
def main(A: T.Buffer((128, 64), "float32"), B: T.Buffer((64, 32), "float32"), \
C: T.Buffer((128, 32), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    # with T.block("root"):
    for i, j, k in T.grid(128, 32, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""
    func = te.create_prim_func([a, b, c])
    assert func.script() == str(func) == text
    assert whet.IRModule({"main": func}).script() == text


def test_regions_of_neighbours_of_data_and_of_tables():
    a = te.placeholder((10, 6), name="A")
    i32 = te.placeholder((8,), "int32", name="I")
    out = te.compute((8, 6), lambda i, j: a[i, j] + a[i + 2, j] + a[i32[i], 5 - j], name="O")
    block = te.create_prim_func([a, i32, out]).body.block.body.body.body.block
    first, second = block.reads
    whole = [(str(r.min), str(r.extent)) for r in first.region]
    assert (first.buffer.name, second.buffer.name) == ("A", "I")
    assert whole == [("0", "10"), ("0", "6")]
    assert [x.buffer.name for x in block.writes] == ["O"]
    near = te.compute((8, 6), lambda i, j: a[i, j] + a[i + 2, j], name="N")
    assert "T.reads(A[vi:vi + 3, vj])" in str(te.create_prim_func([a, near]))


def test_names_are_free_again_behind_their_scope():
    text = str(te.create_prim_func(matmul_relu()))
    assert text.count("for i, j in T.grid(17, 13):") == 2
    assert text.count('vi, vj = T.axis.remap("SS", [i, j])') == 2
    assert "E = T.alloc_buffer((17, 13))" in text


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_type_of_indices_is_chosen(dtype):
    n = te.var("n", "int64" if dtype == "int32" else "int32")
    a = te.placeholder((n, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    s = te.compute((n,), lambda i: te.sum(a[i, 5 - k], axis=k, where=k < 5), name="S")
    o = te.compute((n,), lambda i: te.if_then_else(i > 2, s[i] + i, 0.0), name="O")
    func = te.create_prim_func([a, o], index_dtype_override=dtype)
    ast.parse(str(func))
    found = set()

    def visit(x):
        if isinstance(x, (tir.Var, tir.IntImm)) and x.dtype.startswith("int"):
            found.add(x.dtype)

    tir.stmt_functor.post_order_visit(func.body, visit)
    loops = {x.var.dtype for x in _loops(func.body)}
    assert loops == {dtype}
    assert dtype in found
    given = np.random.default_rng().standard_normal((7, 6)).astype("float32")
    sums = given.astype("float64")[:, 1:].sum(axis=1)
    want = np.where(np.arange(7) > 2, sums + np.arange(7), 0)
    np.testing.assert_allclose(run(func, [given], (7,)), want, 1e-5, 1e-5)


def _loops(body):
    out = []
    tir.stmt_functor.post_order_visit(
        body, lambda x: out.append(x) if isinstance(x, tir.For) else 0
    )
    return out


def test_tuples_several_results_and_extern_statements():
    a = te.placeholder((5, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (
            te.if_then_else(x[1] >= y[1], x[0], y[0]),
            te.if_then_else(x[1] >= y[1], x[1], y[1]),
        ),
        lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    place, most = te.compute((5,), lambda i: argmax((k, a[i, k]), axis=k), name="M")

    def twice(ins, outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 5) as i:
            ib.emit(outs[0].vstore(i, ins[0].vload(i) * 2))
        return ib.get()

    doubled = te.extern((5,), [most], twice, dtype="float32", name="D")
    func = te.create_prim_func([a, place, most, doubled])
    text = str(func)
    ast.parse(text)
    assert 'with T.block("D"):' in text
    assert "T.reads(M_v1[0:5])" in text
    given = np.random.default_rng().standard_normal((5, 7)).astype("float32")
    for f in (func, func.with_body(tir.BlockRealize([], True, func.body.block))):
        at = np.full((5,), -9, "int32")
        high, out = np.full((2, 5), np.nan, "float32")
        whet.build(f, target="llvm -num_threads=2")(given, at, high, out)
        assert (at == given.argmax(axis=1)).all()
        np.testing.assert_array_equal(high, given.max(axis=1))
        np.testing.assert_array_equal(out, given.max(axis=1) * 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_single_elements_unit_axes_and_shifted_domains(dtype):
    a = te.placeholder((1, 9), dtype, name="A")
    k = te.reduce_axis((2, 9), name="k")
    s = te.compute((), lambda: te.sum(a[0, k], axis=k), name="S")
    o = te.compute((1, 9), lambda i, j: a[i, j] * s(), name="O")
    func = te.create_prim_func([a, o])
    text = str(func)
    ast.parse(text)
    assert "vk = T.axis.reduce((2, 9), k)" in text or "T.axis.reduce((2, 9), k + 2)" in text
    assert "S[()]" in text
    given = np.random.default_rng().standard_normal((1, 9)).astype(dtype)
    want = given.astype("float64") * given.astype("float64")[0, 2:].sum()
    check(func, [given], want, dtype)


def test_what_is_no_computation_is_refused():
    a = te.placeholder((4,), name="A")
    with pytest.raises(whet.ArgumentError, match="no tensor of it is computed"):
        te.create_prim_func([a])
    with pytest.raises(whet.ArgumentError, match="a str is no tensor"):
        te.create_prim_func([a, "B"])
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    with pytest.raises(whet.LowerError, match="the input A is not in args"):
        te.create_prim_func([b])
    with pytest.raises(whet.ArgumentError, match="an index is int32 or int64"):
        te.create_prim_func([a, b], "int8")
    with pytest.raises(ImportError, match="TVMScript is printed, not parsed"):
        __import__("whet.script")


def test_another_index_type_of_a_reduction_over_what_is_computed():
    a = te.placeholder((7, 6), name="A")
    b = te.compute((7, 6), lambda i, j: a[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 6), name="k")
    s = te.compute((7,), lambda i: te.sum(b[i, k], axis=k), name="S")
    given = np.random.default_rng().standard_normal((7, 6)).astype("float32")
    func = te.create_prim_func([a, s], index_dtype_override="int64")
    want = given.astype("float64").sum(axis=1) * 2
    np.testing.assert_allclose(run(func, [given], (7,)), want, 1e-5, 1e-5)
