"""Rows of a chain that are longer than the first cache: exponentials in the result's own row."""

import numpy as np
import pytest

import whet

FORMS = [(4, 9001), (3, 4099), (2, 1024), (5, 3)]


def expected(template, x):
    x = x.astype("float64")
    x = x - x.max(-1, keepdims=True)
    logarithm = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return logarithm if template == "log_softmax" else np.exp(logarithm)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("template", ["softmax", "log_softmax"])
def test_numbers_of_rows_of_all_lengths(template, dtype, seeds):
    rng = np.random.default_rng(next(iter(seeds(1))))
    for shape in FORMS:
        x = (4 * rng.standard_normal(shape)).astype(dtype)
        y = np.full(shape, np.nan, dtype)
        task = whet.create_task(template, args=(shape, -1, dtype), target="llvm -num_threads=2")
        whet.build(task)(x, y)
        limits = {"rtol": 2e-5, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-12}
        np.testing.assert_allclose(y, expected(template, x), **limits)


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_a_long_row_has_no_second_buffer_and_is_not_stored_past_the_caches(level):
    target = f"llvm -mcpu={level} -num_threads=1"
    task = whet.create_task("softmax", args=((256, 20001),), target=target)
    config = task.config_space.default
    assert config["stream"].val is False  # 20 MB, which a sum or a copy would stream
    text = str(whet.lower(*task.instantiate(config)))
    assert "T_exp = allocate" not in text and "allocate([20001])" not in text
    streamed = task.config_space.from_choices({**config.as_dict(), "stream": True})
    assert "T_exp = allocate" in str(whet.lower(*task.instantiate(streamed)))


def test_what_keeps_no_rows_is_stored_past_the_caches():
    task = whet.create_task("log_softmax", args=((256, 20001),), target="llvm -num_threads=1")
    assert task.config_space.default["stream"].val is True


@pytest.mark.parametrize(("operands", "streamed"), [(1, False), (2, True), (4, True)])
def test_results_of_several_large_operands_are_stored_past_the_caches(operands, streamed):
    inputs = [whet.te.placeholder((1 << 20,), name=f"x{k}") for k in range(operands)]
    total = whet.te.compute((1 << 20,), lambda i: sum(x[i] for x in inputs) * 2.0, name="total")
    target = "llvm -mcpu=x86-64-v3 -num_threads=1"
    task = whet.create_task(None, [*inputs, total], target, outputs=[total])
    assert task.config_space.default["stream"].val is streamed
