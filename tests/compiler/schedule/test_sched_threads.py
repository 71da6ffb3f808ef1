"""Loops in threads: by meaning they are loops, and give numpy's numbers on any processor."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import numpy as np
import pytest
from sched_check import replays
from te_check import check

from whet.compiler import driver, te, tir
from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.bounds.threads import scope_of
from whet.compiler.te.lower.schedule_ops import schedule_ops


def loops_of(s, args):
    """The loops of a schedule before any pass has seen them."""
    return schedule_ops(s, {a: tir.decl_buffer(a.shape, a.dtype, a.name) for a in args})


def thread_loops(s, args):
    """(tag, extent) of every loop over threads, in order."""
    found = []

    def visit(n):
        if isinstance(n, tir.For) and n.kind == "thread_binding":
            found.append((n.thread, int(n.extent)))

    tir.stmt_functor.pre_order_visit(loops_of(s, args), lambda n: visit(n) or True)
    return found


def elementwise(n=37):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="B")
    return te.create_schedule(b.op), a, b


def gpu_matmul(n, l, m, block=16, threads=4, virtual=2, step=8, padded=False):
    """The classical one: shared tiles fetched together, local accumulators, two levels of tiles."""
    a, b = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    aa, bb = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    al, bl = s.cache_read(aa, "local", [c]), s.cache_read(bb, "local", [c])
    cc = s.cache_write(c, "local")
    bx, by = te.thread_axis("blockIdx.x"), te.thread_axis("blockIdx.y")
    tx = te.thread_axis((0, threads), "threadIdx.x")
    ty = te.thread_axis((0, threads), "threadIdx.y")
    vx = te.thread_axis((0, virtual), "vthread", name="vx")
    vy = te.thread_axis((0, virtual), "vthread", name="vy")
    i, j = s[c].op.axis
    yo, yi = s[c].split(i, factor=block)
    xo, xi = s[c].split(j, factor=block)
    s[c].bind(yo, by)
    s[c].bind(xo, bx)
    vyi, yi = s[c].split(yi, nparts=virtual)
    tyi, yi = s[c].split(yi, nparts=threads)
    vxi, xi = s[c].split(xi, nparts=virtual)
    txi, xi = s[c].split(xi, nparts=threads)
    s[c].reorder(yo, xo, vyi, vxi, tyi, txi, yi, xi)
    for loop, thread in ((vyi, vy), (vxi, vx), (tyi, ty), (txi, tx)):
        s[c].bind(loop, thread)
    s[cc].compute_at(s[c], txi)
    ci, cj = s[cc].op.axis
    ko, ki = s[cc].split(k, factor=step)
    kt, ki = s[cc].split(ki, factor=1)
    s[cc].reorder(ko, kt, ki, ci, cj)
    s[cc].unroll(kt)
    for x in (aa, bb):
        s[x].compute_at(s[cc], ko)
        fused = s[x].fuse(*s[x].op.axis)
        first, rest = s[x].split(fused, nparts=threads)
        second, rest = s[x].split(rest, nparts=threads)
        s[x].bind(first, ty)
        s[x].bind(second, tx)
        _, lanes = s[x].split(rest, factor=2)
        s[x].vectorize(lanes)
        if padded:
            s[x].storage_align(s[x].op.axis[0], 8, 1)
    for x in (al, bl):
        s[x].compute_at(s[cc], kt)
    s[aa].double_buffer()
    return s, [a, b, c]


@pytest.mark.parametrize("n, l, m", [(37, 29, 41), (32, 16, 48), (1, 5, 17)])
def test_the_classical_matmul_of_a_gpu(n, l, m):
    s, args = gpu_matmul(n, l, m)
    check(s, args, rtol=1e-4)


def test_the_classical_matmul_with_padded_rows():
    s, args = gpu_matmul(21, 19, 23, padded=True)
    check(s, args, rtol=1e-4)


def test_what_threads_share_and_what_each_has():
    s, args = gpu_matmul(64, 64, 64)
    bounds = Bounds(s)
    sizes = {
        x.op.name: [int(b.extents[a].to_expr()) for a in x.op.axis]
        for x, b in bounds.stages.items()
        if x.attach_type == 4
    }
    # a shared tile is what all threads of the block read: 16 rows, 8 steps of k; a local one is a
    # thread's own
    assert sizes == {
        "C.local": [2, 2], "A.shared": [16, 8], "B.shared": [8, 16],
        "A.shared.local": [2, 1], "B.shared.local": [1, 2],
    }  # fmt: skip


def test_bind_makes_a_loop_over_threads():
    s, a, b = elementwise(40)
    o, i = s[b].split(b.op.axis[0], factor=8)
    s[b].bind(o, te.thread_axis("blockIdx.x"))
    s[b].bind(i, te.thread_axis("threadIdx.x"))
    assert thread_loops(s, [a, b]) == [("blockIdx.x", 5), ("threadIdx.x", 8)]
    check(s, [a, b])


@pytest.mark.parametrize("length", [5, 8, 32])
def test_a_loop_shorter_than_its_threads_is_guarded(length):
    s, a, b = elementwise(37)
    o, i = s[b].split(b.op.axis[0], factor=5)
    s[b].bind(i, te.thread_axis((0, length), "threadIdx.x"))
    assert thread_loops(s, [a, b]) == [("threadIdx.x", length)]
    text = tir.printer.stmt_text(loops_of(s, [a, b]))
    assert ("i_inner < 5" in text) == (length > 5), text
    check(s, [a, b])


def test_a_loop_longer_than_its_threads_is_refused():
    s, a, b = elementwise(37)
    s[b].bind(b.op.axis[0], te.thread_axis((0, 32), "threadIdx.x"))
    words = r"bind\(B, i, threadIdx.x\): the loop has 37 steps, and the thread axis 32"
    with pytest.raises(LowerError, match=words):
        driver.lower(s, [a, b])
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis((0, 32), "threadIdx.x"))
    with pytest.raises(LowerError, match="the loop has n steps, and the thread axis 32"):
        driver.lower(s, [a, b])


def test_symbolic_sizes_in_threads():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    o, i = s[b].split(b.op.axis[0], factor=8)
    s[b].bind(o, te.thread_axis("blockIdx.x"))
    s[b].bind(i, te.thread_axis("threadIdx.x"))
    for size in (0, 1, 8, 37):
        check(s, [a, b], {n: size})


def test_one_thread_axis_in_several_stages():
    a = te.placeholder((48,), name="A")
    t = te.compute((48,), lambda i: a[i] * 2.0, name="T")
    u = te.compute((37,), lambda i: t[i] + t[i + 11], name="U")
    s = te.create_schedule(u.op)
    tx = te.thread_axis((0, 48), "threadIdx.x")
    s[t].bind(t.op.axis[0], tx)
    s[u].bind(u.op.axis[0], tx)
    assert thread_loops(s, [a, u]) == [("threadIdx.x", 48)] * 2
    check(s, [a, u])


@pytest.mark.parametrize("tag", ["vthread", "vthread.x", "cthread"])
def test_virtual_threads(tag):
    s, a, b = elementwise(37)
    o, i = s[b].split(b.op.axis[0], nparts=4)
    s[b].bind(o, te.thread_axis(tag))
    check(s, [a, b])


def stencil(n=37):
    a = te.placeholder((n + 2,), name="A")
    t = te.compute((n + 2,), lambda i: a[i] * 2.0, name="T")
    u = te.compute((n,), lambda i: t[i] + t[i + 1] + t[i + 2], name="U")
    s = te.create_schedule(u.op)
    bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis((0, 8), "threadIdx.x")
    o, i = s[u].split(u.op.axis[0], factor=8)
    s[u].bind(o, bx)
    s[u].bind(i, tx)
    return s, a, t, u, o, i, tx


@pytest.mark.parametrize(
    "scope, width", [("", 3), ("local", 3), ("shared", 10), ("shared.dyn", 10), ("global", 39),
                     ("warp", 10)]
)  # fmt: skip
def test_scopes_decide_which_threads_share(scope, width):
    s, a, t, u, o, i, tx = stencil()
    s[t].compute_at(s[u], i)
    if scope:
        s[t].set_scope(scope)
    bounds = Bounds(s)
    assert scope_of(s[t]) == (scope or "local")
    assert int(bounds.stages[s[t]].extents[t.op.axis[0]].to_expr()) == width
    check(s, [a, u], gpu=scope != "warp")  # CUDA has no such memory


def test_default_scopes_follow_the_innermost_thread():
    s, a, t, u, o, i, tx = stencil()
    s[t].compute_at(s[u], o)
    assert scope_of(s[t]) == "shared"
    assert 'allocate([10], "float32", "shared")' in str(driver.lower(s, [a, u]))
    check(s, [a, u])
    s[t].compute_root()
    assert scope_of(s[t]) == "global"


def test_shared_memory_filled_by_all_threads_at_odd_sizes():
    s, a, t, u, o, i, tx = stencil()
    s[t].compute_at(s[u], o)
    s[t].set_scope("shared")
    to, ti = s[t].split(t.op.axis[0], factor=8)
    s[t].bind(ti, tx)
    check(s, [a, u])


def test_private_memory_is_not_filled_by_others():
    s, a, t, u, o, i, tx = stencil()
    s[t].compute_at(s[u], i)
    to, ti = s[t].split(t.op.axis[0], factor=8)
    s[t].bind(ti, tx)
    with pytest.raises(LowerError) as caught:
        driver.lower(s, [a, u])
    text = str(caught.value)
    assert "bind(T, i.inner, threadIdx.x): T is kept in scope 'local'" in text
    assert 'set_scope("shared")' in text


def test_a_convolution_in_threads():
    ci, co, h, w, kh = 3, 5, 11, 9, 3
    x = te.placeholder((ci, h, w), name="X")
    f = te.placeholder((co, ci, kh, kh), name="F")
    rc, ry, rx = (te.reduce_axis((0, e), name=n) for e, n in ((ci, "rc"), (kh, "ry"), (kh, "rx")))
    p = te.compute(
        (ci, h + 2, w + 2),
        lambda c, i, j: te.if_then_else(
            te.all(i >= 1, i < h + 1, j >= 1, j < w + 1), x[c, i - 1, j - 1], 0.0
        ),
        name="P",
    )
    y = te.compute(
        (co, h, w),
        lambda o, i, j: te.sum(p[rc, i + ry, j + rx] * f[o, rc, ry, rx], axis=[rc, ry, rx]),
        name="Y",
    )
    s = te.create_schedule(y.op)
    s[p].compute_inline()
    pp, ff = s.cache_read(p, "shared", [y]), s.cache_read(f, "shared", [y])
    yl = s.cache_write(y, "local")
    tx, ty = te.thread_axis((0, 4), "threadIdx.x"), te.thread_axis((0, 2), "threadIdx.y")
    o, i, j = s[y].op.axis
    io, ii = s[y].split(i, factor=4)
    jo, ji = s[y].split(j, factor=4)
    oo, oi = s[y].split(o, factor=2)
    s[y].reorder(oo, io, jo, oi, ji, ii)
    for loop, thread in (
        (oo, te.thread_axis("blockIdx.z")), (io, te.thread_axis("blockIdx.y")),
        (jo, te.thread_axis("blockIdx.x")), (oi, ty), (ji, tx),
    ):  # fmt: skip
        s[y].bind(loop, thread)
    s[yl].compute_at(s[y], ji)
    s[yl].reorder(rc, ry, rx, *s[yl].op.axis)
    for cached in (pp, ff):
        s[cached].compute_at(s[yl], rc)
        fused = s[cached].fuse(*s[cached].op.axis)
        rest, ti = s[cached].split(fused, factor=4)
        rest, tj = s[cached].split(rest, factor=2)
        s[cached].bind(ti, tx)
        s[cached].bind(tj, ty)
    check(s, [x, f, y], rtol=1e-4)


@pytest.mark.parametrize("predicate", [False, True])
@pytest.mark.parametrize("n", [64, 37])
def test_a_reduction_across_threads(n, predicate):
    a = te.placeholder((5, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(k, factor=16)
    bf = s.rfactor(b, ki)
    s[b].bind(s[b].op.axis[0], te.thread_axis("blockIdx.x"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[bf].compute_at(s[b], s[b].op.reduce_axis[0])
    if predicate:
        s[b].set_store_predicate(tx.var.equal(0))
    first, *others = thread_loops(s, [a, b])
    assert first == ("blockIdx.x", 5) and set(others) == {("threadIdx.x", 16)}
    # what each thread begins with, its part, four halvings; and the store, if a condition is given
    assert len(others) == 6 + predicate
    check(s, [a, b], rtol=1e-4)


def test_a_loop_over_threads_that_reduces_is_marked():
    a = te.placeholder((37,), name="A")
    k = te.reduce_axis((0, 37), name="k")
    b = te.compute((1,), lambda i: te.max(a[k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(k, te.thread_axis("blockIdx.x"))
    marks = []
    tir.stmt_functor.post_order_visit(
        loops_of(s, [a, b]),
        lambda n: marks.append(n.annotations) if isinstance(n, tir.For) else None,
    )
    assert marks == [{"reduction": True}, {}]  # inside, and the loop over i
    check(s, [a, b], gpu=False)


def test_env_threads_run_a_stage_in_each():
    s, a, b = elementwise(13)
    s[b].env_threads([te.thread_axis((0, 3), "threadIdx.x"), te.thread_axis((0, 2), "vthread")])
    assert ("threadIdx.x", 3) in thread_loops(s, [a, b])
    check(s, [a, b])


def test_threads_do_not_change_the_numbers_of_a_reduction_with_reordered_loops():
    a, b = te.placeholder((13, 7), name="A"), te.placeholder((7, 11), name="B")
    k = te.reduce_axis((0, 7), name="k")
    c = te.compute((13, 11), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, ii = s[c].split(i, factor=4)
    s[c].reorder(k, io, j, ii)  # the threads are inside the reduction
    s[c].bind(ii, te.thread_axis((0, 6), "threadIdx.x"))
    s[c].bind(j, te.thread_axis("threadIdx.y"))
    replays(s, [a, b, c])
    check(s, [a, b, c])


def test_a_tuple_reduced_across_threads():
    a = te.placeholder((3, 37), name="A")
    k = te.reduce_axis((0, 37), name="k")
    argmax = te.comm_reducer(
        lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    at, value = te.compute((3,), lambda i: argmax((k.var, a[i, k]), axis=k), name="M")
    s = te.create_schedule(at.op)
    _, ki = s[at].split(k, factor=8)
    first = s.rfactor(at, ki)
    s[at].bind(s[at].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[first[0]].compute_at(s[at], s[at].op.reduce_axis[0])
    f = driver.build(s, [a, at, value])
    x = np.random.default_rng(0).standard_normal((3, 37)).astype("float32")
    found, best = np.full(3, -9, "int32"), np.full(3, np.nan, "float32")
    f(x, found, best)
    np.testing.assert_array_equal(found, x.argmax(1))
    np.testing.assert_array_equal(best, x.max(1))
    replays(s, [a, at, value])


def test_a_pragma_stays_whether_it_stands_before_or_after_the_thread():
    texts = []
    for first in (True, False):
        s, a, b = elementwise()
        outer, inner = s[b].split(b.op.axis[0], 8)
        if first:
            s[b].pragma(outer, "my_mark", 3)
        s[b].bind(outer, te.thread_axis("blockIdx.x"))
        if not first:
            s[b].pragma(outer, "my_mark", 3)
        replays(s, [a, b])
        texts.append(str(driver.lower(s, [a, b])))
    assert texts[0] == texts[1] and "my_mark" in texts[0]
