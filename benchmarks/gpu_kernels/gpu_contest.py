"""One work beside its peers on a GPU, in a process that a kernel may take with it.

The process is a worker that stays: importing PyTorch and making a context take seconds. After a
kernel that crashes, hangs, or leaves the context unusable the next work has a new one.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, replace
from typing import Any

from layers import Work

import whet
from whet.bench.comparison import Comparison
from whet.compiler.errors import LogError, MeasureError
from whet.measure.worker.supervisor import Supervisor

COMPARED = "gpu_contest:compared"
"""The function that the worker runs."""


@dataclass(frozen=True)
class How:
    """How works are compared.

    Attributes:
        device: which, as a text.
        log: what tuned kernels are built from; "": there are none.
        defaults: whether default configs are contestants, where there are tuned ones.
        rounds: how often each is timed.
        compiled: whether ``torch.compile`` is a peer, too.
        flush: whether the L2 cache is emptied before each call.
    """

    device: str
    log: str = ""
    defaults: bool = True
    rounds: int = 15
    compiled: bool = False
    flush: bool = True


@dataclass(frozen=True)
class Failure:
    """Why a work has no figures.

    Attributes:
        text: the error with its traceback.
        lost: whether the process can use its device no more.
    """

    text: str
    lost: bool


class OutOfTime(Exception):
    """A work was not done when the time of all was over."""


class Contests:
    """Compares works, one after the other, in a process of their own.

    Args:
        how: what all of them have in common.
        seconds: that a work may take.
        until: ``time.monotonic()`` at which the time of all is over.
    """

    def __init__(self, how: How, seconds: float, until: float = float("inf")) -> None:
        self._how, self._seconds, self._until = how, seconds, until
        self._worker = Supervisor(preload=["gpu_contest"])

    def measured(self, work: Work) -> Comparison:
        """One work.

        Raises:
            MeasureError: it failed; the first line says how.
            OutOfTime: the time of all is over.
        """
        left = self._until - time.monotonic()
        outcome = self._worker.call(COMPARED, work, self._how, timeout=min(self._seconds, left))
        if outcome.kind == "timeout" and left < self._seconds:
            raise OutOfTime(work.name)
        found: Any = outcome.value
        if outcome.kind == "ok" and isinstance(found, Failure) and found.lost:
            self._worker.renew()
        if outcome.kind == "ok" and not isinstance(found, Failure):
            return found
        text = found.text if isinstance(found, Failure) else outcome.error
        raise MeasureError(work.name, _in_a_line(outcome.kind, text), text)

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def _in_a_line(kind: str, text: str) -> str:
    """The end of a failed call: how its process ended, or its last exception."""
    lines = [line for line in text.splitlines() if line.strip()]
    if kind != "ok":
        return f"{kind}: {lines[0]}" if lines else kind
    said = [k for k, line in enumerate(lines) if not line.startswith((" ", "Traceback"))]
    return lines[said[-1]] if said else "it failed"


def target_of(device: Any) -> str:
    """The architecture that code for a device is made for; no context is made for the answer."""
    from whet.compiler.runtime.gpu.driver.interface import driver_of

    return f"cuda -arch={driver_of(device.type).properties(device.index).arch}"


def compared(work: Work, how: How) -> Comparison | Failure:
    """Compare one work, in the worker."""
    from whet.compiler.runtime.arrays.device import context_of
    from whet.measure.gpu.runner import is_lost

    device = whet.device(how.device)
    try:
        return _compared(work, how, device)
    except Exception:
        text = traceback.format_exc()
        return Failure(text, is_lost(context_of(device)))


def _compared(work: Work, how: How, device: Any) -> Comparison:
    from whet.bench.contest import compare
    from whet.bench.gpu.place import gpu

    task = whet.create_task(work.template, args=work.args, target=target_of(device))
    kernels: dict[str, Any] = {}
    absent: tuple[str, ...] = ()
    if how.log:
        try:
            kernels["tuned"] = whet.build(task, log=how.log, device=device)
        except LogError as error:
            absent = (f"tuned: {str(error).splitlines()[0]}",)
    if how.defaults or not kernels:
        kernels = {"default": whet.build(task), **kernels}
    row = compare(gpu(device, how.flush), task, kernels, how.rounds, how.compiled)
    return replace(row, left_out=(*row.left_out, *absent))
