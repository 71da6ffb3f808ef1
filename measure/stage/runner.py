"""What a measurer's worker does: load one artifact, check its numbers, time it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.measure.stage.arguments import Call
from whet.measure.stage.buffers import Arguments
from whet.measure.stage.lru_cache import Kept
from whet.measure.stage.machine import environment
from whet.measure.stage.reference import Expected, other_arguments
from whet.measure.stage.timing import repeat_facts, time_kernel
from whet.measure.values import OK, MeasureOptions

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.abi.signature import KernelSignature


@dataclass(frozen=True)
class RunReport:
    """What came of running one candidate.

    Attributes:
        status: ``"ok"``, ``"wrong_answer"``, ``"run_error"``, ``"run_timeout"``, ``"run_crash"``
            or ``"out_of_memory"``.
        costs: seconds per call, one a repeat.
        error: the whole error text.
        environment: the machine, and how the measurement went.
        seconds: time that it took, loading included; the stage fills it in.
        lost: whether the worker's device is of no more use: a new worker has to take it.
    """

    status: str
    costs: tuple[float, ...] = ()
    error: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    lost: bool = False

    def in_rounds(self, costs: Sequence[float]) -> RunReport:
        """The same with the costs of several rounds, of which each measured once."""
        facts = self.environment | repeat_facts(costs)
        return replace(self, costs=tuple(costs), environment=facts)


@dataclass(frozen=True)
class Kernel:
    """One loaded kernel.

    Attributes:
        signature: its parameters.
        bind: makes of arrays and numbers a function that runs the kernel on them as often as it
            is told, at next to no cost per call.
        packs: the kernel that makes what this one takes in place of weights; None: it takes none.
    """

    signature: KernelSignature
    bind: Callable[[tuple], Callable[[int], None]]
    packs: Kernel | None = None

    @property
    def places(self) -> dict[int, Any]:
        """Its parameters, weights instead of packed arrays, by their places."""
        packs = None if self.packs is None else self.packs.signature
        return Arguments.places(self.signature, packs)

    def on(self, arguments: Arguments) -> Call:
        """What it is called with; its weights are packed now."""
        if self.packs is None:
            return Call(self.signature, arguments)
        return Call(self.signature, arguments, self.packs.signature, self.packs.bind)

    @staticmethod
    def load(artifact: Artifact) -> Kernel:
        """The entry kernel of an artifact, ready in this process."""
        from whet.compiler.runtime import Module

        entry = Module.from_artifact(artifact).entry_func
        ahead = entry.ahead
        packs = None if ahead is None else Kernel(ahead.signature, ahead.repeater)
        return Kernel(entry.signature, entry.repeater, packs)


KEPT = 256 << 20
"""Bytes of arguments, and as many of references' outputs, that a worker keeps for its next call."""

_expected: Kept[tuple[list[Expected], bool, Mapping[int, Any]]] = Kept(KEPT)
_arguments: Kept[Arguments] = Kept(KEPT)


def prepare_reference(key: str, artifact: Artifact, options: MeasureOptions) -> tuple[str, ...]:
    """Run the reference once and keep its outputs in this worker, as long as there is room.

    Args:
        key: names the reference in later calls of :func:`run_candidate`.
        artifact: the reference's compiled kernel.
        options: seed and tolerance.

    Returns:
        The keys of all references that the worker has now.
    """
    return remember(key, Kernel.load(artifact), options)


def run_candidate(
    artifact: Artifact,
    options: MeasureOptions,
    reference: str | None = None,
    best_cost: float | None = None,
) -> RunReport:
    """Check and time one artifact.

    Args:
        artifact: the candidate's compiled kernel.
        options: how.
        reference: key of a prepared reference; None: the numbers are not checked.
        best_cost: seconds per call of the best so far; a far slower candidate is timed once.
    """
    return measure(Kernel.load(artifact), options, reference, best_cost)


def remember(key: str, kernel: Kernel, options: MeasureOptions) -> tuple[str, ...]:
    """:func:`prepare_reference` for a loaded kernel."""
    arguments = _arguments_of(kernel, options.seed)
    run = kernel.bind(kernel.on(arguments).values)
    finite = False
    while True:
        arguments.poison(finite)
        run(1)
        outputs = arguments.outputs()
        if finite or not any(_has_nan(array) for array in outputs.values()):
            break
        finite = True  # it reads what it writes (an accumulation): poison would spoil any check
    expected = [Expected(name, array, options.rtol) for name, array in outputs.items()]
    _expected.keep(key, (expected, finite, kernel.places), sum(one.nbytes for one in expected))
    return tuple(_expected)


def measure(
    kernel: Kernel,
    options: MeasureOptions,
    reference: str | None = None,
    best_cost: float | None = None,
) -> RunReport:
    """:func:`run_candidate` for a loaded kernel."""
    expected: list[Expected] = []
    finite = False
    if reference is not None:
        expected, finite, places = _expected[reference]
        if other := other_arguments(places, kernel.places):
            return RunReport("wrong_answer", (), other, environment())
    call = kernel.on(_arguments_of(kernel, options.seed))
    call.arguments.poison(finite)
    run = kernel.bind(call.values)

    def timed(number: int) -> float:
        start = time.perf_counter()
        run(number)
        return (time.perf_counter() - start) / number

    first = timed(1)
    wrong = _what_is_wrong(call, expected)
    if wrong:
        return RunReport("wrong_answer", (), wrong, environment())
    timing = time_kernel(timed, first, options, best_cost)
    stray = _what_is_wrong(call, [])
    facts = environment() | {
        "checked": reference is not None,
        "number": timing.number,
        **repeat_facts(timing.costs),
        "stopped": timing.stopped,
    }
    if stray:
        return RunReport("wrong_answer", (), stray, facts)
    return RunReport(OK, timing.costs, "", facts)


def _what_is_wrong(call: Call, expected: list[Expected]) -> str:
    stray = call.stray_writes()
    if stray:
        _arguments.clear()  # the walls are broken: the next candidate gets new ones
        return f"the kernel wrote memory outside of {', '.join(stray)}"
    outputs = call.arguments.outputs()
    if {one.name for one in expected} - outputs.keys():
        return (
            f"the kernel writes {sorted(outputs)}, the reference schedule's "
            f"{sorted(one.name for one in expected)}"
        )
    texts = (one.difference(outputs[one.name]) for one in expected)
    return "\n".join(text for text in texts if text)


def _arguments_of(kernel: Kernel, seed: int) -> Arguments:
    params = kernel.places
    key = f"{seed} {params}"
    if key not in _arguments:
        made = Arguments(params, seed, kernel.signature.name)
        _arguments.keep(key, made, made.nbytes)
    return _arguments[key]


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind not in "biu" and bool(np.isnan(array).any())
