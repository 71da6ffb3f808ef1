"""What templates of AutoTVM's do with their config: entities of their own, knobs named twice."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import autotvm, te

SEEN: list[tuple] = []


@autotvm.template("tests/given")
def scaled(n, how):
    A = te.placeholder((n, 6), name="A")
    B = te.compute((n, 6), lambda i, j: A[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    y, x = B.op.axis
    cfg = autotvm.get_config()
    if cfg.is_fallback and how == "before":
        cfg["tile"] = autotvm.SplitEntity([-1, 7])
    for _ in range(2):  # a second time changes nothing
        cfg.define_split("tile", y, num_outputs=2)
        cfg.define_reorder("order", [y, x], "all")
        cfg.define_annotate("ann", [x], "try_unroll")
        cfg.define_knob("step", [1, 2])
    if cfg.is_fallback and how == "after":
        cfg["tile"] = autotvm.SplitEntity([-1, 7])
        cfg["order"] = autotvm.ReorderEntity([1, 0])
        cfg["ann"] = autotvm.AnnotateEntity(["unroll"])
        cfg["step"] = autotvm.OtherOptionEntity(5)
    if how == "always":
        cfg["step"] = autotvm.OtherOptionEntity(5)
    SEEN.append((cfg["tile"].size, cfg["order"].perm, cfg["ann"].anns, cfg["step"].val))
    _, yi = cfg["tile"].apply(s, B, y)
    cfg["order"].apply(s, B, [yi, x])
    cfg["ann"].apply(s, B, [x])
    return s, [A, B]


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_template_without_a_record_chooses_for_itself(how):
    n = 3 * np.random.default_rng().integers(5, 12)  # rarely a multiple of 7
    with whet.Target("llvm -num_threads=2"):
        SEEN.clear()
        s, args = scaled(int(n), how)
        f = whet.build(s, args)
    rest = ((1, 0), ("unroll",), 5) if how == "after" else SEEN[-1][1:]
    assert SEEN[-1] == ((-(-n // 7), 7), *rest)
    a = np.random.default_rng().normal(size=(n, 6)).astype("float32")
    out = np.full_like(a, np.nan)
    f(a, out)
    np.testing.assert_array_equal(out, a * 2)
    # A config that was chosen is what it is.
    task = whet.create_task("tests/given", (int(n), how), "llvm -num_threads=2")
    config = task.config_space.get(0)
    task.instantiate(config)
    assert SEEN[-1][0] == config["tile"].size and SEEN[-1][3] == 1
    assert list(task.config_space.space_map) == ["tile", "order", "ann", "step"]


def test_entities_that_are_refused():
    with pytest.raises(whet.SpaceError, match=r"write `if cfg.is_fallback:` before it"):
        whet.create_task("tests/given", (12, "always"), "llvm")
    cfg = autotvm.get_config()
    cfg.define_split("tile", 12, num_outputs=2)
    with pytest.raises(whet.SpaceError, match="the knob is a split"):
        cfg["tile"] = autotvm.OtherOptionEntity(3)
    with pytest.raises(whet.SpaceError, match="the knob has 2 parts, not 3"):
        cfg["tile"] = autotvm.SplitEntity([-1, 2, 3])
    with pytest.raises(whet.SpaceError, match="no entity"):
        cfg["tile"] = [3, 4]
    cfg["tile"] = autotvm.SplitEntity([-1, 5])
    assert cfg["tile"] == autotvm.SplitEntity((3, 5))
    with pytest.raises(whet.SpaceError, match="this name already, and it is another one"):
        cfg.define_split("tile", 24, num_outputs=2)
    cfg.define_split("tile", 12, num_outputs=2)
    assert len(cfg.knobs) == 1


def test_numbers_of_configs_and_knobs_as_spaces():
    space = whet.create_task("tests/given", (12, ""), "llvm").config_space
    assert [c.index for c in space] == [space.index(c) for c in space] == list(range(len(space)))
    data = space.get(5).to_json_dict()
    assert data["index"] == 5
    again = space.nearest(autotvm.ConfigEntity.from_json_dict(data))
    assert again == space.get(5) and again.index == 5
    assert autotvm.ConfigEntity((("a", 1),)).index is None
    tile = space.space_map["tile"]
    assert [e.size for e in tile.entities] == list(tile) and tile[1] == tile.entities[1]
