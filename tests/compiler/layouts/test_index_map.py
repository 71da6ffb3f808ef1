"""Index maps and layouts by name: shapes, indices and inverses, against numpy."""

import random
from itertools import pairwise

import numpy as np
import pytest

from whet.compiler import te, tir
from whet.compiler.errors import ArgumentError

IndexMap = tir.IndexMap


def drawn(rng):
    """A random shape, and a map of digits of its indices in any order."""
    shape = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
    parts = []
    for k in range(len(shape)):
        cuts = sorted(rng.sample(range(2, 9), rng.randint(0, 2)))
        if len(cuts) == 2:
            cuts[1] = cuts[0] * rng.randint(2, 3)
        ends = [1, *cuts, None]
        parts += [(k, low, high) for low, high in pairwise(ends)]
    rng.shuffle(parts)

    def digit(i, low, high):
        return i // low % (high // low) if high else i // low

    return shape, lambda *i: [digit(i[k], low, high) for k, low, high in parts]


def test_random_maps_are_one_to_one():
    seed = random.randrange(2**31)
    rng = random.Random(seed)
    for _ in range(60):
        shape, function = drawn(rng)
        said = f"seed {seed}, shape {shape}"
        m = IndexMap.from_func(function, ndim=len(shape))
        grid = np.indices(shape)
        want = [np.broadcast_to(x, shape) for x in function(*grid)]
        made = [int(d) for d in m.map_shape(shape)]
        assert made == [int(x.max()) + 1 for x in want], said
        assert len(set(zip(*(x.reshape(-1).tolist() for x in want)))) == grid[0].size, said
        back, outside = m.non_surjective_inverse(shape)
        at = [rng.randrange(n) for n in shape]
        place = [int(i) for i in m.map_indices(at)]
        assert place == [int(x[tuple(at)]) for x in want], said
        assert [int(i) for i in back.map_indices(place)] == at, said
        full = int(np.prod(made)) == int(np.prod(shape))
        if full and tir.expr.is_int(outside, 0):
            assert IndexMap.is_equivalent_to(m.inverse(shape), back), said


def test_fused_indices_are_taken_apart_again():
    m = IndexMap.from_func(lambda i, j: [(i * 7 + j) // 4, (i * 7 + j) % 4])
    assert [int(d) for d in m.map_shape([4, 7])] == [7, 4]
    assert str(m.inverse([4, 7])).endswith("[(axis0 * 4 + axis1) // 7, (axis0 * 4 + axis1) % 7])")
    with pytest.raises(ArgumentError, match="one step is 7, and should be 8"):
        m.map_shape([4, 8])


def test_parameters_by_place_and_by_name():
    m = IndexMap.from_func(lambda n, *i, c: [n, c // 4, *i, c % 4], ndim=4)
    assert str(m) == "IndexMap(lambda n, i_0, i_1, c: [n, c // 4, i_0, i_1, c % 4])"
    made, separators = IndexMap.from_func_with_separators(lambda i, j: [i, te.AXIS_SEPARATOR, j])
    assert separators == [1] and [v.name for v in made.initial_indices] == ["i", "j"]
    assert te.AXIS_SEPARATOR == IndexMap.AXIS_SEPARATOR
    with pytest.raises(ArgumentError, match="gives an AXIS_SEPARATOR"):
        IndexMap.from_func(lambda i: [te.AXIS_SEPARATOR, i])
    with pytest.raises(ArgumentError, match=r"takes \*i: say how many|takes \*i"):
        IndexMap.from_func(lambda *i: [*i])


def test_equivalent_maps():
    m = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    assert m.is_equivalent_to(IndexMap.from_func(lambda a, b: [a // 2 // 2, b, a % 4]))
    assert not m.is_equivalent_to(IndexMap.from_func(lambda i, j: [i // 4, i % 4, j]))
    assert not m.is_equivalent_to(IndexMap.from_func(lambda i: [i]))
    odd = IndexMap.from_func(lambda i: [i * i])
    assert odd.is_equivalent_to(IndexMap.from_func(lambda k: [k * k]))


def test_inverses():
    m = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    assert m.inverse([8, 3]).inverse([2, 3, 4]).is_equivalent_to(m)
    with pytest.raises(ArgumentError, match=r"axis0 \* 4 \+ axis2 >= 7 are places without"):
        m.inverse([7, 3])
    given = IndexMap.from_func(lambda i: [i * 2], inverse_index_map=lambda i: [i // 2])
    assert str(given.inverse([3])) == "IndexMap(lambda i: [i // 2])"
    assert str(m.inverse([tir.const(8), te.reduce_axis((0, 3)).dom])).endswith("axis2, axis1])")
    n = te.size_var("n")
    _, outside = m.non_surjective_inverse([n, 3])
    assert "n" in str(outside) and str(m.map_shape([n, 3])[1]) == str(tir.const(3))


def test_layouts():
    x = tir.layout("NCHW16c")
    assert x.name == "NCHW16c" and len(x) == 5 and list(x) == ["N", "C", "H", "W", "c"]
    assert x.index_of("c") == 4 and x.index_of("D") == -1 and x.factor_of("C") == 16
    assert x.factor_of("N") == -1 and "c" in x and "n" not in x and tir.Layout.of("AB", "").name
    for text in ("NCHWc", "NN", "8c", "C4c2c", "nc", 3):
        with pytest.raises(ArgumentError, match=r"layout"):
            tir.layout(text)


def test_bijective_layouts():
    pair = tir.bijective_layout("NCHW", "NCHW16c")
    assert pair.forward_shape([1, 32, 7, 7]) == [1, 2, 7, 7, 16]
    assert pair.backward_shape([1, 2, 7, 7, 16]) == [1, 32, 7, 7]
    assert [int(i) for i in pair.forward_index([0, 29, 6, 5])] == [0, 1, 6, 5, 13]
    assert [int(i) for i in pair.backward_index([0, 1, 6, 5, 13])] == [0, 29, 6, 5]
    assert pair.forward_shape([1, 3, 7, 7]) == [1, 1, 7, 7, 16]
    other = tir.bijective_layout("HWC4c", tir.layout("C8cWH"))
    assert other.forward_shape([3, 2, 6, 4]) == [3, 8, 2, 3]
    assert [int(i) for i in other.forward_index([2, 1, 5, 3])] == [2, 7, 1, 2]
    n = te.size_var("n")
    assert "n" in str(pair.forward_shape([n, 32, 7, 7])[0])
    for call, why in (
        (lambda: tir.bijective_layout("NCHW", "NHW"), "'NHW' lacks C, which 'NCHW' has"),
        (lambda: pair.forward_index([1, 2]), "'NCHW' has 4 dimensions, 2 were given"),
        (lambda: pair.backward_shape([1, 2, 7, 7, 8]), "the block 16c has 8 elements"),
    ):
        with pytest.raises(ArgumentError, match=why):
            call()
