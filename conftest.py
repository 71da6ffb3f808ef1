"""What every test process starts with, and what the examples in docstrings may take as given.

And how many random programs are drawn.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

EXAMPLES_TARGET = "llvm -mcpu=x86-64 -mattr=+avx2,+fma"
"""What examples print shall not depend on the machine; it is only lowered for, not run."""

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests that
# interrupt a child need it back. A handler, unlike "ignored", does not outlive an exec.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag for all tests that draw random programs."""
    parser.addoption(
        "--draws", type=int, default=None, help="how many random programs each such test draws"
    )


@pytest.fixture
def draws(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """``draws(n)``: how many random programs to draw; ``n`` unless ``--draws`` says otherwise."""
    asked = request.config.getoption("--draws")
    return lambda n: n if asked is None else asked


@pytest.fixture(autouse=True)
def examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """For doctests: ``np``, ``whet``, ``te``, ``tir`` and ``lower``, and a target with AVX2."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    import numpy as np

    import whet

    names: dict[str, Any] = {"np": np, "whet": whet, "te": whet.te, "lower": whet.lower}
    names["tir"] = whet.tir
    request.getfixturevalue("doctest_namespace").update(names)
    with whet.Target(EXAMPLES_TARGET):
        yield
