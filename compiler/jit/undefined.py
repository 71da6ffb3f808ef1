"""The symbols that an object file needs from elsewhere, read from its ELF tables."""

from __future__ import annotations

import struct

_SYMTAB = 2
_GLOBAL = 1
_SECTIONS = struct.Struct("<QQQQIIQQ")  # of a section header, behind its name and its type
_SYMBOL = struct.Struct("<IBBHQQ")


def undefined_symbols(data: bytes) -> list[str]:
    """The undefined symbols of an object of 64 bits; none for another format."""
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = []
    for k in range(count):
        kind = struct.unpack_from("<I", data, start + k * size + 4)[0]
        _, _, offset, length, link, *_ = _SECTIONS.unpack_from(data, start + k * size + 8)
        sections.append((kind, offset, length, link))
    found: list[str] = []
    for kind, offset, length, link in sections:
        if kind != _SYMTAB:
            continue
        names = sections[link][1]
        for at in range(offset, offset + length, _SYMBOL.size):
            name, info, _, section, _, _ = _SYMBOL.unpack_from(data, at)
            if section == 0 and info >> 4 == _GLOBAL:
                end = data.index(b"\0", names + name)
                found.append(data[names + name : end].decode(errors="replace"))
    return found
