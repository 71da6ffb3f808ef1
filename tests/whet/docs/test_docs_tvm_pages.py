"""The table of TVM's pages is true: its tests exist, its reasons are given, its page is new."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs" / "extensions"))
import checklist_table  # noqa: E402
import tvm_pages  # noqa: E402


def test_every_page_has_its_place():
    wrong, seen = [], set()
    known = {name for file in tvm_pages.TESTS for name in checklist_table.definitions(ROOT / file)}
    for section in tvm_pages.sections().values():
        for row in section["rows"]:
            tests = row.get("test", "").split()
            good = row["status"] in tvm_pages.STATUSES and row["page"] not in seen
            good &= bool(tests) if row["status"] == "runs" else bool(row.get("note"))
            good &= all(test in known for test in tests)
            good &= set(row) <= {"page", "status", "test", "note"}
            wrong += [] if good else [row["page"]]
            seen.add(row["page"])
    assert not wrong and len(seen) > 50


def test_the_page_is_what_the_table_says():
    said = "python docs/extensions/tvm_pages.py writes it anew"
    assert tvm_pages.PAGE.read_text() == tvm_pages.text(), said
