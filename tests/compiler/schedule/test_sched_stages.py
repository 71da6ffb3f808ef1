"""Attributes of a schedule and its stages, with TVM's names and numbers."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import pytest
from sched_check import exactly, refused, replays
from te_check import check

from whet.compiler import driver, te, tir
from whet.compiler.te.lang import relations
from whet.compiler.te.lang.relations import Fuse, IterVarAttr, Rebase, Singleton, Split


def matmul(n=8, k=8, m=16):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_schedule(c.op), a, b, c, r


def test_a_schedule_of_an_operation_a_tensor_or_several():
    s, a, b, c, k = matmul()
    d = te.compute((8,), lambda i: c[i, 0] + 1.0, name="D")
    for given in (d.op, d, [d.op], [d], (d.op, c), [d, d]):
        s = te.create_schedule(given)
        assert [x.op.name for x in s.stages] == ["A", "B", "C", "D"]
    assert [op.name for op in te.create_schedule([c, d]).outputs] == ["C", "D"]
    s = te.create_schedule([c.op, d.op])
    assert [x.is_output for x in s.stages] == [False, False, True, True]
    assert s.groups == [] and s[c].group is None and s[c].num_child_stages == 0


def test_stages_are_found_by_tensor_and_operation():
    s, a, b, c, k = matmul()
    assert s[c] is s[c.op] is s.stages[2] is s.stage_map[c.op]
    old = c.op
    cache = s.cache_write(c, "local")
    assert s[c] is s[old] is s.stage_map[s[c].op] and s[c].op is not old
    assert s[c].origin_op is old and s[cache].op is cache.op


def test_leaves_relations_and_all_axes():
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    io, ii = s[c].split(i, factor=4)
    jo, ji = s[c].split(j, nparts=2)
    s[c].reorder(io, jo, ii, ji)
    f = s[c].fuse(io, jo)
    one = s[c].fuse()
    assert s[c].leaf_iter_vars == [one, f, ii, ji, k]
    assert s[c].all_iter_vars == [i, j, k, io, ii, jo, ji, f, one]
    r = s[c].relations
    assert [type(x) for x in r] == [Split, Split, Fuse, Singleton]
    assert (r[0].parent, r[0].outer, r[0].inner, int(r[0].factor), r[0].nparts) == (
        i, io, ii, 4, None,
    )  # fmt: skip
    assert r[1].factor is None and int(r[1].nparts) == 2
    assert (r[2].outer, r[2].inner, r[2].fused) == (io, jo, f) and r[3].iter is one
    check(s, [a, b, c])


def test_attributes_of_axes():
    s, a, b, c, k = matmul()
    i, j = c.op.axis
    assert s[c].iter_var_attrs == {}
    jo, ji = s[c].split(j, factor=4)
    bx = te.thread_axis("blockIdx.x")
    s[c].vectorize(ji)
    s[c].unroll(k)
    s[c].bind(i, bx)
    s[c].pragma(jo, "unroll_explicit", True)
    s[c].pragma(jo, "my_mark")
    attrs = s[c].iter_var_attrs
    assert attrs[ji] == IterVarAttr(tir.expr.VECTORIZED) and attrs[ji].iter_type == 6
    assert attrs[k].iter_type == 5 and attrs[k].kind == "unrolled"
    assert attrs[i].bind_thread is bx and attrs[i].kind == "thread_binding"
    assert attrs[jo].pragma_keys == ("unroll_explicit", "my_mark")
    assert attrs[jo].pragma_values[1] is None and attrs[jo].kind == "serial"
    s[c].unroll(jo)
    assert attrs[jo].iter_type == 5 and attrs[jo].pragma_keys == ("unroll_explicit", "my_mark")


def test_where_stages_are_attached():
    assert (relations.ROOT, relations.INLINE, relations.AT) == (1, 2, 4)
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((9,), lambda i: b[i] + 1.0, name="C")
    d = te.compute((9,), lambda i: c[i] + 1.0, name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    s[c].compute_at(s[d], d.op.axis[0])
    assert [x.attach_type for x in s.stages] == [1, 2, 4, 1]
    assert s[c].attach_stage is s[d] and s[c].attach_ivar is d.op.axis[0]
    s[c].compute_root()
    assert s[c].attach_stage is None and s[c].attach_ivar is None and s[c].attach_type == 1
    check(s, [a, d])


@pytest.mark.parametrize("before", ["inlined", "attached"])
def test_compute_root_undoes_inlining_and_attaching(before):
    a = te.placeholder((3, 11), name="A")
    b = te.compute((3, 11), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((3, 10), lambda i, j: b[i, j] + b[i, j + 1], name="C")
    plain, s = te.create_schedule(c.op), te.create_schedule(c.op)
    if before == "inlined":
        s[b].compute_inline()
    else:
        s[b].compute_at(s[c], c.op.axis[0])
    assert str(driver.lower(s, [a, c])) != str(driver.lower(plain, [a, c]))
    s[b].compute_root()
    assert str(driver.lower(s, [a, c])) == str(driver.lower(plain, [a, c]))
    check(s, [a, c])


@pytest.mark.parametrize("fuse_at", ["first", "after"])
def test_a_loop_of_one_step_made_of_nothing(fuse_at):
    s, a, b, c, k = matmul()
    if fuse_at == "first":
        one = s[c].fuse()
        assert s[c].leaf_iter_vars[0] is one
        s[c].bind(one, te.thread_axis((0, 4), "threadIdx.x"))
    else:
        io, _ = s[c].split(c.op.axis[0], factor=3)
        s[c].parallel(s[c].fuse())
    check(s, [a, b, c])


def test_a_single_element_in_a_thread():
    a = te.placeholder((), name="A")
    b = te.compute((), lambda: a() + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].fuse(), te.thread_axis("threadIdx.x"))
    check(s, [a, b])


def test_normalize_lets_loops_count_from_0():
    a = te.placeholder((20,), name="A")
    k = te.reduce_axis((3, 20), name="k")
    t = te.compute((20,), lambda i: a[i] * 2.0, name="T")
    b = te.compute((4,), lambda i: te.sum(t[k], axis=k) + 0 * i if False else te.sum(
        t[k] * (i + 1), axis=k), name="B")  # fmt: skip
    s = te.create_schedule(b.op)
    s[t].compute_at(s[b], b.op.axis[0])
    io, ii = s[t].split(t.op.axis[0], factor=8)
    before = exactly(s)
    n = s.normalize()
    assert exactly(s) == before and n is not s
    assert [type(r) for r in n[b].relations] == [Rebase, Rebase]
    r = n[b].relations[1]
    assert r.parent is k and n[b].leaf_iter_vars[1] is r.rebased
    assert not any(isinstance(r, Rebase) for r in n[t].relations)
    assert n[t].attach_ivar is n[b].leaf_iter_vars[0]
    assert str(driver.lower(n, [a, b])) == str(driver.lower(s, [a, b]))
    ko, ki = n[b].split(n[b].leaf_iter_vars[1], factor=4)
    check(n, [a, b])


def test_a_copy_goes_its_own_way():
    s, a, b, c, k = matmul()
    cache = s.cache_write(c, "local")
    s[cache].compute_at(s[c], c.op.axis[0])
    t = s.copy()
    assert t[cache].attach_stage is t[c] and t[c] is not s[c]
    replays(t, [a, b, c])
    before = exactly(s)
    t[c].vectorize(c.op.axis[1])
    t[cache].compute_root()
    assert exactly(s) == before and len(t.trace) == len(s.trace) + 2
    check(t, [a, b, c])


def test_schedules_of_nothing_and_stages_of_others():
    s, a, b, c, k = matmul()
    other = te.compute((3,), lambda i: i, name="other")
    words = "schedule[other]: Cannot find the operation: it is not part of this schedule"
    assert refused(s, lambda: s[other]) == f"{words}\n  stages: A, B, C"
    for key in ("C", None, 3, c.op.axis[0]):
        refused(s, lambda: s[key], "stages are found by a tensor or an operation")  # noqa: B023
    refused(s, lambda: te.create_schedule([]), "give at least one operation")
    for thing in (None, 3, "C", [c, None]):
        refused(s, lambda: te.create_schedule(thing), "is not an operation")  # noqa: B023
