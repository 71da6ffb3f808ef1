"""Dtypes by all their names, numbers of numpy's in expressions, constants as dictionary keys."""

import ml_dtypes
import numpy as np
import pytest

import whet
from whet import te, tir, topi
from whet.compiler.arith.keys import structural_key
from whet.compiler.errors import ArgumentError
from whet.compiler.tir.stmt import AssertStmt, BufferStore, Evaluate, For, IfThenElse, LetStmt

USUAL = {
    "float": "float32",
    "int": "int32",
    "uint": "uint32",
    "bfloat": "bfloat16",
    "uint1": "bool",
    "floatx4": "float32x4",
    np.float16: "float16",
    np.dtype("int8"): "int8",
    ml_dtypes.bfloat16: "bfloat16",
}
SCALARS = [name for name, usual in USUAL.items() if "x" not in usual]


def run(output, *pairs):
    """The result of a computation, from its inputs with their values."""
    s = te.create_schedule(output.op)
    f = whet.build(s, [p for p, _ in pairs] + [output], "llvm")
    shape = tuple(int(d) for d in output.shape)
    kind = ml_dtypes.bfloat16 if output.dtype == "bfloat16" else output.dtype
    out = np.full(shape, 77, kind)
    f(*[value for _, value in pairs], out)
    return out


@pytest.mark.parametrize("name", USUAL, ids=str)
def test_a_dtype_has_its_usual_name_wherever_it_enters(name):
    usual = USUAL[name]
    assert tir.const(1, name).dtype == usual
    if name in SCALARS:
        assert whet.nd.empty((2,), name).dtype == usual
    assert tir.Cast(name, tir.const(1)).dtype == usual
    assert te.var("x").astype(name).dtype == usual or "x" in usual
    assert tir.Var("x", name).dtype == usual
    assert tir.Call(name, "f", ()).dtype == usual
    assert tir.call_extern(name, "f").dtype == usual


@pytest.mark.parametrize("name", SCALARS, ids=str)
def test_a_tensors_dtype_has_its_usual_name(name):
    usual = USUAL[name]
    A = te.placeholder((3,), name, name="A")
    assert A.dtype == tir.decl_buffer((3,), name).dtype == te.var("x", name).dtype == usual
    assert te.compute((3,), lambda i: i.astype(name)).dtype == usual
    assert topi.cast(A, name).dtype == topi.full((3,), name, 1).dtype == usual
    assert te.min_value(name).dtype == te.max_value(name).dtype == usual
    imm = tir.FloatImm if "float" in usual else tir.IntImm
    assert imm(name, 1).dtype == usual


def test_bare_names_compute_what_the_usual_ones_do():
    rng = np.random.default_rng()
    a = rng.standard_normal(7) * 100
    A = te.placeholder((7,), "float64", name="A")
    whole = te.compute((7,), lambda i: tir.Cast("int", A[i]))
    assert np.array_equal(run(whole, (A, a)), a.astype("int32"))
    narrow = te.compute((7,), lambda i: A[i].astype("float") * tir.const(2, "float"))
    assert np.array_equal(run(narrow, (A, a)), a.astype("float32") * 2)
    k = te.reduce_axis((0, 7), name="k")
    least = te.compute((1,), lambda i: te.min(A[k].astype("int"), axis=k))
    assert run(least, (A, a))[0] == a.astype("int32").min()


