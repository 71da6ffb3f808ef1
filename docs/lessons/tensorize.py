"""
Instructions on tiles
=====================

Processors have instructions that do a small computation at once: sixteen sums of four products of
bytes, a row of a matrix times a vector. ``te.decl_tensor_intrin`` says what such an instruction
computes, and how it is called; ``tensorize`` puts it in the place of loops that compute the same.
"""

import numpy as np

import whet
from whet import te, tir

rng = np.random.default_rng(0)

# %%
# An instruction of plain loops
# -----------------------------
#
# A matrix times a vector. The first half is the computation, as any other in te; ``fcompute`` gets
# a buffer for each tensor and returns statements. Three of them let a reduction go on around the
# tile: the whole computation, what it begins with, and one step more.
#
# A buffer with variables as strides takes a tile of any matrix: the variables get the strides
# of the tile that is computed.


def gemv(m, n):
    """``c[i] = sum(a[k] * b[i, k])`` of m rows and n columns."""
    a = te.placeholder((n,), name="a")
    b = te.placeholder((m, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    of_a = tir.decl_buffer(a.shape, a.dtype, "a", strides=[1], offset_factor=1)
    of_b = tir.decl_buffer(b.shape, b.dtype, "b", strides=[te.var("ldb"), 1], offset_factor=1)
    of_c = tir.decl_buffer(c.shape, c.dtype, "c", strides=[1], offset_factor=1)

    def statements(ins, outs):
        (x, y), (z,) = ins, outs

        def rows(begins, adds):
            ib = tir.ir_builder.create()
            with ib.for_range(0, m, name="row") as i:
                if begins:
                    ib.emit(z.vstore(i, 0.0))
                if adds:
                    with ib.for_range(0, n, name="column") as j:
                        ib.emit(z.vstore(i, z.vload(i) + x.vload(j) * y.vload((i, j))))
            return ib.get()

        return rows(True, True), rows(True, False), rows(False, True)

    return te.decl_tensor_intrin(c.op, statements, "gemv", binds={a: of_a, b: of_b, c: of_c})


N, M, K = 6, 22, 37

A = te.placeholder((N, K), name="A")
B = te.placeholder((M, K), name="B")
k = te.reduce_axis((0, K), name="k")
C = te.compute((N, M), lambda i, j: te.sum(B[j, k] * A[i, k], axis=k), name="C")
s = te.create_schedule(C.op)
i, j = s[C].op.axis
jo, ji = s[C].split(j, factor=8)
ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
s[C].reorder(i, jo, ko, ji, ki)
s[C].tensorize(ji, gemv(8, 4))
print(whet.lower(s, [A, B, C], simple_mode=True))

# %%
# The operands stand in another order there, and the axes have other names: what counts is what is
# read at which places. 22 rows are no whole tiles of 8: the last stay loops, behind an ``else``.

a = rng.standard_normal((N, K), dtype=np.float32)
b = rng.standard_normal((M, K), dtype=np.float32)
c = np.full((N, M), np.nan, np.float32)
whet.build(s, [A, B, C])(a, b, c)
print("error:", np.abs(c - a @ b.T).max())

# %%
# What does not agree is shown
# ----------------------------
#
# Both computations, and where they part.

D = te.compute((N, M), lambda i, j: te.sum(B[j, k] + A[i, k], axis=k), name="D")
s = te.create_schedule(D.op)
jo, ji = s[D].split(D.op.axis[1], factor=8)
ko, ki = s[D].split(D.op.reduce_axis[0], factor=4)
s[D].reorder(D.op.axis[0], jo, ko, ji, ki)
s[D].tensorize(ji, gemv(8, 4))
try:
    whet.lower(s, [A, B, D])
except whet.LowerError as error:
    print(error)

# %%
# The processor's instruction for bytes
# -------------------------------------
#
# ``vpdpbusd`` multiplies unsigned with signed bytes and adds four products to each lane of int32.
# A target knows its processor's features: with them the instruction is LLVM's intrinsic, without
# them plain loops that compute the same. The schedule is one for both.

target = whet.Target("llvm")
has = target.features
vnni = has.has_avxvnni or (has.has_avx512vnni and has.has_avx512vl)
instruction = "llvm.x86.avx512.vpdpbusd.256" if vnni else ""
print("instruction:", instruction or "none, loops in its place")
LANES = 8


def dot_product():
    """``c[i] = sum(x[k] * w[i, k])`` of four bytes each, in eight lanes."""
    x = te.placeholder((4,), "uint8", name="x")
    w = te.placeholder((LANES, 4), "int8", name="w")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute(
        (LANES,),
        lambda i: te.sum(x[k].astype("int32") * w[i, k].astype("int32"), axis=k),
        name="c",
    )

    zeros = te.const(0, "int32").astype(f"int32x{LANES}")

    def loops(xs, ws, out, begins):
        ib = tir.ir_builder.create()
        with ib.for_range(0, LANES, name="lane") as i:
            if begins:
                ib.emit(out.vstore(i, 0))
            with ib.for_range(0, 4, name="byte") as b:
                product = xs.vload(b).astype("int32") * ws.vload((i, b)).astype("int32")
                ib.emit(out.vstore(i, out.vload(i) + product))
        return ib.get()

    def vpdpbusd(xs, ws, out, begins):
        before = zeros if begins else out.vload(0, f"int32x{LANES}")
        four = tir.reinterpret("int32", xs.vload(0, "uint8x4"))  # the same four for each lane
        left = tir.reinterpret(f"int8x{4 * LANES}", four.astype(f"int32x{LANES}"))
        right = ws.vload((0, 0), f"int8x{4 * LANES}")
        none = tir.const(0, "uint32")  # none of its types is left open
        call = tir.call_llvm_pure_intrin(before.dtype, instruction, none, before, left, right)
        return out.vstore(0, call)

    def statements(ins, outs):
        step = vpdpbusd if instruction else loops
        return step(*ins, *outs, True), outs[0].vstore(0, zeros), step(*ins, *outs, False)

    return te.decl_tensor_intrin(
        c.op, statements, "dot_product", default_buffer_params={"offset_factor": 1}
    )


# %%
# The instruction reads 32 bytes of ``w`` side by side. So the weights are packed: of eight columns
# of four rows each, one behind the other.

N, M, K = 33, 64, 100
X = te.placeholder((N, K), "uint8", name="X")
W = te.placeholder((M // LANES, K // 4, LANES, 4), "int8", name="W")
k = te.reduce_axis((0, K), name="k")
Y = te.compute(
    (N, M),
    lambda i, j: te.sum(
        W[j // LANES, k // 4, j % LANES, k % 4].astype("int32") * X[i, k].astype("int32"), axis=k
    ),
    name="Y",
)
s = te.create_schedule(Y.op)
jo, ji = s[Y].split(Y.op.axis[1], factor=LANES)
ko, ki = s[Y].split(k, factor=4)
s[Y].reorder(Y.op.axis[0], jo, ko, ji, ki)
s[Y].tensorize(ji, dot_product())
s[Y].parallel(Y.op.axis[0])
print(whet.lower(s, [X, W, Y], simple_mode=True))

# %%
# The numbers are exact.

x = rng.integers(0, 256, (N, K), "uint8")
w = rng.integers(-128, 128, (M, K), "int8")
packed = w.reshape(M // LANES, LANES, K // 4, 4).transpose(0, 2, 1, 3).copy()
y = np.full((N, M), -1, "int32")
kernel = whet.build(s, [X, W, Y], target)
kernel(x, packed, y)
assert (y == x.astype("int32") @ w.T.astype("int32")).all()
print("exact:", y.shape)
if instruction:
    print("vpdpbusd in the code:", "vpdpbusd" in kernel.get_source("asm"))

# %%
# Declared for graphs without a template
# --------------------------------------
#
# ``whet.tensor_intrin`` declares an instruction once: of a product that it computes, the derived
# space has a rule ``tensorize``, which packs the operands, fills tiles at the edge with zeros and
# keeps sums in registers. Here a row of a matrix is added, eight columns at a time.


@whet.tensor_intrin("scaled_row")
def scaled_row(target):
    """``c[i] += x[0] * w[0, i]``, in vectors of eight; None would leave a target out."""
    x, w = te.placeholder((1,), name="x"), te.placeholder((1, 8), name="w")
    k = te.reduce_axis((0, 1), name="k")
    c = te.compute((8,), lambda i: te.sum(x[k] * w[k, i], axis=k), name="c")

    def statements(ins, outs):
        (one, row), (out,) = ins, outs
        zeros = te.const(0, "float32").astype("float32x8")
        product = one.vload(0).astype("float32x8") * row.vload((0, 0), "float32x8")
        more = out.vstore(0, out.vload(0, "float32x8") + product)
        return out.vstore(0, product), out.vstore(0, zeros), more

    return te.decl_tensor_intrin(
        c.op, statements, "scaled_row", default_buffer_params={"offset_factor": 1}
    )


A, B = te.placeholder((33, 37), name="A"), te.placeholder((37, 21), name="B")
k = te.reduce_axis((0, 37), name="k")
C = te.compute((33, 21), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
task = whet.create_task(outputs=[C], args=[A, B, C], target="llvm")
print(task.config_space.default.as_dict()["rule"], task.config_space.default.as_dict()["tile"])
a = rng.standard_normal((33, 37), dtype=np.float32)
b = rng.standard_normal((37, 21), dtype=np.float32)
c = np.full((33, 21), np.nan, np.float32)
whet.build(task)(a, b, c)
print("error:", np.abs(c - a @ b).max())

# %%
# The rules know ``vpdpbusd`` without a declaration, where the processor has it.

W = te.placeholder((K, M), "int8", name="W")
k = te.reduce_axis((0, K), name="k")
Y = te.compute(
    (N, M), lambda i, j: te.sum(X[i, k].astype("int32") * W[k, j].astype("int32"), axis=k), name="Y"
)
task = whet.create_task(outputs=[Y], args=[X, W, Y], target="llvm")
kernel = whet.build(task)
kernel(x, w.T.copy(), y)
assert (y == x.astype("int32") @ w.T.astype("int32")).all()
print("rule:", task.config_space.default.as_dict().get("rule", "the only one"))
