"""Whether a file with kernels is whole, before the system maps it or a linker reads it.

The system's loader believes what a library's headers say: of a file that was cut off it maps pages
that do not exist, and the process ends at the first access. So the headers are compared with the
file here. And an exported file ends in a checksum of all before it, which loaders, linkers and
archivers leave alone: it tells of every other damage. A file without one, made by an earlier
version or stripped since, is taken by its headers.
"""

from __future__ import annotations

import hashlib
import itertools
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


def check_whole(asked: str, path: Path, kind: str) -> None:
    """Refuse a file that is not as it was written, as far as it tells.

    Args:
        asked: what was asked, for the error.
        path: the file.
        kind: its format: ``"so"``, ``"o"`` or ``"tar"``.

    Raises:
        ArtifactError: it cannot be read, was cut off or changed, or is no library or object for
            this machine.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(asked, f"it cannot be loaded: {error.strerror}") from None
    why = _damage(data)
    if not why and kind != "tar" and _own_header()[:4] == _ELF:
        why = _wrong_elf(data, _SHARED if kind == "so" else _RELOCATABLE)
    if why:
        raise ArtifactError(asked, f"it cannot be loaded: {why}", _WAY_OUT)


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
        wide = data[4] == 2
        named = itertools.chain(_segments(data, order, wide), _sections(data, order, wide))
        for name, begin, size in named:  # a table is checked before it is read
            if begin + size > len(data):
                return (
                    f"it is damaged: {name} ends at byte {begin + size:,}, "
                    f"the file at {len(data):,}"
                )
    except (struct.error, OverflowError, ValueError) as error:
        return f"it is damaged: its ELF header cannot be read ({error})"
    return ""


Range = tuple[str, int, int]  # what it is, its first byte in the file, how many


def _table(data: bytes, order: str, wide: bool, program: bool) -> tuple[int, int, int]:
    """Where a table of headers begins, the size of one, and how many there are."""
    offsets = (
        (32, 54) if wide and program else (40, 58) if wide else (28, 42) if program else (32, 46)
    )
    begin = struct.unpack_from(order + ("Q" if wide else "I"), data, offsets[0])[0]
    size, count = struct.unpack_from(f"{order}HH", data, offsets[1])
    return begin, size, count


def _segments(data: bytes, order: str, wide: bool) -> Iterator[Range]:
    """The table of segments, and each segment that is mapped or read from the file."""
    begin, size, count = _table(data, order, wide, program=True)
    layout = struct.Struct(order + ("IIQQQQQQ" if wide else "IIIIIIII"))
    if count and size != layout.size:
        raise ValueError(f"its segments' headers have {size} bytes, not {layout.size}")
    yield "the table of its segments", begin, size * count
    for k in range(count):
        fields = layout.unpack_from(data, begin + k * size)
        kind, offset = fields[0], fields[2] if wide else fields[1]
        in_file, in_memory = fields[5:7] if wide else fields[4:6]
        if kind == _LOAD and in_memory < in_file:
            raise ValueError(f"segment {k} is smaller in memory than in the file")
        if kind in (_LOAD, _DYNAMIC):
            yield f"segment {k}", offset, in_file


def _sections(data: bytes, order: str, wide: bool) -> Iterator[Range]:
    """The table of sections, and each section with bytes in the file; the loader needs neither."""
    begin, size, count = _table(data, order, wide, program=False)
    layout = struct.Struct(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
    if count and size != layout.size:
        raise ValueError(f"its sections' headers have {size} bytes, not {layout.size}")
    yield "the table of its sections", begin, size * count
    for k in range(count):
        fields = layout.unpack_from(data, begin + k * size)
        if fields[1] != _NO_BITS:
            yield f"section {k}", fields[4], fields[5]
