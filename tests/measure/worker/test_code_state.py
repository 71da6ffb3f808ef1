"""Names of a worker's modules are compared by identity, all at once, and bound again."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

from whet.measure.worker.code_state import Names, Steady


class Thing:
    """A value that a weak reference can follow, and that calls itself equal to all others."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def watched(space: dict[str, Any], chosen: list[str] | None = None) -> Names:
    return Names("space", space, chosen, space.__setitem__, space.__delitem__)


@pytest.mark.parametrize("value", [1.0, True, Thing()])
def test_an_equal_value_is_another_one(value: object) -> None:
    space = {"size": 1, "other": 2}
    names = watched(space)
    together = Steady([names])
    assert names.same() and together.same()
    space["size"] = value  # type: ignore[assignment]
    assert not names.same() and not together.same()
    assert list(names.put_back()) == ["space.size"]
    assert names.same() and type(space["size"]) is int


def test_a_name_that_goes_or_comes_is_put_back() -> None:
    space = {"size": 1, "other": 2}
    names = watched(space)
    del space["size"]
    assert not names.same()
    space["more"] = 1
    assert not names.same()  # as many as before
    assert sorted(names.put_back()) == ["space.more", "space.size"]
    assert space == {"size": 1, "other": 2}
    assert names.same()  # in another order than before


def test_a_value_under_another_name_is_not_the_same() -> None:
    """The last one: the values stand in the same order as before."""
    space = {"other": 2, "size": 1}
    names = watched(space)
    together = Steady([names])
    space["more"] = space.pop("size")
    assert not names.same() and not together.same()
    assert sorted(names.put_back()) == ["space.more", "space.size"]
    assert names.same() and space == {"other": 2, "size": 1}


def test_a_value_that_does_not_count_varies_and_is_not_kept() -> None:
    kept: Any = Thing()
    space = {"size": 1, "_last": kept}
    names = watched(space, ["size"])
    assert names.same() and not names.varies
    gone = weakref.ref(kept)
    kept = space["_last"] = None
    assert gone() is None
    assert names.same() and names.varies


def test_one_of_many_spaces_is_seen() -> None:
    spaces = [{"a": object(), "b": object()} for _ in range(3)]
    together = Steady([watched(space) for space in spaces])
    assert together.same()
    spaces[1]["b"] = object()
    assert not together.same()
