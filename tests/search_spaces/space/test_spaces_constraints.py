"""Constraints across knobs: what they read, what is counted and drawn, and their errors."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whet.compiler.errors import SpaceError
from whet.search_spaces import ConfigSpace
from whet.search_spaces.space.constraints import TABLE


def brute(space):
    """All valid points, by asking each constraint about each point of the range."""
    rows = product(*(range(n) for n in space.dims))
    return [row for row in rows if space.is_valid(row)]


def knobs(*sizes, **options):
    space = ConfigSpace("t", **options)
    for i, n in enumerate(sizes):
        space.define_knob(f"k{i}", list(range(n)))
    return space


def chi_square(space, n=20_000, seed=0):
    """Pearson's statistic of uniformity over the valid points, in standard deviations."""
    valid = brute(space)
    points = space.sample_points(np.random.default_rng(seed), n)
    index = {row: i for i, row in enumerate(valid)}
    counts = np.bincount([index[tuple(row)] for row in points.tolist()], minlength=len(valid))
    expected = n / len(valid)
    freedom = len(valid) - 1
    return (float(((counts - expected) ** 2 / expected).sum()) - freedom) / (2 * freedom) ** 0.5


# -- random spaces against brute force


@st.composite
def constrained(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    space = knobs(*sizes)
    for _ in range(draw(st.integers(0, 3))):
        reads = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=3))
        modulus, rest = draw(st.integers(2, 4)), draw(st.integers(0, 3))

        def keeps(c, reads=tuple(reads), modulus=modulus, rest=rest):
            return (sum((i + 1) * c[f"k{i}"].val for i in reads)) % modulus != rest

        space.multi_filter(keeps)
    return space


