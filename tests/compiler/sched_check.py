"""The contract of every schedule: replay from its trace, and no change by a refused request."""

import json

import pytest

from whet.compiler import driver, te
from whet.compiler.errors import ScheduleError, WhetError


def replays(s, args=None):
    """The trace, its JSON form and its printed text all make the same schedule again."""
    again = s.trace.replay(s.outputs)
    stored = te.Trace.from_json(json.loads(json.dumps(s.trace.to_json())))
    assert stored == s.trace and len(stored) == len(s.trace) and str(stored) == str(s.trace)
    names = {"s": te.create_schedule(s.outputs), "te": te}
    exec(str(s.trace), names)
    copies = (again, stored.replay(s.outputs), names["s"])
    for copy in copies:
        assert loops(copy) == loops(s)
        assert copy.trace == s.trace and str(copy.trace) == str(s.trace)
    if args is not None:
        text = str(driver.lower(s, args))
        for copy in copies[::2]:
            assert str(driver.lower(copy, moved(args, s, copy))) == text


def moved(args, s, copy):
    """The arguments of a schedule for another one of the same stages."""

    def move(a):
        if not isinstance(a, te.Tensor) or a.op not in s.stage_map:
            return a
        stage = copy.stages[s.stages.index(s[a])]
        return a if a.op in copy.stage_map else te.Tensor(stage.op, a.value_index)

    return [move(a) for a in args]


def loops(s):
    """All that a schedule says of its stages, by names."""
    return [_stage(x) for x in (*s.stages, *s.groups)]


def _stage(x):
    attrs = [_attr(x, a) for a in x.all_iter_vars]
    return (
        x.op.name, x.scope, x.attach_type, x.is_output, x.double_buffered, x.nontemporal,
        x.attach_stage.op.name if x.attach_stage is not None else None,
        x.attach_ivar.name if x.attach_ivar is not None else None,
        [a.name for a in x.leaf_iter_vars], [a.name for a in x.all_iter_vars],
        [type(r).__name__ for r in x.relations], attrs,
        [(t.thread_tag, t.name) for t in x.launch_threads], x.store_predicate is None,
        x.rolls, list(map(str, x.layout_transforms)), x.axis_separators,
        None if x.group is None else x.group.op.name, x.num_child_stages,
    )  # fmt: skip


def _attr(stage, axis):
    a = stage.iter_var_attrs.get(axis)
    if a is None:
        return None
    t = a.bind_thread
    thread = None if t is None else (t.thread_tag, t.name)
    return (
        a.iter_type, thread, a.pragma_keys, a.dim_align_factor, a.dim_align_offset, a.grain,
        [t.name for t in a.prefetch_data], a.prefetch_offset, a.prefetch_spread,
    )  # fmt: skip


def exactly(s):
    """The very objects that a schedule consists of."""
    return [
        (
            id(x), id(x.op), x.scope, x.attach_type, id(x.attach_stage), id(x.attach_ivar),
            [id(a) for a in x.leaf_iter_vars], [id(a) for a in x.all_iter_vars],
            [id(r) for r in x.relations], {id(a): v for a, v in x.iter_var_attrs.items()},
            list(map(id, x.launch_threads)), id(x.store_predicate), x.double_buffered,
            x.nontemporal, x.rolls, list(map(id, x.layout)), x.axis_separators, id(x.group),
        )
        for x in (*s.stages, *s.groups)
    ], {id(op): id(x) for op, x in s.stage_map.items()}, len(s.trace)  # fmt: skip


def refused(s, action, *words):
    """The message of the error that an action must raise, which leaves the schedule as it was."""
    before = exactly(s)
    with pytest.raises(ScheduleError) as caught:
        action()
    assert exactly(s) == before
    assert isinstance(caught.value, WhetError)
    text = str(caught.value)
    for word in words:
        assert word in text, text
    return text
