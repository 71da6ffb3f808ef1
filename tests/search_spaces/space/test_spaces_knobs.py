"""Each policy of each knob: the choices it gives, the default it takes, and its errors."""

from itertools import permutations
from math import comb, prod

import pytest

from whet.compiler import te
from whet.compiler.errors import SpaceError
from whet.search_spaces import ConfigSpace
from whet.search_spaces.knobs import split


def sizes(extent, *args, **options):
    space = ConfigSpace()
    space.define_split("t", extent, *args, **options)
    return list(space.knobs["t"])


def split_default(extent, *args, **options):
    space = ConfigSpace()
    space.define_split("t", extent, *args, **options)
    return space["t"].size


# -- split


def test_factors_are_the_divisors():
    assert sizes(12, num_outputs=2) == [(12, 1), (6, 2), (4, 3), (3, 4), (2, 6), (1, 12)]
    assert sizes(7, num_outputs=2) == [(7, 1), (1, 7)]
    assert sizes(1, num_outputs=3) == [(1, 1, 1)]


def test_factors_of_a_power_of_two_are_all_compositions():
    found = sizes(1024, num_outputs=4)
    assert len(found) == len(set(found)) == comb(10 + 3, 3)
    assert all(prod(size) == 1024 for size in found)


def test_power2_may_leave_a_tail_and_no_tail_forbids_it():
    assert sizes(12, "power2", num_outputs=2) == [(12, 1), (6, 2), (3, 4), (2, 8)]
    assert sizes(12, "power2", num_outputs=2, no_tail=True) == [(12, 1), (6, 2), (3, 4)]
    assert sizes(1001, "power2", num_outputs=2)[4] == (63, 16)


def test_verbose_is_both():
    expected = {*sizes(12, num_outputs=2), *sizes(12, "power2", num_outputs=2)}
    assert set(sizes(12, "verbose", num_outputs=2)) == expected


def test_max_factor_bounds_every_size_but_the_first():
    found = sizes(64, num_outputs=3, max_factor=4)
    assert found
    assert all(max(size[1:]) <= 4 for size in found)
    assert any(size[0] == 64 for size in found)


def test_filter_sees_the_actual_first_size():
    found = sizes(1001, "power2", num_outputs=2, filter=lambda e: e.size[0] == 63)
    assert found == [(63, 16)]


def test_one_output_is_one_choice():
    assert sizes(1001, num_outputs=1) == [(1001,)]


def test_candidate_fills_in_the_first_size():
    assert sizes(100, "candidate", candidate=[[-1, 8], (25, 4)]) == [(13, 8), (25, 4)]


def test_split_of_a_te_axis():
    a = te.placeholder((48, 5), name="a")
    b = te.compute((48, 5), lambda i, j: a[i, j] + 1.0, name="b")
    assert sizes(b.op.axis[0], num_outputs=2) == sizes(48, num_outputs=2)


def test_split_of_a_symbolic_axis_is_refused():
    n = te.size_var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    with pytest.raises(SpaceError, match="not a known number"):
        ConfigSpace().define_split("t", b.op.axis[0], num_outputs=2)


def test_split_default_prefers_a_vector_and_a_register_tile():
    assert split_default(1024, num_outputs=2) == (64, 16)
    assert split_default(1024, num_outputs=3) == (16, 4, 16)
    assert split_default(1001, num_outputs=2) == (77, 13)
    assert split_default(1009, num_outputs=2) == (1009, 1)
    assert split_default(1024, num_outputs=2, filter=lambda e: e.size[1] <= 8) == (128, 8)


def test_split_default_means_the_nearest_legal_sizes():
    assert split_default(1024, num_outputs=2, default=(-1, 32)) == (32, 32)
    assert split_default(1001, num_outputs=2, default=(-1, 16)) == (77, 13)
    assert split_default(1001, "power2", num_outputs=2, default=(-1, 16)) == (63, 16)


