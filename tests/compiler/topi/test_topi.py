"""Operators against numpy under every default schedule, and the table of schedules."""

import emulated
import numpy as np
import pytest

import whet
from whet.compiler import te, topi
from whet.compiler.driver import build, lower
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.topi import schedules

RNG = np.random.default_rng(9)


def run(schedule, inputs, output, values):
    f = build(schedule, [*inputs, output])
    dims = tuple(int(d) for d in output.shape)
    out = np.full(dims, True if output.dtype == "bool" else np.nan, output.dtype)
    f(*values, out)
    emulated.too(schedule, [*inputs, output], values, out)
    return out


def inputs(*shapes):
    tensors = [te.placeholder(s, name=f"x{k}") for k, s in enumerate(shapes)]
    return tensors, [np.asarray(RNG.random(s, "float32") + np.float32(0.1)) for s in shapes]


def test_a_schedule_that_is_not_there_says_what_is():
    with pytest.raises(AttributeError, match=r"schedule_injective(.|\n)*whet\.create_task\("):
        topi.cuda.schedule_relu  # noqa: B018


MAKERS = [
    topi.generic.schedule_injective,
    topi.x86.schedule_broadcast,
    topi.cuda.schedule_injective,
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("op", "reference"),
    [
        (topi.add, np.add),
        (topi.subtract, np.subtract),
        (topi.multiply, np.multiply),
        (topi.divide, np.divide),
        (topi.maximum, np.maximum),
        (topi.minimum, np.minimum),
        (topi.power, np.power),
        (topi.greater, np.greater),
        (topi.less, np.less),
        (topi.equal, np.equal),
    ],
)
def test_binary_operators_broadcast_like_numpy(make, op, reference):
    for a, b in (((5, 7), (5, 7)), ((5, 1), (7,)), ((3, 1, 9), (4, 1)), ((), (3,))):
        tensors, values = inputs(a, b)
        out = op(*tensors)
        got = run(make(out), tensors, out, values)
        np.testing.assert_allclose(got, reference(*values), rtol=1e-5)


def test_numbers_are_operands():
    (x,), (a,) = inputs((3, 5))
    out = topi.add(topi.multiply(2.0, x), 1)
    np.testing.assert_allclose(run(topi.x86.schedule_elemwise(out), [x], out, [a]), 2 * a + 1)
    assert int(topi.add(2, 3)) == 5


UNARY = ("exp", "log", "sqrt", "tanh", "floor", "ceil", "trunc", "abs", "negative", "sin", "cos")


@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name):
    (x,), (a,) = inputs((4, 11))
    out = getattr(topi, name)(x)
    got = run(topi.x86.schedule_elemwise([out]), [x], out, [a - np.float32(0.05)])
    np.testing.assert_allclose(got, getattr(np, name)(a - np.float32(0.05)), rtol=1e-5, atol=1e-6)


def test_casts_clips_and_rectifiers():
    (x,), (a,) = inputs((13,))
    a = (a - np.float32(0.5)) * 10
    for out, wanted in (
        (topi.clip(x, -1, 2), np.clip(a, -1, 2)),
        (topi.nn.relu(x), np.maximum(a, 0)),
        (topi.identity(x), a),
    ):
        np.testing.assert_array_equal(
            run(topi.generic.schedule_elemwise(out), [x], out, [a]), wanted
        )
    out = topi.cast(x, "int32")
    f = build(topi.generic.schedule_elemwise(out), [x, out])
    got = np.full(13, 99, "int32")
    f(a, got)
    np.testing.assert_array_equal(got, a.astype("int32"))


