"""`benchmarks/gpu_kernels` and `scripts/gpu_check`: works, goals, checks, and what they say."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import whet
from whet.bench.comparison import Comparison
from whet.bench.references import REFERENCES
from whet.bench.turns import Sample
from whet.search_spaces import get_template

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "gpu_kernels"


@pytest.fixture(scope="module", autouse=True)
def folders():
    """The benchmark's modules are no package."""
    added = [str(FOLDER), str(FOLDER.parent)]
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


def row(ours: float, torch: float = 0.0, triton: float = 0.0, stream: float = 1e-9) -> Comparison:
    """A work on a GPU."""
    samples = {"tuned": Sample((ours,))}
    samples |= {"torch NCHW": Sample((torch,))} if torch else {}
    samples |= {"triton": Sample((triton,))} if triton else {}
    return Comparison(
        "w", 100, 1, 1, 1, samples, ("tuned",), frozenset(), (100.0,), (stream,), {}, (), "GPU"
    )


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
    assert cases("cumsum", "float32", large=True) == []


def verdicts(rows):
    from goals import judge

    return {v.what: (round(v.measured, 3), v.least, v.reached) for v in judge(rows)}


def test_goals_follow_the_figures():
    found = verdicts({"matmul": {"4096x4096x4096": row(1.0, 0.86), "1000x1000x1000": row(1, 0.1)}})
    assert found == {"matmul 4096x4096x4096: against cuBLAS": (0.86, 0.85, True)}
    some = {f"c{k}": row(1.0, 1.0 if k < 19 else 0.7) for k in range(20)}
    assert list(verdicts({"resnet50": some}).values()) == [
        (0.982, 0.8, True), (0.7, 0.8, False), (19, 20, False),
    ]  # fmt: skip
    found = verdicts({"memory": {"softmax": row(2.0, 5.0, 1.9, stream=1.9), "sum": row(4.0)}})
    assert found == {
        "softmax: share of the copy bandwidth": (0.95, 0.9, True),
        "softmax: against Triton": (0.95, 1.0, False),
        "sum: share of the copy bandwidth": (0.0, 0.9, False),
    }
    assert verdicts({"matmul": {"4096x4096x4096": row(1.0)}, "resnet50": {"c": row(1.0)}}) == {}
    assert verdicts({"mobilenet_v2": {"d": row(1.0, 9.0)}}) == {}


def test_a_failed_work_is_a_line_and_time_runs_out(run, monkeypatch, capsys):
    def measured(work, device, asked):
        if work.name.startswith("sum"):
            raise whet.MeasureError("sum", "it is wrong")
        return row(1.0, 0.5, 0.9)

    monkeypatch.setattr(run, "measured", measured)
    asked = run.parsed(["--only", "memory", "--trials", "0"])
    results = run.Results()
    run.measure_all(results, whet.cpu(0), asked)
    assert len(results.failed) == 2 and len(results.rows["memory"]) == 8
    assert "FAILED: sum: it is wrong" in capsys.readouterr().out
    results.averages()
    assert "memory: geomean 0.900 x triton's fastest way" in results.lines
    late = run.Results()
    run.measure_all(late, whet.cpu(0), run.parsed(["--short", "--minutes", "-1"]))
    assert not late.rows and len(late.skipped) == 28 and late.to_json()["skipped"] == late.skipped


def test_one_work_from_end_to_end(run, monkeypatch, capsys):
    from layers import Work

    from whet.bench.gpu import clock, contest
    from whet.bench.gpu.limits import PeakProbe

    monkeypatch.setattr(clock, "FLUSHED", 1 << 12)
    monkeypatch.setattr(contest, "PeakProbe", lambda driver, context: PeakProbe(driver, context, 1))
    asked = run.parsed(["--trials", "0", "--rounds", "2"])
    device, results = whet.device("cuda-emulator"), run.Results()
    results.measure("memory", Work("add", "add", ((5, 33), (5, 33))), run.measured, device, asked)
    assert results.failed == [] and results.rows["memory"]["add"].ours == ("default",)
    assert "of bandwidth" in capsys.readouterr().out
    assert run.facts_of(device)["name"] == "cuda-emulator"


