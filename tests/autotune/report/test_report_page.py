"""The report as a page: complete, escaped, the same for the same log, and honest about gaps."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from autotune_kernels import matmul
from report_logs import (
    BEGAN,
    MACHINE,
    configs,
    failed,
    gemm_result,
    gemm_task,
    ok,
    settle,
    write_search,
)

from whet.autotune import create_task
from whet.autotune.report import report, write_report
from whet.autotune.report.charts import Room
from whet.autotune.report.page import _task
from whet.autotune.report.style import STYLE
from whet.autotune.results.recorded import TaskTrials, find_tasks, read_task
from whet.compiler import te
from whet.compiler.errors import ArgumentError, LogError
from whet.db import TuningLog
from whet.db.store.vectors import pack
from whet.search_spaces import get_config, template

HEADINGS = (
    "The search", "The last measurement", "The fastest trials", "Cost against knobs",
    "What a cost model learns from these trials", "Failures", "Where the time went", "Noise",
    "The best program", "Runs",
)  # fmt: skip


def tree(page: str) -> ET.Element:
    """The page as XML: every element closed, every text escaped."""
    first, _, rest = page.partition("\n")
    assert first == "<!DOCTYPE html>"
    return ET.fromstring(rest)


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", "".join(tree(page).itertext()))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A search of 80 trials."""
    path = tmp_path_factory.mktemp("report") / "a.db"
    task = gemm_task()
    write_search(path, task, configs(task, 80))
    return path


@pytest.fixture(scope="module")
def page(log):
    """Its report."""
    return report(log)


class Outline(HTMLParser):
    """A page as a browser's parser reads it: elements, attributes, headings."""

    def __init__(self):
        super().__init__()
        self.elements, self.attributes, self.headings, self._open = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self._open = tag

    def handle_data(self, data):
        if self._open in ("h2", "h3"):
            self.headings.append(data)
            self._open = ""


def test_the_page_has_every_part(page):
    outline = Outline()
    outline.feed(page)
    assert outline.headings == ["test/gemm(768, 1152, 512)", *HEADINGS]
    drawings = tree(page).iter("svg")
    said = [svg.attrib["aria-label"] for svg in drawings]
    assert said[0] == "Cost of each trial against trials"
    assert said[1] == "Cost of each trial against time of search"
    assert "Cost against tile_i[2]" in said and "Cost against tile_i[0]" not in said
    assert "Importance of each knob" in said and "Predicted against measured cost" in said
    assert "Where the time of the trials went" in said and "Spread of the repeats" in said


