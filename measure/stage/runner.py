"""A measurer's worker: load one artifact, check its numbers, time it.

:class:`Runner` does that on any processor, whose memory and clock are parts of a loaded kernel.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.measure.stage.arguments import Arguments, Call, Param, fixed_shape, stray_writes
from whet.measure.stage.builder import Built
from whet.measure.stage.lru_cache import LRUCache
from whet.measure.stage.processor import HOST, Processor, Run
from whet.measure.stage.reference import ExpectedOutput, Reference
from whet.measure.stage.timing import repeat_facts, time_kernel
from whet.measure.values import OK, Json, MeasureOptions

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.abi.signature import KernelSignature


@dataclass(frozen=True)
class Measurement:
    """One candidate to check and to time.

    Attributes:
        built: a candidate that was built.
        options: budgets, repeats and tolerance.
        reference: the reference config's program, to check the numbers; None: unchecked.
        best_cost: seconds per call of the best so far.
    """

    built: Built
    options: MeasureOptions
    reference: Built | None = None
    best_cost: float | None = None


@dataclass(frozen=True)
class RunReport:
    """The outcome of running one candidate.

    Attributes:
        status: ``"ok"``, ``"wrong_answer"``, ``"run_error"``, ``"run_timeout"``, ``"run_crash"``
            or ``"out_of_memory"``.
        costs: seconds per call, one a repeat.
        error: the whole error text.
        environment: the machine, and how the measurement went.
        seconds: time that it took, loading included; the stage fills it in.
        lost: the worker's device is of no more use: a new worker has to take it.
    """

    status: str
    costs: tuple[float, ...] = ()
    error: str = ""
    environment: Json = field(default_factory=dict)
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
        bind: makes of arrays and numbers a function that runs the kernel on them a number of times,
            at next to no cost per call.
        packs: the kernel that makes its prepacked weights; None: it takes none.
        processor: the processor that runs it.
    """

    signature: KernelSignature
    bind: Callable[[tuple], Run]
    packs: Kernel | None = None
    processor: Processor = HOST

    @staticmethod
    def load(artifact: Artifact, processor: Processor = HOST) -> Kernel:
        """The entry kernel of an artifact, ready in this process."""
        from whet.compiler.runtime import Module

        entry: Any = Module.from_artifact(artifact).entry_func
        ahead = entry.ahead
        packs = None if ahead is None else Kernel(ahead.signature, ahead.repeater)
        return Kernel(entry.signature, entry.repeater, packs, processor)

    @property
    def params(self) -> dict[int, Param]:
        """Its parameters, weights instead of packed arrays, by their places."""
        packs = None if self.packs is None else self.packs.signature
        return Arguments.places(self.signature, packs)

    def call(self, arguments: Arguments) -> Call:
        """Its call on shared arguments; its weights are packed now."""
        link = self.signature.ahead
        if link is None or self.packs is None:
            return Call(arguments.at(range(len(self.signature.params))), arguments)
        packed = []
        for place in link.packed:
            param: Any = self.signature.params[place]
            shape = fixed_shape(self.signature.name, param)
            packed.append(self.processor.buffer(param, shape, None))
        arrays = [buffer.array for buffer in packed]
        self.packs.bind((*arguments.at(link.weights), *arrays))(1)
        self.processor.synchronize()
        for buffer in packed:
            buffer.freeze()
        own = dict(zip(link.packed, arrays, strict=True))
        places = enumerate(link.places)
        values = tuple(own[k] if k in own else arguments.at([place])[0] for k, place in places)
        return Call(values, arguments, packed)

    def runs(self, call: Call, cold: bool) -> Run:
        """The kernel's calls on a call's arguments.

        Args:
            cold: packed weights come from memory in each call.
        """
        if cold and call.packed and self.processor is HOST:
            return call.in_turns(self.bind)
        return self.bind(call.values)


