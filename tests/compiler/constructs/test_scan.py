"""te.scan: recurrences against numpy, their stages under primitives, refusals."""

import doctest

import numpy as np
import pytest
from emulated import agree

import whet
from whet.compiler import driver, te
from whet.compiler.errors import ArgumentError, LowerError, ScheduleError

TARGET = "llvm -num_threads=2"


def running_sum(m=5, n=9, dtype="float32"):
    """S[t] = S[t - 1] + X[t]."""
    x = te.placeholder((m, n), dtype, "X")
    state = te.placeholder((m, n), dtype, "state")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    step = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    return x, te.scan(first, step, state, inputs=[x], name="S")


def two_cells(m, n):
    """S[t] = 2 * S[t - 1] + X[t], in two stages."""
    x, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")
    twice = te.compute((m, n), lambda t, i: state[t - 1, i] * 2.0, name="twice")
    step = te.compute((m, n), lambda t, i: twice[t, i] + x[t, i], name="step")
    return x, twice, step, te.scan(first, step, state, inputs=[x], name="S")


def doubled(x):
    out = [x[0].astype("float64")]
    for row in x[1:]:
        out.append(2 * out[-1] + row)
    return np.array(out)


def run(s, args, *arrays, target=TARGET):
    """The result of a kernel whose last argument is its only output."""
    shape = [int(d) if hasattr(d, "value") else None for d in args[-1].shape]
    shape = [d or arrays[0].shape[k] for k, d in enumerate(shape)]
    out = np.full(shape, 77, args[-1].dtype)
    whet.build(s, args, target)(*arrays, out)
    return out


def drawn(*shape):
    return np.random.default_rng().standard_normal(shape).astype("float32")


def test_the_example():
    names, text, said = {"te": te, "lower": driver.lower}, te.scan.__doc__, []
    example = doctest.DocTestParser().get_doctest(text, names, "scan", None, 0)
    assert doctest.DocTestRunner().run(example, out=said.append).failed == 0, "".join(said)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_a_running_sum(dtype):
    x, states = running_sum(dtype=dtype)
    a = (drawn(5, 9) * 8).astype(dtype)
    got = run(te.create_schedule(states.op), [x, states], a)
    np.testing.assert_allclose(got, a.cumsum(0), rtol=1e-5, atol=1e-5)


def test_symbolic_steps_and_sizes():
    x, twice, step, states = two_cells(te.size_var("m"), te.size_var("n"))
    s = te.create_schedule(states.op)
    outer, inner = s[step].split(step.op.axis[1], factor=4)
    s[step].vectorize(inner)
    s[twice].compute_at(s[step], outer)
    for shape in ((1, 3), (2, 8), (6, 13)):
        a = drawn(*shape)
        np.testing.assert_allclose(run(s, [x, states], a), doubled(a), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "primitive",
    [
        lambda s, twice, step: s[twice].compute_inline(),
        lambda s, twice, step: s[twice].compute_at(s[step], step.op.axis[1]),
        lambda s, twice, step: s[twice].compute_at(s[step], step.op.axis[0]),
        lambda s, twice, step: (s[twice].compute_inline(), s[twice].compute_root()),
        lambda s, twice, step: s[step].parallel(step.op.axis[1]),
        lambda s, twice, step: s[step].fuse(*step.op.axis),
        lambda s, twice, step: s.cache_write(step, "local"),
        lambda s, twice, step: s.cache_write(twice, "local"),
        lambda s, twice, step: s.cache_read(s[twice].op.input_tensors[0], "local", [twice]),
        lambda s, twice, step: s[s.outputs[0]].unroll(s.outputs[0].scan_axis),
        lambda s, twice, step: s[s.outputs[0].init[0]].vectorize(s.outputs[0].init[0].op.axis[1]),
    ],
    ids=range(11),
)
def test_stages_of_a_step_under_primitives(primitive):
    x, twice, step, states = two_cells(7, 8)
    s = te.create_schedule(states.op)
    primitive(s, twice, step)
    a = drawn(7, 8)
    np.testing.assert_allclose(run(s, [x, states], a), doubled(a), rtol=1e-5, atol=1e-4)
    again = s.trace.replay(s.outputs)
    assert str(whet.lower(again, [x, states])) == str(whet.lower(s.copy(), [x, states]))


