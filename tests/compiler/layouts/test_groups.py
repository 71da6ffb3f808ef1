"""Groups of stages: what belongs to them, where they are computed, and what they refuse."""

# ruff: noqa: RUF059  (what a helper makes is unpacked whole)
import pytest
from sched_check import refused, replays
from te_check import check

from whet.compiler import driver, te
from whet.compiler.errors import ScheduleError


def chain(n=13):
    """``A -> B -> C -> D -> E``, each three elements wide, with a constant G that C reads."""
    a = te.placeholder((n + 2,), "float64", name="A")
    g = te.compute((n,), lambda i: i.astype("float64"), name="G")
    b = te.compute((n + 2,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] + b[i + 2] * 2.0 + g[i], name="C")
    d = te.compute((n,), lambda i: c[i] * 3.0, name="D")
    e = te.compute((n,), lambda i: d[i] - a[i], name="E")
    return te.create_schedule(e.op), a, b, c, d, e, g


def at_the_root(s, b, c, d, e, g):
    s.create_group(d, b)


def attached(s, b, c, d, e, g):
    group = s.create_group([d], [s.outputs[0].input_tensors[1]])
    outer, _ = s[e].split(e.op.axis[0], factor=5)
    group.compute_at(s[e], outer)


def one_of_it_elsewhere(s, b, c, d, e, g):
    attached(s, b, c, d, e, g)
    s[b].compute_at(s[c], c.op.axis[0])


def back_to_its_root(s, b, c, d, e, g):
    one_of_it_elsewhere(s, b, c, d, e, g)
    s[b].compute_root()
    assert s[b].place == s.groups[0].place != s[g].place


def with_its_inputs(s, b, c, d, e, g):
    s.create_group(c, b, include_inputs=True).compute_at(s[d], d.op.axis[0])


def nested(s, b, c, d, e, g):
    inner = s.create_group(c, b, include_inputs=True)
    outer = s.create_group(d, b, include_inputs=True)
    assert inner.group is outer and outer.num_child_stages == 2 and outer.group is None
    outer.compute_at(s[e], e.op.axis[0])
    assert s[b].place == outer.place
    inner.compute_at(s[d], d.op.axis[0])


def made_inside(s, b, c, d, e, g):
    outer = s.create_group(d, b, include_inputs=True)
    inner = s.create_group(c, b, include_inputs=True)
    assert inner.group is outer and outer.num_child_stages == 2 == inner.num_child_stages
    outer.compute_at(s[e], e.op.axis[0])


def caches_belong_to_it(s, b, c, d, e, g):
    group = s.create_group(d, b, include_inputs=True)
    group.compute_at(s[e], e.op.axis[0])
    local = s.cache_write(c, "local")
    copy = s.cache_read(b, "local", [s[local].op])
    assert s[local].group is group is s[copy].group and group.num_child_stages == 5


def followed(s, b, c, d, e, g):
    group = s.create_group(d, b, include_inputs=True)
    group.compute_at(s[e], e.op.axis[0])
    s[e].split(e.op.axis[0], factor=4)
    assert group.attach_ivar is s[e].leaf_iter_vars[1] is s[d].attach_ivar


def normalized(s, b, c, d, e, g):
    followed(s, b, c, d, e, g)
    new = s.normalize()
    assert new.groups[0] is not s.groups[0] and new[c].group is new.groups[0]


HOW = [at_the_root, attached, one_of_it_elsewhere, back_to_its_root, with_its_inputs, nested,
       made_inside, caches_belong_to_it, followed, normalized]  # fmt: skip


@pytest.mark.parametrize("how", HOW, ids=lambda f: f.__name__)
def test_numbers_and_the_trace(how, rng_seed):
    s, a, b, c, d, e, g = chain()
    how(s, b, c, d, e, g)
    check(s, [a, e], seed=rng_seed)


@pytest.fixture
def rng_seed():
    import random

    seed = random.randrange(2**31)
    print(f"seed {seed}")
    return seed


