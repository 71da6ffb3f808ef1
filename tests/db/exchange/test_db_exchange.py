"""Import of logs as text: what is refused, and that nothing of a bad file is taken."""

import json

import pytest
from db_records import config, failed, ok, start

from whet.compiler.errors import LogError
from whet.db import TuningLog


@pytest.fixture
def lines(tmp_path):
    """An exported log: a run and two trials."""
    with TuningLog(tmp_path / "source.db") as log:
        run = start(log)
        log.add_trial(run, 0, config(0), ok(1.0, 2.0), flop=8)
        log.add_trial(run, 1, config(1), failed())
        log.export_json(tmp_path / "log.json")
    return (tmp_path / "log.json").read_text().splitlines()


def change(line: str, **fields) -> str:
    data = json.loads(line)
    for name, value in fields.items():
        place = data["result"] if name in data.get("result", ()) else data
        place[name] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"number": "0"}, "'number' of a trial cannot be"),
        ({"number": True}, "'number' of a trial cannot be true"),
        ({"number": 10**40}, "line 3"),
        ({"run": "unheard of"}, "which no line before it describes"),
        ({"config": {"choices": [["tile"]]}}, "'fingerprint' and 'choices'"),
        ({"config": {"fingerprint": "other", "choices": []}}, "its config is of space 'other'"),
        ({"costs": ["1"], "status": "ok"}, "costs, timings and flop are finite"),
        ({"costs": [float("inf")], "status": "ok"}, "Infinity is not JSON"),
        ({"costs": [0], "status": "ok"}, "finite and above 0"),
        ({"costs": [], "status": "ok"}, "with 0 costs"),
        ({"status": "wonderful"}, "unknown status 'wonderful'"),
        ({"error": None}, "'error' of a result cannot be null"),
        ({"stage": "\ud800"}, "line 3"),
        ({"number": 0}, "another trial has that number"),
        ({"format": 2}, "this version of Whet reads 1"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(lines, tmp_path, fields, said):
    path = tmp_path / "bad.json"
    path.write_text("\n".join([*lines[:2], change(lines[2], **fields)]))
    with TuningLog(tmp_path / "whet.db") as log:
        with pytest.raises(LogError, match="line 3") as caught:
            log.import_json(path)
        assert said in str(caught.value) and "nothing was imported" in str(caught.value)
        assert log.trials() == [] and log.runs() == []


@pytest.mark.parametrize("text", ["{", "[1]", "7", "[" * 100_000, '{"number": 1}'])
def test_what_is_no_record(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_text("\n" + text)
    with TuningLog(tmp_path / "whet.db") as log, pytest.raises(LogError, match="line 2"):
        log.import_json(path)


def test_files_that_cannot_be_read_or_written(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with TuningLog(tmp_path / "whet.db") as log:
        with pytest.raises(LogError, match="give a file that `whet log export` wrote"):
            log.import_json(tmp_path / "missing.json")
        with pytest.raises(LogError, match="nothing was imported"):
            log.import_json(tmp_path / "binary")
        with pytest.raises(LogError, match="give a path that can be written"):
            log.export_json(tmp_path / "missing" / "log.json")


def test_files_may_be_joined_and_a_run_that_went_on_is_brought_up_to_date(lines, tmp_path):
    path = tmp_path / "joined.json"
    path.write_text("\n".join(lines[:2]) + "\n\n")
    with TuningLog(tmp_path / "whet.db") as log:
        assert log.import_json(path) == 1
        done = change(lines[0], state="finished", finished_at=5.0)
        path.write_text("\n".join([*lines, done, *lines[1:]]))
        assert log.import_json(path) == 1
        assert [run.state for run in log.runs()] == ["finished"]
        assert [trial.number for trial in log.trials()] == [0, 1]


def test_a_read_only_log_says_so(lines, tmp_path):
    path = tmp_path / "log.json"
    with (
        TuningLog(tmp_path / "source.db", write=False) as log,
        pytest.raises(LogError, match="it was opened for reading"),
    ):
        log.import_json(path)
