"""Register tiles of GEMMs: whole vectors at ragged edges, two widths of vectors, prefetched B."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cpu_gemm_checks import TWO, built, check

import whet
from whet import te
from whet.compiler.errors import SpaceError
from whet.search_spaces.rules.cpu.gemm.registers import register_tiles
from whet.search_spaces.rules.vectors import lanes_of, vector_widths
from whet.search_spaces.template import instantiate

WIDE = f"{TWO} -vector-bytes=64"
"""Vectors of 512 bits."""
LANES = {"v2": 4, "v3": 8, "v4": 16}


def _needs(width: int) -> None:
    """Skip where this processor's vectors are narrower: it is asked for no more than it has."""
    if whet.Target(TWO).vector_bytes < width:
        pytest.skip(f"this processor has no vectors of {width} bytes")


def _level(level: str) -> str:
    return f"llvm -mcpu=x86-64-{level} -num_threads=1"


def _config(task: Any, **chosen: Any) -> Any:
    """The default without a tail, with other choices."""
    space = task.config_space
    default = space.default.as_dict()
    return space.from_choices({**default, **dict.fromkeys({"tail"} & {*default}, 0), **chosen})


def _lowered(task: Any, config: Any) -> str:
    with task.target:
        return str(whet.lower(*instantiate(task.workload, config)))


def _loop_over_k(text: str) -> list[str]:
    """The lines that sum up: a product is added to what the tile has."""
    return [line for line in text.splitlines() if re.search(r"C_tiles\w*\[.*\] \+ .* \* ", line)]


def _compare(task: Any, config: Any, *, seed: int = 0) -> None:
    """A matmul of (N, K) and (K, M) against numpy in float64, the output poisoned before."""
    f, tensors = built(task, config)
    rng = np.random.default_rng(seed)
    a, b, c = (np.empty(tuple(map(int, t.shape)), t.dtype) for t in tensors)
    a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    c.fill(np.nan)
    f(a, b, c)
    right = a.astype("float64") @ b.astype("float64")
    near = 2e-5 if c.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(c, right, rtol=near, atol=near * 30, err_msg=str(config))


# edges


@pytest.mark.parametrize("level", LANES)
@pytest.mark.parametrize("sizes", [(47, 47, 47), (129, 60, 77), (7, 7, 7), (13, 64, 1000)], ids=str)
def test_sums_have_whole_vectors_only(level: str, sizes: tuple) -> None:
    task = whet.create_task("matmul", args=sizes, target=_level(level))
    for pack_b in ("none", "whole"):
        if level == "v2" and pack_b == "none":
            continue  # without masked loads both edges may not be ragged
        choices = {"k_block": 0, "lanes": "columns", "block": 1, "unroll_k": 1, "prefetch": 0}
        choices |= {"pack_b": pack_b}
        config = _config(task, **choices)
        bits = config.as_dict().get("vector_bits", 32 * LANES[level])
        lines = _loop_over_k(_lowered(task, config))
        assert lines
        for line in lines:
            stored = re.match(r"\s*C_tiles\w*\[ramp\(.*?, 1, (\d+)\)\] = ", line)
            assert stored and int(stored[1]) == bits // 32, line


@pytest.mark.parametrize("level", ["v3", "v4"])
def test_b_in_place_is_masked_where_both_edges_are_ragged(level: str) -> None:
    """No lane is gathered; masks are of columns beyond the end alone."""
    task = whet.create_task("matmul", args=(47, 300, 1001), target=_level(level))
    config = _config(task, lanes="columns", pack_b="none", pack_a=False, order="panels", k_block=0)
    lines = _loop_over_k(_lowered(task, config))
    assert any(re.search(r"B\[ramp\(.*?\)\] where .* < broadcast\(1001", line) for line in lines)
    assert not any("min(" in line.split("B[")[1] for line in lines)