def test_several_states_of_several_shapes():
    """Each step reads all states, and the update of the first is read by that of the second."""
    m, n, k = 6, 5, 3
    x = te.placeholder((m, n), name="X")
    a, b = te.placeholder((m, n), name="a"), te.placeholder((m, k), name="b")
    first = (
        te.compute((1, n), lambda _, i: x[0, i], name="a0"),
        te.compute((1, k), lambda _, i: x[0, i] * 0.5, name="b0"),
    )
    ua = te.compute((m, n), lambda t, i: a[t - 1, i] * 0.5 + x[t, i], name="ua")
    r = te.reduce_axis((0, n), name="r")
    ub = te.compute((m, k), lambda t, i: te.sum(ua[t, r] * b[t - 1, i], axis=r), name="ub")
    sa, sb = te.scan(first, (ua, ub), (a, b), inputs=[x])
    f = whet.build(te.create_schedule(sa.op), [x, sa, sb], TARGET)
    v = drawn(m, n)
    got = [np.full((m, d), np.nan, "float32") for d in (n, k)]
    f(v, *got)
    rows, cols = [v[0]], [v[0, :k] * 0.5]
    for row in v[1:]:
        rows.append(rows[-1] * 0.5 + row)
        cols.append(rows[-1].sum() * cols[-1])
    np.testing.assert_allclose(got[0], rows, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[1], cols, rtol=1e-4, atol=1e-4)


def test_two_steps_back_and_a_result_that_others_read():
    x = te.placeholder((8, 3), name="X")
    state = te.placeholder((8, 3), name="state")
    first = te.compute((2, 3), lambda t, i: x[t, i], name="first")
    step = te.compute((8, 3), lambda t, i: state[t - 1, i] + state[t - 2, i], name="step")
    states = te.scan(first, step, state)
    last = te.compute((3,), lambda i: states[7, i] * 2.0, name="last")
    s = te.create_schedule(last.op)
    v = drawn(8, 3)
    rows = [v[0], v[1]]
    for _ in range(6):
        rows.append(rows[-1] + rows[-2])
    np.testing.assert_allclose(run(s, [x, last], v), 2 * rows[-1], rtol=1e-5)


def test_a_placeholder_or_one_tensor_for_two_states_as_first_steps():
    state, other = (te.placeholder((4, 3), name=n) for n in "ab")
    begin = te.placeholder((1, 3), name="begin")
    up = te.compute((4, 3), lambda t, i: state[t - 1, i] + other[t - 1, i], name="up")
    down = te.compute((4, 3), lambda t, i: state[t - 1, i] - other[t - 1, i], name="down")
    one, two = te.scan((begin, begin), (up, down), (state, other))
    f = whet.build(te.create_schedule(one.op), [begin, one, two], TARGET)
    v = drawn(1, 3)
    got = [np.full((4, 3), np.nan, "float32") for _ in range(2)]
    f(v, *got)
    np.testing.assert_allclose(got[0], v * np.array([[1], [2], [2], [4]]), rtol=1e-6)
    np.testing.assert_allclose(got[1], v * np.array([[1], [0], [2], [0]]), rtol=1e-6, atol=1e-6)


