"""Scopes, padded rows, conditions to store, double buffers and pragmas."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import numpy as np
import pytest
from sched_check import refused, replays
from te_check import check

from whet.compiler import driver, te, tir
from whet.compiler.errors import LowerError
from whet.compiler.te.lower.schedule_ops import schedule_ops


def chain(n=9, m=7):
    a = te.placeholder((n, m), name="A")
    t = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="T")
    u = te.compute((m, n), lambda i, j: t[j, i] + 1.0, name="U")
    return te.create_schedule(u.op), a, t, u


def raw(s, args):
    """The loops before any pass has seen them."""
    return schedule_ops(s, {a: tir.decl_buffer(a.shape, a.dtype, a.name) for a in args})


def nodes(stmt, kind):
    found = []
    tir.stmt_functor.post_order_visit(
        stmt, lambda n: found.append(n) if isinstance(n, kind) else None
    )
    return found


SCOPES = ("global", "local", "shared", "shared.dyn", "warp", "wmma.matrix_a", "wmma.matrix_b",
          "wmma.accumulator", "texture", "global.texture", "global.vtcm", "global.texture-nhwc",
          "shared.x", "local.xyz", "warp.a1", "texture.weight")  # fmt: skip


@pytest.mark.parametrize("scope", SCOPES)
def test_every_scope_is_kept_and_runs(scope):
    s, a, t, u = chain()
    s[t].set_scope(scope)
    assert s[t].scope == scope
    (allocation,) = nodes(raw(s, [a, u]), tir.Allocate)
    assert allocation.buffer.storage_scope == scope
    check(s, [a, u])


def test_scopes_that_are_none():
    s, a, t, u = chain()
    for scope in ("", "registers", "global.", "shared. x", "wmma", "dram.x", None, 3, "Local"):
        refused(s, lambda: s[t].set_scope(scope), "is not a storage scope", "shared.dyn")  # noqa: B023
    refused(s, lambda: s[a].set_scope("local"), "A is an input")
    refused(s, lambda: s[u].set_scope("shared"), "U is an output, which its caller keeps")
    s[u].set_scope("global")
    replays(s, [a, u])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("factor, offset", [(8, 0), (8, 1), (16, 8), (1, 0), (4, 3), (5, 7)])
@pytest.mark.parametrize("attached", [False, True])
def test_storage_align_pads_rows(axis, factor, offset, attached):
    a = te.placeholder((3, 9, 7), name="A")
    t = te.compute((3, 9, 7), lambda h, i, j: a[h, i, j] * 2.0, name="T")
    u = te.compute((3, 7, 9), lambda h, i, j: t[h, j, i] + 1.0, name="U")
    s = te.create_schedule(u.op)
    s[t].storage_align(t.op.axis[axis], factor, offset)
    if attached:
        s[t].compute_at(s[u], u.op.axis[0])
    (allocation,) = nodes(raw(s, [a, u]), tir.Allocate)
    strides = [int(x) for x in allocation.buffer.strides]
    plain = strides[axis + 1] * (9, 7)[axis]
    assert strides[2] == 1 and strides[axis] >= plain
    assert strides[axis] % factor == offset % factor and strides[axis] - plain < factor
    attr = s[t].iter_var_attrs[t.op.axis[axis]]
    assert (attr.dim_align_factor, attr.dim_align_offset) == (factor, offset)
    check(s, [a, u])


def test_storage_align_of_symbolic_sizes_and_vectors():
    n = te.size_var("n")
    a = te.placeholder((n, 10), name="A")
    t = te.compute((n, 10), lambda i, j: a[i, j] * 2.0, name="T")
    u = te.compute((n, 10), lambda i, j: t[i, j] + 1.0, name="U")
    s = te.create_schedule(u.op)
    s[t].storage_align(t.op.axis[0], 8, 4)
    s[t].vectorize(t.op.axis[1])
    s[u].vectorize(u.op.axis[1])
    for size in (0, 1, 5):
        check(s, [a, u], {n: size})
    b = te.placeholder((4, n), name="B")
    v = te.compute((4, n), lambda i, j: b[i, j] * 2.0, name="V")
    w = te.compute((4, n), lambda i, j: v[i, j] + 1.0, name="W")
    s = te.create_schedule(w.op)
    s[v].storage_align(v.op.axis[0], 8, 1)
    for size in (1, 5, 9):
        check(s, [b, w], {n: size})


def test_storage_align_of_what_cannot_be_padded():
    s, a, t, u = chain()
    i, j = t.op.axis
    io, _ = s[t].split(i, factor=4)
    call = "storage_align(T, i.outer, factor=8, offset=1)"
    refused(s, lambda: s[t].storage_align(io, 8, 1), call, "not an axis of what T", "axes: i j")
    for axis in (None, "i", u.op.axis[0]):
        refused(s, lambda: s[t].storage_align(axis, 8, 1), "is not an axis of what T")  # noqa: B023
    refused(s, lambda: s[t].storage_align(i, 0, 1), "factor must be at least 1")
    refused(s, lambda: s[t].storage_align(i, 8, -1), "offset must be at least 0")
    for factor in (None, 2.5, "8", True, te.var("n")):
        refused(s, lambda: s[t].storage_align(i, factor, 0), "factor must be an integer")  # noqa: B023
    refused(s, lambda: s[a].storage_align(i, 8, 1), "A is an input")
    refused(s, lambda: s[u].storage_align(u.op.axis[0], 8, 1), "U is an output")
    s[t].storage_align(i, np.int64(8), np.uint8(1))
    with pytest.raises(LowerError, match=r"storage_align\(T, \.\.\.\): T is an argument"):
        driver.lower(s, [a, t, u])
    s[t].compute_inline()
    refused(s, lambda: s[t].storage_align(i, 8, 1), "T is inlined")


def test_double_buffers_are_marked_and_run():
    s, a, t, u = chain()
    s[t].compute_at(s[u], u.op.axis[0])
    s[t].double_buffer()
    assert s[t].double_buffered and not s[u].double_buffered
    (mark,) = [n for n in nodes(raw(s, [a, u]), tir.AttrStmt) if n.key == "double_buffer_scope"]
    assert mark.node.name == "T"
    check(s, [a, u])
    refused(s, s[a].double_buffer, "double_buffer(A)", "A is an input")
    refused(s, s[u].double_buffer, "U is an output")
    s[t].compute_inline()
    refused(s, s[t].double_buffer, "T is inlined")


def test_a_condition_to_store():
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    i = b.op.axis[0]
    o, inner = s[b].split(i, factor=4)
    tx = te.thread_axis((0, 4), "threadIdx.x")
    s[b].bind(inner, tx)
    s[b].set_store_predicate(te.all(tx.var < 2, i.var > 4))
    f = driver.build(s, [a, b])
    x, out = np.arange(10, dtype="float32"), np.full(10, -1, "float32")
    f(x, out)
    where = (np.arange(10) % 4 < 2) & (np.arange(10) > 4)
    np.testing.assert_array_equal(out, np.where(where, x + 1, -1))
    replays(s, [a, b])


def test_a_condition_to_store_a_reduction_and_inside_threads_of_another_stage():
    a = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    t = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="T")
    u = te.compute((6,), lambda i: t[i] * 2.0, name="U")
    s = te.create_schedule(u.op)
    tx = te.thread_axis((0, 6), "threadIdx.x")
    s[u].bind(u.op.axis[0], tx)
    s[t].compute_at(s[u], u.op.axis[0])
    s[t].set_store_predicate(tx.var < 6)  # of the loop around it
    check(s, [a, u])
    s = te.create_schedule(t.op)
    s[t].set_store_predicate(t.op.axis[0].var.equal(3))
    f = driver.build(s, [a, t])
    x, out = np.ones((6, 8), "float32"), np.full(6, -1, "float32")
    f(x, out)
    np.testing.assert_array_equal(out, [-1, -1, -1, 8, -1, -1])
    replays(s, [a, t])


def test_conditions_that_are_none():
    s, a, t, u = chain()
    i = t.op.axis[0]
    words = "set_store_predicate(T, ...): a int32 expression is no condition"
    refused(s, lambda: s[t].set_store_predicate(i.var), words, "compare it")
    refused(s, lambda: s[t].set_store_predicate(3), "is no condition")
    for thing in (None, [], object()):
        refused(s, lambda: s[t].set_store_predicate(thing), "is no condition")  # noqa: B023
    refused(s, lambda: s[a].set_store_predicate(i.var > 0), "A is an input")
    s[t].set_store_predicate(te.thread_axis("threadIdx.x").var.equal(0))
    with pytest.raises(LowerError, match=r"threadIdx\.x is not bound in T or around it"):
        driver.lower(s, [a, u])


PRAGMAS = (("auto_unroll_max_step", 16), ("unroll_explicit", True), ("loop_partition_hint", None),
           ("parallel_launch_point", 1), ("parallel_stride_pattern", None), ("anything", 2.5),
           ("parallel_barrier_when_finish", None), ("tensor_core", None),
           ("text", "a \"quoted\" word"), ("size", np.int32(4)))  # fmt: skip


@pytest.mark.parametrize("name, value", PRAGMAS)
def test_pragmas_are_attributes_of_their_loops(name, value):
    s, a, t, u = chain()
    s[u].pragma(u.op.axis[0], name, value)
    (mark,) = nodes(raw(s, [a, u]), tir.AttrStmt)
    assert mark.key == f"pragma_{name}" and mark.body.var is mark.node is u.op.axis[0].var
    said = mark.value.value
    assert said == (1 if value is None else value)
    check(s, [a, u])


def test_pragma_value_0_is_0():
    s, a, t, u = chain()
    s[u].pragma(u.op.axis[0], "unroll_explicit", False)
    s[u].pragma(u.op.axis[0], "auto_unroll_max_step", 0)
    marks = nodes(raw(s, [a, u]), tir.AttrStmt)
    assert [(m.key, m.value.value) for m in reversed(marks)] == [
        ("pragma_unroll_explicit", 0), ("pragma_auto_unroll_max_step", 0),
    ]  # fmt: skip


def test_pragmas_unroll():
    s, a, t, u = chain()
    s[u].pragma(u.op.axis[0], "auto_unroll_max_step", 100)
    s[u].pragma(u.op.axis[0], "unroll_explicit", True)
    func = driver.lower(s, [a, u])["main"]
    loops = nodes(func.body, tir.For)
    assert len([n for n in loops if n.kind == "serial"]) == 2  # those of T
    check(s, [a, u])


@pytest.mark.parametrize("name", ["unroll", "vectorize"])
def test_pragmas_that_are_primitives(name):
    """As in TVM: the pragma does what the primitive of its name does."""
    texts = []
    for how in ("pragma", "primitive"):
        a = te.placeholder((8,), name="A")
        b = te.compute((8,), lambda i: a[i] + 1.0, name="B")  # noqa: B023
        s = te.create_schedule(b.op)
        (i,) = b.op.axis
        s[b].pragma(i, name) if how == "pragma" else getattr(s[b], name)(i)
        texts.append(str(driver.lower(s, [a, b])))
        replays(s, [a, b])
    assert texts[0] == texts[1] and "for i in range" not in texts[0]


def test_pragma_on_a_reduction_and_its_first_values():
    a = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    i = b.op.axis[0]
    s[b].reorder(k, i)
    s[b].pragma(i, "unroll_explicit", True)
    s[b].pragma(i, "import_llvm", "")
    keys = [n.key for n in nodes(raw(s, [a, b]), tir.AttrStmt)]
    assert keys.count("pragma_unroll_explicit") == 2 and keys.count("pragma_import_llvm") == 1
    for mark in nodes(raw(s, [a, b]), tir.AttrStmt):
        inside = mark.body
        while isinstance(inside, tir.AttrStmt):
            inside = inside.body
        assert inside.var is mark.node
    replays(s, [a, b])


def test_a_region_to_skip():
    s, a, t, u = chain()
    s[u].pragma(u.op.axis[1], "debug_skip_region")
    f = driver.build(s, [a, u])
    out = np.full((7, 9), -1, "float32")
    f(np.ones((9, 7), "float32"), out)
    assert (out == -1).all()
    replays(s, [a, u])


def test_pragmas_that_are_none():
    s, a, t, u = chain()
    i = t.op.axis[0]
    for name in (None, 3, "", "two words", "a-b"):
        refused(s, lambda: s[t].pragma(i, name), "the type of a pragma is a name", "loops of T")  # noqa: B023
    refused(s, lambda: s[t].pragma(i, "x", [1]), "a list is not a pragma's value")
    refused(s, lambda: s[t].pragma(None, "x"), "None is not an axis of T")
    refused(s, lambda: s[t].pragma(u.op.axis[0], "x"), "i is not an axis of T")
    for value in (None, "3", 2.5, -1):
        refused(
            s, lambda: s[t].pragma(i, "auto_unroll_max_step", value), "must be a number of steps"  # noqa: B023
        )  # fmt: skip
    refused(s, lambda: s[t].pragma(i, "unroll_explicit", "yes"), "must be True or False")
    refused(s, lambda: s[a].pragma(i, "x"), "A is an input")