def test_without_masked_loads_b_in_place_needs_one_even_edge() -> None:
    task = whet.create_task("matmul", args=(47, 300, 1001), target=_level("v2"))
    with pytest.raises(SpaceError, match="gathered lane by lane"):
        _config(task, lanes="columns", tile=(4, 12), pack_b="none")


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_sizes(width: int, dtype: str, seeds: Callable[[int], list[int]]) -> None:
    _needs(width)
    rng = np.random.default_rng(seeds(1)[0])
    for seed in range(4):
        n, k, m = (int(x) for x in rng.integers(1, 50, 3))
        target = f"{TWO} -vector-bytes={width}"
        task = whet.create_task("matmul", args=(n, k, m, False, False, dtype), target=target)
        _compare(task, task.config_space.default, seed=seed)
        for point in task.config_space.valid_points.sample(rng, 2):
            _compare(task, task.config_space.decode(point), seed=seed)


@pytest.mark.parametrize("k_block", [0, 8])
def test_nothing_beyond_the_end_of_b_is_summed(k_block: int) -> None:
    """What lies behind a row of B is the next row: infinite there, it must not be seen."""
    _needs(64)
    task = whet.create_task("matmul", args=(13, 32, 37), target=WIDE)
    config = _config(
        task, lanes="columns", vector_bits=512, tile=(4, 48), order="panels", block=1, unroll_k=1,
        pack_b="none", pack_a=False, k_block=k_block,
    )  # fmt: skip
    f, _ = built(task, config)
    rng = np.random.default_rng(3)
    a = rng.standard_normal((13, 32)).astype("float32")
    wide = np.full((32, 37), np.inf, "float32")
    wide[:, 5:] = rng.standard_normal((32, 32))
    c = np.full((13, 37), np.nan, "float32")
    f(a, wide, c)
    np.testing.assert_allclose(c[:, 5:], a.astype("float64") @ wide[:, 5:], atol=1e-4)


@pytest.mark.parametrize(("level", "masks"), [("v2", False), ("v3", False), ("v4", True)])
def test_a_known_end_is_stored_in_smaller_vectors_where_masks_cost(level: str, masks: bool) -> None:
    task = whet.create_task("matmul", args=(12, 7, 29), target=_level(level))
    config = _config(task, lanes="columns", k_block=0, pack_b="whole", block=1, prefetch=0)
    with task.target:
        text = whet.build(*instantiate(task.workload, config), task.target).get_source("ll")
    assert ("@llvm.masked.store" in text) == masks


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_is_stored_beyond_the_end(width: int, dtype: str) -> None:
    _needs(width)
    for columns in (9, 13, 29, 31):
        args = (12, 7, columns, False, False, dtype)
        task = whet.create_task("matmul", args=args, target=f"{TWO} -vector-bytes={width}")
        config = _config(task, lanes="columns", pack_b="whole", block=1, prefetch=0)
        f, _ = built(task, config)
        rng = np.random.default_rng(columns)
        a, b = (rng.standard_normal(s).astype(dtype) for s in ((12, 7), (7, columns)))
        room = np.full(12 * columns + 64, np.nan, dtype)
        c = room[: 12 * columns].reshape(12, columns)
        f(a, b, c)
        np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-4, atol=1e-5)
        assert np.isnan(room[12 * columns :]).all()


def test_panels_of_a_ragged_b_are_transposed_in_squares() -> None:
    """The last panel repeats the last column: rows that are clamped, not lanes."""
    task = whet.create_task("matmul", args=(12, 64, 100, False, True), target=_level("v3"))
    text = _lowered(task, _config(task, lanes="columns", tile=(6, 16), pack_b="whole", block=1))
    assert "shuffle([" in text and "B_packed[ramp(" in text
    clamped = [line for line in text.splitlines() if "min(" in line and "B[" in line]
    assert clamped and all("shuffle([" in line for line in clamped)
    for sizes in ((12, 64, 100, False, True), (50, 24, 20, False, False), (9, 37, 51, False, True)):
        task = whet.create_task("matmul", args=sizes, target=TWO)
        for pack_a in (False, True):
            config = _config(task, lanes="columns", block=1, pack_a=pack_a, prefetch=0)
            f, _ = built(task, config)
            rng = np.random.default_rng(2)
            a, b = (rng.standard_normal(s).astype("float32") for s in (sizes[:2], sizes[1:3]))
            c = np.full((sizes[0], sizes[2]), np.nan, "float32")
            f(a, np.ascontiguousarray(b.T) if sizes[4] else b, c)
            np.testing.assert_allclose(c, a.astype("float64") @ b, atol=2e-4)


