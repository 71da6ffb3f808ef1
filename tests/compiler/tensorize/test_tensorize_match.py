"""Two computations are the same where they read and write the same, however they are written."""

import numpy as np
import pytest
from tensor_intrins import TARGET, fresh, poisoned, strided

import whet
from whet import te, tir


def intrin(op, name="tile", scalars=()):
    """An instruction whose statements are the computation itself, by plain loops over its axes."""
    tensors = [*op.input_tensors, op.output(0)]
    binds = {t: strided(t, t.name) for t in tensors}

    def run(ins, outs, values=()):
        reduce = op.body[0] if isinstance(op.body[0], tir.Reduce) else None
        buffers = dict(zip(op.input_tensors, ins))
        swap = dict(zip(scalars, values))

        def element(n):
            if isinstance(n, tir.ProducerLoad):
                return buffers[n.producer].vload(list(n.indices))
            return swap.get(n, n) if isinstance(n, tir.Var) else None

        def loops(body, axes, at=()):
            ib = tir.ir_builder.create()
            ib.emit(body)
            made = ib.get()
            for a in reversed([*axes, *at]):
                made = tir.For(a.var, a.dom.min, a.dom.extent, tir.ForKind.SERIAL, made)
            return made

        place = [a.var for a in op.axis]
        value = tir.stmt_functor.ir_transform(
            tir.Evaluate(op.body[0] if reduce is None else reduce.source[0]), None, element
        ).value
        if reduce is None:
            return loops(outs[0].vstore(place, value), op.axis)
        first = loops(outs[0].vstore(place, tir.const(0, value.dtype)), op.axis)
        step = outs[0].vstore(place, outs[0].vload(place) + value)
        update = loops(step, op.axis, op.reduce_axis)
        return tir.SeqStmt([first, update]), first, update

    options = {"scalar_params": list(scalars)} if scalars else {}
    return te.decl_tensor_intrin(op, run, name, binds, **options)


def dot(m=4, n=8, kinds=("int8", "int8"), term=None):
    """``c[i] = sum(a[k] * b[i, k])`` of integers, summed in int32."""
    a = te.placeholder((n,), kinds[0], name="a")
    b = te.placeholder((m, n), kinds[1], name="b")
    k = te.reduce_axis((0, n), name="k")
    wide = lambda x: x.astype("int32")  # noqa: E731
    each = term or (lambda x, y: wide(x) * wide(y))
    return te.compute((m,), lambda i: te.sum(each(a[k], b[i, k]), axis=k), name="c").op


def tensorized(out, rows, depth, made):
    """The stage with its second axis and its reduction in a tile of one instruction."""
    s = te.create_schedule(out.op)
    *outer, y = out.op.axis
    yo, yi = s[out].split(y, rows)
    ko, ki = s[out].split(out.op.reduce_axis[-1], depth)
    rest = out.op.reduce_axis[:-1]
    s[out].reorder(*outer, yo, *rest, ko, yi, ki)
    s[out].tensorize(yi, made)
    return s


TERMS = {
    "as it is": lambda x, y: x.astype("int32") * y.astype("int32"),
    "commuted": lambda x, y: y.astype("int32") * x.astype("int32"),
    "cast once, after a product that fits": lambda x, y: (
        x.astype("int16") * y.astype("int16")
    ).astype("int32"),
    "cast in two steps": lambda x, y: (
        x.astype("int16").astype("int32") * y.astype("int64").astype("int32")
    ),
    "subtracted twice": lambda x, y: x.astype("int32") * (0 - (0 - y.astype("int32"))),
    "likely": lambda x, y: x.astype("int32") * y.astype("int32") * 1,
}


@pytest.mark.parametrize("term", TERMS, ids=str)
def test_terms_of_the_same_meaning(term):
    a = te.placeholder((3, 21), "int8", name="A")
    b = te.placeholder((10, 21), "int8", name="B")
    k = te.reduce_axis((0, 21), name="r")
    c = te.compute((3, 10), lambda x, y: te.sum(TERMS[term](a[x, k], b[y, k]), axis=k), name="C")
    s = tensorized(c, 4, 8, intrin(dot()))
    left, right, out = fresh(a), fresh(b), poisoned(c)
    whet.build(s, [a, b, c], TARGET)(left, right, out)
    np.testing.assert_array_equal(out, left.astype("int32") @ right.T.astype("int32"))


