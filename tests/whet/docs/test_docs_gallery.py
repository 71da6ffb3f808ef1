"""Steps of the pages of TVM's gallery on schedules and operators, in computations of our own.

A test is named after the page whose steps and names it uses.
"""

from functools import partial

import numpy as np
import pytest
from emulated import agree
from gallery_checks import CPU, ORDERS, close, text_of
from whet.contrib import cblas, cc, utils

import whet as tvm
from whet import te
from whet.compiler.tir.ops.intrinsics import LOWERINGS


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


def halfway(n, dtype="float64"):
    """The middle between two rows of ``n`` numbers."""
    low, high = (te.placeholder((n,), dtype, name=name) for name in ("low", "high"))
    return low, high, te.compute((n,), lambda p: low[p] + (high[p] - low[p]) / 2, name="mid")


def products(rows=35, cols=22, depth=27, dtype="float64"):
    """``out[r, c] = sum(left[d, r] * right[c, d])``: both operands are transposed."""
    left = te.placeholder((depth, rows), dtype, name="left")
    right = te.placeholder((cols, depth), dtype, name="right")
    d = te.reduce_axis((0, depth), "d")
    out = te.compute((rows, cols), lambda r, c: te.sum(left[d, r] * right[c, d], d), name="out")
    return left, right, out


def test_tensor_expr_get_started_page(rng, tmp_path):
    target = tvm.target.Target(target=CPU, host=CPU)
    tensors = *_, mid = halfway(te.var("count"))
    plain, quick = te.create_schedule(mid.op), te.create_schedule([mid.op])
    block, lane = quick[mid].split(mid.op.axis[0], factor=6)
    quick[mid].parallel(block)
    quick[mid].vectorize(lane)
    assert "for p in range(count)" in text_of(plain, tensors)
    assert "parallel((count + 5) // 6)" in text_of(quick, tensors)
    assert "ramp(p_outer * 6" in text_of(quick, tensors)
    kernels = [tvm.build(s, tensors, target, name="middle") for s in (plain, quick)]
    first = kernels[0]
    first.save(str(tmp_path / "middle.o"))
    folder = utils.tempdir()
    cc.create_shared(folder.relpath("linked.so"), [str(tmp_path / "middle.o")])
    first.export_library(folder.relpath("packed.so"))
    assert {"linked.so", "packed.so"} <= set(folder.listdir())
    for name in ("linked.so", "packed.so"):
        kernels.append(tvm.runtime.load_module(folder.relpath(name)))
    for size in (1, 47, 1003):
        x, y = rng.standard_normal((2, size))
        for kernel in kernels:
            close(kernel, (x, y), [(x + y) / 2], "float64")
    device = tvm.device(target.kind.name, 0)
    times = first.time_evaluator(first.entry_name, device, number=2, repeat=3)
    measured = times(*(tvm.nd.array(z, device) for z in (x, y, np.zeros(1003))))
    assert len(measured.results) == 3 and measured.mean > 0

    tensors = *_, mid = halfway(te.var("count"), "float32")
    s = te.create_schedule(mid.op)
    block, thread = s[mid].split(mid.op.axis[0], factor=32)
    s[mid].bind(block, te.thread_axis("blockIdx.x"))
    s[mid].bind(thread, te.thread_axis("threadIdx.x"))
    x, y = rng.standard_normal((2, 75)).astype("float32")
    want = (x.astype("float64") + y) / 2
    source = agree(s, tensors, (x, y), [((75,), "float32")], [want], orders=ORDERS)
    assert "blockIdx.x" in source and "threadIdx.x" in source


