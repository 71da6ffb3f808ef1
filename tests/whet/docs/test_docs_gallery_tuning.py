"""Steps of the pages of TVM's gallery on operators, blocks, passes and tuning, in our own words.

A test is named after the page whose steps and names it uses.
"""

import logging

import numpy as np
import pytest
from emulated import agree

import whet as tvm
from whet import autotvm, te, tir, topi

CPU = "llvm -num_threads=2"
ORDERS = ("forwards", 5)


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


def close(kernel, given, want, dtype="float32"):
    """The kernel gives the wanted array for those given, on the CPU, in a poisoned output."""
    out = tvm.nd.array(np.full(want.shape, 77, dtype))
    kernel(*map(tvm.nd.array, given), out)
    tolerance = 1e-11 if dtype == "float64" else 1e-5
    tvm.testing.assert_allclose(out.numpy(), want, rtol=tolerance, atol=tolerance)


def on_gpu(s, args, given, want):
    """The same in the emulator; the text of its kernel."""
    outs = [(want.shape, "float32")]
    return agree(s, args, given, outs, [want], orders=ORDERS, rtol=1e-5, atol=1e-5)


def test_intro_topi_page(rng):
    x = rng.standard_normal((9, 23)).astype("float32")
    exact = x.astype("float64")
    data = te.placeholder((9, 23), name="data")
    gpu = tvm.target.Target("cuda -arch=sm_80")

    largest = topi.max(data, axis=0)
    s = te.create_schedule(largest.op)
    close(tvm.build(s, [data, largest], CPU), [x], x.max(0))
    with gpu:
        s = topi.cuda.schedule_reduce(topi.sum(data, axis=1))
        assert "threadIdx.x" in str(tvm.lower(s, [data], simple_mode=True))

    shift = te.placeholder((23,), name="shift")
    y = rng.standard_normal(23).astype("float32")
    bent = topi.sum(topi.tanh(data * 2.0 - shift) / 3.0, axis=1)
    want = (np.tanh(exact * 2 - y.astype("float64")) / 3).sum(1)
    with gpu:
        s = topi.cuda.schedule_reduce(bent)
        text = str(tvm.lower(s, [data, shift], simple_mode=True))
        assert "tanh(" in text and "T_tanh" not in text and "T_multiply" not in text  # fused
        on_gpu(s, [data, shift, bent], [x, y], want)
    close(tvm.build(topi.generic.schedule_reduce([bent]), [data, shift, bent], CPU), [x, y], want)

    odds = topi.nn.softmax(data, axis=1)
    want = np.exp(exact) / np.exp(exact).sum(1, keepdims=True)
    with gpu:
        on_gpu(topi.cuda.schedule_reduce(odds), [data, odds], [x], want)
        on_gpu(topi.cuda.schedule_softmax(odds), [data, odds], [x], want)
    with pytest.raises(AttributeError, match=r"it has schedule_injective.*create_task"):
        topi.cuda.schedule_of_nothing  # noqa: B018