@pytest.mark.parametrize(
    ("term", "why"),
    [
        # 8 bits are too few for the product
        (lambda x, y: (x * y).astype("int32"), r"mul|\*"),
        (lambda x, y: x.astype("int32") + y.astype("int32"), r"A\[i, r\]\) \+"),
        (lambda x, y: y.astype("int32") * y.astype("int32"), "they are read along other axes"),
        (lambda x, y: x.astype("int32") * y.astype("int32") * 2, r"\* 2"),
    ],
)
def test_terms_of_another_meaning(term, why):
    a = te.placeholder((3, 21), "int8", name="A")
    b = te.placeholder((10, 21), "int8", name="B")
    k = te.reduce_axis((0, 21), name="r")
    c = te.compute((3, 10), lambda i, j: te.sum(term(a[i, k], b[j, k]), axis=k), name="C")
    s = tensorized(c, 4, 8, intrin(dot()))
    with pytest.raises(whet.LowerError, match="the tile is not what tile computes: .*" + why) as e:
        whet.lower(s, [a, b, c])
    assert "the stage:       C[i, j] = sum(" in str(e.value)
    assert "the instruction: c[i] = sum(int32(a[k]) * int32(b[i, k]), axis=[k])" in str(e.value)


def test_added_unit_axes_and_a_convolution_as_products():
    """The stage has axes of one step; so has the instruction, others."""
    n, m, width, channels = 1, 10, 9, 19
    data = te.placeholder((n, channels, width), name="data")
    kernel = te.placeholder((m, channels, 3), name="kernel")
    rc = te.reduce_axis((0, channels), name="rc")
    rx = te.reduce_axis((0, 3), name="rx")
    out = te.compute(
        (n, width - 2, 1, m),
        lambda b, x, z, f: te.sum(data[b, rc, x + rx + z] * kernel[f, rc, rx], axis=[rx, rc]),
        name="conv",
    )
    a = te.placeholder((1, 8), name="a")
    w = te.placeholder((4, 8, 1), name="w")
    k, one = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 1), name="one")
    c = te.compute((1, 4), lambda u, i: te.sum(w[i, k, u + one] * a[u, k], axis=[k, one]), name="c")
    s = tensorized(out, 4, 8, intrin(c.op))
    x, y, got = fresh(data), fresh(kernel), poisoned(out)
    whet.build(s, [data, kernel, out], TARGET)(x, y, got)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("float64"), 3, 2)
    expected = np.einsum("bcxk,fck->bxf", windows, y)
    np.testing.assert_allclose(got[:, :, 0], expected, rtol=1e-4, atol=1e-5)


def test_an_instruction_that_reads_a_window_and_one_tensor_twice():
    x = te.placeholder((5,), name="x")
    y = te.compute((4,), lambda i: x[i + 1] - x[i], name="y")
    a = te.placeholder((42,), name="A")
    b = te.compute((19,), lambda i: a[2 * i + 4] - a[2 * i + 2], name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], 4)
    s[b].tensorize(inner, intrin(y.op))
    given, out = fresh(a), poisoned(b)
    whet.build(s, [a, b], TARGET)(given, out)
    np.testing.assert_array_equal(out, given[4:41:2][:19] - given[2:40:2])
    apart = te.compute((19,), lambda i: a[2 * i + 5] - a[2 * i + 2], name="B")
    s = te.create_schedule(apart.op)
    _, inner = s[apart].split(apart.op.axis[0], 4)
    s[apart].tensorize(inner, intrin(y.op))
    with pytest.raises(whet.LowerError, match="x stood for another part before"):
        whet.lower(s, [a, apart])


def test_scalar_parameters_take_what_is_the_same_in_the_tile():
    f = te.var("f", "float32")
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * f, name="y")
    a, scale = te.placeholder((6, 10), name="A"), te.placeholder((6,), name="scale")
    b = te.compute((6, 10), lambda i, j: (scale[i] + 1.0) * a[i, j], name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[1], 4)
    s[b].tensorize(inner, intrin(y.op, scalars=[f]))
    given, by, out = fresh(a), fresh(scale), poisoned(b)
    whet.build(s, [a, scale, b], TARGET)(given, by, out)
    np.testing.assert_allclose(out, given * (by[:, None] + np.float32(1)), rtol=1e-6)
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 4)
    s[b].reorder(outer, b.op.axis[1], inner)
    s[b].tensorize(inner, intrin(y.op, scalars=[f]))
    with pytest.raises(whet.LowerError, match="a scalar parameter is the same in all of the tile"):
        whet.lower(s, [a, scale, b])


