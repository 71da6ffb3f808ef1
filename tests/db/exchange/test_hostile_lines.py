"""Text that nobody should have written: each line is refused or counted, and costs no memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys

import pytest
from db_records import config, failed, ok, start

from whet.compiler.errors import LogError
from whet.db import TuningLog
from whet.db.exchange import export_log, import_log, lines


@pytest.fixture
def export(tmp_path):
    """The lines of an export: a run and three trials."""
    with TuningLog(tmp_path / "source.db") as log:
        run = start(log)
        for i, result in enumerate((ok(1.0, 2.0), failed(), ok(0.5))):
            log.add_trial(run, i, config(i), result, flop=8)
        export_log(log, tmp_path / "log.jsonl")
    return (tmp_path / "log.jsonl").read_text().splitlines()


def put(tmp_path, *texts: str | bytes):
    path = tmp_path / "hostile.jsonl"
    path.write_bytes(b"\n".join(t if isinstance(t, bytes) else t.encode() for t in texts))
    return path


def changed(line: str, **fields) -> str:
    data = json.loads(line)
    for name, value in fields.items():
        place = data["result"] if name in data.get("result", ()) else data
        place[name] = value
    return json.dumps(data)


HOSTILE = {
    "nothing known": ('{"a": 1}', "a trial needs 'run'"),
    "a list": ("[1, 2]", "a JSON object, not list"),
    "a number": ("7", "not int"),
    "cut": ('{"run": "x", "num', "Unterminated string"),
    "bytes": (b'{"run": "\xff\xfe"}', "utf-8"),
    "NaN": ('{"flop": NaN}', "NaN is not JSON"),
    "a huge exponent": ('{"flop": 1e999}', "1e999 is too large"),
    "a huge integer": ('{"flop": ' + "9" * 5000 + "}", "Exceeds the limit"),
    "deep": ("[" * 200 + "]" * 200, "nested deeper than 64"),
    "very deep": ("[" * 200_000, "recursion"),
    "half a pair": ('{"run": "\\ud800"}', "surrogates not allowed"),
    "a constructor": ('{"__class__": "os.system", "args": ["id"]}', "a trial needs 'run'"),
    "pickled": ("llvm\tgASVCwAAAAAAAABLAUsChpQu\tgASVCwAAAAAAAAA=\t", "refused unread"),
    "AutoTVM 0.1": ('{"i": ["llvm", "x", []], "r": [[1.0], 0, 1, 1], "v": 0.1}', "version 0.1"),
}
TRIALS = {
    "number": ({"number": 2**31}, "'number' of a trial is from 0"),
    "below 0": ({"number": -1}, "'number' of a trial is from 0"),
    "a true number": ({"number": True}, "cannot be true"),
    "NUL": ({"stage": "a\x00b"}, "cannot hold a NUL"),
    "told": ({"told": ["t1"]}, "'told' of a trial cannot be"),
    "withdrawn": ({"withdrawn": 1}, "'withdrawn' of a trial cannot be 1"),
    "another's space": ({"config": {"fingerprint": "x", "choices": []}}, "its config is of space"),
    "costs below 0": ({"costs": [-1.0]}, "finite numbers, at least 0"),
    "costs of 0": ({"costs": [0.0]}, "finite and above 0"),
}
RUNS = {
    "uid": ({"uid": "u" * 33}, "1 to 32 characters"),
    "target": ({"target": {"mcpu": "x"}}, "its target is"),
    "format": ({"format": 99}, "this version of Whet reads 1"),
    "a NUL": ({"sampler": "\x00"}, "cannot hold a NUL"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_named_or_skipped(export, tmp_path, name):
    text, said = HOSTILE[name]
    path = put(tmp_path, *export[:2], text, *export[2:])
    with TuningLog(tmp_path / "whet.db") as log:
        with pytest.raises(LogError, match="line 3") as caught:
            import_log(log, path)
        assert said in str(caught.value) and str(path) in str(caught.value)
        assert not log.runs() and not log.trials()
        taken = import_log(log, path, skip_broken=True)
        assert (taken.trials, len(taken.skipped)) == (3, 1)
        assert said in str(taken.skipped) and "line 3" in str(taken.skipped)
        assert [t.number for t in log.trials()] == [0, 1, 2]


@pytest.mark.parametrize(("place", "name"), [(1, n) for n in TRIALS] + [(0, n) for n in RUNS])
def test_a_record_with_a_wrong_value(export, tmp_path, place, name):
    fields, said = (TRIALS if place else RUNS)[name]
    bad = [changed(x, **fields) if i == place else x for i, x in enumerate(export)]
    path = put(tmp_path, *bad)
    with TuningLog(tmp_path / "whet.db") as log:
        with pytest.raises(LogError, match=f"line {place + 1}") as caught:
            import_log(log, path)
        assert said in str(caught.value) and not len(log)
        taken = import_log(log, path, skip_broken=True)
        # The trials of a run that is none are nobody's.
        assert len(taken.skipped) == (1 if place else 4) and taken.trials == (2 if place else 0)
        assert log.broken == 0 and len(log.trials()) == taken.trials


def test_a_line_of_a_gigabyte_takes_no_memory(export, tmp_path):
    """A line without an end, and one behind it: 1 GB of text in a process that may have 600 MB."""
    path = put(tmp_path, *export[:2], "")
    with open(path, "ab") as file:
        file.write(b'{"run": "')
        file.truncate(file.tell() + 2**30)  # a sparse file: the disk holds none of it
        file.seek(0, 2)
        file.write(b'"}\n' + "\n".join(export[2:]).encode())
    program = (
        "import re, sys\n"
        "from whet.db import TuningLog\n"
        "from whet.db.exchange import import_log\n"
        "with TuningLog(sys.argv[2]) as log:\n"
        "    taken = import_log(log, sys.argv[1], skip_broken=True)\n"
        "print(taken.trials, taken.skipped)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    words = [sys.executable, "-c", program, str(path), str(tmp_path / "whet.db")]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[0] == "3 1 broken line skipped"
    assert f"longer than {lines.LONGEST:,} bytes" in said[1]
    assert int(said[-1]) < 400_000  # kB, of this program: ru_maxrss may be its parent's


def test_the_longest_line_that_is_read(export, tmp_path, monkeypatch):
    longest = max(map(len, export))
    path = put(tmp_path, *export, "")
    monkeypatch.setattr(lines, "LONGEST", longest + 1)
    with TuningLog(tmp_path / "a.db") as log:
        assert import_log(log, path).trials == 3
    monkeypatch.setattr(lines, "LONGEST", longest - 1)
    with TuningLog(tmp_path / "b.db") as log, pytest.raises(LogError, match="it is longer than"):
        import_log(log, path)


def test_files_that_are_no_text_are_named(export, tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"{}"))
    with TuningLog(tmp_path / "whet.db") as log:
        with pytest.raises(LogError, match=r"source.db is a log, not an export\n.*whet log merge"):
            log.import_json(tmp_path / "source.db")
        with pytest.raises(LogError, match="is compressed"):
            log.import_json(tmp_path / "x.gz")
        with pytest.raises(LogError, match="Is a directory"):
            log.import_json(tmp_path)
    with pytest.raises(LogError, match=r"log.jsonl: it is an export.*\n.*whet log import"):
        TuningLog(tmp_path / "log.jsonl", write=False)


def test_many_broken_lines_are_counted_and_few_are_kept(export, tmp_path):
    path = put(tmp_path, *export, *['{"run": 1}'] * 1000)
    with TuningLog(tmp_path / "whet.db") as log:
        skipped = import_log(log, path, skip_broken=True).skipped
    assert len(skipped) == 1000 and len(skipped.first) == lines.KEPT
    assert "... and 995 more" in str(skipped) and len(skipped.reasons) == 1
