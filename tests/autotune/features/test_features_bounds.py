"""Extents of loops as features see them are those that the compiler infers."""

from __future__ import annotations

import features_spaces as spaces
import numpy as np
import pytest

import whet
from whet import te
from whet.autotune.features.nests import Nests
from whet.compiler.errors import LowerError
from whet.compiler.te.lang.tensor import ComputeOp
from whet.compiler.te.lower.infer_bound import Bounds


def compared(schedule) -> int:
    """Compare all extents that are numbers; how many there were."""
    nests = Nests(schedule)
    count = 0
    for stage, bounds in Bounds(schedule).stages.items():
        if not isinstance(stage.op, ComputeOp):
            continue
        mine = nests.of_stage[stage]
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
    assert (nests.of_stage[top].extents[axis], bounds.stages[top].extents[axis].const) == (16, 20)


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
        assert Nests(s).of_stage[s[T]].extents[T.op.axis[0]] == extent
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
