"""Producers of a GEMM's operand by lines of a block: numbers, memory, and the default."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import whet
from whet import te
from whet.search_spaces.template import instantiate


def _graph(
    shape: tuple[int, ...], m: int, dtype: str = "float32", turned: bool = False
) -> list[te.Tensor]:
    """Columns of x, a sigmoid of x times x, times w; ``turned``: x is stored with K first."""
    *lead, n, k = shape
    x = te.placeholder((*lead, k, n) if turned else shape, dtype, name="x")
    b = te.placeholder((k,), dtype, name="b")
    w = te.placeholder((*lead, k, m), dtype, name="w")
    r = te.reduce_axis((0, k), name="r")

    def gated(*at: Any) -> Any:
        y = x[at] + b[at[-2] if turned else at[-1]]
        return y * te.sigmoid(y)

    h = te.compute(x.shape, gated, name="h")

    def product(*at: Any) -> Any:
        *o, i, j = at
        return te.sum(h[(*o, r, i) if turned else (*o, i, r)] * w[(*o, r, j)], axis=r)

    c = te.compute((*lead, n, m), product, name="c")
    return [x, b, w, c]


def _reference(x: np.ndarray, b: np.ndarray, w: np.ndarray, turned: bool) -> np.ndarray:
    y = x + (b[:, None] if turned else b)
    h = y / (1 + np.exp(-y))
    return (np.swapaxes(h, -1, -2) if turned else h) @ w


def _config(task: Any, **chosen: Any) -> Any:
    space = task.config_space
    rule = {"rule": "gemm"} if "rule" in space.knobs else {}
    chosen = {"pack_a": False, "k_block": 0, "staged_at": "block", **chosen}
    narrow = [tile for tile in space.knobs["tile"].choices if tile[0] < 12]
    tile = min(narrow, key=lambda tile: (tile[1], tile[0]))
    chosen |= {"lanes": "columns", "prefetch": 0, "unroll_k": 1, "tile": tile}
    config = space.nearest({**space.default.as_dict(), **rule, **chosen})
    assert all(config.choice(name) == value for name, value in chosen.items()), config
    return config


def _check(args: list[te.Tensor], config: Any, task: Any, seed: int, turned: bool = False) -> str:
    """Compare with numpy; returns the program."""
    with task.target:
        s, tensors = instantiate(task.workload, config)
        text = str(whet.lower(s, tensors))
        f = whet.build(s, tensors, task.target)
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(d) for d in a.shape) for a in args]
    given = [rng.standard_normal(shape).astype(args[0].dtype) for shape in shapes[:-1]]
    out = np.full(shapes[-1], np.nan, args[0].dtype)
    f(*given, out)
    right = _reference(*(x.astype("float64") for x in given), turned)
    near = 2e-5 if args[0].dtype == "float32" else 1e-12
    np.testing.assert_allclose(out, right, atol=near * np.abs(right).max(), err_msg=str(config))
    return text


@pytest.mark.parametrize("target", ["llvm -num_threads=1", "llvm -num_threads=3"])
@pytest.mark.parametrize(
    "way",
    [
        {"order": "rows", "block": 2, "pack_b": "whole"},
        {"order": "rows", "block": 1, "pack_b": "none"},
        {"order": "panels", "block": 1, "pack_b": "block"},
    ],
    ids=str,
)
def test_lines_of_a_block(
    target: str, way: dict[str, Any], seeds: Callable[[int], list[int]]
) -> None:
    args = _graph((2, 29, 24), 40)
    task = whet.create_task(outputs=[args[-1]], args=args, target=target)
    shares = ("blocks", "tiles", "batch") if "share" in task.config_space.knobs else (None,)
    for share in shares:
        if share == "tiles" and way["pack_b"] == "block":
            continue
        more = {"share": share, "parallel": True} if share else {}
        text = _check(args, _config(task, **way, **more), task, seeds(1)[0])
        if share == "tiles":  # that several tiles read: before their loop
            found = re.search(r"h_lines = allocate\(\[(\d+)\]", text)
            assert found and int(found[1]) >= 2 * 29 * 24, text


@pytest.mark.parametrize("turned", [False, True])
def test_doubles_and_operands_with_k_first(turned: bool, seeds: Callable[[int], list[int]]) -> None:
    args = _graph((37, 20), 24, "float64", turned)
    task = whet.create_task(outputs=[args[-1]], args=args, target="llvm -num_threads=2")
    config = _config(task, order="rows", block=1, pack_b="whole")
    _check(args, config, task, seeds(1)[0], turned)


def test_a_block_has_memory_for_its_lines_alone(seeds: Callable[[int], list[int]]) -> None:
    """Ragged rows too: 29 of them in blocks of two tiles."""
    args = _graph((29, 40), 37)
    task = whet.create_task(outputs=[args[-1]], args=args, target="llvm -num_threads=1")
    config = _config(task, order="rows", block=2, pack_b="whole")
    text = _check(args, config, task, seeds(1)[0])
    rows = 2 * config.choice("tile")[0]
    assert re.search(rf"h_lines = allocate\(\[{rows * 40}\]", text), text
    root = _config(task, order="rows", block=2, pack_b="whole", staged_at="root")
    assert "h_lines" not in _check(args, root, task, seeds(2)[1])


def test_long_producers_are_computed_by_blocks() -> None:
    for rows, place in ((8, "root"), (1024, "block")):
        args = _graph((rows, 256), 256)
        task = whet.create_task(outputs=[args[-1]], args=args, target="llvm -mcpu=x86-64-v3")
        assert task.config_space.default.choice("staged_at") == place
