"""The budget of a measurement, when arrays are large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whet.compiler.abi.artifact import Artifact
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.measure.stage.builder import Built
from whet.measure.stage.runner import Measurement, RunReport
from whet.measure.stage.stages import Measuring, inputs_s
from whet.measure.values import MeasureOptions
from whet.measure.worker.supervisor import Outcome

OPTIONS = MeasureOptions()


class Recording:
    """A worker's supervisor that notes what its calls may take."""

    starts = 1

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def start(self) -> None:
        pass

    def call(self, function: str, *args: Any, timeout: float) -> Outcome:
        self.seconds.append(timeout)
        return Outcome("ok", ("key",) if function == "prepare" else RunReport("ok", (1.0,)))


def built(size: int) -> Built:
    """A kernel that adds two arrays."""
    params = tuple(BufferParam(x, "float32", (size,), written=x == "C") for x in "ABC")
    return Built("ok", Artifact(b"", (KernelSignature("add", params),), {}, ""))


def test_the_first_to_need_large_arrays_has_time_to_make_them() -> None:
    large = built(1 << 27)  # half a gigabyte each
    worker = Recording()
    stage = Measuring([worker], "", "run", "prepare")  # type: ignore[list-item]
    stage.run(Measurement(large, OPTIONS, reference=large))
    stage.run(Measurement(large, replace(OPTIONS, check=False)))
    reference, after, alone = worker.seconds
    assert after == OPTIONS.run_timeout
    assert reference == alone == OPTIONS.run_timeout + inputs_s(large) > after + 10


def test_small_arrays_take_no_time() -> None:
    assert 0 < inputs_s(built(1000)) < 1e-3
    assert inputs_s(Built("build_error", error="it is wrong")) == 0
