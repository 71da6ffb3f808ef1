"""Entities applied to real schedules: the loops and extents that come out."""

import pytest

from whet.compiler import te
from whet.compiler.errors import SpaceError
from whet.search_spaces import AnnotateEntity, ReorderEntity, SplitEntity


def schedule(n=96, m=40):
    a = te.placeholder((n, m), name="a")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="b")
    return te.create_schedule(b.op), b


def names(s, b):
    return [axis.var.name for axis in s[b].leaf_iter_vars]


def splits(s):
    return [step for step in s.trace.steps if step.primitive == "split"]


def test_split_apply_returns_the_axes_outer_to_inner():
    s, b = schedule()
    axes = SplitEntity((2, 3, 4, 4)).apply(s, b, b.op.axis[0])
    assert len(axes) == 4
    assert all(x is y for x, y in zip(s[b].leaf_iter_vars, [*axes, b.op.axis[1]], strict=True))
    # From the outside in: only the first split sees an extent that its factor may not divide.
    assert [step.options["factor"].value for step in splits(s)] == [48, 16, 4]


def test_split_of_one_output_leaves_the_axis():
    s, b = schedule()
    assert SplitEntity((96,)).apply(s, b, b.op.axis[0])[0] is b.op.axis[0]
    assert not splits(s)


def test_reorder_apply():
    s, b = schedule()
    i, j = b.op.axis
    order = ReorderEntity((1, 0)).apply(s, b, [i, j])
    assert order[0] is j
    assert names(s, b) == ["j", "i"]
    with pytest.raises(SpaceError, match="3 were given, the knob has 2"):
        ReorderEntity((1, 0)).apply(s, b, [i, j, i])


def test_annotate_apply():
    s, b = schedule()
    AnnotateEntity(("unroll", "vec")).apply(s, b, list(b.op.axis))
    primitives = [step.primitive for step in s.trace.steps]
    assert primitives == ["unroll", "vectorize"]


def test_annotate_limits():
    s, b = schedule()
    axes = list(b.op.axis)
    entity = AnnotateEntity(("unroll", "vec"))
    with pytest.raises(SpaceError, match="max_unroll is 16"):
        entity.apply(s, b, axes, axis_lens=[96, 8], max_unroll=16)
    with pytest.raises(SpaceError, match="vec_size is 4, 8"):
        entity.apply(s, b, axes, axis_lens=[8, 40], vec_size=[4, 8])
    with pytest.raises(SpaceError, match="axis_lens="):
        entity.apply(s, b, axes, max_unroll=16)
    assert not s.trace.steps
    entity.apply(s, b, axes, axis_lens=[8, 8], max_unroll=16, vec_size=[8])
    assert len(s.trace.steps) == 2


def test_a_knob_without_val_is_no_truth_value():
    from whet.search_spaces.knobs.entities import OtherOptionEntity

    with pytest.raises(SpaceError, match=r"use cfg\[name\]\.val"):
        bool(OtherOptionEntity(False))
