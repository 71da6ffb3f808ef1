"""Candidates whose vectors memory cannot give: pruned for what a knob chose, and for that alone."""

import pickle

import pytest

import whet
from whet import te
from whet.autotune import create_task
from whet.autotune.results.result import pruned_words
from whet.compiler import driver
from whet.compiler.errors import PrunedError
from whet.measure import MeasureInput, MeasureResult
from whet.measure.gpu.builder import build_for_emulator
from whet.measure.gpu.pruning import check_alignment
from whet.search_spaces import get_config, template

SM80 = "cuda -arch=sm_80"


def in_vectors(s, C, row, columns, vector):
    """A block a row; a thread's elements are neighbours."""
    columns, lanes = s[C].split(columns, factor=vector)
    s[C].bind(row, te.thread_axis("blockIdx.x"))
    s[C].bind(columns, te.thread_axis("threadIdx.x"))
    if vector > 1:
        s[C].vectorize(lanes)


@template("test/gpu_vectors")
def rows(columns, what="add", default=1, dtype="float32"):
    """Rows of vectors that are added, copied, summed up from neighbours or kept in registers."""
    A, B = (te.placeholder((5, columns), dtype, name=x) for x in "AB")
    b = te.placeholder((columns,), dtype, name="b")
    bodies = {
        "add": lambda i, j: A[i, j] + B[i, j],
        "bias": lambda i, j: A[i, j] + b[j],
        "neighbours": lambda i, j: A[i, te.max(j - 1, 0)] + A[i, te.min(j + 1, columns - 1)],
        "kept": lambda i, j: A[i, j] * 2,
    }
    width = columns // 8 * 8 if what == "kept" else columns
    C = te.compute((5, width), bodies[what], name="C")
    cfg = get_config()
    cfg.define_knob("vector", [1, 2, 4, 8], default=default)
    s = te.create_schedule(C.op)
    vector = cfg["vector"].val
    if what == "kept":
        kept = s.cache_read(A, "local", [C])
        i, j = s[C].op.axis
        j, _ = s[C].split(j, factor=8)
        s[C].bind(i, te.thread_axis("blockIdx.x"))
        s[C].bind(j, te.thread_axis("threadIdx.x"))
        s[kept].compute_at(s[C], j)
        if vector > 1:
            _, lanes = s[kept].split(s[kept].op.axis[-1], factor=vector)
            s[kept].vectorize(lanes)
    else:
        in_vectors(s, C, *s[C].op.axis, vector)
    return s, [A, B, C] if what == "add" else [A, *([b] if what == "bias" else []), C]


def refused(vector, *args):
    """The check's verdict on a config of ``rows``; "" where it passes."""
    task = create_task(rows, args=args, target=SM80)
    config = task.config_space.from_choices({"vector": vector})
    inp = MeasureInput(task.workload, task.target.to_json(), config, task.template.ref())
    with task.target:
        module = driver.lower(*task.instantiate(config))
    try:
        check_alignment(inp, driver.compile_module(module, task.target))
    except PrunedError as error:
        assert error.reason == "alignment"
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("columns", "dtype", "pruned"),
    [
        (1001, "float32", {2, 4, 8}),
        (1002, "float32", set()),  # two at once
        (1004, "float32", set()),
        (1001, "float16", {2, 4, 8}),
        (3, "float32", {2, 4, 8}),
    ],
)
@pytest.mark.parametrize("what", ["add", "bias"])
def test_rows_that_no_vector_divides(columns, dtype, pruned, what):
    found = {v: refused(v, columns, what, 1, dtype) for v in (1, 2, 4, 8)}
    assert {v for v, why in found.items() if why} == pruned
    for why in filter(None, found.values()):
        assert "stores to C" in why and "multiples of no two elements" in why
        assert "test/gpu_vectors for sm_80" in why and "or none" in why


def test_what_arithmetic_reads_is_no_reason():
    """Neighbours' neighbours are aligned for no width: the stores are worth it."""
    assert not any(refused(v, 1000, "neighbours") for v in (1, 2, 4, 8))
    assert "stores to C" in refused(4, 1001, "neighbours")


def test_copies_into_registers():
    assert not any(refused(v, 1000, "kept") for v in (1, 2, 4, 8))
    assert "it copies from A in vectors" in refused(4, 1001, "kept")


def test_what_the_default_does_is_the_templates_own_choice():
    assert not any(refused(v, 1001, "add", 4) for v in (1, 2, 4, 8))
    assert refused(8, 1001, "kept", 1) and not refused(8, 1001, "kept", 8)


def test_a_candidate_is_pruned_with_its_reason():
    task = create_task(rows, args=(1001,), target=SM80)
    space = task.config_space
    for vector, status in ((1, "ok"), (4, "pruned")):
        config = space.from_choices({"vector": vector})
        inp = MeasureInput(task.workload, task.target.to_json(), config, task.template.ref())
        built = build_for_emulator(inp)
        assert built.status == status and built.facts.get("pruned") == (
            "alignment" if vector > 1 else None
        )
    assert "Traceback" not in built.error


def test_by_hand_such_a_schedule_is_built():
    A = te.placeholder((5, 1001), name="A")
    C = te.compute((5, 1001), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    in_vectors(s, C, *s[C].op.axis, 4)
    found = whet.build(s, [A, C], target=SM80)
    assert "whet_store" not in found.get_source("cuda")
    made = driver.compile_module(whet.lower(s, [A, C]), whet.Target(SM80))
    assert made.scattered == ("stores to C",)


def test_errors_keep_their_reason_between_processes():
    error = pickle.loads(pickle.dumps(PrunedError("a", lambda: "b", "c", "spills")))
    assert (str(error), error.reason) == ("a: b\n  c", "spills")


def test_a_summary_counts_by_reason():
    found = [MeasureResult("pruned", environment={"pruned": x}) for x in ("spills", "alignment")]
    found += [found[0], MeasureResult("pruned"), MeasureResult("run_error")]
    assert pruned_words(found) == "2 spills, 1 alignment"
    assert pruned_words(found[3:]) == "" and found[3].pruned_for == found[4].pruned_for == ""
