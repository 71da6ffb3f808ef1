"""Logs of the released schemas, brought up to this one's; the copy that is made before."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path

import pytest
from db_records import AVX2, HERE, MATMUL, SPACE, config, failed, ok, start

from whet.compiler.errors import LogError
from whet.db import TaskKey, TuningLog
from whet.db.store import schema
from whet.db.store.engine import open_engine, place_of
from whet.db.store.models import Base
from whet.db.values.identity import config_digest
from whet.search_spaces.values import Config

DATA = Path(__file__).parent / "data"
KEPT = {"0001": DATA / "schema_0001.db", "0002": DATA / "before.db"}


def read(path, query):
    raw = sqlite3.connect(path)
    try:
        return raw.execute(query).fetchall()
    finally:
        raw.close()


@pytest.fixture(params=KEPT)
def old(request, tmp_path):
    return request.param, Path(shutil.copy(KEPT[request.param], tmp_path / "whet.db"))


def test_a_log_of_each_released_schema_is_upgraded(old):
    version, path = old
    then = read(path, "SELECT id, run_id, number, config, status, cost FROM trial ORDER BY id")
    with pytest.raises(LogError, match=f"its tables are of version {version}"):
        TuningLog(path, write=False)
    with TuningLog(path) as log:
        trials = log.trials()
        assert len(trials) == len(then) and not log.broken
        searches = {run.id for run in log.runs() if run.sampler != "finalists"}
        for task in log.summary():
            key = TaskKey(task.workload, task.target, task.device, task.fingerprint)
            points, _ = log.news(key)
            counts = log.counts(key)
            assert counts.trials == len({p.config for p in points if p.status != "infra_error"})
            assert counts.succeeded == len({p.config for p in points if p.status == "ok"})
            assert {p.run_id for p in points} <= searches and counts.claims == 0
    columns = "id, run_id, number, config, status, cost"
    assert read(path, f"SELECT {columns} FROM trial ORDER BY id") == then
    digests = dict(read(path, "SELECT run_id || ' ' || number, config_digest FROM trial"))
    assert digests == {f"{t.run_id} {t.number}": config_digest(t.config) for t in trials}
    assert read(path, f"SELECT version_num FROM {schema.VERSION_TABLE}") == [(schema.SCHEMA,)]


def test_it_is_copied_first_and_the_copy_kept(old):
    version, path = old
    before = path.read_bytes()
    TuningLog(path).close()
    copy = path.with_name(f"whet.db.v{version}.bak")
    assert read(copy, "SELECT * FROM trial") == read(KEPT[version], "SELECT * FROM trial")
    assert read(copy, f"SELECT version_num FROM {schema.VERSION_TABLE}") == [(version,)]
    path.write_bytes(before)
    TuningLog(path).close()  # another time: the first copy stays
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "whet.db",
        f"whet.db.v{version}.2.bak",
        f"whet.db.v{version}.bak",
    ]


def test_without_room_for_the_copy_nothing_is_changed(old, monkeypatch):
    _, path = old
    before = path.read_bytes()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 10**9, 100_000))
    with pytest.raises(LogError, match=r"copy .*whet.db before its tables .*0 MB are free"):
        TuningLog(path)
    assert path.read_bytes() == before and os.listdir(path.parent) == ["whet.db"]


def test_an_upgrade_that_fails_leaves_no_copy(old, monkeypatch):
    _, path = old
    before = path.read_bytes()
    monkeypatch.setattr("alembic.command.upgrade", lambda config, to: 1 / 0)
    with pytest.raises(LogError, match="ZeroDivisionError"):
        TuningLog(path)
    assert path.read_bytes() == before and os.listdir(path.parent) == ["whet.db"]


def test_a_config_that_cannot_be_read_has_no_digest(tmp_path):
    path = shutil.copy(KEPT["0002"], tmp_path / "whet.db")
    raw = sqlite3.connect(path)
    with raw:
        raw.execute("UPDATE trial SET config = '[1, 2' WHERE id = 1")
        raw.execute("UPDATE trial SET config = CAST(x'ff00' AS TEXT) WHERE id = 2")
    raw.close()
    with TuningLog(path):
        pass
    assert read(path, "SELECT id FROM trial WHERE config_digest IS NULL ORDER BY id") == [
        (1,),
        (2,),
    ]


@pytest.mark.parametrize("every, told", [(0.0, True), (3600.0, False)])
def test_an_upgrade_says_now_and_then_what_it_is_at(tmp_path, monkeypatch, every, told):
    monkeypatch.setattr("whet.db.store.patience.EVERY", every)
    path = shutil.copy(KEPT["0002"], tmp_path / "whet.db")
    lines: list[str] = []
    with TuningLog(path, waiting=lines.append):
        pass
    wanted = [
        "copying the log before its tables are upgraded: ",
        "upgrading the log: counting the trials of each task",
        *(f"upgrading the log: index {n} of 4" for n in range(1, 5)),
    ]
    trials = [line for line in lines if line.endswith(" trials") and " of " in line]
    assert bool(trials) == told
    assert [any(line.startswith(one) for line in lines) for one in wanted] == [told] * len(wanted)


def test_an_older_log_in_postgresql_is_upgraded(location):
    place = place_of(location)
    schema.upgrade(place, "0002")
    engine, _ = open_engine(place, write=True)
    with engine.begin() as connection:
        raw = connection.exec_driver_sql
        for table in ("workload", "target", "device"):
            extra = ("template, ", "'matmul', ") if table == "workload" else ("", "")
            raw(f"INSERT INTO {table} (digest, {extra[0]}data) VALUES ('d', {extra[1]}'{{}}')")
        for sampler in ("xgb", "finalists"):
            raw(
                "INSERT INTO run (uid, workload_id, target_id, device_id, space_fingerprint,"
                " sampler, seed, options, versions, state, started_at)"
                f" VALUES ('{sampler}', 1, 1, 1, 's', '{sampler}', '0', '{{}}', '{{}}', 'x', 1.0)"
            )
        text = '{"fingerprint": "s", "choices": [["k", "knob", %d]]}'
        rows = [(1, 0, 1, "ok"), (1, 1, 2, "run_crash"), (1, 2, 2, "ok"), (1, 3, 3, "infra_error")]
        for run, number, choice, status in [*rows, (2, 0, 4, "ok")]:
            raw(
                "INSERT INTO trial (run_id, number, workload_id, target_id, device_id,"
                " space_fingerprint, config, flop, status, stage, costs, error, program_hash,"
                f" timings, environment, timestamp) VALUES ({run}, {number}, 1, 1, 1, 's',"
                f" '{text % choice}', 1.0, '{status}', '', '[]', '', '', '{{}}', '{{}}', 1.0)"
            )
    engine.dispose()
    with TuningLog(location) as log:
        tasks = log.read("look", lambda c: c.exec_driver_sql("SELECT * FROM task").all())
        assert [tuple(row) for row in tasks] == [(1, 1, 1, 1, "s", 2, 2)]
        query = "SELECT config_digest FROM trial WHERE number = 1"
        digests = log.read("look", lambda c: c.exec_driver_sql(query).scalars().all())
        assert digests == [config_digest(Config((("k", 2),), "s"))]


@pytest.mark.parametrize("version", KEPT)
def test_a_kept_dump_of_postgresql_is_upgraded(location, tmp_path, version):
    """It holds what the kept SQLite file of its revision does, and is afterwards the same log."""
    place = place_of(location)
    if place.path is not None:
        pytest.skip("the dump is PostgreSQL's")
    engine, _ = open_engine(place, write=True)
    with engine.begin() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        raw.execute((DATA / f"postgresql_{version}.sql").read_text())
    engine.dispose()
    path = Path(shutil.copy(KEPT[version], tmp_path / "whet.db"))
    with pytest.raises(LogError, match=f"its tables are of version {version}"):
        TuningLog(location, write=False)
    with TuningLog(location) as log, TuningLog(path) as file:
        trials = log.trials()
        assert trials == file.trials() and len(trials) >= 20 and not log.broken
        assert log.runs() == file.runs() and log.tasks() == file.tasks()
        assert log.summary() == file.summary()
        digests = "SELECT config_digest FROM trial ORDER BY run_id, number"
        found = log.read("look", lambda c: c.exec_driver_sql(digests).scalars().all())
        assert found == [config_digest(trial.config) for trial in trials]
        log.add_trial(start(log), 0, config(0), ok(1.0))  # and it goes on
        assert len(log) == len(trials) + 1


def test_every_table_of_the_models_is_known_as_ours():
    assert set(Base.metadata.tables) == schema.TABLES


def test_a_digest_stays_what_it_is():
    found = config_digest(config(0))
    assert found == "4f47e59cb01dd388e708227eec29baa3275ad67999db14347ae3be0aff568cd2"


def test_counters_are_those_of_the_trials(tmp_path):
    with TuningLog(tmp_path / "a.db") as log:
        run, key = start(log), TaskKey(MATMUL, AVX2, HERE, SPACE)
        log.add_trials(
            [
                (run, 0, config(0), ok(1.0), 0.0, ""),
                (run, 1, config(1), failed(), 0.0, ""),
                (run, 2, config(1), ok(2.0), 0.0, ""),
                (run, 3, config(2), failed("infra_error"), 0.0, ""),
            ]
        )
        assert (log.counts(key).trials, log.counts(key).succeeded) == (2, 2)
        log.add_trial(run, 4, config(2), failed())
        log.add_trial(run, 4, config(2), failed())
        finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
        log.add_trial(finals, 0, config(3), ok(1.0))
        counts = log.counts(key)
        assert (counts.trials, counts.succeeded, counts.failed) == (3, 2, 1)
