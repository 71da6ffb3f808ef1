"""What a builder's worker does: one candidate from template to object bytes."""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.measure.values import OK, MeasureInput

if TYPE_CHECKING:
    from whet.compiler.runtime.artifact import Artifact

PARALLEL_CALL = b"whet_parallel_for"  # the symbol that a kernel with parallel loops imports


@dataclass(frozen=True)
class Built:
    """What came of building one candidate.

    Attributes:
        status: ``"ok"``, ``"lower_error"``, ``"build_error"``, ``"build_timeout"``,
            ``"build_crash"`` or ``"out_of_memory"``.
        artifact: the compiled kernels, if ok.
        program_hash: hash of the lowered program and the target; empty if it was not lowered.
        error: the whole error text.
        timings: seconds: ``lower_s``, ``build_s``.
    """

    status: str
    artifact: Artifact | None = None
    program_hash: str = ""
    error: str = ""
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def parallel(self) -> bool:
        """Whether the kernel uses all cores."""
        return self.artifact is not None and PARALLEL_CALL in self.artifact.object


def build_candidate(inp: MeasureInput) -> Built:
    """Resolve the template, schedule it with the config, lower, and compile.

    Args:
        inp: the candidate. Errors of the candidate come back as a status; running out of memory
            is left to the worker to report.
    """
    from whet.compiler import driver
    from whet.compiler.target import Target
    from whet.search_spaces import resolve

    begin = time.perf_counter()
    target = Target(inp.target)
    try:
        # The very template that was sent: another one of its name may have been registered since.
        template = resolve(inp.template)
        with target:
            schedule, args = template.instantiate(inp.workload, inp.config)
            module = driver.lower(schedule, args)
        program_hash = hash_program(module.program_hash(), inp.target)
    except MemoryError:
        raise
    except Exception:
        timings = {"lower_s": time.perf_counter() - begin}
        return Built("lower_error", error=traceback.format_exc(), timings=timings)
    lowered = time.perf_counter()
    try:
        artifact = driver.compile_module(module, target)
        status, error = OK, ""
    except MemoryError:
        raise
    except Exception:
        artifact, status, error = None, "build_error", traceback.format_exc()
    timings = {"lower_s": lowered - begin, "build_s": time.perf_counter() - lowered}
    return Built(status, artifact, program_hash, error, timings)


def hash_program(module_hash: str, target: dict[str, Any]) -> str:
    """The identity of a program on a target: the same loops for AVX2 and AVX-512 are two programs.

    Args:
        module_hash: the lowered module's hash.
        target: the canonical target as JSON.
    """
    text = module_hash + json.dumps(target, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
