"""Contractions in graphs without a name, as GEMMs on a GPU."""

import numpy as np
import pytest
from derived_checks import inputs_of
from derived_graphs import CASES as GRAPHS
from gpu_checks import TARGET, compiles

import whet
from whet import te
from whet.compiler.emulator import emulator_options
from whet.search_spaces.forms.contraction import contraction_of


def emulated(task, config, given, wanted, full=False, near=2e-5):
    """A kernel's numbers in the emulator, outputs poisoned; NVIDIA's compiler takes its text."""
    s, args = task.instantiate(config)
    f = whet.build(s, args, task.target)
    compiles(f.get_source("cuda"), full)
    dtype, device = args[-1].dtype, whet.device("cuda-emulator")
    poison = np.full(wanted.shape, np.nan if "float" in dtype else 77, dtype)
    held = [whet.nd.array(x, device) for x in (*given, poison)]
    with emulator_options(checks=True, order="backwards"):
        f(*held)
    close = near * max(1.0, float(np.abs(wanted).max())) if "float" in dtype else 0
    got = held[-1].numpy().astype(wanted.dtype)
    np.testing.assert_allclose(got, wanted, 0, close, err_msg=str(config))


def drawn(task, count):
    space, rng = task.config_space, np.random.default_rng(5)
    return [space.default, *(space.decode(p) for p in space.valid_points.sample(rng, count))]


@pytest.mark.gpu_matrix(3)
@pytest.mark.parametrize("which", GRAPHS)
def test_graphs_in_the_emulator(which, gpu_full):
    case = GRAPHS[which]()
    task = whet.create_task(outputs=[case.args[-1]], args=case.args, target=TARGET)
    given = inputs_of(case, np.random.default_rng(3))
    wanted = case.reference(*(x.astype("f8") if x.dtype.kind == "f" else x for x in given))
    for config in drawn(task, 1):
        emulated(task, config, given, wanted, gpu_full)


