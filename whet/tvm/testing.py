"""Tests of kernels: arrays compared, and runs for several targets with pytest."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from whet.compiler import runtime
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.device import Device
from whet.compiler.runtime.arrays.ndarray import NDArray
from whet.tvm.names import explained

__all__ = [
    "TARGETS",
    "assert_allclose",
    "device_enabled",
    "enabled_targets",
    "main",
    "parameter",
    "parametrize_targets",
    "requires_cuda",
    "requires_gpu",
    "requires_llvm",
]

TARGETS = ("llvm", "cuda")
"""The targets of tests that name none."""


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


def device_enabled(target: str) -> bool:
    """True if kernels for a target, e.g. ``"llvm -mcpu=znver3"``, can run on this machine."""
    return runtime.enabled(str(target)) and runtime.device(target).exist


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that :func:`parametrize_targets` takes by itself, each with its device."""
    return [(t, runtime.device(t)) for t in TARGETS if device_enabled(t)]


def parametrize_targets(*targets: Any) -> Any:
    """Decorator: a test with the parameters ``target`` and ``dev`` runs once for each target.

    Args:
        targets: target texts; without any, all of :data:`TARGETS`. Those that this machine cannot
            run are skipped.

    Raises:
        ArgumentError: pytest is not installed.
    """
    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets(*TARGETS)(targets[0])
    pytest = _pytest("parametrize_targets")
    cases = [
        pytest.param(t, runtime.device(t), id=str(t), marks=_skip_unless(device_enabled(t), str(t)))
        for t in targets or TARGETS
    ]
    return pytest.mark.parametrize(("target", "dev"), cases)


def requires_llvm(test: Any = None) -> Any:
    """Decorator: the test is skipped where kernels of kind ``llvm`` do not run."""
    return _requires(test, "llvm", device_enabled("llvm"))


def requires_cuda(test: Any = None) -> Any:
    """Decorator: the test is skipped where kernels of kind ``cuda`` do not run."""
    return _requires(test, "cuda", device_enabled("cuda"))


def requires_gpu(test: Any = None) -> Any:
    """Decorator: the test is skipped where no GPU runs kernels."""
    return _requires(test, "a GPU", device_enabled("cuda"))


def parameter(*values: Any, ids: Any = None) -> Any:
    """A fixture with these values: ``size = whet.testing.parameter(8, 13)`` beside the tests.

    Args:
        values: the tests that take it run once for each.
        ids: a name for each value.

    Raises:
        ArgumentError: pytest is not installed.
    """

    def value_of(*_cls: Any, request: Any) -> Any:
        return request.param

    return _pytest("parameter").fixture(params=values, ids=ids)(value_of)


def main() -> None:
    """Run the tests of the file that calls this, with the options of the command line, and exit."""
    pytest = _pytest("main")
    file = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([file, *sys.argv[1:]]))


def _requires(test: Any, what: str, there: bool) -> Any:
    mark = _skip_unless(there, what)[0]
    return mark if test is None else mark(test)


def _skip_unless(there: bool, what: str) -> list[Any]:
    pytest = _pytest("requires_...")
    return [pytest.mark.skipif(not there, reason=f"{what} does not run on this machine")]


def _pytest(name: str) -> Any:
    try:
        import pytest
    except ImportError:
        raise ArgumentError(
            f"testing.{name}", "pytest is not installed", "pip install pytest"
        ) from None
    return pytest


__getattr__ = explained(__name__, "testing", "whet.testing", "name")
