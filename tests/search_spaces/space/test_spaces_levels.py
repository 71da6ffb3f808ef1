"""Levels of a space, what its fingerprint follows, and constraints inside templates."""

import functools
import importlib
import sys

import numpy as np
import pytest

from whet.compiler import te
from whet.compiler.errors import SpaceError
from whet.search_spaces import ConfigSpace, get_config, instantiate, resolve, space_of, template

LIMIT = 64


def demo(**options):
    space = ConfigSpace("demo")
    space.define_split("t", 1024, num_outputs=3, **options)
    space.define_knob("unroll", [0, 1, 2, 4, 8, 16, 32, 64, 128], default=16)
    space.define_knob("word", ["a", "b"])
    space.multi_filter(lambda c: c["t"].size[2] * max(c["unroll"].val, 1) <= 128)
    return space


# -- levels


def test_a_quick_space_is_a_part_with_the_same_fingerprint():
    full = demo()
    quick = full.at_level("quick")
    assert (full.level, quick.level) == ("full", "quick")
    assert quick.fingerprint == full.fingerprint
    assert list(quick.knobs) == list(full.knobs)
    assert quick.dims == (6, 6, 2)
    assert quick.default == full.default
    assert 1 < quick.size < full.size
    for config in quick:
        assert config in full
        assert config["t"].size[2] * max(config["unroll"].val, 1) <= 128
    assert any(config not in quick for config in full)
    assert str(quick).startswith("quick space of demo")
    assert "quick" in repr(quick)


def test_a_quick_space_sees_the_features_and_distances_of_the_full_one():
    full = demo()
    quick = full.at_level("quick")
    configs = list(quick)
    assert quick.feature_names == full.feature_names
    assert (quick.features(configs) == full.features(configs)).all()
    first, last = configs[0], configs[-1]
    assert quick.distance(first, last) == full.distance(first, last) > 0


def test_the_rule_keeps_the_default_and_its_nearest():
    knob = demo().knobs["unroll"]
    kept = [knob.choices[i] for i in knob.kept_when_quick(knob.default)]
    assert len(kept) == 6
    assert {4, 8, 16, 32, 64} <= set(kept)


def test_quick_names_the_choices():
    space = ConfigSpace()
    space.define_split("t", 1024, num_outputs=2, quick=[(-1, 8), (-1, 32)])
    space.define_reorder("o", "abc", "all", quick=[(2, 1, 0)])
    space.define_annotate("a", "ab", "try_unroll_vec", quick=[("unroll", "vec")])
    space.define_knob("k", [1, 2, 3, 4], default=3, quick=[1])
    quick = space.at_level("quick")
    assert [size[1] for size in quick.knobs["t"]] == [8, 16, 32]  # and the default
    assert list(quick.knobs["o"]) == [(0, 1, 2), (2, 1, 0)]
    assert list(quick.knobs["a"]) == [("none", "vec"), ("unroll", "vec")]
    assert list(quick.knobs["k"]) == [1, 3]
    assert quick.default == space.default
    with pytest.raises(SpaceError, match="quick=9 is not a legal choice"):
        ConfigSpace().define_knob("k", [1, 2], quick=[9])
    with pytest.raises(SpaceError, match="not a list of choices"):
        ConfigSpace().define_knob("k", [1, 2], quick=1)


def test_levels_that_there_are_not():
    with pytest.raises(SpaceError, match="unknown level"):
        demo().at_level("slow")
    with pytest.raises(SpaceError, match="does not know what it left out"):
        demo().at_level("quick").at_level("full")


# -- fingerprints


def fingerprint(*filters, by_source=True):
    space = ConfigSpace("t")
    space.define_knob("a", [1, 2, 3])
    space.define_knob("b", [1, 2, 3])
    for one in filters:
        space.multi_filter(one)
    space.seal("", by_source)
    return space.fingerprint


def limited(limit):
    return lambda c: c["a"].val * c["b"].val <= limit


