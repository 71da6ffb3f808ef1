"""A task whose candidates are never built: its costs come from a formula, through a replay pool."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from autotune_synthetic import gemm_cost, gemm_template, small_cost, small_template

from whet.autotune import create_task
from whet.measure import ReplayPool


@pytest.fixture
def gemm():
    return create_task(gemm_template, args=(768, 1152, 512), target="llvm")


@pytest.fixture
def small():
    return create_task(small_template, args=(64,), target="llvm")


@pytest.fixture
def gemm_pool():
    return ReplayPool(lambda inp: gemm_cost(inp.config))


@pytest.fixture
def small_pool():
    return ReplayPool(lambda inp: small_cost(inp.config))