def test_opt_gemm_page(rng):
    left, right, out = products()
    x, y = rng.standard_normal((27, 35)), rng.standard_normal((22, 27))
    want = [x.T @ y.T]

    def tiled(s, result):
        r, c = s[result].op.axis
        ro, co, ri, ci = s[result].tile(r, c, 8, 4)
        do, di = s[result].split(s[result].op.reduce_axis[0], factor=3)
        return ro, co, do, ri, di, ci

    naive = te.create_schedule(out.op)
    blocked = te.create_schedule(out.op)
    ro, co, do, ri, di, ci = tiled(blocked, out)
    blocked[out].reorder(ro, co, do, di, ri, ci)
    vectors = te.create_schedule(out.op)
    ro, co, do, ri, di, ci = tiled(vectors, out)
    vectors[out].reorder(ro, co, do, ri, di, ci)
    vectors[out].vectorize(ci)
    for s in (naive, blocked, vectors):
        close(tvm.build(s, [left, right, out], CPU), (x, y), want, "float64")
    text = text_of(blocked, [left, right, out])
    assert "for r_outer in range(5):" in text and "for c_outer in range(6):" in text
    assert text.index("for d_outer in range(9)") < text.index("for r_inner", text.index("d_outer"))
    assert "ramp" in text_of(vectors, [left, right, out])

    # The right operand in panels of four columns, which are the last index.
    panels = te.compute(
        (6, 27, 4),
        lambda p, d, q: te.if_then_else(p * 4 + q < 22, right[p * 4 + q, d], 0.0),
        name="panels",
    )
    d = te.reduce_axis((0, 27), "d")
    div, mod = tvm.tir.indexdiv, tvm.tir.indexmod
    out = te.compute(
        (35, 22), lambda r, c: te.sum(left[d, r] * panels[div(c, 4), d, mod(c, 4)], d), name="out"
    )
    s = te.create_schedule(out.op)
    kept = s.cache_write(out, "global")
    ro, co, _, _ = s[out].tile(*out.op.axis, x_factor=5, y_factor=4)
    s[kept].compute_at(s[out], co)
    r, c = s[kept].op.axis
    do, di = s[kept].split(s[kept].op.reduce_axis[0], factor=3)
    s[kept].reorder(do, r, di, c)
    s[kept].unroll(di)
    s[kept].vectorize(c)
    s[out].parallel(ro)
    s[panels].parallel(panels.op.axis[0])
    text = text_of(s, [left, right, out])
    assert text.count("parallel") == 2 and text.index("panels[") < text.index("out_global[")
    close(tvm.build(s, [left, right, out], CPU), (x, y), want, "float64")


def test_opt_conv_cuda_page(rng):
    """Two images of three channels, four filters of 3x2, a row of zeros above and below."""
    image = te.placeholder((2, 3, 5, 7), name="image")
    weight = te.placeholder((4, 3, 3, 2), name="weight")
    tall = te.compute(
        (2, 3, 7, 7),
        lambda n, c, y, x: te.if_then_else(te.all(y >= 1, y < 6), image[n, c, y - 1, x], 0.0),
        name="tall",
    )
    rc, ry, rx = (te.reduce_axis((0, e), name) for e, name in ((3, "rc"), (3, "ry"), (2, "rx")))
    out = te.compute(
        (2, 4, 5, 6),
        lambda n, f, y, x: te.sum(
            tall[n, rc, y + ry, x + rx] * weight[f, rc, ry, rx], [rc, ry, rx]
        ),
        name="out",
    )
    s = te.create_schedule(out.op)
    s[tall].compute_inline()
    shared = [s.cache_read(t, "shared", [out]) for t in (tall, weight)]
    sums = s.cache_write(out, "local")
    local = [s.cache_read(t, "local", [sums]) for t in shared]
    n, f, y, x = s[out].op.axis
    fo, fi = s[out].split(f, nparts=2)  # two virtual threads
    s[out].reorder(n, fo, y, x, fi)
    for loop, name in ((n, "blockIdx.x"), (fo, "vthread"), (y, "threadIdx.y"), (x, "threadIdx.x")):
        extent = {"vthread": (0, 2), "threadIdx.y": (0, 5), "threadIdx.x": (0, 6)}.get(name)
        s[out].bind(loop, te.thread_axis(extent, name))
    s[sums].compute_at(s[out], x)
    rc, ry, rx = s[sums].op.reduce_axis
    s[sums].reorder(rc, ry, rx, *s[sums].op.axis)
    for there, here in zip(shared, local):
        s[there].compute_at(s[sums], rc)
        s[here].compute_at(s[sums], rx)
        ty, rest = s[there].split(s[there].fuse(*s[there].op.axis), nparts=5)
        tx, _ = s[there].split(rest, nparts=6)
        s[there].bind(ty, te.thread_axis((0, 5), "threadIdx.y"))
        s[there].bind(tx, te.thread_axis((0, 6), "threadIdx.x"))
    a = rng.standard_normal((2, 3, 5, 7)).astype("float32")
    w = rng.standard_normal((4, 3, 3, 2)).astype("float32")
    padded = np.pad(a.astype("float64"), ((0, 0), (0, 0), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), axis=(2, 3))
    want = np.einsum("ncyxij,fcij->nfyx", windows, w.astype("float64"))
    shape = [((2, 4, 5, 6), "float32")]
    source = agree(s, [image, weight, out], (a, w), shape, [want], orders=ORDERS)
    assert (
        all(f"{name}_shared" in source for name in ("tall", "weight")) and "__syncthreads" in source
    )