@pytest.mark.parametrize("name", ["double", "half", "int33", "float32y4", "float32x0", "", float])
def test_what_is_no_dtype_is_refused(name):
    for made in (lambda: tir.Cast(name, 1), lambda: tir.Var("x", name), lambda: tir.const(1, name)):
        with pytest.raises(ArgumentError, match="there is no such data type"):
            made()


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.1),
        np.float32(0.1),
        np.float16(0.5),
        np.uint8(200),
        np.int64(3),
        np.uint64(2**63),
        np.bool_(True),
        np.array(3, "int16"),
        np.array(0.25),
        ml_dtypes.bfloat16(1.5),
    ],
    ids=lambda v: f"{v.dtype}",
)
def test_a_constant_of_numpys_keeps_its_type(value):
    for constant in (te.const(value), tir.const(value)):
        assert constant.dtype == str(value.dtype)
        assert constant.value == value.item()
    out = te.compute((3,), lambda i: te.const(value), name="out")
    assert (run(out) == value).all() and out.dtype == str(value.dtype)


def test_a_float64_constant_is_not_rounded():
    A = te.placeholder((3,), "float64", name="A")
    a = np.random.default_rng().standard_normal(3)
    out = te.compute((3,), lambda i: A[i] * te.const(np.float64(0.1)))
    assert np.array_equal(run(out, (A, a)), a * 0.1)


OPERATORS = {
    "+": (lambda x, y: x + y, np.add),
    "-": (lambda x, y: x - y, np.subtract),
    "*": (lambda x, y: x * y, np.multiply),
    "<": (lambda x, y: x < y, np.less),
    "==": (lambda x, y: x == y, np.equal),
    "!=": (lambda x, y: x != y, np.not_equal),
    "max": (te.max, np.maximum),
}
NUMBERS = [
    np.float64(0.5),
    np.float32(0.5),
    np.float16(2),
    np.int8(3),
    np.int64(3),
    np.array(3, "uint8"),
    ml_dtypes.bfloat16(2),
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda v: f"{v.dtype}")
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_numbers_of_numpys_on_both_sides(dtype, operator, number):
    ours, theirs = OPERATORS[operator]
    a = np.random.default_rng().integers(-5, 5, 6).astype(dtype)
    A = te.placeholder((6,), dtype, name="A")
    value = np.float64(number.item())
    left = te.compute((6,), lambda i: ours(number, A[i]).astype("float64"), name="left")
    right = te.compute((6,), lambda i: ours(A[i], number).astype("float64"), name="right")
    assert np.array_equal(run(left, (A, a)), theirs(value, a.astype("float64")))
    assert np.array_equal(run(right, (A, a)), theirs(a.astype("float64"), value))
    assert ours(te.var("x", "int32"), np.float64(0.5)).dtype in ("float64", "bool")


def test_a_number_of_numpys_beside_a_bool_keeps_its_type():
    A = te.placeholder((2,), "bool", name="A")
    assert (A[0] * np.int64(2**33)).dtype == (np.int64(3) + A[0]).dtype == "int64"
    assert (A[0] * np.uint8(200)).dtype == "int32"  # what arithmetic on bools has anyway
    out = run(
        te.compute((2,), lambda i: A[i] * np.int64(3) * 2**31, name="out"), (A, np.ones(2, bool))
    )
    np.testing.assert_array_equal(out, [3 * 2**31] * 2)


def test_bits_on_both_sides():
    a = np.arange(5, dtype="int32")
    A = te.placeholder((5,), "int32", name="A")
    for ours in (
        lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y,
        lambda x, y: x << y, lambda x, y: x >> y,
    ):  # fmt: skip
        for number in (6, np.int64(6), np.uint8(6)):
            left = te.compute((5,), lambda i: ours(number, A[i]))  # noqa: B023
            assert np.array_equal(run(left, (A, a)), ours(int(number), a))


