"""The examples in the docstrings of the schedule primitives print what they say."""

import doctest

import pytest

from whet.compiler import driver, te
from whet.compiler.target import Target
from whet.compiler.te import schedule, stage
from whet.compiler.te.primitives.checks import ON_STAGE


def examples():
    found = [getattr(stage.Stage, name) for name in ON_STAGE]
    on_schedule = schedule.Schedule
    return [*found, on_schedule.cache_write, on_schedule.cache_read, on_schedule.rfactor]


@pytest.mark.parametrize("method", examples(), ids=lambda m: m.__name__)
def test_the_loops_before_and_after(method):
    names = {"te": te, "lower": driver.lower}
    test = doctest.DocTestParser().get_doctest(
        method.__doc__, names, method.__name__, method.__code__.co_filename, 0
    )
    assert sum("print(lower(" in e.source for e in test.examples) >= 2  # before and after
    text: list[str] = []
    with Target("llvm -mcpu=x86-64 -mattr=+avx2,+fma"):
        outcome = doctest.DocTestRunner().run(test, out=text.append)
    assert outcome.failed == 0, "".join(text)


def test_every_primitive_is_here():
    public = {
        n for n in dir(stage.Stage) if not n.startswith("_") and callable(getattr(stage.Stage, n))
    }
    assert public - {
        "reset_axes",
        "copied",
        "record",
        "attr",
        "detach",
        "move",
        "put",
    } == set(ON_STAGE)
