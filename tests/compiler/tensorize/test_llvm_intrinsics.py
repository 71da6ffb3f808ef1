"""LLVM's intrinsics by name, and the bits of vectors as other vectors."""

import numpy as np
import pytest
from tensor_intrins import TARGET, fresh, poisoned

import whet
from whet import te, tir
from whet.compiler.errors import ArgumentError, CodegenError


def elementwise(body, dtype="float32", out=None, n=11):
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((n,), lambda i: body(a[i]), name="B")
    return te.create_schedule(b.op), a, b


@pytest.mark.parametrize("pure", [True, False])
def test_an_intrinsic_of_numbers(pure):
    call = tir.call_llvm_pure_intrin if pure else tir.call_llvm_intrin
    s, a, b = elementwise(lambda x: call("float32", "llvm.fma.f32", 1, x, x, x))
    s[b].vectorize(s[b].split(b.op.axis[0], 4)[1])  # its name is that of one lane: it stays a loop
    given, out = fresh(a), poisoned(b)
    whet.build(s, [a, b], TARGET)(given, out)
    wide = given.astype("float64")
    np.testing.assert_allclose(out, wide * wide + wide, rtol=1e-6)


def test_a_constant_that_an_intrinsic_demands():
    """``is_zero_poison`` of ctlz must be a constant, where LLVM is asked, too."""
    call = lambda x: tir.call_llvm_pure_intrin("int32", "llvm.ctlz.i32", 1, x, tir.const(False))  # noqa: E731
    s, a, b = elementwise(call, "int32")
    given, out = np.array([0, 1, 2, 3, 4, 255, 256, -1, 7, 8, 9], "int32"), poisoned(b)
    whet.build(s, [a, b], TARGET)(given, out)
    expected = [32 - int(x & 0xFFFFFFFF).bit_length() for x in given.tolist()]
    np.testing.assert_array_equal(out, expected)


def vectors(body, lanes, dtype="int32", out="int32", n=4):
    """A function that reads a vector, and stores what ``body`` makes of it as a vector."""
    x = tir.decl_buffer((n * lanes,), dtype, name="x")
    size = tir.decl_buffer((1,), out).dtype
    ib = tir.ir_builder.create()
    with ib.for_range(0, n, name="i") as i:
        value = body(x.vload(i * lanes, f"{dtype}x{lanes}"))
        wide = int(value.dtype.partition("x")[2] or 1)
        y = tir.decl_buffer((n * wide,), size, name="y")
        ib.emit(y.vstore(i * wide, value))
    return tir.PrimFunc([x, y], ib.get()).with_attr("global_symbol", "main")


def test_an_intrinsic_of_vectors():
    body = lambda v: tir.call_llvm_pure_intrin("int32x8", "llvm.ctpop.v8i32", 1, v)  # noqa: E731
    f = whet.build(vectors(body, 8), target=TARGET)
    given = np.random.default_rng().integers(-(2**31), 2**31, 32, "int32", endpoint=False)
    out = np.zeros(32, "int32")
    f(given, out)
    np.testing.assert_array_equal(out, [bin(x & 0xFFFFFFFF).count("1") for x in given.tolist()])


@pytest.mark.parametrize(("source", "lanes", "kind", "wide"), [
    ("int8", 64, "int32", 16), ("int32", 4, "uint8", 16), ("float32", 4, "int64", 2),
    ("float16", 8, "float32", 4), ("int64", 1, "int16", 4),
])  # fmt: skip
def test_the_bits_of_vectors(source, lanes, kind, wide):
    f = whet.build(
        vectors(lambda v: tir.reinterpret(f"{kind}x{wide}", v), lanes, source, kind),
        target=TARGET,
    )
    raw = np.random.default_rng().bytes(4 * lanes * np.dtype(source).itemsize)
    given, out = np.frombuffer(raw, source).copy(), np.zeros(4 * wide, kind)
    f(given, out)
    assert out.tobytes() == raw


def test_what_other_generators_and_names_say():
    body = lambda v: tir.reinterpret("int32x4", v)  # noqa: E731
    with pytest.raises(CodegenError, match="reinterpret int8x16 as int32x4: C code has a vector's"):
        whet.build(vectors(body, 16, "int8"), target="c")
    s, a, b = elementwise(lambda x: tir.call_llvm_intrin("float32", "llvm.fma.f32", 0, x, x, x))
    with pytest.raises(CodegenError, match="C code has no intrinsics of LLVM's"):
        whet.build(s, [a, b], "c")
    with pytest.raises(ArgumentError, match="int8x16 has 128 bits, int32x8 has 256"):
        tir.reinterpret("int32x8", tir.Var("x", "int8x16"))
    assert tir.reinterpret("int32", tir.Var("x", "float32x4")).dtype == "int32x4"
    x = tir.Var("x", "float32")
    for args, why in (
        (("float32", "fma", 0, x), "are called llvm.something"),
        (("float32", 7, 0, x), "are called llvm.something"),
        (("float32", "llvm.fma.f32"), "not the number of arguments"),
        (("float32", "llvm.fma.f32", x, x, x), "not the number of arguments"),
        (("float32", "llvm.fma.f32", 4, x, x, x), "not the number of arguments"),
    ):
        with pytest.raises(ArgumentError, match=why):
            tir.call_llvm_intrin(*args)


@pytest.mark.parametrize(("name", "dtype", "why"), [
    ("llvm.no.such", "float32", "LLVM has no intrinsic llvm.no.such"),
    ("llvm.x86.avx512.vpdpbusd.512", "int32x16", "vpdpbusd"),
])  # fmt: skip
def test_an_intrinsic_that_the_processor_has_not(name, dtype, why):
    """LLVM would end the process."""
    call = lambda v: tir.call_llvm_pure_intrin(dtype, name, 0, v, v, v)  # noqa: E731
    kind, _, lanes = dtype.partition("x")
    func = vectors(call, int(lanes or 1), kind, kind)
    with pytest.raises(CodegenError, match=f"call {name}.*: .*cannot: .*"):
        whet.build(func, target="llvm -mcpu=x86-64-v2")


def test_types_of_two_calls():
    def body(v):
        half = tir.Shuffle((v,), (0, 1), "float32x2")
        small = tir.call_llvm_pure_intrin("float32x2", "llvm.sqrt", 1, half)
        return v * tir.Shuffle((small, small), (0, 1, 2, 3), "float32x4") + (
            tir.call_llvm_pure_intrin("float32x4", "llvm.sqrt", 1, v)
        )

    with pytest.raises(CodegenError, match="it is called with other types, too"):
        whet.build(vectors(body, 4, "float32", "float32"), target=TARGET)
