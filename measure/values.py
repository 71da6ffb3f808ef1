"""The plain values of a measurement: candidate, options, result."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, Union

from whet.compiler.errors import ArgumentError

if TYPE_CHECKING:
    from whet.compiler.target import Target
    from whet.search_spaces import Config, TemplateRef, Workload

LARGEST = sys.float_info.max
Json = dict[str, Any]
"""A JSON object."""
AnyTarget = Union["Target", Json, str]
"""A target, its canonical JSON, or its text."""

OK, PRUNED = "ok", "pruned"
STATUSES = (
    OK,
    "lower_error",  # the template or the lowering raised
    "build_error",  # the code generator raised
    "build_timeout",
    "build_crash",
    "run_error",
    "run_timeout",
    "run_crash",
    "out_of_memory",
    "wrong_answer",  # the numbers differ from the reference's, or memory of others was written
    PRUNED,  # a static check refused the candidate; it never ran, and is no failure
    "infra_error",  # a worker or a machine was lost; says nothing about the candidate
)

WHOLE, POSITIVE = "an integer of at least 1", "a number above 0"
LIMITS = {
    "build_timeout": POSITIVE,
    "run_timeout": POSITIVE,
    "number": WHOLE,
    "repeat": WHOLE,
    "min_repeats": WHOLE,
    "min_repeat_ms": POSITIVE,
    "max_measure_s": POSITIVE,
    "slow_factor": POSITIVE,
    "behind": POSITIVE,
    "hopeless_factor": POSITIVE,
    "memory_limit": WHOLE,
    "rtol": POSITIVE,
}
"""The ranges of :class:`MeasureOptions`' fields."""


def median(costs: Sequence[float]) -> float:
    """The median, as ``statistics`` has it, which takes a while to load."""
    ordered, middle = sorted(costs), len(costs) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True)
class MeasureInput:
    """One candidate: everything that a worker needs to build it again.

    Attributes:
        workload: operator and arguments.
        target: a canonical target as JSON (``Target.to_json()``).
        config: the knobs' choices.
        template: where a worker finds the schedule template.
        device: the kind of device that shall measure it, by its fingerprint; "": the pool's only
            kind.
    """

    workload: Workload
    target: Json
    config: Config
    template: TemplateRef
    device: str = ""


@dataclass(frozen=True)
class MeasureResult:
    """The result of one candidate; a failed candidate is a result too.

    Attributes:
        status: one of :data:`STATUSES`.
        costs: seconds per call, one entry a repeat; empty unless the status is ``"ok"``.
        error: the whole error text (traceback, the worker's last words on stderr); empty when ok.
        stage: where it ended: ``"build"`` (pruned ones, too), ``"run"``, ``"check"``, or ``""``
            when ok.
        program_hash: hash of the lowered program and its target; empty when it was never lowered.
        timings: seconds: ``lower_s``, ``build_s``, ``run_s`` (loading, checking and timing), and
            ``total_s`` from submit to result, waiting included.
        environment: the machine's state: CPU, governor, load, core, versions, spread.
        timestamp: seconds since the epoch at the end of the measurement.
    """

    status: str
    costs: tuple[float, ...] = ()
    error: str = ""
    stage: str = ""
    program_hash: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    environment: Json = field(default_factory=dict)
    timestamp: float = 0.0

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"unknown status {self.status!r}; known: {', '.join(STATUSES)}")
        if (self.status == OK) != bool(self.costs):
            raise ValueError(f"status {self.status!r} with {len(self.costs)} costs")

    @property
    def ok(self) -> bool:
        """True if the candidate was built, ran and (where checked) gave the right numbers."""
        return self.status == OK

    @property
    def pruned(self) -> bool:
        """True if a static check refused it: the space holds it, the target has no room for it."""
        return self.status == PRUNED

    @property
    def pruned_for(self) -> str:
        """The limit for which a static check refused it: ``"threads"``, ``"blocks"``,
        ``"shared memory"``, ``"local memory"``, ``"registers"``, ``"spills"``, ``"statements"``,
        ``"unrolled"``, ``"alignment"``; "" for what was not pruned, or is of a log that says
        nothing of it."""
        return str(self.environment.get(PRUNED, "")) if self.pruned else ""

    @property
    def failed(self) -> bool:
        """True if something went wrong: neither ok nor pruned."""
        return not self.ok and not self.pruned

    @property
    def predicted(self) -> str:
        """The GPU whose model predicted the cost; "" where it was measured."""
        if self.environment.get("cost") != "model":
            return ""
        model = self.environment.get("model")
        gpu = model.get("gpu") if isinstance(model, dict) else None
        return str(gpu or "a GPU")

    @property
    def cost(self) -> float:
        """Seconds per call: the median of the repeats; infinity for a failed candidate.

        The median is what a user sees on the machine as it is; the minimum (:attr:`min_cost`)
        would reward the one lucky repeat, and crowns the noisier of two equal kernels.
        """
        return median(self.costs) if self.costs else math.inf

    @property
    def min_cost(self) -> float:
        """Seconds per call of the fastest repeat; infinity for a failed candidate."""
        return min(self.costs, default=math.inf)

    def to_json(self) -> Json:
        """The result as JSON-able data."""
        return asdict(self) | {"costs": list(self.costs)}

    @staticmethod
    def from_json(data: Json) -> MeasureResult:
        """The result that :meth:`to_json` described."""
        return MeasureResult(**(data | {"costs": tuple(data["costs"])}))


