"""Schedules for GPUs and their CUDA C: elements, vectors, a product with shared memory."""

from c_kernels import lowered

from whet.compiler import te
from whet.compiler.codegen.cuda import source


def axis(tag):
    return te.thread_axis(tag)


def elementwise(n=48, dtype="float32", threads=8):
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: A[i] * A[i] + A[i], name="B")
    s = te.create_schedule(B.op)
    o, i = s[B].split(B.op.axis[0], threads)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    return s, [A, B]


def vectors(dtype="float32", lanes=4, f=lambda x, i: x * 2 + x):
    A = te.placeholder((64,), dtype, name="A")
    B = te.compute((64,), lambda i: f(A[i], i), name="B")
    s = te.create_schedule(B.op)
    o, v = s[B].split(B.op.axis[0], lanes)
    o, i = s[B].split(o, 4)
    s[B].bind(o, axis("blockIdx.x"))
    s[B].bind(i, axis("threadIdx.x"))
    s[B].vectorize(v)
    return s, [A, B]


def matmul(n=32, dtype="float32"):
    """Tiles of 16 x 16 in shared memory, 2 x 2 in registers."""
    A, B = (te.placeholder((n, n), dtype, name=x) for x in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    shared = [s.cache_read(x, "shared", [C]) for x in (A, B)]
    local = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*C.op.axis, 16, 16)
    it, iv = s[C].split(ii, 2)
    jt, jv = s[C].split(ji, 2)
    s[C].reorder(io, jo, it, jt, iv, jv)
    for x, tag in (
        (io, "blockIdx.y"),
        (jo, "blockIdx.x"),
        (it, "threadIdx.y"),
        (jt, "threadIdx.x"),
    ):
        s[C].bind(x, axis(tag))
    s[C].vectorize(jv)
    s[local].compute_at(s[C], jt)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for x in s[local].op.axis:
        s[local].unroll(x)
    for stage in shared:
        s[stage].compute_at(s[local], ko)
        y, x = s[stage].op.axis
        yo, _ = s[stage].split(y, nparts=8)
        xo, _ = s[stage].split(x, nparts=8)
        s[stage].reorder(yo, xo, *[a for a in s[stage].leaf_iter_vars if a not in (yo, xo)])
        s[stage].bind(yo, axis("threadIdx.y"))
        s[stage].bind(xo, axis("threadIdx.x"))
    return s, [A, B, C]


def cuda(s, args, name="kernel"):
    return lowered(s, args, name, "cuda")


def text(s, args, name="kernel"):
    return source(cuda(s, args, name))
