"""Stages that are computed ahead of a GPU's kernel: packed where the weights are."""

import numpy as np
import pytest

import whet
from whet.compiler import te
from whet.compiler.errors import ArgumentError

TARGET = "cuda -arch=sm_80"


def bound(s, tensor):
    block, thread = s[tensor].split(s[tensor].fuse(*s[tensor].op.axis), factor=64)
    s[tensor].bind(block, te.thread_axis("blockIdx.x"))
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))


def kernel(rows, columns):
    """``Y = X + 2 * W.T``, the latter computed ahead."""
    W, X = te.placeholder((columns, rows), name="W"), te.placeholder((rows, columns), name="X")
    P = te.compute((rows, columns), lambda i, j: W[j, i] * 2.0, name="P")
    Y = te.compute((rows, columns), lambda i, j: X[i, j] + P[i, j], name="Y")
    s = te.create_schedule(Y.op)
    s[P].compute_ahead()
    bound(s, P)
    bound(s, Y)
    return whet.build(s, [X, W, Y], TARGET)


@pytest.mark.parametrize("symbolic", [False, True])
def test_weights_are_packed_on_their_device(symbolic):
    f = kernel(te.var("n"), te.var("m")) if symbolic else kernel(33, 7)
    device = whet.device("cuda-emulator")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((33, 7)).astype("f4"), rng.standard_normal((7, 33)).astype("f4")
    packed = f.pack_weights(whet.nd.array(w, device))
    assert packed.device == device and packed.shape == (33, 7)
    np.testing.assert_array_equal(packed.numpy(), w.T * 2)
    out = whet.nd.array(np.full((33, 7), np.nan, "f4"), device)
    f(whet.nd.array(x, device), packed, out)
    np.testing.assert_allclose(out.numpy(), x + w.T * 2, 1e-6)


def test_weights_on_the_host_are_refused():
    with pytest.raises(ArgumentError, match="W is in the CPU's memory, and the function runs on"):
        kernel(33, 7).pack_weights(np.zeros((7, 33), "f4"))