def test_extern_op_page(rng):
    x, y = rng.standard_normal((19, 13)), rng.standard_normal((7, 13))
    scale = te.var("scale", "float64")
    left, right = te.placeholder((19, 13), "float64"), te.placeholder((7, 13), "float64")

    def library(ins, outs):
        name = "tvm.contrib.cblas.matmul"
        return tvm.tir.call_packed(name, ins[0], ins[1], outs[0], False, True)

    def scaled(inner, i, j):
        return inner[i, j] * scale - 1

    by_name = te.extern((19, 7), [left, right], library, dtype="float64", name="by_name")
    for inner in (by_name, cblas.matmul(left, right, transb=True)):
        out = te.compute((19, 7), partial(scaled, inner), name="out")
        kernel = tvm.build(te.create_schedule(out.op), [left, right, scale, out], CPU)
        close(kernel, (x, y, 2.5), [x @ y.T * 2.5 - 1], "float64")

    seen = []

    @tvm.register_func("tests.gallery.sorted_rows", override=True)
    def sorted_rows(source, result):
        seen.append(source.shape)
        tvm.nd.array(np.sort(source.numpy(), axis=1)).copyto(result)

    table = te.placeholder((5, 9), name="table")
    doubled = te.compute((5, 9), lambda i, j: table[i, j] * 2, name="doubled")
    ranks = te.extern(
        doubled.shape,
        [doubled],
        lambda ins, outs: tvm.tir.call_packed("tests.gallery.sorted_rows", ins[0], outs[0]),
        name="ranks",
    )
    z = rng.standard_normal((5, 9)).astype("float32")
    kernel = tvm.build(te.create_schedule(ranks.op), [table, ranks], CPU)
    close(kernel, [z], [np.sort(2.0 * z, axis=1)])
    assert seen == [(5, 9)]


def threads(s, t, factor):
    block, thread = s[t].split(t.op.axis[0], factor=factor)
    s[t].bind(block, te.thread_axis("blockIdx.x"))
    s[t].bind(thread, te.thread_axis("threadIdx.x"))


@pytest.fixture
def lowerings():
    """The rules of intrinsics, which are as they were after the test."""
    before = dict(LOWERINGS)
    yield
    LOWERINGS.clear()
    LOWERINGS.update(before)


