"""Instructions for the tests of tensorize, in plain loops, and products to tensorize."""

import numpy as np

import whet
from whet import te, tir

TARGET = "llvm -num_threads=2"
rng = np.random.default_rng()


def strided(t, name, **options):
    """A buffer of any strides and any offset."""
    steps = [te.var(f"{name}_stride{d}") for d in range(t.ndim)]
    return tir.decl_buffer(t.shape, t.dtype, name, strides=steps, offset_factor=1, **options)


def gemv(m, n, dtype="float32", parts=("body", "reset", "update"), scope=""):
    """``c[i] = sum(a[k] * b[i, k])``."""
    a = te.placeholder((n,), dtype, name="a")
    b = te.placeholder((m, n), dtype, name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    binds = {a: strided(a, "a"), b: strided(b, "b"), c: strided(c, "c", scope=scope)}

    def loops(ins, outs, reset, update):
        (x, y), (z,) = ins, outs
        ib = tir.ir_builder.create()
        with ib.for_range(0, m, name="p") as p:
            if reset:
                ib.emit(z.vstore(p, tir.const(0, dtype)))
            if update:
                with ib.for_range(0, n, name="q") as q:
                    ib.emit(z.vstore(p, z.vload(p) + x.vload(q) * y.vload((p, q))))
        return ib.get()

    def run(ins, outs):
        made = {"body": (True, True), "reset": (True, False), "update": (False, True)}
        three = [loops(ins, outs, *how) if name in parts else None for name, how in made.items()]
        return three[0] if parts == ("body",) else three

    return te.decl_tensor_intrin(c.op, run, name="gemv", binds=binds)


def product(n, m, depth, dtype="float32"):
    """``C = A @ B.T``, its operands in the other order than gemv's."""
    a = te.placeholder((n, depth), dtype, name="A")
    b = te.placeholder((m, depth), dtype, name="B")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(b[j, k] * a[i, k], axis=k), name="C")
    return a, b, c


def tiled(n, m, depth, rows=4, cols=8, **options):
    """The product, tensorized, and the loops around its tile."""
    a, b, c = product(n, m, depth, options.get("dtype", "float32"))
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[1], rows)
    ko, ki = s[c].split(c.op.reduce_axis[0], cols)
    s[c].reorder(c.op.axis[0], yo, ko, yi, ki)
    s[c].tensorize(yi, gemv(rows, cols, **options))
    return s, (a, b, c), (c.op.axis[0], yo, ko)


def fresh(t):
    """Random elements for a tensor."""
    shape = tuple(map(int, t.shape))
    if t.dtype.startswith("float"):
        return rng.uniform(-1, 1, shape).astype(t.dtype)
    info = np.iinfo(t.dtype)
    return rng.integers(info.min, info.max, shape, t.dtype, endpoint=True)


def poisoned(t):
    """An output that no kernel has written yet."""
    return np.full(tuple(map(int, t.shape)), np.nan if "float" in t.dtype else 77, t.dtype)


def is_product(s, tensors, target=TARGET):
    """The kernel of ``A @ B.T`` computes it; its lowered text."""
    a, b, c = tensors
    f = whet.build(s, list(tensors), target)
    x, y, out = fresh(a), fresh(b), poisoned(c)
    f(x, y, out)
    kind = "float64" if "float" in a.dtype else "int64"
    np.testing.assert_allclose(out, x.astype(kind) @ y.astype(kind).T, rtol=2e-5, atol=1e-5)
    return str(whet.lower(s, list(tensors)))