def test_the_page_needs_nothing_from_elsewhere(page):
    outline = Outline()
    outline.feed(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(outline.elements)
    loads = [(t, n, v) for t, n, v in outline.attributes if n in ("src", "href", "srcset", "style")]
    assert all(value.startswith("#") for _, _, value in loads)
    assert "://" not in page and "url(" not in page and "@import" not in page
    policy = [value for tag, _, value in outline.attributes if tag == "meta" and "-src" in value]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_the_same_log_gives_the_same_page(log, page, tmp_path):
    other = tmp_path / "b.db"
    task = gemm_task()
    write_search(other, task, configs(task, 80))
    again = report(other, generated="made on Sunday")
    head = '<p class="soft">made on Sunday</p>'
    assert head in again
    assert again.replace(str(other), str(log)).replace(head, "") == page


def test_the_summary_says_what_was_found(log, page):
    text = text_of(page)
    with TuningLog(log, write=False) as opened:
        best = opened.summary()[0].best
        failures = [t for t in opened.trials() if not t.result.ok]
    assert f"{best.gflops:.1f} GFLOP/s, {best.gflops / 100:.0%} of one core's FMA peak" in text
    assert f"80 trials, {len(failures)} failed" in text and len(failures) > 5
    assert str(best.config) in text and "Testing CPU (cpu-0123456789ab)" in text
    assert "with 95 % confidence between" in text and "llvm -mcpu=x86-64-v3" in text
    assert "2026-09-21 14:13:20 UTC" in text and '"repeat": 5' in text and "xgb7finished" in text


def test_failures_are_sorted_with_their_texts(page):
    text = text_of(page)
    [count] = re.findall(r"build_error(\d+)\d\d\.\d%", text)  # 17 of 80: 21.2%
    assert f"build_error, {count} like this: no registers left" in text  # numbers do not matter
    assert "Traceback: ..." in text


def test_time_is_taken_from_the_records(log, page):
    text = text_of(page)
    with TuningLog(log, write=False) as opened:
        worked = sum(t.result.ok for t in opened.trials() if t.run_id == 1)
    assert f"runloading, checking and timing{0.3 * worked:.3g} s" in text
    assert f"waitin queues, for a builder or for the measurer{0.1 * worked:.3g} s" in text
    assert "the search took 40 s, 500 ms a trial" in text
    assert f"Kernels ran in {0.3 * worked / 40:.0%} of it" in text


HOSTILE = "</title><script>alert(1)</script>&quot;\"'<svg onload=x> \x00\x1b[31m"


@template("test/hostile<b>")
def hostile(word):
    cfg = get_config()
    cfg.define_knob('<i>knob & "x"', ["</svg><script>1</script>", "b", "'\"><img src=y>"])
    cfg.define_knob("n", [1, 2, 3, 4, 5, 6, 7, 8])
    cfg.add_flop(10)
    return None, []


def test_hostile_text_stays_text(tmp_path):
    path = tmp_path / "<b>a&b.db"
    task = create_task(hostile, (HOSTILE.split(" \x00")[0],), target="llvm")
    device = {"fingerprint": "cpu-<script>", "cpu": HOSTILE}
    space = task.config_space

    def result(config, i):
        return failed("run_error", HOSTILE, i) if i % 3 == 2 else ok(1e-3 * (1 + i), i)

    write_search(path, task, [space.default, *list(space)[1:]], result, device)
    with TuningLog(path) as log:
        log.start_run(task.workload, task.target, device, space.fingerprint, HOSTILE.split()[0],
                      3, {HOSTILE: HOSTILE}, {"v": "<script>"})  # fmt: skip
    page = report(path, generated=HOSTILE)
    root = tree(page)
    used = {element.tag for element in root.iter()}
    assert not {"script", "img", "i", "b"} & used
    assert not [name for element in root.iter() for name in element.attrib if name[:2] == "on"]
    outline = Outline()
    outline.feed(page)
    assert not {"script", "img", "i", "b"} & set(outline.elements)
    text = "".join(root.itertext())
    assert "</title><script>alert(1)</script>" in text and "</svg><script>1</script>" in text
    assert "test/hostile<b>" in text and '<i>knob & "x"' in text and "\\x1b[31m" in text


def test_many_tasks_get_an_index(tmp_path):
    path = tmp_path / "a.db"
    for n in (768, 384, 96):
        write_search(path, gemm_task(n), configs(gemm_task(n), 12))
    root = tree(report(path))
    links = [a.attrib["href"] for a in root.iter("a")]
    assert links == ["#task1", "#task2", "#task3"]
    assert [h.attrib["id"] for h in root.iter("h2")] == ["task1", "task2", "task3"]
    rows = [" ".join(r.itertext()) for r in root.find(".//nav").iter("tr")][1:]
    assert all("12" in row and "GFLOP" not in row and "x" in row for row in rows)
    assert all("compared in turns, 8 repeats, spread 0.3 %" in row for row in rows)
    head = [cell.text for cell in root.find(".//nav").iter("th")]
    assert head[1:6] == ["trials", "failed", "best", "GFLOP/s", "speed-up"]
    # What is long breaks into lines, and pushes no figure off the page.
    assert "nav td { white-space: normal; overflow-wrap: anywhere; }" in STYLE
    said = []
    chosen = report(path, op="test/gemm", args=(384,), say=said.append)
    assert "test/gemm(384, 1152, 512)" in chosen and "test/gemm(768" not in chosen
    assert said == ["1/1  test/gemm(384, 1152, 512)"]
    assert report(path, workload=gemm_task(384).workload) == chosen


def test_what_a_log_does_not_hold_is_said(log, tmp_path):
    with pytest.raises(LogError, match=r"no task of a template 'test/gem'\n.*did you mean 'test/g"):
        report(log, op="test/gem")
    with pytest.raises(LogError, match=r"with these arguments\n  it holds:\n *test/gemm\(768"):
        report(log, op="test/gemm", args=(5,))
    with pytest.raises(LogError, match="no such file"):
        report(tmp_path / "none.db")
    TuningLog(tmp_path / "empty.db").close()
    with pytest.raises(LogError, match=r"holds no trials yet\n.*whet tune --log"):
        report(tmp_path / "empty.db")


def test_nothing_that_worked_is_a_report_too(tmp_path):
    path, task = tmp_path / "a.db", gemm_task()
    write_search(path, task, configs(task, 3), lambda c, i: failed("run_timeout", "", i))
    text = text_of(report(path))
    assert "No trial worked" in text and "run_timeout, 3 like this: (no text)" in text
    assert "speed-upnot known" in text and "best confignone" in text
    assert "it needs at least 20 successes" in text and "nothing worked" in text


@pytest.mark.parametrize("count", [1, 2, 21])
def test_few_trials_are_enough(tmp_path, count):
    path, task = tmp_path / "a.db", gemm_task()
    write_search(path, task, configs(task, count), lambda c, i: ok(1e-3, i), finals=False)
    text = text_of(report(path))  # all cost the same, too
    assert f"{count} trial" in text and "Nothing: it needs" in text
    assert "1.00x, not compared in turns" in text


def test_a_run_without_trials_is_listed(tmp_path):
    path, task = tmp_path / "a.db", gemm_task()
    with TuningLog(path) as log:
        log.start_run(task.workload, task.target, MACHINE, "f", "tpe", 0)
    settle(path)
    text = text_of(report(path))
    assert "1 run of it began, and no trial is recorded" in text and "running, or killed" in text


def test_the_best_program_is_shown_where_the_template_is_known(tmp_path):
    path = tmp_path / "a.db"
    task = create_task(matmul, (8, 6, 16), target="llvm")
    write_search(path, task, configs(task, 8), lambda c, i: ok(1e-3 * (1 + i), i))
    text = text_of(report(path))
    assert "its loops" in text and "for i_outer in range(8)" in text.split("The best program")[1]


def test_a_template_that_changed_or_is_unknown_is_said(log, tmp_path):
    with TuningLog(log, write=False) as opened:
        data = read_task(opened, find_tasks(opened)[0])
    from whet.autotune.report.program import best_program

    other = replace(data, task=replace(data.task, fingerprint="0" * 32))
    assert "makes other programs now" in best_program(other)[1]
    from whet.search_spaces import Workload

    unknown = replace(data, task=replace(data.task, workload=Workload("no/such")))
    assert "'no/such' is not known here" in best_program(unknown)[1]
    graph = replace(data, task=replace(data.task, workload=Workload("graph/C/0123456789ab")))
    assert "derived from a compute graph, which this log does not hold" in best_program(graph)[1]


def test_a_template_that_raises_now_does_not_take_the_report_along(tmp_path):
    broken = []

    @template("tests/report_raises")
    def raises(n):
        if broken:
            raise ValueError("gone since then")
        return matmul.func(n, n, n)

    path, task = tmp_path / "a.db", create_task(raises, (8,), target="llvm")
    write_search(path, task, [task.config_space.default], lambda c, i: ok(1e-3, i))
    broken.append(True)
    said = "the template cannot be run here: ValueError: gone since then"
    assert said in text_of(report(path))


def test_a_derived_program_is_shown_where_its_task_was_made(tmp_path):
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    graph = create_task(outputs=[b], target="llvm")
    path = tmp_path / "graph.db"
    write_search(path, graph, [graph.config_space.default], lambda c, i: ok(1e-6, i))
    assert "its loops" in text_of(report(path))


def test_loop_features_of_the_log_are_used(tmp_path):
    from whet.autotune.features import NAMES, VERSION

    path, task = tmp_path / "a.db", gemm_task()
    rng = np.random.default_rng(0)
    tried = configs(task, 60)
    write_search(path, task, tried, lambda c, i: ok(1e-3 * (1 + i), i),
                 features=lambda i: pack(rng.random(len(NAMES)) + i, VERSION))  # fmt: skip
    text = text_of(report(path))
    assert "fitted to others' knobs and loops (60 successes)" in text
    rank = float(re.search(r"\(Spearman\) (-?\d\.\d+)", text)[1])
    assert rank > 0.9  # the features give the cost away, the knobs do not


def big(count: int) -> TaskTrials:
    """Many trials, made of few configs."""
    task = gemm_task()
    few = configs(task, 500)
    from whet.autotune.results.recorded import TaskRuns
    from whet.db.values.records import RunRecord, TrialRecord

    target, key = task.target.to_json(), task.config_space.fingerprint
    run = RunRecord(1, "u", task.workload, target, MACHINE, key, "xgb", 0, {}, {}, "finished",
                    BEGAN, BEGAN + count)  # fmt: skip
    trials = [
        TrialRecord(i, 1, task.workload, target, MACHINE, c, gemm_result(c, i), task.flop)
        for i, c in enumerate(few[k % 500] for k in range(count))
    ]
    runs = TaskRuns(task.workload, target, MACHINE, key, (run,))
    return TaskTrials(runs, trials, [], min(trials, key=lambda t: t.cost))


def test_a_large_log_gives_a_small_page():
    page = str(_task(1, big(20_000), Room.of(1)))
    assert len(page) < 3e6
    assert "One in 3 of 20,000 trials is drawn." in page


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    log, path, task = tmp_path / "a.db", tmp_path / "r.html", gemm_task()
    write_search(log, task, configs(task, 3))
    assert write_report(log, path) == path
    assert path.read_text() == report(log)
    write_report(log, path, generated="again")
    assert "again" in path.read_text()
    before = log.read_bytes()
    for bad, said in (
        (log, "is there and is no report"),
        (tmp_path, "it is a folder"),
        (tmp_path / "none" / "r.html", "there is no folder"),
    ):
        with pytest.raises(ArgumentError, match=said):
            write_report(log, bad)
    assert log.read_bytes() == before
    with pytest.raises(LogError):
        write_report(log, path, op="nothing")
    assert "again" in path.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db", "r.html"]
