"""Every operator for GPUs, by a derived space and by a schedule that binds nothing.

Their numbers are compared with those of the same graph in float64 on this processor, which the
operators' own tests compare with numpy.
"""

import warnings

import numpy as np
import pytest
from gpu_checks import TARGET, compiles
from gpu_operator_cases import OPERATORS

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.emulator import emulator_options
from whet.compiler.te.primitives.auto_bind import AutoBindWarning
from whet.search_spaces.forms.widened_sum import widened_sum


def graph(operator, wide=False):
    """The inputs and the result; ``wide``: floats in float64."""
    tensors = []
    for k, x in enumerate(operator.inputs):
        dtype = "float64" if wide and x.dtype.startswith("float") else x.dtype
        places = (0, 5) if x.values == "index" else None
        tensors.append(te.placeholder(x.shape, dtype, name=f"x{k}", value_range=places))
    return tensors, operator.make(*tensors)


def exact(operator, arrays):
    """The float64 result of the inputs, computed on a CPU."""
    tensors, out = graph(operator, wide=True)
    result = np.zeros(tuple(int(d) for d in out.shape), out.dtype)
    given = [x.astype(t.dtype) for x, t in zip(arrays, tensors)]
    whet.build(te.create_schedule(out.op), [*tensors, out], "llvm")(*given, result)
    return result


def ran(f, arrays, out):
    """A kernel's numbers in the emulator, outputs poisoned."""
    shape, device = tuple(int(d) for d in out.shape), whet.device("cuda-emulator")
    poison = np.full(shape, np.nan if "float" in out.dtype else 77).astype(out.dtype)
    held = [whet.nd.array(x, device) for x in (*arrays, poison)]
    with emulator_options(checks=True, order="backwards"):
        f(*held)
    return held[-1].numpy()


def near(got, right, half_precision):
    if "float" not in str(got.dtype):
        np.testing.assert_array_equal(got, right.astype(got.dtype))
        return
    size = max(1.0, float(np.abs(right[np.isfinite(right)]).max(initial=0)))
    close = 2e-3 if half_precision else 2e-5
    np.testing.assert_allclose(got.astype("f8"), right.astype("f8"), 0, close * size)


@pytest.mark.gpu_matrix(8)
@pytest.mark.parametrize("which", OPERATORS)
def test_derived_spaces_in_the_emulator(which, gpu_full):
    operator = OPERATORS[which]
    arrays = [x.drawn(np.random.default_rng(1)) for x in operator.inputs]
    tensors, out = graph(operator)
    task = whet.create_task(outputs=[out], args=[*tensors, out], target=TARGET)
    f = whet.build(*task.instantiate(), task.target)
    compiles(f.get_source("cuda"), gpu_full)
    near(ran(f, arrays, out), exact(operator, arrays), "float16" in (out.dtype, tensors[0].dtype))


@pytest.mark.gpu_matrix(3)
@pytest.mark.parametrize("which", [n for n in OPERATORS if "float16" not in n])
def test_unbound_schedules_in_the_emulator(which):
    operator = OPERATORS[which]
    arrays = [x.drawn(np.random.default_rng(2)) for x in operator.inputs]
    tensors, out = graph(operator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AutoBindWarning)
        f = whet.build(te.create_schedule(out.op), [*tensors, out], TARGET)
    near(ran(f, arrays, out), exact(operator, arrays), "float16" in (out.dtype, tensors[0].dtype))


def test_every_operator_has_a_case():
    called = {n.split()[0].removesuffix("float32").removesuffix("float16") for n in OPERATORS}
    others = {
        *("SCHEDULES", "find_schedule", "register_schedule", "cuda", "generic", "x86", "tag"),
        *("utils", "nn", "image", "sparse", "vision", "Epilogue", "get_pad_tuple", "pair", "pad"),
        # several results, and words for what has a case
        *("batch_norm", "circular_pad", "mirror_pad", "reflect_pad", "replicate_pad", "conv2d"),
        *("meshgrid", "arange", "gru", "lstm", "rnn"),
        # statements of plain loops, which one thread of a GPU would run
        *("argsort", "det", "scatter", "scatter_elements", "scatter_nd", "searchsorted", "sort"),
        *("argwhere", "unique", "sparse_add", "sparse_fill_empty_rows", "sparse_reshape"),
        *("sparse_to_dense",),
        *("acos", "acosh", "atanh"),  # as asin
        *(
            "sparse_dense",
            "sparse_transpose",
            "strided_set",
            "topk",
            "max_pool_places",
            "deformable_conv2d_nchw",
        ),
    }
    assert set(topi.__all__) | set(topi.nn.__all__) <= called | others


def test_statements_of_plain_loops_run_in_one_thread():
    X = te.placeholder((3, 40), name="X")
    out = topi.cumsum(X, 1)
    with pytest.warns(AutoBindWarning, match="T_cumsum: one thread"):
        f = whet.build(te.create_schedule(out.op), [X, out], TARGET)
    x = np.random.default_rng(0).standard_normal((3, 40)).astype("f4")
    np.testing.assert_allclose(ran(f, [x], out), np.cumsum(x, 1), 1e-5, 1e-5)


def test_float16_is_accumulated_in_float32():
    X = te.placeholder((3, 5000), "float16", name="X")
    for out, right in ((topi.sum(X, 1), 5000), (topi.nn.relu(topi.sum(X)), 15000)):
        task = whet.create_task(outputs=[out], target=TARGET)
        f = whet.build(*task.instantiate(), task.target)
        got = ran(f, [np.ones((3, 5000), "float16")], out)
        np.testing.assert_array_equal(got, np.float16(right))
    assert widened_sum(topi.max(X, 1).op) is None
    assert widened_sum(topi.sum(te.placeholder((3, 5), name="Y"), 1).op) is None
