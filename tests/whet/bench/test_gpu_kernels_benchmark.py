"""`benchmarks/gpu_kernels` for a GPU: its works, its goals, and what they come to."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import whet
from whet.bench.comparison import Comparison
from whet.bench.operators.table import REFERENCES
from whet.bench.turns import Sample
from whet.search_spaces import get_template

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "benchmarks" / "gpu_kernels"


@pytest.fixture(scope="module", autouse=True)
def folders():
    """The benchmark's modules are no package."""
    added = [str(FOLDER), str(FOLDER.parent), str(ROOT / "tests" / "gpu_check")]
    sys.path[:0] = added
    yield
    for folder in added:
        sys.path.remove(folder)


@pytest.fixture(scope="module")
def run(folders):
    """The command, which has the name of another benchmark's."""
    spec = importlib.util.spec_from_file_location("gpu_run", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(
    ours: float,
    torch: float = 0.0,
    triton: float = 0.0,
    stream: float = 1e-9,
    left_out: tuple[str, ...] = (),
) -> Comparison:
    """A work on a GPU."""
    samples = {"tuned": Sample((ours,))}
    samples |= {"torch NCHW": Sample((torch,))} if torch else {}
    samples |= {"triton": Sample((triton,))} if triton else {}
    return Comparison(
        "w", 100, 1, 1, 1, samples, ("tuned",), frozenset(), (100.0,), (stream,), {}, left_out,
        "GPU",
    )  # fmt: skip


def test_works_are_what_they_say():
    import gpu_works
    from check_cases import LARGE, SMALL
    from layers import chosen

    groups = gpu_works.GROUPS
    every = [w for some in groups.values() for w in some]
    assert len({w.name for w in every}) == len(every)
    for work in every:
        get_template(work.template).workload(*work.args)
        assert work.template in REFERENCES and work.template in SMALL and work.template in LARGE
    assert len(groups["resnet50"]) == 20
    assert all(w.args[0] == 16 for name in ("resnet50", "resnet50_nhwc") for w in groups[name])
    for work in (*groups["memory"], *groups["memory_half"]):
        task = whet.create_task(work.template, args=work.args, target="cuda")
        assert task.bytes >= 256 << 20, work  # several times an L2 cache
        assert task.dtype == ("float16" if " half" in work.name else "float32")
    short = {w.name for _, w in chosen(groups, list(gpu_works.SHORT))}
    assert "4096x4096x4096" in short and {w.name for w in groups["resnet50"]} < short
    for word in ("softmax", "layer_norm", "sum", "add", "bias_gelu", "transpose"):
        assert any(name.startswith(word) for name in short)


def test_cases_are_arguments_of_templates():
    from check_cases import DTYPES, SMALL, cases

    for name in SMALL:
        for dtype in DTYPES:
            found = cases(name, dtype, large=True)
            assert len(found) > len(cases(name, dtype, large=False)) > 1
            for args in found:
                assert whet.create_task(name, args=args, target="cuda").dtype == dtype
    assert cases("resize2d", "float32", large=True) == []


def verdicts(rows, absent=None):
    from goals import judge

    return {v.what: (v.measured and round(v.measured, 3), v.least, v.reached)
            for v in judge(rows, absent)}  # fmt: skip


def test_goals_follow_the_figures():
    found = verdicts({"matmul": {"4096x4096x4096": row(1.0, 0.86), "1000x1000x1000": row(1, 0.1)}})
    assert found == {"matmul 4096x4096x4096: against cuBLAS": (0.86, 0.85, True)}
    some = {f"c{k}": row(1.0, 1.0 if k < 19 else 0.7) for k in range(20)}
    assert list(verdicts({"resnet50": some}).values()) == [
        (0.982, 0.8, True), (0.7, 0.8, False), (19, 20, False),
    ]  # fmt: skip
    found = verdicts({"memory": {"softmax": row(2.0, 5.0, 1.9, stream=1.9)}})
    assert found == {
        "softmax: share of the copy bandwidth": (0.95, 0.9, True),
        "softmax: against Triton": (0.95, 1.0, False),
    }
    assert verdicts({"mobilenet_v2": {"d": row(1.0, 9.0)}}) == {}


def test_a_goal_without_its_peer_is_not_judged():
    from goals import judge

    missing = ("torch: PyTorch is not installed: pip install it",)
    rows = {
        "matmul": {"4096x4096x4096": row(1.0, left_out=missing)},
        "resnet50": {f"c{k}": row(1.0, left_out=missing) for k in range(20)},
        "memory": {"sum": row(4.0), "add": row(1.0, stream=1.0)},
    }
    goals = judge(rows)
    assert len(goals) == 8 and sum(v.reached for v in goals) == 1
    assert {v.what: v.measured for v in goals if v.measured is not None} == {
        "sum: share of the copy bandwidth": pytest.approx(0, abs=1e-6),
        "add: share of the copy bandwidth": 1.0,
    }
    text = [str(v) for v in goals]
    assert re.match(r"not judged .*cuBLAS: torch: PyTorch is not installed", text[0])
    assert "0 of 20 convolutions timed beside cuDNN; torch: PyTorch is not installed" in text[1]
    assert "sum: against Triton: triton was no peer" in text[5]
    assert "| not judged: torch: PyTorch is not" in goals[0].markdown()
    assert json.loads(json.dumps([v.measured for v in goals]))[0] is None


def test_works_without_figures_show_in_the_goals():
    from goals import judge

    late = dict.fromkeys((f"c{k}" for k in range(3, 20)), "no time was left")
    fast = {f"c{k}": row(1.0, 1.0) for k in range(3)}
    goals = judge({"resnet50": fast}, {"resnet50": late})
    assert [v.measured for v in goals] == [None] * 3 and not any(v.reached for v in goals)
    assert all("3 of 20 convolutions timed beside cuDNN" in str(v) for v in goals)
    assert "theirs is 1.000" in str(goals[0])
    slow = judge({"resnet50": {**fast, "c0": row(1.0, 0.5)}}, {"resnet50": late})
    assert [v.measured for v in slow] == [None, 0.5, 2] and not any(v.reached for v in slow)
    absent = {"matmul": {"4096x4096x4096": "it failed"}, "memory": {"sum": "no time was left"}}
    assert [str(v).split(": ", 1)[1] for v in judge({}, absent)] == [
        "against cuBLAS: it failed",
        "share of the copy bandwidth: no time was left",
        "against Triton: no time was left",
    ]


def test_short_of_a_goal_is_no_pass():
    from check import judged
    from check_report import Failed, Short
    from goals import judge

    rows = {"matmul": {"4096x4096x4096": row(1.0, 0.9)}, "memory": {"sum": row(1.0, stream=0.5)}}
    lines = [f"  {v}" for v in judge(rows)]
    assert judged(lines[0]) == "1 of 1 goals reached, by default configs (not tuned)"
    said = r"1 of 3 goals reached, by default configs \(not tuned\); 1 not reached; 1 not judged"
    with pytest.raises(Short, match=said + "; no time for 2 works$"):
        judged("\n".join([*lines, "no time for memory: add", "  no time for memory: max"]))
    with pytest.raises(Short, match=r"0 of 1 goals reached.*; 1 not judged"):
        judged(lines[2])
    with pytest.raises(Failed, match="1 works failed; 1 of 3"):
        judged("\n".join([*lines, "  FAILED      memory: max"]))
    with pytest.raises(Failed, match="0 of 0 goals"):
        judged("nothing")


def works_of(run, *words):
    """The command line, and the works that it names."""
    asked = run.parsed(list(words))
    return run.chosen(run.GROUPS, list(asked.only or (run.SHORT if asked.short else ())))


def test_a_failed_work_is_a_line_and_time_runs_out(run, capsys):
    def measured(work):
        if work.name.startswith("sum"):
            raise whet.MeasureError("sum", "it is wrong")
        if work.name.startswith("max"):
            raise run.OutOfTime(work.name)
        return row(1.0, 0.5, 0.9)

    results, kept = run.Results(), []
    works = works_of(run, "--only", "memory")
    run.measure_all(results, works, measured, keep=lambda: kept.append(len(results.lines)))
    assert len(results.failed) == 2 and len(results.rows["memory"]) == 7
    assert kept == sorted(kept) and len(kept) == len(works) == 10  # after each, whatever it came to
    assert "FAILED: sum: it is wrong" in capsys.readouterr().out
    assert set(results.to_json()["errors"]) == set(results.failed)
    results.averages()
    assert "memory: geomean 0.900 x triton's fastest way" in results.lines
    assert run.absent(results) == {"memory": {
        "sum 16384x8192 axis 1": "it failed", "sum 16384x8192 axis 0": "it failed",
        "max 16384x8192 axis 1": "no time was left",
    }}  # fmt: skip
    late = run.Results()
    run.measure_all(late, works_of(run, "--short"), measured, until=0.0)
    assert not late.rows and len(late.skipped) == 28 and late.to_json()["skipped"] == late.skipped
    goals = run.judge(late.rows, run.absent(late))
    assert len(goals) == 18 and not any(v.reached or v.measured is not None for v in goals)


@pytest.fixture
def contests(monkeypatch):
    """Works that do what their template's name says, in real processes."""
    import gpu_contest

    monkeypatch.setattr(gpu_contest, "COMPARED", "gpu_contest_fakes:compared")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    with closing(gpu_contest.Contests(gpu_contest.How("cuda-emulator"), 60.0)) as made:
        yield made


def test_a_work_that_takes_its_process_with_it_costs_itself_alone(contests):
    from gpu_contest import OutOfTime
    from layers import Work

    def pid_of(row):
        return row.environment["pid"]

    first = contests.measured(Work("a", "right", ()))
    assert contests.measured(Work("b", "right", ())).environment == first.environment
    for does, said in (
        ("raises", "c: ValueError: it is wrong"),
        ("spoils", "c: RuntimeError: CUDA error: an illegal memory access was encountered"),
        ("crashes", r"c: crash: the worker died of SIGSEGV"),
        ("hangs", "c: timeout: killed after 1 s"),
    ):
        contests._seconds = 1.0 if does == "hangs" else 60.0  # what ends by itself is not killed
        with pytest.raises(whet.MeasureError) as caught:
            contests.measured(Work("c", does, ()))
        contests._seconds = 60.0
        assert re.match(said, str(caught.value).splitlines()[0]), str(caught.value)
        after = contests.measured(Work("d", "right", ()))
        # A process goes on being used only while its device can be.
        assert (pid_of(after) == pid_of(first)) == (does == "raises")
        first = after
    contests._until = time.monotonic() + 0.2
    with pytest.raises(OutOfTime):
        contests.measured(Work("e", "hangs", ()))


def test_a_search_of_all_works_comes_before_the_figures(run, monkeypatch, tmp_path, capsys):
    """Where it fails, default configs are measured, and that is said; results are kept."""
    searches, hows = [], []

    class Contests:
        def __init__(self, how, seconds, until):
            hows.append((how, seconds))

        def measured(self, work):
            return row(1.0, 2.0)

        def close(self):
            pass

    def tune(tasks, trials, log, **more):
        searches.append((len(tasks), trials, log, more["timeout"], str(more["device"])))
        raise whet.MeasureError("tune([2 tasks])", "every candidate failed")

    monkeypatch.setattr(run, "Contests", Contests)
    monkeypatch.setattr(run.whet, "tune", tune)
    out, log = tmp_path / "sub" / "out.json", str(tmp_path / "a.db")
    asked = run.parsed(
        ["--only", "1000x1000x1000", "1024x1024x1024", "--tuning", "2", "--trials", "50", "--log",
         log, "--device", "cuda-emulator", "--out", str(out), "--defaults", "--minutes", "900"]
    )  # fmt: skip
    results = run.Results()
    run.measure(results, asked, {"name": "A GPU"})
    assert searches == [(2, 100, log, 120.0, "cuda-emulator(0)")]
    assert hows == [(run.How("cuda-emulator", log, True), 300.0)]
    kept = json.loads(out.read_text())
    assert list(kept["rows"]["matmul"]) == ["1024x1024x1024", "1000x1000x1000"]
    assert kept["machine"]["device"] == {"name": "A GPU"}
    assert any("every candidate failed" in line for line in kept["lines"])
    ends = [line for line in kept["lines"] if line.startswith("FAILED")]
    assert ends == ["FAILED      search: all works"] and kept["failed"] == ["search: all works"]
    with pytest.raises(SystemExit):
        run.parsed(["--tuning", "2", "--trials", "0"])
    assert run.how_of(run.parsed(["--trials", "0", "--log", log])).log == ""
    asked.out = out / "no folder"  # nothing can be written there, and the works are measured
    run.measure(run.Results(), asked, {"name": "A GPU"})
    assert "cannot be written" in capsys.readouterr().out


def test_one_work_from_end_to_end(run, monkeypatch, capsys, tmp_path):
    import gpu_contest
    from layers import Work

    from whet.bench.gpu import place
    from whet.bench.gpu.limits import PeakProbe
    from whet.measure.gpu import events

    monkeypatch.setattr(events, "LEAST_BYTES", 1 << 12)
    monkeypatch.setattr(place, "PeakProbe", lambda driver, context: PeakProbe(driver, context, 1))
    add = Work("add", "add", ((5, 33), (5, 33)))
    how = gpu_contest.How("cuda-emulator", str(tmp_path / "none.db"), False, 2)
    results = run.Results()
    results.measure("memory", add, gpu_contest.compared, how)
    assert results.failed == [] and results.rows["memory"]["add"].ours == ("default",)
    # which of the limits is nearer depends on the machine: the emulator's times are the host's
    said = capsys.readouterr().out
    assert re.search(r"add .* of (bandwidth|peak) \d", said)
    assert "tuned: " in said  # the log has none: the default config is measured
    assert run.facts_of(whet.device("cuda-emulator"))["name"] == "cuda-emulator"
    failed = gpu_contest.compared(Work("add", "add", ((0,), (0,))), how)
    assert isinstance(failed, gpu_contest.Failure) and not failed.lost
    assert "Traceback" in failed.text


def test_works_are_compiled_without_a_gpu():
    from check_works import compiled
    from layers import Work

    from whet.compiler.codegen.cuda import nvrtc

    if not nvrtc.available():
        pytest.skip("needs NVRTC")
    found = compiled(Work("add", "add", ((64, 1000), (64, 1000))), "sm_90")
    (threads,) = found.threads.values()
    assert threads % 32 == 0 and found.spilled == 0 and 0 < found.rate <= 1
    assert f"{threads} threads of " in str(found) and "bound by" in str(found)
    with pytest.raises(whet.WhetError, match="sm_1234"):
        compiled(Work("add", "add", ((4,), (4,))), "sm_1234")