def target_json(target: AnyTarget) -> Json:
    """The canonical JSON of a target.

    Args:
        target: a ``Target``, its canonical ``to_json()``, which is taken as it is, or a string.
    """
    if isinstance(target, dict):
        return target
    if isinstance(target, str):
        from whet.compiler.target import Target

        target = Target(target)
    return target.canonical().to_json()


def is_number(value: Any) -> TypeGuard[float]:
    """True for a finite number that is no truth value: a log may hold anything."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= LARGEST


def is_time(value: Any) -> bool:
    """True for a value that can be seconds per call: a finite number above 0."""
    return is_number(value) and value > 0


@dataclass(frozen=True)
class MeasureOptions:
    """Options for building, running, timing and checking candidates.

    Attributes:
        build_timeout: seconds for lowering and compiling; then the worker is killed.
        run_timeout: seconds for loading, running, checking and timing; then the worker is killed.
        number: calls in one repeat; None chooses it so that a repeat takes ``min_repeat_ms``.
        repeat: the largest number of repeats.
        min_repeats: the smallest number of repeats, where ``max_measure_s`` allows.
        min_repeat_ms: milliseconds that one repeat should at least take.
        max_measure_s: seconds after which no new repeat begins.
        spread: the repeats stop early once their relative spread (interquartile range over
            median) is at most this.
        slow_factor: a candidate whose first warm run is this many times slower than the best
            cost so far is not timed any further.
        behind: a candidate is not repeated once its fastest timing is this many times slower than
            the best cost so far, and further behind it than three times the spread of its own
            timings; a spread of one timing to the next that hides more calls for another repeat.
        hopeless_factor: a candidate that many times slower than the best so far may be killed long
            before ``run_timeout``.
        memory_limit: bytes of data that a worker may allocate; None: half of the machine's.
        check: outputs are compared with the reference's: the default config's, or those of the
            default without declared instructions.
        cold_weights: weights that are packed ahead of a kernel's calls, from 256 KiB on, come from
            memory in each of them, as a model's do, whose other kernels ran in between; False: from
            where the call before has left them. On processors; on a GPU see ``flush_l2``.
        flush_l2: on a GPU, whether its L2 cache is overwritten before each call, so that inputs
            come from memory; else they are where the call before has left them.
        seed: seed of the inputs.
        rtol: relative tolerance of the check; None chooses it from each output's dtype.

    Raises:
        ArgumentError: a number is out of its range.
    """

    build_timeout: float = 10.0
    run_timeout: float = 10.0
    number: int | None = None
    repeat: int = 10
    min_repeats: int = 3
    min_repeat_ms: float = 10.0
    max_measure_s: float = 0.1
    spread: float = 0.01
    slow_factor: float = 3.0
    behind: float = 1.15
    hopeless_factor: float = 20.0
    memory_limit: int | None = None
    check: bool = True
    cold_weights: bool = True
    flush_l2: bool = False
    seed: int = 0
    rtol: float | None = None

    def __post_init__(self) -> None:
        for name, must in LIMITS.items():
            value = getattr(self, name)
            if value is None and name in ("number", "memory_limit", "rtol"):
                continue
            kinds = (int,) if must == WHOLE else (int, float)
            if not isinstance(value, kinds) or isinstance(value, bool) or not value > 0:
                raise ArgumentError(f"MeasureOptions({name}={value!r})", f"it must be {must}")

    def to_json(self) -> Json:
        """The options as JSON-able data, for the log."""
        return asdict(self)
