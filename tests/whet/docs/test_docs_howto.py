"""The how-to pages run as they stand, from an empty folder, and fit on a screen."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from whet.cli import cli

ROOT = Path(__file__).resolve().parents[3]
HOWTO = ROOT / "docs" / "howto"
PAGES = sorted(p.name for p in HOWTO.glob("*.md"))
LONGEST = 70
"""Lines of a page, of code and text: a screen."""
LONGER = ("faq.md",)
FEWER_TRIALS = (
    (r"trials=\d+", "trials=4"),
    (r"--trials \d+", "--trials 8"),
    (r"--rounds \d+", "--rounds 1"),
)


def blocks(page: str) -> list[tuple[str, str]]:
    """The code of a page in order, as (language, text)."""
    return re.findall(r"^```([\w-]+)\n(.*?)^```", (HOWTO / page).read_text(), re.M | re.S)


def script_of(page: str) -> str:
    """A page as one script: Python runs in order in one namespace, ``sh`` between it.

    A Python block whose first line is ``# name.py`` is a file that the others use. ``console`` is
    for what needs a network or another machine, and is not run.
    """
    parts = ["import subprocess, sys", "sys.path.insert(0, '')"]
    for language, text in blocks(page):
        if file := re.match(r"(?:#|//) (\w+\.(?:py|cu|c))\n", text):
            parts.append(f"open({file[1]!r}, 'w').write({text!r})")
        elif language == "python":
            parts.append(text)
        elif language == "sh":
            parts.append(f"subprocess.run(['bash', '-ec', {text!r}], check=True)")
    script = "\n".join(parts)
    for pattern, fewer in FEWER_TRIALS:
        script = re.sub(pattern, fewer, script)
    return script


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_an_empty_folder(page, tmp_path):
    if not {"python", "sh"} & {language for language, _ in blocks(page)}:
        pytest.skip("it has no code that runs")
    (tmp_path / "page.py").write_text(script_of(page))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def commands() -> list[tuple[str, str]]:
    """Every ``whet`` command of the pages, with its page; ``$`` is a prompt."""
    found = []
    for page in PAGES:
        for language, text in blocks(page):
            if language in ("sh", "console"):
                lines = (line.removeprefix("$ ").strip() for line in text.splitlines())
                found += [(page, line) for line in lines if line.startswith("whet ")]
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_parses(page, line):
    context = click.Context(cli, info_name="whet")
    _, name, *words = shlex.split(line, comments=True)
    command = cli.get_command(context, name)
    assert command is not None, f"{page}: there is no command {name}"
    if not {"-h", "--help"} & set(words):
        command.make_context(name, words, parent=context)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_a_screen(page):
    lines = len((HOWTO / page).read_text().splitlines())
    assert page in LONGER or lines <= LONGEST, f"{lines} lines"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_listed_and_its_links_lead_somewhere(page):
    index = (HOWTO / "index.md").read_text()
    assert page == "index.md" or f"\n{page.removesuffix('.md')}\n" in index
    for name in re.findall(r"\{doc\}`(?:[^`<]+<)?([^`>]+)>?`", (HOWTO / page).read_text()):
        generated = name.startswith("../generated/")
        assert generated or (HOWTO / f"{name}.md").exists(), f"{page}: {name}"
    for link in re.findall(r"\]\(([^)#:]+)\)", (HOWTO / page).read_text()):
        assert (HOWTO / link).exists() or link.startswith("../generated/"), f"{page}: {link}"
