"""Features of trials in a log: their text, old logs, export and import, and samples of tasks."""

from __future__ import annotations

import base64
import json
import sqlite3
import zlib

import numpy as np
import pytest
from db_records import AVX2, HERE, MATMUL, SPACE, config, failed, ok, start

from whet.compiler.errors import LogError
from whet.db import TuningLog, similar
from whet.db.store import schema, vectors
from whet.db.store.engine import place_of
from whet.db.values.identity import distance
from whet.search_spaces.values import Workload


def rows(n, width=40, seed=0):
    return np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32) * 10


def test_a_row_comes_back_nearly_as_it_was_and_nan_as_nan():
    table = rows(5)
    table[1, 3], table[2, 0], table[3] = np.nan, np.inf, 0.0
    table[4, :2] = np.finfo(np.float32).max, -1e-30
    back = vectors.unpack([vectors.pack(row, 3) for row in table], 3, 40)
    np.testing.assert_allclose(back, table, rtol=2.0**-12)
    assert len(vectors.pack(table[3], 3)) < 60  # zeros take no room
    assert len(vectors.pack(table[0], 3)) < 250


def test_what_is_no_row_of_this_version_is_nan():
    row = rows(1)[0]
    text = vectors.pack(row, 3)
    bomb = base64.b64encode(zlib.compress(bytes(50_000_000))).decode()
    broken = [None, "", "hello", text[:-8], text.replace("3:", "4:", 1), f"3:40:{bomb}", "3:40:é"]
    found = vectors.unpack([*broken, text], 3, 40)
    assert np.isnan(found[:-1]).all() and np.isfinite(found[-1]).all()
    assert np.isnan(vectors.unpack([text], 3, 41)).all()
    assert vectors.is_packed(text) and not any(map(vectors.is_packed, filter(None, broken[:4])))
    assert not vectors.is_packed("3:99999999999:" + bomb)


def test_a_log_keeps_them_through_export_and_import(tmp_path):
    text = vectors.pack(rows(1)[0], 1)
    with TuningLog(tmp_path / "a.db") as log:
        run = start(log)
        log.add_trial(run, 0, config(0), ok(1.0), features=text)
        log.add_trial(run, 1, config(1), failed())
        log.export_json(tmp_path / "log.json")
    lines = [json.loads(line) for line in (tmp_path / "log.json").read_text().splitlines()]
    assert lines[1]["features"] == text and "features" not in lines[2]
    with TuningLog(tmp_path / "b.db") as log:
        assert log.import_json(tmp_path / "log.json") == 2
        assert [t.features for t in log.trials()] == [text, ""]
    lines[1]["features"] = "1:2:rubbish"
    (tmp_path / "bad.json").write_text("\n".join(map(json.dumps, lines)))
    with (
        TuningLog(tmp_path / "c.db") as log,
        pytest.raises(LogError, match=r"line 2: 'features' of a trial cannot be"),
    ):
        log.import_json(tmp_path / "bad.json")


def test_a_log_of_the_first_version_is_upgraded_and_goes_on(tmp_path):
    path = tmp_path / "old.db"
    schema.upgrade(place_of(path), "0001")
    with sqlite3.connect(path) as raw:
        for table in ("workload", "target", "device"):
            extra = ", template" if table == "workload" else ""
            data = {"workload": MATMUL.to_json(), "target": AVX2, "device": HERE}[table]
            values = (f"digest of {table}", json.dumps(data)) + (("matmul",) if extra else ())
            marks = ", ".join("?" * len(values))
            raw.execute(f"INSERT INTO {table} (digest, data{extra}) VALUES ({marks})", values)
        raw.execute(
            "INSERT INTO run VALUES (1, 'u', 1, 1, 1, ?, 'random', '0', '{}', '{}', 'finished',"
            " 1.0, 2.0)",
            (SPACE,),
        )
        raw.execute(
            "INSERT INTO trial VALUES (1, 1, 0, 1, 1, 1, ?, ?, 8.0, 'ok', '', 0.5, '[0.5]', '',"
            " 'p', '{}', '{}', 1.5)",
            (SPACE, json.dumps(config(0).to_json())),
        )
    raw.close()
    with TuningLog(path) as log:
        (trial,) = log.trials()
        assert (trial.cost, trial.features, trial.config) == (0.5, "", config(0))
        log.add_trial(1, 1, config(1), ok(0.25), features="1:0:eJwDAAAAAAE=")
        assert log.trials()[1].features
    with sqlite3.connect(path) as raw:
        indexes = {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE sql <> ''")}
    raw.close()
    assert {"ix_trial_best", "ix_trial_program", "ix_trial_task"} <= indexes


def filled(log, n, workload=MATMUL, **more):
    run = start(log, workload=workload, **more)
    rng = np.random.default_rng(n)
    for i in range(n):
        cost = float(np.exp(rng.standard_normal()))
        result = failed() if i % 5 == 4 else ok(cost)
        log.add_trial(run, i, config(i % 7), result, features=vectors.pack(rows(1)[0], 1))
    log.finish_run(run)
    return run


def test_a_sample_has_the_best_some_others_and_a_few_failures(tmp_path):
    with TuningLog(tmp_path / "a.db") as log:
        filled(log, 200)
        (task,), broken = similar.tasks(log)
        found = similar.sample(log, task, 40)
        again = similar.sample(log, task, 40)
        every = similar.sample(log, task, 500)
        costs = sorted(t.cost for t in log.trials() if t.result.ok)
    assert broken == 0 and task.workload == MATMUL and task.whole
    assert 30 <= len(found) <= 40 and found == again
    assert [t.cost for t in found[:18]] == costs[:18]
    assert max(t.cost for t in found if t.cost < np.inf) > costs[80]
    assert 1 <= sum(np.isinf(t.cost) for t in found) <= 5
    assert len(every) == 200


def test_runs_begun_later_do_not_count(tmp_path):
    with TuningLog(tmp_path / "a.db") as log:
        first = filled(log, 10)
        between = log.runs()[0].started_at + 1e-6
        filled(log, 20)
        (task,), _ = similar.tasks(log, before=between)
        assert task.runs == (first,) and not task.whole
        assert len(similar.sample(log, task, 100)) == 10
        assert similar.tasks(log, before=1.0) == ([], 0)


def test_broken_rows_are_counted_and_passed_over(tmp_path):
    path = tmp_path / "a.db"
    other = Workload("matmul", (128, 64, 64, "float32"))
    with TuningLog(path) as log:
        filled(log, 10)
        filled(log, 10, workload=other)
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE workload SET data = '{\"template\": 7' WHERE id = 1")
        raw.execute("UPDATE trial SET config = '[1, 2' WHERE workload_id = 2 AND number < 3")
    raw.close()
    with TuningLog(path) as log:
        (task,), broken = similar.tasks(log)
        found = similar.sample(log, task, 100)
    assert broken == 1 and task.workload == other
    assert sum(t.choices is None for t in found) == 3 and len(found) == 10


def test_distances_are_doublings_and_words_must_be_equal():
    assert distance((63, 63), (127, 31)) == pytest.approx(2.0)
    assert distance((64, "float32"), (64, "float32")) == 0.0
    assert distance((64, "float32"), (64, "float16")) == np.inf
    assert distance((64, (1, 1)), (64, (1, 3))) == pytest.approx(1.0)
    assert distance((64, (1, 1)), (64, 1)) == np.inf
    assert distance((64,), (64, 1)) == np.inf
    assert distance((True,), (1,)) == np.inf
