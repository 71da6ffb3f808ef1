"""The forms of compute, the graph it makes, tags, and the text and the count of a graph."""

import numpy as np
import pytest

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError
from whet.compiler.tir import expr as e


def run(outputs, args, arrays):
    made = [np.full([int(d) for d in t.shape], 77, t.dtype) for t in outputs]
    driver.build(te.create_schedule([t.op for t in outputs]), [*args, *outputs])(*arrays, *made)
    return made


# shapes and names


def test_a_bare_shape_and_whole_floats():
    n = te.size_var("n")
    assert te.placeholder(n).shape[0] is n
    assert [int(d) for d in te.placeholder(5).shape] == [5]
    assert [int(d) for d in te.placeholder((4.0, np.int64(3), np.float32(2))).shape] == [4, 3, 2]
    assert [int(d) for d in te.compute((4.0, True), lambda i, j: 1.0).shape] == [4, 1]
    assert [int(d) for d in te.placeholder(np.array([2, 3])).shape] == [2, 3]
    assert te.placeholder((2,)).dtype == "float32"


def test_names_by_default_are_tvms():
    a = te.placeholder((3,))
    b = te.compute((3,), lambda i: a[i])
    assert (a.name, b.name) == ("placeholder", "compute")
    assert te.extern((3,), [a], lambda i, o: tir.call_packed("f")).name == "extern"
    assert te.reduce_axis((0, 3)).var.name == "rv"
    assert te.var().name == "tindex"
    assert te.size_var().name == "size"
    assert te.thread_axis("threadIdx.x").var.name == "threadIdx.x"


def test_kinds_of_axes_have_tvms_numbers():
    c = te.compute((3,), lambda i: 1.0)
    assert c.op.axis[0].iter_type == 0
    assert te.thread_axis("vthread").iter_type == 1
    assert te.reduce_axis((0, 3)).iter_type == 2
    kinds = (e.ORDERED, e.OPAQUE, e.UNROLLED, e.VECTORIZED, e.PARALLELIZED, e.TENSORIZED)
    assert kinds == (3, 4, 5, 6, 7, 8)


@pytest.mark.parametrize(
    "tag",
    [
        *(f"{unit}.{d}" for unit in ("blockIdx", "threadIdx") for d in "xyz"),
        *("vthread", "vthread.x", "vthread.y", "vthread.z", "cthread"),
    ],
)
def test_thread_axes(tag):
    for axis in (te.thread_axis(tag), te.thread_axis(None, tag), te.thread_axis(tag=tag)):
        assert (axis.thread_tag, axis.dom, axis.var.name) == (tag, None, tag)
    axis = te.thread_axis((0, 16), tag, name="t")
    assert (int(axis.dom.extent), axis.var.name) == (16, "t")


def test_operations_say_what_they_are():
    a = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    b = te.compute(
        (3,), lambda i: te.sum(a[i, k], axis=k), name="B", tag="t", attrs={"layout": "NCHW"}
    )
    assert b.op.axis[0].var.name == "i"
    assert b.op.reduce_axis == (k,)
    assert isinstance(b.op.body[0], e.Reduce)
    assert (b.op.tag, b.op.attrs["layout"], b.op.name) == ("t", "NCHW", "B")
    assert b.op.input_tensors == [a]
    assert (b.op.num_outputs, b.op.output(0)) == (1, b)
    assert (a.op.tag, a.op.attrs, a.op.input_tensors, a.op.axis) == ("", {}, [], ())
    assert (b.ndim, b.value_index, b.dtype) == (1, 0, "float32")
    assert b.axis == b.op.axis


def test_tensors_are_equal_by_operation_and_output():
    a = te.placeholder((3,), name="A")
    x, y = te.compute((3,), lambda i: (a[i], a[i] + 1.0), name="T")
    assert x == x.op.output(0)
    assert x != y
    assert x.same_as(x.op.output(0))
    assert not x.same_as(3)
    assert len({x, y, x.op.output(0), x.op.output(1)}) == 2
    assert (x == 3) is False
    scalar = te.placeholder((), name="S")
    assert isinstance(a[0] == scalar, e.EQ)


def test_slices_of_tensors_are_values():
    a = te.placeholder((3, 4), name="A")
    row = a[1]
    assert isinstance(row, te.TensorSlice)
    assert row.dtype == "float32"
    b = te.compute((4,), lambda j: row[j] + a[2][j] * 2.0, name="B")
    v = te.placeholder((4,), name="V")
    slices = [v[j] for j in range(4)]
    c = te.compute((4,), lambda j: slices[0] + slices[3], name="C")
    x, w = np.arange(12, dtype="f4").reshape(3, 4), np.arange(4, dtype="f4")
    out = run([b, c], [a, v], [x, w])
    np.testing.assert_array_equal(out[0], x[1] + 2 * x[2])
    np.testing.assert_array_equal(out[1], [3] * 4)


def test_tensors_of_rank_zero_are_values():
    s = te.placeholder((), name="S")
    a = te.placeholder((3,), name="A")
    b = te.compute((3,), lambda i: a[i] * s + s(), name="B")
    c = te.compute((), lambda: s + 1, name="C")
    out = run([b, c], [s, a], [np.array(3, "f4"), np.arange(3, dtype="f4")])
    np.testing.assert_array_equal(out[0], [3, 6, 9])
    assert out[1] == 4


# tuples


