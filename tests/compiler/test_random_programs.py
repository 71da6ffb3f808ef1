"""Random computations under random legal schedules equal numpy; lowering is deterministic."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import Graph, schedule
from te_check import evaluate_size
from te_oracle import evaluate

from whet.compiler import driver
from whet.compiler.errors import LowerError, WhetError

BOUNDED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# what a random attachment may run into, and a user may, too
ILLEGAL = ("runs outside", "further out", "no argument gives", "not a constant", "nothing gives it")


def compile_random(pick, symbolic):
    """A random program as (graph, arguments, lowered module, kernel); None for an illegal one."""
    graph = Graph(pick, symbolic=symbolic)
    s, args = schedule(graph, pick)
    try:
        module = driver.lower(s, args)
        kernel = driver.build(s, args)
    except WhetError as error:
        assert any(why in str(error) for why in ILLEGAL), error
        return None
    assert str(driver.lower(s, args)) == str(module)
    return graph, args, module, kernel


def run_random(graph, args, kernel, seed, place=lambda a: a):
    """Run it on whole numbers, so that the order of additions does not matter, and compare."""
    rng = np.random.default_rng(seed)
    arrays = []
    for t in args:
        shape = [int(evaluate_size(d, graph.symbols)) for d in t.shape]
        if t in graph.inputs:
            arrays.append(rng.integers(-4, 5, shape).astype(t.dtype))
        else:
            arrays.append(np.full(shape, np.nan if "float" in t.dtype else -77, t.dtype))
    arrays = [place(a) for a in arrays]
    known = {t: a.copy() for t, a in zip(args, arrays) if t in graph.inputs}
    kernel(*arrays)
    computed = [(t, a) for t, a in zip(args, arrays) if t not in known]
    wanted = evaluate([t for t, _ in computed], known, graph.symbols)
    for (t, got), want in zip(computed, wanted):
        np.testing.assert_array_equal(got, want, err_msg=t.name)


@pytest.mark.parametrize("symbolic", [False, True])
@BOUNDED
@given(st.data())
def test_any_schedule_gives_the_same_numbers(symbolic, data):
    made = compile_random(lambda a, b: data.draw(st.integers(a, b)), symbolic)
    if made is not None:
        graph, args, _, kernel = made
        run_random(graph, args, kernel, 0)


def test_the_oracle_can_fail():
    graph, args, _, kernel = compile_random(lambda a, b: a, False)

    def broken(*arrays):
        kernel(*arrays)
        arrays[-1].reshape(-1)[0] += 1

    run_random(graph, args, kernel, 0)
    with pytest.raises(AssertionError):
        run_random(graph, args, broken, 0)


def test_an_illegal_attachment_is_refused_in_words():
    from whet.compiler import te

    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 8), lambda i, j: b[i, j] + c[i, j], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(LowerError, match="D reads B too, and runs outside this loop"):
        driver.lower(s, [a, d])
