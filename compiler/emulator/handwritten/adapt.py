"""CUDA C made ready for the emulator: declarations of memory become those of checked memory.

Generated text declares its memory with macros (``WHET_GLOBAL``, ``WHET_SHARED_BUFFER``) already;
for CUDA C written by hand, this is what makes them::

    __global__ void f(const float *A)     __global__ void f(WHET_POINTER(const float) A)
    __shared__ float T[8][9];             WHET_SHARED_ROWS(float, T, 8, 9);
    extern __shared__ float s[];          WHET_SHARED_ARENA(float, s);  (of a file, .._FILE_ARENA)
    *(const float4 *)&A[4 * i]            *(WHET_POINTER(const float4))(A + (long long)(4 * i))
    reinterpret_cast<float4 *>(y)[i]      WHET_SEEN_AS(float4)(y)[i]
    float acc[4];                         WHET_LOCAL(float, acc, 4);
    __constant__ float c[4];              WHET_CONSTANT(float, c, [4], {});
    __shared__ Storage s; f(s);           WHET_SHARED_PLAIN(Storage, s, ); f(s);  (is not looked at)
    p[i].x = 1; float &r = s[i];          WHET_MEMBER(x, p[i]) = 1; WHET_REFERENCE(float) r = s[i];
    c ? s[i] : 0                          c ? whet_emulator::value_of((s[i])) : 0

A pointer that is not recognised stays plain: what goes through it is computed, not looked at
(`unwatched.py` tells which).
Lines stay where they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from whet.compiler.emulator.handwritten.declarations import (
    used_whole,
    with_constants,
    with_kinds,
    with_rows,
)
from whet.compiler.emulator.handwritten.device_code import listed, without_host
from whet.compiler.emulator.handwritten.elements import with_members, with_references
from whet.compiler.emulator.handwritten.local_arrays import (
    end_of_subscript,
    head_of,
    is_function,
    watched_arrays,
)
from whet.compiler.emulator.handwritten.values import read_values
from whet.compiler.errors import CodegenError

_WORDS = (
    r"(?:(?:unsigned|signed)\s+)?(?:long\s+long|long|int|short|char)(?:\s+int)?|unsigned|float|double"
    r"|bool|half|__half|__nv_bfloat16|nv_bfloat16|half2|__half2|__nv_bfloat162|float16|bfloat16"
    r"|u?int(?:8|16|32|64)_t|size_t|(?:u?char|u?short|u?int|float|u?longlong|double)[1234]"
    r"|(?:float|u?int)\d+x\d+"
)
_HEAD = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*|\b(?P<word>__global__)\b", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
_VOLATILE = re.compile(r"\bvolatile\b\s*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)

_ALIGN = r"(?:__align__\s*\(\s*\w+\s*\)\s*|alignas\s*\(\s*\w+\s*\)\s*)?"
_KIND = r"(?P<type>[\w:]+(?:\s+\w+)*?)"
_SHARED_HEAD = rf"{_ALIGN}(?:static\s+)?__shared__\s+{_ALIGN}{_KIND}\s+"
_SEVERAL = re.compile(
    rf"(?P<head>{_SHARED_HEAD})(?P<names>\w+\s*(?:\[[^\]]+\]\s*)*"
    r"(?:,\s*\w+\s*(?:\[[^\]]+\]\s*)*)+);"
)
# `&x[..]` as an address: what stands before it ends no value, as it does before a binary `&`
_ADDRESS = re.compile(
    r"(?P<before>[(,=?:{;]\s*|\breturn\s*|WHET_POINTER\([^()]*\)\)\s*)&\s*(?P<name>\w+)\s*\["
)


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel of a text: its name, and its parameters' names and types in order.

    Of a pointer the type is what it points to, and a star: ``float *``. The most threads of a block
    are an expression of the text, from ``__launch_bounds__``; "0" where nothing bounds them.
    """

    name: str
    parameters: tuple[str, ...]
    types: tuple[str, ...]
    most_threads: str = "0"