@given(constrained(), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_everything_agrees_with_brute_force(space, seed):
    valid = brute(space)
    if not valid:
        with pytest.raises(SpaceError, match="no config is valid"):
            _ = space.size
        with pytest.raises(SpaceError, match="no config is valid"):
            _ = space.default
        return
    rng = np.random.default_rng(seed)
    assert (space.size, space.size_is_exact) == (len(valid), True)
    assert [space.encode(config) for config in space] == valid
    assert space.encode(space.default) in valid
    points = space.sample_points(rng, 40)
    assert {tuple(row) for row in points.tolist()} <= set(valid)
    everything = np.array(list(product(*(range(n) for n in space.dims))))
    known = set(valid)
    flags = [tuple(row) in known for row in everything.tolist()]
    assert space.valid(everything).tolist() == flags
    mutated = space.mutate_points(points, rng)
    assert space.valid(mutated).all()
    assert ((mutated != points).any(axis=1) | (len(valid) == 1)).all()
    crossed = space.cross_points(points, mutated, rng)
    assert space.valid(crossed).all()
    for start in everything[:: max(1, len(everything) // 9)]:
        found = space.repair(start)
        nearest = min(space.distance(start, row) for row in valid)
        assert space.distance(start, found) == pytest.approx(nearest)
        assert tuple(space.repair(found)) == tuple(found)
    for config in space.neighbours(space.default):
        assert space.encode(config) in valid


def ring():
    """Four knobs, each tied to the next: counted by elimination over a cycle."""
    space = knobs(4, 4, 4, 4)
    for i in range(4):
        j = (i + 1) % 4
        space.multi_filter(lambda c, i=i, j=j: c[f"k{i}"].val != c[f"k{j}"].val)
    return space


def loose():
    """One constraint too wide to be tabulated, over few solutions of the others: listed."""
    space = knobs(60, 60, 60)
    space.multi_filter(lambda c: c["k0"].val == c["k1"].val)
    space.multi_filter(lambda c: (c["k0"].val + c["k1"].val + c["k2"].val) % 31 == 0)
    (component,) = space.valid_points.components()
    assert component.way == "listed"
    return space


@pytest.mark.parametrize("make", [ring, loose])
def test_draws_are_uniform(make):
    assert abs(chi_square(make())) < 5


def test_rejection_is_uniform_and_estimates_its_size():
    space = knobs(100, 100, 100)
    space.multi_filter(lambda c: (c["k0"].val + c["k1"].val * c["k2"].val) % 10 == 0)
    (component,) = space.valid_points.components()
    assert component.way == "rejection"
    true = sum((a + b * c) % 10 == 0 for a, b, c in product(range(100), repeat=3))
    assert not space.size_is_exact
    assert 0 < space.size_error < 0.05
    assert abs(space.size / true - 1) < 5 * space.size_error
    points = space.sample_points(np.random.default_rng(1), 5000)
    assert space.valid(points).all()
    tens = np.bincount((points[:, 1] * points[:, 2]) % 10, minlength=10)
    all_tens = np.bincount([b * c % 10 for b, c in product(range(100), repeat=2)], minlength=10)
    expected = 5000 * all_tens / all_tens.sum()
    assert float(((tens - expected) ** 2 / expected).sum()) < 40  # 9 degrees of freedom
    assert "about" in str(space)
    assert "(± " in str(space)


def test_a_walk_is_not_uniform_by_this_test():
    space = ring()
    draw = space.sample_points
    space.sample_points = lambda rng, n: space.mutate_points(
        np.repeat(draw(rng, 1), n, axis=0), rng
    )
    assert chi_square(space, 2000) > 50


def test_rare_points_are_found_and_said_to_be_biased():
    space = knobs(*[20] * 6)
    space.multi_filter(lambda c: sum(c[f"k{i}"].val for i in range(6)) == 4)
    rng = np.random.default_rng(0)
    assert space.size_error == float("inf")
    points = space.sample_points(rng, 50)
    assert (points.sum(axis=1) == 4).all()
    assert (space.mutate_points(points, rng).sum(axis=1) == 4).all()
    assert space.repair([11] * 6).sum() == 4
    text = str(space)
    assert "perhaps" in text
    assert "biased: valid choices are so rare" in text


def test_backtracking_counts_what_can_be_cut_short():
    space = knobs(*[40] * 6)
    # Read one after the other, so that a wrong beginning ends the search below it.
    space.multi_filter(lambda c: all(c[f"k{i}"].val == 7 * i for i in range(6)))
    assert (space.size, space.size_is_exact) == (1, True)
    point = space.sample_points(np.random.default_rng(0), 1)[0]
    assert point.tolist() == [0, 7, 14, 21, 28, 35]
    assert (space.mutate_points(point[None], np.random.default_rng(0)) == point).all()
    assert space.encode(space.default) == tuple(point)


# -- large spaces


def large(n=10, extent=256):
    space = ConfigSpace("large")
    for i in range(n):
        space.define_split(f"t{i}", extent, num_outputs=3)
    for i in range(n - 1):
        space.multi_filter(
            lambda c, i=i: c[f"t{i}"].size[2] * c[f"t{i + 1}"].size[2] <= 64  # tied to the next
        )
    return space


def test_a_large_space_is_counted_exactly_and_sampled():
    small = large(3, 64)
    assert small.size == len(brute(small))
    space = large()
    assert space.range_length == 45**10
    assert space.size_is_exact
    assert 1e12 < space.size < space.range_length
    rng = np.random.default_rng(0)
    points = space.sample_points(rng, 1000)
    assert space.valid(points).all()
    assert len(np.unique(points, axis=0)) == 1000
    mutated = space.mutate_points(points, rng)
    assert space.valid(mutated).all()
    assert (mutated != points).any(axis=1).all()
    assert ((mutated != points).sum(axis=1) <= 2).mean() > 0.8
    near = np.abs(space.coordinates(mutated) - space.coordinates(points)).sum(axis=1)
    far = np.abs(space.coordinates(points[::-1]) - space.coordinates(points)).sum(axis=1)
    assert near.mean() < far.mean() / 4
    assert f"{space.size:,} valid configs of" in str(space)


def test_counts_beyond_64_bits_stay_exact():
    space = knobs(*[100] * 12)
    for i in range(11):
        space.multi_filter(lambda c, i=i: c[f"k{i}"].val != c[f"k{i + 1}"].val)
    assert space.size == 100 * 99**11
    with pytest.raises(SpaceError, match=r"space\.size"):
        len(space)


def test_constraints_of_one_text_are_printed_once():
    space = knobs(3, 3, 3)
    for i in range(2):
        space.multi_filter(lambda c, i=i: c[f"k{i}"].val <= c[f"k{i + 1}"].val)
    assert str(space).count("  where ") == 1 and ", 2 times" in str(space)


# -- tracing


def test_only_what_is_read_is_tabulated():
    space = large(4)
    calls = []
    space.multi_filter(lambda c: calls.append(1) or c["t0"].size[1] <= c["t3"].size[1])
    assert not calls  # nothing is evaluated before it is asked for
    assert space.is_valid((0, 0, 0, 0))
    assert len(calls) == 1
    _ = space.size
    assert 45 * 45 <= len(calls) < 45 * 45 + 100
    before = len(calls)
    space.valid(space.sample_points(np.random.default_rng(0), 1000))
    assert len(calls) == before
    assert space.constraints[-1].reads == (0, 3)


def test_get_and_in_are_of_all_knobs():
    space = knobs(3, 3)
    space.multi_filter(lambda c: c.get("k1").val == 2 and "k0" in c and c.get("z", 7) == 7)
    assert space.size == 3
    assert space.constraints[0].reads == (1,)


def test_a_knob_that_is_read_late_is_found():
    space = knobs(50, 50, 5)
    space.multi_filter(lambda c: c["k0"].val != 49 or c["k1"].val != 49 or c["k2"].val == 3)
    assert space.size == 50 * 50 * 5 - 4
    assert space.constraints[0].reads == (0, 1, 2)


def test_a_knob_that_is_read_late_while_sampling_joins_the_component():
    space = knobs(80, 80, 80, 4)

    def seldom(c):
        total = c["k0"].val + c["k1"].val + c["k2"].val
        return total % 2 == 0 if total < 225 else c["k3"].val == 2

    space.multi_filter(seldom)
    points = space.sample_points(np.random.default_rng(0), 30_000)
    assert all(space.is_valid(row) for row in points.tolist())
    late = points[points[:, :3].sum(axis=1) >= 225]
    assert (late[:, 3] == 2).all()
    assert 3 in space.constraints[0].reads


def test_a_constraint_of_a_long_list_is_asked_directly():
    space = ConfigSpace()
    space.define_knob("a", range(TABLE + 1))
    space.define_knob("b", [0, 1])
    space.multi_filter(lambda c: c["a"].val % 2 == c["b"].val)
    assert not space.size_is_exact
    assert abs(space.size / (TABLE + 1) - 1) < 0.2
    points = space.mutate_points(
        space.sample_points(np.random.default_rng(0), 5), np.random.default_rng(1)
    )
    assert space.valid(points).all()


# -- errors


def test_a_filter_that_is_no_function():
    with pytest.raises(SpaceError, match=r"multi_filter\(3\).*int is not a function"):
        ConfigSpace().multi_filter(3)


def test_a_constraint_that_raises_names_itself_the_config_and_the_error():
    space = knobs(3, 3)
    space.multi_filter(lambda c: 6 // c["k0"].val > c["k1"].val)
    with pytest.raises(SpaceError) as caught:
        _ = space.size
    said = str(caught.value)
    assert "constraint lambda c: 6 // c['k0'].val > c['k1'].val" in said
    assert "test_spaces_constraints.py:" in said
    assert "it raised ZeroDivisionError" in said
    assert "for k0=0" in said
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_constraint_that_reads_an_unknown_knob():
    space = knobs(2)
    space.multi_filter(lambda c: c["k7"].val)
    with pytest.raises(SpaceError, match=r"the space has no such knob[\s\S]*knobs: k0"):
        _ = space.size


def test_a_space_with_no_valid_point_says_who_rejects_how_much():
    space = knobs(4, 4)
    space.multi_filter(lambda c: c["k0"].val > c["k1"].val)
    space.multi_filter(lambda c: c["k0"].val < c["k1"].val)
    for ask in (
        lambda: space.size,
        lambda: space.default,
        lambda: space.sample(np.random.default_rng(0)),
    ):
        with pytest.raises(SpaceError, match="of 16 the constraints leave none") as caught:
            ask()
        assert "62.5 % are rejected by lambda c: c['k0'].val > c['k1'].val" in str(caught.value)


def test_a_space_in_which_none_is_found_says_what_was_tried():
    space = knobs(*[50] * 6)
    space.multi_filter(lambda c: sum(c[f"k{i}"].val for i in range(6)) < 0)
    with pytest.raises(SpaceError, match="none that was found") as caught:
        _ = space.size
    assert "100 % are rejected by" in str(caught.value)


def test_the_one_valid_point_of_many_is_found_where_nothing_leads_to_it():
    space = knobs(*[8] * 6)
    space.multi_filter(lambda c: [c[f"k{i}"].val for i in range(6)] == [3, 1, 4, 1, 5, 2])
    assert (space.size, space.size_is_exact) == (1, True)
    assert space.encode(space.default) == (3, 1, 4, 1, 5, 2)


def test_a_valid_default_is_never_missed():
    space = ConfigSpace()
    for i in range(8):
        space.define_knob(f"k{i}", range(50), default=31)
    space.multi_filter(lambda c: {c[f"k{i}"].val for i in range(8)} == {31})
    assert space.size >= 1 and not space.size_is_exact
    assert (space.sample_points(np.random.default_rng(0), 3) == 31).all()


def test_a_constraint_that_reads_nothing():
    space = knobs(3)
    space.multi_filter(lambda c: True)
    assert space.size == 3
    space.multi_filter(lambda c: False)
    with pytest.raises(SpaceError, match="100 % are rejected by"):
        _ = space.size


def test_one_valid_point_works_everywhere():
    space = knobs(3, 4)
    space.multi_filter(lambda c: (c["k0"].val, c["k1"].val) == (2, 3))
    rng = np.random.default_rng(0)
    assert (space.size, len(list(space)), space.encode(space.default)) == (1, 1, (2, 3))
    point = np.array([[2, 3]])
    assert (space.sample_points(rng, 3) == point).all()
    assert (space.mutate_points(point, rng) == point).all()
    assert (space.cross_points(point, point, rng) == point).all()
    assert space.neighbours(space.default) == []
    assert space.nearest({"k0": 0}) == space.default == space.sample(rng)
    assert space.get_rand_index() == space.knob2point((2, 3)) == 11
    assert space.at_level("quick").size == 1


def test_invalid_configs_are_refused_with_the_constraint():
    space = knobs(3, 3)
    space.multi_filter(lambda c: c["k0"].val <= c["k1"].val)
    bad = space.at(space.knob2point((2, 0)))
    assert bad not in space
    with pytest.raises(SpaceError, match=r"does not admit it: lambda c: c\['k0'\]"):
        space.check(bad)
    with pytest.raises(SpaceError, match="does not admit"):
        space.from_choices({"k0": 2, "k1": 0})
    with pytest.raises(SpaceError, match="does not admit"):
        space.get(space.index(bad))
    assert space.encode(bad) == (2, 0)
    with pytest.raises(SpaceError, match="points of shape"):
        space.valid(np.zeros((2, 3), dtype=int))
