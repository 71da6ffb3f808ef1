"""Every misuse of the language is one of our errors: what was asked, why not, a way out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError, LowerError, WhetError

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
    st.just([]),
    st.just({}),
    st.just({"a": 1}),
    st.just(object()),
    st.just(lambda *a: None),
    st.just(lambda x, y=3: x),
    st.just(np.zeros((2, 2))),
    st.just(np.float32(1.5)),
    st.just(np.int64(3)),
    st.just("float32"),
    st.just("int8x4"),
    st.just("floatx"),
    st.just(complex(1, 2)),
    st.just(te.placeholder((3,), name="P")),
    st.just(te.placeholder((3,), name="P").op),
    st.just(te.var("v")),
    st.just(te.var("f", "float32")),
    st.just(te.reduce_axis((0, 3), name="r")),
    st.just(tir.StringImm("s")),
    st.just((1, 2)),
    st.just((-1,)),
    st.just((2, "x")),
    st.just((te.reduce_axis((0, 3), name="r"),)),
    st.just(slice(0, 1)),
)

_A = te.placeholder((4, 5), name="A")
_K = te.reduce_axis((0, 5), name="k")
_BUILDERS = [
    te.placeholder,
    te.compute,
    te.reduce_axis,
    te.thread_axis,
    te.var,
    te.size_var,
    te.const,
    te.sum,
    te.min,
    te.comm_reducer,
    te.extern,
    te.extern_primfunc,
    te.tag_scope,
    te.if_then_else,
    te.select,
    te.all,
    te.any,
    te.floordiv,
    te.floormod,
    te.truncdiv,
    te.truncmod,
    te.cast,
    te.exp,
    te.power,
    te.max_value,
    te.min_value,
    te.create_schedule,
    tir.call_packed,
    tir.call_extern,
    tir.call_intrin,
    tir.call_pure_extern,
    _A,
    _A.__getitem__,
    _A.op.output,
    lambda x: _A[0, 1] + x,
    lambda x: x * _A[0, 1],
    lambda x: _A[0, 1] // x,
    lambda x: _A[0, 1] & x,
    lambda x: te.var("i") << x,
    lambda x: te.var("i") % x,
    lambda x: _A[0, 1] < x,
    lambda x: te.sum(_A[0, _K], axis=x),
    lambda x: te.sum(_A[0, _K], axis=_K, where=x),
    lambda x: te.sum(_A[0, _K], axis=_K, init=x),
    lambda x: te.compute((4,), lambda i: x, name="B"),
    lambda x: te.compute((4,), lambda i: (x, x), name="B"),
    lambda x: te.compute((4,), lambda i: _A[i, 0], name=x),
    lambda x: te.compute((4,), lambda i: _A[i, 0], tag=x),
    lambda x: te.compute((4,), lambda i: _A[i, 0], attrs=x),
    lambda x: te.compute((4,), lambda *i: _A[i[0], 0], varargs_names=x),
    lambda x: te.extern((4,), [_A], lambda i, o: x),
    lambda x: te.extern(x, [_A], lambda i, o: tir.call_packed("f"), dtype="int8"),
    lambda x: te.extern((4,), [_A], lambda i, o: tir.call_packed("f"), dtype=x),
    lambda x: te.extern((4,), [_A], lambda i, o: tir.call_packed("f"), in_buffers=x),
    lambda x: te.extern((4,), [_A], lambda i, o: tir.call_packed("f"), out_buffers=x),
    lambda x: _A[0, 0].astype(x),
]


@settings(max_examples=600)
@given(st.data())
def test_whatever_a_builder_is_given_only_our_errors_come_out(data):
    f = data.draw(st.sampled_from(_BUILDERS))
    args = data.draw(st.lists(JUNK, min_size=1, max_size=4))
    try:
        f(*args)
    except WhetError as error:
        asked, why, _ = (p() if callable(p) else p for p in error.args)
        assert asked
        assert why
    except TypeError as error:
        # Python's own: another number of arguments than the function has
        assert "argument" in str(error), error


def refused(match, f, kind=ArgumentError):
    with pytest.raises(kind, match=match):
        f()


def test_shapes():
    for shape, text in [
        ((2, -1), "the dimension -1 is negative"),
        ((2.5,), "the dimension 2.5 is a float32, not an integer"),
        ((True, "n"), "'n' is a str"),
        ("nm", "the shape 'nm' is a str"),
        (None, "the shape None is a NoneType"),
        ((2**70,), "does not fit 64 bits"),
        ((te.var("f", "float32"),), "is a float32, not an integer"),
        ((te.var("u", "uint8"),), "u is a variable of type uint8"),
        ((_A[0, 0].astype("int32"),), "computed from the elements"),
    ]:
        refused(text, lambda shape=shape: te.placeholder(shape, name="P"))
        refused(text, lambda shape=shape: te.compute(shape, lambda *i: 1.0, name="C"))
    refused("no such data type", lambda: te.placeholder((1,), "float33"))
    refused("elements of type handle", lambda: te.placeholder((1,), "handle"))
    refused("the name 3 is a int", lambda: te.placeholder((1,), name=3))


def test_functions_of_compute():
    def c(f, shape=(4, 5), **options):
        return lambda: te.compute(shape, f, name="C", **options)

    refused("takes 3 indices but the shape has 2", c(lambda i, j, k: 1.0))
    refused("takes 1 indices but the shape has 0", c(lambda i: 1.0, ()))
    refused("keyword arguments", c(lambda i, *, j: 1.0))
    refused("keyword arguments", c(lambda **j: 1.0))
    refused("default arguments", c(lambda i, j=3: 1.0))
    refused("fcompute is a int", c(3))
    refused("returned None", c(lambda i, j: None))
    refused("gives no value", c(lambda i, j: ()))
    refused("gives a handle", c(lambda i, j: "text"))
    refused("varargs_names names 3 of 2", c(lambda *i: 1.0, varargs_names=["a", "b", "c"]))
    refused("varargs_names is a object", c(lambda *i: 1.0, varargs_names=object()))
    refused("has no .args", c(lambda i, j: 1.0, varargs_names=["a"]))
    refused("stands inside a larger", c(lambda i, j: te.sum(_A[i, _K], axis=_K) + 1.0))
    refused("stands inside a larger", c(lambda i, j: _A[te.sum(_K.var, axis=_K), j]))
    refused("stands inside a larger", c(lambda i, j: te.sum(te.sum(_A[i, _K], axis=_K), axis=_K)))
    refused("must all be reductions", c(lambda i, j: (te.sum(_A[i, _K], axis=_K), 1.0)))
    other = te.reduce_axis((0, 5), name="o")
    refused(
        "over the same axes",
        c(lambda i, j: (te.sum(_A[i, _K], axis=_K), te.sum(_A[i, other], axis=other))),
    )


def test_indices():
    refused("3 indices were given for 2 dimensions", lambda: _A[0, 1, 2])
    refused("indices are integers", lambda: _A[0, 1.5])
    refused("indices are integers", lambda: _A[0, "x"])
    refused("has one index for each dimension", lambda: _A[0:2, 1] + 1.0)
    refused("only its elements can be computed with", lambda: te.compute((2,), lambda i: _A + 1.0))
    refused("1 indices were given for 2", lambda: _A[0] + 1.0)
    refused("the operation has 1 outputs", lambda: _A.op.output(1))


def test_conditions_are_bools_and_have_no_truth():
    refused("a condition is a float32, not a bool", lambda: te.if_then_else(_A[0, 0], 1, 0))
    refused("a condition is a int32, not a bool", lambda: te.select(te.var("i"), 1, 0))
    refused("a condition is a float32, not a bool", lambda: te.all(_A[0, 0], True))
    refused("it has none before the kernel runs", lambda: te.compute((4,), _branching, name="C"))


def _branching(i):
    return 1.0 if i < 3 else 0.0


def test_numbers():
    i = te.var("i")
    refused("uint8 holds 0 to 255", lambda: te.const(256, "uint8"))
    refused("int8 holds -128 to 127", lambda: i.astype("int8") + 200)
    refused("int64 holds", lambda: te.const(2**64))
    refused("int32 holds integers", lambda: te.const(2.5, "int32"))
    refused("float16 holds up to 65504", lambda: te.const(1e6, "float16"))
    refused("float32 holds up to", lambda: te.const(1e39))
    refused("a str is no number", lambda: te.const("x"))
    refused("the divisor is zero", lambda: i // 0)
    refused("does not say how it rounds", lambda: i / 2)
    refused("bits are those of integers", lambda: _A[0, 0] & 1)
    refused("it has 32 bits", lambda: i << 40)
    refused("one bit does not hold", lambda: (i < 3) + (i > 1))
    refused("a string or an address is no number", lambda: i + tir.StringImm("s"))
    refused("no such data type", lambda: i.astype("int33"))


def test_axes():
    refused("a domain is a pair", lambda: te.reduce_axis(5))
    refused("a domain is a pair", lambda: te.reduce_axis((0, 1, 2)))
    refused("from 5 to 3 there are -2 steps", lambda: te.reduce_axis((5, 3)))
    refused("is a float32, not an integer", lambda: te.reduce_axis((0, 2.5)))
    refused("there is no such tag", lambda: te.thread_axis("threadIdx.w"))
    refused("tag must be given", lambda: te.thread_axis((0, 3)))
    refused("two tags were given", lambda: te.thread_axis("threadIdx.x", "threadIdx.y"))
    refused("a size is an integer", lambda: te.size_var("n", "float32"))
    refused("it is not a reduction axis", lambda: te.sum(_A[0, 0], axis=_A.op))
    c = te.compute((4,), lambda i: _A[i, 0], name="C")
    refused("it is not a reduction axis", lambda: te.sum(_A[0, 0], axis=c.op.axis[0]))


def test_tags():
    refused("a tag is a word", lambda: te.tag_scope(""))

    def nested():
        with te.tag_scope("a"), te.tag_scope("b"):
            pass

    def twice():
        with te.tag_scope("a"):
            te.compute((3,), lambda i: i, tag="b", name="C")

    refused("it stands inside tag_scope", nested)
    refused("given inside tag_scope", twice)


# what is found at lowering: variables that have no value, and divisions by nothing


def low(outputs, args):
    return lambda: driver.lower(te.create_schedule([t.op for t in outputs]), args)


def test_a_reduction_axis_outside_its_reduction():
    c = te.compute((4,), lambda i: _A[i, _K], name="C")
    refused("C uses k: k is neither an axis of C", low([c], [_A, c]), LowerError)
    d = te.compute((4,), lambda i: te.sum(_A[i, _K], axis=_K), name="D")
    e = te.compute((4,), lambda i: d[i] + _K.var, name="E")
    refused("E uses k: k is an axis of D, not of E", low([e], [_A, e]), LowerError)


def test_an_axis_of_another_operation():
    c = te.compute((4,), lambda i: _A[i, 0], name="C")
    other = c.op.axis[0]
    d = te.compute((4, 5), lambda x, y: c[x] + _A[other, y], name="D")
    refused("D uses i: i is an axis of C, not of D", low([d], [_A, d]), LowerError)
    d = te.compute((4, 5), lambda x, y: _A[other, y], name="D")
    refused("D uses i: i is neither an axis of D", low([d], [_A, d]), LowerError)


def test_variables_that_no_argument_gives():
    n, v = te.size_var("n"), te.var("v", "float32")
    a = te.placeholder((4,), name="A")
    c = te.compute((4,), lambda i: a[i] * v + n, name="C")
    refused("C uses v", low([c], [a, c]), LowerError)
    refused("C uses n", low([c], [a, v, c]), LowerError)
    low([c], [a, v, n, c])()
    b = te.placeholder((n,), name="B")
    low([c], [a, v, b, c])()
    m = te.compute((n,), lambda i: a[0], name="M")
    low([m], [a, m])()
    wide = te.placeholder((n * 4,), name="W")
    d = te.compute((4,), lambda i: wide[i], name="D")
    refused("the shape of W: it uses n, which no argument gives", low([d], [wide, d]), LowerError)
    low([d], [wide, n, d])()


def test_divisions_by_what_is_surely_zero():
    a = te.placeholder((4,), "int32", name="A")
    n = te.size_var("n")

    def divided(op):
        return te.compute((4,), lambda i: op(a[i], n - n), name="C")

    for op in (te.floordiv, te.floormod, te.truncdiv, te.truncmod):
        c = divided(op)
        refused("the divisor is zero", low([c], [a, n, c]), LowerError)


def test_an_init_that_is_computed_inside_the_reduction():
    a, z = te.placeholder((4, 5), name="A"), te.placeholder((4,), name="Z")
    b = te.compute((4,), lambda i: z[i] * 2.0, name="B")
    k = te.reduce_axis((0, 5), name="k")
    c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, init=b[i]), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], k)
    refused(
        "the init of C reads B before the loop over k begins",
        lambda: driver.lower(s, [a, z, c]),
        LowerError,
    )
    s[b].compute_at(s[c], c.op.axis[0])
    out = np.empty(4, "f4")
    x, y = np.ones((4, 5), "f4"), np.arange(4, dtype="f4")
    driver.build(s, [a, z, c])(x, y, out)
    np.testing.assert_array_equal(out, 5 + 2 * y)


def test_a_function_of_too_few_indices():
    a = te.placeholder((4, 5), name="A")
    for element in (lambda i: 1.0, lambda i: a[i, 0], lambda: 3.0, lambda i: (a[i], 2.0)):
        refused("indices and returns no part of a tensor", lambda f=element: te.compute((4, 5), f))
    rows = te.compute((4, 5), lambda i: a[i], name="rows")  # the other index is the tensor's
    out, x = np.empty((4, 5), "f4"), np.random.default_rng().random((4, 5), "f4")
    driver.build(te.create_schedule(rows.op), [a, rows])(x, out)
    np.testing.assert_array_equal(out, x)
