"""GEMMs whose last columns are computed apart from the tiles, with lanes along K."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cpu_gemm_checks import TWO, after, built

import whet
from whet.compiler.errors import SpaceError
from whet.search_spaces.forms.gemm import GemmSize
from whet.search_spaces.rules.cpu.gemm.knobs import ways_of
from whet.search_spaces.rules.cpu.gemm.plan import tail_at_once, tails
from whet.search_spaces.template import instantiate

ZEN4 = "llvm -mcpu=x86-64-v4 -num_threads=1 -mattr=+avx512bf16,+avx512vbmi2"


def _tail_configs(task: Any, rng: np.random.Generator, count: int) -> list[Any]:
    """Drawn configs with a tail."""
    space = task.config_space
    drawn = map(space.decode, space.valid_points.sample(rng, 4000))
    found = [c for c in drawn if c.choice("tail")]
    assert found
    return found[:count]


def _compare(
    task: Any, config: Any, rng: np.random.Generator, transposed: bool, epilogue: tuple = ()
) -> None:
    """Against numpy in float64; the output is poisoned, and what stands behind it."""
    assert config.choice("tail"), config
    f, tensors = built(task, config)
    shapes = [tuple(map(int, t.shape)) for t in tensors]
    given = [rng.standard_normal(x).astype(t.dtype) for x, t in zip(shapes[:-1], tensors)]
    size = int(np.prod(shapes[-1]))
    room = np.full(size + 64, np.nan, tensors[-1].dtype)
    out = room[:size].reshape(shapes[-1])
    f(*given, out)
    a, b = (x.astype("float64") for x in given[:2])
    right = after(epilogue, a @ (b.swapaxes(-1, -2) if transposed else b), given[2:])
    near = 2e-5 if out.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(out, right, rtol=near, atol=near * 30, err_msg=str(config))
    assert np.isnan(room[size:]).all()


def _lanes(dtype: str = "float32") -> int:
    return min(whet.Target(TWO).vector_bytes, 32) // np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
def test_numbers(dtype: str, transposed: bool, seeds: Any) -> None:
    lanes = _lanes(dtype)
    for seed in seeds(2):
        rng = np.random.default_rng(seed)
        n, k = (int(rng.integers(low, high)) for low, high in ((2, 40), (lanes, 5 * lanes)))
        m = lanes * int(rng.integers(1, 5)) + int(rng.integers(1, lanes))
        task = whet.create_task("matmul", args=(n, k, m, False, transposed, dtype), target=TWO)
        for config in _tail_configs(task, rng, 2):
            _compare(task, config, rng, transposed)


def test_batches_and_epilogues(seeds: Any) -> None:
    lanes = _lanes()
    for seed in seeds(1):
        rng = np.random.default_rng(seed)
        for transposed in (False, True):
            args: tuple = (3, 17, 3 * lanes + 1, 2 * lanes + 1, False, transposed)
            task = whet.create_task("batch_matmul", args=args, target=TWO)
            for config in _tail_configs(task, rng, 2):
                _compare(task, config, rng, transposed)
        steps = ("bias", "relu")
        args = (21, 2 * lanes, 3 * lanes + 2, False, False, "float32", steps)
        task = whet.create_task("matmul", args=args, target=TWO)
        (config,) = _tail_configs(task, rng, 1)
        _compare(task, config, rng, False, steps)


def test_rows_may_have_the_tail() -> None:
    """Of operands that both lie along K, either may be the one of the columns."""
    lanes, rng = _lanes(), np.random.default_rng(3)
    args = (2 * lanes + 1, 3 * lanes, 6 * lanes, False, True)
    task = whet.create_task("matmul", args=args, target=TWO)
    space = task.config_space
    drawn = [space.decode(p) for p in space.valid_points.sample(rng, 4000)]
    found = [c for c in drawn if c.choice("tail") and c.choice("lanes") == "rows"]
    _compare(task, found[0], rng, True)


def test_infinities_stay_in_their_rows() -> None:
    """The rest of K is multiplied by nothing else: zeros and infinity would make NaN."""
    lanes, rng = _lanes(), np.random.default_rng(4)
    n, k, m = 11, 2 * lanes + 1, lanes + 1
    task = whet.create_task("matmul", args=(n, k, m, False, True), target=TWO)
    (config,) = _tail_configs(task, rng, 1)
    f, _ = built(task, config)
    a, b = (np.ones(shape, "float32") for shape in ((n, k), (m, k)))
    c = np.full((n, m), np.nan, "float32")
    for place in (0, lanes - 1, k - lanes, k - 1):
        a[:] = 1
        a[3, place] = np.inf
        f(a, b, c)
        assert np.isinf(c[3]).all() and (np.delete(c, 3, 0) == k).all(), config


@pytest.mark.parametrize("level, lanes", [("v3", 8), ("v4", 8)])
def test_loops(level: str, lanes: int) -> None:
    """Tiles of whole vectors beside it; sums along K in vectors, transposed without a branch."""
    target = f"llvm -mcpu=x86-64-{level} -num_threads=1"
    for n, transposed in ((31, False), (120, True)):
        task = whet.create_task("matmul", args=(n, 45, 34, False, transposed), target=target)
        for config in _tail_configs(task, np.random.default_rng(5), 3):
            with task.target:
                text = str(whet.lower(*instantiate(task.workload, config)))
            sums = re.findall(r"^ *C_tiles\S*\[(?:ramp\()?.*?, 1, (\d+)\)\] = .*\+", text, re.M)
            bits = config.as_dict().get("vector_bits", 256)
            assert set(sums) == {str(bits // 32)}, config
            assert config.choice("tile")[1] == 32
            assert re.search(rf"\bV\[ramp\(.*, 1, {lanes}\)\] = V\[.*A\[ramp", text)
            assert "Z[" in text and not re.search(r"[VW]\[ramp\([^]]*, 8, 8\)\]", text), config


def test_the_default_has_a_tail_where_vectors_would_be_empty() -> None:
    def default(*sizes: int, **more: Any) -> int:
        return ways_of(GemmSize(*sizes, **more), whet.Target(ZEN4)).default.tail

    assert default(31, 64, 33, 64) == 1
    assert default(49, 32, 49, 96, transpose_b=True) == 1
    assert default(64, 64, 36) == 4
    assert default(64, 64, 39) == 0  # seven dot products are no less than a vector
    assert default(64, 64, 32) == default(512, 512, 513) == 0


def test_where_there_is_no_tail() -> None:
    def found(*sizes: int, **more: Any) -> tuple[int, ...]:
        return tails(GemmSize(*sizes, **more), 512)

    assert found(31, 64, 33) == (0, 1)
    assert found(31, 64, 5) == found(31, 7, 33) == found(31, 64, 129) == (0,)
    for more in ({"transpose_a": True}, {"packed": True}, {"staged": (True, False)}):
        assert found(31, 64, 33, **more) == (0,)
    assert [tail_at_once(n, 8, 32) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 3, 2, 1, 3]
    assert tail_at_once(4, 8, 16) == 1


def test_blocks_beside_a_tail_are_whole() -> None:
    """A tail of 15 strips in blocks of 8 would have a branch around what is transposed."""
    target = "llvm -mcpu=x86-64-v3 -num_threads=1"
    task = whet.create_task("matmul", args=(60, 45, 17), target=target)
    chosen = {**task.config_space.default.as_dict(), "tail": 1, "tile": (4, 16)}
    chosen |= {"lanes": "columns", "order": "rows", "k_block": 0, "prefetch": 0, "unroll_k": 1}
    assert task.config_space.from_choices({**chosen, "block": 16}).choice("tail") == 1
    for block in (1, 8):  # 4 rows are half a vector
        with pytest.raises(SpaceError, match="leaves_tail"):
            task.config_space.from_choices({**chosen, "block": block})
