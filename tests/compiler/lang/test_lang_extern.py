"""te.extern: statements and calls as stages, their buffers, where they may stand."""

import doctest

import numpy as np
import pytest

from whet.compiler import driver, te, tir
from whet.compiler.errors import ArgumentError, LowerError, ScheduleError
from whet.compiler.runtime.call import packed
from whet.compiler.tir import ir_builder
from whet.compiler.tir.stmt import BufferStore, For


def loop(extent, body, name="i"):
    i = te.var(name)
    return For(i, tir.const(0), tir.const(extent), "serial", body(i))


def doubled(ins, outs):
    """outs[0][i] = ins[0][i] * 2, by hand."""
    a, b = ins[0], outs[0]
    return loop(
        int(a.shape[0]), lambda i: BufferStore(b, a.vload([i]) * tir.const(2, a.dtype), (i,))
    )


def run(s, args, arrays, outputs):
    made = [np.full(shape, 77, dtype) for shape, dtype in outputs]
    driver.build(s, args)(*arrays, *made)
    return made


def test_a_statement_by_hand():
    a = te.placeholder((13,), name="A")
    b = te.extern((13,), [a], doubled, name="B", tag="mine", attrs={"x": 1})
    assert isinstance(b.op, te.ExternOp)
    assert (b.shape[0].value, b.dtype, b.name, b.op.tag) == (13, "float32", "B", "mine")
    assert b.op.attrs == {"x": 1}
    assert b.op.input_tensors == [a]
    assert b.op.num_outputs == 1
    data = np.arange(13, dtype="f4")
    (out,) = run(te.create_schedule(b.op), [a, b], [data], [((13,), "f4")])
    np.testing.assert_array_equal(out, data * 2)


def test_between_computations(golden):
    a = te.placeholder((13,), name="A")
    t = te.compute((13,), lambda i: a[i] + 1.0, name="T")
    b = te.extern((13,), [t], doubled, name="B")
    c = te.compute((13,), lambda i: b[12 - i] - 1.0, name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], factor=8)
    s[c].vectorize(inner)
    data = np.arange(13, dtype="f4")
    (out,) = run(s, [a, c], [data], [((13,), "f4")])
    np.testing.assert_array_equal(out, ((data + 1) * 2)[::-1] - 1)
    golden("lang_extern", str(driver.lower(te.create_schedule(c.op), [a, c])))


def test_several_outputs_and_types():
    a = te.placeholder((7, 3), "int32", name="A")

    def body(ins, outs):
        ib = ir_builder.create()
        x, total, most = (ib.buffer_ptr(b) for b in (ins[0], *outs))
        with ib.for_range(0, 7, name="i") as i:
            total[i] = tir.const(0, "int64")
            most[i] = tir.const(-100.0)
            with ib.for_range(0, 3, name="j") as j:
                total[i] = total[i] + x[i, j].astype("int64")
                most[i] = te.max(most[i], x[i, j].astype("float32"))
        return ib.get()

    total, most = te.extern([(7,), (7,)], [a], body, name="R", dtype=["int64", "float32"])
    assert (total.value_index, most.value_index) == (0, 1)
    use = te.compute((7,), lambda i: total[i].astype("float32") + most[i], name="use")
    data = np.random.default_rng(0).integers(-9, 9, (7, 3)).astype("int32")
    x, y, z = run(
        te.create_schedule([use.op, total.op]),
        [a, total, most, use],
        [data],
        [((7,), "i8"), ((7,), "f4"), ((7,), "f4")],
    )
    np.testing.assert_array_equal(x, data.sum(axis=1))
    np.testing.assert_array_equal(y, data.max(axis=1))
    np.testing.assert_array_equal(z, data.sum(axis=1) + data.max(axis=1))


def test_several_outputs_take_one_type():
    a = te.placeholder((4,), "int16", name="A")
    outs = te.extern([(4,), (4,)], [a], lambda i, o: tir.call_packed("f", *i, *o))
    assert [t.dtype for t in outs] == ["int16", "int16"]
    outs = te.extern([(4,), (4,)], [a], lambda i, o: tir.call_packed("f"), dtype="float64")
    assert [t.dtype for t in outs] == ["float64", "float64"]


def test_symbolic_sizes():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")

    def body(ins, outs):
        i = te.var("i")
        return For(
            i, tir.const(0), n, "serial", BufferStore(outs[0], ins[0].vload([i]), (n - 1 - i,))
        )

    b = te.extern((n,), [a], body, name="B")
    c = te.compute((n,), lambda i: b[i] + 1.0, name="C")
    f = driver.build(te.create_schedule(c.op), [a, c])
    for size in (0, 1, 7, 100):
        data, out = np.arange(size, dtype="f4"), np.full(size, np.nan, "f4")
        f(data, out)
        np.testing.assert_array_equal(out, data[::-1] + 1)


