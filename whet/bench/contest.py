"""A contest: kernels of one task and its peers, checked against a reference and timed in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from whet.bench.arguments import Arrays, arrays_of, call_of, check_work, packs_ahead
from whet.bench.check import Contestant, check_contestants
from whet.bench.comparison import Comparison
from whet.bench.operators.operator import Peers
from whet.bench.operators.table import laid_out
from whet.bench.turns import Clock, Sample, interleaved

if TYPE_CHECKING:
    import numpy as np

    from whet.autotune import Task
    from whet.compiler.runtime.module import Module
    from whet.measure.values import Json

PEAK, STREAM = "FMA peak", "stream"
"""Contestants that are limits."""
LATE = "{} is compared, but its calls take the host longer than the device"


@dataclass(frozen=True)
class Limit:
    """A limit of a place, which is timed in turns with the contestants.

    Attributes:
        run: does the limit's work once.
        figures: from its sample to the limit, a number a round.
    """

    run: Callable[[], object]
    figures: Callable[[Sample], tuple[float, ...]]


@dataclass(frozen=True)
class Place:
    """A place: its memory, its clock, its limits, and the peers that run there.

    Attributes:
        name: the device's; "": cores of the CPU.
        threads: how many each contestant can use.
        environment: the state of the machine now, as far as it says how far times can be trusted.
        pinned: keeps this process where contestants run.
        peers: from a task, a kernel's inputs (weights as they are before they are packed), and
            whether PyTorch's compiler is a peer, to the libraries that can do the work.
        exact: from a task and the inputs to the right outputs in float64; None: those of the first
            kernel count.
        put: from an array to one here, as kernels take it.
        read: from one here to its contents on the host, after all calls so far.
        timing: from the arrays of a call to the clock, the FMA peak in FLOP/s, and the seconds that
            streaming the arrays' bytes takes.
        more: further limits, from the arrays of a call, by the attribute of a comparison that takes
            their figures: ``"instructions"``, ``"lone_peaks"``.
    """

    name: str
    threads: int
    environment: Callable[[], Json]
    pinned: Callable[[], AbstractContextManager[None]]
    peers: Callable[[Task, Sequence[np.ndarray], bool], Peers]
    exact: Callable[[Task, Sequence[np.ndarray]], Sequence[Any] | None]
    put: Callable[[np.ndarray], Any]
    read: Callable[[Any], np.ndarray]
    timing: Callable[[Arrays], AbstractContextManager[tuple[Clock, Limit, Limit]]]
    more: Mapping[str, Callable[[Arrays], Limit]] = field(default_factory=dict)


def compare(
    place: Place,
    task: Task,
    kernels: Mapping[str, Module],
    rounds: int = 25,
    compiled: bool = True,
    say: Callable[[str], None] = lambda text: None,
    seconds: float = float("inf"),
) -> Comparison:
    """Time kernels of a task, its peers and the limits of a place in turns.

    Args:
        place: where all of it runs: ``cores(2)`` of ``whet.bench.cpu.place``, ``gpu(device)``
            of ``whet.bench.gpu.place``.
        task: for that place.
        kernels: name -> a kernel of the task; the last one is the one that counts.
        rounds: how often each is timed.
        compiled: whether PyTorch's compiler is a peer, too.
        say: is told what is being done.
        seconds: no further round begins after so long.

    Raises:
        MeasureError: a kernel's numbers are wrong, or a peer's; there is no work to time.
    """
    check_work(task)
    arrays = arrays_of(task)
    facts = place.environment()
    with place.pinned():
        say("peers")
        peers = place.peers(task, arrays.inputs, compiled)
        say("reference")
        exact = place.exact(task, arrays.inputs)
        run = partial(run_once, place, arrays, [place.put(array) for array in arrays.inputs])
        calls, errors = check_contestants(
            task, kernels, run, peers.calls, partial(laid_out, task), exact
        )
        say("in turns")
        with place.timing(arrays) as (clock, peak, stream):
            limits = {PEAK: peak, STREAM: stream}
            limits |= {name: make(arrays) for name, make in place.more.items()}
            runs = {name: limit.run for name, limit in limits.items()}
            samples = interleaved({**calls, **runs}, rounds, clock, seconds)
    figures = {name: limit.figures(samples[name]) for name, limit in limits.items()}
    return Comparison.of(
        task,
        arrays,
        kernels,
        threads=place.threads,
        samples={name: samples[name] for name in calls},
        packed=frozenset(peers.packed),
        packs=any(packs_ahead(kernel) for kernel in kernels.values()),
        peaks=figures[PEAK],
        streams=figures[STREAM],
        errors=errors,
        left_out=(*peers.left_out, *(LATE.format(n) for n, s in samples.items() if s.late)),
        place=place.name,
        environment=facts,
        **{name: figures[name] for name in place.more},
    )


def run_once(
    place: Place, arrays: Arrays, inputs: Sequence[Any], kernel: Module
) -> tuple[Contestant, list[Any]]:
    """The call of a kernel, and the outputs of its first run on the host.

    Args:
        place: where the kernel runs.
        arrays: of the call.
        inputs: those that are read, as they were put there.
        kernel: takes them.
    """
    arrays.spoil()
    outputs = [place.put(array) for array in arrays.outputs]
    each = {False: iter(inputs), True: iter(outputs)}
    call = call_of(kernel, [next(each[written]) for written in arrays.computed])
    call()
    return call, [place.read(array) for array in outputs]