def test_a_scalar_parameter_is_one_value_also_where_tensors_have_one_name():
    f = te.var("f", "float32")
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * f + f, name="y")
    a, u, v = (te.placeholder((n,)) for n in (8, 2, 2))
    different = te.compute((8,), lambda i: a[i] * u[0] + v[0], name="B")
    same = te.compute((8,), lambda i: a[i] * u[0] + u[0], name="B")
    for b, fits in ((different, False), (same, True)):
        s = te.create_schedule(b.op)
        _, inner = s[b].split(b.op.axis[0], 4)
        s[b].tensorize(inner, intrin(y.op, scalars=[f]))
        if fits:
            given, by, out = fresh(a), fresh(u), poisoned(b)
            whet.build(s, [a, u, b], TARGET)(given, by, out)
            np.testing.assert_allclose(out, given * by[0] + by[0], rtol=1e-5, atol=1e-6)
        else:
            with pytest.raises(whet.LowerError, match="tensorize"):
                whet.lower(s, [a, u, v, b])


def test_inlined_stages_and_choices():
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: te.max(x[i], 0.0) + 1.0, name="y")
    a = te.placeholder((11,), name="A")
    relu = te.compute((11,), lambda i: te.max(0.0, a[i]), name="relu")
    b = te.compute((11,), lambda i: 1.0 + relu[i], name="B")
    s = te.create_schedule(b.op)
    s[relu].compute_inline()
    _, inner = s[b].split(b.op.axis[0], 4)
    s[b].tensorize(inner, intrin(y.op))
    given, out = fresh(a), poisoned(b)
    whet.build(s, [a, b], TARGET)(given, out)
    np.testing.assert_array_equal(out, np.maximum(given, 0) + np.float32(1))


def test_tuples_match_output_by_output():
    """Two outputs; the operands of one are swapped."""
    x, y = te.placeholder((4,), name="x"), te.placeholder((4,), name="y")
    both = te.compute((4,), lambda i: (x[i] + y[i], x[i] - y[i]), name="both")

    def run(ins, outs):
        u, v = (b.vload(0, "float32x4") for b in ins)
        return tir.SeqStmt([outs[0].vstore(0, u + v), outs[1].vstore(0, u - v)])

    made = te.decl_tensor_intrin(both[0].op, run, "both")
    a, b = te.placeholder((10,), name="A"), te.placeholder((10,), name="B")
    out = te.compute((10,), lambda i: (b[i] + a[i], a[i] - b[i]), name="out")
    s = te.create_schedule(out[0].op)
    _, inner = s[out[0]].split(out[0].op.axis[0], 4)
    s[out[0]].tensorize(inner, made)
    p, q, total, rest = fresh(a), fresh(b), poisoned(out[0]), poisoned(out[1])
    whet.build(s, [a, b, *out], TARGET)(p, q, total, rest)
    np.testing.assert_array_equal(total, p + q)
    np.testing.assert_array_equal(rest, p - q)


def test_rows_that_a_tensor_names():
    """An index around the tile is read from memory; one inside it is refused."""
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2.0, name="y")
    a, rows = te.placeholder((9, 10), name="A"), te.placeholder((6,), "int32", name="rows")
    b = te.compute((6, 10), lambda i, j: a[rows[i] % 9, j] * 2.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[1], 4)
    s[b].tensorize(inner, intrin(y.op))
    given, which, out = fresh(a), fresh(rows), poisoned(b)
    whet.build(s, [a, rows, b], TARGET)(given, which, out)
    np.testing.assert_array_equal(out, given[which % 9] * np.float32(2))
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 4)
    s[b].reorder(outer, b.op.axis[1], inner)
    s[b].tensorize(inner, intrin(y.op))
    with pytest.raises(whet.LowerError, match="no straight step of the tile's axes"):
        whet.lower(s, [a, rows, b])
