"""The check of a candidate's numbers: those of the reference schedule, up to rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Schedules differ in the order of additions. Blocked or not, the error of a float32 sum of a
# million terms stays near 1e-5 of the result's scale; a single term left out is far above 1e-4.
RTOL = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


class ExpectedOutput:
    """One output of the reference, ready to be compared with many candidates'.

    Args:
        name: the output's name in messages.
        want: the reference's numbers; copied.
        rtol: relative tolerance; None chooses it by dtype. What is small beside the output's
            root mean square is compared with that: sums cancel.
    """

    def __init__(self, name: str, want: np.ndarray, rtol: float | None = None) -> None:
        self.name = name
        self.want = want.copy()
        self._exact = want.dtype.kind in "biu"
        if self._exact:
            return
        self.rtol = RTOL.get(want.dtype.name, 1e-4) if rtol is None else rtol
        wide = self._wide(self.want)
        finite = wide[np.isfinite(wide)].astype(np.float64)
        scale = float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0
        with np.errstate(invalid="ignore"):
            self._bound = np.abs(wide) * self.rtol + self.rtol * scale
        self._bound[np.isinf(wide)] = np.nan  # nothing but itself is near infinity

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return self.want.nbytes + (0 if self._exact else self._bound.nbytes)

    def difference(self, got: np.ndarray) -> str:
        """The difference of ``got``, an array of the same shape, in words; "" for none."""
        bad = self._bad(got)
        if bad is None:
            return ""
        count = int(np.count_nonzero(bad))
        where = tuple(int(i[0]) for i in np.nonzero(bad))
        limit = "equal numbers" if self._exact else f"a relative tolerance of {self.rtol:g}"
        text = (
            f"{self.name}: {count} of {got.size} numbers differ from the reference schedule's "
            f"({limit} asked for); the first is {self.name}{list(where)} = {got[where]}, "
            f"expected {self.want[where]}"
        )
        if not self._exact:
            with np.errstate(all="ignore"):
                error = np.abs(self._wide(got) - self._wide(self.want))[bad]
            text += f"; the largest error is {np.nanmax(error, initial=0.0):.3g}"
            if np.isnan(error).any():
                text += f", and {int(np.isnan(error).sum())} are NaN (never written?)"
        return text

    def _bad(self, got: np.ndarray) -> np.ndarray | None:
        if self._exact:
            bad = got != self.want
            return bad if bad.any() else None
        wide, want = self._wide(got), self._wide(self.want)
        with np.errstate(all="ignore"):
            error = np.subtract(wide, want)
            good = np.abs(error, out=error) <= self._bound
            if good.all():
                return None
            good |= (wide == want) | (np.isnan(wide) & np.isnan(want))
        return None if good.all() else ~good

    @staticmethod
    def _wide(values: np.ndarray) -> np.ndarray:
        return values if values.dtype.itemsize >= 4 else values.astype(np.float32)


@dataclass(frozen=True)
class Reference:
    """The outputs of a workload's reference config.

    Attributes:
        outputs: the written arrays.
        finite: the kernel reads its outputs first, so that candidates are given finite ones, too.
        params: its parameters, by their places.
    """

    outputs: Sequence[ExpectedOutput]
    finite: bool
    params: Mapping[int, Any]

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return sum(output.nbytes for output in self.outputs)

    def difference(self, got: Mapping[str, np.ndarray]) -> str:
        """The difference of a candidate's outputs, in words; "" for none."""
        names = sorted(output.name for output in self.outputs)
        if set(names) - got.keys():
            return f"the kernel writes {sorted(got)}, the reference schedule's {names}"
        texts = (output.difference(got[output.name]) for output in self.outputs)
        return "\n".join(text for text in texts if text)

    def argument_difference(self, got: Mapping[int, Any]) -> str:
        """The difference of a candidate's arguments, in words; "" for none.

        Numpy would compare arrays of some different shapes, and take them for equal.

        Args:
            got: the candidate's parameters, by their places.
        """
        texts = []
        for place in sorted(self.params.keys() | got.keys()):
            one, other = (_described(params.get(place)) for params in (self.params, got))
            if one != other:
                name = (got.get(place) or self.params[place]).name
                texts.append(
                    f"argument {place} ({name}) is {other} with this config, {one} by default"
                )
        if texts:
            texts.append(
                "a template computes the same with every config: only its schedule may differ"
            )
        return "\n".join(texts)


def _described(param: Any) -> str:
    if param is None:
        return "missing"
    shape = getattr(param, "shape", None)
    return f"a scalar of {param.dtype}" if shape is None else f"{param.dtype} of shape {shape}"
