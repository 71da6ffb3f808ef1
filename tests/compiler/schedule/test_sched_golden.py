"""Golden text of the loops and the trace: threads, storage, pragmas, rfactor, caches' layouts."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import pytest
from sched_check import replays
from test_sched_threads import gpu_matmul

from whet.compiler import te, tir
from whet.compiler.te.lower.schedule_ops import schedule_ops
from whet.compiler.tir.printer import stmt_text


def elementwise(n=10):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return te.create_schedule(b.op), a, b


def chain(n=6, m=5):
    a = te.placeholder((n, m), name="A")
    t = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="T")
    u = te.compute((n, m), lambda i, j: t[i, j] + 1.0, name="U")
    return te.create_schedule(u.op), a, t, u


def row_sums(n=4, m=37):
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return te.create_schedule(b.op), a, b, k


def bind():
    s, a, b = elementwise()
    o, i = s[b].split(b.op.axis[0], factor=4)
    s[b].bind(o, te.thread_axis("blockIdx.x"))
    s[b].bind(i, te.thread_axis((0, 6), "threadIdx.x"))
    return s, [a, b]


def env_threads():
    s, a, b = elementwise()
    s[b].env_threads(te.thread_axis((0, 4), "threadIdx.x", name="tx"))
    return s, [a, b]


def set_store_predicate():
    s, a, b = elementwise()
    s[b].set_store_predicate(b.op.axis[0].var % 2 == 1)
    return s, [a, b]


def pragma():
    s, a, b = elementwise()
    s[b].pragma(b.op.axis[0], "auto_unroll_max_step", 4)
    s[b].pragma(b.op.axis[0], "unroll_explicit", True)
    return s, [a, b]


def prefetch():
    s, a, b, k = row_sums()
    ko, ki = s[b].split(k, factor=16)
    s[b].prefetch(a, ko, 2)
    return s, [a, b]


def set_scope():
    s, a, t, u = chain()
    s[t].set_scope("shared")
    s[t].compute_at(s[u], u.op.axis[0])
    return s, [a, u]


def storage_align():
    s, a, t, u = chain()
    s[t].storage_align(t.op.axis[0], 8, 1)
    return s, [a, u]


def double_buffer():
    s, a, t, u = chain()
    s[t].compute_at(s[u], u.op.axis[0])
    s[t].double_buffer()
    return s, [a, u]


def fuse_nothing():
    s, a, b = elementwise()
    s[b].parallel(s[b].fuse())
    return s, [a, b]


def normalize():
    a = te.placeholder((10,), name="A")
    k = te.reduce_axis((2, 10), name="k")
    b = te.compute((1,), lambda i: te.max(a[k] + i, axis=k), name="B")
    return te.create_schedule(b.op).normalize(), [a, b]


def rfactor():
    s, a, b, k = row_sums()
    ko, ki = s[b].split(k, factor=16)
    bf = s.rfactor(b, ki, 1)
    s[bf].compute_at(s[b], s[b].op.axis[0])
    return s, [a, b]


def rfactor_across_threads():
    s, a, b, k = row_sums()
    ko, ki = s[b].split(k, factor=16)
    bf = s.rfactor(b, ki)
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[bf].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    return s, [a, b]


def cache_write_relaid():
    s, a, b, k = row_sums()
    io, ii = s[b].split(b.op.axis[0], factor=3)
    s[b].reorder(ii, io)
    s.cache_write(b, "local")
    return s, [a, b]


def create_group():
    s, a, t, u = chain()
    v = te.compute(u.shape, lambda i, j: u[i, j] - 2.0, name="V")
    s = te.create_schedule(v.op)
    group = s.create_group(u, a)
    group.compute_at(s[v], v.op.axis[0])
    s[t].compute_at(s[u], u.op.axis[1])
    return s, [a, v]


def transform_layout():
    s, a, t, u = chain()
    s[t].transform_layout(lambda i, j: [i // 4, j, te.AXIS_SEPARATOR, i % 4])
    return s, [a, u]


def rolling_buffer():
    a = te.placeholder((12, 5), name="A")
    t = te.compute((12, 5), lambda i, j: a[i, j] * 2.0, name="T")
    u = te.compute((10, 5), lambda i, j: t[i, j] + t[i + 2, j], name="U")
    s = te.create_schedule(u.op)
    s[t].compute_at(s[u], u.op.axis[0])
    s[t].rolling_buffer()
    return s, [a, u]


def follows_a_split():
    s, a, t, u = chain()
    s[t].compute_at(s[u], u.op.axis[0])
    s[u].split(u.op.axis[0], factor=4)
    return s, [a, u]


def gpu():
    return gpu_matmul(20, 10, 20, block=8, threads=2, virtual=2, step=4)


ALL = (
    *(bind, env_threads, set_store_predicate, pragma, set_scope, storage_align, double_buffer),
    *(prefetch, fuse_nothing, normalize, rfactor, rfactor_across_threads, cache_write_relaid, gpu),
    *(create_group, transform_layout, rolling_buffer, follows_a_split),
)


@pytest.mark.parametrize("make", ALL, ids=lambda f: f.__name__)
def test_trace_and_loops(make, golden):
    s, args = make()
    replays(s, args)
    # before the passes, which have golden texts of their own
    buffers = {a: tir.decl_buffer(a.shape, a.dtype, a.name) for a in args}
    golden(f"schedule_{make.__name__}", f"{s.trace}\n\n{stmt_text(schedule_ops(s, buffers))}")
