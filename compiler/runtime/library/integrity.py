"""A check that a file with kernels is whole, before the system maps it or a linker reads it.

The system's loader believes what a library's headers say: of a file that was cut off it maps pages
that do not exist, and the process ends at the first access. So the headers are compared with the
file here. And an exported file ends in a checksum of all before it, which loaders, linkers and
archivers leave alone: it tells of every other damage. A file without one, made by an earlier
version or stripped since, is taken by its headers.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from whet.compiler.errors import ArtifactError

_MAGIC = b"\n\0whet sha256\0"
_TRAILER = len(_MAGIC) + hashlib.sha256().digest_size
_TELLING = 8  # bytes of the magic that no other file ends in
_WAY_OUT = "copy it again, or export it again"

_ELF = b"\x7fELF"
_RELOCATABLE, _SHARED = 1, 3  # e_type
_LOAD, _DYNAMIC = 1, 2  # p_type
_NO_BITS = 8  # sh_type


def seal(path: Path) -> None:
    """Append the checksum to a file."""
    digest = hashlib.sha256(path.read_bytes()).digest()
    with path.open("ab") as file:
        file.write(_MAGIC + digest)


def check_whole(request: str, path: Path, kind: str) -> None:
    """Refuse a file that is not as it was written, as far as it tells.

    Args:
        request: the request, for the error.
        path: the file.
        kind: its format: ``"so"``, ``"o"`` or ``"tar"``.

    Raises:
        ArtifactError: it cannot be read, was cut off or changed, or is no library or object for
            this machine.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(request, f"it cannot be loaded: {error.strerror}") from None
    why = _damage(data)
    if not why and kind != "tar" and _own_header()[:4] == _ELF:
        why = _wrong_elf(data, _SHARED if kind == "so" else _RELOCATABLE)
    if why:
        raise ArtifactError(request, f"it cannot be loaded: {why}", _WAY_OUT)


def check_library(request: str, data: bytes) -> None:
    """Refuse bytes that are no whole ELF library for this machine.

    Raises:
        ArtifactError: they are none, by their headers.
    """
    why = _wrong_elf(data, _SHARED) if _own_header()[:4] == _ELF else "this system has no ELF files"
    if why:
        raise ArtifactError(request, f"it cannot be loaded: {why}", _WAY_OUT)


def _damage(data: bytes) -> str:
    """Where a checksum shows damage, or was cut off itself, words for it."""
    if not data:
        return "it is damaged: it has no bytes"
    tail = data[-_TRAILER:]
    if tail.startswith(_MAGIC):
        whole = hashlib.sha256(memoryview(data)[:-_TRAILER]).digest() == tail[len(_MAGIC) :]
        return "" if whole else f"it is damaged: its {len(data):,} bytes are not its checksum's"
    at = data.rfind(_MAGIC[:_TELLING], -_TRAILER)
    if at >= 0 and _MAGIC.startswith(data[at : at + len(_MAGIC)]):
        return f"it is damaged: {_TRAILER - len(data) + at} bytes are missing at its end"
    return ""


@cache
def _own_header() -> bytes:
    """The first bytes of the running program, which a library for it begins like."""
    try:
        with open(sys.executable, "rb") as file:
            return file.read(20)
    except OSError:
        return b""


def _wrong_elf(data: bytes, wanted: int) -> str:
    """Why a file is no ELF file of a type, for this machine, with all that its headers name."""
    own = _own_header()
    what = "library" if wanted == _SHARED else "object"
    if data[:4] != _ELF:
        return f"it is no {what}: it begins with {data[:4]!r}"
    if data[4:6] != own[4:6] or data[18:20] != own[18:20]:
        return f"it is a {what} for another machine: its ELF header says {data[4:20].hex(' ')}"
    if not any(data[-_TRAILER:]):  # as after a crash: neither a checksum nor a table of headers
        return f"it is damaged: it ends in {_TRAILER} bytes of 0 or more"
    order = "<" if data[5] == 1 else ">"
    try:
        if struct.unpack_from(f"{order}H", data, 16)[0] != wanted:
            return f"it is an ELF file, and no {what}"
        for name, begin, size in _ranges(data, order, data[4] == 2):  # a table before it is read
            if begin + size > len(data):
                return (
                    f"it is damaged: {name} ends at byte {begin + size:,}, "
                    f"the file at {len(data):,}"
                )
    except (struct.error, OverflowError, ValueError) as error:
        return f"it is damaged: its ELF header cannot be read ({error})"
    return ""


Range = tuple[str, int, int]  # its name, its first byte in the file, how many

# For 32 and for 64 bits: the places of a table's offset and of the size of its headers in the ELF
# header, the layout of a header, and the places of the offset and of the size in the file there.
_SEGMENTS = ((28, 42, "IIIIIIII", 1, 4), (32, 54, "IIQQQQQQ", 2, 5))
_SECTIONS = ((32, 46, "IIIIIIIIII", 4, 5), (40, 58, "IIQQQQIIQQ", 4, 5))


def _ranges(data: bytes, order: str, wide: bool) -> Iterator[Range]:
    """The tables of segments and sections, and each of these with bytes in the file."""
    for name, layouts in (("segment", _SEGMENTS), ("section", _SECTIONS)):
        place, sizes, letters, offset, in_file = layouts[wide]
        begin = struct.unpack_from(order + letters[2], data, place)[0]
        size, count = struct.unpack_from(f"{order}HH", data, sizes)
        layout = struct.Struct(order + letters)
        if count and size != layout.size:
            raise ValueError(f"its {name}s' headers have {size} bytes, not {layout.size}")
        yield f"the table of its {name}s", begin, size * count
        for k in range(count):
            fields = layout.unpack_from(data, begin + k * size)
            if layouts is _SECTIONS:
                stored = fields[1] != _NO_BITS
            else:
                stored = fields[0] in (_LOAD, _DYNAMIC)
                if fields[0] == _LOAD and fields[in_file + 1] < fields[in_file]:
                    raise ValueError(f"segment {k} is smaller in memory than in the file")
            if stored:
                yield f"{name} {k}", fields[offset], fields[in_file]
