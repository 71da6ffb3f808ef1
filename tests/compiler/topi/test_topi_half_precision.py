"""Sums of half precision: accumulated in float32, rounded once, with every schedule."""

import ml_dtypes
import numpy as np
import pytest

import whet
from whet import te, topi
from whet.compiler.topi.schedules import find_schedule

EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def array(rng, shape, dtype):
    values = rng.random(shape)
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def check(made, reference, *shapes, dtype="float16", target="llvm", schedule=None, slack=1.05):
    rng = np.random.default_rng()
    inputs = [te.placeholder(s, dtype, name=f"A{k}") for k, s in enumerate(shapes)]
    values = [array(rng, s, dtype) for s in shapes]
    out = made(*inputs)
    assert out.dtype == dtype
    with whet.Target(target):
        s = te.create_schedule(out.op) if schedule is None else schedule([out])
    f = whet.build(s, [*inputs, out], target)
    wanted = reference(*[v.astype("float64") for v in values])
    got = np.full(wanted.shape, 77, values[0].dtype)
    if target == "cuda":
        device = whet.device("cuda-emulator")
        arrays = [whet.nd.array(v, device) for v in (*values, got)]
        f(*arrays)
        got = arrays[-1].numpy()
    else:
        f(*values, got)
    error = np.abs(got.astype("float64") - wanted) / np.maximum(np.abs(wanted), 2.0**-14)
    assert error.max() <= slack * EPS[dtype]


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize(
    "target, kind", [("llvm", None), ("llvm", "generic"), ("llvm", "x86"), ("c", None)]
)
def test_sums_over_rows_columns_and_all(target, kind, dtype):
    schedule = kind and find_schedule(kind, "reduce")
    for axis in (1, 0, None):
        check(
            lambda a: topi.sum(a, axis, keepdims=axis is None),  # noqa: B023
            lambda a: a.sum(axis, keepdims=axis is None),  # noqa: B023
            (13, 2573),
            dtype=dtype,
            target=target,
            schedule=schedule,
        )


def test_sums_on_a_gpu():
    schedule = topi.cuda.schedule_reduce
    check(lambda a: topi.sum(a, 1), lambda a: a.sum(1), (3, 2573), target="cuda", schedule=schedule)


def test_an_average_of_what_adds_up_to_more_than_a_half_holds():
    def mean(a):
        return a.mean((2, 3), keepdims=True)

    check(lambda a: topi.nn.global_pool(a, "avg"), mean, (1, 2, 401, 403))


def softmax(a):
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def windows(a, w):
    return np.einsum("nchw,ochw->no", a, w)[..., None, None]


CASES = {
    "prod": (lambda a: topi.prod(topi.add(a, topi.full_like(a, 0.5)), 1),
             lambda a: (a + 0.5).astype("float16").astype("float64").prod(1), (3, 37)),
    "matmul": (topi.matmul, np.matmul, (3, 2001), (2001, 5)),
    "dense": (topi.nn.dense, lambda a, b: a @ b.T, (3, 2001), (5, 2001)),
    "batch": (topi.nn.batch_matmul, lambda a, b: a @ b.transpose(0, 2, 1),
              (2, 3, 999), (2, 5, 999)),
    "softmax": (lambda a: topi.nn.softmax(a, 1), softmax, (3, 4001)),
    "pool": (lambda a: topi.nn.pool2d(a, (60, 60), (60, 60), pool_type="avg"),
             lambda a: a.reshape(1, 3, 2, 60, 2, 60).mean((3, 5)), (1, 3, 120, 120)),
    "adaptive": (lambda a: topi.nn.adaptive_pool(a, (2, 1), "avg"),
                 lambda a: a.reshape(1, 3, 2, 50, 99).mean((3, 4), keepdims=True)[..., 0],
                 (1, 3, 100, 99)),
    "convolution": (topi.nn.conv2d_nchw, windows,
                    (1, 301, 3, 3), (5, 301, 3, 3)),
    "depthwise": (topi.nn.depthwise_conv2d_nchw,
                  lambda a, w: np.einsum("nchw,cmhw->nc", a, w)[..., None, None],
                  (1, 3, 47, 47), (3, 1, 47, 47)),
    "rms_norm": (lambda a: topi.nn.rms_norm(a, None, [1]),
                 lambda a: a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-5), (3, 4001)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operators_that_sum(name):
    made, reference, *shapes = CASES[name]
    check(made, reference, *shapes)


def test_layer_norm_of_half_precision():
    a = np.random.default_rng().random((3, 4001)).astype("float16")
    A = te.placeholder(a.shape, "float16", name="A")
    out = topi.nn.layer_norm(A, None, None, [1])
    got = np.full(a.shape, 77, "float16")
    whet.build(te.create_schedule(out.op), [A, out], "llvm")(a, got)
    wide = a.astype("float64")
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got, wanted, rtol=2.0**-10, atol=2.0**-12)


def test_out_dtype_takes_other_names():
    A, B = (te.placeholder((3, 3), "float16", name=n) for n in "AB")
    assert topi.nn.dense(A, B, out_dtype="float").dtype == "float32"
    assert topi.nn.dense(A, B, out_dtype="float").op.tag == "dense"
