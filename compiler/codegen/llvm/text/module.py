"""The LLVM text of a module as it grows, and what its target is able to do."""

from __future__ import annotations

from functools import lru_cache

from whet.compiler.target import Target
from whet.compiler.target.machine import features as feat

#: what LLVM may do with float arithmetic of a target with fast_math: NaN and infinity stay
RELAXED = "reassoc nsz arcp contract afn "
_FLAGS = ("nnan", "ninf", "nsz", "arcp", "contract", "reassoc")
#: processors with fma and f16c, of those that are named rather than described
_HASWELL_AND_LATER = (
    "x86-64-v3",
    "x86-64-v4",
    "haswell",
    "broadwell",
    "skylake",
    "znver",
    "alderlake",
)
_AVX512 = ("avx512f", "avx512vl", "avx512dq")
_BELOW_AVX512 = (
    "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "f16c", "fma", "avx512f",
    "evex512",
)  # fmt: skip
#: processors with those, of the same
_SKYLAKE_X_AND_LATER = (
    *("x86-64-v4", "skylake-avx512", "skx", "cascadelake", "cooperlake", "icelake", "tigerlake"),
    *("rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids", "znver4", "znver5"),
)


class Module:
    """The functions and declarations of a module.

    Attributes:
        functions, globals: their texts.
        declared: declarations, and functions and constants that are written when first used.
        called: function that a user calls -> its declaration; ``intrinsics``: LLVM's, likewise.
        imports: texts of a user's own to link with.
        uses: an intrinsic's declaration and its arguments, those that vary as "".
        accuracy: of mathematical functions: ``"2ulp"``, ``"4ulp"`` or ``"fast"``.
        fast: the last of them.
        flags: what float arithmetic may be relaxed to, as LLVM's flags with a space behind, or "".
        fused: the target surely has a fused multiply-add.
        tabled: vectors of a constant are read from memory as they are. Without AVX-512 a
            processor must broadcast the constant else, and that takes a place beside the
            multiply-adds: gelu took 10.1 ns a vector instead of 9.2 (Zen 4, 256 bits).
        avx512: the target has AVX-512 with its short vectors (F, VL, DQ).
        converts_half: it has instructions that convert float16.
        attributes: of each function.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.functions: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, None] = {}
        self.called: dict[str, str] = {}
        self.intrinsics: dict[str, str] = {}
        self.imports: dict[str, None] = {}
        self.uses: dict[tuple[str, tuple[str, ...]], None] = {}
        attrs = target.canonical().attrs
        words = [str(attrs.get(k, "")) for k in ("mtriple", "mcpu", "mattr")]
        other = not words[0].startswith("x86_64")
        relaxed = bool(attrs.get("fast_math"))
        self.accuracy = str(attrs.get("math") or ("fast" if relaxed else "2ulp"))
        self.fast = self.accuracy == "fast"
        self.fused = words[0].startswith("aarch64") or _surely_has("fma", *words)
        self.tabled = not other and "+avx512vl" not in words[2].split(",")
        self.avx512 = not other and all(_surely_has(name, *words) for name in _AVX512)
        self.converts_half = other or _surely_has("f16c", *words)
        first, single = (RELAXED, _FLAGS[:2]) if relaxed else ("", _FLAGS)
        self.flags = first + "".join(f"{f} " for f in single if attrs.get(f"fast_math_{f}"))
        bits = 8 * target.vector_bytes
        widths = f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
        self.attributes = f"nounwind {widths}"

    def declare(self, line: str) -> None:
        """Add a declaration, or a whole function or constant, once."""
        self.declared[line] = None

    def constant(self, name: str, data: bytes, more: str = "") -> str:
        """A global that holds bytes; its name."""
        name = f"@{name}{len(self.globals)}"
        text = "".join(f"\\{byte:02X}" for byte in data)
        array = f'[{len(data)} x i8] c"{text}"' if data else "[1 x i8] zeroinitializer"
        self.globals.append(f"{name} = internal constant {array}{more}")
        return name


@lru_cache(256)
def _surely_has(feature: str, mtriple: str, mcpu: str, mattr: str) -> bool:
    """True where a target has fma, f16c or one of AVX-512; in doubt False."""
    said = {name: on for on, name in feat.parse_mattr(mattr)}
    if feature in _AVX512 and not all(said.get(name, True) for name in _BELOW_AVX512):
        return False  # LLVM switches it off with them, whoever asks for it
    if feature in said:
        return said[feature]
    if feature in _AVX512:
        return mcpu.startswith(_SKYLAKE_X_AND_LATER)
    return said.get("avx512f", False) or mcpu.startswith(_HASWELL_AND_LATER)
