"""Numbers of every type in generated C: they wrap, divide and round as the types say."""

import subprocess
from functools import partial

import numpy as np
import pytest
from c_kernels import build_c, lowered, text_of

from whet.compiler import te, tir
from whet.compiler.codegen.c import generate
from whet.compiler.codegen.c.compile import compile_text
from whet.compiler.codegen.c.dialect import short_text
from whet.compiler.errors import CodegenError, KernelError, TargetError
from whet.compiler.target import Target
from whet.compiler.tir.ops import ops

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def numpy_type(dtype):
    if dtype == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(dtype)


def extremes(dtype):
    """The least and the greatest values, and some between them."""
    info = np.iinfo(dtype)
    some = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 100]
    return np.array(some + ([] if info.min == 0 else [-1, -2, -3, -7, -100]), dtype)


def pairs(dtype):
    a = extremes(dtype)
    x, y = np.meshgrid(a, a)
    return x.reshape(-1).copy(), y.reshape(-1).copy()


def binary(f, dtype, out=None, vector=False):
    """``f`` of two arrays, element by element, as a kernel."""
    n = te.size_var("n")
    A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    C = te.compute((n,), lambda i: f(A[i], B[i]), name="C")
    assert out in (None, C.dtype)
    s = te.create_schedule(C.op)
    if vector:
        _, inner = s[C].split(C.op.axis[0], 16)
        s[C].vectorize(inner)
    return s, [A, B, C]


def run(f, a, b, out):
    c = np.full(a.shape, 1, out)
    f(a, b, c)
    return c


@pytest.mark.parametrize("vector", (False, True), ids=("scalar", "vector"))
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integers_wrap(dtype, vector):
    a, b = pairs(dtype)
    f = build_c(*binary(lambda x, y: (x + y) * x - y * 3, dtype, vector=vector))
    with np.errstate(over="ignore"):
        want = (a + b) * a - b * np.array(3, dtype)
    np.testing.assert_array_equal(run(f, a, b, dtype), want)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_divisions_round_down_or_towards_zero_and_zero_gives_zero(dtype):
    a, b = pairs(dtype)
    safe = np.where(b == 0, 1, b).astype(dtype)
    with np.errstate(over="ignore"):
        down = np.where(b == 0, 0, np.floor_divide(a, safe)).astype(dtype)
        rest = np.where(b == 0, 0, np.mod(a, safe)).astype(dtype)
        towards = np.where(b == 0, 0, a - np.fmod(a, safe)).astype(dtype)
        towards = np.where(b == 0, 0, np.floor_divide(towards, safe)).astype(dtype)
        fmod = np.where(b == 0, 0, np.fmod(a, safe)).astype(dtype)
    n = te.size_var("n")
    A, B = te.placeholder((n,), dtype, name="A"), te.placeholder((n,), dtype, name="B")
    divisions = (te.floordiv, te.floormod, ops.truncdiv, ops.truncmod)
    outs = [te.compute((n,), partial(lambda g, i: g(A[i], B[i]), g), name="D") for g in divisions]
    f = build_c(te.create_schedule([o.op for o in outs]), [A, B, *outs])
    made = [np.full(a.shape, 1, dtype) for _ in outs]
    f(a, b, *made)
    for got, want in zip(made, (down, rest, towards, fmod)):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ("int8", "int32", "int64", "uint8", "uint32"))
def test_bits_and_shifts(dtype):
    a, b = pairs(dtype)
    f = build_c(*binary(lambda x, y: ((x & y) | (x >> 2)) ^ (y << 3) ^ ~x, dtype))
    np.testing.assert_array_equal(run(f, a, b, dtype), ((a & b) | (a >> 2)) ^ (b << 3) ^ ~a)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_comparisons_and_choices(dtype):
    a, b = pairs(dtype)
    f = build_c(
        *binary(
            lambda x, y: te.select(te.any(x < y, x.equal(1)), te.max(x, y), te.min(x, 5)), dtype
        )
    )
    want = np.where((a < b) | (a == 1), np.maximum(a, b), np.minimum(a, np.array(5, dtype)))
    np.testing.assert_array_equal(run(f, a, b, dtype), want)