def test_threads_that_share_no_column():
    """TVM's schedule of a scan on a GPU: a column a thread, all steps in its loop."""
    x, twice, step, states = two_cells(6, 70)
    s = te.create_schedule(states.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    for t in (states.op.init[0], step):
        outer, inner = s[t].split(t.op.axis[1], factor=32)
        s[t].bind(outer, block)
        s[t].bind(inner, thread)
    s[twice].compute_inline()
    a = drawn(6, 70)
    agree(s, [x, states], [a], [((6, 70), "float32")], [doubled(a)])


def test_what_a_scan_repeats():
    x, twice, step, states = two_cells(4, 8)
    op = states.op
    assert te.schedule.ScanGetBody(op) == [twice.op, step.op]
    fixed = te.schedule.ScanFixPointAnalysis(op)
    assert [int(fixed[a]) for a in (op.scan_axis, *op.spatial_axis)] == [0, 1]
    state = te.placeholder((4, 8), name="state")
    moved = te.compute((4, 8), lambda t, i: state[t - 1, 7 - i] + x[t, i])
    first = te.compute((1, 8), lambda _, i: x[0, i])
    other = te.scan(first, moved, state).op
    assert [int(v) for v in te.schedule.ScanFixPointAnalysis(other).values()] == [0, 0]
    with pytest.raises(ArgumentError, match="no ScanOp"):
        te.schedule.ScanGetBody(x.op)


def test_a_template_with_a_scan_is_tuned(tmp_path):
    @whet.template("scan_of_a_test")
    def scanned(m, n):
        x, states = running_sum(m, n)
        s = te.create_schedule(states.op)
        step = states.op.update[0]
        cfg = whet.get_config()
        cfg.define_split("tile", step.op.axis[1], num_outputs=2)
        _outer, inner = cfg["tile"].apply(s, step, step.op.axis[1])
        s[step].vectorize(inner)
        return s, [x, states]

    task = whet.create_task("scan_of_a_test", args=(6, 16), target=TARGET)
    assert task.config_space.features([task.config_space.default]).shape[0] == 1
    with pytest.raises(ArgumentError, match="no space is derived"):
        whet.create_task(outputs=[running_sum()[1]], target=TARGET)


def test_refused_primitives():
    x, _twice, step, states = two_cells(4, 8)
    op = states.op
    s = te.create_schedule(op)
    for primitive, words in (
        (lambda: s[states].split(op.scan_axis, factor=2), "come one after the other"),
        (lambda: s[states].parallel(op.scan_axis), "come one after the other"),
        (lambda: s[states].split(op.spatial_axis[0], factor=2), "its loops are those of"),
        (lambda: s[step].compute_inline(), "the update of S, and computed in its memory"),
        (lambda: s[step].set_scope("local"), "computed in its memory"),
        (lambda: s[op.init[0]].compute_at(s[states], op.scan_axis), "the first steps of S"),
        (lambda: s.cache_read(step, "local", [op]), "reads whole tensors"),
    ):
        with pytest.raises(ScheduleError, match=words):
            primitive()
    with pytest.raises(LowerError, match="keeps step in its own memory"):
        whet.lower(s, [x, step, states])


def stepping(update, m=6, n=8, begin=1, wide=None):
    """A scan whose update is ``update(state, X, t, i)``."""
    x, state = te.placeholder((m, wide or n), name="X"), te.placeholder((m, n), name="state")
    first = te.compute((begin, n), lambda t, i: x[t, i], name="first")
    step = te.compute((m, n), lambda t, i: update(state, x, t, i), name="step")
    return x, te.scan(first, step, state, name="S")


@pytest.mark.parametrize("m", [6, te.size_var("m")], ids=["constant", "symbol"])
@pytest.mark.parametrize(
    ("update", "words"),
    [
        (lambda s, x, t, i: s[t, i] + 1.0, "is not before the step"),
        (lambda s, x, t, i: s[t + 1, i] + 1.0, "is not before the step"),
        (lambda s, x, t, i: s[t - 1, i] + s[t - 2, i], "index 0, t - 2, goes down to -1"),
        (lambda s, x, t, i: s[t - 1, i - 1], "index 1, i - 1, goes down to -1"),
        (lambda s, x, t, i: s[t - 1, i + 10**8], "goes up to 100000007, but the dimension is 8"),
        (lambda s, x, t, i: s[t - 1, i] + x[t, i - 1], r"step reads X\[t, i - 1\]"),
        (lambda s, x, t, i: s[t - 1, i] + x[t + 1, i], "index 0, t \\+ 1, goes up to"),
    ],
)
def test_reads_outside_or_not_before_a_step_are_refused(m, update, words):
    x, states = stepping(update, m)
    with pytest.raises(LowerError, match=words):
        whet.lower(te.create_schedule(states.op), [x, states])


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda state, t, i: state[t - 1, i + 1], "index 1, i \\+ 1, goes up to 8"),
        (lambda state, t, i: state[t, i], "is not before the step"),
    ],
    ids=range(2),
)
def test_reads_of_what_a_step_computes_on_the_way_are_looked_at(read, words, back):
    """A stage of the step, inlined, of another index than the step's, whose reads go too far."""
    state = te.placeholder((6, 8), name="state")
    first = te.compute((2, 8), lambda t, i: 0.0, name="first")
    mid = te.compute((6, 8), lambda t, i: read(state, t + back, i), name="mid")
    step = te.compute((6, 8), lambda t, i: mid[t - back, i] + 1.0, name="step")
    states = te.scan(first, step, state)
    s = te.create_schedule(states.op)
    s[mid].compute_inline()
    with pytest.raises(LowerError, match=f"mid reads state.*\n*.*{words}"):
        whet.lower(s, [states])


