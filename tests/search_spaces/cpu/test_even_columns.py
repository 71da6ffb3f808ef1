"""Chains over columns: blocks of columns that leave little over, which would be computed twice."""

import numpy as np
import pytest

import whet
from whet.search_spaces.rules.cpu.loops import even_size


@pytest.mark.parametrize(
    ("extent", "lanes", "size", "most", "even"),
    [
        (513, 16, 128, 12, 176),  # 3 blocks of 11 registers: 528 columns instead of 640
        (513, 8, 64, 6, 48),
        (129, 16, 32, 12, 48),
        (512, 16, 128, 24, 128),
        (777, 16, 128, 24, 160),
        (7, 8, 4, 12, 4),
        (16, 16, 16, 12, 16),
        (40, 16, 32, 1, 32),
    ],
)
def test_blocks_with_the_least_left_over(extent, lanes, size, most, even):
    assert even_size(extent, lanes, size, most) == even


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_sums_of_a_block_fit_the_registers(level):
    for columns in (513, 1000, 301):
        task = whet.create_task(
            "argmin", args=((50, columns), 0), target=f"llvm -mcpu={level} -num_threads=1"
        )
        vector = task.config_space.default["vector"].val
        registers = 2 * vector * 4 // task.target.vector_bytes  # of values and of places
        assert registers <= (24 if level == "x86-64-v4" else 12)
        assert -(-columns // vector) * vector <= 1.1 * columns


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(23, 129), (17, 53), (9, 777)])
def test_numbers_of_columns(shape, dtype, seeds):
    rng = np.random.default_rng(next(iter(seeds(1))))
    x = rng.standard_normal(shape).astype(dtype)
    target = "llvm -num_threads=2"
    y = np.full(shape, np.nan, dtype)
    whet.build(whet.create_task("softmax", args=(shape, 0, dtype), target=target))(x, y)
    e = np.exp(x.astype("float64"))
    np.testing.assert_allclose(y, e / e.sum(0), rtol=1e-5 if dtype == "float32" else 1e-12)
    place = np.full(shape[1], -1, "int32")
    whet.build(whet.create_task("argmin", args=(shape, 0, dtype), target=target))(x, place)
    assert (place == x.argmin(0)).all()
