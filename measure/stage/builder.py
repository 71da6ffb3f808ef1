"""A builder's worker: one candidate from template to object bytes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import PrunedError
from whet.measure.values import OK, PRUNED, Json, MeasureInput
from whet.measure.worker.error_text import error_text

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.target import Target
    from whet.compiler.tir.function import IRModule

Finish = Callable[[MeasureInput, "IRModule", "Target", "Artifact"], tuple["Artifact", Json]]
"""A device's compile step after the generator: the artifact as a worker takes it, and facts for
the record; from the candidate, the lowered module, the target and the generator's artifact."""

NO_ROOM = os.strerror(errno.ENOSPC)
"""The system's words for a full disk, which is the machine's fault and passes."""
PARALLEL_CALL = b"whet_parallel_for"  # the symbol that a kernel with parallel loops imports


@dataclass(frozen=True)
class Built:
    """The outcome of building one candidate.

    Attributes:
        status: ``"ok"``, ``"pruned"``, ``"lower_error"``, ``"build_error"``, ``"build_timeout"``,
            ``"build_crash"``, ``"out_of_memory"`` or, where its disk is full or it cannot open the
            template, ``"infra_error"``.
        artifact: the compiled kernels, if ok.
        program_hash: hash of the lowered program and the target; empty if it was not lowered.
        error: the whole error text.
        timings: seconds: ``lower_s``, ``build_s``.
        facts: of the build, for the record's environment; JSON-able.
    """

    status: str
    artifact: Artifact | None = None
    program_hash: str = ""
    error: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    facts: Json = field(default_factory=dict)

    @property
    def parallel(self) -> bool:
        """True if the kernel uses all cores."""
        return self.artifact is not None and PARALLEL_CALL in self.artifact.object


def build_candidate(inp: MeasureInput, finish: Finish | None = None) -> Built:
    """Resolve the template, schedule it with the config, lower, and compile.

    Args:
        inp: the candidate. Errors of the candidate come back as a status; running out of memory
            is left to the worker to report.
        finish: the device's own compile step.
    """
    from whet.compiler import driver
    from whet.compiler.target import Target
    from whet.search_spaces import resolve

    begin = time.perf_counter()
    target = Target(inp.target)
    artifact: Artifact | None = None
    lowered, status, program_hash, error = None, "", "", ""
    facts: Json = {}
    try:
        # The very template that was sent: another one of its name may have been registered since.
        status = "infra_error"  # a template that this worker cannot open says nothing of the config
        template = resolve(inp.template)
        status = "lower_error"
        with target:
            schedule, args = template.instantiate(inp.workload, inp.config)
            module = driver.lower(schedule, args)
        program_hash = hash_program(module.program_hash(), inp.target)
        lowered, status = time.perf_counter(), "build_error"
        artifact = driver.compile_module(module, target)
        if finish is not None:
            artifact, facts = finish(inp, module, target, artifact)
        status = OK
    except MemoryError:
        raise
    except PrunedError as failure:  # its own text says it all
        artifact, status, error, facts = None, PRUNED, str(failure), {PRUNED: failure.reason}
    except Exception:
        artifact, error = None, error_text()
        if NO_ROOM in error:  # a compiler's own words, too
            status = "infra_error"
    end = time.perf_counter()
    timings = {"lower_s": (lowered or end) - begin}
    if lowered is not None:
        timings["build_s"] = end - lowered
    return Built(status, artifact, program_hash, error, timings, facts)


def imports(inp: MeasureInput) -> dict[str, Any]:
    """Import a candidate's template; the names of the module that it is written in.

    Args:
        inp: the candidate.
    """
    from whet.search_spaces import resolve

    return resolve(inp.template).func.__globals__


build_candidate.imports = imports  # type: ignore[attr-defined]


def hash_program(module_hash: str, target: Json) -> str:
    """The identity of a program on a target: the same loops for AVX2 and AVX-512 are two programs.

    Args:
        module_hash: the lowered module's hash.
        target: the canonical target as JSON.
    """
    text = module_hash + json.dumps(target, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
