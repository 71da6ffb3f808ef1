"""Chains and graphs of many inlined stages: what they compute, and what lowering them takes."""

import numpy as np

import whet
from whet import te
from whet.compiler.te.bounds import inlining


def inlined(output, *inputs):
    s = te.create_schedule(output.op)
    for stage in s.stages:
        if stage.op not in [t.op for t in (output, *inputs)]:
            stage.compute_inline()
    return s


def run(output, source, x):
    s = inlined(output, source)
    out = np.full(tuple(int(d) for d in output.shape), 77, output.dtype)
    whet.build(s, [source, output], "llvm")(x, out)
    return out


def compute(count, element):
    """An input, and the last of so many stages, each made of those before it."""
    A = te.placeholder((19,), "float64", name="A")
    stages = [A, A]
    for k in range(count):

        def body(i):
            return element(stages, i, k)  # noqa: B023

        stages.append(te.compute((19,), body, name=f"T{k}"))
    return A, stages[-1]


def test_a_chain_of_1280_stages():
    A, T = compute(1280, lambda t, i, k: t[-1][i] * (1 + 1e-4 * (k % 7)) + k % 3)
    x = np.random.default_rng().standard_normal(19)
    wanted = x.copy()
    for k in range(1280):
        wanted = wanted * (1 + 1e-4 * (k % 7)) + k % 3
    np.testing.assert_allclose(run(T, A, x), wanted, rtol=1e-12)


def test_the_work_grows_with_the_stages(monkeypatch):
    """Nodes that substitution goes through, not seconds: machines differ."""
    walked = []
    plain = inlining.substitute

    def counted(body, places):
        walked.append(len(te.tensor.nodes((body,))))
        return plain(body, places)

    monkeypatch.setattr(inlining, "substitute", counted)
    work = []
    for count in (100, 200, 400):
        A, T = compute(count, lambda t, i, k: t[-1][i] * 1.5 + 0.5)
        walked.clear()
        whet.lower(inlined(T, A), [A, T])
        assert len(walked) == count - 1
        work.append(sum(walked))
    assert work[1] < 2.1 * work[0] and work[2] < 2.1 * work[1]


def test_what_two_ways_lead_to_is_computed_once():
    """Each stage reads both before it: fully inlined, it would be a tree of 10**16 nodes."""
    A, T = compute(80, lambda t, i, k: (t[-1][i] + t[-2][i]) * 0.5)
    x = np.random.default_rng().standard_normal(19)
    np.testing.assert_allclose(run(T, A, x), x, rtol=1e-12)


def test_windows_of_windows_are_computed_once_an_element():
    """Each stage reads two neighbours: 2**24 reads when inlined, 25 places of the source."""
    A, T = compute(24, lambda t, i, k: t[-1][te.max(i - 1, 0)] * 0.25 + t[-1][i] * 0.75)
    x = np.random.default_rng().standard_normal(19)
    wanted = x
    for _ in range(24):
        wanted = wanted[np.maximum(np.arange(19) - 1, 0)] * 0.25 + wanted * 0.75
    np.testing.assert_allclose(run(T, A, x), wanted, rtol=1e-12)


def test_places_that_are_read_from_inlined_stages():
    rng = np.random.default_rng()
    A = te.placeholder((19,), "float64", name="A")
    I = te.placeholder((19,), "int32", name="I")
    place, value = I, A
    for k in range(2):

        def next_place(i):
            return place[place[i] % 19]  # noqa: B023

        def next_value(i):
            return value[place[i]] + value[i] * 0.5  # noqa: B023

        place = te.compute((19,), next_place, name=f"P{k}")
        value = te.compute((19,), next_value, name=f"V{k}")
    s = inlined(value, A, I)
    x, p = rng.standard_normal(19), rng.integers(0, 19, 19).astype("int32")
    out = np.full(19, 77.0)
    whet.build(s, [A, I, value], "llvm")(x, p, out)
    wanted, q = x, p
    for _ in range(2):
        q = q[q % 19]
        wanted = wanted[q] + wanted * 0.5
    np.testing.assert_allclose(out, wanted, rtol=1e-12)


def test_one_stage_that_reads_very_many():
    A = te.placeholder((19,), "float64", name="A")
    parts = []
    for k in range(300):

        def part(i):
            return A[i] * float(k)  # noqa: B023

        parts.append(te.compute((19,), part, name=f"P{k}"))

    def total(i):
        out = parts[0][i]
        for p in parts[1:]:
            out = out + p[i]
        return out

    T = te.compute((19,), total, name="T")
    x = np.random.default_rng().standard_normal(19)
    np.testing.assert_allclose(run(T, A, x), x * sum(range(300)), rtol=1e-12)
