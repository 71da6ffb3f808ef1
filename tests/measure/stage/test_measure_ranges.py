"""Inputs are drawn from the range that a placeholder says: indices point at what is there."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet.compiler import te
from whet.compiler.abi.signature import KernelSignature
from whet.measure.stage.arguments import Arguments, random_values


def signature_of(name, *args):
    task = whet.create_task(name, args=args, target="llvm -num_threads=1")
    return whet.build(task).entry_func.signature


def drawn(signature, place):
    return Arguments(Arguments.places(signature, None), 0).at([place])[0]


@pytest.mark.parametrize("name", ["gather", "take"])
def test_indices_are_those_of_the_axis(name):
    signature = signature_of(name, (2, 300), (2, 300), 1)
    assert signature.params[1].value_range == (0, 299)
    found = drawn(signature, 1)
    assert 0 <= found.min() < 30 and 270 < found.max() <= 299
    assert set(np.unique(drawn(signature_of(name, (2, 300), (2, 300), 0), 1))) == {0, 1}


def test_a_variance_is_positive():
    found = drawn(signature_of("batch_norm", (2, 99, 3)), 4)
    assert found.shape == (99,) and 0.25 <= found.min() < 0.5 < found.max() <= 1


def test_gather_is_tuned(tmp_path):
    task = whet.create_task("gather", args=((2, 300), (2, 300), 0), target="llvm -num_threads=1")
    result = whet.tune(
        task, trials=3, log=str(tmp_path / "g.db"), progress=False, sampler="random", seed=0
    )
    assert len(result.trials) == 3 and all(trial.result.ok for trial in result.trials)


def test_a_range_is_a_part_of_the_signature():
    signature = signature_of("gather", (2, 30), (2, 30), 1)
    assert KernelSignature.from_json(signature.to_json()) == signature
    x = te.placeholder((4,), "uint8", "x", value_range=(250, 255))
    y = te.compute((4,), lambda i: x[i])
    built = whet.build(te.create_schedule(y.op), [x, y], "llvm")
    assert built.entry_func.signature.params[0].value_range == (250, 255)


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int32", 3, 5), ("uint8", 250, 255), ("int64", -1, -1)]
)
def test_both_ends_of_a_range_are_drawn(dtype, low, high):
    found = random_values(np.random.default_rng(0), (500,), np.dtype(dtype), (low, high))
    assert found.dtype == dtype and set(found) == set(range(low, high + 1))


@pytest.mark.parametrize(
    ("dtype", "given", "said"),
    [
        ("int32", (0.5, 2), "of int32 it is two ints"),
        ("float32", (0, float("inf")), "of float32 it is two finite numbers"),
        ("float32", [0, 1], "of float32 it is two finite numbers"),
        ("int32", (3, 2), "no value lies between 3 and 2"),
        ("int8", (0, 128), "int8 holds -128 to 127"),
    ],
)
def test_ranges_that_cannot_be(dtype, given, said):
    with pytest.raises(whet.ArgumentError, match=f"value_range=.*{said}"):
        te.placeholder((4,), dtype, "x", value_range=given)