@pytest.mark.parametrize(
    "make", [topi.generic.schedule_reduce, topi.x86.schedule_reduce, topi.cuda.schedule_reduce]
)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(make, axis, keepdims):
    (x,), (a,) = inputs((3, 5, 7))
    for op, reference in ((topi.sum, np.sum), (topi.max, np.max), (topi.min, np.min)):
        out = op(topi.multiply(x, 2.0), axis, keepdims)
        wanted = reference(2 * a, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(run(make(out), [x], out, [a]), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    "make", [topi.generic.schedule_reduce, topi.x86.schedule_reduce, topi.cuda.schedule_reduce]
)
def test_softmax_dense_and_transpose(make):
    (x, w, b), (a, m, c) = inputs((5, 7), (3, 7), (3,))
    out = topi.nn.softmax(x)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(
        run(make(out), [x], out, [a]), e / e.sum(1, keepdims=True), rtol=1e-5
    )
    out = topi.nn.dense(x, w, b)
    np.testing.assert_allclose(run(make(out), [x, w, b], out, [a, m, c]), a @ m.T + c, rtol=1e-5)
    out = topi.transpose(x)
    np.testing.assert_array_equal(run(topi.generic.schedule_injective(out), [x], out, [a]), a.T)


def test_large_outputs_use_threads_and_vectors():
    (x,), _ = inputs((300, 400))
    out = topi.exp(x)
    with Target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -vector-bytes=32 -num-threads=2"):
        text = str(lower(topi.x86.schedule_injective(out), [x, out], simple_mode=True))
    assert "in parallel(300)" in text and "ramp(" in text
    (y,), _ = inputs((3, 4))
    small = topi.exp(y)
    assert "parallel" not in str(lower(topi.x86.schedule_injective(small), [y, small]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: topi.add(x, te.placeholder((4, 5))), "dimensions of 7 and 5 do not go together"),
        (lambda x: topi.sum(x, axis=2), "there is no axis 2 in 2 dimensions"),
        (lambda x: topi.sum(x, axis=(0, -2)), "an axis stands there twice"),
        (lambda x: topi.argmax(x, axis=()), "no axis is named of 2 dimensions\n  name one"),
        (lambda x: topi.argmin(te.placeholder((0, 3)), 0), "axis 0 has 0 elements"),
        (lambda x: topi.transpose(x, (0, 0)), "the axes are no order of 2 dimensions"),
        (lambda x: topi.broadcast_to(x, (7,)), "more dimensions than were asked for"),
        (lambda x: topi.add(x, te.placeholder((te.var("n"),))), "not known to be equal"),
        (lambda x: topi.nn.dense(x, te.placeholder((3, 8))), "columns of data and weight differ"),
        (lambda x: topi.generic.schedule_injective(3), "the outputs are tensors"),
        (lambda x: topi.generic.schedule_injective(), "give \\(outs\\) or \\(target, outs\\)"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ArgumentError, match=message):
        call(te.placeholder((4, 7), name="x"))


def test_the_table_takes_rows_and_falls_back_to_generic(monkeypatch):
    table = {kind: dict(rows) for kind, rows in schedules.SCHEDULES.items()}
    monkeypatch.setattr(schedules, "SCHEDULES", table)
    x = te.placeholder((4,), name="x")
    out = topi.exp(x)
    seen = []

    def mine(outs):
        seen.append((outs, Target.current()))
        return te.create_schedule([t.op for t in outs])

    schedules.register_schedule("x86", "special", mine)
    topi.x86.schedule_special(Target("llvm -num-threads=3"), [out])
    assert seen == [([out], Target("llvm -num-threads=3"))]
    assert topi.x86.schedule_extern(out).outputs == [out.op]
    with pytest.raises(ArgumentError, match="give override=True"):
        schedules.register_schedule("x86", "special", mine)
    schedules.register_schedule("x86", "special", "whet.compiler.te:create_schedule", override=True)
    assert schedules.find_schedule("x86", "special") is te.create_schedule
    with pytest.raises(AttributeError, match="schedule_nothing"):
        topi.cuda.schedule_nothing  # noqa: B018
    with pytest.raises(ArgumentError, match="there is no such schedule"):
        schedules.find_schedule("cuda", "nothing")


@pytest.mark.parametrize("kind", ["x86", "cuda", "generic"])
def test_injective_schedules_inline_what_is_between(kind):
    x = te.placeholder((3, 8), name="X")
    out = topi.add(topi.exp(x), topi.tanh(x))
    with Target("cuda" if kind == "cuda" else "llvm"):
        s = getattr(topi, kind).schedule_injective(out)
    kept = [stage.op.name for stage in s.stages if stage.attach_type != 2]
    assert kept == ["X", out.op.name] and len(s.stages) == 4
    with Target("llvm"):
        kernel = build(s, [x, out])
        assert "allocate" not in str(lower(s, [x, out]))
    data, got = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8), np.full((3, 8), 7, "float32")
    kernel(data, got)
    np.testing.assert_allclose(got, np.exp(data) + np.tanh(data), rtol=1e-5)


def _operator_cases():
    """Operators that users schedule by name: the schedule's, inputs, the output, its numbers."""
    x, w = te.placeholder((9, 33), name="x"), te.placeholder((17, 33), name="w")
    i, k = te.placeholder((1, 4, 7, 9), name="i"), te.placeholder((5, 4, 3, 3), name="k")
    image = lambda a: np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))  # noqa: E731

    def convolved(a, b):
        windows = np.lib.stride_tricks.sliding_window_view(image(a), (3, 3), (2, 3))
        return np.einsum("nchwyx,ocyx->nohw", windows, b)

    def softmax(a):
        raised = np.exp(a - a.max(1, keepdims=True))
        return raised / raised.sum(1, keepdims=True)

    def pooled(a):
        return a[:, :, :6, :8].reshape(1, 4, 3, 2, 4, 2).max((3, 5))

    return {
        "softmax": ([x], topi.nn.softmax(x), softmax),
        "dense": ([x, w], topi.nn.relu(topi.nn.dense(x, w)), lambda a, b: np.maximum(a @ b.T, 0)),
        "conv2d_nchw": ([i, k], topi.nn.conv2d_nchw(i, k, 1, 1, 1), convolved),
        "pool": ([i], topi.nn.pool2d(i, 2, 2), pooled),
        "argsort": ([x], topi.argsort(x, dtype="int32"), lambda a: np.argsort(a, 1)),
    }


@pytest.mark.parametrize("kind", ["generic", "x86", "cuda"])
@pytest.mark.parametrize("name", _operator_cases())
def test_operators_are_scheduled_by_name(kind, name):
    inputs, out, wanted = _operator_cases()[name]
    if kind == "cuda" and name == "argsort":
        return  # a statement of plain loops: one thread would run it
    rng = np.random.default_rng()
    arrays = [rng.standard_normal([int(d) for d in t.shape]).astype("f4") for t in inputs]
    make = getattr(getattr(topi, kind), f"schedule_{name}")
    s = make([out], "NCHW") if name == "pool" else make([out])
    target = "cuda -arch=sm_80" if kind == "cuda" else "llvm -num_threads=2"
    f = build(s, [*inputs, out], target)
    device = whet.device("cuda-emulator" if kind == "cuda" else "cpu")
    poison = np.full([int(d) for d in out.shape], 77, out.dtype)
    held = [whet.nd.array(a, device) for a in (*arrays, poison)]
    f(*held)
    right = wanted(*[a.astype("f8") for a in arrays])
    np.testing.assert_allclose(held[-1].numpy(), right, 1e-4, 1e-4)


def test_operators_of_open_sizes_are_scheduled_by_name():
    n = te.var("n")
    x = te.placeholder((n, 5), name="x")
    for make in (topi.x86.schedule_softmax, topi.cuda.schedule_softmax):
        assert make(topi.nn.softmax(x)).outputs
