"""The file of a package: a head, the index as JSON, blobs, and a checksum of all before it.

=============== ====================================================================
bytes           are
=============== ====================================================================
0-7             ``\\x89WHETPKG``
8-11            the version of the format, little-endian as all numbers here
12-15           0
16-23           the length of the index
24-             the index: JSON in ASCII
multiple of 4096 each blob: a shared library, a GPU's code as JSON, a model's constants
last 32         SHA-256 of all before
=============== ====================================================================

The first twelve bytes and the checksum stay as they are in every version, so that a newer file is
told from a damaged one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whet.compiler.errors import ArtifactError

VERSION = 1
ALIGNMENT = 4096
MAGIC = b"\x89WHETPKG"
DIGEST = hashlib.sha256().digest_size

_HEAD = struct.Struct("<8sIIQ")
COPY_AGAIN = "copy it again, or write it again: whet package"
WRITE_AGAIN = "write it again with this Whet: whet package"


def aligned(size: int) -> int:
    """The next place in a file where a blob can begin, at or behind ``size``."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def index_text(index: Mapping[str, Any]) -> bytes:
    """An index as the bytes of a file: the same for the same index."""
    text = json.dumps(index, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def packed(index: Mapping[str, Any], blobs: Sequence[bytes | memoryview]) -> bytes:
    """The file of an index and its blobs; see :func:`chunks`."""
    return b"".join(chunks(index, blobs))


def chunks(
    index: Mapping[str, Any], blobs: Sequence[bytes | memoryview]
) -> Iterator[bytes | memoryview]:
    """The file of an index and its blobs, piece by piece: large ones are not copied.

    Args:
        index: JSON-able; its ``libraries``, then the ``constants`` of its ``models``, get the
            places of the blobs, one for each, in order: ``offset`` and ``size`` in bytes.
        blobs: the libraries and the constants.
    """
    length = 0
    while True:  # the places are in the index, and its length moves them
        at, places = aligned(_HEAD.size + length), []
        for blob in blobs:
            places.append({"offset": at, "size": len(blob)})
            at = aligned(at + len(blob))
        text = index_text(_placed(index, places))
        if aligned(_HEAD.size + len(text)) == aligned(_HEAD.size + length):
            break
        length = max(length, len(text))
    digest, end = hashlib.sha256(), 0
    pieces: list[tuple[int, bytes | memoryview]] = [
        (0, _HEAD.pack(MAGIC, VERSION, 0, len(text)) + text),
        *((place["offset"], blob) for place, blob in zip(places, blobs)),
    ]
    for begin, piece in pieces:
        for part in (bytes(begin - end), piece):
            digest.update(part)
            yield part
        end = begin + len(piece)
    yield digest.digest()


def _placed(index: Mapping[str, Any], places: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """The index with places in its libraries and its models' constants."""
    libraries, models = index["libraries"], index.get("models", [])
    if len(places) != len(libraries) + len(models):
        raise ValueError(
            f"{len(places)} blobs for {len(libraries)} libraries, {len(models)} models"
        )
    return {
        **index,
        "libraries": [{**one, **place} for one, place in zip(libraries, places)],
        "models": [{**m, "constants": p} for m, p in zip(models, places[len(libraries) :])],
    }


def unpacked(request: str, data: bytes | memoryview) -> dict[str, Any]:
    """The index of a file whose checksum is right; what is in it is not looked at.

    Args:
        request: the request, for the error.
        data: the whole file.

    Raises:
        ArtifactError: it is no package, was cut off or changed, or is of a newer version.
    """
    begin = bytes(data[: len(MAGIC)])
    if begin != MAGIC:
        if MAGIC.startswith(begin):
            why = f"it is damaged: it ends after {len(data)} bytes"
            raise ArtifactError(request, why, COPY_AGAIN)
        raise ArtifactError(
            request,
            f"it is no package: it begins with {begin!r}",
            "`whet package` writes one; a single library (.so, .o, .tar) is loaded by "
            "whet.runtime.load_module",
        )
    body = memoryview(data)[:-DIGEST]
    digest = bytes(data[-DIGEST:])
    if len(data) < _HEAD.size + DIGEST or hashlib.sha256(body).digest() != digest:
        why = f"it is damaged: its {len(data):,} bytes are not its checksum's"
        raise ArtifactError(request, why, COPY_AGAIN)
    _, version, _, length = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ArtifactError(
            request,
            f"its format is version {version}, this Whet reads version {VERSION}",
            "load it with the Whet that wrote it, or a later one; or " + WRITE_AGAIN,
        )
    if length > len(body) - _HEAD.size:
        why = f"its index of {length:,} bytes is longer than the file"
        raise ArtifactError(request, why, WRITE_AGAIN)
    try:
        text = bytes(body[_HEAD.size : _HEAD.size + length]).decode("ascii")
        index = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        why = f"its index cannot be read: {type(error).__name__}: {str(error)[:200]}"
        raise ArtifactError(request, why, WRITE_AGAIN) from None
    if not isinstance(index, dict):
        raise ArtifactError(request, f"its index is no object but a {type(index).__name__}")
    return index


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON whose keys occur once."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has a key twice")
    return made
