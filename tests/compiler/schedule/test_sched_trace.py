"""The trace: Python that can be run, plain data that can be stored, and a schedule made again."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import json
import keyword
import re

import pytest
from sched_check import loops, refused, replays
from te_check import check

from whet.compiler import driver, te
from whet.compiler.errors import ScheduleError


def matmul(n=8, k=8, m=16):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_schedule(c.op), a, b, c, r


def everything():
    """A schedule with every primitive there is."""
    a = te.placeholder((16, 25), name="A")
    k = te.reduce_axis((0, 24), name="k")
    t = te.compute((16, 25), lambda i, j: a[i, j] * 2.0, name="T")
    w = te.compute((16, 24), lambda i, j: t[i, j] - t[i, j + 1] * 0.5, name="W")
    u = te.compute((16, 24), lambda i, j: w[i, j] + 1.0, name="U")
    r = te.compute((16,), lambda i: te.sum(u[i, k], axis=k), name="R")
    g = te.placeholder((16,), name="G")
    p = te.compute((16,), lambda i: g[15 - i], name="P")
    v = te.compute((16,), lambda i: r[i] * 3.0 + p[i], name="V")
    s = te.create_schedule(v.op)
    read = s.cache_read(a, "shared", [t])
    _, ki = s[r].split(k, nparts=4)
    rf = s.rfactor(r, ki, factor_axis=1)
    out = s.cache_write(v, "local")
    i, j = s[u].op.axis
    io, jo, ii, ji = s[u].tile(i, j, 4, 8)
    s[u].vectorize(ji)
    s[u].unroll(ii)
    s[u].parallel(s[u].fuse(io, jo), grain=2)
    one = s[u].fuse()
    s[u].pragma(one, "auto_unroll_max_step", 8)
    s[u].pragma(one, "note", 'with "quotes" and \\')
    s[u].set_scope("global")
    s[t].compute_inline()
    s[w].compute_inline()
    s[w].compute_root()
    s[p].compute_ahead()
    s[p].compute_root()
    s[p].transform_layout(lambda i: [i // 4, te.AXIS_SEPARATOR, i % 4])
    group = s.create_group([w], [a])
    group.compute_root()
    s[w].storage_align(w.op.axis[0], 8, 1)
    s[read].compute_at(s[w], w.op.axis[0])
    s[read].double_buffer()
    s[t].compute_root()
    s[t].compute_at(s[w], w.op.axis[1])
    s[t].rolling_buffer()
    s[v].store_nontemporal()
    s[p].prefetch(s[p].op.input_tensors[0], s[p].leaf_iter_vars[0], 2)
    tx = te.thread_axis((0, 8), "threadIdx.x", name="tx")
    vo, vi = s[v].split(s[v].op.axis[0], factor=8)
    s[v].bind(vi, tx)
    s[v].set_store_predicate(te.all(tx.var < 8, te.any(vo.var >= 0, vi.var.equal(3))))
    s[out].compute_at(s[v], vo)
    s[rf].env_threads([te.thread_axis((0, 1), "vthread")])
    s[rf].reorder(*reversed(s[rf].leaf_iter_vars))
    return s, [a, g, v]


def test_every_primitive_is_replayed():
    s, args = everything()
    replays(s, args)
    used = {step.primitive for step in s.trace.steps}
    from whet.compiler.te.primitives.checks import ON_SCHEDULE, ON_STAGE

    alone = {"normalize", "tensorize"}  # an intrinsic is no data: test_tensorize_numbers.py
    assert used == {*ON_STAGE, *ON_SCHEDULE} - alone
    check(s, args, gpu=False, rtol=1e-4)


def test_the_text_is_python_that_needs_a_schedule_and_te():
    s, a, b, c, k = matmul()
    cached = s.cache_read(b, "local", [c])
    i, j = c.op.axis
    s[c].split(i, factor=4)
    s[cached].compute_at(s[c], j)
    assert str(s.trace) == "\n".join([
        "C = s.outputs[0].output(0)",
        "B = C.op.input_tensors[1]",
        'B_local = s.cache_read(B, "local", [C])',
        "i, j = s[C].op.axis",
        "i_outer, i_inner = s[C].split(i, factor=4)",
        "s[B_local].compute_at(s[C], j)",
    ])  # fmt: skip
    assert len(s.trace) == 3


def test_names_are_identifiers_and_unique():
    a = te.placeholder((4, 4), name="class")
    b = te.compute((4, 4), lambda i, j: a[i, j], name="my tensor-1")
    c = te.compute((4, 4), lambda s, te_: b[s, te_] + a[s, te_], name="s")
    d = te.compute((4, 4), lambda i, j: c[i, j] + b[i, j], name="s")
    e = te.compute((4, 4), lambda i, j: d[i, j] + b[i, j], name="2nd")
    s = te.create_schedule(e.op)
    for x in (b, c, d, e):
        p, q = s[x].op.axis
        s[x].reorder(q, p)
        s[x].split(p, factor=2)
    s.cache_read(a, "local", [b, c])
    text = str(s.trace)
    names = re.findall(r"^(.*?) = ", text, re.M)
    flat = [n for line in names for n in line.strip(",").split(", ")]
    assert len(set(flat)) == len(flat) and all(n.isidentifier() for n in flat)
    assert not set(flat) & {"s", "te"} and not any(map(keyword.iskeyword, flat))
    replays(s, [a, e])


def test_traces_are_compared_by_what_they_do():
    def make(factor):
        s, a, b, c, k = matmul()
        s[c].split(c.op.axis[0], factor=factor)
        return s

    assert make(4).trace == make(4).trace and make(4).trace != make(2).trace
    assert make(4).trace != "text" and te.create_schedule(matmul()[3]).trace == te.Trace()
    assert make(4).trace == te.Trace.from_json(make(4).trace.to_json())
    assert str(te.Trace()) == "# no steps" and len(te.Trace()) == 0


def test_a_stored_trace_makes_a_computation_of_its_own():
    s, args = everything()
    data = json.dumps(s.trace.to_json())
    other, their_args = everything()
    made = te.Trace.from_json(json.loads(data)).replay([their_args[-1].op])
    assert loops(made) == loops(s)
    # intermediate tensors are other objects, the program is the same
    assert str(driver.lower(made, their_args)) == str(driver.lower(s, args))


def test_symbolic_factors_are_found_in_shapes_or_handed_on():
    n, f = te.size_var("n"), te.var("f")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    o, i = s[b].split(b.op.axis[0], factor=(n + 3) // 4)
    s[b].split(i, nparts=f)
    assert "n = B.shape[0]" in str(s.trace) and 'f = te.var("f", "int32")' in str(s.trace)
    again = s.trace.replay(b.op)
    assert str(driver.lower(again, [a, b, f])) == str(driver.lower(s, [a, b, f]))
    assert again.trace == s.trace


def test_conditions_of_all_kinds_are_written_down():
    s, a, b, c, k = matmul()
    i, j = (x.var for x in c.op.axis)
    tx = te.thread_axis("threadIdx.x")
    s[c].bind(c.op.axis[1], tx)
    s[c].set_store_predicate(
        te.all(
            te.any(i % 2 == 1, i // 2 != 1, te.min(i, j) <= te.max(j, 3)),
            ~(i * 3 - j > te.const(5, "int64")),
            te.if_then_else(i > 1, j < 4, te.select(j > 1, i >= 0, tx.var < 5)),
            te.cast("int64", i) + 2 < te.truncmod(j, 3) + 100,
        )
    )
    replays(s, [a, b, c])


def test_what_cannot_be_written_down_is_refused():
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    x = te.var("x", "float32")
    words = "the expression calls exp", "use numbers, axes, sizes"
    refused(s, lambda: s[c].set_store_predicate(te.exp(x) > 2.0), *words)
    refused(s, lambda: s[c].pragma(i, "mark", te.exp(x)), *words)
    read = te.placeholder((4,), "int32", name="I")[2]
    words = "the expression holds a ProducerLoad"
    refused(s, lambda: s[c].split(i, factor=read), words)
    refused(s, lambda: s[c].tile(i, j, 2, read + 1), words)


def test_several_outputs_and_lists_of_caches():
    a = te.placeholder((8,), name="A")
    two = te.compute((8,), lambda i: (a[i] + 1.0, a[i] * 2.0), name="B")
    c = te.compute((8,), lambda i: two[1][i] - two[0][i], name="C")
    s = te.create_schedule(c.op)
    caches = s.cache_write([two[0], two[1]], "local")
    read = s.cache_read(two[1], "local", [c])
    s[read].compute_at(s[c], c.op.axis[0])
    s.cache_read(caches[1], "local", [two[0]])
    s.cache_read(two[0], "local", [c])
    replays(s, [a, c])
    s = te.create_schedule(two[0].op)
    s.cache_write([two[1], two[0]], "local")
    s[two[1]].vectorize(two[0].op.axis[0])
    check(s, [a, *two])


def test_normalize_in_a_trace():
    s, a, b, c, k = matmul()
    s[c].split(c.op.axis[0], factor=4)
    n = s.normalize()
    rebased = n[c].leaf_iter_vars[2]
    n[c].split(rebased, factor=4)
    assert "s = s.normalize()\nj_1 = s[C].leaf_iter_vars[2]" in str(n.trace)
    replays(n, [a, b, c])


def test_where_a_trace_does_not_fit():
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    s[c].split(j, factor=4)
    trace = s.trace
    with pytest.raises(ScheduleError, match="1 steps were applied to this schedule before"):
        trace.apply(s)
    with pytest.raises(ScheduleError, match="a NoneType is not a schedule"):
        trace.apply(None)
    one = te.compute((8,), lambda i: 1.0, name="C")
    with pytest.raises(
        ScheduleError, match=r"replay axis of C: it gives 1 things, 2 were recorded"
    ):
        trace.replay(one)
    cached = te.create_schedule(c.op)
    cached.cache_read(b, "local", [c])
    with pytest.raises(ScheduleError, match="it does not fit this computation"):
        cached.trace.replay(one)


@pytest.mark.parametrize(
    "data",
    [
        None, {}, "x", [3], [{}], [{"primitive": "split"}], [{"primitive": "__init__", "args": []}],
        [{"primitive": "record", "stage": "C", "args": []}], [{"define": "eval", "names": ["x"]}],
        [{"define": "output", "number": 0, "names": ["not a name"]}], [{"define": "input"}],
        [{"primitive": "split", "stage": "C", "args": 3}],
        [{"primitive": "normalize", "args": [], "names": 3}],
    ],
)  # fmt: skip
def test_data_that_is_no_trace(data):
    with pytest.raises(ScheduleError, match=r"Trace\.from_json"):
        te.Trace.from_json(data)


@pytest.mark.parametrize(
    "record",
    [
        {"primitive": "split", "stage": "nobody", "args": [], "names": []},
        {"primitive": "split", "stage": "C", "args": [["name", "x"]], "options": {"factor": 2}},
        {"primitive": "split", "stage": "C", "args": [["nonsense", 1]]},
        {"primitive": "split", "stage": "C", "args": [1, 2, 3, 4, 5]},
        {"primitive": "split", "stage": "C", "args": [[]]},
        {"define": "axis", "of": "x", "names": ["i"]},
        {"define": "output", "number": 9, "names": ["x"]},
        {"define": "output", "number": "0", "names": ["x"]},
    ],
)  # fmt: skip
def test_records_that_fit_no_computation(record):
    c = matmul()[3]
    data = [{"define": "output", "number": 0, "names": ["C"]}, record]
    with pytest.raises(ScheduleError, match=r"replay record 1|the size must|is not an axis"):
        te.Trace.from_json(data).replay(c)


def test_a_primitive_that_fails_leaves_no_step():
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    refused(s, lambda: s[c].tile(i, j, 4, 0), "tile(C, i, j, x_factor=4, y_factor=0)")
    refused(s, lambda: s[c].split(i, factor=0), "factor must be at least 1")
    assert len(s.trace) == 0 and str(s.trace) == "# no steps"
