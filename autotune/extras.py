"""How to get what Whet can do without: the command that installs one of its extras."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path


@cache
def install_extra(extra: str) -> str:
    """The command that adds an extra to this installation, wherever it came from.

    Args:
        extra: a name of ``[project.optional-dependencies]``, such as ``"plots"``.

    Returns:
        ``pip install -e "/home/me/whet[plots]"`` for a clone, ``pip install "whet[plots]"`` for
        what an index gave.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    clone = Path(__file__).resolve().parents[1]
    if (clone / "pyproject.toml").is_file():
        return f'pip install -e "{clone}[{extra}]"'
    try:
        # What pip knows of a package that did not come from an index (PEP 610).
        origin = json.loads(distribution("whet").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    at = f" @ {origin['url']}" if "url" in origin else ""
    return f'pip install "whet[{extra}]{at}"'
