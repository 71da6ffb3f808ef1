"""LLVM's words for this machine, kept in a file: asking for them loads LLVM, which takes longest.

The file is named by all that the answer depends on: the processor and the kernel, which withholds
features, as they describe themselves, and the LLVM that was asked. Where anything of that changes,
or the file cannot be read, LLVM is asked again.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from whet.compiler.content_cache import ContentCache, digest

_KEPT = ContentCache("host", limit_bytes=1 << 20)
# Fields of /proc/cpuinfo that are others at each look.
_VOLATILE = ("cpu MHz", "bogomips", "BogoMIPS")


@dataclass(frozen=True)
class LlvmFacts:
    """This machine as LLVM sees it.

    Attributes:
        triple: the default target triple.
        cpu: LLVM's name of the processor.
        features: those that the processor reports.
    """

    triple: str
    cpu: str
    features: frozenset[str]


@functools.cache
def llvm_facts() -> LlvmFacts:
    """The facts of the machine that this process runs on."""
    name = _name()
    found = _read(_KEPT.get(name, ".json")) if name else None
    if found is None:
        found = _asked()
        if name:
            data = {"triple": found.triple, "cpu": found.cpu, "features": sorted(found.features)}
            _KEPT.put(name, json.dumps(data).encode(), ".json")
    return found


def _asked() -> LlvmFacts:
    from whet.compiler.jit.llvm import llvm

    binding = llvm()
    have = frozenset(name for name, on in binding.get_host_cpu_features().items() if on)
    return LlvmFacts(binding.get_default_triple(), binding.get_host_cpu_name(), have)


def _read(data: bytes | None) -> LlvmFacts | None:
    """The facts of a file, or None where it does not hold them."""
    try:
        told = json.loads(data or b"")
        triple, cpu, features = told["triple"], told["cpu"], told["features"]
        if all(isinstance(text, str) for text in (triple, cpu, *features)):
            return LlvmFacts(triple, cpu, frozenset(features))
    except (ValueError, TypeError, KeyError, RecursionError):
        pass  # cut off or somebody else's: LLVM is asked
    return None


def _name() -> str:
    """The digest of what the facts depend on; "" where the processor does not describe itself."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        spec = find_spec("llvmlite")
        if spec is None or not spec.origin:
            return ""
        binary = os.stat(Path(spec.origin).parent / "binding")
    except (OSError, ValueError):
        return ""
    fixed = [line for line in first if not line.startswith(_VOLATILE)]
    system = os.uname()
    told = (system.machine, system.release, system.version)
    return digest("1", *fixed, *told, spec.origin, str(binary.st_mtime_ns), str(binary.st_ino))
