"""The documentation can be built: its settings, its pages and what the reference is made of."""

from __future__ import annotations

import os
import pkgutil
import re
import runpy
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import whet
from whet.compiler import settings

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "extensions"))
import api_pages  # noqa: E402
import house_tables  # noqa: E402
import sample_report  # noqa: E402
from docstrings import as_rst  # noqa: E402

FILES = [p.relative_to(DOCS) for p in DOCS.glob("**/*.md")]
PAGES = sorted(str(p) for p in FILES if p.parts[0] not in ("_build", "generated"))
MODULES = api_pages.public_modules()


def test_the_settings_name_what_is_there(monkeypatch):
    monkeypatch.setenv("WHET_TUTORIAL_EXEC_PATTERN", "vector_add")
    conf = runpy.run_path(str(DOCS / "conf.py"))
    ours = [name for name in conf["extensions"] if (DOCS / "extensions" / f"{name}.py").exists()]
    assert ours == ["api_pages", "checklist_pages", "docstrings", "house_tables", "sample_report"]
    assert all((DOCS / folder).is_dir() for folder in conf["html_static_path"])
    gallery = conf["sphinx_gallery_conf"]
    assert all((DOCS / folder).is_dir() for folder in gallery["examples_dirs"])
    assert gallery["filename_pattern"] == "vector_add"
    assert conf["release"] == whet.__version__


def executed(pattern: str | None, monkeypatch) -> list[str]:
    """The lessons that a pattern chooses, as sphinx-gallery searches for it."""
    monkeypatch.delenv("WHET_TUTORIAL_EXEC_PATTERN", raising=False)
    if pattern is not None:
        monkeypatch.setenv("WHET_TUTORIAL_EXEC_PATTERN", pattern)
    found = settings.tutorial_exec_pattern()
    return [p.stem for p in sorted(DOCS.glob("lessons/*.py")) if re.search(found, str(p))]


def test_a_pattern_selects_lessons(monkeypatch):
    every = sorted(p.stem for p in DOCS.glob("lessons/*.py"))
    assert executed(None, monkeypatch) == executed("", monkeypatch) == every
    assert executed("none", monkeypatch) == []
    assert executed("vector_add|tuning_a", monkeypatch) == ["tuning_a_matmul", "vector_add"]


def test_a_pattern_that_is_none_says_so(monkeypatch):
    with pytest.raises(whet.ArgumentError, match=r"WHET_TUTORIAL_EXEC_PATTERN=\(: it is not a"):
        executed("(", monkeypatch)


def listed(page: str) -> list[str]:
    """The pages that a page's table of contents names, relative to ``docs``."""
    text = (DOCS / page).read_text()
    trees = "\n".join(re.findall(r"```\{toctree\}(.*?)```", text, re.DOTALL)).split("\n")
    names = (line.strip() for line in trees if line.strip() and not line.startswith(":"))
    return [os.path.normpath(Path(page).parent / name) for name in names]


def test_every_page_is_reached_from_the_first_one():
    reached, todo = set(), ["index"]
    while todo:
        reached.add(page := todo.pop())
        if (DOCS / f"{page}.md").exists():
            todo += [name for name in listed(f"{page}.md") if name not in reached]
    assert {page.removesuffix(".md") for page in PAGES} <= reached


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_refers_to_is_there(page):
    text = (DOCS / page).read_text()
    generated = {"generated/lessons/index", "generated/api/index"}
    generated |= {f"generated/lessons/{p.stem}" for p in DOCS.glob("lessons/*.py")}
    for name in re.findall(r"\{doc\}`(?:[^`<]+<)?([^`>]+)>?`", text):
        full = os.path.normpath(Path(page).parent / name)
        assert full in generated or (DOCS / f"{full}.md").exists(), name
    for name in re.findall(r"\{include\} (\S+)", text):
        assert (DOCS / page).parent.joinpath(name).exists(), name
    for name in re.findall(r"`((?:compiler|docs|scripts|tests)/[\w./]+)`", text):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_names_of_whet_on_a_page_are_there(page):
    names = re.findall(r"(?<![\w./-])whet(?:\.[A-Za-z_]\w*)+", (DOCS / page).read_text())
    for name in names:
        with suppress(whet.WhetError):  # it says what to use instead, as the page does
            if name not in ("whet.db", "whet.jsonl"):  # files
                pkgutil.resolve_name(name)