@pytest.mark.parametrize("by_source", [True, False])
def test_the_fingerprint_follows_the_constraints(by_source):
    def of(*filters):
        return fingerprint(*filters, by_source=by_source)

    def called(c):
        return c["a"].val <= LIMIT

    # fmt: off
    one, other = (lambda c: c["a"].val <= 2), (lambda c: c["a"].val < 2)
    # fmt: on
    prints = [
        of(),
        of(one),
        of(other),
        of(one, other),
        of(limited(3)),
        of(limited(4)),
        of(lambda c, limits=(1, 2): c["a"].val in limits),
        of(lambda c, limits=(1, 3): c["a"].val in limits),
        of(called),
    ]
    assert len(set(prints)) == len(prints)
    assert of(one) == prints[1]
    assert of(limited(3)) == prints[4]


@pytest.mark.parametrize("by_source", [True, False])
def test_the_fingerprint_follows_plain_globals_and_called_functions(monkeypatch, by_source):
    def inner(c):
        return c["a"].val <= LIMIT

    def outer(c):
        return inner(c)

    before = fingerprint(outer, by_source=by_source)
    assert before == fingerprint(outer, by_source=by_source)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 65)
    assert before != fingerprint(outer, by_source=by_source)


class Limit:
    """A constraint that is an object: its state is a part of it."""

    def __init__(self, limit, function=None):
        self.limit, self.function = limit, function

    def __call__(self, c):
        return c["a"].val <= self.limit

    def holds(self, c):
        return self(c)


class Inherited(Limit):
    pass


@pytest.mark.parametrize("by_source", [True, False])
def test_the_fingerprint_follows_objects_and_partials(by_source):
    def at_most(limit, c):
        return c["a"].val <= limit

    constraints = [
        Limit(1),
        Limit(2),
        Limit(2, limited(1)),
        Limit(2, limited(2)),
        functools.partial(at_most, 1),
        functools.partial(at_most, 2),
        Limit(1).holds,
        Limit(2).holds,
        functools.cache(limited(1)),
        functools.cache(limited(2)),
        limited(range(1)),
        limited(range(2)),
        limited(np.int64(1)),
        limited(np.int64(2)),
        limited(np.array([1, 2])),
        limited(np.array([1, 3])),
    ]
    prints = [fingerprint(one, by_source=by_source) for one in constraints]
    assert len(set(prints)) == len(prints)
    assert fingerprint(Limit(1), by_source=by_source) == prints[0]
    assert fingerprint(Inherited(1), by_source=by_source) == prints[0]


def test_layout_of_the_source_is_no_matter(tmp_path, monkeypatch):
    prints = []
    for number, text in enumerate(["lambda c: c['a'].val<=2", "lambda c: (\n    c['a'].val <= 2)"]):
        (tmp_path / f"filters{number}.py").write_text(f"one = [\n    ({text}),\n]\n")
        monkeypatch.syspath_prepend(tmp_path)
        module = importlib.import_module(f"filters{number}")
        prints.append(fingerprint(module.one[0]))
    assert prints[0] == prints[1]


def test_a_space_without_constraints_keeps_its_fingerprint():
    space = ConfigSpace("t", 2)
    space.define_knob("k", [1, 2])
    space.seal("C = A")
    assert space.fingerprint == "64a9a99675cfc072ee71634718648e12"


# -- in templates


@template("tests/constrained")
def constrained(n, limit):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cfg = get_config()
    cfg.define_split("x", n, num_outputs=2)
    cfg.define_knob("lanes", [1, 2, 4, 8])
    cfg.multi_filter(lambda c: c["x"].size[1] * c["lanes"].val <= limit)
    assert cfg.level == "full"
    if cfg["x"].size[1] * cfg["lanes"].val > limit:
        raise ValueError("too large")
    cfg["x"].apply(s, B, B.op.axis[0])
    return s, [A, B]


def test_a_template_runs_only_under_valid_configs():
    work = constrained.workload(64, 8)
    space = space_of(work)  # the default of "x" alone, 16, is too large
    assert space.default["x"].size == (8, 8)
    assert (space.size, space.range_length) == (10, 28)
    for config in space:
        instantiate(work, config)
    instantiate(work, None)
    bad = next(c for c in map(space.at, range(28)) if c not in space)
    with pytest.raises(SpaceError, match="a constraint does not admit it"):
        instantiate(work, bad)
    quick = constrained.space(work, "quick")
    assert quick is constrained.space(work, "quick")
    assert quick.level == "quick"
    assert (
        quick.fingerprint == space.fingerprint != space_of(constrained.workload(64, 9)).fingerprint
    )


