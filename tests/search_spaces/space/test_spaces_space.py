"""ConfigSpace and Config: counting, indexing, JSON, checks, moves and features."""

import json
import pickle

import numpy as np
import pytest

from whet.compiler.errors import SpaceError
from whet.search_spaces import Config, ConfigSpace, Workload


def small():
    space = ConfigSpace("demo")
    yo, yi = space.define_split("y", 64, num_outputs=2)
    space.define_reorder("order", [yo, yi], "all")
    space.define_annotate("ann", [yo, yi], "try_unroll_vec")
    space.define_knob("unroll", [False, True])
    space.define_knob("pad", [8, 0, 16])
    return space


def test_counts_and_enumerates_in_order():
    space = small()
    assert space.cardinalities == (7, 2, 6, 2, 3)
    assert len(space) == space.size == 7 * 2 * 6 * 2 * 3
    configs = list(space)
    assert len(set(configs)) == space.size
    assert [space.index(config) for config in configs] == list(range(space.size))
    assert configs[0]["pad"].val == 8
    assert configs[1]["pad"].val == 0  # the last knob runs fastest


def test_configs_of_a_space_without_knobs_and_with_a_long_last_knob():
    assert [dict(config.choices) for config in ConfigSpace("demo")] == [{}]
    long = ConfigSpace("demo")
    long.define_knob("a", [1, 2])
    long.define_knob("b", list(range(10_000)))
    assert [c["b"].val for c in long] == [*range(10_000)] * 2


def test_a_huge_space_is_counted_and_indexed_without_enumerating():
    space = ConfigSpace()
    for i in range(40):
        space.define_split(f"t{i}", 1024, num_outputs=3)
    assert space.size == 66**40
    last = space[space.size - 1]
    assert space.index(last) == 66**40 - 1
    with pytest.raises(SpaceError, match=r"space\.size"):
        len(space)
    with pytest.raises(SpaceError, match="the space has"):
        space[space.size]


def test_an_empty_space_has_one_config():
    space = ConfigSpace()
    assert space.size == 1
    assert space.default == space[0] == space.decode(())
    assert space.mutate(space.default, np.random.default_rng(0)) == space.default
    assert space.features([space.default]).shape == (1, 0)


@pytest.mark.parametrize("index", [-1, 504, True, 1.0])
def test_bad_index(index):
    with pytest.raises(SpaceError, match=r"space\["):
        small()[index]


def test_bad_points():
    with pytest.raises(SpaceError, match="5 knobs"):
        small().decode((0, 0))
    with pytest.raises(SpaceError, match="'y' has 7 choices"):
        small().decode((7, 0, 0, 0, 0))


def test_config_json_round_trips_exactly():
    space = small()
    for config in (space.default, space[17], space[503]):
        back = Config.from_json(json.loads(json.dumps(config.to_json())))
        assert back == config
        assert back.key == config.key
        assert back.choices == config.choices
        assert space.index(back) == space.index(config)
        assert back["y"] == config["y"]
        assert pickle.loads(pickle.dumps(config)) == config


def test_config_readable_and_as_dict():
    config = small().default
    assert str(config) == "y=(4,16) order=(0,1) ann=(none,vec) unroll=False pad=8"
    assert config.as_dict()["y"] == (4, 16)
    assert "y" in config
    with pytest.raises(SpaceError, match="no such knob"):
        config["z"]


def test_config_without_a_space_has_choices_but_no_entities():
    config = Config((("y", (4, 16)),))
    assert config.choice("y") == (4, 16)
    with pytest.raises(SpaceError, match="without a space"):
        config["y"]


@pytest.mark.parametrize(
    "data", [{}, {"fingerprint": "", "choices": [["a"]]}, {"fingerprint": 1, "choices": []}, None]
)
def test_config_from_bad_json(data):
    with pytest.raises(SpaceError, match="from_json"):
        Config.from_json(data)


def test_config_equality_tells_types_apart():
    assert Config((("k", 1),)) != Config((("k", True),))
    assert Config((("k", 1),)) != Config((("k", 1.0),))
    assert Config((("a", 1), ("b", 2))) == Config((("b", 2), ("a", 1)))
    assert Config((("k", 1),), "x") != Config((("k", 1),), "y")
    with pytest.raises(SpaceError, match="twice: k"):
        Config((("k", 1), ("k", 2)))


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        ({"pad": 3}, ["'pad' = 3", "legal: 8, 0, 16"]),
        ({"pad": 8.0}, ["'pad' = 8.0"]),
        ({"unroll": 1}, ["'unroll' = 1", "legal: False, True"]),
        ({"y": (3, 16)}, ["split 'y'", "(4, 16)"]),
        ({"z": 1}, ["unknown knobs: z"]),
        ({"pad": None, "y": ...}, ["missing knobs: y"]),
    ],
)
def test_choices_are_validated(change, texts):
    space = small()
    choices = space.default.as_dict() | change
    choices = {name: choice for name, choice in choices.items() if choice is not ...}
    with pytest.raises(SpaceError) as caught:
        space.from_choices(choices)
    for text in texts:
        assert text in str(caught.value)


def test_a_long_list_of_legal_choices_is_shortened():
    space = ConfigSpace()
    space.define_split("t", 1024, num_outputs=4)
    with pytest.raises(SpaceError) as caught:
        space.from_choices({"t": (1, 1, 1, 1)})
    assert "more ..." in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_config_of_another_space_is_refused():
    space, other = small(), ConfigSpace("demo", version=2)
    other.knobs = dict(space.knobs)
    with pytest.raises(SpaceError, match=other.fingerprint):
        other.check(space.default)
    assert space.default not in other
    assert other.from_choices(space.default.as_dict()) in other


