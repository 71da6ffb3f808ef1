"""Rolling buffers: each step computes what is new, and the buffer holds what one step reads."""

# ruff: noqa: RUF059, B023  (what a helper makes is unpacked whole)
import random

import numpy as np
import pytest
from sched_check import refused
from te_check import check

from whet.compiler import driver, te
from whet.compiler.errors import LowerError
from whet.compiler.tir.stmt import Allocate
from whet.compiler.tir.visit.rewrite import nodes_of


def windows(n=11, m=7, width=3, by=1, dtype="float64"):
    """T, a function of A, and U, the sum of T over windows of its rows."""
    a = te.placeholder((n, m), dtype, name="A")
    t = te.compute((n, m), lambda i, j: a[i, j] * 2 + 1, name="T")
    k = te.reduce_axis((0, width), name="k")
    rows = (n - width) // by + 1
    u = te.compute((rows, m), lambda i, j: te.sum(t[i * by + k, j], axis=k), name="U")
    return te.create_schedule(u.op), a, t, u


def plain(s, a, t, u):
    s[t].compute_at(s[u], u.op.axis[0])


def vectors(s, a, t, u):
    plain(s, a, t, u)
    s[t].vectorize(s[t].split(t.op.axis[1], factor=4)[1])


def rows_in_parts(s, a, t, u):
    plain(s, a, t, u)
    s[t].split(t.op.axis[0], factor=2)


def rows_inside(s, a, t, u):
    plain(s, a, t, u)
    s[t].reorder(*reversed(t.op.axis))


def fused(s, a, t, u):
    plain(s, a, t, u)
    s[t].fuse(*t.op.axis)


def unrolled(s, a, t, u):
    plain(s, a, t, u)
    s[t].unroll(t.op.axis[0])
    s[u].unroll(u.op.axis[0])


def in_tiles(s, a, t, u):
    outer, inner = s[u].split(u.op.axis[0], factor=4)
    s[t].compute_at(s[u], inner)
    s[u].parallel(outer)


def laid_out(s, a, t, u):
    s[t].transform_layout(lambda i, j: [j, i])
    plain(s, a, t, u)


def local(s, a, t, u):
    plain(s, a, t, u)
    s[t].set_scope("local")


def two_at_once(s, a, t, u):
    copy = s.cache_read(a, "global", [t])
    plain(s, a, t, u)
    s[copy].compute_at(s[u], u.op.axis[0])
    s[copy].rolling_buffer()


HOW = [plain, vectors, rows_in_parts, rows_inside, fused, unrolled, in_tiles, laid_out, local,
       two_at_once]  # fmt: skip


@pytest.mark.parametrize("how", HOW, ids=lambda f: f.__name__)
def test_numbers_and_the_trace(how):
    seed = random.randrange(2**31)
    print(f"seed {seed}")
    width = random.Random(seed).randint(2, 5)
    s, a, t, u = windows(width=width, by=1 + seed % (width - 1))
    how(s, a, t, u)
    s[t].rolling_buffer()
    check(s, [a, u], seed=seed)
    s, a, t, u = windows(dtype="int16")
    how(s, a, t, u)
    s[t].rolling_buffer()
    check(s, [a, u], seed=seed)


def test_a_size_that_is_a_symbol():
    n = te.size_var("n")
    a = te.placeholder((n + 2,), name="A")
    t = te.compute((n + 2,), lambda i: a[i] + 1.0, name="T")
    u = te.compute((n,), lambda i: t[i] + t[i + 1] - t[i + 2], name="U")
    s = te.create_schedule(u.op)
    s[t].compute_at(s[u], u.op.axis[0])
    s[t].rolling_buffer()
    for size in (0, 1, 2, 19):
        check(s, [a, u], {n: size})


def test_a_chain_of_windows():
    """Each stage at the same loop, each element of each computed once: lines of a picture."""
    a = te.placeholder((17, 5), "int32", name="A")
    t = te.compute((15, 5), lambda i, j: a[i, j] + a[i + 1, j] * 2 - a[i + 2, j], name="T")
    u = te.compute((13, 5), lambda i, j: t[i, j] - t[i + 1, j] + t[i + 2, j] * 3, name="U")
    v = te.compute((11, 5), lambda i, j: u[i, j] + u[i + 2, 4 - j], name="V")
    for inner in (0, 1):
        s = te.create_schedule(v.op)
        at = v.op.axis[0] if not inner else s[v].split(v.op.axis[0], factor=4)[1]
        for x in (u, t):
            s[x].compute_at(s[v], at)
            s[x].rolling_buffer()
        check(s, [a, v], seed=random.randrange(2**31))
        if not inner:
            body = driver.lower(s, [a, v], simple_mode=True)["main"].body
            assert [stores(body, x, {}) for x in "TU"] == [15 * 5, 13 * 5]


