"""Rules for GPUs: rows, reductions, element by element, transposes; and graphs without a name."""

import numpy as np
import pytest
from gpu_checks import TARGET, by_numpy, check, configs_of
from named_cases import CASES as NAMED

import whet
from whet import te
from whet.compiler import topi

CASES = {which: by_numpy(case.name, case.args) for which, case in NAMED.items()}
FLOAT16 = {
    "softmax in float16": by_numpy("softmax", ((24, 256), -1, "float16")),
    "layer_norm in float16": by_numpy("layer_norm", ((8, 6, 16), (1, 2), 1e-5, "float16")),
    "sum in float16": by_numpy("sum", ((20, 130), 1, "float16")),
    "transpose in float16": by_numpy("transpose", ((45, 70), None, "float16")),
    "add in float16": by_numpy("add", ((40, 6), (6,), "float16")),
    "argmax of vectors": by_numpy("argmax", ((9, 132), 1)),
    "softmax of vectors": by_numpy("softmax", ((6, 516),)),
    "softmax of three": by_numpy("softmax", ((5, 6, 129), -1)),
    "sum of many": by_numpy("sum", ((70, 160),)),
    "sum of long columns": by_numpy("sum", ((1024, 9), 0)),
}
EVERY = {**CASES, **FLOAT16}


@pytest.mark.gpu_matrix(6)
@pytest.mark.parametrize("which", EVERY)
def test_in_the_emulator(which, gpu_full):
    for config in configs_of(EVERY[which], 1):
        check(EVERY[which], config, full=gpu_full)


# threads that exchange sums cannot run one after the other
@pytest.mark.gpu_matrix(14)
@pytest.mark.parametrize("which", [w for w in EVERY if EVERY[w].name != "cumsum"])
def test_step_by_step(which):
    for config in configs_of(EVERY[which], 2):
        check(EVERY[which], config, "cpu")


@pytest.mark.parametrize(
    ("length", "threads", "rows"), [(2, 4, 32), (4, 4, 32), (17, 8, 16), (128, 16, 8), (256, 32, 4)]
)
def test_short_rows_of_chains_share_a_warp(length, threads, rows):
    case = by_numpy("softmax", ((64, length),))
    (config,) = configs_of(case, 0)
    assert (config["threads"].val, config["rows"].val) == (threads, rows)
    if length in (4, 17):
        check(case, config)


def test_rows_that_lanes_read_of_each_other_have_a_block():
    A = te.placeholder((64, 16), name="A")
    E = te.compute((64, 16), lambda i, j: te.exp(A[i, j]), name="E")
    k = te.reduce_axis((0, 16), name="k")
    total = te.compute((64,), lambda i: te.sum(E[i, k], axis=k), name="T")
    out = te.compute((64, 16), lambda i, j: E[i, 15 - j] / total[i], name="D")
    space = whet.create_task(outputs=[out], args=[A, out], target=TARGET).config_space
    assert space.default["threads"].val == 32 and space.default["rows"].val == 1


def test_a_row_is_read_once_and_kept_in_registers():
    task = whet.create_task("softmax", args=((64, 1000),), target=TARGET)
    s, args = task.instantiate()
    text = whet.build(s, args, task.target).get_source("cuda")
    assert text.count("whet_load<float32x4>(X") == 1
    assert "WHET_SHARED" not in text and "__syncthreads" not in text


@pytest.mark.parametrize(("name", "args"), [("argmax", (1,)), ("softmax", ())])
def test_reductions_that_read_memory_read_vectors(name, args):
    task = whet.create_task(name, args=((64, 1024), *args), target=TARGET)
    space = task.config_space
    given = space.default.as_dict() | {"vector": 4, "keep": False, "threads": 32, "rows": 2}
    with task.target:
        s, tensors = task.instantiate(space.from_choices(given))
    text = whet.build(s, tensors, task.target).get_source("cuda")
    assert "whet_load<float32x4>(X" in text and "= X[" not in text and " X[" not in text


def test_rows_longer_than_registers_stay_in_memory():
    space = whet.create_task("softmax", args=((33, 1 << 18),), target=TARGET).config_space
    drawn = space.valid_points.sample(np.random.default_rng(0), 20)
    assert not any(space.decode(p)["keep"].val for p in drawn)
    assert not space.default["keep"].val


