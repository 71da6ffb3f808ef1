"""Tensorized kernels compute what they did before, at odd sizes, under every primitive."""

import numpy as np
import pytest
from tensor_intrins import TARGET, fresh, gemv, is_product, poisoned, product, tiled

import whet
from whet import te, tir
from whet.compiler.te.lower.schedule_ops import schedule_ops
from whet.compiler.tir.printer import stmt_text

FIRST = ("body", "update")


@pytest.mark.parametrize("parts", [("body", "reset", "update"), FIRST, ("reset", "update")])
@pytest.mark.parametrize("sizes", [(3, 8, 16), (3, 7, 19), (1, 4, 8), (5, 13, 17)])
def test_a_product_in_tiles_and_their_rest(parts, sizes):
    s, tensors, _ = tiled(*sizes, parts=parts)
    text = is_product(s, tensors)
    assert "for p in range(4)" in text


def test_float64_and_the_other_kinds_of_code():
    s, tensors, _ = tiled(3, 7, 19, dtype="float64")
    for target in (TARGET, "c -num_threads=2"):
        is_product(s, tensors, target)


def test_golden_loops(golden):
    s, tensors, _ = tiled(3, 7, 19)
    buffers = {t: tir.decl_buffer(t.shape, t.dtype, t.name) for t in tensors}
    golden("schedule_tensorize", f"{s.trace}\n\n{stmt_text(schedule_ops(s, buffers))}")


def test_the_trace_holds_it_and_names_what_is_no_data():
    s, tensors, _ = tiled(3, 7, 19)
    again = s.trace.replay(s.outputs)
    assert str(whet.lower(again, list(tensors))) == str(whet.lower(s, list(tensors)))
    assert 'intrinsics["gemv"]' in str(s.trace) and s.copy()[tensors[2]].tensorized == 3
    stored = te.Trace.from_json(s.trace.to_json())
    with pytest.raises(whet.ScheduleError, match="names the tensor intrinsic gemv"):
        stored.replay(s.outputs)


def test_all_of_a_reduction_in_the_tile():
    a, b, c = product(5, 11, 8)
    s = te.create_schedule(c.op)
    _, yi = s[c].split(c.op.axis[1], 4)
    s[c].tensorize(yi, gemv(4, 8, parts=("body",)))
    is_product(s, (a, b, c))


def test_the_stages_other_axis_stands_for_the_instructions():
    """Rows are tensorized: the output's stride is that of a column."""
    a, b, c = product(11, 5, 13)
    s = te.create_schedule(c.op)
    xo, xi = s[c].split(c.op.axis[0], 4)
    ko, ki = s[c].split(c.op.reduce_axis[0], 8)
    s[c].reorder(c.op.axis[1], xo, ko, xi, ki)
    s[c].tensorize(xi, gemv(4, 8))
    assert "C[i_outer * 20 + p * 5 + j] = " in is_product(s, (a, b, c))


def test_a_data_loop_between_the_reductions():
    a, b, c = product(11, 9, 13)
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[1], 4)
    ko, ki = s[c].split(c.op.reduce_axis[0], 8)
    s[c].reorder(ko, c.op.axis[0], yo, yi, ki)
    s[c].tensorize(yi, gemv(4, 8))
    is_product(s, (a, b, c))


@pytest.mark.parametrize("fused", [False, True])
def test_loops_of_the_tile_that_were_split_again(fused):
    a, b, c = product(3, 10, 19)
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[1], 4)
    ko, ki = s[c].split(c.op.reduce_axis[0], 8)
    inner = list(s[c].split(ki, 2))
    s[c].reorder(c.op.axis[0], yo, ko, yi, *inner)
    if fused:
        inner = [s[c].fuse(*inner)]
    else:
        s[c].reorder(inner[0], yi)
    s[c].tensorize(yi if fused else inner[0], gemv(4, 8))
    is_product(s, (a, b, c))


def test_a_tile_of_every_other_row():
    """The outer loop of a split is in the tile, the inner one around it."""
    a, b, c = product(3, 8, 19)
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[1], 2)
    ko, ki = s[c].split(c.op.reduce_axis[0], 8)
    s[c].reorder(c.op.axis[0], yi, ko, yo, ki)
    s[c].tensorize(yo, gemv(4, 8))
    assert "C[i * 8 + j_inner + p * 2]" in is_product(s, (a, b, c))


@pytest.mark.parametrize("how", ["parallel", "unroll", "split", "bind"])
def test_loops_around_the_tile(how):
    s, tensors, (x, yo, _ko) = tiled(13, 22, 21)
    stage = s[tensors[2]]
    if how == "parallel":
        stage.parallel(stage.fuse(x, yo))
    elif how == "unroll":
        stage.unroll(yo)
    elif how == "bind":
        stage.bind(x, te.thread_axis("blockIdx.x"))
    else:
        stage.split(x, 4)
    is_product(s, tensors)


def test_a_tile_whose_last_one_begins_earlier():
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 3.0, name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], 4, tail="shift")
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 3.0, name="y")
    run = lambda ins, outs: outs[0].vstore(0, ins[0].vload(0, "float32x4") * 3.0)  # noqa: E731
    s[b].tensorize(inner, te.decl_tensor_intrin(y.op, run))
    assert "else" not in str(whet.lower(s, [a, b])) and "B[i" not in str(whet.lower(s, [a, b]))
    given, out = fresh(a), poisoned(b)
    whet.build(s, [a, b], TARGET)(given, out)
    np.testing.assert_array_equal(out, given * np.float32(3))


