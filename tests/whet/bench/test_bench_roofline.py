"""A comparison's report: its lines, its table, and its roofline as SVG and as PNG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

import whet
from whet.bench import drawing
from whet.bench.comparison import Comparison
from whet.bench.cpu import limits
from whet.bench.drawing import APART, check_file, draw, figure, svg, title_lines
from whet.bench.roofline import Level, chart_of
from whet.bench.table import bound_of, notes_of, table_of
from whet.bench.turns import Sample

NS = "{http://www.w3.org/2000/svg}"
LEVELS = (Level("L1", 16384, 160e9), Level("memory", 1 << 27, 30e9))


def sample(best: float, median: float) -> Sample:
    return Sample((best, median, median))


@pytest.fixture
def found() -> Comparison:
    """A kernel that arithmetic bounds: 100 GFLOP/s, and 1 ms of it."""
    return Comparison(
        workload="matmul(<&>)", flop=10**8, read=3 * 10**6, written=10**6, threads=1,
        samples={
            "default": sample(4e-3, 5e-3), "tuned": sample(1.25e-3, 1.6e-3),
            "torch": sample(2e-3, 4e-3), "torch packed": sample(1.5e-3, 2e-3),
            "numpy": sample(1.3e-3, 1.9e-3),
        },
        ours=("default", "tuned"), packed=frozenset({"torch packed"}),
        peaks=(90e9, 100e9, 110e9), streams=(1e-4, 2e-4, 3e-4), errors={"tuned": 1e-6},
        left_out=("torch MKL: no",), packs=True,
    )  # fmt: skip


def test_ratios_and_shares(found):
    assert found.best == "tuned" and found.peak == 100e9 and found.bytes == 4 * 10**6
    assert found.peer() == "numpy" and found.peer("torch") == "torch packed"
    assert found.peer("tvm") is None
    assert replace(found, packs=False).peer("torch") == "torch"  # not on the same terms
    ratio = found.ratio("torch packed")
    assert (ratio.best, ratio.median) == (pytest.approx(1.2), pytest.approx(1.25))
    assert str(ratio) == "1.20 (1.25)"
    assert found.ratio("tuned", "default").best == pytest.approx(1.25 / 4)
    assert found.of_peak("tuned").best == pytest.approx(0.8)
    assert found.of_bandwidth("tuned").best == pytest.approx(0.08)
    assert found.of_bandwidth("tuned").median == pytest.approx(2e-4 / 1.6e-3)
    assert found.limit == pytest.approx(1e-3) and not found.memory_bound
    slow = replace(found, streams=(2e-3,))
    assert slow.limit == 2e-3 and slow.memory_bound
    data = found.to_json()
    assert data["peak_gflops"] == 100 and data["contestants"]["numpy"]["best_us"] == 1300


def test_a_table_has_the_limit_and_all_in_order(found):
    head, limit, *rows = table_of(found)
    assert " ".join(head.split()) == "time median GFLOP/s of peak GB/s of bandwidth ours is"
    assert limit.split()[:4] == ["limit", "1", "ms", "100.0"] and limit.endswith("0.80 x")
    assert [row.split("  ")[0] for row in rows] == [
        "tuned", "numpy", "torch packed (packed)", "torch", "default",
    ]  # fmt: skip
    assert rows[0].split()[-1] == "0.08" and rows[2].endswith("1.20 x")
    assert "bound by its arithmetic" in bound_of(found)
    assert "2 cores" in bound_of(replace(found, threads=2))
    assert "bound by moving its bytes" in bound_of(replace(found, streams=(1.0,)))


def test_what_makes_times_doubtful_is_noted(found):
    assert notes_of(replace(found, samples={**found.samples, "tuned": sample(1e-3, 1.2e-3)})) == []
    (slow,) = notes_of(found)  # 1.6 ms in the median, 1.25 at best; the default: 5 and 4
    assert slow.startswith("tuned took 1.28 times as long in the median as in its quickest round")
    busy, _ = notes_of(replace(found, environment={"load": 5.4, "cpus": 2}))
    assert busy == "the machine was busy (load 5.4 on 2 cores): measured times are upper bounds"


def test_a_roofline_has_roofs_that_meet_the_peak(found):
    chart = chart_of(found, LEVELS)
    l1, memory, own, peak = chart.lines
    assert l1.name == "L1 160 GB/s" and own.name == "this working set 40 GB/s"
    (left, low), (ridge, high) = memory.points
    assert low == pytest.approx(left * 30) and (ridge, high) == (pytest.approx(100 / 30), 100)
    assert own.exact and peak.exact and not memory.exact
    assert peak.points[0][1] == peak.points[1][1] == 100
    assert peak.points[0][0] < 100 / 160 and peak.points[1][0] > 25
    assert [m.name for m in chart.marks] == [
        "tuned: 1.25 ms", "numpy: 1.3 ms", "torch packed: 1.5 ms", "torch: 2 ms", "default: 4 ms",
    ]  # fmt: skip
    assert [m.at[0] for m in chart.marks] == [25.0] * 5
    assert chart.marks[0].at[1] == pytest.approx(80) and chart.marks[0].ours
    assert [m.ours for m in chart_of(found, LEVELS, peers=1).marks] == [True, False, True]


def test_without_arithmetic_it_is_bandwidth_against_size(found):
    chart = chart_of(replace(found, flop=0), LEVELS)
    reading, own = chart.lines
    assert reading.points == ((16384, 160.0), (1 << 27, 30.0)) and chart.y_label == "GB/s"
    assert own.points[0][1] == own.points[1][1] == pytest.approx(40)
    assert chart.marks[0].at == (4 * 10**6, pytest.approx(3.2))
    assert len(chart_of(replace(found, flop=0), ()).lines) == 1


def test_an_svg_stands_by_itself(found):
    root = ET.fromstring(svg(chart_of(found, LEVELS)))
    assert root.tag == f"{NS}svg" and root.attrib["viewBox"].split()[2:] == [
        root.attrib["width"], root.attrib["height"],
    ]  # fmt: skip
    words = [t.text for t in root.iter(f"{NS}text")]
    assert "Roofline of matmul(<&>)" in words and "tuned: 1.25 ms" in words
    assert "L1 160 GB/s" in words and "operations a byte" in words
    marks = [c for c in root.iter(f"{NS}circle")]
    heights = [float(c.attrib["cy"]) for c in marks]
    assert heights == sorted(heights) and len({c.attrib["cx"] for c in marks}) == 1
    assert [c.attrib["class"] for c in marks] == ["marker best", *["marker"] * 3, "marker best"]
    notes = [t for t in root.iter(f"{NS}text") if t.attrib.get("class", "").startswith("note")]
    for side in (notes[:4], notes[4:]):  # those of the limits, those of the contestants
        places = sorted(float(t.attrib["y"]) for t in side)
        assert all(b - a >= APART - 0.2 for a, b in pairwise(places))
    assert all(0 < float(t.attrib["y"]) < float(root.attrib["height"]) for t in notes)


def test_a_png_is_drawn_by_matplotlib(found, tmp_path):
    pytest.importorskip("matplotlib")
    draw(chart_of(found, LEVELS), str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    draw(chart_of(found, LEVELS), str(tmp_path / "a.SVG"))
    assert ET.fromstring((tmp_path / "a.SVG").read_text()).tag == f"{NS}svg"


@pytest.mark.parametrize("flop", [0, 56448, 10**8])
def test_words_of_a_png_do_not_run_into_each_other(found, flop):
    pytest.importorskip("matplotlib")
    near = (*LEVELS, Level("L2", 1 << 19, 150e9), Level("L3", 1 << 24, 31e9))
    many = replace(found, workload="conv2d_nchw(" + ", ".join(["(1, 1)"] * 40) + ")", flop=flop)
    drawn = figure(chart_of(many, near))
    drawn.canvas.draw()
    (axes,) = drawn.axes
    boxes = [words.get_window_extent() for words in axes.texts]
    assert len(boxes) == len(chart_of(many, near).lines) + 5
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    frame = axes.get_window_extent()
    assert all(frame.x0 < b.x0 and b.x1 < frame.x1 for b in boxes)
    assert all(frame.y0 < b.y0 and b.y1 < frame.y1 for b in boxes)
    title = axes.title.get_window_extent()
    assert title.x0 > 20 and title.x1 < drawn.bbox.x1 - 20 and title.y1 < drawn.bbox.y1
    assert all(
        a.x1 < b.x0 for a, b in pairwise(t.get_window_extent() for t in axes.get_xticklabels())
    )


def test_a_long_title_has_lines_of_its_own(found):
    chart = chart_of(replace(found, workload="f(" + ", ".join(map(str, range(60))) + ")"), LEVELS)
    root = ET.fromstring(svg(chart))
    lines = [t for t in root.iter(f"{NS}text") if (t.text or "").strip() in title_lines(chart)]
    assert len(lines) == len(title_lines(chart)) == 3
    assert " ".join(str(t.text) for t in lines) == chart.title
    heights = [float(t.attrib["y"]) for t in lines]
    highest = min(float(c.attrib["cy"]) for c in root.iter(f"{NS}circle"))
    assert heights == sorted(set(heights)) and heights[-1] + 10 < highest


def test_a_file_that_cannot_be_drawn_is_refused(tmp_path, monkeypatch):
    with pytest.raises(whet.ArgumentError, match=r"\.pdf is not a format .*\n  name it \.svg or"):
        check_file("a.pdf")
    with pytest.raises(whet.ArgumentError, match=r"a': its name has no ending\n  name it \.svg or"):
        check_file(str(tmp_path / "a"))
    with pytest.raises(whet.ArgumentError, match="it is a folder\n  name a file that ends in"):
        check_file(str(tmp_path))
    with pytest.raises(whet.ArgumentError, match="a drawing in '': that is no name of a file"):
        check_file("")
    with pytest.raises(whet.ArgumentError, match="there is no such folder"):
        check_file(str(tmp_path / "none" / "a.svg"))
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    with pytest.raises(whet.ArgumentError, match="matplotlib, which is not installed\n  pip"):
        check_file("a.png")
    check_file("a.svg")


def test_levels_are_the_caches_and_memory(monkeypatch):
    asked = []
    monkeypatch.setattr(limits.host, "caches", lambda: {"L2": 1 << 20, "L1": 1 << 15})
    monkeypatch.setattr(
        limits, "bandwidth", lambda read, written, seconds: asked.append(read) or 1e9 / read
    )
    found = limits.levels()
    assert [(v.name, v.size) for v in found] == [
        ("L1", 1 << 14), ("L2", 1 << 19), ("memory", 1 << 26),
    ]  # fmt: skip
    assert asked == [v.size for v in found] and found[0].bandwidth == 1e9 / (1 << 14)
