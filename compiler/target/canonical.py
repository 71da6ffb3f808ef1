"""The canonical form of a target: everything that it leaves open, filled in."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from whet.compiler import settings
from whet.compiler.target.gpu_limits import limits_of
from whet.compiler.target.machine import features as feat
from whet.compiler.target.machine import host
from whet.compiler.target.machine.processors import architecture_of
from whet.compiler.target.machine.systems import runs_under

if TYPE_CHECKING:
    from whet.compiler.target.target import Target

_CPU = ("mtriple", "mcpu", "mattr", "vector_bytes", "num_threads")
# What code is made for where no GPU is named and none is here.
_ARCH = "sm_80"
_GPU = (
    *("arch", "max_num_threads", "max_shared_memory_per_block", "max_threads_per_block"),
    *("registers_per_block", "thread_warp_size"),
)


def canonical(target: Target) -> Target:
    """``target`` with its open options filled in, from this machine, or for a GPU from its arch.

    A GPU that is not named is the one of this machine, else an ``sm_80``.

    Raises:
        TargetError: the architecture is none.
    """
    if target.kind == "cuda":
        return target if all(map(target.attrs.get, _GPU)) else _canonical_gpu(target)
    kind = target.kind.row
    if kind.absent or "mtriple" not in kind.options:
        return target  # a kind that LLVM has no part in
    attrs = target.attrs
    if attrs.get("mcpu") != "native" and all(name in attrs for name in _CPU):
        return target  # asked for often while code is made
    return _canonical_cpu(target, host.num_threads(), settings.cpu_level())


@functools.cache
def _canonical_gpu(target: Target) -> Target:
    from whet.compiler.target.machine.local_gpu import local_arch

    given = target.attrs
    arch = str(given.get("arch") or local_arch() or _ARCH)
    limits = limits_of(arch)
    threads = given.get("max_num_threads") or limits.threads_block
    values = (
        *(arch, threads, limits.shared_bytes, threads),
        *(limits.registers_block, limits.warp_size),
    )
    known: dict[str, Any] = dict(zip(_GPU, values))
    return target.replaced({**known, **{k: v for k, v in given.items() if v != ""}})


@functools.cache
def _canonical_cpu(target: Target, threads: int, of_level: str) -> Target:
    attrs = dict(target.attrs)
    native = not attrs.get("mcpu") or attrs["mcpu"] == "native"
    arch = architecture_of(str(attrs.get("mtriple") or host.triple()))
    attrs.setdefault("mtriple", host.triple())
    if arch == host.architecture() == "x86_64":
        have = set(host.features()) if native else set()
        for on, name in feat.parse_mattr(attrs.get("mattr", "")):
            (have.add if on else have.discard)(name)
        if native:
            kept = feat.closed(have)
            attrs["mcpu"] = feat.level(kept)
            attrs["mattr"] = ",".join("+" + f for f in sorted(kept))
        attrs.setdefault("mattr", "")
        if "vector_bytes" not in attrs:
            attrs["vector_bytes"] = (
                feat.x86_vector_bytes(feat.closed(have)) if native else _probe_vector_bytes(attrs)
            )
    else:
        attrs["mcpu"] = "generic" if native else attrs["mcpu"]
        local = native and arch == host.architecture()
        attrs.setdefault(
            "mattr", ",".join("+" + f for f in sorted(host.features())) if local else ""
        )
        attrs.setdefault("vector_bytes", 16)
    attrs.setdefault("num_threads", threads)
    return target.replaced(attrs)


def _probe_vector_bytes(attrs: Mapping[str, Any]) -> int:
    """The width LLVM gives a named processor, read off the registers of an addition."""
    from whet.compiler.jit.compile import Machine, assembly
    from whet.compiler.target.machine.probe import check_machine

    text = (
        "define <16 x float> @f(<16 x float> %x) {\n"
        "  %y = fadd <16 x float> %x, %x\n  ret <16 x float> %y\n}"
    )
    triple, cpu, features = (attrs[name] for name in ("mtriple", "mcpu", "mattr"))
    check_machine(triple, cpu, features)
    foreign = not runs_under(triple, host.triple())
    asm = assembly(text, Machine(f"llvm -mcpu={cpu}", triple, cpu, features, foreign=foreign))
    return 64 if "zmm" in asm else 32 if "ymm" in asm else 16
