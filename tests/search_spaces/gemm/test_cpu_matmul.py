"""The matmul template: every transposition, epilogue, target and edge, under drawn configs."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_gemm_checks import ONE, TWO, built, check, drawn

import whet
from whet.compiler.errors import ArgumentError
from whet.search_spaces.graph.graph_templates import graph_version
from whet.search_spaces.rules.cpu.gemm.registers import register_tiles
from whet.search_spaces.template import get_template


def _product(transpose_a: bool = False, transpose_b: bool = False):
    def of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (a.T if transpose_a else a) @ (b.T if transpose_b else b)

    return of


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (1, 19, 40), (37, 1, 19), (13, 300, 1), (64, 64, 64), (33, 70, 50), (17, 271, 65)],
    ids=str,
)
def test_sizes(sizes: tuple) -> None:
    check("matmul", sizes, _product())


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_transpositions(a: bool, b: bool) -> None:
    check("matmul", (29, 31, 45, a, b), _product(a, b), seed=1)
    check("matmul", (5, 264, 24, a, b), _product(a, b), seed=2)


@pytest.mark.parametrize("order", ["rows", "panels"])
@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_of_k_with_an_epilogue(order: str, transposed: bool) -> None:
    """The epilogue is applied once, after the last block."""
    args = (31, 300, 52, transposed, transposed, "float32", ("bias", "relu"))
    task = whet.create_task("matmul", args=args, target=ONE)
    chosen = {"order": order, "block": 1, "k_block": 100, "pack_a": True, "unroll_k": 2}
    if order == "rows":
        chosen["pack_b"] = "whole"
    if transposed:
        chosen |= {"lanes": "columns", "pack_b": "whole"}
    default = task.config_space.default.as_dict()
    chosen |= dict.fromkeys({"tail"} & {*default}, 0)
    config = task.config_space.from_choices({**default, **chosen})
    assert config.choice("k_block") == 100
    f, _ = built(task, config)
    rng = np.random.default_rng(0)
    a, b, bias = (
        rng.standard_normal(shape).astype("float32")
        for shape in (
            (300, 31) if transposed else (31, 300),
            (52, 300) if transposed else (300, 52),
            (52,),
        )
    )
    c = np.full((31, 52), np.nan, "float32")
    f(a, b, bias, c)
    right = np.maximum(_product(transposed, transposed)(a.astype("float64"), b) + bias, 0)
    np.testing.assert_allclose(c, right, atol=2e-4)


def test_a_prime_k_is_blocked_with_a_shorter_last_block() -> None:
    check("matmul", (9, 1031, 17), _product(), count=8, seed=3)


@pytest.mark.parametrize(
    "epilogue",
    [
        ("bias", "gelu"),
        ("residual", "silu"),
        ("sigmoid",),
        ("bias", "residual", ("clip", -1, 2), ("cast", "float16")),
        (("clip", -1, None), "bias", ("clip", None, 2)),
    ],
    ids=str,
)
def test_epilogues(epilogue: tuple) -> None:
    args = (21, 33, 40, False, False, "float32", epilogue)
    check("matmul", args, _product(), epilogue=epilogue, count=4)


@pytest.mark.parametrize("transposed", [False, True])
def test_weights_packed_ahead(transposed: bool) -> None:
    for seed, sizes in enumerate([(20, 40, 50), (1, 256, 33)]):
        args = (*sizes, False, transposed, "float32", ("bias",), True)
        check(
            "matmul", args, _product(False, transposed), epilogue=("bias",), packed=True, seed=seed
        )


@pytest.mark.parametrize("target", [TWO, f"{TWO} -vector-bytes=16"])
def test_targets(target: str) -> None:
    """Threads, and vectors of 128 bits."""
    check("matmul", (45, 150, 70), _product(), target=target, seed=4)
    check("matmul", (45, 260, 70, True, True), _product(True, True), target=target, seed=5)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v4"])
@pytest.mark.parametrize("args", [(70, 40, 3), (45, 31, 2, True, True), (33, 64, 5, False, True)])
def test_lanes_along_the_rows(target: str, args: tuple) -> None:
    """Few columns leave vectors empty: the operands change places."""
    task = whet.create_task("matmul", args=args, target=f"{target} -num_threads=2")
    assert task.config_space.knobs["lanes"].choices == ("columns", "rows")
    full = (*args, *(False,) * (5 - len(args)), "float32", ("bias", "relu"))
    check(
        "matmul",
        full,
        _product(*full[3:5]),
        epilogue=("bias", "relu"),
        target=ONE,
        count=12,
        seed=9,
    )


@pytest.mark.parametrize(("width", "registers"), [(16, 16), (32, 16), (64, 32)])
def test_register_tiles_fit_the_registers(width: int, registers: int) -> None:
    target = whet.Target(f"{ONE} -vector-bytes={width}")
    lanes = width // 4
    for rows, columns in ((1024, 1024), (1, 4096), (16, 3072), (5, 3)):
        tiles = register_tiles(target, lanes, rows, columns)
        assert tiles and len(set(tiles)) == len(tiles)
        for r, c in tiles:
            assert c % lanes == 0 and r <= rows
            assert r * (c // lanes) + c // lanes + 1 <= registers
    mr, nr = register_tiles(target, lanes, 1024, 1024)[0]
    assert mr * nr // lanes >= registers * 3 // 4


def test_tiles_that_divide_the_matrix_come_first() -> None:
    assert register_tiles(whet.Target(f"{ONE} -vector-bytes=32"), 8, 16, 3072)[0] == (4, 24)
    assert register_tiles(whet.Target(f"{ONE} -vector-bytes=32"), 8, 30, 32)[0] == (6, 16)


def test_float64() -> None:
    check("matmul", (14, 25, 36, False, True, "float64"), _product(False, True))


def test_threads_are_knobs_only_where_there_are_threads() -> None:
    names = {
        target: set(whet.create_task("matmul", args=(64, 64, 64), target=target).config_space.knobs)
        for target in (ONE, TWO)
    }
    assert names[TWO] - names[ONE] == {"parallel", "grain", "share"}
    task = whet.create_task("matmul", args=(512, 512, 512), target=TWO)
    assert task.config_space.default.choice("parallel") is True
    assert all(c.choice("parallel") or c.choice("grain") == 0 for c in drawn(task, 40))


def test_operations_are_those_of_the_product_whatever_is_computed_for_nothing() -> None:
    task = whet.create_task("matmul", args=(7, 11, 13), target=ONE)
    assert task.flop == 2 * 7 * 11 * 13


def test_several_spellings_are_one_workload() -> None:
    template = get_template("matmul")
    short = template.workload(8, 8, 8)
    assert short == template.workload(8, 8, 8, 0, 0, "float32", [], False)
    assert short == template.workload(8, 8, 8, False, False, "float", None)
    assert template.version == graph_version(2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("4", 5, 6), r"matmul\('4', 5, 6, .*: N is '4'; it must be an int.*\n  give N as 4$"),
        ((8, 2.5, 8), "K is 2.5; it must be an int, at least 0\n  give K as an int from 0 on$"),
        ((8, 8, -3), "M is -3; it must be an int, at least 0\n  give M as 0 or more$"),
        ((True, 5, 6), r"matmul\(True, 5.*: N is True; it must be an int.*\n  give N as 1$"),
        ((8, None, 6), "K is None; it must be an int, at least 0\n  give K as an int from 0 on"),
        ((8, 8, 8, "float32"), "transpose_a is 'float32'; it must be True or False\n  arguments"),
        ((8, 8, 8, False, False, "float32", (), "yes"), "packed is 'yes'; it must be True or"),
        ((8, 8, 8, False, False, "int8"), "dtype 'int8' is not one of float32, float64.*\n  cast"),
        ((8, 8, 8, False, False, "float16"), "dtype 'float16' is not one of float32, float64"),
        ((8, 8, 8, False, False, "float33"), "no such data type"),
        ((8, 8, 8, False, False, "float32", "swish"), "an epilogue is a tuple of steps"),
        ((8, 8, 8, False, False, "float32", ("swish",)), "'swish' is no step"),
    ],
)
def test_errors(args: tuple, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        whet.create_task("matmul", args=args, target=ONE).config_space  # noqa: B018
