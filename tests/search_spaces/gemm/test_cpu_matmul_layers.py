"""The dense, batch_matmul and matvec templates under drawn configs."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_gemm_checks import ONE, TWO, check

import whet
from whet.compiler.errors import ArgumentError


def _dense(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return data @ weight.T


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 60, 33), (16, 96, 50), (39, 271, 20)], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_dense(sizes: tuple, packed: bool) -> None:
    steps = ("bias", "relu")
    check("dense", (*sizes, "float32", steps, packed), _dense, epilogue=steps, packed=packed)


def test_dense_on_threads() -> None:
    check("dense", (50, 130, 64, "float32", (), True), _dense, packed=True, target=TWO, seed=2)


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_batch_matmul(a: bool, b: bool) -> None:
    def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (x.transpose(0, 2, 1) if a else x) @ (y.transpose(0, 2, 1) if b else y)

    check("batch_matmul", (3, 17, 20, 37, a, b), product)
    check("batch_matmul", (2, 6, 260, 16, a, b), product, count=3, seed=1)
    check("batch_matmul", (1, 19, 8, 20, a, b), product, target=TWO, count=3, seed=2)


def test_batch_matmul_with_an_epilogue() -> None:
    steps = ("bias", "residual", "gelu")
    args = (3, 9, 20, 21, False, False, "float32", steps)
    check("batch_matmul", args, np.matmul, epilogue=steps, target=TWO)


@pytest.mark.parametrize(
    "sizes", [(1, 1), (1, 100), (7, 5), (33, 64), (50, 131), (9, 1000)], ids=str
)
def test_matvec(sizes: tuple) -> None:
    check("matvec", sizes, np.matmul, count=6)


@pytest.mark.parametrize("target", [TWO, f"{ONE} -vector-bytes=16"])
def test_matvec_on_targets_with_an_epilogue(target: str) -> None:
    steps = ("bias", "sigmoid")
    check("matvec", (21, 75, "float32", steps), np.matmul, epilogue=steps, target=target)


def test_matvec_of_float64() -> None:
    check("matvec", (21, 75, "float64"), np.matmul)


def test_operations() -> None:
    for name, args, flop in (
        ("dense", (3, 5, 7), 2 * 3 * 5 * 7),
        ("batch_matmul", (2, 3, 5, 7), 2 * 2 * 3 * 5 * 7),
        ("matvec", (3, 5), 2 * 3 * 5),
    ):
        assert whet.create_task(name, args=args, target=ONE).flop == flop


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("dense", (4, -1, 4), r"dense\(4, -1, 4, .*: K is -1; it must be an int, at least 0"),
        ("batch_matmul", ("2", 4, 4, 4), "B is '2'; it must be an int, at least 0\n  give B as 2"),
        ("batch_matmul", (2, 4, 4, -1), "M is -1; it must be an int, at least 0"),
        ("batch_matmul", (2, 4, 4, 4, "float32"), "transpose_a is 'float32'"),
        ("batch_matmul", (2, 4, 4, 4, 0, 0, "int32"), "dtype 'int32' is not one of float32"),
        ("dense", (4, 4, 4, "float32", (), 2), "packed is 2; it must be True or False"),
        ("dense", (4, 4, 4, "bfloat16"), "dtype 'bfloat16' is not one of float32"),
        ("matvec", (4, True), "K is True; it must be an int, at least 0\n  give K as 1"),
        ("matvec", (4, 4, "float16"), "dtype 'float16' is not one of float32"),
        ("matvec", (4, 4, "float32", (("clip", 1),)), "is not complete"),
    ],
)
def test_errors(name: str, args: tuple, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        whet.create_task(name, args=args, target=ONE).config_space  # noqa: B018
