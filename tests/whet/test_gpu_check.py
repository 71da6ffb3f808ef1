"""`scripts/gpu_check` and its checks: what it installs, what it finds, and what it says."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

import whet

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
def script(folders):
    """`scripts/gpu_check`."""
    loader = SourceFileLoader("gpu_check", str(ROOT / "scripts" / "gpu_check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


def test_a_report_says_what_passed(capsys):
    from check_report import Failed, Report, Short, Skipped, read_items

    report = Report(1.0)

    def failing():
        raise Failed("two wrong\nthe first\nthe second")

    def skipped():
        raise Skipped("no GPU")

    def short():
        raise Short("1 of 2 goals reached")

    report.run("skipped", skipped)
    assert report.status == 2  # nothing was checked
    report.run("fine", lambda: "all\nright")
    assert report.status == 0 and report.passed("fine") and not report.passed("skipped")
    report.run("figures", short)
    assert report.status == 2
    report.run("bad", failing)
    report.run("none", skipped)
    report.run("broken", lambda: 1 // 0)
    out = capsys.readouterr().out.splitlines()
    assert [line[:12].split() for line in out] == [
        ["SKIP", "skippe"], ["PASS", "fine"], ["SHORT", "figure"], ["FAIL", "bad"],
        ["SKIP", "none"], ["FAIL", "broken"],
    ]  # fmt: skip
    assert out[1].endswith("all") and out[3].endswith("two wrong")
    assert report.status == 1
    first = "1 passed, 2 failed, 1 short of goals, 0 too late, 2 skipped; "
    assert report.summary()[0].startswith(first)
    text = "\n".join(report.summary())
    assert "FAILED bad\n  two wrong\n  the first\n" in text and "ZeroDivisionError" in text
    again = Report(0.0, read_items(json.loads(json.dumps(report.to_json()))), report.began)
    assert again.items == report.items and again.left == 0
    again.run("late", lambda: "never")
    assert (again.items[-1].state, again.items[-1].said) == ("LATE", "no time was left")
    late = Report(0.0)
    late.run("device", lambda: "never")
    assert late.status == 2


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
    assert "4 passed, 0 failed, 0 short of goals, 0 too late, 2 skipped" in done.stdout


def test_nothing_checked_is_no_success():
    late = checked("check.py", "--device", "cuda-emulator", "--minutes", "0")
    assert late.returncode == 2 and late.stdout.startswith("LATE  device"), late.stdout
    strange = checked("check.py", "--device", "cuda-emulator", "--only", "kernel softmax")
    assert strange.returncode == 2 and "--only 'kernel softmax'" in strange.stderr


@pytest.mark.parametrize("which", ["default config", "none"])
def test_kernels_that_are_all_pruned_are_no_success(monkeypatch, which):
    import check
    import check_kernels
    from check_report import Failed

    def pruned(*given):
        raise whet.compiler.errors.PrunedError("a kernel", "it needs 9999 threads", "take fewer")

    monkeypatch.setattr(check_kernels.whet, "build", pruned)
    found = check_kernels.checked(
        "add", "float32", whet.device("cuda-emulator"), "cuda", 0.0, False, 0
    )
    assert found.kernels == 0 and found.pruned == 3
    assert all("default config: no device of this kind could run it" in x for x in found.failed)
    failed = found.failed if which == "default config" else []
    told = json.dumps({"kernels": 0, "worst": 0.0, "pruned": 9, "failed": failed})
    monkeypatch.setattr(check, "command", lambda *given, **more: told)
    with pytest.raises(Failed, match="3 wrong" if failed else "no kernel ran; .*9 configs pruned"):
        check.kernels("add", "float32", "cuda-emulator", 1.0)


def test_the_stand_in(tmp_path):
    """By pycuda, on a library in the driver's place."""
    pytest.importorskip("pycuda")
    out = tmp_path / "report.json"
    names = ("launches", "prelude", "streams", "misuse", "ending", "hung", "forked")
    done = checked(
        "check.py", "--device", "stand-in", "--minutes", "3", "--jobs", "2",
        "--only", *(f"runtime {name}" for name in names), "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    items = {i["name"]: i for i in json.loads(out.read_text())["items"]}
    passed = {name for name, item in items.items() if item["state"] == "PASS"}
    assert passed == {"device", *(f"runtime {name}" for name in names)}
    assert "dp4a" in items["runtime prelude"]["said"]
    assert items["runtime forked"]["said"].startswith("TargetError")
    assert "killed after" in items["runtime hung"]["said"]
    assert "us a launch with three arrays" in items["runtime launches"]["said"]
    print(f"on the stand-in: {items['runtime launches']['said']}; on a GPU at most 10")


@pytest.mark.parametrize("part", ["16-bit floats", "dp4a", "shuffles", "trap"])
def test_a_prelude_that_is_wrong_is_found(monkeypatch, part):
    import check_prelude as p

    mistakes = {
        "16-bit floats": ("ROUNDING", "bfloat16(x)", "bfloat16(float(x))"),  # rounded twice
        "dp4a": ("BYTES", "whet_dp4a(a, b, c)", "whet_dp4a(a, b, 0)"),
        "shuffles": ("LANES", "whet_warp_shuffle_up(x, 7, 8)", "whet_warp_shuffle_up(x, 7)"),
        "trap": ("TRAP", "if (n < 0) whet_trap", "if (n < -1) whet_trap"),
    }
    name, right, wrong = mistakes[part]
    assert right in getattr(p, name)
    monkeypatch.setattr(p, name, getattr(p, name).replace(right, wrong))
    with pytest.raises(AssertionError):
        p.PARTS[part](whet.device("cuda-emulator"))


def test_without_the_device_the_report_says_so():
    if whet.cuda(0).exist:
        pytest.skip("there is a GPU")
    done = checked("check.py", "--device", "cuda:0", "--minutes", "1")
    assert done.returncode == 1 and done.stdout.startswith("FAIL  device")
    assert "TargetError" in done.stdout and "Traceback" not in done.stderr


def test_the_script_installs_what_is_missing(tmp_path):
    """Nothing is missing here, so that no network is needed."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "gpu_check"), "--device", "cuda-emulator", "--only",
         "install", "--folder", str(tmp_path / "env"), "--out", str(tmp_path / "out.json")],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    states = {
        i["name"]: i["state"] for i in json.loads((tmp_path / "out.json").read_text())["items"]
    }
    assert states == {
        "install environment": "PASS", "install packages": "PASS", "install pycuda": "SKIP",
        "install peers": "SKIP", "device": "PASS", "figures": "SKIP",
    }  # fmt: skip
    asked = "import sys, whet; print(whet.__file__, sys.prefix)"
    python = str(tmp_path / "env" / "bin" / "python")
    said = subprocess.run([python, "-c", asked], capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout.split() == [str(ROOT / "whet" / "__init__.py"), str(tmp_path / "env")]


def gone(code, out="", err=""):
    return subprocess.CompletedProcess([], code, out, err)


@pytest.mark.parametrize(
    "there, cuda, words",
    [
        (gone(1, "", "ModuleNotFoundError: No module named 'torch'"), 13, []),
        (gone(1, "", "ModuleNotFoundError: No module named 'triton'"), 12, ["torch<2.9"]),
        (gone(1, "", "PyTorch 2.9.0+cpu sees no GPU"), 13, ["--ignore-installed"]),
    ],
)
def test_the_script_installs_peers(script, monkeypatch, there, cuda, words):
    answers, asked = [there, gone(0, "PyTorch 2.9.0, Triton 3.5.0\n")], []
    monkeypatch.setattr(script, "seen", lambda options: answers.pop(0))
    monkeypatch.setattr(script, "run", lambda words: f"| CUDA Version: {cuda}.4     |")
    monkeypatch.setattr(script, "pip", lambda options, *more, **limit: asked.append((more, limit)))
    options = argparse.Namespace(device="cuda:0", only=[], wheels=None)
    assert script.peers(options, 99.0) == "PyTorch 2.9.0, Triton 3.5.0"
    ((given, limits),) = asked
    assert list(given[:-2]) == words and limits == {"seconds": 99.0}
    assert [re.match("[a-z]+", x)[0] for x in given[-2:]] == ["torch", "triton"]


def test_peers_that_cannot_be_had_are_named(script, monkeypatch, tmp_path):
    def refuses(options, *words, seconds):
        (tmp_path / "torch").mkdir()
        raise script.Failed("pip ended with 1")

    options = argparse.Namespace(device="cuda:0", only=[], wheels=tmp_path)
    monkeypatch.setattr(script, "seen", lambda options: gone(1, "", "No module named 'torch'"))
    monkeypatch.setattr(script, "own", lambda options: tmp_path)
    monkeypatch.setattr(script, "pip", refuses)
    with pytest.raises(script.Skipped, match="goals beside peers are not judged: pip ended with 1"):
        script.peers(options, 9.0)
    assert not (tmp_path / "torch").exists()  # half of it would be found, and could not be imported
    options.only = ["kernels", "runtime misuse"]
    with pytest.raises(script.Skipped, match="nothing that was asked for needs them"):
        script.peers(options, 9.0)
    with pytest.raises(script.Failed, match="was not done after 0 s"):
        script.run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.2)
