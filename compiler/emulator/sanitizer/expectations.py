"""What an array of a launch shall hold afterwards: an expression of the arguments, or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whet.compiler.emulator.sanitizer.array_text import load_array
from whet.compiler.emulator.sanitizer.run import Argument, Unwritten
from whet.compiler.errors import ArgumentError, KernelError

HOW_EXPECTED = "y=2*x+y, y=np.cumsum(x), y=0 or y=@file.npy; names are the kernel's parameters"


@dataclass(frozen=True, slots=True)
class Expectations:
    """What to compare after a launch.

    Attributes:
        texts: of each parameter's name, what it shall hold: an expression of numpy's (``np``) in
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
        found = {}
        for name, text in self.texts.items():
            if name not in arrays:
                raise ArgumentError(
                    f"--expect {name}={text}",
                    f"{name} is no array of the kernel: it has {', '.join(arrays) or 'none'}",
                    HOW_EXPECTED,
                )
            found[name] = _fitted(name, text, _computed(name, text, before), arrays[name].shape)
        return found

    def check(
        self, wanted: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], launch: str
    ) -> None:
        """Compare what a launch has left.

        Raises:
            KernelError: an array is another one; it names the element that is farthest off.
        """
        for name, array in wanted.items():
            far = self._far(found[name], array)
            if not far.any():
                continue
            at = np.unravel_index(int(np.argmax(far)), far.shape)
            index = ", ".join(str(int(i)) for i in at)
            raise KernelError(
                f"checking {launch}",
                f"{name}[{index}] is {found[name][at]}, and {array[at]} is expected; "
                f"{int(far.astype(bool).sum())} of {far.size} elements differ",
                f"{name}={self.texts[name]} by --expect; --rtol and --atol say how near is enough",
            )

    def _far(self, found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """How far elements are beyond what is allowed; 0: they are close."""
        exact = found.dtype.kind in "iub" and self.rtol is None and self.atol is None
        if exact:
            return (found != wanted).astype("float64")
        rtol, atol = {2: (2e-2, 2e-2), 8: (1e-9, 1e-11)}.get(found.dtype.itemsize, (1e-3, 1e-4))
        rtol = rtol if self.rtol is None else self.rtol
        atol = atol if self.atol is None else self.atol
        a, b = found.astype("float64"), wanted.astype("float64")
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.where(np.isfinite(a - b), np.abs(a - b), np.inf)
        return np.where(np.isclose(a, b, rtol, atol, equal_nan=True), 0.0, np.maximum(off, 1e-300))


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
        raise ArgumentError(
            f"--expect {name}={text}", f"{type(error).__name__}: {error}", HOW_EXPECTED
        ) from None


def _fitted(name: str, text: str, found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of a shape: one number for all, or as many elements."""
    if found.dtype.kind not in "iubf" and str(found.dtype) != "bfloat16":
        raise ArgumentError(f"--expect {name}={text}", f"it is {found.dtype}: no numbers")
    if found.ndim == 0:
        return np.full(shape, found[()])
    if found.size != np.prod(shape, dtype=np.int64):
        raise ArgumentError(
            f"--expect {name}={text}", f"it has the shape {found.shape}, and {name} {shape}"
        )
    return found.reshape(shape)
