"""Compute graphs as plain data: what is read back computes the same, and damage is refused."""

from __future__ import annotations

import copy
import json
import random

import numpy as np
import pytest
from derived_checks import inputs_of
from derived_graphs import CASES
from derived_rows import GRAPHS

import whet
from whet import te
from whet.compiler.errors import SpaceError
from whet.search_spaces.graph.family import from_data, graph_data
from whet.search_spaces.graph.identity import identity_of
from whet.search_spaces.graph.stored_graph import loaded, stored

TARGET = "llvm -num_threads=1"


def tensors(name):
    """Outputs and arguments of one of the tests' graphs."""
    if name in CASES:
        args = CASES[name]().args
        return [args[-1]], args
    graph = GRAPHS[name]()
    return list(graph.outputs), [*graph.inputs, *graph.outputs]


@pytest.mark.parametrize("name", [*CASES, *GRAPHS])
def test_what_is_read_back_is_the_same_graph(name):
    outputs, args = tensors(name)
    data = stored(outputs, args)
    assert data is not None
    again = loaded(json.loads(json.dumps(data)))
    assert identity_of(*again) == identity_of(outputs, args)
    assert [t.op.name for t in again[1]] == [t.op.name for t in args]


@pytest.mark.parametrize("name", ["conv2d_strided", "looked_up", "expensive_operand"])
def test_a_program_from_a_log_is_the_same_program(name):
    case = CASES[name]()
    task = whet.create_task(outputs=[case.args[-1]], args=case.args, target=TARGET)
    data = json.loads(json.dumps(graph_data(task.template, task.workload)))
    again = whet.autotune.Task(task.workload, task.target, from_data(task.workload, data))
    assert again.config_space.fingerprint == task.config_space.fingerprint
    arrays = inputs_of(case, np.random.default_rng())
    results = []
    for built in (whet.build(task), whet.build(again)):
        shape = [int(d) for d in case.args[-1].shape]
        results.append(np.full(shape, 77, case.args[-1].dtype))
        built(*arrays, results[-1])
    np.testing.assert_array_equal(*results)


def test_numbers_that_json_has_not_are_kept():
    A = te.placeholder((4,), name="A")
    big = te.compute((4,), lambda i: te.max_value("float32") + A[i] * float("inf"), name="big")
    k = te.reduce_axis((0, 4), name="k")
    least = te.compute((1,), lambda i: te.min(big[k], axis=k), name="least")
    again = loaded(json.loads(json.dumps(stored([least], [A, least]), allow_nan=False)))
    assert identity_of(*again) == identity_of([least], [A, least])


def test_what_calls_code_is_not_stored():
    A = te.placeholder((4,), name="A")
    for body in (
        lambda i: whet.tir.call_pure_extern("float32", "getenv", A[i]),
        lambda i: whet.tir.call_packed("anything", A[i]),
    ):
        out = te.compute((4,), body, name="out")
        assert stored([out], [A, out]) is None


def test_calls_of_code_are_not_read():
    A = te.placeholder((4,), name="A")
    out = te.compute((4,), lambda i: te.exp(A[i]), name="out")
    text = json.dumps(stored([out], [A, out]))
    assert '"exp"' in text
    for name in ("call_extern", "call_packed", "system", "warp_shuffle", "tvm_storage_sync"):
        with pytest.raises(SpaceError, match="it is damaged"):
            loaded(json.loads(text.replace('"exp"', f'"{name}"')))


@pytest.mark.parametrize("name", ["exp", "isnan", "popcount", "ldexp", "q_multiply_shift", "erfc"])
def test_calls_of_the_table_are_stored_and_read(name):
    A = te.placeholder((4,), name="A")
    out = te.compute((4,), lambda i: whet.tir.call_intrin("float32", name, A[i]), name="out")
    again = loaded(json.loads(json.dumps(stored([out], [A, out]))))
    assert identity_of(*again) == identity_of([out], [A, out])


def test_another_graph_is_refused():
    case, other = CASES["matmul"](), CASES["matmul_small"]()
    task = whet.create_task(outputs=[case.args[-1]], args=case.args, target=TARGET)
    with pytest.raises(SpaceError, match="it is the graph of"):
        from_data(task.workload, stored([other.args[-1]], other.args))


def damaged(data, rng):
    """A copy with one value somewhere inside changed."""
    data = copy.deepcopy(data)
    at, place = data, None
    while True:
        if isinstance(at, dict | list) and at:
            place = rng.choice(list(at) if isinstance(at, dict) else range(len(at)))
            if isinstance(at[place], dict | list) and at[place] and rng.random() < 0.9:
                at = at[place]
                continue
            at[place] = rng.choice([None, -1, 10**30, 7, 1.5, "x", "int32", [], {}, [0], True])
        return data


def test_a_variable_of_no_axis_is_damage():
    A = te.placeholder((4,), name="A")
    out = te.compute((4,), lambda i: A[i] + 1.0, name="out")
    task = whet.create_task(outputs=[out], args=[A, out], target=TARGET)
    data = stored([out], [A, out])
    data["ops"][1]["axis"] = []
    with pytest.raises(SpaceError, match="it is damaged: KeyError"):
        from_data(task.workload, data)


def test_damage_is_a_space_error(seeds):
    for name, seed in zip(("conv2d_strided", "looked_up"), seeds(2)):
        rng = random.Random(seed)
        args = CASES[name]().args
        data = stored([args[-1]], args)
        task = whet.create_task(outputs=[args[-1]], args=args, target=TARGET)
        for _ in range(200):
            bad = damaged(data, rng)
            try:
                from_data(task.workload, bad)  # what does not change the graph may pass
            except SpaceError:
                continue
            except Exception as error:
                raise AssertionError(f"seed {seed}: {bad}") from error
