"""Mistakes of a user in writing, scheduling and lowering, by their messages."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import numpy as np
import pytest

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError, LowerError, ScheduleError, WhetError
from whet.compiler.passes import PassContext


def refused(error, action, *words):
    """The message of the error that an action must raise; all words must be in it."""
    with pytest.raises(error) as caught:
        action()
    text = str(caught.value)
    for word in words:
        assert word in text, text
    assert isinstance(caught.value, WhetError)
    return text


@pytest.fixture
def two():
    """C reads B reads A; a matrix of column sums S."""
    a = te.placeholder((8, 9), name="A")
    b = te.compute((8, 9), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 9), lambda i, j: b[i, j] * 2.0, name="C")
    k = te.reduce_axis((0, 8), name="k")
    d = te.compute((9,), lambda j: te.sum(c[k, j], axis=k), name="S")
    return te.create_schedule(d.op), a, b, c, d, k


LOOPS = "loops of C: i(8) j(9)"


# schedule primitives


@pytest.mark.parametrize("which", ["factor", "nparts"])
def test_split_by_zero(two, which):
    s, a, b, c, d, k = two
    text = refused(ScheduleError, lambda: s[c].split(c.op.axis[0], **{which: 0}))
    assert text == f"split(C, axis=i, {which}=0): {which} must be at least 1\n  {LOOPS}"
    assert isinstance(ScheduleError("x"), ValueError)


def test_split_with_both_neither_or_no_integer(two):
    s, a, b, c, d, k = two
    i = c.op.axis[0]
    refused(ScheduleError, lambda: s[c].split(i), "exactly one of factor and nparts", LOOPS)
    refused(ScheduleError, lambda: s[c].split(i, factor=2, nparts=2), "exactly one", LOOPS)
    refused(ScheduleError, lambda: s[c].split(i, factor=2.5), "must be an integer, not 2.5")


def test_axes_that_are_no_loops_any_more(two):
    s, a, b, c, d, k = two
    i, j = c.op.axis
    s[c].split(i, factor=4)
    loops = "loops of C: i.outer(2) i.inner(4) j(9)"
    refused(ScheduleError, lambda: s[c].split(i, factor=2), "i is no longer a loop", loops)
    refused(ScheduleError, lambda: s[c].vectorize(i), "vectorize(C, i)", "no longer a loop", loops)
    refused(ScheduleError, lambda: s[c].fuse(i, j), "fuse(C, i, j)", "no longer a loop", loops)
    refused(ScheduleError, lambda: s[d].compute_at(s[c], i), "no longer a loop")
    refused(ScheduleError, lambda: s[c].split("i", factor=2), "'i' is not an axis of C")


def test_reorder_with_a_foreign_or_a_repeated_axis(two):
    s, a, b, c, d, k = two
    i, j = c.op.axis
    refused(
        ScheduleError,
        lambda: s[c].reorder(j, b.op.axis[0]),
        "reorder(C, j, i)",
        "not an axis of C",
        LOOPS,
    )
    refused(ScheduleError, lambda: s[c].reorder(j, i, j), "an axis is named twice", LOOPS)


def test_fuse_what_does_not_fuse(two):
    s, a, b, c, d, k = two
    i, j = c.op.axis
    refused(ScheduleError, lambda: s[c].fuse(j, i), "neighbours, outermost first", LOOPS)
    refused(
        ScheduleError, lambda: s[d].fuse(d.op.axis[0], k), "do not fuse", "loops of S: j(9) k(8)"
    )


def test_compute_at_where_nothing_consumes(two):
    s, a, b, c, d, k = two
    refused(
        ScheduleError,
        lambda: s[c].compute_at(s[b], b.op.axis[0]),
        "compute_at(C, B, i): B does not consume C",
        "stages that read C: S",
    )
    refused(ScheduleError, lambda: s[a].compute_at(s[b], b.op.axis[0]), "A is an input")
    refused(ScheduleError, lambda: s[c].compute_at(s[c], c.op.axis[0]), "must be another stage")
    other = te.create_schedule(d.op)
    refused(ScheduleError, lambda: s[c].compute_at(other[d], d.op.axis[0]), "the same schedule")
    two_outputs = te.create_schedule([c.op, d.op])
    refused(
        ScheduleError,
        lambda: two_outputs[c].compute_at(two_outputs[d], d.op.axis[0]),
        "C is an output",
    )


def test_compute_at_a_loop_that_is_fused_with_one_inside_afterwards(two):
    s, a, b, c, d, k = two
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].fuse(*c.op.axis)
    refused(
        LowerError, lambda: driver.lower(s, [a, d]), "compute_at(B, C, i)", "call compute_at after"
    )


def test_compute_inline_of_what_must_be_stored(two):
    s, a, b, c, d, k = two
    refused(ScheduleError, s[a].compute_inline, "A is an input")
    refused(ScheduleError, s[d].compute_inline, "a reduction cannot be inlined", "use compute_at")
    refused(ScheduleError, te.create_schedule(c.op)[c].compute_inline, "C is an output")
    s[b].compute_inline()
    with pytest.warns(UserWarning, match="the argument B is not used: it is inlined"):
        driver.lower(s, [a, b, d])


def test_reductions_are_neither_vectorised_nor_parallel(two):
    s, a, b, c, d, k = two
    for primitive in ("vectorize", "parallel"):
        text = refused(ScheduleError, lambda: getattr(s[d], primitive)(k), f"{primitive}(S, k)")  # noqa: B023
        assert "the steps of a reduction depend on each other\n  loops of S: j(9) k(8)" in text


@pytest.mark.parametrize("primitive", ["vectorize", "unroll"])
def test_vectorize_and_unroll_need_a_number_of_steps(primitive):
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    getattr(s[b], primitive)(b.op.axis[0])
    refused(
        LowerError,
        lambda: driver.lower(s, [a, b]),
        f"{primitive}(B, i): its extent, n, is not a constant",
        "split the loop first",
    )


def test_caches_of_what_has_none(two):
    s, a, b, c, d, k = two
    refused(ScheduleError, lambda: s.cache_write(a, "local"), "A is an input")
    refused(ScheduleError, lambda: s.cache_read(a, "local", [d]), "S does not read A", "readers: B")
    refused(ScheduleError, lambda: s.cache_read(a, "local", []), "no reader was given")
    cached = s.cache_write(d, "local")
    s[cached].split(k, factor=2)
    refused(ScheduleError, lambda: s.cache_write(cached, "local"), "call cache_write first")


def test_schedules_of_nothing_and_stages_of_others(two):
    s, a, b, c, d, k = two
    refused(ScheduleError, lambda: te.create_schedule([]), "at least one operation")
    refused(ScheduleError, lambda: te.create_schedule(3), "a int is not an operation")
    other = te.compute((3,), lambda i: i, name="other")
    refused(ScheduleError, lambda: s[other], "not part of this schedule", "stages: A, B, C, S")
    refused(ScheduleError, lambda: s["C"], "found by a tensor or an operation")


# writing computations


def test_numbers_and_types_of_indices(two):
    s, a, b, c, d, k = two
    refused(ArgumentError, lambda: a(1), "A[1]: 1 indices were given for 2 dimensions", "(8, 9)")
    refused(ArgumentError, lambda: a[1, 2, 3], "3 indices were given for 2 dimensions")
    refused(ArgumentError, lambda: a[1.5, 2], "index A with a float32: indices are integers")
    refused(ArgumentError, lambda: a[te.var("x", "float32"), 0], "convert it")
    refused(
        ArgumentError,
        lambda: te.compute((8,), lambda i: a + 1),
        "only its elements can be computed with",
        "T_add[i, j]",
    )


def test_functions_that_compute_refuses():
    refused(ArgumentError, lambda: te.compute((3,), lambda i, x=1: i), "default arguments")
    refused(ArgumentError, lambda: te.compute((3,), lambda i, *, x: i), "keyword arguments")
    refused(ArgumentError, lambda: te.compute((3,), lambda i, **x: i), "keyword arguments")
    refused(
        ArgumentError,
        lambda: te.compute((3,), lambda i, j: i),
        "takes 2 indices but the shape has 1",
    )
    refused(
        ArgumentError, lambda: te.compute((3,), lambda i: "x" and [object()]), "neither a number"
    )
    refused(
        ArgumentError,
        lambda: te.compute((3,), lambda *i: i[0], varargs_names=["a", "b"]),
        "names 2 of 1",
    )


def test_shapes_that_are_none():
    refused(
        ArgumentError,
        lambda: te.placeholder((3, -1), name="A"),
        "placeholder(A): the dimension -1 is negative",
    )
    refused(ArgumentError, lambda: te.placeholder((3.5,)), "is a float32, not an integer")
    refused(ArgumentError, lambda: te.placeholder((3,), "float31"), "dtype 'float31'", "known: ")


def test_reductions_that_are_none(two):
    s, a, b, c, d, k = two
    nested = lambda i: te.sum(a[k, i], axis=k) + 1.0  # noqa: E731
    refused(
        ArgumentError,
        lambda: te.compute((9,), nested, name="N"),
        "inside a larger expression",
        "compute of its own",
    )
    refused(ArgumentError, lambda: te.sum(a[0, 0]), "no axis to reduce over", "te.reduce_axis")
    refused(ArgumentError, lambda: te.sum(a[0, 0], axis=c.op.axis[0]), "not a reduction axis")
    refused(ArgumentError, lambda: te.sum(a[k, 0] > 0, axis=k), "one bit does not hold a sum")
    refused(ArgumentError, lambda: te.reduce_axis(5), "a domain is a pair")
    refused(
        ArgumentError,
        lambda: te.compute((9,), lambda i: (te.sum(a[k, i], axis=k), i), name="N"),
        "all be reductions over the same axes",
    )


def test_integers_are_not_divided_without_saying_how():
    i = te.var("i")
    text = refused(ArgumentError, lambda: i / 2, "int32 / int32", "does not say how it rounds")
    assert "use // (rounds down), te.truncdiv, or convert one to a float" in text
    assert (i / 2.0).dtype == "float32"
    for divide in (te.floordiv, te.floormod, te.truncdiv, te.truncmod):
        refused(ArgumentError, lambda: divide(i, 0), "the divisor is zero")  # noqa: B023
    refused(ArgumentError, lambda: te.var("x", "float32") & 1, "bits are those of integers")


def test_expressions_have_no_truth_value():
    i = te.var("i")

    def branch():
        return 1 if i > 3 else 2

    refused(ArgumentError, branch, "the truth value of an expression", "te.if_then_else")
    refused(ArgumentError, lambda: i > 3 and i < 5, "te.all, te.any")
    assert (i == i) and (i != te.var("i"))  # identity, so that variables work as keys


# lowering and building


def test_lower_wants_the_arguments_it_needs(two):
    s, a, b, c, d, k = two
    refused(ArgumentError, lambda: driver.lower(s), "args must be given for a schedule")
    refused(ArgumentError, lambda: driver.build(s), "args must be given for build from schedule")
    refused(
        LowerError, lambda: driver.lower(s, [d]), "the input A is not in args", "every placeholder"
    )
    n = te.var("n")
    refused(ArgumentError, lambda: driver.lower(s, [n, a, d, n]), "a number stands there twice")
    refused(
        ArgumentError,
        lambda: driver.lower(s, [a, d, 3]),
        "args[2] = 3",
        "neither a Tensor, a Buffer nor a Var",
    )


@pytest.mark.parametrize("thing", [3, "x", None, np.zeros(3), object])
def test_lower_and_build_want_a_schedule_a_function_or_a_module(thing):
    words = "expected input to be an IRModule, PrimFunc or te.Schedule"
    refused(ArgumentError, lambda: driver.lower(thing), words, type(thing).__name__)
    refused(ArgumentError, lambda: driver.build(thing), words)


def test_sizes_that_no_argument_gives():
    n = te.size_var("n")
    a = te.placeholder((2 * n,), name="A")
    b = te.compute((2 * n,), lambda i: a[i], name="B")
    refused(
        LowerError, lambda: driver.lower(te.create_schedule(b.op), [a, b]),
        "the shape of A", "it uses n, which no argument gives", "or n itself",
    )  # fmt: skip
    f = driver.build(te.create_schedule(b.op), [a, b, n])
    x, y = np.arange(6, dtype="float32"), np.zeros(6, "float32")
    f(x, y, 3)
    np.testing.assert_array_equal(x, y)
    refused(ArgumentError, lambda: f(x, y, 2), "argument 0 (A)")


def test_pass_contexts_know_their_keys():
    refused(ArgumentError, lambda: PassContext(config={"tir.nonsense": 1}), "unknown key", "keys: ")
    refused(
        ArgumentError, lambda: PassContext(config={"tir.disable_vectorise": 1}),
        "did you mean 'tir.disable_vectorize'?",
    )  # fmt: skip
    refused(
        ArgumentError, lambda: PassContext(disabled_pass=["Foo"]), "no such pass", "LoopPartition"
    )


def test_functions_of_one_name_are_not_built_together(two):
    s, a, b, c, d, k = two
    f = driver.lower(s, [a, d], name="f")
    refused(ArgumentError, lambda: driver.build([f, f]), "two functions are named 'f'")
    assert isinstance(f["f"], tir.PrimFunc)
    refused(ArgumentError, lambda: f["g"], "there is no such function", "functions: f")


def test_an_operation_has_the_outputs_it_has(two):
    s, a, b, c, d, k = two
    refused(ArgumentError, lambda: c.op.output(1), "C.output(1)", "has 1 outputs")


def test_variables_that_no_argument_gives():
    x, a = te.var("x", "float32"), te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * x, name="B")
    s = te.create_schedule(b.op)
    refused(
        LowerError,
        lambda: driver.lower(s, [a, b]),
        "B uses x: x is neither an axis of B nor a size of an argument, and no argument gives it",
        "or x itself",
    )
    assert driver.lower(s, [a, x, b])


def test_a_read_that_surely_leaves_the_tensor():
    A = te.placeholder((16,), name="A")
    n = te.size_var("n")
    B = te.placeholder((n,), name="B")
    for tensor, read, said in (
        (
            A,
            te.compute((32,), lambda i: A[i], name="D"),
            r"A\[i\].*up to 31, but the dimension is 16",
        ),
        (A, te.compute((4,), lambda i: A[i - 1], name="D"), "goes down to -1"),
        (B, te.compute((n,), lambda i: B[i + 1], name="D"), "goes up to n, but the dimension is n"),
    ):
        with pytest.raises(LowerError, match=said):
            driver.lower(te.create_schedule(read.op), [tensor, read])


def test_a_read_that_is_guarded_or_never_needed_is_none():
    A = te.placeholder((16,), name="A")
    guarded = te.compute((16,), lambda i: te.if_then_else(i < 15, A[i + 1], 0.0), name="D")
    driver.lower(te.create_schedule(guarded.op), [A, guarded])
    wide = te.compute((32,), lambda i: A[i] * 2.0, name="W")
    narrow = te.compute((16,), lambda i: wide[i] + 1.0, name="N")
    s = te.create_schedule(narrow.op)
    s[wide].compute_inline()
    f = driver.build(s, [A, narrow])
    a, out = np.arange(16, dtype="float32"), np.empty(16, "float32")
    f(a, out)
    np.testing.assert_array_equal(out, a * 2 + 1)
