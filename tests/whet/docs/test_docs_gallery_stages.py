"""Steps of the pages of TVM's gallery on schedules beyond one stage, in computations of our own.

A test is named after the page whose steps and names it uses.
"""

import numpy as np
import pytest
from emulated import agree
from gallery_checks import CPU, ORDERS, close, text_of

import whet as tvm
from whet import te


@pytest.fixture
def rng(seeds):
    return np.random.default_rng(seeds(1)[0])


def test_scan_page(rng):
    """A moving average; one with a stage of its own inside a step; a swing of two states."""
    steps, n = te.var("steps"), te.var("n")
    push = te.placeholder((steps, n), name="push")
    x = rng.standard_normal((9, 14)).astype("float32")
    exact = x.astype("float64")
    average = exact.copy()
    for t in range(1, 9):
        average[t] = average[t - 1] * 0.75 + exact[t] * 0.25

    state = te.placeholder((steps, n), name="state")
    start = te.compute((1, n), lambda _, i: push[0, i], name="start")
    step = te.compute((steps, n), lambda t, i: state[t - 1, i] * 0.75 + push[t, i] * 0.25)
    mean = te.scan(start, step, state, inputs=[push], name="mean")
    s = te.create_schedule(mean.op)
    for t in (start, step):
        block, thread = s[t].split(t.op.axis[1], factor=6)
        s[t].bind(block, te.thread_axis("blockIdx.x"))
        s[t].bind(thread, te.thread_axis("threadIdx.x"))
    assert 'thread_binding(6, "threadIdx.x")' in text_of(s, [push, mean])
    agree(s, [push, mean], [x], [((9, 14), "float32")], [average], orders=ORDERS)

    state = te.placeholder((steps, n), name="state")
    fading = te.compute((steps, n), lambda t, i: state[t - 1, i] * 0.75, name="fading")
    step = te.compute((steps, n), lambda t, i: fading[t, i] + push[t, i] * 0.25, name="step")
    mean = te.scan(start, step, state, inputs=[push], name="mean")
    s = te.create_schedule(mean.op)
    _, inner = s[step].split(step.op.axis[1], factor=6)
    s[fading].compute_at(s[step], inner)
    close(tvm.build(s, [push, mean], CPU), [x], [average])

    places, speeds = (te.placeholder((steps, n), name=name) for name in ("places", "speeds"))
    rest = te.compute((1, n), lambda _, i: te.const(0.0, "float32"), name="rest")
    moved = te.compute((steps, n), lambda t, i: places[t - 1, i] + speeds[t - 1, i] * 0.5)
    faster = te.compute((steps, n), lambda t, i: speeds[t - 1, i] + push[t, i] - places[t - 1, i])
    path, speed = te.scan([start, rest], [moved, faster], [places, speeds], inputs=[push])
    want = np.zeros((2, 9, 14))
    want[0, 0] = exact[0]
    for t in range(1, 9):
        want[0, t] = want[0, t - 1] + want[1, t - 1] * 0.5
        want[1, t] = want[1, t - 1] + exact[t] - want[0, t - 1]
    kernel = tvm.build(te.create_schedule(path.op), [push, path, speed], CPU)
    outs = [tvm.nd.array(np.full((9, 14), 77, "float32")) for _ in want]
    kernel(tvm.nd.array(x), *outs)
    for out, w in zip(outs, want):
        tvm.testing.assert_allclose(out.numpy(), w, rtol=1e-4, atol=1e-4 * np.abs(want).max())


def chain():
    """Three steps over a table of 13 rows and 21 columns."""
    table = te.placeholder((13, 21), "float64", name="table")
    left = te.compute((13, 21), lambda r, c: table[r, c] - 3, name="left")
    most = te.compute((13, 21), lambda r, c: te.max(left[r, c], table[r, 20 - c]), name="most")
    return table, left, most, te.compute((13, 21), lambda r, c: most[r, c] * left[r, c], "last")


