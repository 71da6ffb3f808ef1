"""The methods of a buffer, by TVM's names: offsets, vectors, pointers, the flattened view."""

import emulated
import numpy as np
import pytest

import whet
from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.tir.printer import Printer


def text(x):
    return Printer().expr(x)


def test_offsets_follow_the_strides_and_the_first_element():
    i, j = tir.Var("i"), tir.Var("j")
    compact = tir.decl_buffer((3, 5), name="A")
    assert text(compact.offset_of([i, j])) == "i * 5 + j"
    assert int(compact.offset_of([2, 4])) == 14
    padded = tir.decl_buffer((3, 5), strides=(8, 1), elem_offset=2, name="P")
    assert int(padded.offset_of([2, 4])) == 2 + 16 + 4
    n = tir.SizeVar("n")
    assert text(tir.decl_buffer((3, n), name="S").offset_of([i, j])) == "i * n + j"
    with pytest.raises(ArgumentError, match="the buffer has 2 dimensions"):
        compact.offset_of([i])


def test_loads_and_stores_take_vectors_along_the_last_dimension():
    A = tir.decl_buffer((4, 8), name="A")
    assert text(A.vload([1, 0], "float32x8")) == "A[1, ramp(0, 1, 8)]"
    assert A.vload([1, 2]).dtype == "float32"
    with pytest.raises(ArgumentError, match="the buffer holds float32"):
        A.vload([0, 0], "int32x4")
    B = tir.decl_buffer((4, 8), name="B")
    body = tir.SeqStmt(tuple(B.vstore([i, 0], A.vload([3 - i, 0], "float32x8")) for i in range(4)))
    func = tir.PrimFunc((A, B), body, attrs={"global_symbol": "flip"})
    a, b = np.random.rand(4, 8).astype("f4"), np.full((4, 8), np.nan, "f4")
    driver.build(func, target="llvm")(a, b)
    np.testing.assert_array_equal(b, a[::-1])


def test_pointers_say_what_is_accessed():
    A = tir.decl_buffer((3, 5), name="A")
    whole = A.access_ptr("r")
    assert (whole.op, int(whole.args[1]), int(whole.args[2])) == ("tvm_access_ptr", 15, 1)
    part = A.access_ptr("w", offset=7)
    assert (text(part.args[0]), int(part.args[1]), int(part.args[2])) == ("A[1, 2]", 8, 2)
    assert int(A.access_ptr("rw", content_lanes=5, extent=10).args[1]) == 2
    with pytest.raises(ArgumentError, match="the mask is 'r', 'w' or 'rw'"):
        A.access_ptr("x")


def test_an_offset_of_a_pointer_is_in_elements_of_memory():
    i = tir.Var("i")
    rows = tir.decl_buffer((3, 5), strides=(8, 1), elem_offset=2, name="P")
    pointer = rows.access_ptr("r", offset=7)
    assert int(rows.offset_of(pointer.args[0].indices)) == 2 + 7
    assert int(pointer.args[1]) == 3 * 8 - 7
    columns = tir.decl_buffer((3, 5), strides=(1, tir.Var("s")), name="C")
    assert text(columns.access_ptr("r", offset=i).args[0]) == "C[i, 0]"
    apart = tir.decl_buffer((3, 5), strides=(12, 2), name="S")
    assert text(apart.access_ptr("r", offset=28).args[0]) == "S[2, 2]"
    free = tir.decl_buffer((3,), strides=(tir.Var("s"),), name="F")
    assert text(free.access_ptr("r").args[0]) == "F[0]"
    for buffer, offset in ((apart, 3), (apart, i), (free, 1)):
        with pytest.raises(ArgumentError, match=r"no multiple of the strides \("):
            buffer.access_ptr("r", offset=offset)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_pointer_into_rows_with_gaps(target):
    """memcpy reads the memory itself: the second row begins 8 elements after the first."""
    A = tir.decl_buffer((3, 5), strides=(8, 1), name="A")
    B = tir.decl_buffer((3, 5), name="B")
    rows, size = [], tir.const(20, "uint64")
    for k in range(3):
        to, source = B.access_ptr("w", offset=5 * k), A.access_ptr("r", offset=8 * (2 - k))
        rows.append(tir.Evaluate(tir.call_extern("handle", "memcpy", to, source, size)))
    func = tir.PrimFunc((A, B), tir.stmt_seq(*rows), attrs={"global_symbol": "flip"})
    a, b = np.random.rand(3, 8).astype("f4")[:, :5], np.full((3, 5), np.nan, "f4")
    whet.build(func, target=target)(a, b)
    np.testing.assert_array_equal(b, a[::-1])


