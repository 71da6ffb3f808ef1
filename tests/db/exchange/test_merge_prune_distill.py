"""Logs put together, cut down and distilled: what stays, what goes, and the best is the same."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys

import pytest
from db_records import AVX2, AVX512, HERE, MATMUL, SPACE, config, failed, ok, start

from whet.compiler.errors import ArgumentError, LogError
from whet.db import TaskKey, TuningLog
from whet.db.exchange import (
    distill_log,
    export_log,
    import_log,
    log_stats,
    merge_logs,
    prune,
    prune_log,
)

FINALS = "finalists"


def finals(log, *costs: tuple[int, float]) -> int:
    """A finished last measurement: numbers of configs, and their seconds."""
    run = log.start_run(MATMUL, AVX2, HERE, SPACE, FINALS, 0)
    for number, cost in costs:
        log.add_trial(run, number, config(number), ok(*[cost] * 6))
    log.finish_run(run)
    return run


def searched(log, *costs: float | None, **task) -> int:
    """A finished search: seconds of each trial, None for a failure."""
    run = start(log, **task)
    for number, cost in enumerate(costs):
        result = failed() if cost is None else ok(cost, cost * 1.1, timestamp=float(number))
        log.add_trial(run, number, config(number), result, flop=64.0)
    log.finish_run(run)
    return run


def records(log) -> list[str]:
    """All that an export says, whatever the order of its runs."""
    path = f"{log.location}.all.jsonl"
    export_log(log, path)
    with open(path) as file:
        return sorted(file)


def withdraw(log, number: int, why: str) -> None:
    raw = sqlite3.connect(log.location)
    with raw:
        raw.execute("UPDATE trial SET withdrawn = ? WHERE number = ?", (why, number))
    raw.close()


def test_a_merge_is_the_import_of_the_exports(tmp_path):
    rng = random.Random(7)
    logs = []
    for name in "abc":
        with TuningLog(tmp_path / f"{name}.db") as log:
            for _ in range(3):
                costs = [rng.choice([None, rng.uniform(0.1, 1.0)]) for _ in range(rng.randrange(6))]
                searched(log, *costs, target=rng.choice([AVX2, AVX512]))
            finals(log, (0, 1.0), (1, 0.5))
            logs.append(log.location)
    withdraw(TuningLog(logs[0], write=False), 1, "it is slow")
    with TuningLog(logs[0], write=False) as a, TuningLog(logs[1]) as b:
        shared = merge_logs(b, [a])  # b overlaps with a now
        assert shared.records == len(a) and shared.runs == 4
    with TuningLog(tmp_path / "merged.db") as merged, TuningLog(tmp_path / "taken.db") as taken:
        sources = [TuningLog(log, write=False) for log in logs]
        both = merge_logs(merged, sources)
        assert both.records == len(merged) and both.runs == len(merged.runs()) == 12
        for source in sources:
            export_log(source, tmp_path / "one.jsonl")
            import_log(taken, tmp_path / "one.jsonl")
        assert records(merged) == records(taken)
        assert any('"withdrawn":"it is slow"' in line for line in records(merged))
        for task in merged.summary():
            key = TaskKey(task.workload, task.target, task.device, task.fingerprint)
            assert merged.counts(key) == taken.counts(key)
            other = taken.best(*vars(key).values())
            assert (other and other.config) == (task.best and task.best.config)
        again = merge_logs(merged, sources)
        assert (again.records, again.runs) == (0, 0)


def test_a_merge_with_itself_or_with_another_trial_of_one_name(tmp_path):
    with TuningLog(tmp_path / "a.db") as a:
        searched(a, 1.0, 2.0)
        with pytest.raises(LogError, match="that is the same log"):
            merge_logs(a, [TuningLog(tmp_path / "a.db", write=False)])
        export_log(a, tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().replace('"costs":[2.0,2.2]', '"costs":[3.0,3.0]')
    (tmp_path / "b.jsonl").write_text(lines)
    with TuningLog(tmp_path / "b.db") as b, TuningLog(tmp_path / "c.db") as c:
        import_log(b, tmp_path / "b.jsonl")
        searched(b, 7.0)
        merge_logs(c, [a])
        before = records(c)
        with pytest.raises(LogError, match="another trial has that number"):
            merge_logs(c, [b])
        assert records(c) == before  # all of a log, or nothing


def test_what_told_says_crosses_logs_only_where_it_means_something(tmp_path):
    from whet.db import TrialEntry

    with TuningLog(tmp_path / "a.db") as a:
        run = start(a)
        for number, told in enumerate(((), (0,), (1, "t9"))):
            a.add_trials([TrialEntry(run, number, config(number), ok(1.0), told=told)])
        with TuningLog(tmp_path / "b.db") as b:
            merge_logs(b, [a])
            points, _ = b.news(TaskKey(MATMUL, AVX2, HERE, SPACE))
    assert [point.told for point in points] == [(), (0,), None]


@pytest.fixture
def grown(tmp_path):
    """A log with an old search, its last measurement, a newer search, and another task."""
    with TuningLog(tmp_path / "whet.db") as log:
        searched(log, 1.0, 0.3, None, 0.9, 0.8, 0.7)
        finals(log, (0, 1.0), (1, 0.5))
        searched(log, 1.0, *[0.9] * 5)
        searched(log, 5.0, 4.0, 3.0, target=AVX512)
        yield log


def best_of(log):
    return [(t.workload, t.target, t.best.config, t.best.cost) for t in log.summary()]


def test_prune_keeps_what_decides_and_counts_again(grown, tmp_path):
    before, size = best_of(grown), len(grown)
    planned = prune_log(grown, 2, only_count=True)
    assert len(grown) == size
    pruned = prune_log(grown, 2)
    assert (planned.trials, planned.runs, planned.kept) == (
        pruned.trials,
        pruned.runs,
        pruned.kept,
    )
    assert len(grown) == pruned.kept == size - pruned.trials and pruned.trials > 5
    assert best_of(grown) == before
    left = {(t.run_id, t.number) for t in grown.trials()}
    assert {(2, 0), (2, 1)} <= left  # the last measurement
    assert {(1, 0), (3, 0), (4, 0)} <= left  # the defaults
    assert {(3, 4), (3, 5), (4, 1), (4, 2)} <= left  # the newest two of each task
    assert (1, 2) not in left and (3, 1) not in left
    assert pruned.after <= pruned.before and pruned.backup is not None
    with TuningLog(pruned.backup, write=False) as copy:
        assert len(copy) == size
    for task in grown.summary():
        key = TaskKey(task.workload, task.target, task.device, task.fingerprint)
        own = grown.trials(task.workload, task.target, task.device)
        configs = {t.config for t in own if t.run_id != 2}
        assert grown.counts(key).trials == len(configs)
    assert prune_log(grown, 2, only_count=True).trials == 0


def test_prune_drops_searches_of_which_nothing_is_left(tmp_path):
    with TuningLog(tmp_path / "whet.db") as log:
        run = start(log)
        log.add_trials([(run, n, config(n), ok(1.0 + n), 0.0, "") for n in (3, 4)])
        searched(log, 0.5, 0.6)
        pruned = prune_log(log, 0, backup=False)
        assert (pruned.trials, pruned.runs, pruned.backup) == (3, 1, None)
        assert [r.id for r in log.runs()] == [2] and log.best(MATMUL, AVX2, HERE).cost < 0.6


def test_prune_refuses_a_log_on_which_a_search_is_alive(grown, tmp_path):
    size = len(grown)
    with (
        grown.open_session({"of": "test"}),
        pytest.raises(LogError, match=f"a search is running on it: process {os.getpid()}"),
    ):
        prune_log(grown, 0)
    assert len(grown) == size and not list(tmp_path.glob("*.bak"))
    dead = "log.open_session({}); os._exit(1)"
    program = (
        f"import os\nfrom whet.db import TuningLog\nlog = TuningLog({grown.location!r})\n{dead}"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 1
    assert log_stats(grown).sessions == 0  # of this machine: it is seen to be gone
    assert prune_log(grown, 0).trials > 0


def test_prune_watches_a_search_of_another_machine(grown, monkeypatch):
    monkeypatch.setattr(prune, "LOOK_S", 0.01)
    monkeypatch.setattr(prune, "WATCH_S", 0.3)
    session = "INSERT INTO session (uid, host, boot, pid, pid_started, label, beat, state) VALUES "
    raw = sqlite3.connect(grown.location)
    with raw:
        raw.execute(f"{session} ('u', 'far', 'another boot', 1, '1', '{{}}', 1, 'running')")
    said: list[str] = []

    def beat(line: str) -> None:
        said.append(line)
        with raw:
            raw.execute("UPDATE session SET beat = beat + 1")

    with pytest.raises(LogError, match="process 1 of far"):
        prune_log(grown, 0, say=beat)
    assert "a search of far may be running" in said[0]
    assert prune_log(grown, 0).trials > 0  # nobody beats
    raw.close()


def test_wrong_numbers_of_prune(grown):
    for newest in (-1, 1.5, True, "7"):
        with pytest.raises(ArgumentError, match="must be an integer, at least 0"):
            prune_log(grown, newest)


def test_a_distilled_log_gives_the_same_and_is_small(grown, tmp_path):
    with TuningLog(tmp_path / "small.db") as small:
        taken = distill_log(grown, small)
        assert best_of(small) == best_of(grown)
        assert (taken.trials, taken.finals) == (2, 2)  # AVX512: best and default
        assert {(t.run_id, t.number) for t in small.trials(target=AVX512)} == {(2, 0), (2, 2)}
        assert small.best(MATMUL, AVX2, HERE).compared
        assert [run.uid for run in small.runs()] == [grown.runs()[1].uid, grown.runs()[3].uid]
        with pytest.raises(LogError, match="holds trials already"):
            distill_log(grown, small)


def test_a_newer_best_is_distilled_beside_its_last_measurement(grown, tmp_path):
    run = start(grown)
    grown.add_trial(run, 9, config(5), ok(0.1))
    with TuningLog(tmp_path / "small.db") as small:
        distill_log(grown, small)
        assert small.best(MATMUL, AVX2, HERE).cost == 0.1
        assert best_of(small) == best_of(grown)


def test_nothing_to_distill(tmp_path):
    with TuningLog(tmp_path / "a.db") as log, TuningLog(tmp_path / "b.db") as small:
        searched(log, None, None)
        with pytest.raises(LogError, match="nothing in it worked"):
            distill_log(log, small)


def test_the_numbers_of_a_log(grown):
    stats = log_stats(grown)
    assert (stats.tasks, stats.workloads, stats.targets, stats.devices) == (2, 1, 2, 1)
    assert stats.trials == 15 and stats.finals == 2 and stats.statuses["run_crash"] == 1
    assert stats.searches == {"finished": 3} and stats.configs == 9 and stats.succeeded == 9
    assert stats.sessions == 0 and stats.size == os.path.getsize(grown.location)
    json.dumps(vars(stats))


def test_an_export_says_both_counts(grown, tmp_path):
    written = export_log(grown, tmp_path / "x.jsonl")
    assert (written.runs, written.trials, written.finals) == (4, 15, 2)
    assert str(written) == "15 trials and 2 results of last measurements in 4 runs"
    with pytest.raises(LogError, match="that is the log itself"):
        export_log(grown, grown.location)
