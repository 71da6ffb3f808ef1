"""apply_best as a context: nested, with several logs, in threads, and while a log changes."""

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from apply_logs import record, said, scale_task, tiled

import whet
from whet.compiler.errors import ArgumentError, LogError
from whet.db import TuningLog
from whet.search_spaces import using_config, using_resolver
from whet.search_spaces.template.config_scope import resolvers_in_force


def by(task):
    """What a task's kernel is tuned by now."""
    return whet.build(task).tuned_by


def test_the_inner_context_comes_first_then_the_outer(logs, task):
    a, b = logs
    other = scale_task(32)
    record(a, task, tiled(task, 4), 1e-6)
    record(a, other, tiled(other, 4), 1e-6)
    record(b, task, tiled(task, 16), 2e-6)
    with whet.apply_best(a):
        assert by(task).log == a.location
        with whet.apply_best(b):
            assert by(task).log == b.location and by(other).log == a.location
        assert by(task).log == a.location
    assert by(task) is None and resolvers_in_force() == ()


def test_an_exact_record_outside_comes_before_a_near_one_inside(logs, task):
    a, b = logs
    near = scale_task(128)
    record(a, task, tiled(task, 4), 1e-6)
    record(b, near, tiled(near, 16), 1e-6)
    with whet.apply_best(a), whet.apply_best(b, fallback="shape"):
        assert (by(task).how, by(task).log) == ("exact", a.location)
    with said(), whet.apply_best(b, fallback="shape"), whet.apply_best(a):
        found = by(scale_task(96))  # each context goes as far as it says itself
    assert (found.how, found.workload, found.log) == ("shape", str(near.workload), b.location)


def test_what_neither_has_is_said_once_by_the_inner_one(logs, task):
    a, b = logs
    with said() as texts, whet.apply_best(a), whet.apply_best(b):
        assert by(task).how == "default" and by(task).log == b.location
    assert texts[0].startswith(f"apply_best({b.location!r}): 1 workload has no record")
    with said() as texts, whet.apply_best(a):
        with whet.apply_best(b):
            pass
        by(task)
    assert texts[0].startswith(f"apply_best({a.location!r})")


def test_resolvers_of_ones_own_stand_in_the_same_row(logs, task):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    mine = tiled(task, 32)
    with whet.apply_best(a), using_resolver(lambda w: mine):
        assert whet.build(task).tuned_by is None
        with using_resolver(lambda w: None):
            assert by(task) is None
    with whet.apply_best(a), using_resolver(lambda w: None):
        assert by(task).how == "exact"
    with using_resolver(lambda w: mine), said(), whet.apply_best(a):
        assert by(task).how == "exact"
    with whet.apply_best(a), using_config(mine):  # a config that is given wins
        assert by(task) is None


def test_several_logs_are_asked_in_their_order(logs, task):
    a, b = logs
    other = scale_task(32)
    record(a, task, tiled(task, 4), 2e-6, device="cpu-big")
    record(b, task, tiled(task, 16), 3e-6)
    record(b, other, tiled(other, 4), 1e-6)
    for given in ((a, b), (a.location, b), (a, b.location)):
        with whet.apply_best(*given):
            assert by(task).log == b.location and by(other).log == b.location
    record(a, task, tiled(task, 8), 9e-6)
    with whet.apply_best(a, b, fallback="shape"):  # the first, though it is the dearer one
        assert (by(task).log, by(task).cost) == (a.location, 9e-6)
    with whet.apply_best(b, a):
        assert by(task).log == b.location
    with said() as texts, whet.apply_best(a, b):
        by(scale_task(16))
    assert texts[0].startswith(f"apply_best({a.location!r}, {b.location!r}): 1 workload has")
    assert "the log holds: " in texts[0]


def test_logs_that_are_none(logs, tmp_path, task):
    a, _ = logs
    with pytest.raises(ArgumentError, match=r"no log is named"):
        whet.apply_best()
    with pytest.raises(ArgumentError, match=r"a list is not a log"), whet.apply_best([a]):
        pass
    with (
        pytest.raises(LogError, match="no such file"),
        whet.apply_best(a.location, tmp_path / "no.db"),
    ):
        pass
    assert resolvers_in_force() == ()
    with (
        pytest.raises(LogError, match=r"the logs have nothing of that machine\n  machines in them"),
        whet.apply_best(*logs, device="cpu-elsewhere"),
    ):
        pass
    assert resolvers_in_force() == ()


