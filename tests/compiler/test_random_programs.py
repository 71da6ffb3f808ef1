"""Random computations under random schedules equal the plain ones and numpy.

``pytest tests/compiler/test_random_programs.py --draws 2000`` draws more of them. What fails prints
the computation and the trace that replays its schedule.
"""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_programs import Graph
from random_schedules import RandomSchedule
from te_check import evaluate_size
from te_oracle import evaluate

from whet.compiler import driver, te
from whet.compiler.errors import LowerError, WhetError

# what a random attachment may run into, and a user may, too
ILLEGAL = (
    "runs outside",
    "further out",
    "no longer a loop",
    "no argument gives",
    "not a constant",
    "nothing gives it",
    "a part at a time",
    "is inlined",
    "is attached",
)


def program(pick, symbolic):
    """A random program as (graph, random schedule)."""
    graph = Graph(pick, symbolic=symbolic)
    return graph, RandomSchedule(graph, pick)


def compiled(graph, made):
    """The kernel of a schedule and the plain one; None for a schedule that is refused."""
    try:
        module = driver.lower(made.s, made.args)
        kernel = driver.build(made.s, made.args)
    except WhetError as error:
        assert any(why in str(error) for why in ILLEGAL), error
        return None
    assert str(driver.lower(made.s, made.args)) == str(module)
    replayed = made.s.trace.replay(made.s.outputs)
    same = [t if t in graph.inputs else _same(made.s, replayed, t) for t in made.args]
    assert str(driver.lower(replayed, same)) == str(module), "the trace replays to another program"
    plain = te.create_schedule(list(dict.fromkeys(t.op for t in graph.outputs)))
    known = [t for t in graph.inputs if t.op in plain.stage_map] + graph.outputs
    try:
        return kernel, known, driver.build(plain, known)
    except WhetError as error:  # a size that only an intermediate gave
        assert "which no argument gives" in str(error), error
        return None


def _same(s, replayed, tensor):
    """The tensor that takes a tensor's place in a replayed schedule."""
    stage = replayed.stages[s.stages.index(s[tensor])]
    return stage.op.output(tensor.value_index)


def arrays_of(graph, tensors, seed):
    """Whole numbers, so that the order of additions hardly matters; outputs poisoned."""
    rng = np.random.default_rng(seed)
    out = {}
    for t in graph.inputs:
        shape = [int(evaluate_size(d, graph.symbols)) for d in t.shape]
        low = 0 if t.dtype.startswith("u") else -4
        out[t] = rng.integers(low, 5, shape).astype(t.dtype)
    for t in tensors:
        if t not in out:
            shape = [int(evaluate_size(d, graph.symbols)) for d in t.shape]
            poison = np.nan if "float" in t.dtype else True if t.dtype == "bool" else 77
            out[t] = np.full(shape, poison, t.dtype)
    return out


def run_random(graph, made, kernel, known, plain, seed, place=lambda a: a):
    """Run the kernel, compare it with the plain one and with numpy."""
    arrays = arrays_of(graph, made.args, seed)
    given_arrays = {t: arrays[t].copy() for t in graph.inputs}
    placed = [place(arrays[t]) for t in made.args]
    kernel(*placed)
    for t, a in zip(made.args, placed):
        if t in graph.inputs:
            np.testing.assert_array_equal(a, given_arrays[t], err_msg=f"{t.name} was written")
    computed = [(t, a) for t, a in zip(made.args, placed) if t not in graph.inputs]
    wanted = _evaluated([t for t, _ in computed], given_arrays, graph, made.s)
    for (t, got), want in zip(computed, wanted):
        same(got, want, t)
    again = arrays_of(graph, known, seed)
    plain(*[again[t] for t in known])
    for t, a in zip(made.args, placed):
        if t in graph.outputs:
            same(a, again[t], t)


def _evaluated(tensors, inputs, graph, s):
    """The values of tensors by numpy; a cache has those of what it is a copy of."""
    return evaluate(tensors, inputs, graph.symbols)


def same(got, want, tensor):
    """Equal; floats beyond the whole numbers that they hold exactly, but for rounding."""
    if "float" in tensor.dtype:
        with np.errstate(over="ignore"):  # the oracle has float64
            want = np.asarray(want).astype(tensor.dtype)
        finite = want[np.isfinite(want)]
        scale = max(1.0, float(np.max(np.abs(finite), initial=0.0)))
        exact = scale < (2**23 if tensor.dtype == "float32" else 2**52)
        atol = 0.0 if exact else 1e-4 * scale
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=atol, err_msg=tensor.name)
    else:
        np.testing.assert_array_equal(got, want, err_msg=tensor.name)


def test_any_schedule_gives_the_same_numbers(draws):
    ran = 0

    @settings(
        max_examples=draws(200),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**31), st.booleans(), st.data())
    def one(seed, symbolic, data):
        nonlocal ran
        graph, made = program(lambda a, b: data.draw(st.integers(a, b)), symbolic)
        note(te.graph_text(graph.outputs))
        note(f"symbols: {graph.symbols}\n{made.s.trace}")
        ready = compiled(graph, made)
        if ready is not None:
            ran += 1
            run_random(graph, made, *ready, seed)

    one()
    assert ran >= draws(200) // 2, f"only {ran} of {draws(200)} schedules were legal"


@pytest.mark.parametrize("symbolic", [False, True])
def test_programs_drawn_evenly(symbolic, draws):
    """Hypothesis likes small numbers; these are drawn without a preference."""
    ran, applied, count = 0, set(), draws(60)
    for seed in range(count):
        rng = random.Random(seed)
        graph, made = program(rng.randint, symbolic)
        try:
            ready = compiled(graph, made)
            if ready is None:
                continue
            ran += 1
            applied |= set(made.applied)
            run_random(graph, made, *ready, seed)
        except Exception as error:
            error.add_note(
                f"seed {seed}\n{te.graph_text(graph.outputs)}\n{graph.symbols}\n{made.s.trace}"
            )
            raise
    assert ran >= count // 2
    assert len(applied) >= 15, applied


def test_the_oracle_can_fail():
    graph, made = program(lambda a, b: a, False)
    kernel, known, plain = compiled(graph, made)

    def broken(*arrays):
        kernel(*arrays)
        arrays[-1].reshape(-1)[0] += 1

    run_random(graph, made, kernel, known, plain, 0)
    with pytest.raises(AssertionError):
        run_random(graph, made, broken, known, plain, 0)


def test_an_illegal_attachment_is_refused_in_words():
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 8), lambda i, j: b[i, j] + c[i, j], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(LowerError, match="D reads B too, and runs outside this loop"):
        driver.lower(s, [a, d])
