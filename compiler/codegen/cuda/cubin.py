"""The resources of a cubin's kernels: registers, stack, shared memory and size of code.

A cubin is an ELF file. The section ``.nv.info`` is a list of attributes; those with a symbol and a
number are of interest here. Spills stand in no section: the compiler's log has them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from whet.compiler.abi.artifact import Resources
from whet.compiler.errors import CodegenError

_FIELDS = {0x2F: "registers", 0x11: "stack_bytes"}
_WITH_TEXT = 4  # format of an attribute that is followed by as many bytes as its value says
_HEADER = "<IIQQQQIIQQ"
#: bytes that the system keeps for itself in a block's shared memory, from sm_90 on
RESERVED_SHARED_BYTES = 1024

_USAGE = re.compile(
    r"Compiling entry function '(?P<name>[^']+)'.*?"
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads",
    re.S,
)


@dataclass(frozen=True)
class _Section:
    name: str
    offset: int
    size: int


def resources_of(cubin: bytes, log: str = "") -> Mapping[str, Resources]:
    """Kernel -> what it takes.

    Args:
        cubin: the ELF file.
        log: of the compiler, with ``-v``: it has the spills.

    Raises:
        CodegenError: this is no cubin.
    """
    try:
        return _with_spills(_read(cubin), log)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError, ValueError) as error:
        raise CodegenError(
            f"read the resources of a cubin of {len(cubin)} bytes",
            f"it is no ELF file as NVRTC makes them ({type(error).__name__}: {error})",
            "compile the source again: compile_cubin(source, arch)",
        ) from error


def _read(cubin: bytes) -> dict[str, Resources]:
    if cubin[:4] != b"\x7fELF":
        raise ValueError(f"it begins with {cubin[:4]!r}")
    sections = {x.name: x for x in _sections(cubin)}
    kernels = {
        name.removeprefix(".text."): Resources(code_bytes=x.size)
        for name, x in sections.items()
        if name.startswith(".text.")
    }
    if not kernels:
        return kernels
    symbols = _symbols(cubin, sections)
    for attribute, symbol, value in _numbers(cubin, sections[".nv.info"]):
        name = symbols[symbol]
        if name in kernels and attribute in _FIELDS:
            kernels[name] = replace(kernels[name], **{_FIELDS[attribute]: value})
    reserves = any(name.startswith(".nv.shared.reserved.") for name in sections)
    for name, resources in kernels.items():
        shared = sections.get(f".nv.shared.{name}")
        if shared is not None:
            used = shared.size - (RESERVED_SHARED_BYTES if reserves else 0)
            kernels[name] = replace(resources, static_shared_bytes=max(used, 0))
    return kernels


def _sections(cubin: bytes) -> Iterator[_Section]:
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    count, names_at = struct.unpack_from("<HH", cubin, 0x3C)
    headers = [struct.unpack_from(_HEADER, cubin, table + 64 * k) for k in range(count)]
    names = headers[names_at][4]
    for h in headers:
        # a section of the kind NOBITS has a size, and no bytes in the file
        yield _Section(_text(cubin, names + h[0]), h[4], h[5])


def _text(cubin: bytes, at: int) -> str:
    return cubin[at : cubin.index(b"\0", at)].decode()


def _symbols(cubin: bytes, sections: Mapping[str, _Section]) -> list[str]:
    table, texts = sections[".symtab"], sections[".strtab"]
    offsets = range(table.offset, table.offset + table.size, 24)
    return [_text(cubin, texts.offset + struct.unpack_from("<I", cubin, k)[0]) for k in offsets]


def _numbers(cubin: bytes, section: _Section) -> Iterator[tuple[int, int, int]]:
    """(attribute, symbol, number) of the attributes that are of that form."""
    at, end = section.offset, section.offset + section.size
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", cubin, at)
        at += 4
        if form != _WITH_TEXT:
            continue
        if length == 8:
            yield (attribute, *struct.unpack_from("<II", cubin, at))
        at += length


def _with_spills(kernels: dict[str, Resources], log: str) -> dict[str, Resources]:
    for usage in _USAGE.finditer(log):
        if usage["name"] in kernels:
            spills = {f"spill_{kind}": int(usage[kind]) for kind in ("stores", "loads")}
            kernels[usage["name"]] = replace(kernels[usage["name"]], **spills)
    return kernels