def test_what_belongs_to_a_group():
    s, a, b, c, d, e, g = chain()
    group = s.create_group(outputs=[d], inputs=[a])
    assert [x.op.name for x in group.children] == ["B", "C", "D"] and s.groups == [group]
    assert s[b].group is s[c].group is s[d].group is group
    assert s[g].group is s[e].group is s[a].group is None  # G is computed from no input
    assert group.num_child_stages == 3 and s[b].num_child_stages == 0
    assert s[group] is group and repr(group) == "stage(group(B, C, D))"
    assert "in group(B, C, D)" in s.show().svg
    assert s.copy().groups[0].num_child_stages == 3


def test_of_a_group_all_is_computed_where_it_is():
    s, a, b, c, d, e, g = chain()
    group = s.create_group(d, a)
    group.compute_at(s[e], e.op.axis[0])
    assert {x.attach_stage for x in group.children} == {s[e]} and s[g].attach_stage is None
    group.compute_root()
    assert {x.attach_stage for x in group.children} == {None}
    replays(s, [a, e])


def test_what_was_attached_outside_comes_in():
    s, a, b, c, d, e, g = chain()
    s[c].compute_at(s[e], e.op.axis[0])
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.warns(UserWarning, match=r"group\(B, C, D\): C was attached outside of the group"):
        s.create_group(d, a)
    assert s[c].attach_stage is None and s[b].attach_stage is s[c]
    driver.lower(s, [a, e])


def test_errors():
    s, a, b, c, d, e, g = chain()
    refused(s, lambda: s.create_group(b, c), "create_group(B, C)", "no stage is computed from C")
    refused(s, lambda: s.create_group(b, []), "create_group(B, nothing)", "no stage is computed")
    refused(s, lambda: s.create_group(3, [a]), "create_group(outputs=3)", "a int is no tensor")
    alien = te.placeholder((3,), name="Z")
    refused(s, lambda: s.create_group(b, [alien]), "schedule[Z]", "not part of this schedule")
    group = s.create_group(c, a)
    refused(s, lambda: s.create_group(d, b), "create_group(D, B)",
            "group(B, C) would be in it in part: B is outside")  # fmt: skip
    refused(s, lambda: s[b].compute_at(s[e], e.op.axis[0]), "compute_at(B, E, i)",
            "E is outside of group(B, C), which B belongs to")  # fmt: skip
    refused(s, lambda: group.compute_at(s[c], c.op.axis[0]), "C is computed inside group(B, C)")
    refused(s, lambda: group.compute_at(s[g], g.op.axis[0]), "G does not consume group(B, C)",
            "stages that read group(B, C): D")  # fmt: skip
    for primitive in (group.compute_inline, group.compute_ahead, group.rolling_buffer,
                      lambda: group.split(c.op.axis[0], 4), lambda: group.set_scope("local"),
                      lambda: s[d].compute_at(group, c.op.axis[0])):  # fmt: skip
        refused(s, primitive, "group(B, C) is a group of stages and has neither loops nor a result",
                "its stages: B, C")  # fmt: skip
    refused(s, lambda: s.create_group(s.groups[0].op, a), "is a group, and no tensor")
    whole = s.create_group(e, a)
    refused(s, lambda: whole.compute_at(s[e], e.op.axis[0]), "E is an output")


def test_steps_of_a_recurrence_are_grouped_apart_from_others():
    a = te.placeholder((5, 4), name="A")
    state = te.placeholder((5, 4), name="S_before")
    first = te.compute((1, 4), lambda t, i: a[t, i], name="F")
    x = te.compute((5, 4), lambda t, i: a[t, i] * 2.0, name="X")
    cell = te.compute((5, 4), lambda t, i: state[t - 1, i] + x[t, i], name="K")
    step = te.compute((5, 4), lambda t, i: cell[t, i] + 1.0, name="P")
    out = te.scan(first, step, state, inputs=[a], name="S")
    s = te.create_schedule(out.op)
    with pytest.raises(ScheduleError, match=r"computed at the steps of a te\.scan, others are not"):
        s.create_group(cell, a)
    group = s.create_group(cell, x)
    assert group.scan is s[out] and group.place == s[cell].place
    check(s, [a, out])