def test_reads_that_stay_inside_or_are_guarded():
    """Back as far as the first steps go, in other columns, and where a condition stands guard."""

    def update(s, x, t, i):
        far = te.if_then_else(t > 2, s[t - 3, i], 0.0)
        return s[t - 1, 7 - i] + s[t - 2, i] + x[t - 2, i + 1] + far

    x, states = stepping(update, begin=2, wide=9)
    v = drawn(6, 9)
    rows = [v[0, :8].astype("float64"), v[1, :8].astype("float64")]
    for t in range(2, 6):
        far = rows[t - 3] if t > 2 else 0.0
        rows.append(rows[t - 1][::-1] + rows[t - 2] + v[t - 2, 1:] + far)
    got = run(te.create_schedule(states.op), [x, states], v)
    np.testing.assert_allclose(got, rows, rtol=1e-5, atol=1e-5)


def test_an_update_that_reads_no_state():
    x, states = stepping(lambda s, x, t, i: x[t, i] * 2.0)
    v = drawn(6, 8)
    got = run(te.create_schedule(states.op), [x, states], v)
    np.testing.assert_allclose(got, v * np.array([[1]] + [[2]] * 5), rtol=1e-6)


def test_a_scan_is_computed_as_a_whole():
    _x, states = running_sum()
    last = te.compute((9,), lambda i: states[4, i], name="last")
    s = te.create_schedule(last.op)
    with pytest.raises(ScheduleError, match="keeps all its steps"):
        s[states].compute_at(s[last], last.op.axis[0])


def test_the_step_of_an_update_is_not_shared_or_divided():
    _x, _twice, step, states = two_cells(4, 8)
    t, i = step.op.axis
    for primitive in (
        lambda s: s[step].parallel(t),
        lambda s: s[step].vectorize(t),
        lambda s: s[step].split(t, factor=2),
        lambda s: s[step].split(t, nparts=2),
        lambda s: s[step].tile(t, i, 2, 2),
        lambda s: s[step].tile(i, t, 2, 2),
        lambda s: s[step].bind(t, te.thread_axis("threadIdx.x")),
    ):
        s = te.create_schedule(states.op)
        before = s[step].leaf_iter_vars[:]
        with pytest.raises(ScheduleError, match="t is the step of S: step computes one at a time"):
            primitive(s)
        assert s[step].leaf_iter_vars == before
    s[step].reorder(i, t)
    s[step].unroll(t)


def columns_in_threads(update, m, n, env=False):
    """TVM's tutorial: a column a thread, ``env_threads`` or not."""
    x, states = stepping(update, m, n)
    s = te.create_schedule(states.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    if env:
        block = te.thread_axis((0, (n + 31) // 32), "blockIdx.x")
        thread = te.thread_axis((0, 32), "threadIdx.x")
        s[states].env_threads([block, thread])
    for t in (states.op.init[0], states.op.update[0]):
        outer, inner = s[t].split(t.op.axis[1], factor=32)
        s[t].bind(outer, block)
        s[t].bind(inner, thread)
    return s, x, states


@pytest.mark.parametrize("env", [False, True])
def test_symbolic_steps_in_threads_are_one_kernel(env):
    m, n = te.size_var("m"), te.size_var("n")
    s, x, states = columns_in_threads(lambda s, x, t, i: s[t - 1, i] + x[t, i], m, n, env)
    f = whet.build(s, [x, states], "cuda -arch=sm_80")
    assert f.get_source("cuda").count("__global__") == 2  # the first steps, and all others
    device = whet.device("cuda-emulator")
    for shape in ((1, 3), (5, 70)):
        a = drawn(*shape)
        want = a.astype("float64").cumsum(0)
        np.testing.assert_allclose(run(s, [x, states], a), want, rtol=1e-5, atol=1e-5)
        out = whet.nd.array(np.full(shape, 77, "float32"), device)
        f(whet.nd.array(a, device), out)
        np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-5)


def test_columns_that_read_others_stay_launches():
    update = lambda s, x, t, i: s[t - 1, 69 - i] + x[t, i]  # noqa: E731
    s, x, states = columns_in_threads(update, 4, 70)
    a = drawn(4, 70)
    rows = [a[0].astype("float64")]
    for row in a[1:]:
        rows.append(rows[-1][::-1] + row)
    agree(s, [x, states], [a], [((4, 70), "float32")], [np.array(rows)])
    s, x, states = columns_in_threads(update, te.size_var("m"), 70)
    with pytest.raises(LowerError, match="no column reads another"):
        whet.build(s, [x, states], "cuda -arch=sm_80")
    s, x, states = columns_in_threads(update, 4, 70, env=True)
    with pytest.raises(LowerError, match="reads what others of them"):
        whet.lower(s, [x, states])
