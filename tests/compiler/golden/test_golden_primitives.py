"""Golden text of the lowered loops and of the trace for each schedule primitive."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import pytest

from whet.compiler import driver, te
from whet.compiler.target import Target

TARGET = Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma")  # the same vectors on every machine


def elementwise(n=10):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return te.create_schedule(b.op), a, b


def matmul(n=8, k=8, m=16):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_schedule(c.op), a, b, c, r


def stencil():
    a = te.placeholder((18,), name="A")
    t = te.compute((18,), lambda i: a[i] * 2.0, name="T")
    u = te.compute((16,), lambda i: t[i] + t[i + 1] + t[i + 2], name="U")
    return te.create_schedule(u.op), a, t, u


def split_factor():
    s, a, b = elementwise()
    s[b].split(b.op.axis[0], factor=4)
    return s, [a, b]


def split_nparts():
    s, a, b = elementwise()
    s[b].split(b.op.axis[0], nparts=4)
    return s, [a, b]


def split_symbolic():
    n = te.size_var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    _, i = s[b].split(b.op.axis[0], factor=8)
    s[b].vectorize(i)
    return s, [a, b]


def fuse():
    s, a, b, c, k = matmul()
    s[c].fuse(*c.op.axis)
    return s, [a, b, c]


def reorder():
    s, a, b, c, k = matmul()
    s[c].reorder(k, *reversed(c.op.axis))
    return s, [a, b, c]


def tile():
    s, a, b, c, k = matmul()
    s[c].tile(*c.op.axis, 4, 8)
    return s, [a, b, c]


def vectorize():
    s, a, b = elementwise(21)
    s[b].vectorize(b.op.axis[0])
    return s, [a, b]


def unroll():
    s, a, b = elementwise()
    s[b].unroll(b.op.axis[0])
    return s, [a, b]


def parallel():
    s, a, b, c, k = matmul()
    s[c].parallel(c.op.axis[0])
    return s, [a, b, c]


def compute_at():
    s, a, t, u = stencil()
    io, _ = s[u].split(u.op.axis[0], factor=4)
    s[t].compute_at(s[u], io)
    return s, [a, u]


def compute_at_tail():
    a = te.placeholder((12,), name="A")
    t = te.compute((12,), lambda i: a[i] * 2.0, name="T")
    u = te.compute((10,), lambda i: t[i] + t[i + 2], name="U")
    s = te.create_schedule(u.op)
    io, ii = s[u].split(u.op.axis[0], factor=4)
    s[u].unroll(ii)
    s[t].compute_at(s[u], io)
    return s, [a, u]


def compute_inline():
    s, a, t, u = stencil()
    s[t].compute_inline()
    return s, [a, u]


def compute_root():
    s, a, t, u = stencil()
    s[t].compute_at(s[u], u.op.axis[0])
    s[t].compute_root()
    return s, [a, u]


def compute_ahead():
    s, a, b, c, k = matmul()
    columns = s.cache_read(b, "global", [c])
    s[columns].vectorize(s[columns].op.axis[1])
    s[columns].compute_ahead()
    return s, [a, b, c]


def cache_write():
    s, a, b, c, k = matmul()
    local = s.cache_write(c, "local")
    io, jo, ii, ji = s[c].tile(*c.op.axis, 4, 8)
    s[local].compute_at(s[c], jo)
    return s, [a, b, c]


def cache_read():
    s, a, b, c, k = matmul()
    cached = s.cache_read(b, "local", [c])
    s[cached].compute_at(s[c], c.op.axis[1])
    return s, [a, b, c]


ALL = (split_factor, split_nparts, split_symbolic, fuse, reorder, tile, vectorize, unroll,
       parallel, compute_at, compute_at_tail, compute_inline, compute_root, compute_ahead,
       cache_write, cache_read)  # fmt: skip


@pytest.mark.parametrize("make", ALL, ids=lambda f: f.__name__)
def test_loops_and_trace(make, golden):
    s, args = make()
    with TARGET:
        text = f"{s.trace}\n\n{driver.lower(s, args)}"
        assert str(driver.lower(*make())) == str(driver.lower(s, args))
    golden(f"primitive_{make.__name__}", text)


def test_an_empty_trace_says_so():
    s, a, b = elementwise()
    assert str(s.trace) == "# no steps" and len(s.trace) == 0
    s[b].parallel(b.op.axis[0])
    assert len(s.trace) == 1
