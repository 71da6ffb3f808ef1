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


class Module:
    """The functions and declarations of a module.

    Attributes:
        functions, globals: their texts.
        declared: declarations, and functions and constants that are written when first used.
        called: function that a user calls -> its declaration.
        fast: accuracy may be given up for speed.
        flags: what float arithmetic may be relaxed to, as LLVM's flags with a space behind, or "".
        fused: the target surely has a fused multiply-add.
        tabled: vectors of a constant are read from memory as they are. Without AVX-512 a
            processor must broadcast the constant else, and that takes a place beside the
            multiply-adds: gelu took 10.1 ns a vector instead of 9.2 (Zen 4, 256 bits).
        converts_half: it has instructions that convert float16.
        attributes: of each function.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.functions: list[str] = []
        self.globals: list[str] = []
        self.declared: dict[str, None] = {}
        self.called: dict[str, str] = {}
        attrs = target.canonical().attrs
        words = [str(attrs.get(k, "")) for k in ("mtriple", "mcpu", "mattr")]
        other = not words[0].startswith("x86_64")
        self.fast = bool(attrs.get("fast_math"))
        self.fused = words[0].startswith("aarch64") or _surely_has("fma", *words)
        self.tabled = not other and "+avx512vl" not in words[2].split(",")
        self.converts_half = other or _surely_has("f16c", *words)
        first, single = (RELAXED, _FLAGS[:2]) if self.fast else ("", _FLAGS)
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


@lru_cache(64)
def _surely_has(feature: str, mtriple: str, mcpu: str, mattr: str) -> bool:
    """True where a target has a feature of x86-64 that comes with Haswell; in doubt False."""
    said = {name: on for on, name in feat.parse_mattr(mattr)}
    if feature in said:
        return said[feature]
    return said.get("avx512f", False) or mcpu.startswith(_HASWELL_AND_LATER)
