"""AutoTVM's surface of a space: indices, fallback configs, annotations on schedules, records."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.compiler import te
from whet.compiler.errors import SpaceError
from whet.search_spaces import (
    AnnotateEntity,
    Config,
    ConfigSpace,
    get_config,
    instantiate,
    space_of,
    template,
    using_config,
)


def small():
    space = ConfigSpace("t")
    space.define_knob("a", [1, 2, 3, 4])
    space.define_knob("b", [1, 2, 3])
    space.define_knob("c", [1, 2])
    space.multi_filter(lambda c: c["a"].val >= c["b"].val)
    return space


# -- indices


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
@settings(max_examples=100)
def test_indices_round_trip(dims, data):
    space = ConfigSpace()
    for i, n in enumerate(dims):
        space.define_knob(f"k{i}", list(range(n)))
    index = data.draw(st.integers(0, space.range_length - 1))
    assert space.dims == tuple(dims)
    assert space.knob2point(space.point2knob(index)) == index == space.index(space.at(index))


def test_indices_count_valid_configs():
    space = small()
    legal = [i for i in range(24) if space.is_index_valid(i)]
    assert (space.range_length, len(space), len(legal)) == (24, 18, 18)
    assert [space.index(space.get(i)) for i in legal] == legal
    assert space.subrange_length(0, 24) == 18
    assert space.subrange_length(3, 11) == sum(3 <= i < 11 for i in legal)
    assert space.get_next_index(-1) == legal[0]
    assert space.get_next_index(legal[2]) == legal[3]
    assert space.get_next_index(legal[2], 5) == legal[7]
    assert space.get_next_index(legal[7], -5) == legal[2]
    assert space.get_next_index(legal[0], -1) is None
    assert space.get_next_index(legal[-1]) is None
    assert space.get_next_index(0, 1, 0, 1) is None


def test_indices_without_constraints():
    space = ConfigSpace()
    space.define_knob("k", list(range(10)))
    assert space.get_next_index(3, 4) == 7
    assert space.get_next_index(3, 7) is None
    assert space.subrange_length(2, 5) == 3


def test_random_indices_follow_the_seed_and_are_valid():
    space = small()
    legal = {i for i in range(24) if space.is_index_valid(i)}
    assert {space.get_rand_index(seed=s) for s in range(200)} == legal
    assert space.get_rand_index(seed=5) == space.get_rand_index(seed=np.random.default_rng(5))
    assert {space.get_rand_index(4, 9, seed=s) for s in range(60)} == legal & set(range(4, 9))
    last = max(legal)
    assert space.get_rand_index(to_exclude=legal - {last}) == last
    with pytest.raises(SpaceError, match="no valid index was found"):
        space.get_rand_index(to_exclude=legal)
    drawn = space.sample_ints(18, seed=1)
    assert set(drawn.tolist()) == legal
    assert (space.sample_ints(5, seed=1) == space.sample_ints(5, seed=1)).all()
    assert len(set(space.sample_ints(5, seed=2).tolist())) == 5
    with pytest.raises(SpaceError, match="18 different valid configs"):
        space.sample_ints(19)
    walk = [space.random_walk(7, seed=s) for s in range(50)]
    assert 7 not in walk
    assert set(walk) <= legal
    assert space.random_walk(7, seed=3) == space.random_walk(7, seed=3)


def test_indices_of_a_range_beyond_64_bits():
    space = ConfigSpace()
    for i in range(20):
        space.define_knob(f"k{i}", list(range(20)))
    space.multi_filter(lambda c: c["k0"].val != c["k1"].val)
    drawn = space.sample_ints(10)
    assert len(set(drawn.tolist())) == 10
    assert all(space.is_index_valid(i) for i in drawn.tolist())
    assert max(drawn.tolist()) > 1 << 63
    assert space.is_index_valid(space.get_rand_index(1, space.range_length, seed=3))
    assert space.is_index_valid(space.get_next_index(0))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda s: s.get_next_index(0, 0), "n must not be 0"),
        (lambda s: s.subrange_length(3, 99), "the range has 24"),
        (lambda s: s.get_rand_index(5, 2), "the range has 24"),
        (lambda s: s.point2knob(24), "the space has 24"),
        (lambda s: s.knob2point((0, 0)), "have .* choices"),
        (lambda s: s.knob2point((0, 3, 0)), "have .* choices"),
        (lambda s: s.get(2), "does not admit this config"),
    ],
)
def test_index_errors(call, text):
    with pytest.raises(SpaceError, match=text):
        call(small())


# -- reorder and annotate


def test_interleave_cuda_keeps_reductions_between():
    axes = ["a0", "a1", "b0", "b1", "r0", "r1"]
    space = ConfigSpace()
    space.define_reorder(
        "o", axes, "interleave_cuda", spatial=[["a0", "a1"], ["b0", "b1"]], reduce=[["r0", "r1"]]
    )
    found = {tuple(axes[i] for i in perm) for perm in space.knobs["o"]}
    assert len(found) == 2 * 1 * 6
    for order in found:
        assert set(order[:2]) == {"a0", "b0"}
        assert order[2] == "r0"
    assert tuple(axes[i] for i in space["o"].perm) == ("a0", "b0", "r0", "r1", "a1", "b1")
    with pytest.raises(SpaceError, match="spatial= go together"):
        ConfigSpace().define_reorder("o", axes, "interleave_cuda")


def entities(policy, num_axes, **options):
    space = ConfigSpace()
    space.define_annotate("a", list(range(num_axes)), policy, **options)
    return [knob.anns for knob in map(space.knobs["a"].entity, range(len(space.knobs["a"])))]


def test_bind_policies():
    assert entities("bind_gpu", 2) == [("blockIdx.x", "threadIdx.x")]
    assert entities("bind_gpu", 5) == [
        ("fuse", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    ]
    assert len(entities("bind_gpu", 7)[0]) == 7
    assert entities("bind_gpu_virtual", 4) == [("fuse", "blockIdx.x", "vthread", "threadIdx.x")]
    (nine,) = entities("bind_gpu_virtual", 9)
    assert nine[3:6] == ("vthread",) * 3
    assert nine[0] == "blockIdx.z"
    with pytest.raises(SpaceError, match="1 axes are too few"):
        entities("bind_gpu", 1)
    with pytest.raises(SpaceError, match="2 axes are too few"):
        entities("bind_gpu_virtual", 2)


def test_words_of_policies_in_any_order():
    assert entities("none", 2) == [("none", "none")]
    assert set(entities("try_vec_unroll", 2)) == set(entities("try_unroll_vec", 2))
    assert set(entities("vec_unroll_none", 1)) == {("none",), ("unroll",), ("vec",)}
    for policy in ("try_spin", "unroll_unroll", "try_none"):
        with pytest.raises(SpaceError, match="unknown policy"):
            entities(policy, 2)


def test_locate_cache_lists_combinations():
    assert entities("locate_cache", 3, num_anchor=2) == [(0, 1), (0, 2), (1, 2)]
    space = ConfigSpace()
    space.define_annotate("at", range(4), "locate_cache", num_anchor=1)
    assert space["at"].anns == (3,)
    assert space.knobs["at"].near(0) == [1]
    assert space.features([space.default]).tolist() == [[3.0]]
    for wrong in (0, 4, None):
        with pytest.raises(SpaceError, match="num_anchor="):
            entities("locate_cache", 3, num_anchor=wrong)
    with pytest.raises(SpaceError, match="num_anchor= go together"):
        entities("unroll", 3, num_anchor=1)


def copied(n=64):
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] * 2.0, name="B")
    return A, B, te.create_schedule(B.op)


def test_bound_axes_on_a_schedule():
    _, B, s = copied()
    i, j = s[B].op.axis
    jo, ji = s[B].split(j, factor=16)
    left = AnnotateEntity(("fuse", "blockIdx.x", "threadIdx.x")).apply(s, B, [i, jo, ji])
    assert len(left) == 2
    assert [axis.name for axis in s[B].leaf_iter_vars] == ["i.j.outer.fused", "j.inner"]
    steps = "\n".join(map(str, s.trace.steps))
    assert "fuse" in steps
    assert "blockIdx.x" in steps
    assert "threadIdx.x" in steps


def test_virtual_threads_on_a_schedule():
    _, B, s = copied()
    i, j = s[B].op.axis
    io, ii = s[B].split(i, factor=4)
    AnnotateEntity(("blockIdx.x", "vthread", "threadIdx.x")).apply(s, B, [io, ii, j])
    assert "vthread" in "\n".join(map(str, s.trace.steps))


def test_located_caches_on_a_schedule():
    A, B, s = copied()
    local = s.cache_read(A, "local", [B])
    out = s.cache_write(B, "local")
    axes = list(s[B].op.axis)
    AnnotateEntity((0, 1)).apply(s, B, axes, source=[[local], [out]])
    assert s[local].attach_ivar is axes[0]
    assert s[out].attach_ivar is axes[1]
    for entity, options, text in [
        (AnnotateEntity((0,)), {}, "source= goes with"),
        (AnnotateEntity(("none",)), {"source": [[local]]}, "source= goes with"),
        (AnnotateEntity((0, 1)), {"source": [[local]]}, "1 were given"),
        (AnnotateEntity((5,)), {"source": [[local]]}, "no axis 5"),
    ]:
        with pytest.raises(SpaceError, match=text):
            entity.apply(s, B, axes, **options)


def test_limits_are_told_to_the_config():
    _, B, s = copied()
    axes = list(s[B].op.axis)
    cfg = ConfigSpace()
    assert cfg.valid()
    entity = AnnotateEntity(("none", "unroll"))
    entity.apply(s, B, axes, axis_lens=[64, 64], max_unroll=8, cfg=cfg)
    assert not cfg.valid()
    assert "max_unroll is 8" in cfg.errors[0]
    assert len(s.trace.steps) == 0
    with pytest.raises(SpaceError, match="max_unroll is 8"):
        entity.apply(s, B, axes, axis_lens=[64, 64], max_unroll=8)


# -- errors that a template states


@template("tests/states_errors")
def states_errors(n, always):
    A, B, s = copied(n)
    cfg = get_config()
    cfg.define_knob("a", [1, 2])
    assert cfg.valid() == (not cfg.errors)
    if cfg["a"].val == 2 or always:
        cfg.raise_error("no program")
        cfg.raise_error("really none")
    return s, [A, B]


def test_raise_error_makes_the_config_fail():
    work = states_errors.workload(8, False)
    space = space_of(work)
    instantiate(work, space.at(0))
    with pytest.raises(SpaceError, match=r"config a=2: no program; really none") as caught:
        instantiate(work, space.at(1))
    assert "raise_error" in str(caught.value)
    with pytest.raises(SpaceError, match="for its default config: no program; really none"):
        space_of(states_errors.workload(8, True))


# -- fallback


def fallback():
    cfg = get_config()
    assert cfg.is_fallback
    return cfg


def test_fallback_split_takes_the_largest_sizes():
    cfg = fallback()
    cfg.define_split("a", 128, num_outputs=3)
    cfg.define_split("b", 49, num_outputs=3)
    cfg.define_split("c", 50, "power2", num_outputs=2)
    for name in "ab":
        cfg.fallback_split(name, [-1, 8, 4])
    cfg.fallback_split("c", [-1, 16])
    assert [cfg[name].size for name in "abc"] == [(4, 8, 4), (7, 7, 1), (25, 2)]


@template("tests/falls_back")
def falls_back(n):
    A, B, s = copied(n)
    cfg = get_config()
    cfg.define_split("x", n, num_outputs=2)
    cfg.define_split("y", n, num_outputs=2)
    cfg.define_knob("word", ["a", "b"])
    cfg.multi_filter(lambda c: c["x"].size[1] * c["y"].size[1] <= 1024)
    if cfg.is_fallback:
        if records is None:
            cfg.fallback_split("x", [-1, 8])
        else:
            cfg.fallback_with_reference_log(records)
    seen.append({name: cfg[name] for name in ("x", "y", "word")})
    return s, [A, B]


records = None
seen: list = []


def test_fallback_inside_a_template(monkeypatch):
    falls_back(64)
    assert seen[-1]["x"].size == (8, 8)
    space = space_of(falls_back.workload(64))
    instantiate(falls_back.workload(64), space.default)
    assert seen[-1]["x"].size == (4, 16)
    other = space_of(falls_back.workload(128))

    def record(size, cost, config=None):
        chosen = config or other.from_choices({"x": size, "y": (64, 2), "word": "b"})
        return ("any", chosen, cost)

    far = space_of(falls_back.workload(1024)).default
    found = [record((4, 32), 2e-3), record((8, 16), 1e-3), record((16, 8), float("inf")),
             record(None, 1e-9, far)]  # fmt: skip
    monkeypatch.setattr("test_spaces_tvm.records", found)
    falls_back(64)
    assert (seen[-1]["x"].size, seen[-1]["y"].size) == ((4, 16), (32, 2))
    assert seen[-1]["word"].val == "b"
    monkeypatch.setattr("test_spaces_tvm.records", [("w", Config((("z", 1),)), 1.0)])
    falls_back(64)
    assert seen[-1]["x"].size == space.default["x"].size


def test_fallback_errors():
    cfg = fallback()
    cfg.define_split("a", 128, num_outputs=3)
    cfg.define_knob("k", [1])
    for call, text in [
        (lambda: cfg.fallback_split("k", [1]), "no split is called 'k'"),
        (lambda: cfg.fallback_split("z", [1]), "splits: a"),
        (lambda: cfg.fallback_split("a", [1, 1]), "the split has 3 loops, not 2"),
        (lambda: cfg.fallback_split("a", [1, 1, 1]), "none of the knob's 36 choices"),
        (lambda: cfg.fallback_with_reference_log([3]), "an? int is not a record"),
    ]:
        with pytest.raises(SpaceError, match=text):
            call()
    space = ConfigSpace()
    space.define_split("a", 128, num_outputs=3)
    with pytest.raises(SpaceError, match=r"if cfg\.is_fallback"):
        space.fallback_split("a", [-1, 8, 4])
    with using_config(space.default):
        chosen = get_config()
        chosen.define_split("a", 128, num_outputs=3)
        with pytest.raises(SpaceError, match=r"if cfg\.is_fallback"):
            chosen.fallback_with_reference_log([])


# -- records


def test_configs_in_the_form_of_autotvm():
    space = ConfigSpace("t")
    space.define_split("s", 64, num_outputs=2)
    space.define_reorder("r", "ab", "all")
    space.define_annotate("a", "ab", "try_unroll_vec")
    space.define_knob("k", ["x", "y"])
    space.define_knob("f", [False, True])
    config = space.default
    data = json.loads(json.dumps(config.to_json_dict()))
    assert data["entity"][0] == ["s", "sp", [4, 16]]
    assert [entity[1] for entity in data["entity"]] == ["sp", "re", "an", "ot", "ot"]
    back = Config.from_json_dict(data)
    assert back == config
    assert back["s"].size == (4, 16)
    theirs = {"index": 7, "code_hash": None, "entity": [["s", "sp", [-1, 8]], ["k", "ot", "y"]]}
    found = space.nearest(Config.from_json_dict(theirs))
    assert (found["s"].size, found["k"].val) == ((8, 8), "y")
    with pytest.raises(SpaceError, match="'entity'"):
        Config.from_json_dict({"entity": [["s", "zz", 1]]})


def test_flat_features_of_a_config():
    space = ConfigSpace("t")
    space.define_split("s", 64, num_outputs=2)
    space.define_annotate("a", "ab", "try_unroll_vec")
    space.define_knob("k", ["x", "y"])
    space.define_knob("n", [(3, 4.5), (1, 2.0)])
    row = space.default.get_flatten_feature()
    assert row.dtype == np.float32
    assert row[:2].tolist() == [4, 16]
    assert row[-2:].tolist() == [3, 4.5]
    assert 0 <= row[-3] < 1
    assert len({tuple(config.get_flatten_feature()) for config in space}) == space.size
    with pytest.raises(SpaceError, match="without a space"):
        Config((("s", (4, 16)),)).get_flatten_feature()
