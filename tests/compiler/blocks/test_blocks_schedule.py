"""``tir.Schedule``: names of blocks and loops, traces, draws, copies, and what is refused."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from block_programs import check, expected, inputs, matmul_relu

import whet
from whet import te, tir


def fresh(*sizes, seed=None):
    return tir.Schedule(te.create_prim_func(matmul_relu(*sizes)), seed=seed)


def names(many):
    return [x.name for x in many]


def test_blocks_and_loops_are_found():
    sch = fresh()
    root, y = sch.get_block("root"), sch.get_block("Y", "main")
    assert names(sch.get_child_blocks(root)) == ["Y", "E", "C"]
    assert names(sch.get_loops(y)) == ["i", "j", "k"]
    assert sch.get_loops(root) == []
    assert names(sch.get_consumers(y)) == ["E"]
    assert names(sch.get_producers(sch.get_block("C"))) == ["E"]
    assert sch.get_producers(y) == []
    assert sch.get(y).name_hint == "Y"
    assert len(sch.get(root).alloc_buffers) == 2
    assert sch.get(sch.get_loops(y)[2]).extent.value == 9


def test_the_course_on_blocks_runs_with_another_import():
    a = te.placeholder((8,), dtype="float32", name="A")
    b = te.compute((8,), lambda *i: a(*i) + 1.0, name="B")
    sch = tir.Schedule(whet.IRModule({"main": te.create_prim_func([a, b])}))
    (i,) = sch.get_loops(sch.get_block("B"))
    i_0, i_1, i_2 = sch.split(i, factors=[2, 2, 2])
    assert names((i_0, i_1, i_2)) == ["i0_0", "i0_1", "i0_2"]
    sch.reorder(i_0, i_2, i_1)
    assert "for i0_0, i0_2, i0_1 in T.grid(2, 2, 2):" in sch.mod.script()
    assert "vi0 = T.axis.spatial(8, i0_0 * 4 + i0_1 * 2 + i0_2)" in sch.mod.script()
    out = np.full(8, np.nan, "float32")
    whet.build(sch.mod, target="llvm")(np.arange(8, dtype="float32"), out)
    assert (out == np.arange(8) + 1).all()


def test_what_reads_a_product_joins_its_loops(capsys):
    sch = fresh(16, 12, 8)
    sch.compute_inline(sch.get_block("E"))
    y = sch.get_block("Y")
    _, j, k = sch.get_loops(y)
    j0, j1 = sch.split(j, factors=[None, 4])
    sch.reorder(j0, k, j1)
    sch.parallel(sch.get_loops(y)[0])
    c = sch.get_block("C")
    sch.reverse_compute_at(c, j0)
    assert names(sch.get_loops(c)) == ["i", "j_0", "j_1"]
    assert names(sch.get_loops(y)) == ["i", "j_0", "k", "j_1"]
    assert names(sch.get_child_blocks(j0)) == ["Y", "C"]
    init = sch.decompose_reduction(y, k)
    assert (init.name, sch.get(init).name_hint) == ("Y_init", "Y_init")
    assert sch.get(y).name_hint == "Y_update"
    assert names(sch.get_loops(sch.get_block("Y_update"))) == ["i", "j_0", "k", "j_1"]
    k0, _ = sch.split(k, [None, 2])
    assert sch.get(k0).extent.value == 4
    text = sch.mod.script()
    assert text.index("T.parallel(16)") < text.index("Y_init") < text.index("Y_update")
    given = inputs(matmul_relu(16, 12, 8), np.random.default_rng())
    check(sch.mod["main"], given, expected(*given))
    sch.show()
    shown = capsys.readouterr().out
    assert text in shown
    assert "sch.reverse_compute_at(block=b" in shown


def test_partial_sums_and_attached_copies():
    sch = fresh(6, 5, 24)
    y = sch.get_block("Y")
    *_, k = sch.get_loops(y)
    _, inner = sch.split(k, [None, 4])
    partial = sch.rfactor(inner, factor_axis=2)
    assert partial.name == "Y_rf"
    assert names(sch.get_producers(y)) == ["Y_rf"]
    copy = sch.cache_read(partial, "A", "global", [partial])
    sch.compute_at(copy, sch.get_loops(partial)[0])
    sch.set_scope(partial, 0, "local")
    sch.storage_align(copy, 0, -2, 8, 1)
    sch.annotate(partial, "meta", "x")
    assert 'T.block_attr({"meta": "x"})' in sch.mod.script()
    assert "buffer_dim_align" in sch.mod.script()
    sch.unannotate(partial, "meta")
    assert "meta" not in sch.mod.script()
    given = inputs(matmul_relu(6, 5, 24), np.random.default_rng())
    check(sch.mod["main"], given, expected(*given))


def drawn(sch, decision=None):
    y = sch.get_block("Y")
    i, j, _ = sch.get_loops(y)
    tiles = sch.sample_perfect_tile(i, n=3, max_innermost_factor=8, decision=decision)
    wide = sch.sample_categorical([2, 4, 8], [0.2, 0.3, 0.5])
    sch.split(i, factors=tiles)
    sch.split(j, factors=[None, wide])
    return tiles, wide


def test_draws_follow_the_seed_and_traces_keep_them():
    seed = random.randrange(10**6)
    one, two = fresh(48, 16, 8, seed=seed), fresh(48, 16, 8, seed=seed)
    tiles, wide = drawn(one)
    assert drawn(two) == (tiles, wide), seed
    assert np.prod(tiles) == 48
    assert tiles[2] <= 8
    assert wide in (2, 4, 8)
    assert one.mod.script() == two.mod.script()
    assert str(one.trace) == str(two.trace)
    text = str(one.trace)
    assert "sample_perfect_tile(loop=l1, n=3, max_innermost_factor=8, decision=[" in text
    assert "split(loop=l1, factors=[v4, v5, v6])" in text
    others = [fresh(48, 16, 8) for _ in range(2)]
    one.trace.apply_to_schedule(others[0])
    tir_trace = json.loads(json.dumps(one.trace.as_json()))
    type(one.trace).apply_json_to_schedule(tir_trace, others[1])
    assert [s.mod.script() for s in others] == [one.mod.script()] * 2
    scope = {}
    exec("def apply_trace(sch):\n  " + "\n  ".join(one.trace.as_python()), scope)
    third = fresh(48, 16, 8)
    scope["apply_trace"](third)
    assert third.mod.script() == one.mod.script()
    assert drawn(fresh(48, 16, 8), [4, 3, 4])[0] == [4, 3, 4]


def test_all_factors_are_drawn():
    sch = fresh(12, 16, 8, seed=7)
    loop = sch.get_loops(sch.get_block("Y"))[0]
    found = {tuple(sch.sample_perfect_tile(loop, 2)) for _ in range(200)}
    assert found == {(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)}


def test_a_copy_is_changed_apart():
    sch = fresh()
    y = sch.get_block("Y")
    i, j, _ = sch.get_loops(y)
    before = sch.mod.script()
    func = sch.mod["main"]
    twin = sch.copy()
    twin.fuse(i, j)
    twin.annotate(y, "hint", 1)
    assert sch.mod.script() == before == func.script()
    assert len(twin.trace) == len(sch.trace) + 2
    sch.split(i, [None, 2])
    assert "i_j_fused" in twin.mod.script()
    assert names(twin.get_loops(y)) == ["i_j_fused", "k"]
    again = tir.Schedule(twin.mod)
    assert again.mod.script() == twin.mod.script()


def test_a_refused_primitive_changes_nothing():
    sch = fresh()
    y, e, c = (sch.get_block(x) for x in "YEC")
    sch.reorder(*reversed(sch.get_loops(c)))
    before, steps = sch.mod.script(), len(sch.trace)
    with pytest.raises(whet.ScheduleError, match="Y does not consume E"):
        sch.compute_at(e, sch.get_loops(y)[0])
    with pytest.raises(whet.ScheduleError, match="loops of its own making"):
        sch.reverse_compute_at(c, sch.get_loops(e)[0])
    assert sch.mod.script() == before
    assert {s.kind for s in sch.trace.insts[steps:]} == {"get_loops"}


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda s, y, i, j, k: s.get_block("Z"), "there is no such block\n  blocks: Y, E, C"),
        (
            lambda s, y, i, j, k: s.split(i, [2, 4]),
            "product of the factors, 8, is less than the 17",
        ),
        (lambda s, y, i, j, k: s.split(i, [None, None]), "of which one may be None"),
        (lambda s, y, i, j, k: s.split(i, [None, 0]), "at least 1"),
        (lambda s, y, i, j, k: s.fuse(j, k), "a data axis and a reduction axis do not fuse"),
        (lambda s, y, i, j, k: (s.split(i, [None, 4]), s.parallel(i)), "it is no loop any more"),
        (lambda s, y, i, j, k: s.decompose_reduction(y, j), "just before k, the outermost reduced"),
        (lambda s, y, i, j, k: s.reverse_compute_at(s.get_block("E"), k), "that is reduced"),
        (lambda s, y, i, j, k: s.reverse_compute_inline(s.get_block("E")), "reverse_compute_at"),
        (lambda s, y, i, j, k: s.compute_inline(y), "a reduction cannot be inlined"),
        (lambda s, y, i, j, k: s.cache_read(y, 2, "shared"), "the block reads 2"),
        (lambda s, y, i, j, k: s.cache_read(y, 0, "nowhere"), "is not a storage scope"),
        (
            lambda s, y, i, j, k: (s.split(i, [None, 4]), s.cache_write(y, 0, "local")),
            "call cache_write first",
        ),
        (lambda s, y, i, j, k: s.parallel(k), "the steps of a reduction depend on each other"),
        (lambda s, y, i, j, k: s.tensorize(i, "dot_16x4"), "te.decl_tensor_intrin"),
        (lambda s, y, i, j, k: s.tensorize(y, None), "blockize"),
        (lambda s, y, i, j, k: s.unannotate(i, "x"), "there is no such note"),
        (lambda s, y, i, j, k: s.set_scope(s.get_block("C"), 0, "local"), "writes an argument"),
        (lambda s, y, i, j, k: s.storage_align(y, 0, 2, 8, 1), "it has 2 dimensions"),
        (lambda s, y, i, j, k: s.sample_perfect_tile(i, 2, decision=[3, 5]), "are not 2 factors"),
        (lambda s, y, i, j, k: s.sample_categorical([1], [0.0]), "a chance for each number"),
        (lambda s, y, i, j, k: s.reorder(i, s.get_loops(s.get_block("C"))[0]), "Y and C"),
        (lambda s, y, i, j, k: s.parallel("i"), "it is no loop of this schedule"),
        (lambda s, y, i, j, k: s.compute_inline(s.get_block("root")), "is around all others"),
        (lambda s, y, i, j, k: s.work_on("other"), "it is not in the module"),
    ],
)
def test_what_cannot_be_is_said(call, why):
    sch = fresh()
    y = sch.get_block("Y")
    with pytest.raises(whet.ScheduleError) as error:
        call(sch, y, *sch.get_loops(y))
    assert why in str(error.value)


def test_primitives_that_te_lacks_are_refused_by_name():
    sch = fresh()
    for name, way_out in (("reindex", "cache_read"), ("blockize", "tensorize")):
        with pytest.raises(AttributeError) as error:
            getattr(sch, name)
        assert way_out in str(error.value)
    with pytest.raises(AttributeError, match="did you mean split"):
        _ = sch.splitt


def test_only_functions_that_te_made_are_scheduled():
    func = te.create_prim_func(matmul_relu())
    changed = func.with_body(tir.BlockRealize([], True, func.body.block))
    with pytest.raises(whet.ScheduleError, match="written or changed by hand"):
        tir.Schedule(changed)
    with pytest.raises(whet.ScheduleError, match="it has no blocks, but loops"):
        tir.Schedule(whet.lower(func))
    with pytest.raises(whet.ScheduleError, match="it is no function and no module"):
        tir.Schedule("main")


def test_two_functions_are_scheduled_by_name():
    one, two = (te.create_prim_func(matmul_relu(n)) for n in (4, 6))
    sch = tir.Schedule(whet.IRModule({"one": one, "two": two}))
    sch.work_on("two")
    (i, *_) = sch.get_loops(sch.get_block("Y"))
    sch.parallel(i)
    sch.vectorize(sch.get_loops(sch.get_block("C", func_name="one"))[1])
    assert "T.parallel(6)" in sch.mod["two"].script()
    assert "T.parallel" not in sch.mod["one"].script()
    assert "T.vectorized(13)" in sch.mod["one"].script()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda sch, b: sch.cache_read(b, None, "global"), "the block reads 2"),
        (lambda sch, b: sch.storage_align(b, 0, "x", 4, 1), "are integers"),
        (lambda sch, b: sch.storage_align(b, 5, 0, 4, 1), "the block writes 1"),
        (lambda sch, b: sch.sample_perfect_tile(sch.get_loops(b)[0], n=3.5), "are integers"),
    ],
)
def test_arguments_of_other_types_are_named(wrong, why):
    sch = fresh()
    before = sch.mod.script()
    with pytest.raises(tir.ScheduleError, match=why):
        wrong(sch, sch.get_block("Y"))
    assert sch.mod.script() == before