@pytest.mark.parametrize("vector", (False, True), ids=("scalar", "vector"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_round_after_each_operation(dtype, vector):
    kind = numpy_type(dtype)
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(500) * 10.0 ** rng.integers(-3, 4, 500) for _ in range(2))
    a, b = a.astype(kind), b.astype(kind)
    f = build_c(*binary(lambda x, y: (x + y) * x - y / 3, dtype, vector=vector))
    got = run(f, a, b, kind)
    with np.errstate(over="ignore", invalid="ignore"):
        want = (a + b) * a - b / kind.type(3)
    np.testing.assert_array_equal(got.astype("f8"), want.astype("f8"))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_all_16_bit_floats_go_there_and_back(dtype):
    kind = numpy_type(dtype)
    n = 1 << 16
    A = te.placeholder((n,), dtype, name="A")
    W = te.compute((n,), lambda i: A[i].astype("float32"), name="W")
    B = te.compute((n,), lambda i: W[i].astype(dtype), name="B")
    f = build_c(te.create_schedule(B.op), [A, W, B])
    a = np.arange(n, dtype="u2").view(kind)
    w, b = np.empty(n, "f4"), np.empty(n, kind)
    f(a, w, b)
    np.testing.assert_array_equal(w, a.astype("f4"))
    real = ~np.isnan(w)
    np.testing.assert_array_equal(b.view("u2")[real], a.view("u2")[real])
    assert np.isnan(b.astype("f4")[~real]).all()


@pytest.mark.parametrize("source_type", ("float32", "float64", "int32"))
@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
def test_rounding_to_16_bits(dtype, source_type):
    kind = numpy_type(dtype)
    rng = np.random.default_rng(1)
    if source_type == "int32":
        a = np.concatenate([np.arange(-5000, 5000), [65503, 65504, 65519, 65520, 70000]])
    else:
        near = np.arange(1, 0x7C00, 7, dtype="u2").view("f2").astype(source_type)
        middle = (near[:-1] + near[1:]) / 2  # ties, and a bit beside them
        a = np.concatenate(
            [middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), [1e30, -1e-30]]
        )
        a = np.concatenate([a, -a, rng.standard_normal(999) * 1e-6])
    a = a.astype(source_type)
    A = te.placeholder(a.shape, source_type, name="A")
    B = te.compute(a.shape, lambda i: A[i].astype(dtype), name="B")
    b = np.empty(a.shape, kind)
    build_c(te.create_schedule(B.op), [A, B])(a, b)
    if (dtype, source_type) == ("bfloat16", "float64"):  # numpy's type rounds twice there
        for step in (-1, 1):
            other = (b.view("u2") + np.uint16(step % 65536)).view(kind).astype("f8")
            assert (np.abs(b.astype("f8") - a) <= np.abs(other - a)).all()
        return
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(b.astype("f8"), a.astype(kind).astype("f8"))


def test_conversions_between_types():
    A = te.placeholder((9,), "float64", name="A")
    kinds = ("int8", "int32", "int64", "float32", "bool")
    outs = [te.compute((9,), partial(lambda k, i: A[i].astype(k), k), name=k) for k in kinds]
    f = build_c(te.create_schedule([o.op for o in outs]), [A, *outs])
    a = np.array([0, 1.5, -1.5, 100.99, -100.99, 0.1, -0.1, 2.0**-60, -0.0])
    made = [np.full(9, 1, k) for k in kinds]
    f(a, *made)
    for k, got in zip(kinds, made):
        np.testing.assert_array_equal(got, a.astype(k), err_msg=k)


FUNCTIONS = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin,
    "floor": np.floor, "round": np.round, "ceil": np.ceil, "trunc": np.trunc,
    "log2": np.log2, "cosh": np.cosh,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ("float16", "float32", "float64"))
def test_functions(dtype):
    A = te.placeholder((64,), dtype, name="A")
    outs = [
        te.compute((64,), partial(lambda f, i: getattr(te, f)(A[i]), f), name=f"F{f}")
        for f in FUNCTIONS
    ]
    g = te.compute(
        (64,), lambda i: te.sigmoid(A[i]) + te.rsqrt(A[i]) + te.power(A[i], 2.5), name="g"
    )
    kernel = build_c(te.create_schedule([o.op for o in (*outs, g)]), [A, *outs, g])
    a = np.random.default_rng(5).uniform(0.1, 4, 64).astype(dtype)
    made = [np.full(64, np.nan, dtype) for _ in range(len(outs) + 1)]
    kernel(a, *made)
    rtol = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-12}[dtype]
    for got, name in zip(made, FUNCTIONS):
        np.testing.assert_allclose(got, FUNCTIONS[name](a), rtol=rtol, atol=rtol, err_msg=name)
    wide = a.astype("f8")
    want = 1 / (1 + np.exp(-wide)) + wide**-0.5 + wide**2.5
    np.testing.assert_allclose(made[-1], want, rtol=max(rtol, 1e-5))