class Runner:
    """Checks and times kernels, and keeps arguments and references for the next ones.

    Args:
        cache_bytes: bytes of arguments, and as many of references' outputs, that it keeps.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._references: LRUCache[Reference] = LRUCache(cache_bytes)
        self._arguments: LRUCache[Arguments] = LRUCache(cache_bytes)

    def arguments(self, kernel: Kernel, seed: int) -> Arguments:
        """The arguments of a kernel, and of all that take the same."""
        params, processor = kernel.params, kernel.processor
        key = f"{seed} {processor.name} {params}"
        if key not in self._arguments:
            arguments = Arguments(params, seed, kernel.signature.name, processor)
            self._arguments.put(key, arguments, arguments.nbytes)
        return self._arguments[key]

    def drop_arguments(self) -> None:
        """Have the next candidate get new arguments: nobody knows what these hold."""
        self._arguments.clear()

    def prepare(self, key: str, kernel: Kernel, options: MeasureOptions) -> tuple[str, ...]:
        """:func:`prepare_reference` for a loaded kernel."""
        arguments = self.arguments(kernel, options.seed)
        run = kernel.bind(kernel.call(arguments).values)
        finite, outputs = False, self._outputs_of(kernel, arguments, run, finite=False)
        if outputs is None or any(np.isnan(x).any() for x in outputs.values()):
            # it reads what it writes (an accumulation): poison would spoil any check
            finite, outputs = True, self._outputs_of(kernel, arguments, run, finite=True)
        expected = [ExpectedOutput(k, x, options.rtol) for k, x in (outputs or {}).items()]
        reference = Reference(expected, finite, kernel.params)
        self._references.put(key, reference, reference.nbytes)
        return tuple(self._references)

    def _outputs_of(
        self, kernel: Kernel, arguments: Arguments, run: Run, finite: bool
    ) -> dict[str, np.ndarray] | None:
        """A reference's outputs; None where the processor refuses to read poison."""
        arguments.poison(finite)
        with contextlib.suppress(*(() if finite else kernel.processor.refusals)):
            run(1)
            kernel.processor.synchronize()
            return arguments.outputs()
        return None

    def measure(
        self,
        kernel: Kernel,
        options: MeasureOptions,
        reference: str | None = None,
        best_cost: float | None = None,
    ) -> RunReport:
        """:func:`run_candidate` for a loaded kernel."""
        processor = kernel.processor
        expected = None if reference is None else self._references[reference]
        if expected and (text := expected.argument_difference(kernel.params)):
            return RunReport("wrong_answer", (), text, processor.environment())
        call = kernel.call(self.arguments(kernel, options.seed))
        call.arguments.poison(expected is not None and expected.finite)
        clock = processor.clock(kernel.runs(call, options.cold_weights), options)
        first = clock.first()
        if text := self._stray_writes(call) or (
            expected.difference(call.arguments.outputs()) if expected else ""
        ):
            return RunReport("wrong_answer", (), text, processor.environment())
        checked = {"checked": expected is not None}
        if not clock.times:
            return RunReport(OK, (), "", processor.environment() | checked)
        timing = time_kernel(clock, first, options, best_cost)
        facts = processor.environment() | checked | clock.facts()
        facts |= {"number": timing.number, **repeat_facts(timing.costs), "stopped": timing.stopped}
        if text := self._stray_writes(call):
            return RunReport("wrong_answer", (), text, facts)
        return RunReport(OK, timing.costs, "", facts)

    def _stray_writes(self, call: Call) -> str:
        """The memory that a kernel may not write and wrote, in words; "" for none."""
        stray = stray_writes([*call.arguments.buffers, *call.packed])
        if not stray:
            return ""
        self.drop_arguments()  # the walls are broken: the next candidate gets new ones
        return f"the kernel wrote {', '.join(stray)}"


RUNNER = Runner(256 << 20)


def prepare_reference(key: str, artifact: Artifact, options: MeasureOptions) -> tuple[str, ...]:
    """Run the reference once and keep its outputs in this worker, as long as there is room.

    Args:
        key: names the reference in later calls of :func:`run_candidate`.
        artifact: the reference's compiled kernel.
        options: seed and tolerance.

    Returns:
        The keys of all references that the worker has now.
    """
    return RUNNER.prepare(key, Kernel.load(artifact), options)


def run_candidate(
    artifact: Artifact,
    options: MeasureOptions,
    reference: str | None = None,
    best_cost: float | None = None,
) -> RunReport:
    """Check and time one artifact.

    Args:
        artifact: the candidate's compiled kernel.
        options: repeats, time and tolerance.
        reference: key of a prepared reference; None: the numbers are not checked.
        best_cost: seconds per call of the best so far; a far slower candidate is timed once.
    """
    return RUNNER.measure(Kernel.load(artifact), options, reference, best_cost)
