"""te.gradient: forms, numbers against finite differences and numpy, refusals."""

import doctest

import numpy as np
import pytest
from random_derivable import RandomGraph, built, check, run

import whet
from whet import topi
from whet.compiler import driver, te
from whet.compiler.errors import ArgumentError
from whet.compiler.tir.expr import Call, ProducerLoad, Reduce
from whet.compiler.tir.visit.rewrite import nodes_of


def placed(*shape, dtype="float64", name="X"):
    return te.placeholder(shape, dtype, name)


def steps(tensor):
    """How many elements a tensor's elements are summed from; 1 where nothing is."""
    body = tensor.op.body[0]
    axes = body.axis if isinstance(body, Reduce) else ()
    return int(np.prod([int(a.dom.extent) for a in axes], initial=1))


def test_random_graphs(seeds):
    for seed in seeds(25):
        check(RandomGraph(seed))


def test_the_check_can_fail(monkeypatch):
    graph = RandomGraph(1)
    right = te.gradient

    def wrong(*args, **kwargs):
        def scaled(t):
            return te.compute(t.shape, lambda *i: t(*i) * 1.01)

        return [scaled(t) for t in right(*args, **kwargs)]

    check(graph)
    monkeypatch.setattr(te, "gradient", wrong)
    with pytest.raises(AssertionError):
        check(graph)


