"""Rows of numbers as short text: a trial's features for a cost model, as a log keeps them.

``version:length:text``, the text being base64 of deflated little-endian float32. Mantissas are
rounded to 12 bits, which no tree of a model can tell from 24, and which deflate well.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

import numpy as np

LONGEST = 5
"""Digits of a row's length at most: a longer row was not written by us."""
_KEPT = np.uint32(0xFFFFF000)
_HALF = np.uint32(0x00000800)


def pack(row: np.ndarray, version: int) -> str:
    """A row as text.

    Args:
        row: float array of shape ``(d,)``; NaN and infinities are kept.
        version: says what the columns mean.
    """
    values = np.ascontiguousarray(row, dtype="<f4")
    bits = values.view("<u4")
    rounded = np.where(np.isfinite(values), (bits + _HALF) & _KEPT, bits).astype("<u4")
    # A number next to the largest would be rounded to infinity.
    rounded = np.where(np.isfinite(rounded.view("<f4")), rounded, bits).astype("<u4")
    text = base64.b64encode(zlib.compress(rounded.tobytes(), 6)).decode()
    return f"{version}:{len(values)}:{text}"


def unpack(texts: Sequence[str | None], version: int, width: int) -> np.ndarray:
    """Rows from their texts.

    Args:
        texts: what :func:`pack` gave; None, "" or anything else gives a row of NaN.
        version: of the columns that are wanted; a row of another one is NaN.
        width: the number of columns.

    Returns:
        float32 of shape ``(len(texts), width)``.
    """
    rows = np.full((len(texts), width), np.nan, dtype=np.float32)
    wanted = f"{version}:{width}:"
    for i, text in enumerate(texts):
        if isinstance(text, str) and text.startswith(wanted):
            data = _bytes(text[len(wanted) :], 4 * width)
            if len(data) == 4 * width:
                rows[i] = np.frombuffer(data, dtype="<f4")
    return rows


def is_packed(text: str) -> bool:
    """True for a text that :func:`pack` writes."""
    version, _, rest = text.partition(":")
    length, _, data = rest.partition(":")
    if not (version.isdecimal() and length.isdecimal() and len(length) <= LONGEST):
        return False
    return len(_bytes(data, 4 * int(length))) == 4 * int(length)


def _bytes(text: str, size: int) -> bytes:
    """The bytes that a text holds, ``size`` of them; none where it is broken or longer."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(base64.b64decode(text, validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error):
        return b""
    return data if unpacker.eof else b""