def test_declared_buffers_get_the_real_strides_and_offsets():
    a = te.placeholder((5, 6), name="A")
    row, col = te.var("row"), te.var("col")
    first = te.var("first")
    view = tir.decl_buffer((5, 6), name="view", strides=[row, col], elem_offset=first)
    flat = tir.decl_buffer((5,), name="flat")

    def body(ins, outs):
        assert ins == [view]
        assert outs == [flat]
        return loop(
            5,
            lambda i: BufferStore(
                flat, view.vload([i, 2]) + (row * 10 + col + first).astype("float32"), (i,)
            ),
        )

    b = te.extern((5,), [a], body, name="B", in_buffers=[view], out_buffers=[flat])
    data = np.arange(30, dtype="f4").reshape(5, 6)
    (out,) = run(te.create_schedule(b.op), [a, b], [data], [((5,), "f4")])
    np.testing.assert_array_equal(out, data[:, 2] + 61)


def test_a_strided_argument_reaches_the_statement():
    a = te.placeholder((5, 6), name="A")
    row = te.var("row")
    view = tir.decl_buffer((5, 6), name="view", strides=[row, 1])

    def body(ins, outs):
        return loop(
            5, lambda i: BufferStore(outs[0], ins[0].vload([i, 2]) + row.astype("float32"), (i,))
        )

    b = te.extern((5,), [a], body, name="B", in_buffers=view)
    real = tir.decl_buffer((5, 6), name="A", strides=[8, 1])
    f = driver.build(te.create_schedule(b.op), [a, b], binds={a: real})
    data, out = np.arange(40, dtype="f4").reshape(5, 8)[:, :6], np.zeros(5, "f4")
    f(data, out)
    np.testing.assert_array_equal(out, data[:, 2] + 8)


def test_a_declared_stride_that_the_buffer_does_not_have():
    a = te.placeholder((5, 6), name="A")
    view = tir.decl_buffer((5, 6), name="view", strides=[8, 1])
    b = te.extern((5,), [a], lambda i, o: tir.call_packed("f", *i, *o), in_buffers=view)
    with pytest.raises(LowerError, match=r"stride of dimension 0.*view is declared as 8, and is 6"):
        driver.lower(te.create_schedule(b.op), [a, b])