def test_each_element_is_computed_once():
    for rolls, wanted in ((False, 27), (True, 11)):
        a = te.placeholder((11,), name="A")
        t = te.compute((11,), lambda i: a[i] + 1.0, name="T")
        u = te.compute((9,), lambda i: t[i] + t[i + 1] + t[i + 2], name="U")
        s = te.create_schedule(u.op)
        s[t].compute_at(s[u], u.op.axis[0])
        if rolls:
            s[t].rolling_buffer()
        assert stores(driver.lower(s, [a, u], simple_mode=True)["main"].body, "T", {}) == wanted
        kept = [x.buffer for x in nodes_of(driver.lower(s, [a, u])["main"].body, Allocate)]
        assert [int(b.shape[0]) for b in kept if b.name == "T"] == [3]


def stores(body, name, env):
    """How often a loop nest stores to a buffer."""
    from te_oracle import evaluate_expr

    from whet.compiler import tir

    if isinstance(body, tir.For):
        steps = int(evaluate_expr(body.extent, env))
        return sum(stores(body.body, name, {**env, body.var: k}) for k in range(steps))
    if isinstance(body, tir.SeqStmt):
        return sum(stores(x, name, env) for x in body.seq)
    if isinstance(body, tir.BufferStore):
        return int(body.buffer.name == name)
    return stores(body.body, name, env)


def test_in_threads():
    """Each thread has a rolling buffer of its own; a block's is filled together."""
    for scope in ("local", "shared"):
        s, a, t, u = windows(12, 8, dtype="float32")
        s[u].reorder(u.op.axis[1], u.op.axis[0])
        s[u].bind(u.op.axis[1], te.thread_axis("threadIdx.x"))
        s[t].compute_at(s[u], u.op.axis[0])
        s[t].set_scope(scope)
        s[t].rolling_buffer()
        if scope == "shared":
            s[t].bind(t.op.axis[1], te.thread_axis("threadIdx.x"))
        check(s, [a, u])


def test_errors():
    s, a, t, u = windows()
    refused(s, s[u].rolling_buffer, "rolling_buffer(U)", "U is an output, which its caller keeps")
    refused(s, s[a].rolling_buffer, "rolling_buffer(A)", "A is an input")


def at_the_root(s, a, t, u):
    pass


def nothing_in_common(s, a, t, u):
    outer, _ = s[u].split(u.op.axis[0], factor=3)
    s[u].reorder(u.op.axis[1], outer)
    s[t].compute_at(s[u], u.op.axis[1])


def in_parallel(s, a, t, u):
    plain(s, a, t, u)
    s[u].parallel(u.op.axis[0])


def doubled(s, a, t, u):
    plain(s, a, t, u)
    s[t].double_buffer()


def along_none(s, a, t, u):
    s[u].reorder(s[u].op.reduce_axis[0], *u.op.axis)
    one = s[u].fuse(u.op.axis[0], u.op.axis[1])
    s[t].compute_at(s[u], one)


WHY = {
    at_the_root: "T is computed as a whole",
    nothing_in_common: "two steps of j have no part of j in common",
    in_parallel: "the loop i of U is parallel: its steps do not come one after the other",
    doubled: "T is double buffered",
    along_none: "move what U needs of T along i and j",
}


@pytest.mark.parametrize("how", WHY, ids=lambda f: f.__name__)
def test_where_it_does_not_hold(how):
    s, a, t, u = windows()
    how(s, a, t, u)
    s[t].rolling_buffer()
    with pytest.raises(LowerError) as caught:
        driver.lower(s, [a, u])
    assert str(caught.value).startswith("rolling_buffer(T): ") and WHY[how] in str(caught.value)


def test_an_argument_does_not_roll():
    s, a, t, u = windows()
    s[t].compute_at(s[u], u.op.axis[0])
    s[t].rolling_buffer()
    with pytest.raises(LowerError, match=r"rolling_buffer\(T\): T is an argument"):
        driver.lower(s, [a, t, u])


def test_whole_rows_for_extern():
    s, a, t, u = windows()
    e = te.extern(t.shape, [t], lambda i, o: copied(i[0], o[0]), name="E", dtype=t.dtype)
    s = te.create_schedule(e.op)
    s[t].transform_layout(lambda i, j: [j, i])
    with pytest.raises(LowerError, match=r"te.extern E takes T as rows in memory"):
        driver.lower(s, [a, e])


def copied(source, target):
    from whet.compiler import tir

    b = tir.ir_builder.create()
    x, y = b.buffer_ptr(source), b.buffer_ptr(target)
    with b.for_range(0, int(np.prod([int(d) for d in source.shape]))) as i:
        y[i] = x[i]
    return b.get()
