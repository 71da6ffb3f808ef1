"""Names in generated C: unique, and none that C or a library keeps for itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while bool true false NULL INFINITY NAN main asm typeof
alignas alignof class constexpr delete friend mutable namespace new operator private protected
public static_assert template this thread_local throw try catch typename using virtual wchar_t
half blockIdx threadIdx blockDim gridDim warpSize
malloc free memcpy memset abs abort exit printf rand signbit isnan isinf isfinite j0 j1 jn y0 y1 yn
gamma lgamma tgamma index remainder time clock signal size_t ptrdiff_t uintptr_t intptr_t
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
float2 float4 int2 int4 uint2 uint4 double2 longlong2 ulonglong2 half2
"""
_FUNCTIONS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim
floor fma fmax fmin fmod frexp hypot ilogb ldexp log log10 log1p log2 logb modf nan nearbyint
nextafter pow rint round scalbn sin sinh sqrt tan tanh trunc
"""

_STANDARD = "malloc free memcpy memset abs abort exit rand signbit isnan isinf isfinite"

_OF_NUMBERS = frozenset(name + end for name in _FUNCTIONS.split() for end in ("", "f", "l"))
#: functions that a text calls as its headers, <math.h>, <stdlib.h> and <string.h>, declare them
DECLARED = _OF_NUMBERS.union(_STANDARD.split())
#: names that a kernel or a variable cannot have
RESERVED = _OF_NUMBERS.union(_WORDS.split())


#: macros of the headers, and names that C, its library or Whet keeps for itself
_KEPT = re.compile(
    r"U?INT(?:_LEAST|_FAST)?\d+_(?:MAX|MIN|C)|U?INT(?:MAX|PTR)_(?:MAX|MIN|C)|[A-Z]+_(?:MAX|MIN)"
    r"|(?:M|FP|MATH|EXIT|HUGE)_[A-Z0-9_]+|BUFSIZ|EOF|errno|math_errhandling|linux|unix|assert"
    r"|std(?:in|out|err)|offsetof|__\w*|_[A-Z]\w*|(?:whet|WHET)_\w*|\w+__(?:raw|assert_values)"
)


def is_kept(name: str) -> bool:
    """True if C, its headers or Whet keep a name for themselves, so that a text cannot have it."""
    return name in RESERVED or _KEPT.fullmatch(name) is not None


def identifier(name: str) -> str:
    """``name`` with only letters, digits and underscores; it does not begin with a digit."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "v"
    return f"v{text}" if text[0].isdigit() else text


class Names:
    """The names of one function."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._known: dict[int, str] = {}
        self._kept: list[Any] = []  # an id is only a name while its object lives

    def fresh(self, wanted: str) -> str:
        """A name like ``wanted`` that nothing else has."""
        wanted = identifier(wanted)
        wanted = f"v{wanted}" if _KEPT.fullmatch(wanted) else wanted
        name, k = wanted, 1
        while name in self._taken or name in RESERVED:
            name, k = f"{wanted}_{k}", k + 1
        self._taken.add(name)
        return name

    def new(self, thing: Any, wanted: str = "") -> str:
        """A fresh name for a variable or a buffer: its own, or like ``wanted``."""
        name = self.fresh(wanted or thing.name)
        self._known[id(thing)] = name
        self._kept.append(thing)
        return name

    def avoid(self, names: Iterable[str]) -> None:
        """Give these names to nothing: they are functions'."""
        self._taken.update(names)

    def of(self, thing: Any) -> str:
        """The name of a variable or a buffer."""
        known = self._known.get(id(thing))
        return known if known is not None else self.new(thing)

    def release(self, name: str) -> None:
        """Allow a name again: the block that it belonged to is over."""
        self._taken.discard(name)
