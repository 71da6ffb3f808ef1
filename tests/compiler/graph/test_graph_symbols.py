"""Sizes as polynomials of symbols, and bounds of memory that hold for all of them."""

import random

import pytest

from whet.compiler.abi.extent import evaluate, parse
from whet.compiler.graph.symbolic.sizes import (
    dynamic,
    fitted,
    looked_at,
    most_each,
    most_elements,
    ones,
)
from whet.compiler.graph.symbolic.strides import forms_of, more_points

TEXTS = ("7", "b", "12 * b", "s + 3", "b * s", "12 * b * s", "s * s", "s * s + 2 * b - 1", "s - 1")


@pytest.mark.parametrize("text", TEXTS)
def test_polynomials_are_found(text, seeds):
    for seed in seeds(4):
        rng = random.Random(seed)
        low = rng.randint(1, 5)
        ranges = {"b": dynamic(1, rng.randint(4, 9)), "s": dynamic(low, low + rng.randint(6, 500))}
        points = looked_at(ranges) + ones(ranges)
        wanted = parse(text)
        found = fitted(points, [evaluate(wanted, p) for p in points])
        assert found is not None
        for b in range(1, ranges["b"].high + 1):
            for s in range(low, ranges["s"].high + 1, 7):
                assert evaluate(found, {"b": b, "s": s}) == evaluate(wanted, {"b": b, "s": s})


@pytest.mark.parametrize(
    "change",
    [lambda n: n // 2, lambda n: -(-n // 8) * 8, lambda n: min(n, 20), lambda n: max(n, 9),
     lambda n: n % 2, lambda n: n**3],
)  # fmt: skip
def test_what_is_no_polynomial_is_not_found(change):
    points = looked_at({"n": dynamic(8, 64)})
    assert fitted(points, [change(p["n"]) for p in points]) is None


def test_small_ranges_are_looked_at_whole():
    assert [p["n"] for p in looked_at({"n": dynamic(3, 5)})] == [5, 3, 4]
    assert dynamic(4, 4) == 4
    assert fitted([{"n": 5}, {"n": 3}, {"n": 4}], [10, 6, 8]) == parse("2 * n")


def test_short_ranges_from_1_are_looked_at_beyond():
    for high, wanted in ((2, [2]), (3, [2, 3]), (4, [2, 3, 4])):
        ranges = {"n": dynamic(1, high)}
        assert sorted(p["n"] for p in looked_at(ranges)) == wanted
        assert sorted(p["n"] for p in looked_at(ranges, beyond=True)) == [2, 3, 4]
    assert looked_at({"n": dynamic(2, 3)}, beyond=True) == [{"n": 3}, {"n": 2}]


def test_short_ranges_of_several_symbols_are_looked_at_whole():
    ranges = {x: dynamic(2, 3) for x in "abc"}
    points = looked_at(ranges)
    assert len(points) == 8 and points[0] == {"a": 3, "b": 3, "c": 3}
    wanted = parse("a * b + b * c")
    found = fitted(points, [evaluate(wanted, p) for p in points])
    assert found is not None
    assert all(evaluate(found, p) == evaluate(wanted, p) for p in points)


def test_memory_is_enough_for_all_sizes():
    ranges = {"b": dynamic(1, 6), "s": dynamic(2, 40)}
    growing = ("7", "b", "s", "b * s", "b * s * s", "s * s + 2 * b + 1")
    others = ("b * s - b", "s - b", "(s + 1) // 2 - 1", "(s + 3) // 4 * b", "s // 2 * (s // 2)")
    for text in (*growing, *others):
        shape = (parse(text), 3)
        for b in range(1, 7):
            for s in range(2, 41):
                size = 3 * evaluate(shape[0], {"b": b, "s": s})
                assert size <= most_elements(shape, ranges)
                assert 4 * size <= most_each(shape, 4, ranges) * b * s
    assert most_elements((parse("(s + 1) // 2 - 1"), parse("b")), ranges) == 19 * 6
    falling = (parse("50 - s"), parse("s"))
    most = max((50 - s) * s for s in range(2, 41))
    assert most <= most_elements(falling, {"s": dynamic(2, 40)}) <= 48 * 40


def learned(change, ranges):
    """The form of a size that :func:`forms_of` finds, looking where it is in doubt."""
    points = list(looked_at(ranges))
    for _ in range(48):
        row = tuple(change(p) for p in points)
        forms = forms_of(points, {row}, ranges)
        if forms.doubt is None:
            return forms.found[row]
        assert forms.doubt not in points
        points.append(forms.doubt)
    raise AssertionError("it is in doubt for ever")


def test_sizes_that_strides_divide(seeds):
    """Of chains of windows, whatever their strides and paddings: right at every size of a range."""
    for seed in seeds(12):
        rng = random.Random(seed)
        layers = [(rng.randint(1, 7), rng.randint(0, 3), rng.choice((1, 2, 2, 3))) for _ in "abc"]
        ups = rng.choice((1, 1, 2))

        def size(p, layers=layers, ups=ups):
            n = p["n"]
            for window, pad, stride in layers:
                n = (n + 2 * pad - window) // stride + 1
            return n * ups

        ranges = {"n": dynamic(40, rng.choice((60, 200, 3000))), "m": dynamic(2, 90)}
        found = learned(size, ranges)
        assert found is not None, layers
        for n in range(40, ranges["n"].high + 1):
            assert evaluate(found, {"n": n, "m": 3}) == size({"n": n}), (layers, n)


def test_products_of_sizes_that_strides_divide():
    ranges = {"h": dynamic(8, 200), "w": dynamic(9, 100), "b": dynamic(1, 4)}
    points = list(looked_at(ranges))
    changes = (
        lambda p: (p["h"] + 1) // 2,
        lambda p: p["w"] // 4,
        lambda p: p["b"] * ((p["h"] + 1) // 2) * (p["w"] // 4) * 3,
        lambda p: ((p["h"] + 1) // 2) ** 2,
    )
    while True:
        rows = [tuple(change(p) for p in points) for change in changes]
        forms = forms_of(points, set(rows), ranges)
        if forms.doubt is None:
            break
        points.append(forms.doubt)
    for row, change in zip(rows, changes):
        for p in more_points(ranges):
            assert evaluate(forms.found[row], p) == change(p)


@pytest.mark.parametrize("change", [lambda n: min(n, 20), lambda n: n % 3, lambda n: n**3])
def test_what_no_stride_divides_is_not_found(change):
    assert learned(lambda p: change(p["n"]), {"n": dynamic(8, 64)}) is None