def test_not_a_number_and_infinity():
    A = te.placeholder((4,), name="A")
    inf, nan = te.const(float("inf"), "float32"), te.const(float("nan"), "float32")
    B = te.compute((4,), lambda i: te.select(te.isnan(A[i]), -inf, te.min(A[i], inf)), name="B")
    C = te.compute((4,), lambda i: te.select(A[i] > 1, nan, A[i]), name="C")
    f = build_c(te.create_schedule([B.op, C.op]), [A, B, C])
    a = np.array([np.nan, np.inf, -np.inf, 0.5], "f4")
    b, c = np.zeros(4, "f4"), np.zeros(4, "f4")
    f(a, b, c)
    np.testing.assert_array_equal(b, np.array([-np.inf, np.inf, -np.inf, 0.5], "f4"))
    np.testing.assert_array_equal(c, np.array([np.nan, np.nan, -np.inf, 0.5], "f4"))


@pytest.mark.parametrize(
    "value", [0.1, 1 / 3, 1e-30, 3.4028235e38, 5e-324, 123456.789, 0.5, 1e22, -2.75]
)
def test_constants_keep_all_bits(value):
    text = short_text(value)
    assert (float.fromhex(text) if "0x" in text else float(text)) == value
    A = te.placeholder((1,), "float64", name="A")
    B = te.compute((1,), lambda i: A[i] * 0.0 + te.const(value, "float64"), name="B")
    b = np.zeros(1)
    build_c(te.create_schedule(B.op), [A, B])(np.ones(1), b)
    assert b[0] == value


# nodes by hand


def load(b, *indices):
    return tir.BufferLoad(b, tuple(ops.convert(i) for i in indices), b.dtype)


def store(b, value, *indices):
    return tir.BufferStore(b, ops.convert(value), tuple(ops.convert(i) for i in indices))


def loop(var, n, body, kind="serial"):
    return tir.For(var, ops.const(0), ops.convert(n), kind, body, {}, "")


def test_a_let_under_a_condition_is_computed_only_there():
    A, B = tir.decl_buffer(5, name="A"), tir.decl_buffer(9, name="B")
    i, x = tir.Var("i"), tir.Var("x", "float32")
    inside = tir.Let(x, load(A, i), x * x, "float32")
    value = tir.Call("float32", "if_then_else", (i < 5, inside, ops.const(-1.0, "float32")))
    f = build_c(tir.PrimFunc((A, B), loop(i, 9, store(B, value, i))))
    a, b = np.arange(5, dtype="f4"), np.full(9, np.nan, "f4")
    f(a, b)
    np.testing.assert_array_equal(b, [0, 1, 4, 9, 16, -1, -1, -1, -1])


def test_shuffles_and_vectors_in_variables():
    A, B = tir.decl_buffer(8, name="A"), tir.decl_buffer(4, name="B")
    v = tir.Var("v", "float32x4")
    low = tir.BufferLoad(A, (tir.Ramp(ops.const(0), 1, 4, "int32x4"),), "float32x4")
    high = tir.BufferLoad(A, (tir.Ramp(ops.const(4), 1, 4, "int32x4"),), "float32x4")
    mixed = tir.Shuffle((v, high), (7, 0, 5, 2), "float32x4")
    at = tir.Ramp(ops.const(0), 1, 4, "int32x4")
    f = build_c(tir.PrimFunc((A, B), tir.LetStmt(v, low + low, tir.BufferStore(B, mixed, (at,)))))
    a, b = np.arange(8, dtype="f4"), np.full(4, np.nan, "f4")
    f(a, b)
    np.testing.assert_array_equal(b, [7, 0, 5, 4])


def test_a_vector_that_reads_what_it_writes_reads_it_before():
    A = tir.decl_buffer(9, name="A")
    to, at = tir.Ramp(ops.const(1), 1, 8, "int32x8"), tir.Ramp(ops.const(0), 1, 8, "int32x8")
    body = tir.BufferStore(A, tir.BufferLoad(A, (at,), "float32x8"), (to,))
    a = np.arange(9, dtype="f4")
    build_c(tir.PrimFunc((A,), body))(a)
    np.testing.assert_array_equal(a, [0, 0, 1, 2, 3, 4, 5, 6, 7])


def test_loops_of_one_name_are_two_places():
    A, x, y = tir.decl_buffer(10, name="A"), tir.Var("i"), tir.Var("i")
    to, at = (tir.Ramp(v * 2, 1, 4, "int32x4") for v in (x, y))
    move = tir.BufferStore(A, tir.BufferLoad(A, (at,), "float32x4"), (to,))
    a, expected = np.arange(10, dtype="f4"), np.arange(10, dtype="f4")
    for i, j in np.ndindex(2, 2):
        expected[2 * i : 2 * i + 4] = expected[2 * j : 2 * j + 4].copy()
    build_c(tir.PrimFunc((A,), loop(x, 2, loop(y, 2, move))))(a)
    np.testing.assert_array_equal(a, expected)


