"""A candidate's changes to its worker are put back, or the worker is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import measure_fakes
import numpy as np
import pytest

from whet.autotune import create_task
from whet.compiler.target import Target
from whet.measure import MeasureInput, MeasureOptions
from whet.measure.stage.retry import Retry
from whet.measure.stage.runner import Measurement
from whet.measure.stage.stages import BuildStage, RunStage
from whet.measure.worker.supervisor import Outcome, Supervisor
from whet.search_spaces import Config, TemplateRef, Workload

FAKES, MISCHIEF = "measure_fakes:", "mischief:"
PATIENT = 60.0  # seconds, for calls that take milliseconds on an idle machine
PUT_BACK = [
    "alarm",
    "handler",
    "mask",
    "compute",
    "whole_namespace",
    "defaults",
    "operator",
    "module",
    "no_module",
    "constant",
    "builtin",
    "passes",
    "register",
    "close_stderr",
    "replace_stdout",
    "close_descriptors",
    "redirect",
    "child",
    "environment",
    "environment_of_c",
    "folder",
    "umask",
    "recursion",
    "path",
    "seeds",
    "numpy_errors",
    "warn",
    "collect",
    "collected",
    "dlopen",
    "huge_pages",
    "set_locale",
    "rounding",
    "logs",
    "trace",
    "outlive",
    "cores",
    "shadow",
    "non_blocking",
]
RENEWED = ["thread", "open_file", "fill", "everything_built_in"]
EITHER = ["limits", "nice"]  # the administrator may put them back


@pytest.fixture(scope="module")
def shared() -> Iterator[Supervisor]:
    supervisor = Supervisor(memory_limit=2 << 30, preload=["mischief"], room=256 << 20)
    yield supervisor
    supervisor.close()


def wait_until(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + PATIENT
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def done(supervisor: Supervisor, function: str, *args: object) -> object:
    outcome = supervisor.call(function, *args, timeout=PATIENT)
    assert outcome.kind == "ok", outcome.error
    return outcome.value


@pytest.mark.parametrize("name", PUT_BACK + RENEWED + EITHER)
def test_the_next_candidate_finds_everything_as_before(shared: Supervisor, name: str) -> None:
    before = done(shared, MISCHIEF + "state")
    pid = done(shared, FAKES + "pid")
    shared.call(MISCHIEF + name, timeout=PATIENT)
    after = done(shared, MISCHIEF + "state")
    assert after == before
    assert name in EITHER or (done(shared, FAKES + "pid") == pid) == (name in PUT_BACK)


def test_who_closes_the_connection_fails_alone(shared: Supervisor) -> None:
    outcome = shared.call(MISCHIEF + "close_everything_else", timeout=PATIENT)
    assert outcome.kind in ("crash", "ok")
    assert done(shared, FAKES + "echo", 7) == 7


@pytest.mark.parametrize("parallel", [False, True])
def test_ordinary_candidates_change_nothing(parallel: bool) -> None:
    """Else each would cost a new worker, or be suspected of what the next one does."""
    options = MeasureOptions(min_repeat_ms=0.1, max_measure_s=0.01)
    target = "llvm -mcpu=x86-64-v2" + " -num-threads=2" * parallel
    build, run = BuildStage(options), RunStage(options, device="isolation")
    workers = [build._workers[0], run._workers[parallel]]
    try:
        for task in (
            create_task("matmul", (33, 40, 48), target),
            create_task("softmax", ((9, 50),), target),
        ):
            space = task.config_space
            points = space.valid_points.sample(np.random.default_rng(3), 3)
            for config in (space.default, *map(space.decode, points)):
                inp = MeasureInput(
                    task.workload, task.target.to_json(), config, task.template.ref()
                )
                built = build.build(inp)
                assert built.status == "ok", built.error
                assert run.run(Measurement(built, options, built)).status == "ok"
        assert [one.starts for one in workers] == [1, 1] or (parallel and not built.parallel)
        assert not any(one._worker is not None and one._worker.touched for one in workers)
    finally:
        build.close()
        run.close()


def test_what_an_import_changes_stays(tmp_path: Path) -> None:
    """A template's module is imported once: what it sets then, all candidates find."""
    (tmp_path / "importing_template.py").write_text(
        textwrap.dedent(
            """
            import sys
            from whet import te
            from whet.search_spaces import get_config, template
            sys.path.append("/somewhere/of/its/own")
            calls, listed = 0, []
            @template("test/importing")
            def importing(n):
                global calls
                get_config().define_knob("k", [1, 2, 3])
                calls += 1
                listed.append(1)
                assert "/somewhere/of/its/own" in sys.path, "an import was undone"
                assert calls == len(listed) <= 2, "another candidate was here"
                a = te.placeholder((n,), name="a")
                b = te.compute((n,), lambda i: a[i] + 1, name="b")
                return te.create_schedule(b.op), [a, b]
            """
        )
    )
    stage = BuildStage(MeasureOptions(), path=[str(tmp_path), *sys.path])
    script = "import importing_template as m; print(m.importing.source_hash, m.importing.version)"
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    digest, version = found.stdout.split()
    ref = TemplateRef("test/importing", int(version), digest, "importing_template", "importing")
    target = Target("llvm -mcpu=x86-64-v2").canonical().to_json()
    try:
        for choice in (1, 2, 3):
            config = Config((("k", choice),), "", ("other",))
            built = stage.build(
                MeasureInput(Workload("test/importing", (32,)), target, config, ref)
            )
            assert built.status == "ok", built.error
        assert stage._workers[0].starts == 1
    finally:
        stage.close()