def test_tuple_results_share_one_nest(golden):
    a = te.placeholder((3, 4), name="A")
    outs = te.compute((3, 4), lambda i, j: (a[i, j], a[i, j].astype("int32") * i, i + j), name="T")
    assert [t.value_index for t in outs] == [0, 1, 2]
    assert [t.name for t in outs] == ["T.v0", "T.v1", "T.v2"]
    assert [t.dtype for t in outs] == ["float32", "int32", "int32"]
    assert outs[0].op.num_outputs == 3
    golden("lang_tuple", str(driver.lower(te.create_schedule(outs[0].op), [a, *outs])))
    x = np.arange(12, dtype="f4").reshape(3, 4)
    one, two, three = _run_tuple(outs, a, x)
    np.testing.assert_array_equal(one, x)
    np.testing.assert_array_equal(two, x.astype("i4") * np.arange(3)[:, None])
    np.testing.assert_array_equal(three, np.add.outer(np.arange(3), np.arange(4)))


def _run_tuple(outs, a, x):
    made = [np.full(x.shape, 77, t.dtype) for t in outs]
    driver.build(te.create_schedule(outs[0].op), [a, *outs])(x, *made)
    return made


def test_a_tuple_of_one_is_one_tensor():
    b = te.compute((3,), lambda i: (i,), name="B")
    assert isinstance(b, te.Tensor)
    assert b.name == "B"
    assert isinstance(te.compute((3,), lambda i: [i, i + 1], name="L"), list)


# tags


def test_tag_scopes():
    with te.tag_scope("conv"):
        a = te.placeholder((3,), name="A")
        b = te.compute((3,), lambda i: a[i], name="B")
    assert (a.op.tag, b.op.tag) == ("conv", "conv")
    assert te.compute((3,), lambda i: a[i], name="C").op.tag == ""

    @te.tag_scope("relu")
    def relu(x):
        """Positive parts."""
        return te.compute(x.shape, lambda *i: te.max(x(*i), 0.0), name="R")

    assert relu(a).op.tag == "relu"
    assert relu(b).op.tag == "relu"
    assert relu.__doc__ == "Positive parts."
    with pytest.raises(ArgumentError), te.tag_scope("a"):
        raise ArgumentError("x", "y")
    assert te.compute((3,), lambda i: a[i], name="C").op.tag == ""


# the text and the count of a graph


def test_texts_tell_reducers_and_statements_apart():
    a = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")

    def text(reducer):
        return te.graph_text([te.compute((3,), lambda i: reducer(a[i, k], axis=k), name="B")])

    product = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, t))
    other = te.comm_reducer(lambda x, y: x * y + 1, lambda t: tir.const(1, t))
    named_sum = te.comm_reducer(lambda x, y: x - y, lambda t: tir.const(0, t), name="sum")
    assert len({text(f) for f in (product, other, named_sum, te.sum, te.max)}) == 5
    assert text(te.sum) == text(te.sum)
    assert "combine" not in text(te.sum)

    def extern(name):
        return te.graph_text(
            [te.extern((3,), [a], lambda i, o: tir.call_packed(name, *i, *o), name="E")]
        )

    assert extern("f") != extern("g")
    assert extern("f").splitlines()[1].startswith("E = extern(A = A) -> E: float32[3]:")


def test_a_text_of_shared_parts_is_short():
    a = te.placeholder((16,), name="A")

    def text(scale):
        def body(i):
            x = a[i] * scale
            for _ in range(60):
                x = x + x
            return x

        return te.graph_text([te.compute((16,), body, name="T")])

    assert text(2.0) == text(2.0)
    assert text(2.0) != text(3.0)
    assert len(text(2.0)) < 5000


def test_operations_are_counted():
    a, b = te.placeholder((4, 5), name="A"), te.placeholder((5, 6), name="B")
    k = te.reduce_axis((0, 5), name="k")
    c = te.compute((4, 6), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((4, 6), lambda i, j: te.exp(c[i, j]) + i * 2 + j, name="D")
    assert te.count_flop(te.create_schedule(c.op)) == 4 * 6 * 5 * 2
    assert te.count_flop(te.create_schedule(d.op)) == 4 * 6 * (5 * 2 + 3)
    i32 = te.placeholder((4,), "int32", name="I")
    r = te.compute((4,), lambda i: i32[i] * 3 + i * 2, name="R")
    assert te.count_flop(te.create_schedule(r.op)) == 4 * 2


def test_operators_have_names():
    i, x = te.var("i"), te.var("x", "float32")
    assert isinstance(te.add(i, 3), e.Add)
    assert isinstance(te.subtract(i, 3), e.Sub)
    assert isinstance(te.multiply(x, 2), e.Mul)
    assert isinstance(te.div(x, 2), e.Div)
    assert int(te.div(te.const(-7), 2)) == -3  # as in C, unlike floordiv
    assert int(te.floordiv(te.const(-7), 2)) == -4


def test_named_operators_promote_and_compute():
    x, i = te.placeholder((7,), name="X"), te.placeholder((7,), "int32", name="I")
    forms = [
        lambda k: te.add(x[k], i[k]),
        lambda k: te.subtract(i[k], x[k]),
        lambda k: te.multiply(x[k], i[k]),
        lambda k: te.div(x[k], i[k]),
        lambda k: te.div(i[k], te.const(-3)),
    ]
    outs = [te.compute((7,), f, name=f"O{n}") for n, f in enumerate(forms)]
    assert [o.dtype for o in outs] == ["float32"] * 4 + ["int32"]
    kernel = driver.build(te.create_schedule([o.op for o in outs]), [x, i, *outs])
    a = np.random.default_rng(3).standard_normal(7).astype("float32")
    b = np.array([1, -2, 3, -4, 5, -6, 7], "int32")
    got = [np.full(7, 77, o.dtype) for o in outs]
    kernel(a, b, *got)
    for mine, want in zip(got, [a + b, b - a, a * b, a / b, np.trunc(b / -3)]):
        np.testing.assert_allclose(mine, want.astype(mine.dtype), rtol=1e-6)
