"""The drawings: ticks that people can read, marks where the numbers say, text that stays text."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from report_logs import BEGAN, MACHINE, configs, failed, gemm_task, ok

from whet.autotune.report import charts
from whet.autotune.report.charts import Room
from whet.autotune.report.markup import Markup, escape, join, tag
from whet.autotune.report.model import Predictions
from whet.autotune.report.plot import Plot
from whet.autotune.report.scales import Categories, Linear, Logarithmic, number, seconds
from whet.autotune.results.knob_values import dimensions
from whet.autotune.results.recorded import TaskRuns, TaskTrials
from whet.db.values.records import RunRecord, TrialRecord


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn"))))
@example("<b a=\"'x'\">&amp;</b>]]><!-- \u2028")
def test_text_is_text_again_when_parsed(text):
    root = ET.fromstring(tag("p", text, title=text))
    assert (root.text or "") == text and root.attrib["title"] == text and not list(root)
    assert html.unescape(escape(text)) == text


def test_what_no_markup_may_hold_is_spelled_out():
    root = ET.fromstring(tag("p", "a\x00b\x1b[31m\x7f\x85\ufffe\ud800\tc\nd"))
    assert root.text == r"a\x00b\x1b[31m\x7f\x85\ufffe\ud800" + "\tc\nd"


def test_markup_is_not_escaped_twice_and_empty_elements_close():
    assert tag("p", "a<b", tag("b", "&"), None, [1, 2.5]) == "<p>a&lt;b<b>&amp;</b>12.5</p>"
    assert tag("meta", charset="x", name=None) == '<meta charset="x"/>'
    assert tag("p") == "<p></p>" and tag("div", class_="a", aria_label="b<") == (
        '<div class="a" aria-label="b&lt;"></div>'
    )
    assert join(["<", Markup("<br/>")]) == "&lt;<br/>"
    assert escape(Markup("<i>")) == "&lt;i&gt;"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e9), st.integers(3, 9))
def test_linear_ticks_are_round_and_inside(low, width, wanted):
    scale = Linear(low, low + width, wanted=wanted)
    ticks = [place for place, _ in scale.ticks()]
    assert all(-1e-6 <= place <= 1 + 1e-6 for place in ticks)
    assert len(ticks) <= wanted + 2
    assert ticks == sorted(ticks)


def test_linear_ticks_by_example():
    assert Linear(0, 100).ticks() == [(v / 100, str(v)) for v in (0, 20, 40, 60, 80, 100)]
    assert [said for _, said in Linear(0, 0.3).ticks()][:3] == ["0", "0.05", "0.1"]
    assert [said for _, said in Linear(0, 3, whole=True).ticks()] == ["0", "1", "2", "3"]
    assert Linear(5, 5).place(5) == 0  # one value only
    assert list(map(number, (0, 0.25, 9999, 12_000, 3_000_000, 2.5e9))) == [
        "0", "0.25", "9999", "12k", "3M", "2.5G",
    ]  # fmt: skip


@given(st.floats(1e-9, 1e3), st.floats(1.0, 1e9))
def test_logarithmic_ticks_are_inside_and_some_have_words(low, ratio):
    scale = Logarithmic(low, low * ratio, seconds)
    ticks = scale.ticks()
    assert all(0 <= place <= 1 for place, _ in ticks)
    assert 2 <= sum(bool(said) for _, said in ticks) <= 14
    assert 0 < scale.place(low) <= scale.place(low * ratio) < 1


def test_logarithmic_ticks_by_example():
    said = [s for _, s in Logarithmic(1e-5, 2e-3, seconds).ticks()]
    assert said == ["10 us", "20 us", "50 us", "100 us", "200 us", "500 us", "1 ms", "2 ms"]
    assert [s for _, s in Logarithmic(1e-5, 1.0, seconds).ticks()] == [
        "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s",
    ]  # fmt: skip
    near = [s for _, s in Logarithmic(1.00e-3, 1.01e-3, seconds).ticks()]
    assert near == ["800 us", "1 ms", "1.2 ms", "1.4 ms"]


def test_a_plot_puts_marks_where_the_axes_say():
    plot = Plot(Linear(0, 10), Linear(0, 1), "x", "y", "a plot")
    assert plot.across(0) == plot.left and plot.across(10) == plot.width - plot.right
    assert plot.down(0) == plot.height - plot.bottom and plot.down(1) == plot.top
    plot.dots([(5, 0.5), (5, 0.5), (0, 1)])
    plot.dots([(1, 0)], "cross")
    plot.tooltip((10, 0), "<here>")
    plot.bar((2, 0), (4, 0.5), "a bar")
    plot.stairs([(0, 1), (5, 0.5), (10, 0.5)])
    svg = ET.fromstring(plot.markup())
    shapes = {e.attrib.get("class"): e for e in svg}
    assert shapes["dot"].attrib["d"].count("M") == 2  # two fell on one pixel
    assert shapes["marker"].find("title").text == "<here>"
    bar = {k: float(v) for k, v in shapes["bar"].attrib.items() if k != "class"}
    assert bar["x"] == pytest.approx(plot.across(2), abs=0.1)
    assert bar["width"] == pytest.approx(plot.across(4) - plot.across(2), abs=0.2)
    assert bar["y"] + bar["height"] == pytest.approx(plot.down(0), abs=0.2)
    assert svg.attrib["aria-label"] == "a plot" and svg.find("title").text == "a plot"


def test_long_names_are_slanted_and_shortened_with_a_tooltip():
    names = [f"{'x' * 40}{i}" for i in range(5)]
    plot = Plot(Categories(names), Linear(0, 1), "", "", "p", width=400)
    assert plot.slanted and plot.height > 300
    svg = ET.fromstring(plot.markup())
    tips = [t.find("title").text for t in svg.iter("text") if t.find("title") is not None]
    assert tips == names
    assert not Plot(Categories(["a", "b"]), Linear(0, 1), "", "", "p").slanted


def searched(costs: list[float]) -> TaskTrials:
    """Trials of these costs, half a second apart; 0 is a failure."""
    task = gemm_task()
    key, target = task.config_space.fingerprint, task.target.to_json()
    run = RunRecord(1, "", task.workload, target, MACHINE, key, "xgb", 0, {}, {}, "finished",
                    BEGAN, None)  # fmt: skip
    trials = [
        TrialRecord(i, 1, task.workload, target, MACHINE, config,
                    ok(cost, i) if cost else failed("run_error", "no", i), 100)
        for i, (config, cost) in enumerate(zip(configs(task, len(costs)), costs, strict=True))
    ]  # fmt: skip
    best = min(trials, key=lambda t: t.cost)
    return TaskTrials(TaskRuns(task.workload, target, MACHINE, key, (run,)), trials, [], best)


def test_the_best_so_far_falls_where_trials_were_better():
    data = searched([4e-3, 0, 2e-3, 3e-3, 0, 1e-3, 2e-3])
    for by_time, at in ((False, [1, 3, 6]), (True, [0.5, 1.5, 3.0])):
        svg = ET.fromstring(charts.best_so_far(data, by_time, Room(100, 100)))
        circles = [e for e in svg.iter("circle") if e.attrib["class"] == "marker best"]
        words = [c.find("title").text.splitlines()[0] for c in circles]
        assert [w[:8] for w in words] == ["trial 0:", "trial 2:", "trial 5:"]
        x = [float(c.attrib["cx"]) for c in circles]
        share = (at[1] - at[0]) / (at[2] - at[0])
        assert (x[1] - x[0]) / (x[2] - x[0]) == pytest.approx(share, abs=0.01)
        y = [float(c.attrib["cy"]) for c in circles]
        assert y[1] - y[0] == pytest.approx(y[2] - y[1], abs=0.2)  # halved, and halved again
        shapes = {e.attrib.get("class"): e.attrib["d"] for e in svg.iter("path")}
        assert shapes["dot"].count("M") == 5 and shapes["cross"].count("M") == 2
        falls = [float(v) for v in re.findall(r"V([\d.]+)", shapes["line"])]
        assert falls == sorted(falls)
        assert "line default" in shapes


def test_costs_stand_over_what_was_chosen():
    data = searched([1e-3, 2e-3, 4e-3, 0, 8e-3, 3e-3, 5e-3, 6e-3])
    by_name = {d.name: d for d in dimensions([t.config for t in data.searched])}
    drawing, note = charts.against_knob(by_name["order"], data, Room(100, 100))
    svg = ET.fromstring(drawing)
    assert note == ""
    order = [t.config.choice("order") for t in data.searched]
    axis = [t.text for t in svg.iter("text") if t.attrib.get("class") == "x"]
    assert axis == sorted(set(order))
    boxes = [e.find("title").text for e in svg.iter("rect")]
    for name, text in zip(axis, boxes, strict=True):
        count = order.count(name)
        lost = [t.result.ok for t, o in zip(data.searched, order) if o == name].count(False)
        trials = "1 trial" if count == 1 else f"{count} trials"
        assert text.startswith(f"{name}: {trials}, {lost} failed")
    assert "1.01 ms" in boxes[axis.index(order[0])]  # the best of the default's order
    best = [e for e in svg.iter("circle") if e.attrib["class"] == "marker best"]
    assert len(best) == 1 and best[0].find("title").text.startswith("the best\ntrial 0")


def test_too_many_choices_are_cut_to_the_best_and_said():
    task = gemm_task()
    data = searched([1e-3 * (1 + i) for i in range(200)])
    wide = next(d for d in dimensions([t.config for t in data.searched]) if len(d.distinct) > 16)
    drawing, note = charts.against_knob(wide, data, Room(1000, 100))
    svg = ET.fromstring(drawing)
    assert len(list(svg.iter("rect"))) == charts.SLOTS
    assert note == f"the 16 of {len(wide.distinct)} choices whose best trials are fastest"
    assert task.config_space.fingerprint == data.task.fingerprint


def test_a_plot_draws_no_more_than_its_room():
    data = searched([1e-3 * (1 + i % 37) for i in range(300)])
    svg = ET.fromstring(charts.best_so_far(data, False, Room(50, 10)))
    shapes = {e.attrib.get("class"): e.attrib.get("d", "") for e in svg.iter("path")}
    assert 30 < shapes["dot"].count("M") <= 50
    assert len([e for e in svg.iter("circle") if e.attrib["class"] == "marker"]) == 10


def words_under(svg: ET.Element) -> list[tuple[float, str]]:
    """The words under the horizontal axis, with where they stand."""
    texts = (t for t in svg.iter("text") if t.attrib.get("class") == "x")
    return [(float(t.attrib["x"]), t.text or "") for t in texts if t.text]


def test_a_trial_stands_over_its_number():
    data = searched([4e-3, 3e-3, 2e-3, 1e-3, 2e-3, 3e-3])
    svg = ET.fromstring(charts.best_so_far(data, False, Room(100, 100)))
    ticks = dict((said, x) for x, said in words_under(svg))
    markers = [e for e in svg.iter("circle") if e.attrib["class"] == "marker"]
    for circle in markers:
        number = circle.find("title").text.split(":")[0].removeprefix("trial ")
        assert float(circle.attrib["cx"]) == pytest.approx(ticks[number], abs=0.2)
    assert len(markers) == 6


def test_words_of_an_axis_do_not_run_into_each_other():
    scale = Logarithmic(1.2e-5, 6e-3, seconds)  # less than three decades: 1, 2 and 5 of each
    svg = ET.fromstring(Plot(scale, scale, "", "", "p", width=460, height=400).markup())
    found = words_under(svg)
    assert len(found) >= 4
    for (left, before), (right, after) in pairwise(found):
        assert right - left > 6.2 * (len(before) + len(after)) / 2


def test_the_importance_chart_is_drawn_for_the_room_that_it_has():
    """It stands beside another chart: drawn wider, its words would shrink with it."""
    found = Predictions(
        np.arange(3), np.ones(3), np.ones(3), {f"knob_{i}": 0.1 for i in range(9)}, False
    )
    sizes = [
        ET.fromstring(drawing).attrib["viewBox"].split()[2]
        for drawing in (
            charts.importance(found),
            charts.predicted_against_measured(found, searched([1e-3] * 3).searched, Room(9, 9)),
        )
    ]
    assert sizes[0] == sizes[1]
    label = next(t for t in ET.fromstring(charts.importance(found)).iter("text")
                 if t.attrib.get("class") == "label")  # fmt: skip
    assert 6.2 * len(label.text) < int(sizes[0])
