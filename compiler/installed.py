"""Installed packages: their versions, and the command that adds one of Whet's extras."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

DISTRIBUTION = "whet-autotune"
"""The name on the package index, where ``whet`` is another project's."""


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python and of those packages that are installed, for a record.

    Args:
        packages: names on the package index; ``"whet"`` stands for this project.

    Returns:
        name -> version, ``"python"`` first; packages that are not installed are left out.
    """
    import importlib.metadata  # 20 to 40 ms, which importing this file shall not cost
    import platform

    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = importlib.metadata.version(DISTRIBUTION if name == "whet" else name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def install_extra(extra: str) -> str:
    """The command that adds an extra to this installation, wherever it came from.

    Args:
        extra: a name of ``[project.optional-dependencies]``, such as ``"plots"``.

    Returns:
        ``pip install -e "/home/me/whet[plots]"`` for a clone,
        ``pip install "whet-autotune[plots]"`` for what an index gave.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    clone = Path(__file__).resolve().parents[1]
    if (clone / "pyproject.toml").is_file():
        return f'pip install -e "{clone}[{extra}]"'
    try:
        # What pip knows of a package that did not come from an index (PEP 610).
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    at = f" @ {origin['url']}" if "url" in origin else ""
    return f'pip install "{DISTRIBUTION}[{extra}]{at}"'


@cache
def code_digest() -> str:
    """The identity of Whet's own code: names, sizes and times of its files.

    A version alone would not tell a clone that is worked on from what it was before.
    """
    import hashlib
    import os

    found = []
    for folder, inner, files in os.walk(Path(__file__).parents[1] / "whet", followlinks=True):
        inner[:] = sorted(name for name in inner if name != "__pycache__")
        for name in sorted(files):
            about = os.stat(os.path.join(folder, name))
            found.append(f"{folder}/{name} {about.st_size} {about.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode()).hexdigest()
