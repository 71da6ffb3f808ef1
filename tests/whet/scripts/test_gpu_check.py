"""`scripts/gpu_check` and its checks: what it installs, what it finds, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import whet

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests" / "gpu_check"


@pytest.fixture(scope="module", autouse=True)
def folders():
    """The benchmark's modules are no package."""
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


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


def test_kernels_are_checked_by_default_and_at_random():
    import check_kernels

    found = check_kernels.checked(
        "add", "float32", whet.device("cuda-emulator"), "cuda", 600.0, False, 0, draws=1
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
    said = []
    found = check_kernels.checked(
        "add", "float32", whet.device("cuda-emulator"), "cuda", 0.0, False, 0,
        lambda found: said.append(len(found.failed)),
    )  # fmt: skip
    assert found.kernels == 0 and len(found.failed) == 3 and not found.lost
    assert "default config: MeasureError: add" in found.failed[0]
    assert "is wrong by" in found.failed[0] and said == [1, 2, 3]


def test_a_lost_device_ends_the_kernels_of_a_process(monkeypatch):
    import check_kernels

    def poisoned(*given):
        raise OSError("an illegal memory access was encountered")

    monkeypatch.setattr(check_kernels.whet, "build", poisoned)
    monkeypatch.setattr(check_kernels, "is_lost", lambda context: True)
    found = check_kernels.checked(
        "add", "float32", whet.device("cuda-emulator"), "cuda", 9.0, False, 0
    )
    assert found.lost and len(found.failed) == 1 and "OSError: an illegal" in found.failed[0]


def test_all_of_it_on_the_emulator(tmp_path):
    out = tmp_path / "report.json"
    done = checked(
        "check.py", "--device", "cuda-emulator", "--minutes", "20", "--jobs", "2", "--draws", "1",
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


@pytest.mark.parametrize(
    ("cores", "quota", "gigabytes", "of_gpu", "jobs"),
    [
        (32, None, 256, 80, 32),  # one a core
        (32, 5.5, 256, 80, 6),  # of a container
        (64, None, 48, 80, 32),  # this machine's memory
        (64, None, 256, 16, 16),  # the GPU's
        (1, None, 1, 0, 1),
    ],
)
def test_as_many_checks_at_a_time_as_cores_and_memory_do(
    monkeypatch, cores, quota, gigabytes, of_gpu, jobs
):
    import check

    pages = {"SC_PHYS_PAGES": gigabytes << 20, "SC_PAGE_SIZE": 1 << 10}
    monkeypatch.setattr(check, "affinity", lambda: tuple(range(cores)))
    monkeypatch.setattr(check, "cpu_quota", lambda: quota)
    monkeypatch.setattr(check.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(check, "memory_of", lambda device: of_gpu << 30)
    assert check.at_a_time("cuda:0") == jobs
    monkeypatch.setattr(check, "memory_of", lambda device: pytest.fail("it has none of its own"))
    assert check.at_a_time("cuda-emulator") >= jobs
    assert check.parsed([]).jobs is None and check.parsed(["--jobs", "64"]).jobs == 64


def test_memory_of_a_gpu_is_asked_of_the_driver(monkeypatch):
    import check

    from whet.compiler.emulator.standin import folder

    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder()))
    assert check.memory_of("cuda:0") == 16 << 30
    assert check.memory_of("cuda:99") == 8 << 30  # it does not say: few checks, as ever


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
    monkeypatch.setattr(check, "command", lambda *given, **more: check.Ended(0, told, ""))
    with pytest.raises(Failed, match="3 wrong" if failed else "no kernel ran; .*9 configs pruned"):
        check.kernels("add", "float32", "cuda-emulator", 1.0, 60.0)


def test_figures_come_by_default_configs_or_after_a_search(monkeypatch, tmp_path, capsys):
    import check
    from check_report import Failed, Late, Short

    asked, answers = [], []

    def command(script, *words, device, seconds, show):
        asked.append((script, words, round(seconds)))
        show("a line")
        return answers.pop()

    monkeypatch.setattr(check, "command", command)
    reached = "  reached      0.900 (at least 0.85)  matmul"
    answers[:] = [check.Ended(0, reached, "")]
    assert check.figures("cuda:0", 165.0, 0.0, {}) == (
        "1 of 1 goals reached, by default configs (not tuned)"
    )
    assert capsys.readouterr().out == "      a line\n"  # as it comes
    words = check.parsed(["--out", str(tmp_path / "r.json"), "--log", "a.db", "--tune", "4"])
    kept = check.files_of(words)
    unjudged = "not judged  (at least 1)  add: no time was left"
    answers[:] = [check.Ended(0, f"{reached}\n{unjudged}\nno time for memory: add", "")]
    with pytest.raises(Short, match=r"1 of 2 .*, by 4 minutes of search; 1 not judged; no time"):
        check.figures("cuda:0", 645.0, words.tune, kept)
    answers[:] = [check.Ended(None, reached, ""), check.Ended(1, reached, "Traceback\nit broke")]
    with pytest.raises(Failed, match="ended with 1: it broke"):
        check.figures("cuda:0", 645.0, 0.0, {})
    with pytest.raises(Late, match="not done after 655 s"):
        check.figures("cuda:0", 645.0, 0.0, {})
    short = ("--short", "--rounds", "10", "--minutes")
    assert asked[0] == (check.FIGURES, (*short, "2.00", "--trials", "0"), 175)
    assert asked[1][1] == (
        *short, "10.00", "--defaults", "--tuning", "4", "--log", "a.db",
        "--out", str(tmp_path / "r.figures.json"),
    )  # fmt: skip


def test_what_a_lost_process_had_found_is_told(monkeypatch):
    import check
    from check_report import Failed, Late

    lines = "\n".join(json.dumps({"kernels": k, "worst": 1e-7, "pruned": 0}) for k in (1, 2))
    for code, left, kind, said in (
        (-11, 60.0, Failed, r"ended with -11: it broke; 2 kernels right"),
        (None, 1.0, Late, r"not done after 11 s; 2 kernels right"),
        (None, 900.0, Failed, r"not done after 124 s; 2 kernels right"),
    ):
        ended = check.Ended(code, lines + '\n{"kernels": 3', "Traceback\nit broke")
        monkeypatch.setattr(check, "command", lambda *given, ended=ended, **more: ended)
        with pytest.raises(kind, match=said):
            check.kernels("add", "float32", "cuda-emulator", 1.0, left)


def test_the_stand_in(tmp_path):
    """By pycuda, on a library in the driver's place."""
    pytest.importorskip("pycuda")
    out = tmp_path / "report.json"
    names = (
        "launches", "prelude", "streams", "misuse", "ending", "hung", "forked", "peers", "library",
    )  # fmt: skip
    done = checked(
        "check.py", "--device", "stand-in", "--minutes", "20", "--jobs", "2",
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


@pytest.mark.parametrize("part", ["16-bit floats", "dp4a", "transposed bytes", "shuffles", "trap"])
def test_a_prelude_that_is_wrong_is_found(monkeypatch, part):
    import check_prelude as p

    mistakes = {
        "16-bit floats": ("ROUNDING", "bfloat16(x)", "bfloat16(float(x))"),  # rounded twice
        "dp4a": ("BYTES", "whet_dp4a(a, b, c)", "whet_dp4a(a, b, 0)"),
        "transposed bytes": ("TRANSPOSE", "(a, b, c, d)", "(a, c, b, d)"),
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
