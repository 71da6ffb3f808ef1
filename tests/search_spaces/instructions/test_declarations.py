"""Declarations of instructions that fail, or that would take the place of another one."""

from __future__ import annotations

from functools import partial

import pytest

import whet
from whet import te
from whet.search_spaces.values import instructions

TARGET = "llvm -mcpu=x86-64-v3 -num_threads=1"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """No instruction of another test is declared."""
    monkeypatch.setattr(instructions, "_declared", {})


def task():
    A = te.placeholder((16, 16), name="A")
    r = te.reduce_axis((0, 16), name="r")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, r] * A[r, j], axis=r), name="C")
    return whet.create_task(outputs=[C], target=TARGET)


def test_a_function_that_raises():
    @whet.tensor_intrin("broken")
    def broken(target):
        return {}["boom"]

    with pytest.raises(
        whet.SpaceError, match=r"(?s)instruction 'broken' for.*raised KeyError: 'boom'.*None where"
    ) as caught:
        task()
    assert isinstance(caught.value.__cause__, KeyError)


def test_targets_are_named_shortly():
    whet.tensor_intrin("five")(lambda target: 5)
    with pytest.raises(whet.SpaceError, match=r"'five' for llvm x86-64-v3.*gave a int") as caught:
        task()
    assert "mattr" not in str(caught.value) and len(str(caught.value)) < 250


def refused(name, *makes):
    """The last one is another than the others, which are the same."""
    *before, last = makes
    for make in before:
        whet.tensor_intrin(name)(make)
    with pytest.raises(whet.SpaceError, match=r"(?s)another function has declared.*replace=True"):
        whet.tensor_intrin(name)(last)
    assert [x.make for x in instructions.declared() if x.name == name] == [before[-1]]
    whet.tensor_intrin(name, replace=True)(last)


def width(n, also=()):
    def lanes(target, more=also):
        return n and more

    return lanes


def test_functions_of_one_name_that_are_not_the_same():
    refused("lambdas", lambda target: None, lambda target: 5)
    refused("numbers", lambda target: 1, lambda target: True)
    refused("around", width(8), width(8), width(16))
    refused("defaults", width(8, (1,)), width(8, (1,)), width(8, (1, 2)))
    refused("objects", width(object()), width(object()))
    refused("partial", partial(width, 8), partial(width, 16))
    with pytest.raises(whet.SpaceError, match=r"width\.<locals>\.lanes, line \d"):
        whet.tensor_intrin("around")(width(8))


CELL = """
@whet.tensor_intrin("cell")
def cell(target):
    steps = [x for x in range({steps})]
    return None if target else [cell, *steps]
"""


def test_cells_that_are_run_again():
    names = {"whet": whet, "__name__": "__main__"}
    for before in ("", "\n\n# moved\n"):  # its lines do not matter
        exec(before + CELL.format(steps=3), names)
    with pytest.raises(whet.SpaceError, match=r"__main__\.cell, line \d"):
        exec(CELL.format(steps=4), names)
    with pytest.raises(whet.SpaceError, match="another function"):
        exec(CELL.format(steps=3), {**names, "__name__": "elsewhere"})

    def made():
        @whet.tensor_intrin("itself")
        def itself(target):
            return itself

        return itself

    assert made() is not made()
