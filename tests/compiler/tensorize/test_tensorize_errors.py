"""Each error of tensorize and decl_tensor_intrin, by its message."""

import pytest
from tensor_intrins import gemv, product, tiled

import whet
from whet import te, tir


def lowered(s, tensors):
    return whet.lower(s, list(tensors))


def scaled(n=4, dtype="float32", **options):
    """``y[i] = 2 * x[i]`` as one vector."""
    x = te.placeholder((n,), dtype, name="x")
    y = te.compute((n,), lambda i: x[i] * 2, name="y")
    run = lambda ins, outs: outs[0].vstore(0, ins[0].vload(0, f"{dtype}x{n}") * 2)  # noqa: E731
    return te.decl_tensor_intrin(y.op, run, "scaled", **options)


def doubled(shape=(12, 12), dtype="float32"):
    a = te.placeholder(shape, dtype, name="A")
    b = te.compute(shape, lambda *i: a(*i) * 2, name="B")
    return te.create_schedule(b.op), a, b


def test_what_is_no_intrinsic_or_no_loop():
    s, (a, _b, c), (x, _yo, ko) = tiled(3, 8, 16)
    tile = s[c].leaf_iter_vars[3]
    for call, why in (
        (lambda: s[c].tensorize(ko, 3), "a int is no tensor intrinsic"),
        (lambda: s[c].tensorize(ko, gemv(4, 8)), "j.inner is tensorized already"),
        (lambda: s[c].tensorize(te.reduce_axis((0, 4)), gemv(4, 8)), "is not an axis of C"),
        (lambda: s[a].tensorize(x, gemv(4, 8)), "A is an input and is not computed"),
        (lambda: s[c].split(tile, 2), "j.inner is tensorized already"),
        (lambda: s[c].vectorize(tile), "j.inner is tensorized already"),
        (lambda: s[c].bind(tile, te.thread_axis("threadIdx.x")), "tensorized already"),
    ):
        with pytest.raises(whet.ScheduleError, match=why):
            call()


def test_what_stands_inside_the_tile():
    s, tensors, _ = tiled(3, 8, 16)
    c = tensors[2]
    s[c].unroll(s[c].leaf_iter_vars[-1])
    with pytest.raises(whet.LowerError, match=r"the loop k.inner inside the tile is unrolled"):
        lowered(s, tensors)
    s, tensors, _ = tiled(3, 8, 16)
    c = tensors[2]
    read = s.cache_read(tensors[0], "global", [c])
    s[read].compute_at(s[c], s[c].leaf_iter_vars[3])
    with pytest.raises(whet.LowerError, match=r"A.global is attached at j.inner, inside the tile"):
        lowered(s, tensors)
    s, tensors, (x, _, _) = tiled(3, 8, 16)
    s[tensors[2]].set_store_predicate(x.var < 2)
    with pytest.raises(whet.LowerError, match="the stage has a store predicate"):
        lowered(s, tensors)


def test_extents_and_axes():
    s, tensors, _ = tiled(3, 2, 16)
    with pytest.raises(whet.LowerError, match=r"has the data axes j\(2\) where .* i\(4\)"):
        lowered(s, tensors)
    n = te.size_var("n")
    s, a, b = doubled((n,))
    s[b].tensorize(b.op.axis[0], scaled())
    with pytest.raises(whet.LowerError, match="the extent of the loop i0, n, is not a constant"):
        lowered(s, (a, b))


def test_gaps_between_the_loops_of_a_tile():
    s, a, b = doubled((12,))
    outer, inner = s[b].split(b.op.axis[0], 2)
    far, near = s[b].split(outer, 3)
    s[b].reorder(near, far, inner)
    s[b].tensorize(far, scaled())
    with pytest.raises(whet.LowerError, match="gaps along i0: loops of 2 steps of 1, 2 steps of 6"):
        lowered(s, (a, b))


def test_what_buffers_are_declared_to_be():
    def of(options, shape=(12, 12), axis=1):
        s, a, b = doubled(shape)
        outer, inner = s[b].split(b.op.axis[axis], 4)
        s[b].reorder(outer, *[x for x in b.op.axis if x is not b.op.axis[axis]], inner)
        s[b].tensorize(inner, scaled(default_buffer_params=options))
        return lowered(s, (a, b))

    assert "ramp" in str(of({"offset_factor": 4}))
    n = te.size_var("n")
    for options, shape, axis, why in (
        ({"offset_factor": 8}, (12, 12), 1, "offset_factor=8, and its tile begins at element"),
        ({"offset_factor": 4}, (12, n), 1, "offset_factor=4, and its tile begins at element"),
        ({"strides": [2]}, (12, 12), 1, "stride of dimension 0 of the buffer x is 2, and that"),
        ({}, (12, 12), 0, r"is 1 \(it is declared compact\), and that of its tile of A is 12"),
        ({"scope": "local"}, (12, 12), 1, "x is declared in scope local, and A is kept in global"),
        ({"elem_offset": 5}, (12, 12), 1, "the offset of the buffer x is 5, and that of its tile"),
        ({"strides": [te.var("s")]}, (12, 12), 0, "vectors along dimension 0 of x, which is not"),
    ):
        with pytest.raises(whet.LowerError, match=why):
            of(options, shape, axis)