def test_a_report_says_what_passed(capsys):
    from check_report import Failed, Report, Skipped, read_items

    report = Report(1.0)

    def failing():
        raise Failed("two wrong\nthe first\nthe second")

    def skipped():
        raise Skipped("no GPU")

    report.run("fine", lambda: "all\nright")
    report.run("bad", failing)
    report.run("none", skipped)
    report.run("broken", lambda: 1 // 0)
    out = capsys.readouterr().out.splitlines()
    assert [line[:12].split() for line in out] == [
        ["PASS", "fine"], ["FAIL", "bad"], ["SKIP", "none"], ["FAIL", "broken"],
    ]  # fmt: skip
    assert out[0].endswith("all") and out[1].endswith("two wrong")
    assert report.failed and report.summary()[0].startswith("1 passed, 2 failed, 1 skipped; ")
    text = "\n".join(report.summary())
    assert "FAILED bad\n  two wrong\n  the first\n" in text and "ZeroDivisionError" in text
    again = Report(0.0, read_items(json.loads(json.dumps(report.to_json()))), report.began)
    assert again.items == report.items and again.left == 0
    again.run("late", lambda: "never")
    assert (again.items[-1].state, again.items[-1].said) == ("SKIP", "no time was left")


def checked(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(FOLDER / words[0]), *words[1:]],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip


def test_kernels_are_checked_by_default_and_at_random(monkeypatch):
    import check_kernels

    monkeypatch.setattr(check_kernels, "DRAWS", 1)
    found = check_kernels.checked(
        "add", "float32", whet.device("cuda-emulator"), "cuda", 60.0, False, 0
    )
    assert found.kernels + found.pruned == 2 * len(check_kernels.cases("add", "float32", False))
    assert found.kernels >= 3 and found.failed == [] and found.worst < 1e-6


def test_wrong_kernels_are_found(monkeypatch):
    import check_kernels
    import numpy as np

    right = check_kernels.expected

    def planted(task, inputs):
        (out,) = right(task, inputs)
        return (out + (out == out.max()) * np.abs(out).max(),)

    monkeypatch.setattr(check_kernels, "expected", planted)
    found = check_kernels.checked(
        "add", "float32", whet.device("cuda-emulator"), "cuda", 0.0, False, 0
    )
    assert found.kernels == 0 and len(found.failed) == 3
    assert "default config: add" in found.failed[0] and "is wrong by" in found.failed[0]


def test_all_of_it_on_the_emulator(tmp_path):
    out = tmp_path / "report.json"
    done = checked(
        "check.py", "--device", "cuda-emulator", "--minutes", "0.3", "--jobs", "2",
        "--only", "kernels transpose", "runtime misuse", "runtime torch", "figures",
        "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    states = {i["name"]: i["state"] for i in json.loads(out.read_text())["items"]}
    assert states == {
        "device": "PASS", "kernels transpose float32": "PASS", "kernels transpose float16": "PASS",
        "runtime misuse": "PASS", "runtime torch": "SKIP", "figures": "SKIP",
    }  # fmt: skip
    assert "4 passed, 0 failed, 2 skipped" in done.stdout


def test_without_the_device_the_report_says_so():
    if whet.cuda(0).exist:
        pytest.skip("there is a GPU")
    done = checked("check.py", "--device", "cuda:0", "--minutes", "1")
    assert done.returncode == 1 and done.stdout.startswith("FAIL  device")
    assert "TargetError" in done.stdout and "Traceback" not in done.stderr


def test_the_script_installs_what_is_missing(tmp_path):
    """Nothing is missing here, so that no network is needed."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "gpu_check"), "--device", "cuda-emulator",
         "--only", "none", "--folder", str(tmp_path / "env"), "--out", str(tmp_path / "out.json")],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    states = {
        i["name"]: i["state"] for i in json.loads((tmp_path / "out.json").read_text())["items"]
    }
    assert states == {
        "install environment": "PASS", "install packages": "PASS", "install pycuda": "SKIP",
        "device": "PASS", "figures": "SKIP",
    }  # fmt: skip
    asked = "import sys, whet; print(whet.__file__, sys.prefix)"
    python = str(tmp_path / "env" / "bin" / "python")
    said = subprocess.run([python, "-c", asked], capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout.split() == [str(ROOT / "whet" / "__init__.py"), str(tmp_path / "env")]


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