def test_blocks_are_as_even_as_they_can_be() -> None:
    """17 panels in blocks of at most 16 are 9 and 8: not 32 are summed up, but 18."""
    target = _level("v2")
    rows, columns = register_tiles(whet.Target(target), 4, 8, 752)[0]
    chosen = dict(lanes="columns", tile=(rows, columns), order="panels", block=16, k_block=128)
    chosen |= dict(pack_b="whole", prefetch=0, unroll_k=1, pack_a=False)
    task = whet.create_task("matmul", args=(8, 256, 17 * columns), target=target)
    text = _lowered(task, _config(task, **chosen))
    assert "range(9)" in text and "range(16)" not in text
    lanes = lanes_of(whet.Target(TWO), "float32")
    here = whet.create_task("matmul", args=(8, 256, 17 * lanes), target=TWO)
    tiles = register_tiles(here.target, lanes, 8, 17 * lanes)
    _compare(here, _config(here, **{**chosen, "tile": min(tiles, key=lambda tile: tile[1])}))


# the width of vectors


def test_width_is_a_knob_where_the_target_has_two() -> None:
    widths = {level: vector_widths(whet.Target(_level(level))) for level in LANES}
    assert widths == {"v2": (128,), "v3": (256,), "v4": (512, 256)}
    for level, choices in widths.items():
        task = whet.create_task("matmul", args=(64, 64, 64), target=_level(level))
        knob = task.config_space.knobs.get("vector_bits")
        assert (knob is None) == (len(choices) == 1)
        assert knob is None or knob.choices == choices


@pytest.mark.parametrize("bits", [512, 256])
def test_tiles_are_made_of_vectors_of_the_width(bits: int) -> None:
    target = whet.Target(_level("v4"))
    task = whet.create_task("matmul", args=(33, 40, 72), target=target)
    tile = register_tiles(target, bits // 32, 33, 72)[0]
    config = _config(task, lanes="columns", vector_bits=bits, tile=tile, block=1)
    text = _lowered(task, config)
    assert {int(n) for n in re.findall(r"C_tiles\w*\[ramp\([^\[]*?, 1, (\d+)\)\]", text)} == {
        bits // 32
    }
    drawn = task.config_space.valid_points.sample(np.random.default_rng(0), 60)
    for one in map(task.config_space.decode, drawn):
        assert one.choice("tile")[1] % (one.choice("vector_bits") // 32) == 0


def test_a_tile_of_the_other_width_is_refused() -> None:
    task = whet.create_task("matmul", args=(33, 40, 72), target=_level("v4"))
    with pytest.raises(SpaceError, match="is_of_width"):
        _config(task, vector_bits=512, tile=(4, 24))


@pytest.mark.parametrize("bits", [512, 256])
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("matmul", (45, 31, 2, True, True)),
        ("matmul", (31, 45, 23, False, True)),
        ("matmul", (31, 45, 23, False, False, "float64")),
        ("batch_matmul", (3, 19, 21, 23)),
    ],
)
def test_both_widths_against_numpy(bits: int, name: str, args: tuple) -> None:
    _needs(64)
    task = whet.create_task(name, args=args, target=WIDE)
    points = map(
        task.config_space.decode,
        task.config_space.valid_points.sample(np.random.default_rng(1), 60),
    )
    configs = [x for x in points if x.choice("vector_bits") == bits][:4]
    assert len(configs) == 4
    for config in configs:
        f, tensors = built(task, config)
        rng = np.random.default_rng(7)
        a, b, c = (rng.standard_normal(tuple(map(int, t.shape))).astype(t.dtype) for t in tensors)
        c.fill(np.nan)
        f(a, b, c)
        turned = [*args[-2:], *(False,)] if name == "batch_matmul" else list(args[3:5])
        left = a.astype("float64")
        right = b.astype("float64")
        if name == "matmul" and turned:
            left = left.T if turned[0] else left
            right = right.T if turned[1] else right
        np.testing.assert_allclose(c, left @ right, rtol=1e-4, atol=1e-4, err_msg=str(config))


# prefetch


def _fetched(text: str) -> list[str]:
    return re.findall(r"prefetch\(tvm_access_ptr\((.*?)\], 1, 1\)", text)