def test_a_reduction_in_steps_needs_an_update():
    s, tensors, _ = tiled(3, 8, 16, parts=("body",))
    with pytest.raises(whet.LowerError, match=r"goes on in the loop k.outer .* gemv has no update"):
        lowered(s, tensors)
    a, b, _ = product(3, 4, 8)
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((3, 4), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k, init=1.0), name="C")
    s = te.create_schedule(c.op)
    s[c].tensorize(c.op.axis[1], gemv(4, 8))
    with pytest.raises(whet.LowerError, match="a first value of its own"):
        lowered(s, (a, b, c))


def test_another_combination():
    a, b, _ = product(3, 4, 8)
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((3, 4), lambda i, j: te.max(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[c].tensorize(c.op.axis[1], gemv(4, 8))
    with pytest.raises(
        whet.LowerError, match=r"max of float32 where .* sum of float32: they reduce"
    ):
        lowered(s, (a, b, c))
    s, a, b = doubled((4,), "int32")
    s[b].tensorize(b.op.axis[0], scaled())
    with pytest.raises(whet.LowerError, match="int32 where the instruction has float32"):
        lowered(s, (a, b))


def test_declarations():
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2.0, name="y")
    z = te.compute((4,), lambda i: y[i] * 2.0, name="z")
    n = te.size_var("n")
    u = te.placeholder((n,), name="u")
    v = te.compute((n,), lambda i: u[i], name="v")
    k = te.reduce_axis((0, 4), name="k")
    total = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="total")
    store = lambda ins, outs: outs[0].vstore(0, ins[0].vload(0))  # noqa: E731
    nothing = lambda ins, outs: None  # noqa: E731
    for call, why in (
        (lambda: te.decl_tensor_intrin(x.op, store), "is not a computation"),
        (lambda: te.decl_tensor_intrin(y, store), "is not a computation"),
        (lambda: te.decl_tensor_intrin(z.op, store), "y, which z reads, is computed"),
        (lambda: te.decl_tensor_intrin(v.op, store), "the extent of its axis i is n, not a number"),
        (lambda: te.decl_tensor_intrin(y.op, 3), "fcompute is a int, not a function"),
        (lambda: te.decl_tensor_intrin(y.op, nothing), "return one statement"),
        (lambda: te.decl_tensor_intrin(y.op, lambda i, o: [1] * 4), "fcompute returned int, int"),
        (lambda: te.decl_tensor_intrin(y.op, lambda i, o: (None, store(i, o))), "there is no body"),
        (lambda: te.decl_tensor_intrin(total.op, lambda i, o: (None, None, store(i, o))), "reset"),
        (lambda: te.decl_tensor_intrin(y.op, store, binds={z: None}), "which is no tensor of"),
        (lambda: te.decl_tensor_intrin(y.op, store, binds={x: 3}), "x is bound to a int"),
        (
            lambda: te.decl_tensor_intrin(y.op, store, binds={x: tir.decl_buffer((5,))}),
            r"x is float32\[4\], its buffer buffer: float32\[5\]",
        ),
        (lambda: te.decl_tensor_intrin(y.op, store, scalar_params=[3]), "3 is no variable"),
    ):
        with pytest.raises(whet.compiler.errors.ArgumentError, match=why):
            call()


def test_another_view_of_a_declared_buffer():
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2, name="y")

    def run(ins, outs):
        flat = tir.decl_buffer((4,), name="flat", data=ins[0].data)
        return tir.DeclBuffer(flat, outs[0].vstore(0, flat.vload(0)))

    s, a, b = doubled((4,))
    s[b].tensorize(b.op.axis[0], te.decl_tensor_intrin(y.op, run))
    with pytest.raises(whet.LowerError, match="has another view of the memory of x"):
        lowered(s, (a, b))


def test_a_reset_that_reads_an_input_of_the_loop_after_it():
    x = te.placeholder((4,), name="x")
    k = te.reduce_axis((0, 4), name="k")
    y = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="y")
    declared = tir.decl_buffer((4,), "float32", "x", elem_offset=te.var("o"), offset_factor=1)
    out = tir.decl_buffer((1,), "float32", "y", elem_offset=te.var("p"), offset_factor=1)

    def parts(ins, outs):
        first = ins[0].vload(0, "float32")
        some = outs[0].vload(0, "float32") + first
        return outs[0].vstore(0, first), outs[0].vstore(0, first), outs[0].vstore(0, some)

    reads = te.decl_tensor_intrin(y.op, parts, "reads", binds={x: declared, y: out})
    a = te.placeholder((6, 16), name="A")
    r = te.reduce_axis((0, 16), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, r], axis=r), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(r, 4)
    s[b].tensorize(inner, reads)
    with pytest.raises(
        whet.LowerError, match=r"tensorize.*the reset of reads runs before the loop"
    ):
        lowered(s, (a, b))