def test_the_sample_report_is_the_same_each_time(tmp_path):
    text = sample_report.write_sample(tmp_path).read_text()
    assert "mine/scaled_product(256, 256, 256)" in text and "7.05" in text
    assert "C_acc = allocate" in text  # the best program's loops
    assert sample_report.write_sample(tmp_path).read_text() == text
    assert (DOCS / "sample_log.jsonl").stat().st_size < 200_000


@pytest.mark.parametrize(
    "page",
    [
        "from_tvm.md", "index.md", "searching.md", "derived_spaces.md",
        "cpu_kernels.md", "gpu.md",
    ],
)  # fmt: skip
def test_the_examples_of_a_page_run(page, tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL))
    assert "whet" in code
    fewer = {"trials=200": "trials=4", "trials=400": "trials=20"}
    code = re.sub(r"trials=\d+", lambda found: fewer[found[0]], code)
    (tmp_path / "page.py").write_text(code)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_examples_and_the_c_program_of_a_page_run(tmp_path):
    text = (DOCS / "exporting.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    programs = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    commands = "".join(c for c in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "cc " in c)
    (tmp_path / "page.py").write_text("\n".join(examples))
    for name, program in zip(("main.c", "product.c"), programs, strict=True):
        (tmp_path / name).write_text(program)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", f"python page.py\n{commands}"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "2 4 6\n4 4\n"), done.stdout + done.stderr


@pytest.mark.parametrize("name", MODULES)
def test_what_is_public_has_a_docstring(name):
    module = MODULES[name]
    bare = [
        n
        for n in getattr(module, "__all__", ())
        if api_pages.kind_of(getattr(module, n)) in ("Functions", "Classes", "Errors")
        and not (getattr(module, n).__doc__ or "").strip()
    ]
    assert module.__doc__ and not bare


def test_every_public_thing_is_documented_once():
    homes = api_pages.documented(MODULES)
    pages = {name: api_pages.page(name, module, homes) for name, module in MODULES.items()}
    everything = "\n".join(pages.values())
    for full in set(homes.values()):
        entries = re.findall(
            rf"^\.\. auto(?:function|class):: {re.escape(full)}$", everything, re.M
        )
        assert len(entries) == 1, full
    assert homes[id(whet.te.exp)] == "whet.te.exp" != "whet.tir.exp"
    assert "* ``exp``: :py:obj:`whet.te.exp`" in pages["whet.tir"]


def test_tables_and_bars_of_docstrings_become_rst():
    table = ["a |x|, ``a|b``", "", "| k | v |", "| --- | --- |", "| 1 | 2 |", "", ">>> a |b|"]
    assert as_rst(table) == [
        r"a \|x\|, ``a|b``",
        "",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - k",
        "     - v",
        "   * - 1",
        "     - 2",
        "",
        "",
        ">>> a |b|",
    ]


@pytest.mark.parametrize("name", house_tables.TABLES)
def test_the_compilers_tables_are_shown(name):
    lines = house_tables.lines_of(name)
    assert sum(line.startswith("   * - ") for line in lines) > 1
    assert f".. whet-table:: {name}\n" in (DOCS / "passes.md").read_text()


@pytest.mark.parametrize("words", [["--help"], ["--serve", "x"], ["--serve", "1", "2"], ["html"]])
def test_the_script_refuses_other_arguments(words):
    done = subprocess.run([ROOT / "scripts" / "docs", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "scripts/docs --serve [PORT]" in done.stderr


DECISIONS = sorted(p.name for p in (DOCS / "decisions").glob("0*.md"))


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_has_its_four_parts(name):
    text = (DOCS / "decisions" / name).read_text()
    heads = re.findall(r"^\*\*(\w+)\.\*\* ", text, re.M)
    assert heads == ["Context", "Decision", "Measurement", "Consequence"]
    assert text.startswith(f"# {name[:4]} ")
    index = (DOCS / "decisions" / "index.md").read_text()
    assert f"]({name}) |" in index


def test_decisions_are_numbered_without_gaps():
    assert [int(name[:4]) for name in DECISIONS] == [*range(1, len(DECISIONS) + 1)]


def test_a_command_is_watched_and_its_failure_is_shown():
    body = "echo reading one; sleep 5; echo the problem; echo a warning >&2; exit 3"
    line = f"set -euo pipefail; source scripts/environment.sh; watched bash -c '{body}'"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 3
    assert " s  reading one\n" in done.stdout and "the problem" not in done.stdout
    assert "a warning\n" in done.stderr and "the problem\n" in done.stderr
