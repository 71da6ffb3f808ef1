"""The checklist is true: its tests exist, its names can be imported, its reasons are given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))
import checklist_table as table  # noqa: E402

SECTIONS = table.read()
ROWS = [row for section in SECTIONS for row in section.rows]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.key)
def test_every_row_is_sound(section):
    wrong = [f"{row.api}: {p}" for row in section.rows for p in table.problems(row)]
    assert not wrong, "\n".join(wrong)


def test_every_section_is_there_and_no_row_twice():
    assert [s.key for s in SECTIONS] == [*(f"1{letter}" for letter in "abcdefghi"), "other"]
    keys = [(row.section, row.api) for row in ROWS]
    assert len(set(keys)) == len(keys) > 200


@pytest.mark.parametrize(
    "name",
    [
        "te.compute",
        "te.create_schedule",
        "te.Stage.split",
        "te.Stage.leaf_iter_vars",
        "Target.current",
        "lower",
        "nd.array",
        "runtime.Module.time_evaluator",
    ],
)
def test_names_that_are_there_resolve(name):
    assert table.resolves(name)


@pytest.mark.parametrize("name", ["te.comput", "te.Stage.splitt", "te.Stage.leaf", "relay.build"])
def test_names_that_are_not_there_do_not(name):
    assert not table.resolves(name)


def row(**fields) -> table.Row:
    good = {"section": "1a", "api": "`te.compute`", "means": "a tensor", "status": "done"}
    return table.Row(**(good | fields))


HERE = "tests/whet/docs/test_docs_checklist.py"


def test_a_sound_row_has_no_problems():
    assert list(table.problems(row(tests=(f"{HERE}::test_a_sound_row_has_no_problems",)))) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"status": "finished"}, "status 'finished' is none of done, differs"),
        ({}, "no test is named"),
        ({"tests": (f"{HERE}::test_nothing",)}, f"there is no test {HERE}::test_nothing"),
        ({"tests": (HERE,)}, f"there is no test {HERE}"),
        ({"tests": (f"{HERE}::row",)}, f"there is no test {HERE}::row"),
        ({"tests": ("tests/whet/test_none.py::test_x",)}, "there is no test tests/whet/test_none"),
        ({"api": "`te.comput`", "tests": (f"{HERE}::test_nothing",)}, "there is no whet.te.comput"),
        ({"status": "next"}, "it is 'next', but the note does not say why"),
        ({"status": "never"}, "it is 'never', but the note does not say why"),
        ({"status": "differs"}, "it is 'differs', but the note does not say why"),
        ({"means": ""}, "it does not say what it means"),
    ],
)
def test_wrong_rows_are_found(wrong, said):
    assert any(said in problem for problem in table.problems(row(**wrong)))


def test_unknown_fields_are_refused(tmp_path):
    file = tmp_path / "table.toml"
    file.write_text(
        '[1a]\ntitle = "t"\nrows = [{ api = "a", means = "m", status = "open", tests = "t" }]\n'
    )
    with pytest.raises(ValueError, match=r"unknown fields \['tests'\]"):
        table.read(file)


def test_methods_of_test_classes_are_tests(tmp_path):
    file = tmp_path / "test_some.py"
    file.write_text("class TestA:\n    def test_b(self): ...\n\ndef test_c(): ...\n")
    assert table.definitions(file) == {"TestA::test_b": 2, "test_c": 4}