def test_a_thread_has_none_unless_it_runs_in_a_copy_of_the_context(logs, task):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    with whet.apply_best(a) as applied, ThreadPoolExecutor(1) as pool:
        assert pool.submit(by, task).result(60) is None
        with pytest.raises(LogError, match="not in force in this thread"):
            pool.submit(applied.resolve, task.workload).result(60)
        copied = contextvars.copy_context()
        assert pool.submit(copied.run, by, task).result(60).how == "exact"


def test_a_thread_that_outlives_the_with_is_told_so(logs, task):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    with whet.apply_best(a.location):
        copied = contextvars.copy_context()
    with pytest.raises(LogError, match="its `with` has ended"):
        copied.run(by, task)


def test_one_object_in_two_threads_and_twice_in_one(logs, task):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    applied = whet.apply_best(a.location)
    inside, out = threading.Barrier(2, timeout=60), threading.Barrier(2, timeout=60)
    left = threading.Event()

    def use(first):
        with applied:
            inside.wait()  # both have entered
            if first:
                found = by(task)
                out.wait()
            else:
                out.wait()
                assert left.wait(60)  # the other has left: this one goes on
                found = by(task)
        if first:
            left.set()
        return found, resolvers_in_force()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(use, first) for first in (True, False)]:
            found, after = done.result(60)
            assert found.how == "exact" and after == ()
    with applied:
        with applied:
            assert by(task).how == "exact"
        assert by(task).how == "exact"
    with pytest.raises(LogError, match="not in force"):
        applied.resolve(task.workload)


def test_many_threads_of_one_context_choose_once(logs, task, monkeypatch):
    a, _ = logs
    record(a, task, tiled(task, 4), 1e-6)
    asked = []
    best_in = TuningLog.best_in
    monkeypatch.setattr(
        TuningLog, "best_in", lambda self, *args: asked.append(1) or best_in(self, *args)
    )
    with whet.apply_best(a) as applied, ThreadPoolExecutor(8) as pool, task.target:
        copies = [contextvars.copy_context() for _ in range(64)]
        found = [pool.submit(c.run, applied.resolve, task.workload) for c in copies]
        assert {f.result(60) for f in found} == {tiled(task, 4)}
    assert len(asked) == 1


def test_a_choice_holds_while_the_log_changes(logs, task):
    """One build context, one program: another search's better record counts the next time."""
    a, _ = logs
    other = scale_task(32)
    record(a, task, tiled(task, 4), 2e-6)
    with said() as texts, whet.apply_best(a.location):
        first = by(task)
        assert by(other).how == "default"
        with TuningLog(a.location) as writer:
            record(writer, task, tiled(task, 16), 1e-6)
            record(writer, other, tiled(other, 4), 1e-6)
            new = scale_task(16)
            record(writer, new, tiled(new, 4), 1e-6)
        assert by(task) == first and by(other).how == "default"
        assert by(new).how == "exact"  # what was not chosen yet is read now
        with whet.apply_best(a.location):
            assert by(task).cost == 1e-6 and by(other).how == "exact"
        assert by(task) == first
    assert "apply_scale(32, 64): it was never tuned there" in texts[0]
    with whet.apply_best(a.location):
        assert by(task).cost == 1e-6 and by(other).how == "exact"


def test_targets_are_chosen_for_apart(logs):
    a, _ = logs
    one, two = scale_task(), scale_task(target="llvm -num_threads=1 -mcpu=x86-64-v3")
    record(a, one, tiled(one, 4), 1e-6)
    record(a, two, tiled(two, 16), 1e-6)
    with whet.apply_best(a) as applied:
        for _ in range(2):
            for task, inner in ((one, 4), (two, 16)):
                with task.target:
                    assert applied.resolve(task.workload) == tiled(task, inner)
        with whet.Target("llvm -num_threads=1"):  # not canonical, and the same
            assert applied.resolve(one.workload) == tiled(one, 4)


def test_an_altered_record_does_not_stay_in_force(logs, task):
    a, _ = logs
    config = tiled(task, 4)
    forged = type(config)((("tile", (5, 7)), *config.choices[1:]), config.fingerprint, config.kinds)
    record(a, task, forged, 1e-6)
    with pytest.raises(LogError, match="is not in the space"), whet.apply_best(a):
        by(task)
    assert resolvers_in_force() == ()