PRIMITIVES = {
    "split": ("for r_outer in range(3)", "for r_inner in range(min(5, "),
    "nparts": ("for r_outer in range(4)", "for r_inner in range(min(4, "),
    "tile": ("for r_outer in range(3)", "for c_outer in range(3)", "for r_inner", "for c_inner"),
    "fuse": ("for r_c_fused in range(273)",),
    "reorder": ("for c in range(21)", "for r in range(13)"),
    "bind": ("blockIdx.x", "threadIdx.x"),
    "compute_at": ("for r in range(13)", "left[", "for c_2 in range(21)"),
    "compute_inline": ("last[",),
    "compute_root": ("left[", "most[", "last["),
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_schedule_primitives_page(rng, name):
    table, left, most, last = chain()
    s = te.create_schedule(last.op)
    r, c = last.op.axis
    match name:
        case "split":
            s[last].split(r, factor=5)
        case "nparts":
            s[last].split(r, nparts=4)
        case "tile":
            s[last].tile(r, c, x_factor=5, y_factor=7)
        case "fuse":
            s[last].fuse(r, c)
        case "reorder":
            s[last].reorder(c, r)
        case "bind":
            s[last].bind(r, te.thread_axis("blockIdx.x"))
            s[last].bind(c, te.thread_axis("threadIdx.x"))
        case _:
            for t in (left, most):
                at = (s[last], r) if name == "compute_at" else ()
                getattr(s[t], name)(*at)
    if name not in ("compute_at", "compute_root"):
        s[left].compute_inline()
        s[most].compute_inline()
    text, place = text_of(s, [table, last]), 0
    for part in PRIMITIVES[name]:  # in this order
        place = text.find(part, place)
        assert place >= 0, (part, text)
    assert ("left[" in text) == name.startswith(("compute_at", "compute_root"))
    x = rng.standard_normal((13, 21))
    low = x - 3
    want = np.maximum(low, x[:, ::-1]) * low
    if name == "bind":
        agree(s, [table, last], [x], [((13, 21), "float64")], [want], orders=ORDERS[:1])
    else:
        close(tvm.build(s, [table, last], CPU), [x], [want], "float64")


def test_tedd_page():
    """Drawings for Graphviz are refused by name; a schedule draws itself."""
    with pytest.raises(AttributeError, match=r"(?s)contrib\.tedd.*show\(\)"):
        tvm.contrib.tedd  # noqa: B018
    *_, last = chain()
    s = te.create_schedule(last.op)
    s[last].split(last.op.axis[1], factor=4)
    drawing = s.show().svg
    assert all(f'data-stage="{name}"' in drawing for name in ("table", "left", "most", "last"))
    assert all(f'data-axis="{name}"' in drawing for name in ("c.outer", "c.inner"))


DISTANCE = """
define i32 @nearer(ptr %out, ptr %a, ptr %b, i32 %n, i32 %skip) {
start:
  %row = getelementptr inbounds float, ptr %b, i32 %skip
  br label %next
next:
  %k = phi i32 [ 0, %start ], [ %more, %next ]
  %sum = load float, ptr %out, align 4
  %pa = getelementptr inbounds float, ptr %a, i32 %k
  %pb = getelementptr inbounds float, ptr %row, i32 %k
  %u = load float, ptr %pa, align 4
  %v = load float, ptr %pb, align 4
  %d = fsub float %u, %v
  %dd = fmul float %d, %d
  %new = fadd float %sum, %dd
  store float %new, ptr %out, align 4
  %more = add i32 %k, 1
  %end = icmp eq i32 %more, %n
  br i1 %end, label %done, label %next
done:
  ret i32 0
}
"""


def nearer(points, depth):
    """Squared distances of one point to some others, over part of their coordinates."""
    a, b = te.placeholder((depth,), name="a"), te.placeholder((points, depth), name="b")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((points,), lambda j: te.sum((a[k] - b[j, k]) * (a[k] - b[j, k]), axis=k))
    steps = {a: [1], b: [te.var("row"), 1], c: [1]}
    binds = {
        t: tvm.tir.decl_buffer(t.shape, t.dtype, name, offset_factor=1, strides=steps[t])
        for t, name in ((a, "point"), (b, "others"), (c, "sums"))
    }

    def parts(ins, outs):
        point, others = ins
        (sums,) = outs

        def zero():
            ib = tvm.tir.ir_builder.create()
            with ib.for_range(0, points, name="j") as j:
                ib.emit(sums.vstore(j, tvm.tir.const(0, "float32")))
            return ib.get()

        def add():
            ib = tvm.tir.ir_builder.create()
            with ib.for_range(0, points, name="j") as j:
                there = sums.access_ptr("rw", offset=j)
                places = point.access_ptr("r"), others.access_ptr("r")
                skip = j * others.strides[0]
                ib.emit(tvm.tir.call_extern("int32", "nearer", there, *places, depth, skip))
            return ib.get()

        return tvm.tir.stmt_seq(zero(), add()), zero(), add()

    return te.decl_tensor_intrin(c.op, parts, name="nearer", binds=binds)


def test_tensorize_page(rng):
    """A call of a function in LLVM's text for tiles of 3 points; whole sums, and sums in parts."""
    left, right = te.placeholder((11, 20), name="left"), te.placeholder((9, 20), name="right")
    k = te.reduce_axis((0, 20), name="k")

    def square(i, j):
        return (left[i, k] - right[j, k]) * (left[i, k] - right[j, k])

    far = te.compute((11, 9), lambda i, j: te.sum(square(i, j), axis=k), name="far")
    x = rng.standard_normal((11, 20)).astype("float32")
    y = rng.standard_normal((9, 20)).astype("float32")
    want = ((x.astype("float64")[:, None] - y) ** 2).sum(2)
    for depth in (20, 5):
        s = te.create_schedule(far.op)
        i, j = far.op.axis
        jo, ji = s[far].split(j, factor=3)
        ko, ki = s[far].split(k, factor=depth)
        s[far].reorder(i, jo, ko, ji, ki)
        s[far].tensorize(ji, nearer(3, depth))
        s[far].pragma(i, "import_llvm", DISTANCE)
        text = text_of(s, [left, right, far])
        assert "nearer" in text and f", {depth}, " in text and "j_inner" not in text
        close(tvm.build(s, [left, right, far], CPU), (x, y), [want])


def test_tuple_inputs_page(rng):
    n, m = te.var("n"), te.var("m")
    top, bottom = (te.placeholder((m, n), "int32", name=name) for name in ("top", "bottom"))
    whole, rest = te.compute(
        (m, n), lambda i, j: (top[i, j] // bottom[i, j], top[i, j] % bottom[i, j]), name="parts"
    )
    s = te.create_schedule(whole.op)
    assert whole.op is rest.op and text_of(s, [top, bottom, whole, rest]).count("for ") == 2
    a = rng.integers(0, 1000, (7, 15), "int32")
    b = rng.integers(1, 30, (7, 15), "int32")
    close(tvm.build(s, [top, bottom, whole, rest], CPU), (a, b), [a // b, a % b], "int32")

    def nearer_zero(x, y):
        first = te.all(te.abs(x[1]) <= te.abs(y[1]))
        return tuple(tvm.tir.Select(first, u, v) for u, v in zip(x, y))

    def nothing(place, value):
        return tvm.tir.const(-1, place), te.max_value(value)

    calmest = te.comm_reducer(nearer_zero, nothing, name="calmest")
    value = te.placeholder((m, n), "float64", name="value")
    place = te.compute((m, n), lambda i, j: j, name="place")
    k = te.reduce_axis((0, n), "k")
    where, least = te.compute((m,), lambda i: calmest((place[i, k], value[i, k]), axis=k))
    s = te.create_schedule(where.op)
    s[place].compute_inline()
    z = rng.standard_normal((7, 15))
    kernel = tvm.build(s, [value, where, least], CPU)
    got = tvm.nd.array(np.full(7, 77, "int32")), tvm.nd.array(np.full(7, 77.0))
    kernel(tvm.nd.array(z), *got)
    want = np.abs(z).argmin(1)
    np.testing.assert_array_equal(got[0].numpy(), want)
    np.testing.assert_array_equal(got[1].numpy(), z[np.arange(7), want])

    both = te.compute((m, n), lambda i, j: whole[i, j] - rest[i, j] * 2, name="both")
    s = te.create_schedule(both.op)
    s[whole].compute_at(s[both], both.op.axis[0])
    assert text_of(s, [top, bottom, both]).count("for i in") == 1
    close(tvm.build(s, [top, bottom, both], CPU), (a, b), [a // b - a % b * 2], "int32")