def _of(left, right, shape, step, dtype="float32", k=24):
    """A graph of two inputs of these shapes: ``step(A, B, *index, k)``, summed over ``k``."""
    A, B = te.placeholder(left, dtype, name="A"), te.placeholder(right, dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    return [A, B], te.compute(shape, lambda *i: te.sum(step(A, B, *i, r), axis=r), name="C")


def _grouped():
    X, W = te.placeholder((2, 5, 5, 32), name="X"), te.placeholder((3, 3, 4, 128), name="W")
    c, ry, rx = (te.reduce_axis((0, n), name=m) for n, m in ((4, "c"), (3, "ry"), (3, "rx")))

    def element(n, y, x, o):
        pixel = X[n, y + ry, x + rx, o // 16 * 4 + c]
        return te.sum(pixel * W[ry, rx, c, o], axis=[ry, rx, c])

    return [X, W], te.compute((2, 3, 3, 128), element, name="C")


def _of_several_axes():
    A, B = te.placeholder((5, 6, 7, 8), name="A"), te.placeholder((7, 8, 9, 4), name="B")
    k, m = te.reduce_axis((0, 7), name="k"), te.reduce_axis((0, 8), name="m")
    made = te.compute(
        (9, 5, 4, 6), lambda p, a, q, b: te.sum(A[a, b, k, m] * B[k, m, p, q], axis=[k, m])
    )
    return [A, B], made


def _read_twice():
    A, B = te.placeholder((17, 40), name="A"), te.placeholder((40, 24), name="B")
    k, m = te.reduce_axis((0, 40), name="k"), te.reduce_axis((0, 24), name="m")
    C = te.compute((17, 24), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    S = te.compute((17,), lambda i: te.sum(C[i, m], axis=m), name="S")
    return [A, B], te.compute((17, 24), lambda i, j: C[i, j] / (te.abs(S[i]) + 1.0), name="E")


ODD = {
    "every other row": lambda: _of(
        (27, 24), (24, 20), (13, 20), lambda A, B, i, j, k: A[i * 2 + 1, k] * B[k, j]
    ),
    "backwards": lambda: _of(
        (13, 24), (24, 20), (13, 20), lambda A, B, i, j, k: A[12 - i, 23 - k] * B[k, 19 - j]
    ),
    "computed": lambda: _of(
        (16, 24), (24, 20), (16, 20), lambda A, B, i, j, k: (A[i, k] * 2.0 + 1.0) * te.exp(B[k, j])
    ),
    "a triangle": lambda: _of(
        (16, 24), (20, 24), (16, 20),
        lambda A, B, i, j, k: te.if_then_else(k <= i, A[i, k], 0.0) * B[j, k],
    ),
    "a batch in the middle": lambda: _of(
        (6, 5, 24), (24, 5, 8), (6, 5, 8), lambda A, B, i, b, j, k: A[i, b, k] * B[k, b, j]
    ),
    "an axis of neither": lambda: _of(
        (6, 24), (24, 8), (6, 3, 8), lambda A, B, i, b, j, k: A[i, k] * B[k, j]
    ),
    "bytes": lambda: _of(
        (16, 24), (20, 24), (16, 20),
        lambda A, B, i, j, k: A[i, k].astype("int32") * B[j, k].astype("int32"), "int8",
    ),
    "three factors": lambda: _of(
        (16, 24), (24, 20), (16, 20), lambda A, B, i, j, k: A[i, k] * B[k, j] * A[0, k]
    ),
    "distances": lambda: _of(
        (17, 29), (21, 29), (17, 21),
        lambda A, B, i, j, k: (A[i, k] - B[j, k]) * (A[i, k] - B[j, k]), k=29,
    ),
    "sums of differences": lambda: _of(
        (17, 24), (24, 21), (21, 17), lambda A, B, j, i, k: te.abs(B[k, j] - A[i, k])
    ),
    "several axes": _of_several_axes,
    "groups last": _grouped,
    "read twice": _read_twice,
}  # fmt: skip


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", ODD)
def test_odd_contractions_in_the_emulator(which, gpu_full):
    inputs, out = ODD[which]()
    rng = np.random.default_rng(1)
    given = [rng.integers(-3, 4, [int(d) for d in t.shape]).astype(t.dtype) for t in inputs]
    wanted = np.zeros([int(d) for d in out.shape], out.dtype)
    whet.build(te.create_schedule(out.op), [*inputs, out], "llvm")(*given, wanted)
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    assert any(name.endswith("split_k") for name in task.config_space.knobs)
    for config in drawn(task, 1):
        emulated(task, config, given, wanted, gpu_full)


def test_two_inputs_of_one_name_are_two():
    A, again = te.placeholder((16, 24), name="A"), te.placeholder((16, 24), name="A")
    B, k = te.placeholder((16, 24), name="B"), te.reduce_axis((0, 24), name="k")

    def element(i, j):
        return te.sum((A[i, k] - B[j, k]) * (again[i, k] - B[j, k]), axis=k)

    assert contraction_of(te.compute((16, 16), element, name="C").op, 4) is None


def test_which_axes_are_rows_and_columns():
    found = contraction_of(_grouped()[1].op, 4)
    names = [[x.var.name for x in xs] for xs in (found.lead, found.rows, found.columns)]
    assert names == [["o.group"], ["n", "y", "x"], ["o.own"]]
    assert [x.var.name for x in found.windows] == ["ry", "rx"] and found.counts == (18, 16)
    few = _of((3, 24), (24, 20), (3, 20), lambda A, B, i, j, k: A[i, k] * B[k, j])
    assert contraction_of(few[1].op, 4) is None


@pytest.mark.parametrize(
    "step",
    [
        lambda A, B, i, j, k: (A[i, k] - B[j, k]) * (A[i, k] - B[j, k]) + 1.0,  # not 0 of zeros
        lambda A, B, i, j, k: te.abs(A[i, k] - B[j, k]) * A[0, k],
        lambda A, B, i, j, k: te.abs(A[i, k] - B[j, k]) / (k + 1.0),
        lambda A, B, i, j, k: te.max(A[i, k] - B[j, k], A[i, k - 1] - B[j, k]),
    ],
)
def test_terms_that_are_not_of_two_factors(step):
    _, out = _of((16, 24), (20, 24), (16, 20), step)
    assert contraction_of(out.op, 4) is None


def test_float16_in_a_graph_is_accumulated_in_float32():
    inputs, out = _of(
        (32, 512), (32, 512), (32, 32), lambda A, B, i, j, k: A[i, k] * B[j, k], "float16", 512
    )
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    given = [np.full((32, 512), 5, "float16"), np.ones((32, 512), "float16")]
    emulated(task, task.config_space.default, given, np.full((32, 32), 2560.0), near=0)


def test_a_float16_sum_may_begin_behind_the_first_element():
    A, k = te.placeholder((6, 12), "float16", name="A"), te.reduce_axis((2, 10), name="k")
    out = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="S")
    task = whet.create_task(outputs=[out], args=[A, out], target=TARGET)
    given = np.arange(72, dtype="float16").reshape(6, 12)
    wanted = given[:, 2:10].astype("f8").sum(1)
    emulated(task, task.config_space.default, [given], wanted, near=0)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_reducer_that_adds_more_than_two_values_is_no_sum(dtype):
    """1 + x + y + x * y = (1 + x) * (1 + y): associative, and an addition on the outside."""
    either = te.comm_reducer(lambda x, y: x + y + x * y, lambda t: te.const(0, t), name="either")
    A, B = te.placeholder((8, 6), dtype, name="A"), te.placeholder((6, 8), dtype, name="B")
    k = te.reduce_axis((0, 6), name="k")
    out = te.compute((8, 8), lambda i, j: either(A[i, k] * B[k, j], axis=k), name="C")
    task = whet.create_task(outputs=[out], args=[A, B, out], target=TARGET)
    rng = np.random.default_rng(2)
    a, b = (rng.choice([-1, 0, 1], n).astype(dtype) for n in ((8, 6), (6, 8)))
    wanted = np.prod(1.0 + a[:, :, None].astype("f8") * b, axis=1) - 1
    emulated(task, task.config_space.default, [a, b], wanted, near=0)


def test_vectors_are_read_along_what_lies_side_by_side():
    inputs, out = _of(
        (64, 128), (64, 128), (64, 64), lambda A, B, i, j, k: A[i, k] * B[j, k], k=128
    )
    task = whet.create_task(outputs=[out], args=[*inputs, out], target=TARGET)
    text = whet.build(*task.instantiate(), task.target).get_source("cuda")
    assert "whet_load<float32x4>(A" in text and "whet_load<float32x4>(B" in text


def test_a_padded_image_is_not_stored():
    case = GRAPHS["conv2d_batch"]()
    task = whet.create_task(outputs=[case.args[-1]], args=case.args, target=TARGET)
    text = whet.build(*task.instantiate(), task.target).get_source("cuda")
    assert text.count("__global__") == 1
