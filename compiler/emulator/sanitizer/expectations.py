"""Expected contents of a launch's arrays: an expression of the arguments, or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.emulator.sanitizer.array_text import load_array
from whet.compiler.emulator.sanitizer.run import Argument, Unwritten
from whet.compiler.errors import ArgumentError, KernelError

# Bytes of a float -> how far results may be apart: of each, and of what is usual among them.
_CLOSE = {2: (2e-2, 2e-2), 4: (1e-3, 1e-4), 8: (1e-9, 1e-11)}
HOW_EXPECTED = "y=2*x+y, y=np.cumsum(x), y=0 or y=@file.npy; names are the kernel's parameters"


@dataclass(frozen=True, slots=True)
class Expectations:
    """Expected contents of arrays after a launch.

    Attributes:
        texts: a parameter's name -> its contents: an expression of numpy's (``np``) in
            the parameters' values before the launch, floats in float64; or ``@file.npy``.
        rtol, atol: the tolerances, as of ``numpy.allclose``; None: by the array's type.
    """

    texts: Mapping[str, str]
    rtol: float | None = None
    atol: float | None = None

    def values(self, names: Sequence[str], given: Sequence[Argument]) -> dict[str, np.ndarray]:
        """The arrays that are expected, in float64 where they are floats.

        Args:
            names: of the kernel's parameters.
            given: the arguments.

        Raises:
            ArgumentError: a name is no array's, or an expression cannot be computed.
        """
        before = {n: _wide(g) for n, g in zip(names, given) if not isinstance(g, Unwritten)}
        arrays = {n: g for n, g in zip(names, given) if isinstance(g, (np.ndarray, Unwritten))}
        wanted = {}
        for name, text in self.texts.items():
            if name not in arrays:
                has = ", ".join(arrays) or "none"
                raise _refused(name, text, f"{name} is no array of the kernel: it has {has}")
            wanted[name] = _fitted(name, text, _computed(name, text, before), arrays[name].shape)
        return wanted

    def check(
        self, wanted: Mapping[str, np.ndarray], left: Mapping[str, np.ndarray], launch: str
    ) -> None:
        """Compare what a launch has left.

        Raises:
            KernelError: an array is another one; it names the element that is farthest off.
        """
        for name, array in wanted.items():
            different, farthest = compare(left[name], array, self.rtol, self.atol)
            if different:
                raise KernelError(
                    f"checking {launch}",
                    f"{name}{farthest} is expected; {different} of {array.size} elements differ",
                    f"{name}={self.texts[name]} by --expect; --rtol and --atol say how near is "
                    "enough",
                )


def compare(
    left: np.ndarray,
    wanted: np.ndarray,
    rtol: float | None = None,
    atol: float | None = None,
    scaled: bool = False,
) -> tuple[int, str]:
    """Compare two arrays.

    Args:
        left: after a launch.
        wanted: of the same shape.
        rtol, atol: the tolerances, as of ``numpy.allclose``; None: by the type of ``left``.
        scaled: whether the absolute one is in units of what is usual among the wanted values.

    Returns:
        How many elements differ, and the one that is farthest off: ``"[3, 2] is 1.0, and 2.0"``.
    """
    a, b = left.astype("float64"), wanted.astype("float64")
    if left.dtype.kind in "iub" and rtol is None and atol is None:
        far = (left != wanted).astype("float64")
    else:
        near, usual = _CLOSE.get(left.dtype.itemsize, _CLOSE[4])
        sizes = np.abs(b[np.isfinite(b) & (b != 0)]) if scaled else np.empty(0)
        usual *= float(np.median(sizes)) if sizes.size else 1.0
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.where(np.isfinite(a - b), np.abs(a - b), np.inf)
        near, usual = near if rtol is None else rtol, usual if atol is None else atol
        close = np.isclose(a, b, near, usual, equal_nan=True)
        far = np.where(close, 0.0, np.maximum(off, 1e-300))
    if not far.any():
        return 0, ""
    at = np.unravel_index(int(np.argmax(far)), far.shape)
    farthest = f"[{', '.join(map(str, at))}] is {left[at]}, and {wanted[at]}"
    return int(np.count_nonzero(far)), farthest


def _wide(given: Any) -> Any:
    if isinstance(given, np.ndarray) and given.dtype.kind not in "iub":
        return given.astype("float64")
    return given


def _computed(name: str, text: str, values: Mapping[str, Any]) -> np.ndarray:
    """The value of what a user has written on the command line, without Python's own functions."""
    if text.strip().startswith("@"):
        return load_array(text.strip()[1:].strip())
    try:
        with np.errstate(all="ignore"):
            return np.asarray(eval(text, {"__builtins__": {}, "np": np}, dict(values)))
    except Exception as error:
        raise _refused(name, text, f"{type(error).__name__}: {error}") from None


def _fitted(name: str, text: str, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of a shape: one number for all, or as many elements."""
    if value.dtype.kind not in "iubf" and str(value.dtype) != "bfloat16":
        raise _refused(name, text, f"it is {value.dtype}: no numbers")
    if value.ndim == 0:
        return np.full(shape, value[()])
    if value.size != np.prod(shape, dtype=np.int64):
        raise _refused(name, text, f"it has the shape {value.shape}, and {name} {shape}")
    return value.reshape(shape)


def _refused(name: str, text: str, why: str) -> ArgumentError:
    return ArgumentError(f"--expect {name}={text}", why, HOW_EXPECTED)