def adapt(source: str) -> tuple[str, tuple[KernelText, ...]]:
    """A text for the emulator's compiler, and the kernels in it.

    Args:
        source: CUDA C, generated or written by hand.

    Raises:
        CodegenError: there is no kernel in it, or one that cannot be launched by its name.
    """
    text = without_host(without_comments(source))
    text = _INCLUDE.sub(_kept_system_header, text)
    known = f"{_WORDS}{_type_names(text)}"
    text = _volatile(text, known)
    kernels = tuple(_kernels(text))
    if not kernels:
        raise CodegenError(
            "compiling CUDA C for the emulator",
            "there is no __global__ function in it",
            'a kernel: extern "C" __global__ void name(const float *A, float *B, int n) { .. }',
        )
    text = _shared(with_kinds(with_constants(text)))
    text = _addresses(_pointers(with_rows(watched_arrays(text), known), known))
    if "WHET_GLOBAL(" in source:  # generated, it names all types
        return read_values(text), kernels
    return read_values(with_members(with_references(text, known))), kernels


def without_comments(source: str) -> str:
    """CUDA C without its comments, lines where they were."""
    return _COMMENT.sub(_blank_comment, source)


def _blank_comment(found: re.Match[str]) -> str:
    """A comment as an empty one of as many lines; strings stay."""
    text = found.group()
    return text if text.startswith('"') else " " + "\n" * text.count("\n")


def _kept_system_header(found: re.Match[str]) -> str:
    """CUDA's headers are not there; the standard's are."""
    line = found.group()
    name = re.search(r"[<\"]([\w./]+)[>\"]", line)
    if name and re.fullmatch(r"(c?(stdint|stddef|math|float|limits)(\.h)?)", name[1]):
        return line
    return ""


def _kernels(text: str) -> list[KernelText]:
    found = []
    for head in _HEAD.finditer(text):
        at = head.end()
        start = _parameters_at(text, at) if head["word"] else None  # and not a directive
        if start is None:
            continue
        name, opened = start
        closed = _closing(text, opened)
        if not re.match(r"\s*\{", text[closed + 1 :]):
            continue  # a declaration
        if re.search(r"template\s*<[^;{}]*>\s*$", text[: head.start()]):
            raise CodegenError(
                f"emulating the kernel {name}",
                "it is a template, and which of its kernels is meant is not known",
                f"name the arguments in the launch, {name}<32, float><<<grid, block>>>(...); or "
                'write it for one type: extern "C" __global__ void ...',
            )
        parts = _parameters(text[opened + 1 : closed])
        found.append(
            KernelText(
                name,
                tuple(n for n, _ in parts),
                tuple(kind for _, kind in parts),
                _most_threads(text, head.start(), opened),
            )
        )
    return found


def _most_threads(text: str, begin: int, opened: int) -> str:
    """The first argument of ``__launch_bounds__`` in the head of a kernel."""
    begin = max(text.rfind(c, 0, begin) for c in ";{}") + 1
    bounds = re.search(r"\b__launch_bounds__\s*\(", text[begin:opened])
    if bounds is None:
        return "0"
    at = begin + bounds.end()
    return listed(text[at : _closing(text, at - 1)])[0]


def _parameters_at(text: str, at: int) -> tuple[str, int] | None:
    """The name of the function whose head goes on at a place, and where its parameters open."""
    pattern = re.compile(r"(\w+)\s*\(")
    while True:
        found = pattern.search(text, at)
        if found is None:
            return None
        if found[1] not in ("__launch_bounds__", "__align__", "__attribute__", "__maxnreg__"):
            return found[1], found.end() - 1
        at = _closing(text, found.end() - 1) + 1


def _closing(text: str, opened: int) -> int:
    """The place of the parenthesis that closes the one at a place."""
    depth = 0
    for k in range(opened, len(text)):
        depth += {"(": 1, ")": -1}.get(text[k], 0)
        if depth == 0:
            return k
    raise CodegenError("compiling CUDA C for the emulator", "a parenthesis is never closed")


def _parameters(text: str) -> list[tuple[str, str]]:
    """Names and types."""
    return [_parameter(p) for p in listed(text) if p != "void"]