def test_a_template_with_no_valid_config():
    with pytest.raises(SpaceError, match="the constraints leave none"):
        space_of(constrained.workload(64, 0))


def test_a_template_by_value_has_the_same_fingerprint():
    def local(n):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
        cfg = get_config()
        cfg.define_knob("a", [1, 2])
        cfg.define_knob("b", [1, 2])
        cfg.multi_filter(lambda c: c["a"].val <= c["b"].val)
        return te.create_schedule(B.op), [A, B]

    made = template("tests/by_value_constrained")(local)
    ref = made.ref()
    assert ref.pickled
    script = (
        "import pickle, sys\n"
        "from whet.search_spaces import resolve\n"
        "t = resolve(pickle.loads(sys.stdin.buffer.read()))\n"
        "print(t.space(t.workload(8)).fingerprint)\n"
    )
    import pickle
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(ref), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == made.space(made.workload(8)).fingerprint
    assert resolve(ref).space(made.workload(8)).size == 3


def test_a_template_must_set_the_same_constraints():
    @template("tests/constraints_differ")
    def differ(n):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
        cfg = get_config()
        cfg.define_knob("a", [1, 2])
        if cfg["a"].val == 1:
            cfg.multi_filter(lambda c: c["a"].val > 0)
        return te.create_schedule(B.op), [A, B]

    work = differ.workload(8)
    with pytest.raises(SpaceError, match="it set 0 constraints, not 1, this time"):
        instantiate(work, space_of(work).at(1))


def test_a_constraint_that_raises_ends_the_collecting():
    @template("tests/constraint_raises")
    def raises(n):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
        cfg = get_config()
        cfg.define_knob("a", [0, 2])
        cfg.multi_filter(lambda c: 1 // c["a"].val)
        return te.create_schedule(B.op), [A, B]

    with pytest.raises(SpaceError, match=r"it raised ZeroDivisionError.* for a=0"):
        space_of(raises.workload(8))


# -- configs of other spaces


def test_nearest_fits_choices_of_another_shape():
    def space(extent, limit):
        made = ConfigSpace("m")
        made.define_split("x", extent, num_outputs=2)
        made.define_split("y", extent, num_outputs=2)
        made.define_knob("tile", [(r, c) for r in (1, 2, 4, 6) for c in (8, 16)])
        made.define_knob("word", ["a", "b"])
        made.define_knob("flag", [False, True])
        made.multi_filter(lambda c: c["x"].size[1] * c["y"].size[1] <= limit)
        return made

    ours, theirs = space(96, 64), space(1024, 1 << 20)
    choices = {"x": (32, 32), "y": (512, 2), "tile": (6, 16), "word": "b", "flag": True}
    best = theirs.from_choices(choices)
    found = ours.nearest(best)
    assert found.as_dict() == {
        "x": (3, 32), "y": (48, 2), "tile": (6, 16), "word": "b", "flag": True
    }  # fmt: skip
    repaired = ours.nearest(best.as_dict() | {"y": (64, 16), "tile": (5, 16), "other": 3})
    assert repaired in ours
    assert repaired["tile"].val in {(4, 16), (6, 16)}
    assert ours.nearest({"word": "c", "flag": 1, "tile": "x"}) == ours.default
    assert ours.nearest({}) == ours.default
    assert ours.nearest(ours.default) == ours.default


def test_distances_are_those_of_coordinates():
    space = demo()
    points = space.sample_points(np.random.default_rng(0), 20)
    table = space.coordinates(points)
    assert table.dtype == np.float32
    assert table.shape == (20, 3 + 1 + 2)
    expected = np.abs(table - table[0]).sum(axis=1)
    assert space.distances(points[0], points) == pytest.approx(expected)
    assert space.distance(space.decode(points[0]), points[7]) == pytest.approx(expected[7])
    assert space.distance(points[3], points[3]) == 0
