"""Features of this machine's CPU, as the system lists them: loading needs no LLVM."""

from __future__ import annotations

import functools

from whet.compiler import settings
from whet.compiler.errors import TargetError
from whet.compiler.runtime.load import CPUINFO_NAMES, SAME_NAMES
from whet.compiler.target.machine import host
from whet.compiler.target.machine.features import X86_LEVELS

# LLVM's name of a feature -> Linux's in /proc/cpuinfo. ``include/whet/package_processor.h`` asks
# the processor itself for the same ones; a feature that is not here can be in no package.
X86: dict[str, str] = {
    **CPUINFO_NAMES,
    **{name: name for name in SAME_NAMES},
    "avx512vbmi": "avx512vbmi",
    "avxvnniint8": "avx_vnni_int8",
    "avxneconvert": "avx_ne_convert",
    "avxifma": "avx_ifma",
    "amx-fp16": "amx_fp16",
    "aes": "aes",
    "pclmul": "pclmulqdq",
    "sha": "sha_ni",
    "vaes": "vaes",
    "vpclmulqdq": "vpclmulqdq",
}
AARCH64: dict[str, str] = {
    "crc": "crc32",
    "lse": "atomics",
    "aes": "aes",
    "sha2": "sha2",
    "sha3": "sha3",
    "sm4": "sm4",
    "rdm": "asimdrdm",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
    "fp16fml": "asimdfhm",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
}
KNOWN = {"x86_64": X86, "aarch64": AARCH64}


def features() -> frozenset[str]:
    """LLVM's names of what code may use here, as far as a package can name it.

    ``WHET_CPU`` leaves those of a level.

    Raises:
        TargetError: it is no level.
    """
    return _features(settings.cpu_level())


@functools.cache
def _features(level: str) -> frozenset[str]:
    arch = host.architecture()
    listed = set(host.cpuinfo("Features" if arch == "aarch64" else "flags").split())
    have = frozenset(name for name, linux in KNOWN.get(arch, {}).items() if linux in listed)
    if not level:
        return have
    levels = dict(X86_LEVELS)
    if arch != "x86_64" or level not in levels:
        raise TargetError(
            f"WHET_CPU={level}",
            f"{arch} has no such level",
            f"levels of x86_64: {', '.join(levels)}",
        )
    return have & levels[level]