def test_nodes_take_numbers_where_they_take_expressions():
    i = te.var("i")
    for number in (2**31 - 1, np.int32(7), np.int64(2**31 - 1), True, 2.5, np.float32(2.5)):
        assert isinstance(tir.Cast("int64", number).value, tir.PrimExpr)
        assert all(
            isinstance(x, tir.PrimExpr) for x in tir.Call("float32", "pow", (number, i)).args
        )
    buffer = tir.decl_buffer((8,), "float32")
    store = BufferStore(buffer, np.float64(1.5), (np.int64(3),))
    assert store.value.dtype == "float32" and isinstance(store.indices[0], tir.IntImm)
    loop = For(i, np.int64(0), np.int32(8), "serial", store)
    assert isinstance(loop.min, tir.IntImm) and isinstance(loop.extent, tir.IntImm)
    assert LetStmt(i, np.int64(3), store).value.dtype == "int32"
    assert isinstance(Evaluate(np.int64(0)).value, tir.IntImm)
    for made in (tir.Not(True).a, IfThenElse(True, store).condition):
        assert isinstance(made, tir.IntImm) and made.dtype == "bool"
    assert isinstance(AssertStmt(np.bool_(True), "no", store).condition, tir.IntImm)
    assert type(tir.IntImm("int32", np.int64(3)).value) is int
    assert type(tir.FloatImm("float32", 3).value) is float


def test_a_cast_of_a_number_times_an_axis():
    out = te.compute((5,), lambda i: tir.Cast("int64", 2**31 - 1) * i, name="out")
    assert np.array_equal(run(out), np.arange(5) * (2**31 - 1))


def test_what_is_no_constant_is_refused():
    for made in (
        lambda: tir.IntImm("float32", 1),
        lambda: tir.IntImm("int32", "one"),
        lambda: tir.FloatImm("int32", 1.0),
        lambda: tir.FloatImm("float32", "one"),
    ):
        with pytest.raises(ArgumentError):
            made()


def test_equal_constants_hash_alike():
    for one, other in (
        (tir.IntImm("int32", 1), tir.IntImm("int32", 1)),
        (tir.IntImm("int32", 300), tir.IntImm("int64", 300)),
        (tir.IntImm("int32", -7), -7),
        (tir.FloatImm("float32", 0.5), tir.FloatImm("float64", 0.5)),
        (tir.FloatImm("float32", 0.5), 0.5),
        (tir.FloatImm("float32", 2.0), tir.IntImm("int32", 2)),
        (tir.StringImm("a"), tir.StringImm("a")),
        (tir.StringImm("a"), "a"),
    ):
        assert one == other and other == one and (one != other) is not True
        assert hash(one) == hash(other)
        assert {one: "found"}[other] == "found" and len({one, other}) == 1
    assert tir.StringImm("a") != tir.StringImm("b")
    assert len({tir.IntImm("int32", 1), tir.IntImm("int32", 2), tir.FloatImm("float32", 1.5)}) == 3


def test_other_nodes_equal_themselves_only():
    i, j = te.var("i"), te.var("i")
    assert len({i, j, i + 1, i + 1}) == 4
    assert {i: 1}[i] == 1 and j not in {i: 1}


@pytest.mark.parametrize("shape", [(3,), (16,)], ids=["scalars", "vectors"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_negative_zero_keeps_its_sign_after_a_zero(shape, dtype):
    for zero in (0.0, -0.0, 0.0):
        full = topi.full(shape, dtype, zero)
        s = topi.x86.schedule_injective(full)
        out = np.full(shape, 77, dtype)
        whet.build(s, [full], "llvm")(out)
        assert np.array_equal(np.signbit(out), np.signbit(np.full(shape, zero)))


def test_quotients_by_both_zeros_are_not_one():
    """1/0 + 1/-0 is no number; taken for one subexpression, it would be infinite."""
    A = te.placeholder((5,), "float32", name="A")

    def twice(i):
        long = te.exp(A[i] * 3.0 + 1.0) * A[i]
        return long / tir.const(0.0, "float32") + long / tir.const(-0.0, "float32")

    B = te.compute((5,), twice, name="B")
    assert np.isnan(run(B, (A, np.ones(5, "float32")))).all()
    x = tir.const(0.0, "float32"), tir.const(-0.0, "float32")
    assert structural_key(x[0] + A[0]) != structural_key(x[1] + A[0])