def test_intrin_math_page(rng, lowerings):
    x = rng.uniform(0.1, 4, 53).astype("float32")
    exact = x.astype("float64")
    n = te.var("n")
    data = te.placeholder((n,), name="data")

    def runs(function, want, called):
        out = te.compute((n,), lambda i: function(data[i]), name="out")
        s = te.create_schedule(out.op)
        threads(s, out, 20)
        source = agree(s, [data, out], [x], [((53,), "float32")], [want], orders=ORDERS[:1])
        assert called in source

    runs(lambda v: tvm.tir.call_pure_extern("float32", "sqrtf", v), np.sqrt(exact), "sqrtf(")
    runs(te.tanh, np.tanh(exact), "tanhf(")

    @tvm.ir.register_intrin_lowering("tir.tanh", target="cuda", level=99)
    def by_exponentials(call):
        e = tvm.tir.exp(call.args[0] * 2.0)
        return (e - 1.0) / (e + 1.0)

    def cube(call):
        assert isinstance(call, tvm.tir.Call) and call.op.name == "tir.test_cube"
        return call.args[0] * call.args[0] * call.args[0]

    runs(te.tanh, np.tanh(exact), "expf(")
    tvm.ir.register_op_attr("tir.test_cube", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    tvm.ir.register_intrin_lowering("tir.test_cube", target="default", f=cube, level=99)
    cubed = te.compute((n,), lambda i: tvm.tir.call_intrin("float32", "tir.test_cube", data[i]))
    close(tvm.build(te.create_schedule(cubed.op), [data, cubed], CPU), [x], [exact**3])


def test_reduction_page(rng):
    n, m = te.var("n"), te.var("m")
    data = te.placeholder((m, n), name="data")
    k = te.reduce_axis((0, m), "k")
    energy = te.compute((n,), lambda j: te.sum(data[k, j] * data[k, j], axis=k), name="energy")
    plain = te.create_schedule(energy.op)
    x = rng.standard_normal((37, 11)).astype("float32")
    want = (x.astype("float64") ** 2).sum(0)
    close(tvm.build(plain, [data, energy], CPU), [x], [want])

    s = te.create_schedule(energy.op)
    _, lane = s[energy].split(energy.op.reduce_axis[0], factor=8)
    part = s.rfactor(energy, lane)
    assert len(s[part].op.reduce_axis) == 1 and len(s[energy].op.reduce_axis) == 1
    block, row = s[energy].split(s[energy].op.axis[0], factor=4)
    s[energy].bind(block, te.thread_axis("blockIdx.x"))
    s[energy].bind(row, te.thread_axis("threadIdx.y"))
    thread = te.thread_axis("threadIdx.x")
    s[energy].bind(s[energy].op.reduce_axis[0], thread)
    s[part].compute_at(s[energy], s[energy].op.reduce_axis[0])
    s[energy].set_store_predicate(thread.var.equal(0))
    source = agree(s, [data, energy], [x], [((11,), "float32")], [want], orders=ORDERS)
    assert "if (tx == 0) {" in source and source.count("energy[") == 1

    # Two axes at once, and a reduction of our own: the element of largest magnitude.
    u, v = te.reduce_axis((0, 2), "u"), te.reduce_axis((0, 3), "v")
    boxes = te.compute((m - 1, n - 2), lambda i, j: te.sum(data[i + u, j + v], axis=[u, v]))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("float64"), (2, 3))
    close(tvm.build(te.create_schedule(boxes.op), [data, boxes], CPU), [x], [windows.sum((2, 3))])
    farthest = te.comm_reducer(
        lambda a, b: tvm.tir.Select(te.abs(b) > te.abs(a), b, a),
        lambda dtype: tvm.tir.const(0, dtype),
        name="farthest",
    )
    k = te.reduce_axis((0, n), "k")
    peak = te.compute((m,), lambda i: farthest(data[i, k], axis=k), name="peak")
    want = x[np.arange(37), np.abs(x).argmax(1)]
    close(tvm.build(te.create_schedule(peak.op), [data, peak], CPU), [x], [want])
