"""Import, merge, prune, distill and numbers on SQLite and on PostgreSQL: the same records."""

from __future__ import annotations

import pytest
from db_records import AVX2, AVX512, HERE, MATMUL, SPACE, config, failed, ok, start

from whet.compiler.errors import LogError
from whet.db import TaskKey, TrialEntry, TuningLog
from whet.db.exchange import (
    distill_log,
    export_log,
    import_log,
    log_stats,
    merge_logs,
    prune_log,
)


@pytest.fixture
def source(tmp_path):
    """A file with two searches and a last measurement; one config no longer holds."""
    with TuningLog(tmp_path / "source.db") as log:
        for target in (AVX2, AVX512):
            run = start(log, target=target)
            for number in range(6):
                result = failed() if number == 3 else ok(1.0 / (1 + number), 1.0)
                told = tuple(range(number))[-1:]
                log.add_trials([TrialEntry(run, number, config(number), result, 8.0, "", told)])
            log.finish_run(run)
        run = log.start_run(MATMUL, AVX2, HERE, SPACE, "finalists", 0)
        log.add_trials([(run, n, config(n), ok(*[1.0 / (1 + n)] * 6), 8.0, "") for n in (0, 4, 5)])
        log.finish_run(run)
        worst = next(t for t in log.trials(target=AVX512) if t.number == 5)
        assert log.withdraw([worst.id], "it is wrong") == 1
        yield log


def lines(log, path):
    export_log(log, path)
    return sorted(path.read_text().splitlines())


def bests_of(log):
    return {t.target["mcpu"]: t.best.config for t in log.summary()}


def test_what_one_database_holds_the_other_does_too(location, source, tmp_path):
    export_log(source, tmp_path / "x.jsonl")
    with TuningLog(location) as log:
        taken = import_log(log, tmp_path / "x.jsonl")
        assert (taken.runs, taken.trials, taken.finals) == (3, 12, 3)
        assert lines(log, tmp_path / "a.jsonl") == lines(source, tmp_path / "b.jsonl")
        assert import_log(log, tmp_path / "x.jsonl").records == 0
        assert merge_logs(log, [source]).records == 0
        with TuningLog(tmp_path / "back.db") as back:
            assert merge_logs(back, [log]).records == 15
            assert lines(back, tmp_path / "c.jsonl") == lines(source, tmp_path / "b.jsonl")
            assert back.best(MATMUL, AVX512, HERE).config == config(4)  # 5 was withdrawn
        stats = log_stats(log)
        assert (stats.trials, stats.finals, stats.withdrawn, stats.configs) == (12, 3, 1, 12)
        assert log.counts(TaskKey(MATMUL, AVX2, HERE, SPACE)).failed == 1


def test_a_file_is_taken_wholly_or_not_at_all(location, source, tmp_path):
    path = tmp_path / "x.jsonl"
    export_log(source, path)
    texts = path.read_text().splitlines()
    twice = texts[2].replace('"costs":[0.5,1.0]', '"costs":[7.0]')
    assert twice != texts[2]
    path.write_text("\n".join([*texts, twice]))
    with TuningLog(location) as log:
        with pytest.raises(LogError, match=f"line {len(texts) + 1}: .*another trial has that"):
            import_log(log, path)
        assert not log.runs() and not len(log)
        taken = import_log(log, path, skip_broken=True)
        assert (taken.records, len(taken.skipped)) == (15, 1)
        assert lines(log, tmp_path / "a.jsonl") == lines(source, tmp_path / "b.jsonl")


def test_prune_and_distill(location, source, tmp_path):
    with TuningLog(location) as log:
        merge_logs(log, [source])
        bests = bests_of(log)
        with TuningLog(tmp_path / "small.db") as small:
            distill_log(log, small)
            assert bests_of(small) == bests
        pruned = prune_log(log, 1)
        assert pruned.trials == 7 and (pruned.backup is None) == (log.place.path is None)
        assert bests_of(log) == bests
        assert log_stats(log).configs == 5 and prune_log(log, 1).trials == 0


def test_an_error_about_a_record_names_the_log(location):
    with TuningLog(location) as log:
        run = start(log)
        log.add_trial(run, 0, config(0), ok(1.0))
        for request in (
            lambda: log.add_trial(run, 0, config(1), ok(1.0)),
            lambda: log.add_trial(run, 1, config(1, "another"), ok(1.0)),
            lambda: log.add_trial(7, 0, config(0), ok(1.0)),
            lambda: log.finish_run(7),
        ):
            with pytest.raises(LogError) as caught:
                request()
            assert str(caught.value).count(log.location) == 1
