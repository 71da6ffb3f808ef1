"""Which CPU features a target has: names that matter to generated code, what implies what, levels.

A processor is described by its features, never by its name: LLVM can name a new server chip after
an old desktop one, and a virtual machine can hide features that the name implies.
"""

from __future__ import annotations

from collections.abc import Iterable

# x86-64 features that change generated code, each with the features that it needs. The rest of
# LLVM's list (power states, virtualisation, system instructions) would only make keys longer.
X86_NEEDS: dict[str, tuple[str, ...]] = {
    "sse3": (),
    "ssse3": ("sse3",),
    "sse4.1": ("ssse3",),
    "sse4.2": ("sse4.1",),
    "popcnt": (),
    "cx16": (),
    "sahf": (),
    "lzcnt": (),
    "movbe": (),
    "bmi": (),
    "bmi2": (),
    "adx": (),
    "avx": ("sse4.2",),
    "f16c": ("avx",),
    "fma": ("avx",),
    "avx2": ("avx",),
    "gfni": ("sse4.2",),
    "avxvnni": ("avx2",),
    "avxvnniint8": ("avx2",),
    "avxneconvert": ("avx2",),
    "avxifma": ("avx2",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx512cd": ("avx512f",),
    "avx512bw": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512vnni": ("avx512f",),
    "avx512ifma": ("avx512f",),
    "avx512vbmi": ("avx512bw",),
    "avx512vbmi2": ("avx512bw",),
    "avx512bitalg": ("avx512bw",),
    "avx512vpopcntdq": ("avx512f",),
    "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw", "avx512dq", "avx512vl"),
    "amx-tile": (),
    "amx-int8": ("amx-tile",),
    "amx-bf16": ("amx-tile",),
    "amx-fp16": ("amx-tile",),
}

_V2 = frozenset({"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
X86_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("x86-64-v4", _V4),
    ("x86-64-v3", _V3),
    ("x86-64-v2", _V2),
    ("x86-64", frozenset()),
)


def closed(features: Iterable[str]) -> frozenset[str]:
    """``features`` without those whose needs are not all there."""
    left = set(features)
    while True:
        gone = {f for f in left if any(n not in left for n in X86_NEEDS.get(f, ()))}
        if not gone:
            return frozenset(left)
        left -= gone


def level(features: frozenset[str]) -> str:
    """The highest x86-64 level that ``features`` cover, for its scheduling model.

    A level implies no feature that the set lacks, so none has to be switched off again.
    """
    return next(name for name, needed in X86_LEVELS if needed <= features)


def x86_vector_bytes(features: Iterable[str]) -> int:
    """The width of the widest vector register that ``features`` give, in bytes."""
    have = set(features)
    if "avx512f" in have:
        return 64
    return 32 if "avx2" in have else 16


def parse_mattr(text: str) -> list[tuple[bool, str]]:
    """``"+avx2,-fma"`` as ``[(True, "avx2"), (False, "fma")]``."""
    parts = [p.strip() for p in text.split(",") if p.strip()]
    return [(not p.startswith("-"), p.lstrip("+-")) for p in parts]