def test_an_assertion_frees_memory_and_names_its_numbers():
    A, n = tir.decl_buffer(6, "int32", "A"), tir.SizeVar("n")
    N, W = tir.decl_buffer((n,), name="N"), tir.decl_buffer((n,), name="W")
    i = tir.Var("i")
    check = tir.AssertStmt(load(A, i) >= 0, "A[{0}] is {1} */", store(A, 1, i), (i, load(A, i)))
    body = tir.Allocate(W, tir.SeqStmt((store(W, 0.0, 0), loop(i, 6, check))))
    f = build_c(tir.PrimFunc((A, N), body), flags=("-Wall", "-Wextra", "-Werror", "-Wno-unused"))
    a = np.zeros(6, "i4")
    f(a, np.zeros(3, "f4"))
    assert (a == 1).all()
    a[4] = -9
    with pytest.raises(KernelError, match=r"kernel\(\): A\[4\] is -9"):
        f(a, np.zeros(3, "f4"))


def test_packed_functions_are_called_and_their_exceptions_come_back():
    import whet

    seen = []

    def collect(array, number, text):
        seen.append((array.numpy().copy(), number, text))
        if number == 2:
            raise ValueError("two is too many")

    whet.register_func("test_c.collect", collect, override=True)
    A, i = tir.decl_buffer((2, 3), name="A"), tir.Var("i")
    call = tir.call_packed("test_c.collect", A, i, 'say "hi" \\ ?')
    body = tir.SeqStmt((store(A, 5.0, 1, 2), loop(i, 3, tir.Evaluate(call))))
    f = build_c(tir.PrimFunc((A,), body))
    with pytest.raises(ValueError, match="two is too many"):
        f(np.zeros((2, 3), "f4"))
    assert [(n, t) for _, n, t in seen] == [(k, 'say "hi" \\ ?') for k in range(3)]
    assert seen[0][0][1, 2] == 5.0
    assert seen[0][0].shape == (2, 3)


def test_c_functions_are_declared_and_called():
    A, i = tir.decl_buffer(4, "int32", "A"), tir.Var("i")
    value = tir.call_extern("int32", "toupper", ops.add(i, 97))
    f = build_c(tir.PrimFunc((A,), loop(i, 4, store(A, value, i))))
    a = np.zeros(4, "i4")
    f(a)
    assert bytes(a.astype("u1")) == b"ABCD"


# what stands alone, and what is refused


@pytest.mark.parametrize("dtype", ("int8", "int32", "int64"))
def test_no_undefined_behaviour(dtype, tmp_path):
    """A program around the kernel, under the sanitizers of the compiler."""
    s, args = binary(
        lambda x, y: (x + y) * x - te.floordiv(y, x) + te.floormod(x, y) + (x << 3),
        dtype,
        vector=True,
    )
    a, b = pairs(dtype)
    count = len(a)
    numbers = [", ".join(f"({x + 1}LL - 1)" for x in v.tolist()) for v in (a, b)]
    main = f"""
int main(void)
{{
    static {dtype}_t a[] = {{{numbers[0]}}}, b[] = {{{numbers[1]}}}, c[{count}];
    if (kernel__raw(a, b, c, {count}) != 0) return 1;
    return c[{count} - 1] == 0 && c[0] == 1;
}}
"""
    program = tmp_path / "program.c"
    program.write_text(text_of(s, args) + main)
    made = [
        "cc", "-std=c99", "-O1", "-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all",
        str(program), "-o", str(tmp_path / "program"), "-lm",
    ]  # fmt: skip
    subprocess.run(made, check=True, capture_output=True)
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_compiler_that_does_not_exist():
    s, args = binary(lambda x, y: x + y, "float32")
    with pytest.raises(TargetError, match=r"no 'icc-99' on the PATH\n.*Target\('c -cc=gcc'\)"):
        generate(lowered(s, args), Target("c -cc=icc-99"))


def test_what_the_compiler_says_is_in_the_error():
    with pytest.raises(CodegenError, match=r"it ended with 1\n(.|\n)*kernel\.c:1:.*error"):
        compile_text("int f(void) { return nothing; }\n")


def test_a_half_as_an_argument_is_refused():
    a = te.var("a", "float16")
    A = te.placeholder((3,), "float16", name="A")
    B = te.compute((3,), lambda i: A[i] * a, name="B")
    with pytest.raises(
        CodegenError, match=r"the argument a: C99 cannot pass.*float16\n.*pass float32"
    ):
        text_of(te.create_schedule(B.op), [A, a, B])


def test_an_intrinsic_that_nobody_knows():
    A, i = tir.decl_buffer(4, name="A"), tir.Var("i")
    body = loop(i, 4, store(A, tir.Call("float32", "frobnicate", (load(A, i),)), i))
    with pytest.raises(CodegenError, match="call frobnicate: C code has no such function"):
        text_of(tir.PrimFunc((A,), body))