# --- what a candidate starts ------------------------------------------------------------------


def test_a_daemon_ends_with_the_call_that_started_it(shared: Supervisor) -> None:
    pid = done(shared, MISCHIEF + "daemonise", "98765.5")
    assert isinstance(pid, int)
    assert wait_until(lambda: gone(pid))


@pytest.mark.parametrize("last", ["crash", "hang"])
def test_a_daemon_does_not_outlive_its_worker(tmp_path: Path, last: str) -> None:
    supervisor = Supervisor(preload=["mischief"])
    file = tmp_path / "pid"
    supervisor.call(
        MISCHIEF + "daemonise_and",
        "98765.75",
        str(file),
        last,
        timeout=PATIENT if last == "crash" else 3,
    )
    supervisor.close()
    assert gone(int(file.read_text()))


@pytest.mark.parametrize("with_children", [False, True], ids=["alone", "as-ray-kills-actors"])
def test_a_daemon_does_not_outlive_a_driver_that_is_killed(
    tmp_path: Path, with_children: bool
) -> None:
    file, script, temporary = tmp_path / "pid", tmp_path / "driver.py", tmp_path / "temporary"
    temporary.mkdir()
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            if {with_children}:
                sys.modules["ray"] = sys
            sys.path.insert(0, {str(Path(measure_fakes.__file__).parent)!r})
            from whet.measure.worker.supervisor import Supervisor
            supervisor = Supervisor()
            what = "98765.875", {str(file)!r}, "hang"
            supervisor.call("mischief:daemonise_and", *what, timeout=600)
            """
        )
    )
    driver = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "TMPDIR": str(temporary)}
    )
    assert wait_until(file.exists)
    pid = int(file.read_text())
    assert not gone(pid) and list(temporary.iterdir())
    below = Path(f"/proc/{driver.pid}/task").glob("*/children")
    children = [int(child) for path in below for child in path.read_text().split()]
    assert len(children) == 1
    driver.send_signal(signal.SIGSTOP)  # it sees nothing of it
    for child in children * with_children:
        os.kill(child, signal.SIGKILL)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert wait_until(lambda: gone(pid))
    assert wait_until(lambda: not list(temporary.iterdir())), list(temporary.iterdir())


# --- what no worker sees ------------------------------------------------------------------------


def outcome(earlier: int = 3, kind: str = "ok", touched: bool = False) -> Outcome:
    return Outcome(kind, earlier=earlier, touched=touched)


def test_a_failure_counts_when_a_fresh_worker_has_it_too() -> None:
    second = Retry()
    text = "Traceback\nValueError: 3 is no tile of 0x7f\n--- the worker's output ---\nhm"
    assert not second.is_due(outcome(), "ok", "")
    assert not second.is_due(outcome(), "pruned", "too many threads")
    assert second.is_due(outcome(), "lower_error", text)
    assert not second.is_due(outcome(earlier=0), "lower_error", text)  # so it is its own
    same = text.replace("3", "4")
    assert not second.is_due(outcome(), "lower_error", same)
    assert second.is_due(outcome(), "run_error", same)
    assert second.is_due(outcome(touched=True), "lower_error", same)
    assert not second.is_due(outcome(kind="timeout"), "run_timeout", "killed")
    assert second.is_due(outcome(kind="timeout", touched=True), "run_timeout", "killed")


def test_kinds_of_failures_that_are_tried_again_have_an_end() -> None:
    second = Retry()
    tried = 0
    for kind in "abcdefghijklmnopqrstuvwxyz":
        tried += second.is_due(outcome(), "lower_error", kind)
        second.is_due(outcome(earlier=0), "lower_error", kind)
    assert tried == 16


def test_a_candidate_does_not_fail_for_what_another_one_did() -> None:
    """Nobody sees changes inside of an object: the failure is tried in a fresh worker."""
    stage = BuildStage(MeasureOptions(), function="mischief:suffer_or_spoil")
    try:
        assert stage.build(measure_fakes.candidate("spoil")).status == "ok"
        assert stage.build(measure_fakes.candidate("suffer")).status == "ok"
        assert stage.build(measure_fakes.candidate("lower_error")).status == "lower_error"
    finally:
        stage.close()
