"""Rows of loop features: shared structures give the rows of configs looked at one by one."""

from __future__ import annotations

import features_spaces as spaces
import numpy as np
import pytest

import whet
from whet import te, topi
from whet.autotune.features import NAMES, LoopFeatures
from whet.autotune.features.batch import Batch
from whet.autotune.features.columns import columns
from whet.autotune.features.loops.structures import Structures
from whet.autotune.features.loops.trace import run, shape_of
from whet.measure import ReplayPool


def drawn(task, n, rng):
    space = task.config_space
    return np.array([space.encode(space.sample(rng)) for _ in range(n)], np.int64)


def alone(task, point):
    """The row of one config, computed with plain ints."""
    config = task.config_space.decode(point)
    ranges = {name: [(v, v) for v in shape_of(choice)[1]] for name, choice in config.choices}
    found = run(task, config, ranges)
    if found.program is None:
        return np.full(len(NAMES), np.nan, np.float32)
    structures = Structures()
    ints = [v for _, choice in config.choices for v in shape_of(choice)[1]]
    structures.add("key", ints, found)
    program, values = structures.find("key", ints)
    return columns(Batch([(program, np.array([values], np.int64))]), task.target)[0]


@pytest.mark.parametrize("name", spaces.tasks())
def test_rows_of_many_are_those_of_each_alone(name):
    task = spaces.task(name)
    rng = np.random.default_rng()
    points = drawn(task, 60, rng)
    features = LoopFeatures(task)
    features.of_points(points[:40])
    rows = features.of_points(points)
    assert rows.dtype == np.float32 and rows.shape == (60, len(NAMES))
    assert not np.isinf(rows).any()
    for point, row in zip(points[::4], rows[::4]):
        np.testing.assert_allclose(row, alone(task, point), rtol=1e-4, atol=1e-3)


def test_few_structures_stand_for_many_configs():
    task = spaces.task("recorded_matmul")
    features = LoopFeatures(task)
    rows = features.of_points(drawn(task, 400, np.random.default_rng(0)))
    assert features.structures.made < 150
    assert len(np.unique(rows, axis=0)) > 250


def test_names_are_unique_and_no_column_is_always_the_same():
    assert len(set(NAMES)) == len(NAMES)
    rng = np.random.default_rng(1)
    rows = [
        LoopFeatures(spaces.task(n)).of_points(drawn(spaces.task(n), 25, rng))
        for n in spaces.tasks()
    ]
    table = np.concatenate(rows)
    table = table[~np.isnan(table[:, 0])]
    still = {n for n, c in zip(NAMES, table.T) if (c == c[0]).all()}
    assert still <= {"grid", "block", "virtual", "unroll.pragma", "loads.gather",
                     "a3.stores", "a3.stride.inner", "a3.stride.vector"}  # fmt: skip


@whet.template("test/features_odd")
def odd(n: int) -> tuple:
    """Uses its sizes in every way, and refuses some."""
    cfg = whet.get_config()
    cfg.define_knob("a", [1, 2, 3, 4, 5])
    cfg.define_knob("b", [1, 2, 4, 8])
    cfg.define_knob("where", [("x", 1), ("x", 2), ("y", 4)])
    a, b = cfg["a"].val, cfg["b"].val
    word, c = cfg["where"].val
    if a == 3:
        raise ValueError("three")
    factor = {1: 2, 2: 4, 4: 8, 8: 3}[b] * sum(1 for _ in range(a)) + len("z" * c)
    factor += int(np.log2(b)) + round(b / 2) + (a & 1) + divmod(b, a)[1]
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * (2.0 if word == "x" else 3.0) + float(c), name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=max(factor, a, min(b, 7)))
    return s, [A, B]


def test_sizes_that_a_template_looks_at_are_seen():
    task = whet.create_task("test/features_odd", args=(100,))
    points = np.array(list(np.ndindex(5, 4, 3)), np.int64)
    np.random.default_rng().shuffle(points)
    rows = LoopFeatures(task).of_points(points)
    for point, row in zip(points, rows):
        np.testing.assert_allclose(row, alone(task, point), rtol=1e-4, atol=1e-3)
    raised = np.isnan(rows[:, 0])
    assert (raised == (points[:, 0] == 2)).all()


@whet.template("test/features_type")
def by_type(n: int) -> tuple:
    """Takes nothing but true ints."""
    cfg = whet.get_config()
    cfg.define_knob("a", [2, 3, 4])
    a = cfg["a"].val
    if type(a) is not int:
        raise TypeError("an int, please")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=a)
    return s, [A, B]


def test_a_template_that_takes_no_traced_sizes_is_run_with_plain_ones():
    task = whet.create_task("test/features_type", args=(24,))
    rows = LoopFeatures(task).of_points(np.array([[0], [1], [2], [1]]))
    assert not np.isnan(rows).any()
    extent = rows[:, NAMES.index("s0.inner0.extent")]
    np.testing.assert_allclose(2**extent - 1, [2, 3, 4, 3], rtol=1e-5)


