"""The state that every test process starts with, and that examples in docstrings assume."""

from __future__ import annotations

import gc
import os
import random
import re
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

EXAMPLES_TARGET = "llvm -mcpu=x86-64 -mattr=+avx2,+fma"
"""Examples print the same on every machine: they are only lowered for this target, not run."""

# Kernels in Triton's language are functions of the file itself, which imports Triton.
collect_ignore = [] if find_spec("triton") else ["whet/bench/operators/triton_kernels.py"]
# These import PyTorch, 3 s of each process that collects tests: their own tests import them.
collect_ignore += ["whet/bench/operators/in_torch.py", "whet/bench/networks/images.py"]
collect_ignore += ["whet/bench/networks/sequences.py", "whet/frontends/dynamo/backend.py"]

# A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests that
# interrupt a child need it back. A handler, unlike "ignored", does not outlive an exec.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two tests at a time take the cores: threads of numpy's would wait for each other, spinning. The
# samplers' tests take three times as long with two threads each. It stands before numpy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Models are built anew: a test that changes what builds them must not find what another one built.
os.environ.setdefault("WHET_CACHE", "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    """A flag for tests with many cases for GPUs."""
    parser.addoption(
        "--gpu-full", action="store_true", help="all cases of GPU tests, not a sample of each"
    )
    parser.addoption(
        "--aarch64", action="store_true", help="tests of numbers run all kernels for aarch64, too"
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker of tests with many cases for GPUs."""
    config.addinivalue_line(
        "markers", "gpu_matrix(count): so many of its cases run, drawn by its name; --gpu-full: all"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave a sample of the cases of each test that is marked ``gpu_matrix``."""
    if config.getoption("--gpu-full"):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("gpu_matrix"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: set[pytest.Item] = set()
    for name, of_test in cases.items():
        marker = of_test[0].get_closest_marker("gpu_matrix")
        assert marker is not None
        count = min(marker.args[0], len(of_test))
        left_out |= set(of_test) - set(random.Random(name).sample(of_test, count))
    config.hook.pytest_deselected(items=[i for i in items if i in left_out])
    items[:] = [i for i in items if i not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say to tests of numbers whether this one runs its kernels for aarch64, too."""
    aarch64 = sys.modules.get("aarch64")  # of tests/compiler; of whom it is not, nobody asks
    if aarch64 is not None:
        aarch64.choose(item.nodeid, item.config.getoption("--aarch64"))


def pytest_collection_finish() -> None:
    """Leave what was collected, thousands of tests, to no garbage collector: it stays to the end.

    It would be walked through by each full collection, a third of a second long.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def gpu_full(request: pytest.FixtureRequest) -> bool:
    """True if ``--gpu-full`` asks for all cases of tests for GPUs, not a sample."""
    return bool(request.config.getoption("--gpu-full"))


_SHOWN = re.compile(r"    (\s*(for |with T\.block|v\w+(, v\w+)* = |T\.where).*)")


def _loops(sch: Any) -> str:
    """The loops and blocks of a ``tir.Schedule``, without what they read, write and compute."""
    lines = [_SHOWN.fullmatch(line) for line in sch.mod.script().splitlines()]
    return "\n".join(m[1] for m in lines if m)


@pytest.fixture(autouse=True)
def examples(request: pytest.FixtureRequest) -> Iterator[None]:
    """For doctests: ``np``, ``whet``, ``te``, ``tir``, ``lower`` and ``loops``; AVX2."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    import numpy as np

    import whet

    names: dict[str, Any] = {"np": np, "whet": whet, "te": whet.te, "lower": whet.lower}
    names["tir"] = whet.tir
    names["loops"] = _loops
    request.getfixturevalue("doctest_namespace").update(names)
    with whet.Target(EXAMPLES_TARGET):
        yield