@pytest.mark.parametrize("scope", ["global", "local"])
def test_caches(scope):
    a, b, c = product(6, 10, 19)
    s = te.create_schedule(c.op)
    kept = s.cache_write(c, scope)
    read = s.cache_read(a, "global", [kept])
    yo, _ = s[c].split(c.op.axis[1], 4)
    s[kept].compute_at(s[c], yo)
    x, y = kept.op.axis
    ko, ki = s[kept].split(kept.op.reduce_axis[0], 8)
    s[kept].reorder(ko, x, y, ki)
    s[kept].tensorize(y, gemv(4, 8, scope=scope))
    s[read].compute_at(s[kept], ko)
    is_product(s, (a, b, c))


def test_a_tensorized_stage_inside_another():
    """Its region may reach beyond the tensor, where reads are clamped: loops compute that tile."""
    a, b, c = product(6, 10, 19)
    d = te.compute(c.shape, lambda i, j: c[i, j] * 1.0, name="D")
    s = te.create_schedule(d.op)
    yo, _ = s[d].split(d.op.axis[1], 8)
    s[c].compute_at(s[d], yo)
    y1, y2 = s[c].split(c.op.axis[1], 4)
    ko, ki = s[c].split(c.op.reduce_axis[0], 8)
    s[c].reorder(ko, c.op.axis[0], y1, y2, ki)
    s[c].tensorize(y2, gemv(4, 8))
    is_product(s, (a, b, d))


def test_symbolic_sizes_and_strides_of_arguments():
    n = te.size_var("n")
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[1], 4)
    ko, ki = s[c].split(k, 8)
    s[c].reorder(c.op.axis[0], yo, ko, yi, ki)
    s[c].tensorize(yi, gemv(4, 8, parts=FIRST))
    steps = [te.var("s0"), te.var("s1")]
    binds = {b: tir.decl_buffer(b.shape, b.dtype, "B", strides=steps)}
    f = whet.build(s, [a, b, c], TARGET, binds=binds)
    for size in (1, 4, 8, 21):
        x = np.random.rand(size, size).astype("float32")
        y = np.random.rand(size * 2, size * 3).astype("float32")[::2, ::3]
        out = np.full((size, size), np.nan, "float32")
        f(x, y, out)
        np.testing.assert_allclose(out, x.astype("float64") @ y.T, rtol=1e-5)


def test_a_first_value_of_the_reductions_own():
    a = te.placeholder((3, 19), name="A")
    b = te.placeholder((7, 19), name="B")
    bias = te.placeholder((7,), name="bias")
    k = te.reduce_axis((0, 19), name="k")
    c = te.compute((3, 7), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k, init=bias[j]), name="C")
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[1], 4)
    ko, ki = s[c].split(k, 8)
    s[c].reorder(c.op.axis[0], yo, ko, yi, ki)
    s[c].tensorize(yi, gemv(4, 8))
    x, y, z, out = fresh(a), fresh(b), fresh(bias), poisoned(c)
    whet.build(s, [a, b, bias, c], TARGET)(x, y, z, out)
    np.testing.assert_allclose(out, x.astype("float64") @ y.T + z, rtol=1e-5, atol=1e-5)


def test_a_packed_function_gets_the_tile():
    """A packed function sees the tile as a strided array."""
    seen = []

    @whet.register_func("test.tensorize.tile", override=True)
    def tile(x, y):
        seen.append((x.shape, x.numpy().copy()))
        y.copyfrom(x.numpy() + 1)

    a = te.placeholder((6, 10), name="A")
    b = te.compute((6, 10), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    _, _, xi, _ = s[b].tile(*b.op.axis, 3, 5)
    x = te.placeholder((3, 5), name="x")
    y = te.compute((3, 5), lambda i, j: x[i, j] + 1.0, name="y")
    options = {"strides": [te.var("s"), 1], "offset_factor": 1}
    run = lambda ins, outs: tir.call_packed("test.tensorize.tile", *ins, *outs)  # noqa: E731
    s[b].tensorize(xi, te.decl_tensor_intrin(y.op, run, "tile", default_buffer_params=options))
    given, out = fresh(a), poisoned(b)
    whet.build(s, [a, b], TARGET)(given, out)
    np.testing.assert_array_equal(out, given + np.float32(1))
    assert len(seen) == 4 and seen[0][0] == (3, 5)
    np.testing.assert_array_equal(seen[3][1], given[3:, 5:])


def test_threads_of_a_gpu_in_the_emulator():
    s, tensors, (x, yo, _) = tiled(3, 7, 19)
    stage = s[tensors[2]]
    stage.bind(x, te.thread_axis("blockIdx.x"))
    stage.bind(yo, te.thread_axis("threadIdx.x"))
    a, b, c = fresh(tensors[0]), fresh(tensors[1]), poisoned(tensors[2])
    there = [whet.nd.array(v, whet.device("cuda-emulator")) for v in (a, b, c)]
    whet.build(s, list(tensors), "cuda")(*there)
    np.testing.assert_allclose(there[2].numpy(), a @ b.T, rtol=1e-4, atol=1e-5)
