"""The architectures that code is made for, and the 64-bit x86 processors by LLVM's names.

LLVM takes a name that it does not know for a 32-bit machine and ends the process, so a target is
checked against this list first. It is what ``llc -march=x86-64 -mcpu=help`` prints, without those
that have no 64-bit mode; a newer machine is named by its level (``x86-64-v4``) and ``mattr``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whet.compiler.target.target import Target

_NAMES = """
    alderlake amdfam10 arrowlake arrowlake-s arrowlake_s athlon-fx athlon64 athlon64-sse3 atom
    atom_sse4_2 atom_sse4_2_movbe barcelona bdver1 bdver2 bdver3 bdver4 bonnell broadwell btver1
    btver2 cannonlake cascadelake clearwaterforest cooperlake core-avx-i core-avx2 core2
    core_2_duo_sse4_1 core_2_duo_ssse3 core_2nd_gen_avx core_3rd_gen_avx core_4th_gen_avx
    core_4th_gen_avx_tsx core_5th_gen_avx core_5th_gen_avx_tsx core_aes_pclmulqdq core_i7_sse4_2
    corei7 corei7-avx diamondrapids emeraldrapids generic goldmont goldmont-plus goldmont_plus
    gracemont grandridge graniterapids graniterapids-d graniterapids_d haswell icelake-client
    icelake-server icelake_client icelake_server ivybridge k8 k8-sse3 knl knm lunarlake meteorlake
    mic_avx512 nehalem nocona novalake opteron opteron-sse3 pantherlake penryn raptorlake
    rocketlake sandybridge sapphirerapids sierraforest silvermont skx skylake skylake-avx512
    skylake_avx512 slm tigerlake tremont westmere wildcatlake x86-64 x86-64-v2 x86-64-v3 x86-64-v4
    znver1 znver2 znver3 znver4 znver5
"""
X86_64 = frozenset(_NAMES.split())

ARCHITECTURES: dict[str, bool] = {
    "x86_64": True,
    "aarch64": True,
    "riscv64": True,
    "powerpc64le": True,
    "loongarch64": True,
    "arm": False,
    "i686": False,
    "riscv32": False,
    "wasm32": False,
}
"""Architecture -> whether DLTensor looks there as it does here (64 bits, little-endian).

Where it does not, an object holds the raw kernels and no checked entries.
"""

_SAME = {"amd64": "x86_64", "arm64": "aarch64", "ppc64le": "powerpc64le"}


def architecture_of(triple: str) -> str:
    """The architecture that a target triple names, under one name for each."""
    first = triple.split("-")[0].lower()
    if first in _SAME:
        return _SAME[first]
    if first.startswith(("armv", "thumb")) or first == "arm":
        return "arm"
    return "i686" if first in ("i386", "i486", "i586", "i686", "x86") else first


def has_entries(target: Target) -> bool:
    """Whether objects for a target hold checked entries beside the raw kernels."""
    return ARCHITECTURES.get(architecture_of(str(target.canonical().attrs["mtriple"])), False)
