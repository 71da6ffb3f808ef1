"""The features that LLVM gives a processor by its name, without a table of processors.

LLVM inlines a function into another only where the caller has every feature of the callee. A small
module is made: for each feature a callee that has it beside all that the processor has, and a
caller that has what the processor has. Where the call is gone, the processor has the feature.
"""

from __future__ import annotations

import functools

from whet.compiler.target.machine.features import X86_LEVELS, X86_NEEDS, parse_mattr
from whet.compiler.target.machine.probe import check_machine
from whet.compiler.target.machine.processors import architecture_of

# LLVM inlines whether these are there or not; every processor of the level x86-64-v2 has them.
_NOT_COMPARED = frozenset({"cx16", "sahf"})
_X86 = ("sse", "sse2", "aes", "pclmul", "sha", "vaes", "vpclmulqdq", *X86_NEEDS)
_ARM = "neon vfp2 vfp3 vfp4 fp16 fullfp16 dotprod bf16 i8mm crc aes sha2"
_ARM64 = """
    fp-armv8 neon crc lse aes sha2 sha3 sm4 rdm dotprod fullfp16 fp16fml bf16 i8mm sve sve2 sme sme2
"""
_RISCV = "m a f d c v zba zbb zbs zfh"
# Architecture -> the features that are asked about.
ASKED: dict[str, tuple[str, ...]] = {
    "x86_64": tuple(name for name in _X86 if name not in _NOT_COMPARED),
    "aarch64": tuple(_ARM64.split()),
    "arm": tuple(_ARM.split()),
    "riscv64": tuple(_RISCV.split()),
    "riscv32": tuple(_RISCV.split()),
}


@functools.cache
def features_of(triple: str, mcpu: str, mattr: str) -> frozenset[str]:
    """LLVM's names of what a processor has.

    Args:
        triple: for which system; its architecture says which features are asked about.
        mcpu: LLVM's name of the processor.
        mattr: features that are switched on and off beside, e.g. ``"+avx2,-fma"``.

    Raises:
        TargetError: LLVM does not know the processor or a feature.
    """
    arch = architecture_of(triple)
    names = ASKED.get(arch, ())
    switched = parse_mattr(mattr)
    found = {name for on, name in switched if on and name not in names}
    if not names:
        return frozenset(found)
    told = _told(arch, mcpu, switched)
    if told is not None:  # without LLVM, which takes longer to load than finding a config
        return told
    check_machine(triple, mcpu, mattr)
    found |= _inlined(triple, mcpu, mattr, names)
    if arch == "x86_64":
        second = dict(X86_LEVELS)["x86-64-v2"]
        found |= _NOT_COMPARED if second - _NOT_COMPARED <= found else frozenset()
        found -= {name for on, name in switched if not on and name in _NOT_COMPARED}
    return frozenset(found)


def _told(arch: str, mcpu: str, switched: list[tuple[bool, str]]) -> frozenset[str] | None:
    """The features of a level of x86-64 and others beside it, as this machine is described.

    None: another processor is named, or a feature that is switched off, unknown, or needs others.
    """
    level = dict(X86_LEVELS).get(mcpu) if arch == "x86_64" else None
    if level is None or not all(on and name in X86_NEEDS for on, name in switched):
        return None
    found = {"sse", "sse2", *level, *(name for _, name in switched)}
    return frozenset(found) if all(found.issuperset(X86_NEEDS[n]) for _, n in switched) else None


def _inlined(triple: str, mcpu: str, mattr: str, names: tuple[str, ...]) -> set[str]:
    """The members of ``names`` whose callees went into their callers."""
    from whet.compiler.jit.compile import inlined

    text = str(inlined(_module_text(mcpu, mattr, names), triple))
    return {name for k, name in enumerate(names) if f"@with{k}(" not in text}


def _module_text(mcpu: str, mattr: str, names: tuple[str, ...]) -> str:
    own = f'"target-cpu"="{mcpu}" "target-features"="{mattr}"'
    lines: list[str] = []
    for k, name in enumerate(names):
        more = ",".join(x for x in (mattr, f"+{name}") if x)
        lines += [
            # a sum that differs from all others: equal functions would be merged
            f'define internal i32 @with{k}(i32 %x) "target-cpu"="{mcpu}" "target-features"="{more}"'
            f" {{\n  %y = add i32 %x, {k + 1}\n  ret i32 %y\n}}",
            f"define i32 @of{k}(i32 %x) {own}"
            f" {{\n  %y = call i32 @with{k}(i32 %x)\n  ret i32 %y\n}}",
        ]
    return "\n".join(lines)
