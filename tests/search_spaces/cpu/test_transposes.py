"""What reads across, in shifted blocks: odd sizes and permutations at every width, exactly."""

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.target import Target

LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}
DRAWN = 3
HOST = Target("llvm").vector_bytes
here = [n for n, size in LEVELS.items() if size <= HOST]


def permuted(shape, axes, dtype="float32"):
    X = te.placeholder(shape, dtype, name="X")
    return [X], topi.transpose(X, axes), lambda x: x.transpose(axes)


def with_arithmetic(n, m):
    """Elementwise work around the transpose, another read in order, a broadcast one."""
    A, B, b = (te.placeholder(s, name=x) for s, x in (((m, n), "A"), ((n, m), "B"), ((n,), "b")))
    C = te.compute((n, m), lambda i, j: te.max(A[j, i] * 2.0 + B[i, j] + b[i], 0.0), name="C")
    return [A, B, b], C, lambda a, c, b: np.maximum(a.T * 2 + c + b[:, None], 0)


CASES = {
    "odd": lambda: permuted((37, 45), (1, 0)),
    "a line more": lambda: permuted((17, 65), (1, 0)),
    "narrow": lambda: permuted((203, 5), (1, 0)),
    "flat": lambda: permuted((6, 131), (1, 0)),
    "batched": lambda: permuted((3, 19, 23), (0, 2, 1)),
    "reversed": lambda: permuted((5, 18, 33), (2, 1, 0)),
    "to channels last": lambda: permuted((2, 3, 7, 19), (0, 2, 3, 1)),
    "to channels first": lambda: permuted((2, 9, 13, 3), (0, 3, 1, 2)),
    "two channels": lambda: permuted((2, 2, 5, 21), (0, 2, 3, 1)),
    "four channels": lambda: permuted((1, 11, 13, 4), (0, 3, 1, 2)),
    "channels": lambda: permuted((2, 20, 7, 9), (0, 2, 3, 1)),
    "heads": lambda: permuted((2, 17, 3, 8), (0, 2, 1, 3)),
    "doubles": lambda: permuted((29, 21), (1, 0), "float64"),
    "integers": lambda: permuted((29, 34), (1, 0), "int32"),
    "bytes": lambda: permuted((29, 34), (1, 0), "int8"),
    "halves": lambda: permuted((45, 70), (1, 0), "float16"),
    "channels of halves": lambda: permuted((2, 9, 13, 20), (0, 3, 1, 2), "float16"),
    "many bytes": lambda: permuted((3, 70, 45), (0, 2, 1), "uint8"),
    "rows that share a set": lambda: permuted((512, 70), (1, 0)),
    "arithmetic": lambda: with_arithmetic(35, 50),
}


def drawn_inputs(given, rng):
    out = []
    for t in given:
        shape = [int(d) for d in t.shape]
        out.append(rng.integers(0, 99, shape).astype(t.dtype))
    return out


@pytest.mark.parametrize("level", here)
@pytest.mark.parametrize("name", CASES)
def test_drawn_configs_are_exact(name, level):
    given, out, reference = CASES[name]()
    target = f"llvm -num-threads=2 -mcpu={level}"
    task = whet.create_task(outputs=[out], args=[*given, out], target=target)
    rng = np.random.default_rng(len(name))
    space = task.config_space
    configs = [space.default, *(space.sample(rng) for _ in range(DRAWN))]
    for config in {c.key: c for c in configs}.values():
        schedule, args = task.instantiate(config)
        kernel = whet.build(schedule, args, target=task.target)
        values = drawn_inputs(given, rng)
        wanted = reference(*values)
        made = np.full(wanted.shape, 77, out.dtype)
        kernel(*values, made)
        np.testing.assert_array_equal(made, wanted, err_msg=str(config))


def text_of(shape, level, axes=None, **chosen):
    task = whet.create_task("transpose", args=(shape, axes), target=f"llvm -mcpu={level}")
    space = task.config_space
    config = space.from_choices({**space.default.as_dict(), **chosen})
    schedule, args = task.instantiate(config)
    with task.target:
        return str(whet.lower(schedule, args)), config.as_dict()


@pytest.mark.parametrize("level", LEVELS)
def test_odd_sizes_have_neither_masks_nor_tails(level):
    text, _ = text_of((203, 301), level)
    assert "if " not in text and "mask" not in text and "shuffle" in text


@pytest.mark.parametrize("shape, axes", [((8, 3, 37, 41), (0, 2, 3, 1)), ((8, 37, 41, 3), None)])
def test_three_channels_are_whole_vectors(shape, axes):
    text, _ = text_of(shape, "x86-64-v3", axes or (0, 3, 1, 2))
    assert ", 3, 8)" not in text and "shuffle" in text


def test_rows_that_share_a_set_go_through_a_buffer():
    _, plain = text_of((1000, 1500), "x86-64-v3")
    _, shared = text_of((1024, 1024), "x86-64-v3")
    assert (plain["buffer"], shared["buffer"]) == (False, True)


def test_axes_side_by_side_count_as_one():
    """56 columns are no multiple of 16 lanes, 56 x 56 pixels are."""
    text, config = text_of((1, 64, 56, 56), "x86-64-v4", (0, 2, 3, 1))
    assert config["square"] == 16 and "min(" not in text
