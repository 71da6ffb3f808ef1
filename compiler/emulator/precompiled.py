"""The emulator's headers as GCC has read them, with which each text that it compiles begins.

Reading them takes 0.2 s, half of what a small kernel takes without optimisation. GCC takes what it
has kept only if all options are the same; otherwise, and where nothing is kept, it reads the text.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from whet.compiler.content_cache import MEBIBYTE, ContentCache, digest

# 20 MiB each: one for each size of the elements that are watched together, and their successors
_cache = ContentCache("precompiled", limit_bytes=128 * MEBIBYTE)
_tried: set[Path] = set()  # by this process, which may not have been able to keep them


def link_precompiled(
    folder: Path, header: str, texts: Mapping[str, str], command: Sequence[str], version: str
) -> None:
    """Put a header, as GCC has read it, beside its text; nothing where that cannot be.

    Args:
        folder: of the headers.
        header: the name of the one that a text includes before all else.
        texts: the headers' texts by their names.
        command: the compiler with all of its options.
        version: its answer to ``--version``.
    """
    if "clang" in version:  # which would have to be told
        return
    name = digest(header, *texts.values(), *command, version)
    kept, place = _cache.find(name, ".gch"), _cache.path(name, ".gch")
    if kept is None and place is not None and place not in _tried:
        _tried.add(place)
        read = folder / "read.gch"
        words = [*command, "-x", "c++-header", str(folder / header), "-o", str(read)]
        if subprocess.run(words, capture_output=True).returncode == 0:
            kept = _cache.put(name, read.read_bytes(), ".gch")
            _cache.prune()
    if kept is not None:
        (folder / f"{header}.gch").symlink_to(kept)
