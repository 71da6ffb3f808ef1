"""A contest: kernels of one task and its peers, checked against a reference and timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import Arrays, arrays_of, check_work
from whet.bench.check import check_contestants
from whet.bench.comparison import Comparison
from whet.bench.cpu.libraries import peers_of
from whet.bench.limits import Traffic
from whet.bench.operators.table import expected, laid_out
from whet.bench.turns import WARM_UPS, interleaved, on_cores
from whet.compiler.target.machine.fma import fma_peak
from whet.measure.stage.machine import environment

if TYPE_CHECKING:
    from whet.autotune import Task
    from whet.compiler.runtime.module import Module

MOMENT = 0.02
"""Seconds of one sample."""
PAUSE = 0.01
"""Seconds until the threads of a library sleep that has been called."""


def compare(
    task: Task,
    kernels: Mapping[str, Module],
    rounds: int = 25,
    compiled: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Time kernels of a task, its peers and the machine's limits in turns.

    The process is pinned to as many cores as the task's target has threads.

    Args:
        task: made from a named template.
        kernels: name -> a kernel of the task; the last one is the one that counts.
        rounds: how often each is timed.
        compiled: whether PyTorch's compiler is a peer, too.
        say: is told what is being done.

    Raises:
        MeasureError: a kernel's numbers are wrong, or a peer's; there is no work to time.
    """
    check_work(task)
    threads = task.target.num_threads
    facts = environment()
    arrays = arrays_of(task)
    with on_cores(threads):
        say("peers")
        peers = peers_of(task, arrays.inputs, threads, compiled)
        say("reference")
        right = expected(task, arrays.inputs)
        contestants, errors = check_contestants(
            task, kernels, partial(_run, arrays), peers.calls, partial(laid_out, task), right
        )
        say("in turns")
        peaks: list[float] = []
        streams: list[float] = []
        traffic = Traffic(arrays, threads)
        limits: dict[str, Callable[[], object]] = {
            "FMA peak": lambda: peaks.append(threads * fma_peak(seconds=MOMENT)),
            "stream": lambda: streams.append(traffic.seconds(MOMENT)),
        }
        samples = interleaved(
            {**contestants, **limits}, rounds, MOMENT, PAUSE if threads > 1 else 0.0
        )
    return Comparison.of(
        task,
        arrays,
        kernels,
        threads=threads,
        samples={name: samples[name] for name in contestants},
        packed=frozenset(peers.packed),
        peaks=tuple(peaks[WARM_UPS:]),
        streams=tuple(streams[WARM_UPS:]),
        errors=errors,
        left_out=tuple(peers.left_out),
        environment=facts,
    )


def _run(arrays: Arrays, kernel: Module) -> tuple[Callable[[], Any], Sequence[Any]]:
    """The call of a kernel, and its outputs."""
    call = arrays.call_of(kernel)
    arrays.spoil()
    call()
    return call, arrays.outputs