def test_b_in_place_is_prefetched_so_many_steps_ahead() -> None:
    task = whet.create_task("matmul", args=(17, 512, 256), target=_level("v3"))
    chosen = {"pack_b": "none", "k_block": 0, "unroll_k": 4, "lanes": "columns"}
    assert not _fetched(_lowered(task, _config(task, **chosen, prefetch=0)))
    for ahead in (8, 16):
        places = _fetched(_lowered(task, _config(task, **chosen, prefetch=ahead)))
        assert places
        for place in places:  # rows of 256 elements, four of them in a step of the loop
            assert place.startswith("B[")
            assert int(place.rsplit("+ ", 1)[1]) % (256 * ahead) < 256, place


def test_panels_that_a_call_makes_are_not_prefetched() -> None:
    task = whet.create_task("matmul", args=(17, 512, 256), target=_level("v3"))
    with pytest.raises(SpaceError, match="panels that a call has just made"):
        _config(task, pack_b="whole", prefetch=8)


def test_prefetches_change_no_number() -> None:
    for sizes in ((17, 130, 257), (1, 512, 300), (5, 64, 16)):
        task = whet.create_task("matmul", args=sizes, target=TWO)
        space = task.config_space
        points = map(space.decode, space.valid_points.sample(np.random.default_rng(4), 200))
        for config in [x for x in points if x.choice("pack_b") == "none"][:2]:
            for ahead in space.knobs["prefetch"].choices:
                _compare(task, space.from_choices({**config.as_dict(), "prefetch": ahead}))


def test_weights_packed_ahead_are_prefetched_too() -> None:
    args = (4, 256, 330, False, False, "float32", (), True)
    task = whet.create_task("matmul", args=args, target=TWO)
    config = _config(task, prefetch=16)
    assert any(place.startswith("B_packed[") for place in _fetched(_lowered(task, config)))
    f, _ = built(task, config)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((4, 256), (256, 330)))
    c = np.full((4, 330), np.nan, "float32")
    f(a, f.pack_weights(b), c)
    np.testing.assert_allclose(c, a.astype("float64") @ b, atol=2e-4)


def test_a_b_that_the_graph_computes_is_prefetched_where_it_is_kept() -> None:
    a, w = te.placeholder((6, 128), name="A"), te.placeholder((128, 96), name="W")
    b = te.compute((128, 96), lambda k, j: te.max(w[k, j], 0.0) * 2.0, name="B")
    k = te.reduce_axis((0, 128), name="k")
    c = te.compute((6, 96), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    task = whet.create_task(outputs=[c], args=[a, w, c], target=TWO)
    space = task.config_space
    name = next(x for x in space.knobs if x.endswith("prefetch"))
    prefix = name.removesuffix("prefetch")
    for ahead in (0, 16):
        config = _config(task, **{name: ahead, f"{prefix}pack_b": "none"})
        f, _ = built(task, config)
        rng = np.random.default_rng(5)
        x, y = (rng.standard_normal(s).astype("float32") for s in ((6, 128), (128, 96)))
        out = np.full((6, 96), np.nan, "float32")
        f(x, y, out)
        right = x.astype("float64") @ (2 * np.maximum(y.astype("float64"), 0))
        np.testing.assert_allclose(out, right, atol=2e-3)


def test_a_matrix_times_a_vector_is_prefetched() -> None:
    args = (1, 2048, 300, False, True)
    task = whet.create_task("matmul", args=args, target=_level("v3"))
    config = _config(task, vectors=1, rows=2, unroll_k=4, prefetch=512)
    places = _fetched(_lowered(task, config))
    assert places and all(int(place.rsplit("+ ", 1)[1]) % 2048 >= 512 for place in places)
    for ahead in (0, 128, 512):
        task = whet.create_task("matmul", args=args, target=TWO)
        f, _ = built(task, _config(task, prefetch=ahead))
        rng = np.random.default_rng(ahead)
        a, b = (rng.standard_normal(s).astype("float32") for s in ((1, 2048), (300, 2048)))
        c = np.full((1, 300), np.nan, "float32")
        f(a, b, c)
        np.testing.assert_allclose(c, a.astype("float64") @ b.T, atol=1e-3)


def test_other_epilogues_and_edges_at_both_widths() -> None:
    _needs(64)

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a @ b

    args = (21, 33, 43, False, False, "float32", ("bias", "relu"))
    check("matmul", args, product, epilogue=("bias", "relu"), target=WIDE, count=6, seed=11)
