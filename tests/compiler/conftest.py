"""Golden texts, which one flag refreshes; and which tests use the emulator."""

from __future__ import annotations

import difflib
import zlib
from pathlib import Path

import emulated
import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files anew instead of comparing"
    )


@pytest.fixture(autouse=True)
def sample(request, monkeypatch):
    """Run tests of operators in the emulator, too: some, by their names, or all."""
    drawn = zlib.crc32(request.node.nodeid.encode()) % emulated.SHARE == 0
    monkeypatch.setattr(emulated, "chosen", drawn or request.config.getoption("--gpu-full"))


@pytest.fixture
def golden(request):
    """``golden(name, text)`` compares ``text`` with ``golden/<name>.txt``."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        text = text.rstrip() + "\n"
        # pytest reads the flag only where this folder is named on its command line
        if request.config.getoption("--update-golden", default=False):
            path.write_text(text)
            return
        refresh = "pytest tests/compiler --update-golden"
        assert path.exists(), f"{path} does not exist; make it with: {refresh}"
        wanted = path.read_text()
        if text != wanted:
            lines = difflib.unified_diff(
                wanted.splitlines(), text.splitlines(), str(path), "now", lineterm=""
            )
            pytest.fail("\n".join([*lines, f"if this is right: {refresh}"]), pytrace=False)

    return compare
