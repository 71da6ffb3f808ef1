"""Logs that were damaged at random: a log's error, or rows that were passed over, and no other."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import warnings

import pytest
from autotune_synthetic import small_cost
from log_damage import damage

from whet.autotune import apply_best, best_from_log, build_from_log, create_task, tune
from whet.autotune.report import write_report
from whet.cli import cli, main
from whet.compiler.errors import LogError
from whet.db import IgnoredRecordsWarning, TuningLog
from whet.measure import MeasureResult, ReplayPool

TARGET = "llvm -mcpu=x86-64-v3"
DRAWS = 10
UNDECODABLE = "cast(x'fffefd' as text)"


def measured(inp):
    config = inp.config
    if config.choice("a") == "z":
        return MeasureResult("build_error", error="no registers: é", stage="build")
    costs = tuple(small_cost(config) * (1 + k / 100) for k in range(3))
    return MeasureResult("ok", costs, environment={"load": 0.5, "cpus": 2}, timings={"run_s": 0.1})


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A log of two tasks."""
    from autotune_synthetic import small_template

    path = tmp_path_factory.mktemp("sound") / "a.db"
    small = create_task(small_template, args=(64,), target=TARGET)
    built_in = create_task("matmul", args=(8, 8, 8), target=TARGET)
    tune(small, 8, path, "random", ReplayPool(measured), progress=False)
    tune(built_in, 6, path, "random", ReplayPool(lambda inp: 1e-6), progress=False)
    return path, small, built_in


def readers(path, small, built_in):
    """Whatever reads a log, by name."""

    def best():
        cli.main(["best", str(path), "--errors"], "whet", standalone_mode=False)

    def apply():
        with apply_best(path) as applied, small.target:
            applied.resolve(small.workload)

    def export():
        text = path.with_suffix(".json")
        with TuningLog(path, write=False) as log:
            log.export_json(text)
        with TuningLog(path.with_suffix(".new")) as log:
            log.import_json(text)  # what was exported can be read again
        path.with_suffix(".new").unlink()

    return {
        "build": lambda: best_from_log(built_in, path),
        "apply_best": apply,
        "best": best,
        "report": lambda: write_report(path, path.with_suffix(".html")),
        "export": export,
        "tune": lambda: tune(small, 10, path, "random", ReplayPool(measured), progress=False),
    }


@pytest.mark.parametrize("draw", range(DRAWS))
def test_damage_is_a_log_error_or_passed_over(sound, tmp_path, draw, capsys):
    source, *tasks = sound
    seed = random.SystemRandom().randrange(2**32)
    path = tmp_path / "a.db"
    shutil.copy(source, path)
    done = damage(path, random.Random(seed))
    for name, read in readers(path, *tasks).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with contextlib.suppress(LogError):
                    read()
            except Exception as error:
                error.add_note(f"{name} of a log after damage(path, Random({seed})): {done}")
                raise


@pytest.mark.parametrize(
    "field",
    ["error", "status", "stage", "config", "costs", "environment", "timings", "program_hash",
     "features", "space_fingerprint", "flop", "number", "run_id", "workload_id"],
)  # fmt: skip
def test_bytes_that_are_no_text_cost_their_row_only(sound, tmp_path, field, capsys):
    source, small, built_in = sound
    path = tmp_path / "a.db"
    shutil.copy(source, path)
    raw = sqlite3.connect(path)
    with raw:
        raw.execute(f"UPDATE trial SET {field} = {UNDECODABLE} WHERE id = 5")
        count = raw.execute("SELECT count(*) FROM trial").fetchone()[0]
    raw.close()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with TuningLog(path) as log:
            assert len(log.trials()) == count - (field != "features")  # a model does without
        for read in readers(path, small, built_in).values():
            read()
        assert build_from_log(built_in, path).entry_name == "matmul"
    assert any("1 broken trial is" in str(w.message) for w in told) == (field != "features")
    assert {w.category for w in told} <= {IgnoredRecordsWarning}


@pytest.mark.parametrize("table", ["workload", "target", "device"])
def test_bytes_that_are_no_text_in_what_a_run_is_of(sound, tmp_path, table, capsys):
    source, small, built_in = sound
    path = tmp_path / "a.db"
    shutil.copy(source, path)
    raw = sqlite3.connect(path)
    with raw:
        raw.execute(f"UPDATE {table} SET data = {UNDECODABLE} WHERE id = 1")
    raw.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for read in readers(path, small, built_in).values():
            with contextlib.suppress(LogError):
                read()
        if table == "workload":  # the other task has one of its own
            assert build_from_log(built_in, path).entry_name == "matmul"


def test_the_message_of_a_damaged_schema_is_shown(sound, tmp_path, capsys):
    path = tmp_path / "a.db"
    data = sound[0].read_bytes()
    # The name of the table, which SQLite quotes, and a word of its description.
    data = data.replace(b"tabletrialtrial", b"table\xff\xfeialtrial")
    path.write_bytes(data.replace(b"CREATE TABLE trial", b"CRXATE TABLE trial"))
    with pytest.raises(LogError, match=r"malformed database schema \(\\xff\\xfeial") as caught:
        TuningLog(path)
    assert "restore a copy" in str(caught.value)
    for command in ("best", "report"):
        assert main([command, str(path)]) == 1
        assert "LogError: open log" in capsys.readouterr().err


@pytest.mark.parametrize("field", ["config", "costs", "workload_id", "space_fingerprint"])
def test_records_that_are_all_broken_are_said_to_be(sound, tmp_path, field):
    source, small, built_in = sound
    path = tmp_path / "a.db"
    shutil.copy(source, path)
    raw = sqlite3.connect(path)
    with raw:
        raw.execute(f"UPDATE trial SET {field} = '[]'")
    raw.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IgnoredRecordsWarning)
        with pytest.raises(LogError, match=r"all \d+ of its records are broken\n.*a copy"):
            best_from_log(built_in, path)
        if field in ("config", "costs"):
            with (
                pytest.warns(UserWarning, match=r"\d+ (of its records are broken|cannot be read)"),
                apply_best(path) as applied,
                small.target,
            ):
                assert applied.resolve(small.workload) is None