def test_a_product_has_products_for_derivatives():
    a, b = placed(8, 4, name="A"), placed(4, 3, name="B")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((8, 3), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    h = placed(8, 3, name="H")
    da, db = te.gradient(c, [a, b], head=h)
    assert [steps(t) for t in (da, db)] == [3, 8]
    assert not nodes_of(da.op.body[0].source[0], Call)
    rng = np.random.default_rng()
    x, y, z = rng.random((8, 4)), rng.random((4, 3)), rng.random((8, 3))
    got = run(built([da, db], [a, b, h]), [da, db], [x, y, z])
    np.testing.assert_allclose(got[0], z @ y.T)
    np.testing.assert_allclose(got[1], x.T @ z)


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2), (3, 4)])
def test_zeros_of_windows_are_not_summed(stride, dilation):
    """Of a window's elements as many are summed up as can have read one input."""
    n, size = 40, 5
    x, w = placed(n), placed(size, name="W")
    k = te.reduce_axis((0, size), name="k")
    out = (n - dilation * (size - 1) - 1) // stride + 1
    y = te.compute((out,), lambda i: te.sum(x[i * stride + k * dilation] * w[k], axis=k))
    dx, dw = te.gradient(y, [x, w], head=placed(out, name="H"))
    assert steps(dx) <= size
    if dilation == 1:
        assert steps(dx) == -(-size // stride)
    assert steps(dw) == out


@pytest.mark.parametrize(
    "form",
    [
        lambda x: te.compute((6, 4), lambda i, j: x[(i * 4 + j) // 8, (i * 4 + j) % 8]),
        lambda x: te.compute((8, 3), lambda i, j: x[j, 7 - i]),
        lambda x: te.compute((2, 8), lambda i, j: x[i + 1, j]),
        lambda x: te.compute((5, 12), lambda i, j: te.if_then_else(
            te.all(i > 0, i < 4, j > 1, j < 10), x[i - 1, j - 2], 0.0)),
        lambda x: te.compute((2, 4), lambda i, j: x[i * 2, j * 2 + 1]),
    ],
    ids=["reshape", "transpose and flip", "slice", "pad", "strides"],
)  # fmt: skip
def test_what_moves_elements_sums_nothing(form):
    x = placed(3, 8)
    y = form(x)
    (dx,) = te.gradient(y, x, head=placed(*[int(d) for d in y.shape], name="H"))
    assert steps(dx) == 1


def test_a_repeated_row_is_summed_once_a_time():
    x = placed(3, 8)
    y = te.compute((12, 8), lambda i, j: x[i // 4, j])
    (dx,) = te.gradient(y, x, head=placed(12, 8, name="H"))
    assert steps(dx) == 4


def test_the_jacobian_without_a_head():
    x = placed(5)
    y = te.compute((5,), lambda i: te.exp(x[i]) * x[4 - i])
    (jacobian,) = te.gradient(y, [x])
    assert [int(d) for d in jacobian.shape] == [5, 5]
    value = np.random.default_rng().random(5)
    (got,) = run(built([jacobian], [x]), [jacobian], [value])
    wanted = np.diag(np.exp(value) * value[::-1])
    wanted[np.arange(5), 4 - np.arange(5)] += np.exp(value)
    np.testing.assert_allclose(got, wanted)


def test_a_head_of_more_dimensions():
    x = placed(4)
    y = te.compute((4,), lambda i: x[i] * x[i])
    h = placed(3, 4, name="H")
    (d,) = te.gradient(y, [x], head=h)
    value, head = np.arange(4.0), np.random.default_rng().random((3, 4))
    (got,) = run(built([d], [x, h]), [d], [value, head])
    np.testing.assert_allclose(got, 2 * head * value)


def test_inputs_on_the_way_and_inputs_of_no_use():
    x, other = placed(4), placed(2, 3, name="Z")
    y = te.compute((4,), lambda i: te.sin(x[i]), name="Y")
    z = te.compute((4,), lambda i: y[i] * y[3 - i] + x[i])
    h = placed(4, name="H")
    dx, dy, dz, none, again = te.gradient(z, [x, y, z, other, x], head=h)
    assert again is dx
    s = te.create_schedule([t.op for t in (dx, dy, none)])
    assert dz is h
    f = whet.build(s, [x, h, dx, dy, none], "llvm -num_threads=1")
    rng = np.random.default_rng()
    v, w = rng.random(4), rng.random(4)
    got = [np.full(n, np.nan) for n in ((4,), (4,), (2, 3))]
    f(v, w, *got)
    on_way = (w + w[::-1]) * np.sin(v)[::-1]
    np.testing.assert_allclose(got[1], on_way)
    np.testing.assert_allclose(got[0], on_way * np.cos(v) + w)
    np.testing.assert_array_equal(got[2], 0)


def test_equal_elements_of_a_maximum_share():
    x = placed(2, 3)
    k = te.reduce_axis((0, 3), name="k")
    most = te.compute((2,), lambda i: te.max(x[i, k], axis=k))
    product = te.comm_reducer(lambda a, b: a * b, lambda t: te.const(1.0, t), name="product")
    j = te.reduce_axis((0, 3), name="j")
    total = te.compute((2,), lambda i: product(x[i, j], axis=j))
    h = placed(2, name="H")
    for y, wanted in (
        (most, [[0.5, 0.5, 0], [0, 0, 3.0]]),
        (total, [[2.0, 2.0, 4.0], [0, 0, 0]]),
    ):
        (d,) = te.gradient(y, [x], head=h)
        value = np.array([[2.0, 2.0, 1.0], [0.0, 0.0, 7.0]])
        (got,) = run(built([d], [x, h]), [d], [value, np.array([1.0, 3.0])])
        np.testing.assert_allclose(got, wanted)


def test_one_zero_in_a_product_gets_the_product_of_the_others():
    x = placed(3)
    product = te.comm_reducer(lambda a, b: a * b, lambda t: te.const(1.0, t), name="product")
    k = te.reduce_axis((0, 3), name="k")
    y = te.compute((1,), lambda i: product(x[k], axis=k))
    (d,) = te.gradient(y, [x])
    (got,) = run(built([d], [x]), [d], [np.array([3.0, 0.0, 5.0])])
    np.testing.assert_allclose(got, [[0, 15, 0]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_narrow_types_and_casts(dtype):
    x = placed(6, dtype=dtype)
    y = te.compute((6,), lambda i: te.exp(x[i].astype("float32")) * 2.0)
    whole = te.compute((6,), lambda i: y[i] * te.round(y[i]).astype("int32").astype("float32"))
    h = placed(6, dtype="float32", name="H")
    (d,) = te.gradient(whole, [x], head=h)
    assert d.dtype == dtype
    value = np.linspace(-1, 1, 6, dtype="float32")
    given, out = whet.nd.empty((6,), dtype), whet.nd.empty((6,), dtype)
    given.copyfrom(value)
    built([d], [x, h])(given, value, out)
    rows = 2 * np.exp(given.numpy().astype("float64"))
    wanted = value * rows * np.round(rows)
    np.testing.assert_allclose(out.numpy().astype("float64"), wanted, rtol=2e-2)


def test_symbolic_sizes():
    n = te.size_var("n")
    x, w = te.placeholder((n, 4), "float64", "X"), placed(4, 3, name="W")
    k = te.reduce_axis((0, 4), name="k")
    y = te.compute((n, 3), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k))
    h = te.placeholder((n, 3), "float64", "H")
    dx, dw = te.gradient(y, [x, w], head=h)
    f = built([dx, dw], [x, w, h])
    rng = np.random.default_rng()
    for rows in (1, 7):
        a, b, c = rng.random((rows, 4)), rng.random((4, 3)), rng.random((rows, 3))
        got = [np.full((rows, 4), np.nan), np.full((4, 3), np.nan)]
        f(a, b, c, *got)
        np.testing.assert_allclose(got[0], c @ b.T)
        np.testing.assert_allclose(got[1], a.T @ c)


def test_derivatives_of_derivatives():
    x = placed(4)
    y = te.compute((4,), lambda i: te.sin(x[i]) * x[i])
    h = placed(4, name="H")
    (first,) = te.gradient(y, [x], head=h)
    (second,) = te.gradient(first, [x], head=h)
    value, one = np.random.default_rng().random(4), np.ones(4)
    (got,) = run(built([second], [x, h]), [second], [value, one])
    np.testing.assert_allclose(got, 2 * np.cos(value) - value * np.sin(value), rtol=1e-12)


def test_layers_of_topi(seeds):
    """A small network: convolution, pooling, softmax and a loss."""
    rng = np.random.default_rng(seeds(1)[0])
    x, w, v = placed(2, 3, 9, 9), placed(4, 3, 3, 3, name="W"), placed(5, 4 * 9, name="V")
    conv = topi.nn.relu(topi.nn.conv2d_nchw(x, w, 2, 1, 1))
    pool = topi.nn.pool2d(conv, (2, 2), (2, 2), (1, 1), (0, 1, 1, 0), "max")
    flat = topi.nn.flatten(pool)
    out = topi.nn.log_softmax(topi.nn.dense(flat, v))
    graph = RandomGraph(0)
    graph.rng, graph.steps = rng, ["network"]
    graph.inputs, graph.output = [x, w, v], out
    graph.values = [rng.standard_normal([int(d) for d in t.shape]) for t in graph.inputs]
    check(graph, tolerance=1e-4)


def test_refusals():
    x = placed(4)
    whole = te.placeholder((4,), "int32", "N")
    y = te.compute((4,), lambda i: x[i] * 2.0, name="Y")
    bits = te.compute((4,), lambda i: te.nextafter(x[i], x[3 - i]), name="Z")
    made = te.extern((4,), [x], lambda i, o: te_loop(i[0], o[0]), name="E", dtype="float64")
    after = te.compute((4,), lambda i: made[i] + 1.0)
    k = te.reduce_axis((0, 4), name="k")
    begun = te.compute((4,), lambda i: te.max(x[k], axis=k, init=x[i]), name="M")
    for function, words in (
        (lambda: te.gradient(y, [whole]), "an input is an int32"),
        (lambda: te.gradient(y, ["x"]), "an input is a str"),
        (lambda: te.gradient(whole, [x]), "output is an int32"),
        (lambda: te.gradient(y, [x], head=placed(3, name="H")), "does not end with"),
        (lambda: te.gradient(bits, [x]), "the derivative of nextafter is not known"),
        (lambda: te.gradient(after, [x]), "E is made by te.extern"),
        (lambda: te.gradient(begun, [x]), "begins at a tensor's element"),
        (
            lambda: te.gradient(begun, [x], head=placed(3, 5, name="H")),
            r"the head's shape \(3, 5\) does not end with that of \w+, \(\d+,? ?\d*\)",
        ),
        (
            lambda: te.gradient(begun, [x], head=te.placeholder(begun.shape, "float32", "H")),
            r"the head is float32, and \w+ float64\n *convert it: te.compute",
        ),
    ):
        with pytest.raises(ArgumentError, match=words):
            function()


def te_loop(given, made):
    from whet.compiler.tir import ir_builder

    ib = ir_builder.create()
    source, target = ib.buffer_ptr(given), ib.buffer_ptr(made)
    with ib.for_range(0, 4, name="i") as i:
        target[i] = source[i]
    return ib.get()


def test_the_example():
    names = {"te": te, "lower": driver.lower}
    text = te.gradient.__doc__
    example = doctest.DocTestParser().get_doctest(text, names, "gradient", None, 0)
    said: list[str] = []
    assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)
    assert len(example.examples) >= 8


def test_reads_keep_no_guard_that_is_not_needed():
    """The derivative of a convolution by its weights is one, of whole operands."""
    x, w = placed(1, 2, 9, 9), placed(3, 2, 3, 3, name="W")
    y = topi.nn.conv2d_nchw(x, w, 1, 0, 1)
    (dw,) = te.gradient(y, [w], head=placed(*[int(d) for d in y.shape], name="H"))
    source = dw.op.body[0].source[0]
    assert {type(n) for n in (source.a, source.b)} == {ProducerLoad}