_KEPT: dict = {}


@whet.template("test/features_keeps")
def keeps(n: int) -> tuple:
    """Keeps what it computes from its sizes, and asks for it the second time."""
    cfg = whet.get_config()
    cfg.define_knob("a", [2, 3, 4, 6])
    cfg.define_knob("b", [1, 2, 5])
    a, b = cfg["a"].val, cfg["b"].val
    if a > 3:
        a = _KEPT.setdefault(int(b), a * b)
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=int(a + 1))
    return s, [A, B]


def test_a_template_that_keeps_traced_sizes_is_run_with_plain_ones():
    task = whet.create_task("test/features_keeps", args=(600,))
    points = np.array(list(np.ndindex(4, 3)), np.int64)
    _KEPT.clear()
    rows = LoopFeatures(task).of_points(points)
    assert not np.isnan(rows).any()
    extent = 2 ** rows[:, NAMES.index("s0.inner0.extent")] - 1
    first = {b: 4 * b for b in (1, 2, 5)}
    wanted = [(a if a <= 3 else first[b]) + 1 for a in (2, 3, 4, 6) for b in (1, 2, 5)]
    np.testing.assert_allclose(extent, wanted, rtol=1e-4)


def test_sizes_alone_make_few_structures_of_a_derived_space():
    task = whet.create_task(
        outputs=[spaces.product(256, 256, 256, "int32")], target="llvm -num_threads=1"
    )
    space, rng = task.config_space, np.random.default_rng(3)
    places = [list(space.knobs).index(name) for name in ("tile", "blocks_i", "blocks_j")]
    points = np.repeat([space.encode(space.default)], 600, axis=0)
    for place in places:
        points[:, place] = rng.integers(space.dims[place], size=len(points))
    points = np.unique(points[space.valid(points)], axis=0)
    features = LoopFeatures(task)
    rows = features.of_points(points)
    assert np.isfinite(rows).all()  # integers are neither multiplied nor added as floats
    assert features.structures.made < 0.15 * len(points) and len(points) > 100
    again = LoopFeatures(task)  # the order in which configs are met does not matter
    np.testing.assert_allclose(again.of_points(points[::-1])[::-1], rows, rtol=1e-4, atol=1e-3)


def test_no_points_give_no_rows_and_one_point_one():
    task = spaces.task("readme")
    features = LoopFeatures(task)
    assert features.of_points(np.zeros((0, 3), np.int64)).shape == (0, len(NAMES))
    assert features.of_points(np.zeros((1, 3), np.int64)).shape == (1, len(NAMES))


def test_a_program_of_an_extern_call_has_no_row(tmp_path):
    data = te.placeholder((64, 32), name="data")
    out = topi.cumsum(data, axis=1)
    task = whet.create_task(outputs=[out], args=[data, out], target="llvm")
    features = LoopFeatures(task)
    default = np.array([task.config_space.encode(task.config_space.default)], dtype=np.int64)
    assert np.isnan(features.of_points(np.concatenate([default, default]))).all()
    found = whet.tune(
        task, 1, tmp_path / "a.db", "xgb", ReplayPool(lambda inp: 1e-3), progress=False
    )
    assert found.best.is_default


def test_structures_are_forgotten_when_there_are_too_many():
    task = spaces.task("recorded_softmax")
    rng = np.random.default_rng(2)
    points = drawn(task, 60, rng)
    features = LoopFeatures(task)
    wanted = features.of_points(points)
    small = LoopFeatures(task)
    small.structures = Structures(kept=5)
    rows = np.concatenate([small.of_points(points[i : i + 10]) for i in range(0, 60, 10)])
    np.testing.assert_array_equal(rows, wanted)
    assert len(small.structures) <= 5
    assert _segments(small.structures) < 200


def _segments(structures):
    stack, count = [structures._root], 0
    while stack:
        segment = stack.pop()
        count += 1
        stack.extend(segment.answers.values())
    return count


def test_the_estimate_prefers_a_good_tile():
    task = whet.create_task("recorded/matmul", args=(256, 256, 256)) if spaces.recorded() else None
    space = task.config_space
    good = {"tile_i": (1, 4), "tile_j": (1, 16), "order": "ij", "k": "outside",
            "pack": False, "unroll": True, "vectorize": True}  # fmt: skip
    worse = [good | {"vectorize": False}, good | {"tile_i": (1, 1), "tile_j": (1, 1)}]
    points = [space.encode(space.from_choices(c)) for c in (good, *worse)]
    rows = LoopFeatures(task).of_points(np.array(points))
    estimate = rows[:, NAMES.index("estimate")]
    assert estimate[0] < estimate[1:].min()