@pytest.mark.parametrize(
    ("extent", "options", "text"),
    [
        (16, {"num_outputs": 0}, "num_outputs=0"),
        (16, {"num_outputs": True}, "num_outputs=True"),
        (16, {}, "num_outputs=None"),
        (0, {"num_outputs": 2}, "extent of 0"),
        (True, {"num_outputs": 2}, "cannot be split"),
        (16, {"policy": "factor", "num_outputs": 2}, "did you mean 'factors'"),
        (16, {"num_outputs": 2, "max_factor": 0}, "max_factor=0"),
        (16, {"num_outputs": 2, "filter": 3}, "not callable"),
        (16, {"num_outputs": 2, "filter": lambda e: False}, "every way .* is rejected"),
        (
            16,
            {"num_outputs": 2, "filter": lambda e: 8 // (e.size[1] - 4) < 9},
            r"filter=lambda e: 8 .*test_spaces_knobs.py:.*it raised ZeroDivisionError.*\(4, 4\)",
        ),
        (16, {"num_outputs": 2, "default": (4,)}, "default=.* is not a legal choice"),
        (16, {"num_outputs": 2, "default": (4, 0)}, "default=.* is not a legal choice"),
        (16, {"policy": "candidate", "candidate": []}, "candidate= is empty"),
        (16, {"policy": "candidate"}, "go together"),
        (16, {"num_outputs": 2, "candidate": [(4, 4)]}, "go together"),
        (16, {"policy": "candidate", "candidate": [(4, 8)]}, "first size must be 2"),
        (16, {"policy": "candidate", "candidate": [(-1, 8), (-1, 2, 2)]}, "num_outputs=2"),
        (16, {"policy": "candidate", "candidate": [(-1, 0)]}, "not a list of sizes"),
        (16, {"policy": "candidate", "candidate": [(2, 8), (-1, 8)]}, "listed twice"),
        (2**40, {"num_outputs": 9}, "more than 1000 ways"),
    ],
)
def test_split_errors(extent, options, text, monkeypatch):
    monkeypatch.setattr(split, "LARGEST_LIST", 1000)
    with pytest.raises(SpaceError, match=text) as caught:
        ConfigSpace().define_split("tile", extent, **options)
    assert "tile" in str(caught.value)


# -- reorder


def orders(axes, policy, **options):
    space = ConfigSpace()
    space.define_reorder("o", axes, policy, **options)
    return list(space.knobs["o"]), space["o"].perm


def test_reorder_identity_and_all():
    assert orders("abc", "identity") == ([(0, 1, 2)], (0, 1, 2))
    assert orders("abc", "all") == (list(permutations(range(3))), (0, 1, 2))


def test_reorder_interval_permutes_only_the_interval():
    found, default = orders("abcd", "interval_all", interval=(1, 3))
    assert found == [(0, 1, 2, 3), (0, 2, 1, 3)]
    assert default == (0, 1, 2, 3)


def test_reorder_candidate_by_axis_and_by_number():
    space = ConfigSpace()
    y, x = space.define_split("t", 16, num_outputs=2)
    space.define_reorder("o", [y, x], "candidate", candidate=[[x, y], [0, 1]])
    assert list(space.knobs["o"]) == [(1, 0), (0, 1)]
    assert space["o"].perm == (0, 1)


def test_reorder_interleave_keeps_each_chain():
    yo, yi, xo, xi, k = axes = [object() for _ in range(5)]
    found, default = orders(axes, "interleave", spatial=[[yo, yi], [xo, xi]], reduce=[[k]])
    # 2 merges of (yo, xo) times the 3! merges of yi, xi, k.
    assert len(found) == len(set(found)) == 12
    assert all(set(order[:2]) == {0, 2} for order in found)
    assert default == (0, 2, 4, 1, 3)


@pytest.mark.parametrize(
    ("axes", "options", "text"),
    [
        ("", {"policy": "all"}, "no axes"),
        ("ab", {"policy": "any"}, "unknown policy"),
        ("ab", {"policy": "candidate"}, "go together"),
        ("ab", {"policy": "candidate", "candidate": []}, "is empty"),
        ("ab", {"policy": "candidate", "candidate": [(0, 0)]}, "each of the 2 axes once"),
        ("ab", {"policy": "candidate", "candidate": [("z", "a")]}, "not among axes="),
        ("ab", {"policy": "all", "interval": (0, 1)}, "go together"),
        ("ab", {"policy": "interval_all", "interval": (1, 3)}, "0 <= begin < end <= 2"),
        ("ab", {"policy": "interleave", "spatial": [[]]}, "lists of chains"),
        ("abc", {"policy": "interleave", "spatial": ["ab"]}, "each of the 3 axes once"),
        ("ab", {"policy": "all", "default": (0, 0)}, "not a legal choice"),
        ("abcdefghijk", {"policy": "all"}, "more than 1000000 orders"),
    ],
)
def test_reorder_errors(axes, options, text):
    with pytest.raises(SpaceError, match=text):
        ConfigSpace().define_reorder("order", list(axes), **options)


# -- annotate


def words(num_axes, policy, **options):
    space = ConfigSpace()
    space.define_annotate("a", list(range(num_axes)), policy, **options)
    return list(space.knobs["a"]), space["a"].anns


def test_annotate_policies():
    assert words(2, "none") == ([("none", "none")], ("none", "none"))
    assert words(2, "unroll")[0] == [("unroll", "unroll")]
    assert words(2, "vec")[0] == [("none", "vec")]
    assert words(1, "try_unroll") == ([("none",), ("unroll",)], ("none",))
    found, default = words(2, "try_unroll_vec")
    assert found == [(a, b) for a in ("none", "unroll") for b in ("none", "unroll", "vec")]
    assert default == ("none", "vec")
    assert words(2, "try_vec")[0] == [("none", "none"), ("none", "vec")]


def test_annotate_candidate_and_default():
    found, default = words(
        2, "candidate", candidate=[["unroll", "vec"], ["none", "none"]], default=["none", "none"]
    )
    assert found == [("unroll", "vec"), ("none", "none")]
    assert default == ("none", "none")


@pytest.mark.parametrize(
    ("axes", "options", "text"),
    [
        ([], {"policy": "none"}, "no axes"),
        ([0], {"policy": "try_vectorize"}, "did you mean 'try_vec'"),
        ([0], {"policy": "candidate", "candidate": [["parallel"]]}, "annotations: none"),
        ([0, 1], {"policy": "candidate", "candidate": [["none"]]}, "not 2 annotations"),
        ([0], {"policy": "candidate", "candidate": []}, "is empty"),
        ([0], {"policy": "none", "candidate": [["none"]]}, "go together"),
        ([0], {"policy": "try_vec", "default": ["unroll"]}, "not a legal choice"),
        (list(range(30)), {"policy": "try_unroll"}, "more than 1000000 annotations"),
    ],
)
def test_annotate_errors(axes, options, text):
    with pytest.raises(SpaceError, match=text):
        ConfigSpace().define_annotate("ann", axes, **options)


# -- plain knob


def test_knob_values_keep_their_types():
    space = ConfigSpace()
    space.define_knob("k", [0, False, 0.0, "0", None, [1, [2]]])
    assert list(space.knobs["k"]) == [0, False, 0.0, "0", None, (1, (2,))]
    assert space["k"].val == 0
    kinds = [type(config["k"].val) for config in space]
    assert kinds == [int, bool, float, str, type(None), tuple]
    assert [space.index(config) for config in space] == list(range(6))


def test_knob_default():
    space = ConfigSpace()
    space.define_knob("k", [1, 2, True], default=True)
    assert space["k"].val is True


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ([], {}, "candidate list is empty"),
        ("abc", {}, "not a list"),
        (3, {}, "not a list"),
        ([{}], {}, "candidate 0 is a dict"),
        ([1.0, float("nan")], {}, "candidate 1 is nan"),
        ([1, 2, 1], {}, "1 is listed twice"),
        ([1, 2], {"default": 1.0}, "default=1.0 is not a legal choice"),
    ],
)
def test_knob_errors(values, options, text):
    with pytest.raises(SpaceError, match=text):
        ConfigSpace().define_knob("k", values, **options)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_knob_needs_a_name(name):
    with pytest.raises(SpaceError, match="non-empty string"):
        ConfigSpace().define_knob(name, [1])


def test_duplicate_name():
    space = ConfigSpace()
    space.define_knob("k", [1])
    with pytest.raises(SpaceError, match="a knob of this name already"):
        space.define_split("k", 4, num_outputs=2)