def test_attached_at_a_loop_it_runs_as_a_whole(golden):
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], doubled, name="B")
    c = te.compute((3, 4), lambda i, j: b[j] + i, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    data = np.arange(4, dtype="f4")
    (out,) = run(s, [a, c], [data], [((3, 4), "f4")])
    np.testing.assert_array_equal(out, data * 2 + np.arange(3)[:, None])
    golden("lang_extern_attached", str(driver.lower(s, [a, c])))


def test_its_input_is_whole_where_it_is_attached():
    a = te.placeholder((4,), name="A")
    t = te.compute((4,), lambda i: a[i] + 1.0, name="T")
    b = te.extern((4,), [t], doubled, name="B")
    c = te.compute((3, 4), lambda i, j: b[j] + t[j] + i, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[t].compute_at(s[c], c.op.axis[0])
    data = np.arange(4, dtype="f4")
    (out,) = run(s, [a, c], [data], [((3, 4), "f4")])
    np.testing.assert_array_equal(out, (data + 1) * 3 + np.arange(3)[:, None])


def test_places_where_it_cannot_be():
    a = te.placeholder((4,), name="A")
    t = te.compute((4,), lambda i: a[i] + 1.0, name="T")
    b = te.extern((4,), [t], doubled, name="B")
    c = te.compute((4,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    with pytest.raises((ScheduleError, LowerError), match="has no expression to put elsewhere"):
        s[b].compute_inline()
    s[t].compute_inline()
    with pytest.raises(LowerError, match="B is a statement that reads T as a whole"):
        driver.lower(s, [a, c])
    s = te.create_schedule([b.op, c.op])
    with pytest.raises(ScheduleError):
        s[b].compute_at(s[c], c.op.axis[0])


def test_calls_of_registered_functions_see_whole_arrays():
    a = te.placeholder((4, 3), name="A")
    b = te.extern((4, 3), [a], lambda i, o: tir.call_packed("lang.f", i[0], o[0], 3, "x"), name="B")
    text = str(driver.lower(te.create_schedule(b.op), [a, b]))
    assert "call_packed('lang.f', view(A, (4, 3)), view(B, (4, 3)), 3, 'x')" in text


def test_a_registered_function_computes_a_stage():
    def scaled(x, y, factor):
        y.copyfrom(x.numpy() * factor)

    packed.register_func("lang.scaled", scaled, override=True)
    try:
        a = te.placeholder((4, 3), name="A")
        t = te.compute((4, 3), lambda i, j: a[i, j] + 1.0, name="T")
        b = te.extern(
            (4, 3), [t], lambda i, o: tir.call_packed("lang.scaled", i[0], o[0], 3), name="B"
        )
        c = te.compute((4, 3), lambda i, j: b[i, j] - a[i, j], name="C")
        data = np.arange(12, dtype="f4").reshape(4, 3)
        (out,) = run(te.create_schedule(c.op), [a, c], [data], [((4, 3), "f4")])
        np.testing.assert_array_equal(out, (data + 1) * 3 - data)
        (out,) = run(te.create_schedule(b.op), [a, b], [data], [((4, 3), "f4")])
        np.testing.assert_array_equal(out, (data + 1) * 3)
    finally:
        packed.remove_global_func("lang.scaled")


def test_the_examples_in_the_docstrings():
    names = {"te": te, "tir": tir, "lower": driver.lower}
    for thing in (te.extern, te.comm_reducer):
        example = doctest.DocTestParser().get_doctest(
            thing.__doc__, names, thing.__name__, __file__, 0
        )
        assert example.examples
        text: list[str] = []
        assert doctest.DocTestRunner().run(example, out=text.append).failed == 0, "".join(text)


def test_a_function_of_loop_ir_as_a_stage():
    x, y = tir.decl_buffer((13,), name="X"), tir.decl_buffer((13,), name="Y")
    f = tir.PrimFunc((x, y), doubled([x], [y]))
    a = te.placeholder((13,), name="A")
    b = te.extern_primfunc([a], f, name="B")
    c = te.compute((13,), lambda i: b[i] + 1.0, name="C")
    data = np.arange(13, dtype="f4")
    (out,) = run(te.create_schedule(c.op), [a, c], [data], [((13,), "f4")])
    np.testing.assert_array_equal(out, data * 2 + 1)
    with pytest.raises(ArgumentError, match="2 parameters, 2 of them buffers, for 2 inputs"):
        te.extern_primfunc([a, a], f)


def test_misuse_says_what_is_wrong():
    a = te.placeholder((4,), name="A")
    z = te.placeholder((4,), "int8", name="Z")

    def call(ins, outs):
        return tir.call_packed("f", *ins, *outs)

    for options, text in [
        ({"inputs": [a, z]}, "float32 and int8"),
        ({"inputs": []}, "no type"),
        ({"inputs": [3]}, "the input 3 is a int, not a tensor"),
        ({"fcompute": 3}, "fcompute is a int"),
        ({"fcompute": lambda i, o: None}, "fcompute returned a NoneType"),
        ({"dtype": ["int8", "int8"]}, "2 types were given for 1 outputs"),
        ({"in_buffers": [tir.decl_buffer((4, 1))]}, "has 2 dimensions, A has 1"),
        ({"in_buffers": [tir.decl_buffer((5,))]}, "dimension 0 of the buffer buffer is 5"),
        ({"in_buffers": [tir.decl_buffer((4,), "int8")]}, "holds int8, A is float32"),
        ({"in_buffers": []}, "holds 0 buffers for 1 tensors"),
        ({"out_buffers": [3]}, "out_buffers holds a int"),
        ({"shape": (-1,)}, "the dimension -1 is negative"),
        ({"attrs": 3}, "attrs is a int"),
    ]:
        given = {"shape": (4,), "inputs": [a], "fcompute": call, **options}
        with pytest.raises(ArgumentError, match=text):
            te.extern(**given)
    with pytest.raises(ArgumentError, match="the first argument is a name"):
        tir.call_packed(3)
    with pytest.raises(ArgumentError, match="a NoneType cannot be handed"):
        tir.call_packed("f", None)


def test_what_is_stored_through_another_shape_of_an_output_is_written():
    """An argument that a kernel writes through a view must be writable like any other."""

    def reversed_rows(ins, outs):
        ib = ir_builder.create()
        given, made = (ib.buffer_ptr(b, shape=(5, 3)) for b in (ins[0], outs[0]))
        with ib.for_range(0, 5, name="i") as i, ib.for_range(0, 3, name="j") as j:
            made[i, j] = given[i, 2 - j]
        return ib.get()

    a = te.placeholder((15,), name="A")
    b = te.extern((15,), [a], reversed_rows, name="B")
    f = driver.build(te.create_schedule(b.op), [a, b])
    assert [p.written for p in f.entry_func.signature.params] == [False, True]
    x = np.random.default_rng().random(15, "float32")
    out = np.full(15, np.nan, "float32")
    f(x, out)
    np.testing.assert_array_equal(out.reshape(5, 3), x.reshape(5, 3)[:, ::-1])
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        f(x, out)
