"""tune() and building from a log: what is refused, and the way out that is named."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace

import pytest
from autotune_synthetic import gemm_cost, result, small_cost
from watching_pools import Forbidden, Recorder, tuned

from whet.autotune import best_from_log, build_from_log, create_task
from whet.compiler.errors import ArgumentError, LogError, MeasureError
from whet.db import TuningLog
from whet.db.store.schema import VERSION_TABLE
from whet.measure import MeasureResult
from whet.search_spaces import Template


def test_wrong_arguments_are_refused_with_the_way_out(gemm, tmp_path):
    log = tmp_path / "a.db"
    for trials in (0, -3, 2.5, True, "10"):
        with pytest.raises(ArgumentError, match=r"(?s)trials.*at least 1.*total in the log"):
            tuned(gemm, Forbidden(), log, trials)
    with pytest.raises(ArgumentError, match=r"(?s)sampler='annealing'.*random, grid, .*xgb"):
        tuned(gemm, Forbidden(), log, 10, sampler="annealing")
    with pytest.raises(ArgumentError, match="seed"):
        tuned(gemm, Forbidden(), log, 10, seed=-1)
    with pytest.raises(ArgumentError, match=r"(?s)not a task.*create_task"):
        tuned("matmul", Forbidden(), log, 10)
    with pytest.raises(ArgumentError, match="a dict was given"):
        tuned(gemm, Forbidden(), log, 10, options={"repeat": 3})
    with pytest.raises(ArgumentError, match="a list is not a log"):
        tuned(gemm, Forbidden(), [], 10)
    for workers in ("mars", 0, 1.5, True, object()):
        with pytest.raises(MeasureError, match="workers="):
            tuned(gemm, workers, log, 10)
    assert not log.exists()
    log.write_text("this is not a database")
    with pytest.raises(LogError, match="not a database"):
        tuned(gemm, Forbidden(), log, 10)
    with pytest.raises(LogError, match=r"(?s)no directory.*mkdir"):
        tuned(gemm, Forbidden(), tmp_path / "nowhere" / "a.db", 10)


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_measured(
    gemm, gemm_pool, tmp_path
):
    path = tmp_path / "a.db"
    first = tuned(gemm, gemm_pool, path, 5)
    before = path.read_bytes()
    with TuningLog(path, write=False) as log:
        assert tuned(gemm, Forbidden(), log, 5).best.config == first.best.config  # only reads
        with pytest.raises(LogError, match=r"(?s)tune test/gemm.*opened for reading.*another file"):
            tuned(gemm, Forbidden(), log, 6)
    with sqlite3.connect(path) as raw:
        raw.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    raw.close()
    newer = path.read_bytes()
    assert newer != before
    with pytest.raises(LogError, match=r"made by a newer version of Whet.*9999"):
        tuned(gemm, Forbidden(), path, 6)
    assert path.read_bytes() == newer


def test_a_log_that_has_nothing_to_build_says_what_it_has(gemm, small, gemm_pool, tmp_path):
    log = tmp_path / "a.db"
    with pytest.raises(LogError, match="no such file"):
        build_from_log(gemm, log)
    tuned(gemm, gemm_pool, log, 5)
    with pytest.raises(LogError, match=r"(?s)never tuned there.*test/gemm\(768, 1152, 512\)"):
        build_from_log(small, log)
    other = create_task(gemm.template, gemm.args, target="llvm -num-threads=3")
    with pytest.raises(LogError, match=r"(?s)other targets only.*num_threads=2 instead of 3"):
        build_from_log(other, log)


def test_records_of_another_machine_or_space_are_not_built(small, small_pool, tmp_path):
    log = tmp_path / "a.db"
    tuned(small, small_pool, log, 5, device="cpu-elsewhere")
    with pytest.raises(LogError, match=r"(?s)other machines only \(cpu-elsewhere.*tune it here"):
        build_from_log(small, log)
    found = best_from_log(small, log, device="cpu-elsewhere")  # unless it is asked for
    assert small_cost(found.config) == pytest.approx(found.cost)
    newer = Template(small.name, small.template.func, version=2)
    tuned(replace(small, template=newer), small_pool, tmp_path / "b.db", 5)
    with pytest.raises(LogError, match="another version of its space"):
        build_from_log(small, tmp_path / "b.db")


def test_a_log_of_failures_only_says_so(small, tmp_path):
    log = tmp_path / "a.db"
    with pytest.raises(MeasureError):
        tuned(small, Recorder(lambda config: result(math.inf)), log, 5)
    with pytest.raises(LogError, match="none of its 5 trials worked"):
        build_from_log(small, log)


def test_an_altered_record_is_refused(small, small_pool, tmp_path):
    log = tmp_path / "a.db"
    best = tuned(small, small_pool, log, 5).best.config
    with sqlite3.connect(log) as raw:
        text = str(best.to_json()["choices"][2][2]).replace(" ", "")
        assert raw.execute(
            "UPDATE trial SET config = replace(config, ?, '[3,1]')", (text,)
        ).rowcount
    with pytest.raises(LogError, match=r"(?s)is not in the space.*\(3, 1\).*fresh log"):
        build_from_log(small, log)


@pytest.mark.parametrize("what", ["replaced", "full"])
def test_the_error_that_ended_a_search_is_the_one_that_is_raised(gemm, tmp_path, what):
    """Its run cannot be finished either: that is said beside it."""
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    TuningLog(other).close()

    class Meanwhile(Recorder):
        def collect(self, timeout=None):
            if len(self.submitted) > 10 and what == "replaced" and other.exists():
                other.replace(path)
            if len(self.submitted) > 10 and what == "full":
                # What it has already, and no more.
                limit = "PRAGMA max_page_count = 1"
                log.write("limit the file", lambda c: c.exec_driver_sql(limit))
            return super().collect(timeout)

    def cost(config):
        return MeasureResult("ok", (gemm_cost(config),), environment={"x": "y" * 5000})

    with TuningLog(path, patience=0) as log, pytest.raises(LogError) as caught:
        tuned(gemm, Meanwhile(cost), log, 50)
    said = {"replaced": "was replaced by another", "full": "database or disk is full"}[what]
    assert str(caught.value).startswith("add trial ") and said in str(caught.value)
    notes = getattr(caught.value, "__notes__", [])
    if what == "replaced":
        assert len(notes) == 1 and "the log's run stays as 'running': finish run" in notes[0]
