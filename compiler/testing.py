"""What tests of kernels need."""

from __future__ import annotations

from typing import Any

import numpy as np

from whet.compiler.runtime.ndarray import NDArray


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Refuse arrays of another shape, or that differ by more than ``atol + rtol * desired``.

    Args:
        actual: numpy or NDArray.
        desired: what it should be.
        rtol, atol: the relative and the absolute tolerance.
        verbose: whether the message shows the arrays.

    Raises:
        AssertionError: they differ.
    """
    got, wanted = _numpy(actual), _numpy(desired)
    np.testing.assert_allclose(got.shape, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, verbose=verbose)


def _numpy(value: Any) -> np.ndarray:
    return value.numpy() if isinstance(value, NDArray) else np.asanyarray(value)