def test_intro_topi_page_convolves(rng):
    image = te.placeholder((1, 2, 6, 5), name="image")
    weight = te.placeholder((3, 2, 3, 3), name="weight")
    out = topi.nn.relu(topi.nn.conv2d(image, weight, strides=1, padding=1, dilation=1))
    a = rng.standard_normal((1, 2, 6, 5)).astype("float32")
    w = rng.standard_normal((3, 2, 3, 3)).astype("float32")
    padded = np.pad(a.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    want = np.maximum(np.einsum("ncyxij,fcij->nfyx", windows, w.astype("float64")), 0)
    close(tvm.build(topi.generic.schedule_reduce(out), [image, weight, out], CPU), (a, w), want)
    with tvm.target.Target("cuda -arch=sm_80"):
        s = topi.cuda.schedule_reduce(out)
        assert "blockIdx.x" in on_gpu(s, [image, weight, out], (a, w), want)


def test_tensor_ir_blitz_course_page(rng, capsys):
    """A product and what is kept of it, as blocks; TVMScript is shown, not read."""
    left = te.placeholder((18, 11), "float64", name="left")
    right = te.placeholder((11, 15), "float64", name="right")
    d = te.reduce_axis((0, 11), "d")
    full = te.compute((18, 15), lambda i, j: te.sum(left[i, d] * right[d, j], axis=d), name="full")
    kept = te.compute((18, 15), lambda i, j: te.min(full[i, j], 0.5), name="kept")
    sch = tir.Schedule(te.create_prim_func([left, right, kept]))
    block = sch.get_block("full")
    i, j, d = sch.get_loops(block)
    jo, ji = sch.split(j, factors=[None, 4])
    sch.reorder(jo, i, d, ji)
    sch.reverse_compute_at(sch.get_block("kept"), i)
    assert [sch.get(x).extent.value for x in sch.get_loops(block)] == [4, 18, 11, 4]
    init = sch.decompose_reduction(block, d)
    assert sch.get(init).name_hint == "full_init" and sch.get(block).init is None
    sch.vectorize(ji)
    sch.parallel(jo)
    sch.mod.show()
    shown = capsys.readouterr().out
    assert shown.index('T.block("full_init")') < shown.index('T.block("full_update")')
    assert shown.index('T.block("full_update")') < shown.index('T.block("kept")')
    x, y = rng.standard_normal((18, 11)), rng.standard_normal((11, 15))
    close(tvm.build(sch.mod, target=CPU), (x, y), np.minimum(x @ y, 0.5), "float64")
    with pytest.raises(AttributeError, match=r"(?s)whet\.script.*printed, not parsed"):
        tvm.script  # noqa: B018


def damped():
    """A product of three: rows times columns times a factor of each column."""
    rows, cols = te.placeholder((13, 6), name="rows"), te.placeholder((6, 21), name="cols")
    k = te.reduce_axis((0, 6), name="k")
    out = te.compute((13, 21), lambda i, j: te.sum(rows[i, k] * cols[k, j], axis=k), name="out")
    return rows, cols, out


def test_low_level_custom_pass_page(rng):
    """A pass that reverses serial loops over multiples of seven, at a phase of lowering."""
    *_, out = tensors = damped()
    s = te.create_schedule(out.op)
    found = []

    def look(node):
        if not (isinstance(node, tir.For) and isinstance(node.extent, tir.IntImm)):
            return
        if node.extent.value % 7 == 0 and node.kind == tir.ForKind.SERIAL:
            found.append(node.loop_var)

    def reverse(node):
        if node.loop_var not in found:
            return None
        last = node.extent.value - 1
        body = tir.stmt_functor.substitute(node.body, {node.loop_var: last - node.loop_var})
        return tir.For(node.loop_var, 0, node.extent, tir.ForKind.SERIAL, body)

    @tir.transform.prim_func_pass(opt_level=0)
    def backwards(func, mod, ctx):
        tir.stmt_functor.post_order_visit(func.body, look)
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, reverse, ["tir.For"]))

    plain = str(tvm.lower(s, tensors))
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, backwards)]}):
        changed = str(tvm.lower(s, tensors))
        kernel = tvm.build(s, tensors, CPU)
    assert {v.name for v in found} == {"j"} and changed != plain and "20" in changed
    x, y = rng.standard_normal((13, 6)), rng.standard_normal((6, 21))
    x, y = x.astype("float32"), y.astype("float32")
    close(kernel, (x, y), x.astype("float64") @ y)


def test_use_pass_infra_page(capsys):
    *_, out = tensors = damped()
    s = te.create_schedule(out.op)
    s[out].unroll(s[out].split(out.op.reduce_axis[0], factor=2)[1])
    with tvm.transform.PassContext(disabled_pass=["tir.UnrollLoop", "tir.Simplify"]):
        mod = tvm.lower(s, tensors)
    ran = []

    @tvm.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod, info):
            ran.append(info.name)

    @tir.transform.prim_func_pass(opt_level=1, name="marked")
    class Marked:
        def __init__(self, key, value):
            self.key, self.value = key, value

        def transform_function(self, func, mod, ctx):
            return func.with_attr(self.key, self.value)

    @tvm.transform.module_pass(opt_level=3, name="late")
    def late(mod, ctx):
        assert ctx.opt_level == 3
        return mod

    unroll = tir.transform.UnrollLoop()
    both = tvm.transform.Sequential([unroll, Marked("owner", "tests"), late])
    assert unroll.info.name == "tir.UnrollLoop"
    for level, off, wanted in (
        (3, [], ["tir.UnrollLoop", "marked", "late"]),
        (1, [], ["tir.UnrollLoop", "marked"]),
        (3, ["tir.UnrollLoop"], ["marked", "late"]),
    ):
        ran.clear()
        context = tvm.transform.PassContext(
            opt_level=level, disabled_pass=off, instruments=[Names()]
        )
        with context:
            after = both(mod)
        assert [name for name in ran if name in (*wanted, "late", "tir.UnrollLoop")] == wanted
        assert after["main"].attrs["owner"] == "tests"
    tvm.transform.PrintIR()(mod)
    assert "def main" in capsys.readouterr().out


class InProcess(autotvm.LocalBuilder):
    """Builds candidates in this process, which starts at once."""


