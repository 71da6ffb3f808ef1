"""Gathers along an axis before the last: blocks of columns, whose table stays in caches."""

import itertools

import numpy as np
import pytest

import whet
from whet.compiler import driver

TARGET = "llvm -num_threads=2"


def tables(shape, rows, axis, dtype):
    seed = int(np.random.SeedSequence().entropy % 2**32)
    print("seed", seed)
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    places = rng.integers(0, shape[axis], rows).astype("int32")
    return x, places, np.full(rows, 77, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize(
    "shape, rows, axis", [((37, 300), (23, 291), 0), ((3, 9, 130), (3, 5, 130), 1)]
)
def test_blocks_of_columns_are_right(shape, rows, axis, dtype):
    task = whet.create_task("gather", args=(shape, rows, axis, dtype), target=TARGET)
    x, places, out = tables(shape, rows, axis, dtype)
    wanted = np.take_along_axis(x[tuple(map(slice, (*rows[:axis], None, *rows[axis + 1 :])))],
                                places, axis)  # fmt: skip
    space = task.config_space
    vectors = space.knobs["vector"].choices
    for columns, vector in itertools.product((0, 64, 128), (1, vectors[1])):
        choices = space.default.as_dict() | {"columns": columns, "vector": vector}
        config = space.from_choices(choices)
        schedule, tensors = task.instantiate(config)
        out.fill(77)
        driver.build(schedule, tensors, target=task.target)(x, places, out)
        np.testing.assert_array_equal(out, wanted, err_msg=str(config))


@pytest.mark.parametrize(
    "args, columns",
    [
        (((1000, 512), (500, 512), 0), 256),
        (((12, 512), (500, 512), 0), 0),  # the first cache holds the table
        (((1000, 200), (500, 200), 0), 0),
        (((500, 1000), (500, 512), 1), None),  # a row points into itself
    ],
)
def test_large_tables_are_gathered_by_blocks(args, columns):
    space = whet.create_task("gather", args=args, target=TARGET).config_space
    assert space.default.as_dict().get("columns") == columns


def test_rows_that_are_taken_whole_have_no_blocks():
    task = whet.create_task("take", args=((3000, 768), (64,), 0), target=TARGET)
    assert "columns" not in task.config_space.default.as_dict()


def test_a_table_counts_by_the_rows_that_are_taken():
    """Rows of 1.5 MB stay in the caches, however large their table is."""
    task = whet.create_task("take", args=((30522, 768), (512,), 0), target=TARGET)
    assert task.config_space.default["stream"].val is False