@pytest.mark.parametrize("length", [40000, 70000])
def test_of_rows_longer_than_registers_no_part_is_kept_that_does_not_fit(length):
    case = by_numpy("softmax", ((33, length),))
    (config,) = configs_of(case, 0)
    assert config["threads"].val == 1024 and not config["keep"].val
    task = whet.create_task(case.name, args=case.args, target=TARGET)
    text = whet.build(*task.instantiate(), task.target).get_source("cuda")
    assert ("WHET_LOCAL(float, T_exp, 40)" in text) == (length == 40000)
    assert "float, T_exp, " not in text.replace("WHET_LOCAL(float, T_exp, 40)", "")
    if length == 70000:
        check(case, config, "cpu")


@pytest.mark.parametrize(("length", "threads"), [(9, 4), (17, 8), (64, 8), (128, 16), (512, 32)])
def test_short_rows_share_a_warp(length, threads):
    case = by_numpy("sum", ((64, length), 1))
    (config,) = configs_of(case, 0)
    assert config["threads"].val == threads and config["rows"].val * threads == 128
    if length in (17, 64):
        task = whet.create_task("sum", args=case.args, target=TARGET)
        text = whet.build(*task.instantiate(), task.target).get_source("cuda")
        assert "whet_warp_shuffle_xor" in text and "__syncthreads" not in text
        check(case, config)


@pytest.mark.parametrize("shape", [(33, 17), (64, 7)])
def test_rows_too_few_or_too_short_to_share_are_a_thread_each(shape):
    space = whet.create_task("sum", args=(shape, 1), target=TARGET).config_space
    assert set(space.default.as_dict()) == {"threads"}


def test_a_long_sum_has_all_threads_of_a_block():
    config = whet.create_task("sum", args=((3, 60001), 1), target=TARGET).config_space.default
    assert config["threads"].val == 512


def test_sums_of_bytes_read_eight_at_once():
    A, k = te.placeholder((9, 256), "int8", name="A"), te.reduce_axis((0, 256), name="k")
    out = te.compute((9,), lambda i: te.sum(A[i, k].astype("int32"), axis=k), name="C")
    task = whet.create_task(outputs=[out], args=[A, out], target=TARGET)
    assert task.config_space.default["vector"].val == 8
    device, a = whet.device("cuda-emulator"), np.full((9, 256), -128, "i1")
    held = [whet.nd.array(x, device) for x in (a, np.full(9, 77, "i4"))]
    whet.build(*task.instantiate(), task.target)(*held)
    np.testing.assert_array_equal(held[1].numpy(), a.astype("i8").sum(1))


def test_bytes_are_added_eight_at_once():
    A = te.placeholder((9, 256), "int8", name="A")
    out = te.compute((9, 256), lambda i, j: A[i, j] + A[i, j], name="C")
    task = whet.create_task(outputs=[out], args=[A, out], target=TARGET)
    assert task.config_space.default["vector"].val == 8
    device = whet.device("cuda-emulator")
    a = np.arange(9 * 256).reshape(9, 256).astype("i1")
    held = [whet.nd.array(x, device) for x in (a, np.full((9, 256), 77, "i1"))]
    whet.build(*task.instantiate(), task.target)(*held)
    np.testing.assert_array_equal(held[1].numpy(), a + a)


def test_rows_of_several_outputs_may_be_read_backwards():
    A = te.placeholder((4, 2), name="A")
    outputs = te.compute((4, 2), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="B")
    reversed_columns = te.compute((4, 2), lambda i, j: outputs[1][i, 1 - j], name="C")
    out = te.compute((4, 2), lambda i, j: reversed_columns[i, j] * 3.0 + outputs[1][i, j], name="D")
    task = whet.create_task(outputs=[out], target=TARGET)
    whet.build(*task.instantiate(), task.target)


def test_a_graph_without_a_name():
    A, b = te.placeholder((9, 130), name="A"), te.placeholder((130,), name="b")
    out = topi.nn.relu(topi.add(topi.nn.softmax(A), b))
    task = whet.create_task(outputs=[out], target=TARGET)
    s, args = task.instantiate()
    f = whet.build(s, args, task.target)
    rng = np.random.default_rng(0)
    a, c = rng.standard_normal((9, 130)).astype("f4"), rng.standard_normal(130).astype("f4")
    device = whet.device("cuda-emulator")
    held = [whet.nd.array(x, device) for x in (a, c, np.full((9, 130), 77, "f4"))]
    f(*held)
    right = np.maximum(by_numpy("softmax", (a.shape,)).reference(a.astype("f8")) + c, 0)
    np.testing.assert_allclose(held[-1].numpy(), right, 1e-5, 1e-5)
