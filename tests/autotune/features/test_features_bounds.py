"""Extents of loops as features see them are those that the compiler infers."""

from __future__ import annotations

import features_spaces as spaces
import numpy as np
import pytest

import whet
from whet import te
from whet.autotune.features.loops.nests import Nests
from whet.autotune.features.loops.program import Program
from whet.compiler.errors import LowerError
from whet.compiler.te.bounds.infer_bound import Bounds
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.tir.tracing.traced import Tape


def compared(schedule) -> int:
    """Compare all extents that are numbers; how many there were."""
    nests = Nests(schedule)
    count = 0
    for stage, bounds in Bounds(schedule).stages.items():
        if not isinstance(stage.op, ComputeOp):
            continue
        mine = nests.stages[stage]
        for axis, extent in bounds.extents.items():
            assert extent.is_const
            assert mine.extents[axis] == extent.const, (stage.op.name, axis.var.name)
            count += 1
        assert [mine.extents[a] for a in stage.leaf_iter_vars] == [x.extent for x in mine.loops]
    return count


@pytest.mark.parametrize("name", spaces.tasks())
def test_extents_are_those_of_inferred_bounds(name):
    task = spaces.task(name)
    rng = np.random.default_rng()
    compared_extents = 0
    for _ in range(25):
        config = task.config_space.sample(rng)
        schedule, _ = task.instantiate(config)
        try:
            compared_extents += compared(schedule)
        except LowerError:
            with pytest.raises(LowerError):
                Nests(schedule)
            with pytest.raises(LowerError):
                Bounds(schedule)
    assert compared_extents > 50


def test_several_readers_of_a_tail_may_be_seen_more_exactly():
    """Inference gives up where the ends of two readers' regions differ by no number."""
    spaces.recorded()
    task = whet.create_task("recorded/softmax", args=(20, 100), target="llvm")
    choices = {"rows": 16, "lanes_max": 1, "lanes_sum": 1, "lanes_out": 1, "exp": "block",
               "at": "block", "unroll": 1}  # fmt: skip
    schedule, _ = task.instantiate(task.config_space.from_choices(choices))
    bounds, nests = Bounds(schedule), Nests(schedule)
    top = next(s for s in bounds.stages if s.op.name == "top")
    (axis,) = top.op.axis
    assert (nests.stages[top].extents[axis], bounds.stages[top].extents[axis].const) == (16, 20)


def test_threads_share_what_is_kept_in_shared_memory():
    A = te.placeholder((256,), name="A")
    T = te.compute((256,), lambda i: A[i] * 2.0, name="T")
    U = te.compute((254,), lambda i: T[i] + T[i + 2], name="U")
    for scope, extent in (("shared", 34), ("local", 3)):
        s = te.create_schedule(U.op)
        bx, tx = s[U].split(U.op.axis[0], factor=32)
        s[U].bind(bx, te.thread_axis("blockIdx.x"))
        s[U].bind(tx, te.thread_axis("threadIdx.x"))
        s[T].set_scope(scope)
        s[T].compute_at(s[U], tx)
        assert Nests(s).stages[s[T]].extents[T.op.axis[0]] == extent
        compared(s)


def test_a_reader_outside_the_loop_is_refused():
    A = te.placeholder((16,), name="A")
    T = te.compute((16,), lambda i: A[i] * 2.0, name="T")
    U = te.compute((16,), lambda i: T[i] + 1.0, name="U")
    V = te.compute((16,), lambda i: T[i] + U[i], name="V")
    s = te.create_schedule(V.op)
    s[T].compute_at(s[V], V.op.axis[0])
    with pytest.raises(LowerError, match=r"U reads T too, and runs outside this loop"):
        Nests(s)
    with pytest.raises(whet.WhetError):
        Bounds(s)


def windows():
    """T, a function of A, and U, sums of 8 rows of T each 2 rows after the last."""
    A = te.placeholder((20, 7), name="A")
    T = te.compute((20, 7), lambda i, j: A[i, j] * 2.0, name="T")
    k = te.reduce_axis((0, 8), name="k")
    U = te.compute((7, 7), lambda i, j: te.sum(T[i * 2 + k, j], axis=k), name="U")
    return te.create_schedule(U.op), T, U


def columns_of(schedule, *names):
    tape = Tape()
    tables = Program(Nests(schedule), tape).tables
    return [np.vectorize(tape.whole)(tables[name]).tolist() for name in names]


def test_a_rolling_buffer_computes_what_is_new():
    s, T, U = windows()
    s[T].compute_at(s[U], U.op.axis[0])
    whole, _ = columns_of(s, "extent", "region")
    assert whole[0] == [7, 8, 7]
    s[T].rolling_buffer()
    steps, kept = columns_of(s, "extent", "region")
    # 8 rows in the first of 7 steps, 2 in each other: 20 rows, 3 a step; 8 are kept
    assert steps[0] == [7, 3, 7] and kept[0] == [8, 7]
    s[T].vectorize(T.op.axis[1])
    assert columns_of(s, "extent")[0][0] == [7, 3, 7]
    s[T].split(T.op.axis[0], factor=4)  # what is known is skipped under a condition
    assert columns_of(s, "extent")[0][0] == [7, 2, 4, 7]


def test_accesses_of_a_layout_move_through_its_places():
    s, T, _ = windows()
    s[T].transform_layout(lambda i, j: [j // 4, i, j % 4])
    lengths, steps = columns_of(s, "length", "step")
    stored = next(k for k, x in enumerate(lengths) if x == [2, 20, 4])
    assert lengths.count([2, 20, 4]) == 2  # the store, and the read of U
    rows, columns = ([dim[-2] for dim in steps[stored]], [dim[-1] for dim in steps[stored]])
    assert rows == [0, 1, 0] and columns[1:] == [0, 1]
