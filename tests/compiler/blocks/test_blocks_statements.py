"""Functions of blocks of scans, hybrid scripts and extern statements."""

from __future__ import annotations

import numpy as np
import pytest
from block_programs import check

import whet
from whet import te, tir


@te.hybrid.script
def more(a):
    o = output_tensor((7,), "float32")  # noqa: F821
    for i in range(7):
        o[i] = a[i] + 1.0
    return o


def test_a_hybrid_script_is_a_block_with_its_loops():
    a = te.placeholder((7,), name="A")
    made = more(a)
    out = te.compute((7,), lambda i: made[i] * 2.0, name="V")
    sch = tir.Schedule(te.create_prim_func([a, out]))
    block = sch.get_block("more")
    sch.split(sch.get_loops(block)[0], [None, 3])
    assert "for i_0, i_1 in T.grid(3, 3):" in sch.mod.script()
    x = np.random.default_rng().standard_normal(7).astype("float32")
    check(sch.mod["main"], [x], (x + 1.0) * 2.0)
    with pytest.raises(whet.ScheduleError, match=r"made by te\.hybrid"):
        sch.transform_layout(block, ("write", 0), lambda i: [i])
    with pytest.raises(whet.ScheduleError, match="computed as a whole"):
        sch.rolling_buffer(block, 0)


def test_a_scan_is_refused_by_name():
    x, state = te.placeholder((5, 4), name="X"), te.placeholder((5, 4), name="state")
    first = te.compute((1, 4), lambda _, i: x[0, i], name="first")
    step = te.compute((5, 4), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    scan = te.scan(first, step, state, inputs=[x], name="S")
    with pytest.raises(whet.WhetError, match=r"S is a te\.scan, whose steps are no block"):
        te.create_prim_func([x, scan])