def _parameter(text: str) -> tuple[str, str]:
    plain = re.sub(r"\bWHET_GLOBAL\s*\(([^()]*)\)", r"\1 *", text)
    plain = re.sub(r"\[[^]]*\]", "*", plain)
    plain = re.sub(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b", " ", plain)
    pointer = " *" if "*" in plain else ""
    words = re.findall(r"\w+", plain)
    return words[-1], " ".join(words[:-1]) + pointer


def _type_names(text: str) -> str:
    """Types that a text makes itself, as alternatives of a pattern."""
    names = re.findall(
        r"\btypename\s+(\w+)|\bclass\s+(\w+)|\bstruct\s+(?:__\w+__\s*(?:\([^)]*\))?\s*)?(\w+)", text
    )
    names += [("", "", n) for n in re.findall(r"\btypedef\b[^;{]*?\b(\w+)\s*;", text)]
    names += [("", "", n) for n in re.findall(r"\busing\s+(\w+)\s*=", text)]
    return "".join(f"|{re.escape(n)}" for group in names for n in group if n)


def _shared(text: str) -> str:
    """Shared memory's declarations, in either order of `extern`, `__shared__` and alignment."""
    name = r"(?P<name>\w+)\s*"
    arena = rf"extern\s+{_ALIGN}__shared__\s+{_ALIGN}{_KIND}\s+{_ALIGN}{name}\[[^\]]*\]\s*;"
    array = rf"{_SHARED_HEAD}{name}(?P<size>(?:\[[^\]]+\]\s*)*);"

    def dynamic(m: re.Match[str]) -> str:
        within = is_function(head_of(text, m.start()))
        return f"WHET_SHARED_{'' if within else 'FILE_'}ARENA({m['type']}, {m['name']});"

    def apart(m: re.Match[str]) -> str:
        return " ".join(f"{m['head']}{one.strip()};" for one in m["names"].split(","))

    def rows(m: re.Match[str]) -> str:
        sizes = re.findall(r"\[([^\]]+)\]", m["size"])
        if used_whole(m.string, m.end(), m["name"], m["type"]):
            return f"WHET_SHARED_PLAIN({m['type']}, {m['name']}, {m['size'].strip()});"
        if not sizes:  # one value that the threads share
            return f"WHET_SHARED_ONE({m['type']}, {m['name']});"
        return f"WHET_SHARED_ROWS({m['type']}, {m['name']}, {', '.join(sizes)});"

    return re.sub(array, rows, _SEVERAL.sub(apart, re.sub(arena, dynamic, text)))


def _volatile(text: str, known: str) -> str:
    """A text with ``volatile`` for what pointers point to: other memory is no flag of blocks."""
    behind = re.compile(rf"\s*(?:const\s+)?(?:{known})(?:\s+const)?\s*\*")
    before = re.compile(rf"(?<![\w:])(?:{known})(?:\s+const)?\s+$")

    def kept(m: re.Match[str]) -> str:
        if behind.match(text, m.end()):
            return m[0]
        pointed = text.startswith("*", m.end()) and before.search(text[: m.start()][-99:])
        return m[0] if pointed else ""

    return _VOLATILE.sub(kept, text)


def _pointers(text: str, known: str) -> str:
    """Pointers in parameters, casts and declarations."""
    kind = rf"(?P<type>(?:(?:const|volatile)\s+)*(?:{known})(?:\s+(?:const|volatile)\b)*)"
    restrict = r"(?:(?:const|__restrict__|__restrict|restrict)\b\s*)*"
    pointer = rf"(?<![\w:]){kind}\s*\*\s*{restrict}(?P<name>\w+)(?=\s*[,)=;])"
    text = re.sub(pointer, r"WHET_POINTER(\g<type>) \g<name>", text)
    cast = rf"\(\s*{kind}\s*\*\s*\)"
    text = re.sub(cast, r"(WHET_POINTER(\g<type>))", text)
    named = rf"\b(?:reinterpret_cast|static_cast|const_cast)\s*<\s*{kind}\s*\*\s*>\s*\("
    return re.sub(named, r"WHET_SEEN_AS(\g<type>)(", text)


def _addresses(text: str) -> str:
    """Addresses of elements of what is only read: its subscripts are values, without an address."""
    known = set(re.findall(r"WHET_POINTER\([^()]*\bconst\b[^()]*\)\s*(\w+)", text))
    known |= set(re.findall(r"WHET_GLOBAL\([^()]*\bconst\b[^()]*\)\s*(\w+)", text))
    known |= set(re.findall(r"WHET_CONSTANT\([^,]*, (\w+),", text))
    at = 0
    while (m := _ADDRESS.search(text, at)) is not None:
        at = m.end()
        end = end_of_subscript(text, m.end() - 1)
        if m["name"] not in known or re.match(r"\s*(?:\[|\.|->)", text[end:]):
            continue
        index = text[m.end() : end - 1]
        made = f"({m['name']} + static_cast<long long>({index}))"
        text = f"{text[: m.start()]}{m['before']}{made}{text[end:]}"
        at = m.start() + len(m["before"])
    return text
