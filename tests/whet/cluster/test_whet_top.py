"""`whet top`: a log's searches as they are now, and a cluster of which the state is made up."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time

import pytest
from db_records import AVX512, HERE, MATMUL, config, failed, ok, start

from whet.cli import main
from whet.commands import top
from whet.db import TuningLog
from whet.db.live import MOST_S, LiveReader, rates_of
from whet.measure.cluster.announce import Announced, name
from whet.measure.cluster.check import Versions
from whet.measure.cluster.reader import Cluster
from whet.search_spaces.values import Workload


@pytest.fixture
def log(tmp_path):
    with TuningLog(tmp_path / "whet.db") as log:
        yield log


def search(log, session, workload=MATMUL, target=AVX512, every=0.5):
    """Four trials, one of which failed, and two claims of a search that is under way."""
    run = start(log, workload, target)
    for number in range(4):
        session.reserve(run, number, config(number))
        result = failed() if number == 3 else ok(1e-3 * (number + 1))
        object.__setattr__(result, "timestamp", 1000.0 + every * number)
        log.add_trial(run, number, config(number), result)
    for number in (4, 5):
        session.reserve(run, number, config(number))


def test_a_log_that_is_searched_shows_who_how_fast_and_the_best(log):
    reader = LiveReader(log)
    with log.open_session({"task": "matmul", "sampler": "xgb"}) as session:
        search(log, session)
        live = reader.read()
        (one,), (task,) = live.sessions, live.tasks
        assert (one.host, one.pid) == (socket.gethostname(), os.getpid())
        assert (one.in_flight, one.rate, one.label["sampler"]) == (2, 2.0, "xgb")
        assert (task.trials, task.failed, task.in_flight) == (4, 1, 2)
        assert (task.best, task.rate, task.workload) == (1e-3, 2.0, MATMUL)
        assert (live.trials, live.failures, live.newest) == (4, {"run_crash": 1}, 4)
    live = reader.read()
    assert not live.sessions and live.tasks[0].rate == 0.0 and live.tasks[0].in_flight == 0


def test_two_searches_of_one_task_are_two_lines_and_one_task(log):
    with log.open_session({}) as a, log.open_session({}) as b:
        search(log, a)
        other = start(log, MATMUL, AVX512)
        assert b.reserve(other, 0, config(6))
        live = LiveReader(log).read()
        assert [s.in_flight for s in live.sessions] == [2, 1]
        assert [t.in_flight for t in live.tasks] == [3]


def test_tasks_that_are_searched_come_first(log):
    names = [Workload(name, (1,)) for name in ("one", "two", "three")]
    with log.open_session({}) as session:
        for workload in names:
            start(log, workload)
        search(log, session, names[0])
        assert LiveReader(log).read().tasks[0].workload == names[0]


def test_a_search_is_shown_by_the_names_of_its_tasks(log, capsys):
    label = {
        "tasks": ["8c4d4e6b"],
        "names": ["matmul(8, 8, 8)", "b"],
        "sampler": "xgb",
        "trials": 9,
    }
    with log.open_session(label):
        assert main(["top", log.location, "--once"]) == 0
    said = capsys.readouterr().out
    assert "matmul(8, 8, 8), b, xgb, 9" in said and "8c4d4e6b" not in said


def test_an_empty_log_has_nothing_to_show(log):
    live = LiveReader(log).read()
    assert not live.sessions and not live.tasks and live.trials == 0


def test_rates_are_of_the_last_minute_of_each_run():
    old = [(1, when) for when in (0.0, 1.0)]
    new = [(1, 1000.0 + when) for when in range(11)]
    assert rates_of(old + new + [(2, 5.0), (3, "broken"), (4, 1.0), (4, 1.0 + MOST_S)]) == {
        1: 1.0,
        2: 0.0,
        4: 1 / MOST_S,
    }


def test_once_prints_a_log_without_ray(log, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("COLUMNS", "40")
    with log.open_session({"task": "matmul"}) as session:
        search(log, session)
        assert main(["top", str(log.location), "--once"]) == 0
    text = capsys.readouterr().out
    for words in (str(os.getpid()), "1 search, 4 trials, 2/s, 2 in flight", "1 ms", "1 run_crash"):
        assert words in text
    assert str(MATMUL)[:20] in text and HERE["fingerprint"] in text


def test_it_goes_on_until_ctrl_c(log, tmp_path):
    """On a terminal of its own: a trial that is added while it runs is seen."""
    command = [sys.executable, "-m", "whet.cli", "top", str(log.location), "--every", "50ms"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "160", "LINES": "40"}
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment) as shown:
        os.close(theirs)
        text = read_until(ours, "0 trials")
        assert "0 searches, 0 trials" in text
        with log.open_session({}) as session:
            search(log, session)
            assert "1 search, 4 trials" in read_until(ours, "4 trials, 2/s")
        read_until(ours, "0 searches, 4 trials")
        shown.send_signal(signal.SIGINT)
        assert shown.wait(30) == 130
    os.close(ours)


def read_until(terminal, words, seconds=60.0):
    """What a terminal shows, up to some words."""
    text, end = "", time.monotonic() + seconds
    while words not in text:
        assert select.select([terminal], [], [], end - time.monotonic())[0], text
        text += os.read(terminal, 1 << 16).decode(errors="replace")
    return text


def test_a_log_that_is_not_there_is_said_to_be(tmp_path, capsys):
    assert main(["top", str(tmp_path / "none.db"), "--once"]) == 1
    assert "none.db" in capsys.readouterr().err


def test_nobody_at_a_clusters_address_is_said_to_be(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        place = f"ray://127.0.0.1:{taken.getsockname()[1]}"
        assert main(["top", place, "--once"]) == 1
    said = capsys.readouterr().err
    assert "nobody answers there" in said and "--listen" in said


def node(host, kind="cpu-1", free=1, leaving=False, **labels):
    devices = [Announced(kind, host, numa, (numa,)) for numa in (0, 1)]
    resources = {name(device): 1.0 for device in devices}
    return {
        "id": host,
        "host": host,
        "address": "10.0.0.1",
        "leaving": leaving,
        "labels": Versions("0.1.0", "aa", "3.11.7", "2.60.0").labels() | labels,
        "resources": resources | {"CPU": 4.0, "memory": 1e9},
        "free": {name(devices[0]): float(free), "CPU": 3.0},
    }


def test_a_cluster_shows_its_devices_and_who_leaves():
    from rich.console import Console

    head = node("a")
    head["resources"]["node:__internal_head__"] = 1.0
    data = {"ray": "2.60.0", "python": "3.11.7"}
    data["nodes"] = [head, node("b", leaving=True), node("c", **{"whet/code": "bb"})]
    cluster = Cluster.of_snapshot(data)
    assert cluster.head == Versions("0.1.0", "aa", "3.11.7", "2.60.0")
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(*top.of_cluster("ray://a:10001", cluster), sep="\n")
    text = console.export_text()
    assert "3 nodes, 6 devices, 3 at work; Whet 0.1.0, Ray 2.60.0" in text
    lines = {
        line.split()[0]: line for line in text.splitlines() if line.startswith(("a ", "b ", "c "))
    }
    assert "cpu-1" in lines["a"] and "0 (NUMA 0)" in lines["a"] and "ready" in lines["a"]
    assert "0/1" in lines["a"] and "1/4" in lines["a"]
    assert "leaving" in lines["b"] and "(bb)" in lines["c"]


def test_a_cluster_alone_shows_its_searches():
    from rich.console import Console

    names = [
        "whet build 0 @a for cpu-1 (4711.0a1b.5)",
        "whet measure cpu-1 0 @a for cpu-1 (4711.0a1b.6)",
        "whet measure cpu-1 1 @a for cpu-1 (4711.0a1b.7)",
        "whet measure cpu-1 1 @b for cpu-1,cpu-2 (12.0a0b.1)",
        "somebody's own actor",
    ]
    data = {"ray": "2.60.0", "python": "3.11.7", "nodes": [node("a")], "actors": names}
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(*top.of_cluster("a:6379", Cluster.of_snapshot(data)), sep="\n")
    words = [line.split() for line in console.export_text().splitlines()]
    assert words.index(["12", "1", "0", "cpu-1,", "cpu-2"]) + 1 == words.index(
        ["4711", "2", "1", "cpu-1"]
    )


def test_words_of_a_log_are_text_and_neither_markup_nor_commands_to_a_terminal(log, capsys):
    hostile = Workload("mm[/x]\x1b]0;title\x07", ("[red]",))
    with log.open_session({"task": "[/red]\x1b[2J"}) as session:
        search(log, session, hostile)
        assert main(["top", str(log.location), "--once"]) == 0
    text = capsys.readouterr().out
    assert "mm[/x]" in text and "[red]" in text and "[/red]" in text
    assert "\x1b]" not in text and "\x1b[2J" not in text and "\x07" not in text


@pytest.mark.parametrize("every", ["0", "1e400", "-1", "0.01s"])
def test_looks_have_a_pause_between_them(log, every, capsys):
    assert main(["top", str(log.location), "--once", f"--every={every}"]) == 2
    assert every in capsys.readouterr().err
