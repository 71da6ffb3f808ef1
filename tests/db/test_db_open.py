"""Opening logs: what is refused and how, read-only logs, versions, migrations, what is imported."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
import sqlalchemy as sa
from db_records import AVX2, HERE, MATMUL, SPACE, config, ok, start

from whet.compiler.errors import LogError
from whet.db import TuningLog
from whet.db.store import schema
from whet.db.store.engine import open_engine, place_of
from whet.db.store.models import Base


@pytest.fixture
def path(tmp_path):
    """A log with one trial."""
    path = tmp_path / "whet.db"
    with TuningLog(path) as log:
        log.add_trial(start(log), 0, config(0), ok(1.0))
    return path


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_not_a_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("split i by 8\n")
    for write in (True, False):
        with pytest.raises(LogError, match=r"open log .*notes.txt: it is not a database"):
            TuningLog(path, write=write)
    assert path.read_text() == "split i by 8\n"


def test_a_damaged_database(tmp_path):
    path = tmp_path / "whet.db"
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    with pytest.raises(LogError, match="restore a copy"):
        TuningLog(path)


def test_another_programs_database(tmp_path):
    path = tmp_path / "study.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE studies (id)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LogError, match=r"another program's \(its tables: studies\)"):
        TuningLog(path)
    assert path.read_bytes() == before


def test_directories(tmp_path):
    with pytest.raises(LogError, match="it is a directory"):
        TuningLog(tmp_path)
    with pytest.raises(LogError, match="open log '': that is no name of a file"):
        TuningLog("")
    with pytest.raises(LogError, match=r"there is no directory .*\n  make it first: mkdir -p"):
        TuningLog(tmp_path / "runs" / "whet.db")


def test_reading_makes_no_file(tmp_path):
    with pytest.raises(LogError, match="there is no such file"):
        TuningLog(tmp_path / "whet.db", write=False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(LogError, match="it is an empty file"):
        TuningLog(tmp_path / "empty.db", write=False)


def test_urls(tmp_path):
    with TuningLog(f"sqlite:///{tmp_path}/by url.db") as log:
        start(log)
    assert (tmp_path / "by url.db").exists()
    for url in ("sqlite://", "sqlite:///:memory:", ":memory:"):
        with pytest.raises(LogError, match="outlives its process"):
            TuningLog(url)
    with pytest.raises(LogError, match="its URL cannot be read"):
        TuningLog("postgresql://host:port/name")
    for url in ("nosuch://host/name", "mysql://host/name"):
        with pytest.raises(LogError, match="a file of SQLite or in PostgreSQL, not in"):
            TuningLog(url)
    with pytest.raises(LogError, match="its driver is missing"):
        TuningLog("postgresql+nosuch://host/name")
    assert "secret" not in place_of("postgresql://me:secret@host/name").shown


def test_a_log_opened_for_reading_is_not_written(path):
    before = path.read_bytes()
    with TuningLog(path, write=False) as log:
        assert log.read_only and log.best(MATMUL, AVX2, HERE).number == 0
        for write in (lambda: start(log), lambda: log.add_trial(1, 1, config(1), ok(1.0))):
            with pytest.raises(LogError, match="it was opened for reading"):
                write()
    assert path.read_bytes() == before


def test_a_read_only_file_is_read_and_refuses_to_be_written():
    # Permissions do not bind root: the process that is tested becomes somebody else first.
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        path = folder / "whet.db"
        with TuningLog(path) as log:
            log.add_trial(start(log), 0, config(0), ok(1.0))
        path.chmod(0o444)
        said = python(
            f"""
            import os, sys
            sys.path.insert(0, {str(Path(__file__).parent)!r})
            from db_records import *
            import sqlalchemy.dialects.sqlite, whet.db.store.schema, whet.compiler.errors
            if os.geteuid() == 0:
                os.setuid(65534)
            log = TuningLog({str(path)!r})
            print(log.best(MATMUL, AVX2, HERE).number, log.read_only, len(log.summary()))
            try:
                start(log)
            except whet.compiler.errors.LogError as error:
                print(error)
            """
        )
    finally:
        shutil.rmtree(folder)
    assert said.startswith("0 True 1\n")
    assert "start a run of matmul(64, 64, 64, float32) to log" in said
    assert "the file is read-only (mode 444)" in said and "log to another file" in said


def test_a_log_deleted_while_open_is_noticed(path):
    with TuningLog(path) as log:
        run = start(log)
        path.unlink()
        with pytest.raises(LogError, match="moved or deleted while it was open"):
            log.add_trial(run, 0, config(0), ok(1.0))


def test_a_log_that_another_process_holds(path, monkeypatch):
    monkeypatch.setattr("whet.db.store.engine.BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with TuningLog(path, patience=0.2) as log:
        with pytest.raises(LogError, match=r"locked \(for \d+ s\)\n  another process holds"):
            start(log)
        assert len(log.trials()) == 1  # readers are not kept waiting
        holder.execute("COMMIT")
        start(log)
    holder.close()


def set_version(path, version):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = ?", (version,))
    connection.close()


def test_a_newer_log_is_refused_untouched(path):
    for version in ("0007", "f00d"):
        set_version(path, version)
        before = path.read_bytes()
        for write in (True, False):
            with pytest.raises(LogError, match=f"newer version of Whet .*version {version}"):
                TuningLog(path, write=write)
        assert path.read_bytes() == before


def test_an_older_log_is_upgraded_with_its_data_unless_it_is_only_read(path, tmp_path, monkeypatch):
    # A newer revision that rebuilds the busiest table, as SQLite must, and that fails when told.
    newer = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, newer)
    (newer / "versions" / "v0004_note.py").write_text(
        textwrap.dedent(
            """
            import os
            import sqlalchemy as sa
            from alembic import op

            revision, down_revision = "0004", "0003"

            def upgrade():
                with op.batch_alter_table("run", recreate="always") as table:
                    table.add_column(sa.Column("note", sa.Text, server_default="none"))
                if os.environ.get("WHET_TEST_FAIL"):
                    raise RuntimeError("half-way")
            """
        )
    )
    monkeypatch.setattr(schema, "SCHEMA", "0004")
    monkeypatch.setattr("whet.db.quick.connect.SCHEMA", "0004")
    monkeypatch.setattr(schema.upgrade, "__defaults__", ("0004", newer, None))
    with pytest.raises(LogError, match="its tables are of version 0003, and it was opened for"):
        TuningLog(path, write=False)
    before = path.read_bytes()
    monkeypatch.setenv("WHET_TEST_FAIL", "1")
    with pytest.raises(RuntimeError, match="half-way"):
        TuningLog(path)
    assert path.read_bytes() == before  # all of a migration or nothing
    monkeypatch.delenv("WHET_TEST_FAIL")
    with TuningLog(path) as log:
        assert [trial.number for trial in log.trials()] == [0]

        def look(connection):
            return connection.exec_driver_sql("SELECT note FROM run").scalar()

        assert log.read("look", look) == "none"
        assert log.read("look", schema.version_of) == "0004"


def test_migrations_make_the_tables_of_the_models_and_end_at_the_known_version(location):
    from alembic.autogenerate import compare_metadata
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.SCHEMA]
    TuningLog(location).close()
    engine, _ = open_engine(place_of(location), write=True)
    with engine.connect() as connection:
        options = {"version_table": schema.VERSION_TABLE, "compare_type": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_the_best_trial_is_found_in_an_index_alone(path):
    ran: list[tuple] = []

    def plans(ask) -> list[list[str]]:
        """How SQLite goes about each statement on trials that ``ask`` sends it."""
        ran.clear()
        sa.event.listen(log.engine, "before_cursor_execute", note)
        ask()
        sa.event.remove(log.engine, "before_cursor_execute", note)
        raw = sqlite3.connect(path)
        explained = [raw.execute(f"EXPLAIN QUERY PLAN {sql}", values) for sql, values in ran]
        found = [[row[3] for row in rows] for rows in explained]
        raw.close()
        return found

    def note(connection, cursor, statement, parameters, context, executemany) -> None:
        if "FROM trial" in statement:
            ran.append((statement, parameters))

    with TuningLog(path) as log:
        (find, fetch) = plans(lambda: log.best(MATMUL, AVX2, HERE, SPACE))
        assert len(find) == 1 and "USING COVERING INDEX ix_trial_best" in find[0]  # sorts nothing
        assert fetch == ["SEARCH trial USING INTEGER PRIMARY KEY (rowid=?)"]
        (find, _) = plans(lambda: log.best(MATMUL, AVX2, HERE))
        assert "USING COVERING INDEX ix_trial_best" in find[0]
        (find,) = plans(lambda: log.known_program("p", HERE))
        assert "USING COVERING INDEX ix_trial_program" in find[0]
        (find,) = plans(lambda: log.trials(MATMUL, AVX2, HERE, SPACE))
        assert "USING INDEX ix_trial_task" in find[0]
        indexes = sa.inspect(log.engine).get_indexes("trial")
    partial = {index["name"]: index["dialect_options"].get("sqlite_where") for index in indexes}
    assert str(partial["ix_trial_best"]) == "status = 'ok' AND withdrawn IS NULL"


def test_what_is_imported_when(path):
    said = python(
        f"""
        import sys
        import whet.db
        loaded = lambda: [m for m in ("sqlalchemy", "alembic", "optuna", "ray") if m in sys.modules]
        print(loaded())
        log = whet.db.TuningLog({str(path)!r})
        print(len(log.trials()), loaded())
        whet.db.TuningLog({str(path.with_name("new.db"))!r})
        print(loaded())
        """
    )
    assert said == "[]\n1 ['sqlalchemy']\n['sqlalchemy', 'alembic']\n"


def test_nothing_stays_open(path):
    log = TuningLog(path)
    log.trials()
    here = Path(f"/proc/{os.getpid()}/fd")
    if not here.exists():
        pytest.skip("open files can be listed on Linux only")

    def is_open() -> bool:
        return any(os.path.samefile(path, fd) for fd in here.iterdir() if fd.exists())

    assert is_open()
    del log
    assert not is_open()