def test_the_flattened_buffer_is_the_same_memory():
    A = tir.decl_buffer((3, 5), name="A", scope="shared")
    flat = A.get_flattened_buffer()
    assert [int(d) for d in flat.shape] == [15] and flat.data is A.data
    assert flat.scope() == A.scope() == "shared"
    padded = tir.decl_buffer((3, 5), strides=(8, 1))
    assert [int(d) for d in padded.get_flattened_buffer().shape] == [24]


def test_what_a_lowered_function_says_of_itself():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    raw = driver.schedule_to_module(s, [A, B], "f")["f"]
    assert raw.attrs["global_symbol"] == "f" and not raw.attrs.get("lowered")
    done = driver.lower(s, [A, B], name="f")["f"]
    assert done.attrs["global_symbol"] == "f" and done.attrs["lowered"]
    signature = done.attrs["signature"]
    assert signature.name == "f" and [p.name for p in signature.params] == ["A", "B"]


def vectors_kept(lanes, threads=False):
    """A function that keeps three vectors and stores them in the opposite order."""
    out = tir.decl_buffer((3 * lanes,), "int32", name="out")
    x = tir.decl_buffer((3,), f"int32x{lanes}", name="x", scope="local")
    numbers = [[tir.IntImm("int32", 10 * k + j) for j in range(lanes)] for k in range(3)]
    kept = [x.vstore(k, tir.Shuffle(v, list(range(lanes)))) for k, v in enumerate(numbers)]
    stored = [out.vstore([k * lanes], x.vload(2 - k)) for k in range(3)]
    body = tir.Allocate(x, tir.SeqStmt((*kept, *stored)))
    if threads:
        one = tir.IntImm("int32", 1), "thread_binding", body, {}, "threadIdx.x"
        body = tir.For(tir.Var("t"), tir.IntImm("int32", 0), *one)
    return tir.PrimFunc((out,), body, attrs={"global_symbol": "f"})


@pytest.mark.parametrize("lanes", [2, 3, 4])
@pytest.mark.parametrize("target", ["llvm", "c", "cuda -arch=sm_80"])
def test_a_buffer_may_hold_vectors(target, lanes):
    gpu = target.startswith("cuda")
    kernel = whet.build(vectors_kept(lanes, gpu), target=target)
    out = np.full(3 * lanes, 77, "int32")
    if gpu:
        (out,) = emulated.on_device(kernel, [out])
    else:
        kernel(out)
    wanted = np.array([20, 10, 0])[:, None] + np.arange(lanes)
    np.testing.assert_array_equal(out.reshape(3, lanes), wanted)


def test_several_vectors_of_a_buffer_at_a_time():
    out = tir.decl_buffer((4,), "int32", name="out")
    x = tir.decl_buffer((3,), "int32x2", name="x", scope="local")
    kept = [x.vstore(k, tir.Shuffle([10 * k, 10 * k + 1], [0, 1])) for k in range(3)]
    body = tir.Allocate(x, tir.SeqStmt((*kept, out.vstore([0], x.vload(1, "int32x4")))))
    func = tir.PrimFunc((out,), body, attrs={"global_symbol": "f"})
    got = np.full(4, 77, "int32")
    whet.build(func, target="llvm")(got)
    np.testing.assert_array_equal(got, [10, 11, 20, 21])


def test_accesses_to_a_buffer_of_vectors():
    x = tir.decl_buffer((3,), "int32x2", name="x")
    assert text(x.vload(1)) == text(x.vload(1, "int32x2")) == "x[1]"
    assert text(x.vload(0, "int32x4")) == "x[ramp(0, 1, 2)]"
    assert x.vstore(0, 5).value.dtype == "int32x2"
    for wrong in ("int32", "int32x3", "float32x2"):
        with pytest.raises(ArgumentError, match=rf"dtype={wrong}\): the buffer holds int32x2"):
            x.vload(0, wrong)
    func = tir.PrimFunc((x,), x.vstore(0, 5))
    assert "x: int32x2[3]" in str(func)
    strided = tir.decl_buffer((3,), "int32x2", "x", strides=[2])
    func = tir.PrimFunc((strided,), strided.vstore(0, 5))
    with pytest.raises(LowerError, match=r"x of int32x2: an argument of vectors has no strides"):
        whet.build(func, target="llvm")
