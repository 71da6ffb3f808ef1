"""The pages are true: README's examples run, its commands parse, links lead on."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import whet
from whet.cli import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[3]
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/glossary.md")
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_the_example_runs_as_a_script(tmp_path):
    """With small matrices and few trials; the template is in the script's __main__."""
    (code,) = blocks("python")
    assert code.count("1024") > 5
    assert code.count("trials=100") == 1
    code = code.replace("1024", "64").replace("trials=100", "trials=3")
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("columns=", "GFLOP/s", "of one core's FMA peak", "speed-up"):
        assert said in done.stdout, said
    with whet.TuningLog(tmp_path / "whet.db", write=False) as log:
        (workload,) = log.workloads()
    assert (workload.template, workload.args[:3]) == ("example/matmul", (64, 64, 64))


def test_what_it_says_beside_the_example_works():
    assert "whet.create_task(outputs=[whet.topi.nn.softmax(A)])" in README
    A = whet.te.placeholder((5, 7), name="A")
    f = whet.build(whet.create_task(outputs=[whet.topi.nn.softmax(A)]))
    assert 'f.get_source("asm")' in README and f.get_source("asm")


def test_pip_is_told_the_name_of_the_distribution():
    """On the package index, ``whet`` is another project: no page and no message names that."""
    told = subprocess.run(
        ["git", "grep", "-nE", r"""pip install[^`]*[ "']whet(\[|[`"' ]|$)"""],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1, told.stdout  # 1: no line


def commands() -> list[str]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.join(shlex.split(line, comments=True)) for line in lines if line[:5] == "whet "]


@pytest.mark.parametrize("line", commands())
def test_each_command_parses(line):
    context = click.Context(cli, info_name="whet")
    _, name, *words = shlex.split(line)
    command = cli.get_command(context, name)
    assert command is not None, f"there is no command {name}"
    command.make_context(name, words, parent=context)


def test_every_command_is_shown():
    assert {line.split()[1] for line in commands()} == set(COMMANDS)


def test_a_command_that_is_wrong_would_not_parse():
    context = click.Context(cli, info_name="whet")
    with pytest.raises(click.UsageError, match="colour"):
        cli.get_command(context, "show").make_context("show", ["--colour"], parent=context)


def test_the_built_in_templates_are_named():
    from whet.search_spaces.values.builtin import BUILTIN

    page = (ROOT / "docs" / "cpu_kernels.md").read_text()
    table = page.split("| template | arguments | computes |")[1].split("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(BUILTIN)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / page).parent.joinpath(link).exists(), f"{page}: {link}"


ROOMS = (
    "compiler",
    "search_spaces",
    "measure",
    "db",
    "autotune",
    "whet",
    "tests",
    "docs",
    "scripts",
)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_files_it_names_are_there(page):
    """A path in backquotes is the end of one of the repository's."""
    text = (ROOT / page).read_text()
    there = [f"/{p.relative_to(ROOT)}" for room in ROOMS for p in (ROOT / room).rglob("*")]
    paths = re.findall(r"`([\w./-]+/[\w./-]*|\w+\.(?:py|md))`", text)
    assert len(paths) > 3
    for path in paths:
        whole = f"/{path.rstrip('/')}"
        assert (ROOT / path).exists() or any(p.endswith(whole) for p in there), f"{page}: {path}"


def test_the_architecture_is_short():
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= 10_000


def test_the_scripts_that_it_names_can_be_run():
    for script in re.findall(r"^(scripts/\w+)", "\n".join(blocks("sh")), re.MULTILINE):
        path = ROOT / script
        assert path.stat().st_mode & 0o111, f"{script} is not executable"
        subprocess.run(["bash", "-n", path], check=True)


def test_the_license_is_whole():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert len(text) > 11_000
