"""The contract of every backend of a log, on SQLite and, where there is one, on PostgreSQL."""

import math
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from db_records import AVX2, AVX512, HERE, MATMUL, SPACE, config, failed, ok, start

from whet.compiler.errors import LogError
from whet.db import TuningLog
from whet.measure.values import MeasureResult
from whet.search_spaces.values import Config, Workload

WRITER = Path(__file__).parent / "db_records.py"


class TestLogContract:
    @pytest.fixture
    def log(self, location):
        with TuningLog(location) as log:
            yield log

    def test_a_trial_comes_back_as_it_went_in(self, log, location):
        run = log.start_run(
            MATMUL, AVX2, HERE, SPACE, "xgb", 2**64 - 1, {"repeat": 3}, {"whet": "0.1"}
        )
        result = MeasureResult(
            "ok",
            (0.1 + 0.2, 1e-300, 1 / 3),
            program_hash="ab" * 32,
            timings={"lower_s": 0.001, "build_s": 0.0125},
            environment={"governor": "performance", "load": [0.5, 1.5], "core": 1},
            timestamp=1766000000.123456,
        )
        log.add_trial(run, 0, config(3), result, flop=2 * 64**3)
        with TuningLog(location) as other:
            (trial,) = other.trials()
            (found,) = other.runs()
        assert (trial.number, trial.run_id, trial.flop) == (0, run, 2 * 64**3)
        assert (trial.workload, trial.target, trial.device) == (MATMUL, AVX2, HERE)
        assert trial.result == result and trial.config == config(3)
        assert trial.config["tile"].size == (8, 8)  # its kinds came along
        assert (found.sampler, found.seed, found.state) == ("xgb", 2**64 - 1, "running")
        assert (found.options, found.versions) == ({"repeat": 3}, {"whet": "0.1"})

    def test_a_failed_trial_keeps_its_whole_error_text(self, log):
        error = "Traceback…\n" + "é\x00\udc80 " * 30_000 + "the end"
        log.add_trial(start(log), 0, config(0), failed("build_error", error))
        (trial,) = log.trials(status="build_error")
        kept = trial.result.error
        assert kept == error.replace("\x00", "\\x00").replace("\udc80", "\\udc80")
        assert trial.cost == math.inf and trial.gflops == 0 and log.trials(status="ok") == []

    def test_what_json_lacks_does_not_lose_a_trial(self, log):
        result = MeasureResult("infra_error", environment={"load": math.nan, 1: {2.5, Path("x")}})
        log.add_trial(start(log), 0, config(0), result)
        (trial,) = log.trials()
        assert trial.result.environment == {"load": None, "1": [2.5, "x"]}

    def test_the_same_trial_twice_is_one_trial(self, log):
        run = start(log)
        for _ in range(2):
            log.add_trial(run, 0, config(1), ok(0.5))
        assert len(log.trials()) == 1
        for other in ((config(2), ok(0.5)), (config(1), ok(0.4)), (config(1), failed())):
            with pytest.raises(LogError, match="another trial has that number"):
                log.add_trial(run, 0, *other)
        (trial,) = log.trials()
        assert (trial.config, trial.result) == (config(1), ok(0.5))

    def test_trials_are_in_order_of_numbers_not_of_arrival(self, log):
        run = start(log)
        for number in (2, 0, 3, 1):
            log.add_trial(run, number, config(number), ok(1.0))
        assert [trial.number for trial in log.trials()] == [0, 1, 2, 3]

    def test_filters(self, log):
        small = Workload("matmul", (8, 8, 8, "float32"))
        tasks = [(MATMUL, AVX2, HERE, SPACE), (small, AVX2, HERE, SPACE)]
        tasks += [(MATMUL, AVX512, HERE, SPACE), (MATMUL, AVX2, "cpu-other", SPACE)]
        tasks += [(MATMUL, AVX2, HERE, "another")]
        for task in tasks:
            log.add_trial(start(log, *task), 0, config(0, task[3]), ok(1.0))
        assert len(log.trials()) == 5
        assert len(log.trials(MATMUL)) == 4 and len(log.trials(small)) == 1
        assert len(log.trials(target=AVX512)) == 1 and len(log.trials(device=HERE)) == 4
        assert len(log.trials(MATMUL, AVX2, "cpu-here", SPACE)) == 1
        assert log.trials(Workload("matmul", (9,))) == [] == log.trials(device="nobody's")
        assert log.workloads() == [MATMUL, small]
        assert log.devices() == [HERE, "cpu-other"]

    def test_best_is_the_fastest_success_and_the_first_of_equals(self, log):
        run = start(log)
        results = [ok(3.0), failed(), ok(1.0, 2.0, 9.0), ok(2.0), ok(2.5, 2.5)]
        for number, result in enumerate(results):
            log.add_trial(run, number, config(number), result)
        best = log.best(MATMUL, AVX2, HERE)
        assert best is not None and (best.number, best.cost) == (2, 2.0)

    def test_the_interleaved_last_measurement_decides(self, log):
        def run(sampler, costs, state="finished", space=SPACE):
            run = log.start_run(MATMUL, AVX2, HERE, space, sampler)
            for number, cost in costs.items():
                result = ok(cost, cost) if cost else failed()
                log.add_trial(run, number, config(number, space), result)
            if state != "running":
                log.finish_run(run, state)
            return run

        def best():
            found = log.best(MATMUL, AVX2, HERE, SPACE)
            return found.run_id, found.number

        first = run("xgb", {0: 4.0, 1: 1.0, 2: 2.0, 3: None})
        assert best() == (first, 1)
        run("finalists", {0: 4.0, 1: 0.5}, "running")  # killed before its end: decides nothing
        assert best() == (first, 1)
        finals = run("finalists", {0: 4.0, 1: 3.0, 2: 2.5})
        assert best() == (finals, 2)  # number 1 was lucky once
        run("xgb", {4: 2.6})
        assert best() == (finals, 2)
        later = run("xgb", {5: 2.4, 6: None}, "running")
        assert best() == (later, 5)
        final = run("finalists", {0: 3.0, 2: 3.5, 5: 3.0})
        assert best() == (final, 0)  # the default wins a tie
        other = run("xgb", {0: 2.9}, space="other")
        assert best() == (final, 0)
        assert log.best(MATMUL, AVX2, HERE).run_id == other  # of any space: the cheaper of both
        of_space = {task.fingerprint: task for task in log.summary()}
        assert (of_space[SPACE].trials, of_space[SPACE].succeeded) == (7, 5)
        assert of_space[SPACE].best == log.best(MATMUL, AVX2, HERE, SPACE)

    def test_what_a_search_measured_after_anothers_finalists_counts(self, log, tmp_path):
        def measured(run, number, cost, when):
            log.add_trial(run, number, config(number), ok(cost, timestamp=when))

        first, second = start(log), start(log)
        measured(first, 0, 4.0, 100.0)
        measured(second, 1, 1.0, 101.0)  # lucky: it is one of the finalists
        log.finish_run(first)
        finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
        measured(finals, 0, 4.0, 110.0)
        measured(finals, 1, 3.0, 111.0)
        log.finish_run(finals)
        assert log.best(MATMUL, AVX2, HERE).run_id == finals
        measured(second, 2, 3.5, 120.0)
        assert log.best(MATMUL, AVX2, HERE).run_id == finals  # it is no faster
        measured(second, 3, 2.0, 121.0)  # and is killed: nobody measures its finalists
        best = log.best(MATMUL, AVX2, HERE)
        assert (best.run_id, best.number) == (second, 3)
        assert [task.best for task in log.summary()] == [best]

        log.export_json(tmp_path / "log.json")
        with TuningLog(tmp_path / "copy.db") as copy:
            copy.import_json(tmp_path / "log.json")
            assert copy.best(MATMUL, AVX2, HERE).config == config(3)
        log.finish_run(second, "interrupted")
        assert log.best(MATMUL, AVX2, HERE).config == config(3)
        log.withdraw([best.id], "it does not hold")
        assert log.best(MATMUL, AVX2, HERE).run_id == finals
        third = start(log)
        measured(third, 5, 2.5, 130.0)
        assert log.best(MATMUL, AVX2, HERE).run_id == third

    def test_an_imported_run_is_as_old_as_it_is(self, log, tmp_path):
        with TuningLog(tmp_path / "old.db") as old:
            old.add_trial(start(old), 1, config(1), ok(1.0))
            old.export_json(tmp_path / "old.json")
        finals = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists")
        log.add_trial(finals, 0, config(0), ok(2.0))
        log.finish_run(finals)
        assert log.import_json(tmp_path / "old.json") == 1
        assert log.best(MATMUL, AVX2, HERE).run_id == finals

    def test_best_takes_nothing_of_another_machine_target_or_space(self, log):
        log.add_trial(start(log, device="cpu-other"), 0, config(0), ok(1.0))
        log.add_trial(start(log, target=AVX512), 0, config(1), ok(1.0))
        log.add_trial(start(log, space="old"), 0, config(2, "old"), ok(1.0))
        assert log.best(MATMUL, AVX2, HERE, SPACE) is None
        assert log.best(MATMUL, AVX2) is None  # this machine's
        assert log.best(MATMUL, AVX2, "cpu-other").config == config(0)
        assert log.best(MATMUL, AVX512, HERE).config == config(1)
        assert log.best(MATMUL, AVX2, HERE).config == config(2, "old")

    def test_a_key_of_a_target_is_its_content(self, log):
        log.add_trial(start(log, target=dict(reversed(AVX2.items()))), 0, config(0), ok(1.0))
        assert log.best(MATMUL, AVX2, HERE).number == 0

    def test_known_program(self, log):
        run = start(log)
        results = [failed("run_timeout", program="p"), failed("infra_error", program="p"), failed()]
        for number, result in enumerate(results):
            log.add_trial(run, number, config(number), result)
        assert log.known_program("p", HERE) is None  # it may do better next time
        log.add_trial(run, 3, config(3), failed("wrong_answer", program="p"))
        assert log.known_program("p", HERE).status == "wrong_answer"
        log.add_trial(run, 4, config(4), ok(1.0, program="p"))
        log.add_trial(run, 5, config(5), failed("run_crash", program="p"))
        assert log.known_program("p", HERE).costs == (1.0,)
        assert log.known_program("p", "cpu-other") is None
        assert log.known_program("q", HERE) is None and log.known_program("", HERE) is None

    def test_runs_end(self, log):
        first, second = start(log), start(log)
        log.finish_run(first, "interrupted")
        assert [(run.id, run.state) for run in log.runs()] == [
            (first, "interrupted"),
            (second, "running"),
        ]
        assert log.runs()[0].finished_at >= log.runs()[0].started_at
        with pytest.raises(LogError, match="no such run"):
            log.finish_run(999)

    def test_wrong_trials_are_refused(self, log):
        run = start(log)
        with pytest.raises(LogError, match="no such run"):
            log.add_trial(999, 0, config(0), ok(1.0))
        with pytest.raises(LogError, match="start a run for each version"):
            log.add_trial(run, 0, config(0, "another"), ok(1.0))
        for cost in (math.nan, math.inf, 0.0, -1.0):
            with pytest.raises(LogError, match="finite and above 0"):
                log.add_trial(run, 0, config(0), ok(1.0, cost))
        assert log.trials() == []

    def test_summary(self, log):
        assert log.summary() == []
        run = start(log)
        log.add_trial(run, 0, config(0), ok(2.0), flop=4e9)
        log.add_trial(run, 1, config(1), failed())
        log.add_trial(start(log, Workload("hopeless")), 0, config(0), failed())
        good, bad = log.summary()
        assert (good.trials, good.succeeded, good.best.gflops) == (2, 1, 2.0)
        assert "1/2 trials ok, CPU of the tests (cpu-here)" in str(good)
        assert bad.best is None and "nothing worked" in str(bad)

    def test_export_and_import(self, log, location, tmp_path):
        run = start(log)
        for number, result in enumerate([ok(1 / 3, program="p"), failed(error="à\n")]):
            log.add_trial(run, number, config(number), result, flop=7)
        log.finish_run(run)
        path = tmp_path / "log.json"
        assert log.export_json(path) == 2
        assert log.import_json(path) == 0  # it is all there already
        with TuningLog(tmp_path / "copy.db") as copy:
            start(copy)  # so that the run gets another number there
            assert copy.import_json(path) == 2 and copy.import_json(path) == 0
            moved = copy.runs()[1]
            assert (moved.uid, moved.state) == (log.runs()[0].uid, "finished")
            for mine, theirs in zip(log.trials(), copy.trials(), strict=True):
                assert (mine.config, mine.result, mine.flop) == (
                    theirs.config,
                    theirs.result,
                    theirs.flop,
                )
                assert theirs.run_id == moved.id != mine.run_id

    def test_threads_may_share_a_log(self, log):
        run = start(log)

        def work(first: int) -> None:
            for number in range(first, first + 15):
                log.add_trial(run, number, config(number % 7), ok(1.0))

        threads = [threading.Thread(target=work, args=(15 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [trial.number for trial in log.trials()] == list(range(60))

    def test_processes_that_make_and_write_one_log_at_once_lose_nothing(self, location):
        command = [sys.executable, str(WRITER), location, "60"]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [writer.communicate(timeout=300)[0].split("\n")[:-1] for writer in writers]
        assert [writer.returncode for writer in writers] == [0, 0]
        assert [len(lines) for lines in said] == [60, 60]
        with TuningLog(location) as log:
            there = {f"{trial.run_id} {trial.number}" for trial in log.trials()}
        assert there == {line for lines in said for line in lines} and len(there) == 120

    def test_a_killed_writer_loses_nothing_that_was_acknowledged(self, location):
        acknowledged: set[str] = set()
        for after in (1, 23, 40):
            command = [sys.executable, str(WRITER), location, "100000"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout is not None
                for _ in range(after):
                    acknowledged.add(writer.stdout.readline().strip())
                writer.kill()
                rest = writer.stdout.read().split("\n")
            acknowledged.update(rest[:-1])
        with TuningLog(location) as log:
            trials = log.trials()
            there = {f"{trial.run_id} {trial.number}" for trial in trials}
            assert acknowledged <= there
            # At most one trial of each writer was committed before it could say so.
            assert len(there - acknowledged) <= 3
            assert all(run.state == "running" for run in log.runs())
            if log.place.path is not None:
                check = "PRAGMA integrity_check"
                assert log.read("check", lambda c: c.exec_driver_sql(check).scalar()) == "ok"

    def test_a_long_argument_is_a_workload_like_any_other(self, log):
        long = Workload("einsum", ("ij,jk->ik" * 2000,))
        log.add_trial(start(log, long), 0, Config((), SPACE), ok(1.0))
        assert log.best(long, AVX2, HERE).workload == long
