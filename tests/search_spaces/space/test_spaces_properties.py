"""Random spaces: round trips, the default, and moves stay inside."""

import json
from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.search_spaces import Config, ConfigSpace

values = st.one_of(st.integers(-99, 99), st.booleans(), st.none(), st.text(max_size=3))


@st.composite
def spaces(draw):
    space = ConfigSpace(draw(st.sampled_from(["", "t"])), draw(st.integers(1, 3)))
    for i in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["split", "reorder", "annotate", "knob"]))
        if kind == "split":
            space.define_split(
                f"s{i}",
                draw(st.integers(1, 300)),
                draw(st.sampled_from(["factors", "power2", "verbose"])),
                num_outputs=draw(st.integers(1, 4)),
                max_factor=draw(st.sampled_from([None, 1, 5, 64])),
                no_tail=draw(st.booleans()),
            )
        elif kind == "reorder":
            axes = list(range(draw(st.integers(1, 4))))
            space.define_reorder(f"r{i}", axes, draw(st.sampled_from(["all", "identity"])))
        elif kind == "annotate":
            axes = list(range(draw(st.integers(1, 3))))
            policy = draw(st.sampled_from(["try_unroll", "try_unroll_vec", "vec", "unroll_vec"]))
            space.define_annotate(f"a{i}", axes, policy)
        else:
            found = draw(st.lists(values, min_size=1, max_size=5, unique_by=repr))
            space.define_knob(f"k{i}", found)
    return space


@st.composite
def spaces_and_index(draw):
    space = draw(spaces())
    return space, draw(st.integers(0, space.size - 1))


@given(spaces_and_index())
@settings(max_examples=120)
def test_round_trips(drawn):
    space, index = drawn
    config = space[index]
    assert space.index(config) == index
    assert space.decode(space.encode(config)) == config
    back = Config.from_json(json.loads(json.dumps(config.to_json())))
    assert back == config
    assert hash(back) == hash(config)
    assert space.index(back) == index
    assert space.from_choices(back.as_dict()) == config


@given(spaces_and_index(), st.integers(0, 2**32 - 1))
@settings(max_examples=120)
def test_moves_stay_inside(drawn, seed):
    space, index = drawn
    rng = np.random.default_rng(seed)
    config = space[index]
    assert space.default in space
    assert space.sample(rng) in space
    other = space.mutate(config, rng)
    assert other in space
    assert (other == config) == (space.size == 1)
    for near in space.neighbours(config):
        assert near in space
        differing = [n for n in space.knobs if near.choice(n) is not config.choice(n)]
        assert len(differing) == 1
    assert space.features([config, other]).shape == (2, len(space.feature_names))


@given(
    st.integers(1, 2000),
    st.integers(1, 4),
    st.sampled_from(["factors", "power2", "verbose"]),
    st.booleans(),
)
@settings(max_examples=120)
def test_every_split_covers_its_axis(extent, num_outputs, policy, no_tail):
    space = ConfigSpace()
    space.define_split("t", extent, policy, num_outputs=num_outputs, no_tail=no_tail)
    for size in space.knobs["t"]:
        inner = prod(size[1:])
        assert size[0] == -(-extent // inner)
        assert (size[0] - 1) * inner < extent
        if no_tail or policy == "factors":
            assert prod(size) == extent
