"""`benchmarks/cpu_kernels`: its works are what they say, and its verdicts follow the figures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import whet
from whet.bench.comparison import Comparison
from whet.bench.operators.table import REFERENCES
from whet.bench.turns import Sample
from whet.search_spaces import get_template

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks" / "cpu_kernels"


@pytest.fixture(scope="module")
def modules():
    """The benchmark's modules, which are no package."""
    folders = [str(FOLDER), str(FOLDER.parent)]
    sys.path[:0] = folders
    import reach
    import works

    yield works, reach
    for folder in folders:
        sys.path.remove(folder)


def row(ours: float, torch: float, default: float = 0.0, stream: float = 1e-9) -> Comparison:
    """A work whose peak allows 1 s."""
    samples = {"default": Sample((default,))} if default else {}
    samples |= {"tuned": Sample((ours,)), "torch out=": Sample((torch,)), "torch": Sample((9.0,))}
    names = ("default", "tuned") if default else ("tuned",)
    return Comparison(
        "w", 100, 1, 1, 1, samples, names, frozenset(), (100.0,), (stream,), {}, ()
    )  # fmt: skip


def test_works_are_the_layers_of_the_models(modules):
    works, _ = modules
    groups = works.GROUPS
    assert len(groups["resnet50"]) == 20 and len(groups["mobilenet_v2"]) == 10
    every = [w for some in groups.values() for w in some]
    assert len({w.name for w in every}) == len(every)
    for work in (*every, *works.THREADED):
        workload = get_template(work.template).workload(*work.args)
        assert work.template in REFERENCES
        if work.template == "conv2d_nchw":
            _, ci, h, w, co, kh, kw, *_ = workload.args
            assert f"{kh}x{kw} {ci}->{co} {h}x{w}" in work.name and workload.args[-1] is True
    # each as often as the model has it: 53 convolutions of about 3.86 billion multiplications
    often = (1, 1, 3, 4, 2, 1, 4, 4, 1, 3, 1, 6, 6, 1, 5, 1, 3, 3, 1, 2)
    flop = sum(
        count * whet.create_task(w.template, args=w.args, target="llvm").flop
        for count, w in zip(often, groups["resnet50"], strict=True)
    )
    assert sum(often) == 53 and flop == pytest.approx(7.71e9, rel=0.01)


def test_names_choose_groups_and_works(modules):
    from layers import chosen

    works, _ = modules
    assert len(chosen(works.GROUPS, [])) == sum(map(len, works.GROUPS.values()))
    found = chosen(works.GROUPS, ["memory", "64x64x64"])
    assert [g for g, _ in found] == ["matmul", *["memory"] * 6]
    with pytest.raises(SystemExit, match="no group or work 'memry'; these are:\n  matmul: 1024x"):
        chosen(works.GROUPS, ["memry"])


def verdicts(reach, rows, defaults=False):
    return {v.what: (round(v.measured, 3), v.reached) for v in reach.judge(rows, defaults)}


def test_verdicts_follow_the_figures(modules):
    _, reach = modules
    found = verdicts(reach, {"matmul": {"1024x1024x1024": row(1.1, 1.3), "64x64x64": row(2, 1.8)}})
    assert found == {
        "matmul: geomean against PyTorch": (1.031, False),
        "matmul: the least of them": (0.9, False),
        "matmul 1024x1024x1024: share of the FMA peak": (0.909, True),
    }
    some = {f"c{k}": row(1.0, 1.5 if k < 16 else 0.9) for k in range(20)}
    found = verdicts(reach, {"resnet50": some, "mobilenet_v2": {"d": row(1.0, 1.5)}})
    assert list(found.values()) == [(1.354, True), (16, True), (1.5, False)]
    memory = {"softmax": row(2.0, 3.0, stream=1.9), "sum": row(4.0, 4.0, stream=1.0)}
    assert list(verdicts(reach, {"memory": memory}).values()) == [
        (0.95, True), (0.25, False), (1.225, False),
    ]  # fmt: skip
    found = verdicts(reach, {"batch_matmul": {"matvec": row(1.0, 1.2, default=1.25)}}, True)
    assert found["matvec: against PyTorch"] == (1.2, True)
    assert found["default config, untuned, as a part of tuned: geomean of 1"] == (0.8, True)
    shown = reach.Verdict("x", 0.5, 0.9)
    assert str(shown).startswith("NOT REACHED  0.500 (at least 0.9)")


