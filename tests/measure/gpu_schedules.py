"""Schedules for GPUs that the tests of the cost model predict, and their work."""

from whet import te
from whet.compiler import driver
from whet.compiler.passes import run_build_passes
from whet.compiler.target import Target
from whet.measure.device.specs import spec_of
from whet.measure.gpu.cost.counts import work_of
from whet.measure.gpu.cost.model import predict


def kernels(make, arch="sm_80"):
    """The kernels of a schedule after the build's passes, in order."""
    target = Target(f"cuda -arch={arch}")
    with target:
        mod = run_build_passes(driver.lower(*make()), target)
    return [f for f in mod.functions.values() if f.attrs.get("calling_conv") == "kernel_launch"]


def work(make, arch="sm_80", **given):
    """The work of the only kernel of a schedule."""
    (kernel,) = kernels(make, arch)
    return work_of(kernel, spec_of(arch), **given)


def told(make, arch="sm_80", **given):
    """The model's estimate of the only kernel of a schedule."""
    return predict(spec_of(arch), work(make, arch, **given))


def bind(s, tensor, axes):
    for axis, tag in axes.items():
        s[tensor].bind(axis, te.thread_axis(tag))


def add(n=1 << 20, threads=256, dtype="float32", vector=1, step=1):
    """C = A + B; with ``step``, elements of one thread's neighbours lie that far apart."""
    A, B = (te.placeholder((n,), dtype, name=x) for x in "AB")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    i = s[C].op.axis[0]
    if step > 1:
        i, inner = s[C].split(i, factor=step)
    if vector > 1:
        i, lanes = s[C].split(i, factor=vector)
        s[C].vectorize(lanes)
    block, thread = s[C].split(i, factor=threads)
    if vector > 1:
        s[C].reorder(block, thread, lanes)
    if step > 1:
        s[C].reorder(block, thread, inner)
    bind(s, C, {block: "blockIdx.x", thread: "threadIdx.x"})
    return s, [A, B, C]


def transpose(n=1024, pad=0):
    """B = A.T through a tile of shared memory, its rows ``pad`` elements apart from dense."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    i, j = s[B].op.axis
    io, ii = s[B].split(i, 32)
    jo, ji = s[B].split(j, 32)
    s[B].reorder(io, jo, ii, ji)
    _, inner = s[B].split(ii, 8)
    bind(s, B, {io: "blockIdx.y", jo: "blockIdx.x", inner: "threadIdx.y", ji: "threadIdx.x"})
    s[tile].compute_at(s[B], jo)
    a, b = s[tile].op.axis
    _, ai = s[tile].split(a, 8)
    bind(s, tile, {ai: "threadIdx.y", b: "threadIdx.x"})
    if pad:
        s[tile].storage_align(a, 32, pad)
    return s, [A, B]


def _product(n, dtype="float32"):
    A, B = (te.placeholder((n, n), dtype, name=x) for x in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def plain_product(n=4096, across=True, dtype="float32"):
    """A matrix product, one element a thread; neighbours along rows, or along columns."""
    A, B, C = _product(n, dtype)
    s = te.create_schedule(C.op)
    i, j = s[C].op.axis
    io, ii = s[C].split(i, 16)
    jo, ji = s[C].split(j, 16)
    s[C].reorder(io, jo, ii, ji)
    x, y = (ji, ii) if across else (ii, ji)
    bind(s, C, {io: "blockIdx.y", jo: "blockIdx.x", y: "threadIdx.y", x: "threadIdx.x"})
    return s, [A, B, C]


def tiled_product(n=4096, each=4, step=8, doubled=False):
    """A matrix product from shared memory, ``each`` by ``each`` elements a thread."""
    A, B, C = _product(n)
    s = te.create_schedule(C.op)
    shared = [s.cache_read(x, "shared", [C]) for x in (A, B)]
    tile = s.cache_write(C, "local")
    i, j = s[C].op.axis
    io, ii = s[C].split(i, 16 * each)
    jo, ji = s[C].split(j, 16 * each)
    it, ii = s[C].split(ii, each)
    jt, ji = s[C].split(ji, each)
    s[C].reorder(io, jo, it, jt, ii, ji)
    bind(s, C, {io: "blockIdx.y", jo: "blockIdx.x", it: "threadIdx.y", jt: "threadIdx.x"})
    s[tile].compute_at(s[C], jt)
    ko, ki = s[tile].split(s[tile].op.reduce_axis[0], step)
    a, b = s[tile].op.axis
    s[tile].reorder(ko, ki, a, b)
    s[tile].unroll(a)
    s[tile].unroll(b)
    for one in shared:
        s[one].compute_at(s[tile], ko)
        rest, lanes = s[one].split(s[one].fuse(*s[one].op.axis), 4)
        rest, x = s[one].split(rest, 16)
        _, y = s[one].split(rest, 16)
        bind(s, one, {x: "threadIdx.x", y: "threadIdx.y"})
        s[one].vectorize(lanes)
        if doubled:
            s[one].double_buffer()
    return s, [A, B, C]


def elementwise(body, n=1 << 20, dtype="float32"):
    """B = body(A), one element a thread."""
    A = te.placeholder((n,), dtype, name="A")
    B = te.compute((n,), lambda i: body(A, i), name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(s[B].op.axis[0], factor=256)
    bind(s, B, {block: "blockIdx.x", thread: "threadIdx.x"})
    return s, [A, B]
