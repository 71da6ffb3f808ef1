"""The emulator's headers as GCC has read them: what each text that it compiles begins with.

Reading them takes 0.2 s, half of what a small kernel takes without optimisation. GCC takes what it
has kept only if all options are the same; otherwise, and where nothing is kept, it reads the text.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from whet.compiler.content_cache import MEBIBYTE, ContentCache, digest

# 20 MiB each: one for each size of the elements that are watched together, and their successors
_cache = ContentCache("precompiled", limit_bytes=128 * MEBIBYTE)
_tried: set[Path] = set()  # what this process has made, and may not have been able to keep


def link_precompiled(
    folder: Path, header: str, texts: Mapping[str, str], command: Sequence[str], version: str
) -> None:
    """Put a header, as GCC has read it, beside its text; nothing where that cannot be.

    Args:
        folder: where the headers stand.
        header: the name of the one that a text includes before all else.
        texts: the headers' texts by their names.
        command: the compiler with all of its options.
        version: what it says of its version.
    """
    if "clang" in version:  # which would have to be told
        return
    name = digest(header, *texts.values(), *command, version)
    kept, place = _cache.find(name, ".gch"), _cache.path(name, ".gch")
    if kept is None and place is not None and place not in _tried:
        _tried.add(place)
        kept = _made(name, header, texts, command)
    if kept is not None:
        (folder / f"{header}.gch").symlink_to(kept)


def _made(name: str, header: str, texts: Mapping[str, str], command: Sequence[str]) -> Path | None:
    with tempfile.TemporaryDirectory(prefix="whet-emulator-") as folder:
        for file, text in texts.items():
            Path(folder, file).write_text(text)
        made = Path(folder, "made.gch")
        words = [*command, "-x", "c++-header", str(Path(folder, header)), "-o", str(made)]
        done = subprocess.run(words, capture_output=True)
        if done.returncode != 0 or not made.exists():
            return None
        kept = _cache.put(name, made.read_bytes(), ".gch")
    _cache.prune()
    return kept