def test_a_library_that_is_not_there_is_no_verdict(modules):
    _, reach = modules
    alone = Comparison(
        "w", 100, 1, 1, 1, {"tuned": Sample((2.0,))}, ("tuned",), frozenset(), (100.0,), (1.0,),
        {}, (),
    )  # fmt: skip
    assert reach.against(alone) is None and reach.geomean([None]) is None
    assert reach.judge({"resnet50": {"c": alone}, "mobilenet_v2": {"d": alone}}, False) == []


@pytest.fixture
def run(modules, monkeypatch):
    """The command, with what it imports from its neighbours."""
    folders = [str(FOLDER), str(FOLDER.parent / "search"), str(FOLDER.parent)]
    monkeypatch.setattr(sys, "path", [*folders, *sys.path])
    import run

    return run


def test_tvm_is_compared_operator_by_operator(run, monkeypatch, capsys):
    import live

    def compare(name, asked, ours_first):
        if name.startswith("softmax"):
            raise SystemExit("TVM ended (1):\nmore")
        times = {"best": 1.0, "median": 1.0, "trials": asked.trials, "failed": 0, "seconds": 2.0}
        theirs = times | {"best": 2.0, "median": 1.5, "start_seconds": 1.0}
        return {"name": name, "ours": times, "tvm": theirs, "ours_first": ours_first}

    monkeypatch.setattr(live, "compare", compare)
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "--tvm", "python", "--markdown"])
    results = run.Results()
    (verdict,) = run.beside_tvm(results, run.parsed())
    assert verdict.measured == pytest.approx(2.0) and verdict.least == 1.4
    assert verdict.markdown().endswith("| 2.00 | 1.4 |")
    rows = results.more["tvm"]["rows"]
    assert [row["name"] for row in rows] == [n for n in live.LIVE if "softmax" not in n]
    assert {row["ours_first"] for row in rows} == {True, False}
    out = capsys.readouterr().out
    assert out.count("2.00 x TVM") == len(rows) == len(live.LIVE) - 1
    assert "FAILED: TVM ended (1):\n" in out and results.failed == ["TVM: softmax 1536x128"]


def test_two_threads_are_held_against_one_and_against_pytorch(run, monkeypatch):
    def measured(work, asked):
        samples = {
            n: Sample((s,)) for n, s in (("one thread", 1.9), ("tuned", 1.0), ("torch", 1.1))
        }
        ours = ("one thread", "tuned")
        return Comparison(
            "w", 100, 1, 1, 2, samples, ours, frozenset(), (100.0,), (1.0,), {}, ()
        )  # fmt: skip

    monkeypatch.setattr(run, "on_two_cores", measured)
    gain, torch = run.two_threads(run.Results(), None)
    assert (gain.measured, gain.reached) == (pytest.approx(1.9), True)
    assert (torch.measured, torch.least) == (pytest.approx(1.1), 1.0)


def test_a_failed_work_is_a_line(modules, run, capsys):
    works, _ = modules

    def broken(work, asked):
        raise whet.SpaceError("template 'x'", "it is not here")

    results = run.Results()
    results.measure("memory", works.GROUPS["memory"][0], broken, None)
    results.measure("memory", works.GROUPS["memory"][1], lambda w, a: row(1.0, 2.0), None)
    assert results.failed == ["memory: softmax 1024x1024"]
    assert "FAILED: template 'x': it is not here" in capsys.readouterr().out
    results.averages()
    assert results.lines[-1] == "memory: geomean 2.000 x torch's fastest way"
    assert results.to_json()["rows"]["memory"]["layer_norm 4096x1024"]["flop"] == 100