@autotvm.template("tests/gallery/damped")
def damped_template(unused):
    *_, out = tensors = damped()
    s = te.create_schedule(out.op)
    cfg = autotvm.get_config()
    i, j = s[out].op.axis
    cfg.define_split("rows", i, num_outputs=2)
    cfg.define_split("lanes", j, num_outputs=2, filter=lambda e: e.size[-1] < 8)
    cfg.define_knob("depth_last", [True, False])
    io, ii = cfg["rows"].apply(s, out, i)
    jo, ji = cfg["lanes"].apply(s, out, j)
    k = s[out].op.reduce_axis[0]
    s[out].reorder(io, jo, *((ii, ji, k) if cfg["depth_last"].val else (k, ii, ji)))
    return s, list(tensors)


def test_autotvm_matmul_x86_page(rng, tmp_path, caplog):
    task = autotvm.task.create("tests/gallery/damped", args=(0,), target=CPU)
    assert len(task.config_space) == 2 * 3 * 2 and "lanes" in str(task.config_space)
    caplog.set_level(logging.DEBUG, logger="autotvm")
    how = autotvm.measure_option(
        builder=InProcess(timeout=60), runner=autotvm.LocalRunner(number=1, repeat=1, timeout=60)
    )
    log = str(tmp_path / "damped.log")
    tuner = autotvm.tuner.RandomTuner(task, seed=1)
    tuner.tune(n_trial=2, measure_option=how, callbacks=[autotvm.callback.log_to_file(log)])
    records = list(autotvm.record.load_from_file(log))
    assert len(records) == 2 and all(result.error_no == 0 for _, result in records)
    with autotvm.apply_history_best(log), tvm.target.Target(CPU):
        s, tensors = damped_template(0)
        kernel = tvm.build(s, tensors)
    x = rng.standard_normal((13, 6)).astype("float32")
    y = rng.standard_normal((6, 21)).astype("float32")
    close(kernel, (x, y), x.astype("float64") @ y)


@autotvm.template("tests/gallery/rows")
def rows_template(width):
    """A convolution along rows of five channels, a position a thread."""
    image = te.placeholder((5, width), name="image")
    weight = te.placeholder((3, 5, 4), name="weight")
    c, x = te.reduce_axis((0, 5), "c"), te.reduce_axis((0, 4), "x")
    out = te.compute(
        (3, width - 3), lambda f, p: te.sum(image[c, p + x] * weight[f, c, x], [c, x]), name="out"
    )
    s, cfg = te.create_schedule(out.op), autotvm.get_config()
    cfg.define_split("tile_p", out.op.axis[1], num_outputs=3)
    cfg.define_knob("auto_unroll_max_step", [0, 16])
    cfg.define_knob("shared", [False, True])
    block, virtual, thread = cfg["tile_p"].apply(s, out, out.op.axis[1])
    filters = out.op.axis[0]
    s[out].reorder(filters, block, virtual, thread)
    names = ("blockIdx.y", "blockIdx.x", "vthread", "threadIdx.x")
    for loop, name in zip((filters, block, virtual, thread), names, strict=True):
        s[out].bind(loop, te.thread_axis(name))
    if cfg["shared"].val:
        near = s.cache_read(weight, "shared", [out])
        s[near].compute_at(s[out], block)
    s[out].pragma(filters, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    cfg.add_flop(2 * 3 * 5 * 4 * (width - 3))
    return s, [image, weight, out]


def test_tune_conv2d_cuda_page(rng, tmp_path):
    task = autotvm.task.create("tests/gallery/rows", args=(15,), target="cuda -arch=sm_80")
    assert len(task.config_space) > 50
    how = autotvm.measure_option(
        builder=InProcess(timeout=60),
        runner=autotvm.LocalRunner(timeout=60, number=1, repeat=1, device="cuda-emulator"),
    )
    log = str(tmp_path / "rows.log")
    tuner = autotvm.tuner.RandomTuner(task, seed=2)
    tuner.tune(n_trial=2, measure_option=how, callbacks=[autotvm.callback.log_to_file(log)])
    records = list(autotvm.record.load_from_file(log))
    assert len(records) == 2 and all(result.error_no == 0 for _, result in records)
    with autotvm.apply_history_best(log), tvm.target.Target("cuda -arch=sm_80"):
        s, tensors = rows_template(15)
    a = rng.standard_normal((5, 15)).astype("float32")
    w = rng.standard_normal((3, 5, 4)).astype("float32")
    windows = np.lib.stride_tricks.sliding_window_view(a.astype("float64"), 4, axis=1)
    source = on_gpu(s, tensors, (a, w), np.einsum("cpx,fcx->fp", windows, w.astype("float64")))
    assert "blockIdx.y" in source