def test_fingerprint_follows_name_version_knobs_and_lists():
    def make(template="t", version=1, name="k", values=(1, 2), graph="", default=None):
        space = ConfigSpace(template, version)
        space.define_knob(name, values, default)
        space.seal(graph)
        return space.fingerprint

    base = make()
    assert base == make(default=2)
    others = [
        make(template="u"),
        make(version=2),
        make(name="l"),
        make(values=(1, 2, 3)),
        make(values=(1, 2.0)),
        make(graph="C = A"),
    ]
    assert len({base, *others}) == 7
    assert int(base, 16) >= 0


def test_fingerprint_tells_kinds_apart():
    one, two = ConfigSpace(), ConfigSpace()
    one.define_knob("k", [(0, 1)])
    two.define_reorder("k", ["a", "b"], "identity")
    assert one.fingerprint != two.fingerprint


def test_a_sealed_space_takes_no_more_knobs():
    space = small()
    space.seal()
    with pytest.raises(SpaceError, match="complete"):
        space.define_knob("more", [1])


def test_sample_follows_the_seed_and_reaches_everything():
    space = ConfigSpace()
    space.define_knob("a", [1, 2, 3])
    space.define_knob("b", [1, 2])
    first = [space.sample(np.random.default_rng(5)) for _ in range(2)]
    assert first[0] == first[1]
    rng = np.random.default_rng(0)
    assert {space.sample(rng) for _ in range(200)} == set(space)


def test_mutate_changes_one_or_two_knobs_and_prefers_near_values():
    space = ConfigSpace()
    space.define_split("y", 1024, num_outputs=2)
    space.define_knob("k", ["a", "b", "c"])
    space.define_knob("one", [0])
    rng = np.random.default_rng(0)
    start = space.from_choices({"y": (32, 32), "k": "a", "one": 0})
    changed, inner = [], []
    for _ in range(300):
        other = space.mutate(start, rng)
        names = [n for n in space.knobs if other.choice(n) != start.choice(n)]
        changed.append(len(names))
        if "y" in names:
            inner.append(other["y"].size[1])
    assert set(changed) == {1, 2}
    assert sum(size in (16, 64) for size in inner) > len(inner) / 2
    assert len(set(inner)) > 4


def test_neighbours_differ_in_one_knob_by_one_step():
    space = small()
    start = space.from_choices(
        {"y": (8, 8), "order": (0, 1), "ann": ("none", "vec"), "unroll": False, "pad": 8}
    )
    found = space.neighbours(start)
    assert len(set(found)) == len(found)
    by_knob = {name: set() for name in space.knobs}
    for config in found:
        (name,) = [n for n in space.knobs if config.choice(n) != start.choice(n)]
        by_knob[name].add(config.choice(name))
    assert by_knob["y"] == {(16, 4), (4, 16)}
    assert by_knob["pad"] == {0, 16}
    assert by_knob["order"] == {(1, 0)}
    assert by_knob["ann"] == {("none", "none"), ("none", "unroll"), ("unroll", "vec")}


def test_features_have_a_name_a_column_and_a_row_each():
    space = small()
    configs = [space[i] for i in range(0, space.size, 7)]
    table = space.features(configs)
    assert table.dtype == np.float32
    assert table.shape == (len(configs), len(space.feature_names))
    assert len(set(space.feature_names)) == len(space.feature_names)
    assert np.isfinite(table).all()
    column = space.feature_names.index("y.size1")
    assert table[:, column].tolist() == [np.log2(c["y"].size[1]) for c in configs]
    points = np.array([space.encode(config) for config in configs])
    assert (space.features_of_points(points) == table).all()
    everything = space.features(list(space))
    assert len(np.unique(everything, axis=0)) == space.size
    assert space.features([]).shape == (0, table.shape[1])


def test_features_of_a_split_know_tiles_and_waste():
    space = ConfigSpace()
    space.define_split("t", 1001, "candidate", candidate=[(-1, 4, 16)])
    row = dict(zip(space.feature_names, space.features([space.default])[0], strict=True))
    assert row["t.tile1"] == 6.0
    assert row["t.waste"] == pytest.approx(1024 / 1001 - 1)
    assert row["t.extent"] == pytest.approx(np.log2(1001))


def test_table():
    text = str(small())
    assert "space of demo: 5 knobs, 504 configs" in text
    assert any(line.split() == ["y", "split", "7", "(4,", "16)"] for line in text.splitlines())


def test_add_flop():
    space = ConfigSpace()
    assert space.flop == 0
    space.add_flop(3)
    space.add_flop(2e3)
    assert space.flop == 2003
    for bad in (-1, "x", float("inf")):
        with pytest.raises(SpaceError, match="add_flop"):
            space.add_flop(bad)


def test_workload_key_is_canonical():
    one = Workload("m", (1, [2, (3,)], np.int64(4), "f"))
    assert one == Workload.from_json(json.loads(json.dumps(one.to_json())))
    assert one.args == (1, (2, (3,)), 4, "f")
    assert one.key == '["m",[1,[2,[3]],4,"f"]]'
    assert len({Workload("m", (x,)) for x in (1, True, 1.0, "1")}) == 4
    assert pickle.loads(pickle.dumps(one)) == one
    assert str(one) == "m(1, (2, (3,)), 4, f)"


@pytest.mark.parametrize("arg", [object(), {1: 2}, {1}, b"x", float("inf"), np.zeros(2)])
def test_workload_refuses_what_json_cannot_hold(arg):
    with pytest.raises(SpaceError, match="argument 1"):
        Workload("m", (1, arg))


@pytest.mark.parametrize("data", [{}, {"template": "m", "args": 3}, {"template": "", "args": []}])
def test_workload_from_bad_json(data):
    with pytest.raises(SpaceError):
        Workload.from_json(data)
